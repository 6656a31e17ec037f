//! The kernel object that ships: cut out of the `retry-governor` binary, so that nothing else can be
//! tested by mistake.

use std::fs;
use std::sync::OnceLock;

use governor_tests::artifact;

/// ELF, 64 bits, little-endian.
const MAGIC: &[u8] = b"\x7fELF\x02\x01\x01";
/// `e_machine` of BPF.
const BPF: u16 = 247;
/// Where the header says where the section headers are (`e_shoff`), and their size and number.
const SECTIONS: usize = 40;
const SECTION_SIZE: usize = 58;
const SECTION_COUNT: usize = 60;

/// The one BPF object in the binary.
pub fn object() -> &'static [u8] {
    static OBJECT: OnceLock<Vec<u8>> = OnceLock::new();
    OBJECT.get_or_init(cut_out)
}

fn cut_out() -> Vec<u8> {
    let path = artifact::program("retry-governor").unwrap();
    let binary = fs::read(&path).unwrap();
    // The binary is an ELF file itself; the object begins at a multiple of 8 (aya aligns it to 32).
    let starts = (8..binary.len() - 64).step_by(8);
    let mut found = starts.filter(|at| {
        let bytes = &binary[*at..];
        bytes.starts_with(MAGIC) && u16::from_le_bytes([bytes[18], bytes[19]]) == BPF
    });
    let start = found
        .next()
        .unwrap_or_else(|| panic!("no kernel object in {}", path.display()));
    assert_eq!(found.next(), None, "a second kernel object");
    let bytes = &binary[start..];
    // What writes the object puts the section headers at its end.
    let headers = u64::from_le_bytes(bytes[SECTIONS..SECTIONS + 8].try_into().unwrap());
    let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let end = usize::try_from(headers).unwrap() + half(SECTION_SIZE) * half(SECTION_COUNT);
    bytes[..end].to_vec()
}
