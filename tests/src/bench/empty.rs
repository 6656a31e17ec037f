//! The floor: programs of two instructions, attached beside ours. What the kernel reports for them is
//! the cost of its two time stamps.

use anyhow::{Context, Result};
use aya::{Ebpf, EbpfLoader};
use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

/// `r0 = 1; exit`.
const LET_GO: [u8; 16] = [0xb7, 0, 0, 0, 1, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

/// `r0 = -1; exit`: to the next program at the device.
const NEXT: [u8; 16] = [
    0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x95, 0, 0, 0, 0, 0, 0, 0,
];

/// `r0 = 0; exit`: what the law's test program answers when it ran.
const RAN: [u8; 16] = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

/// Names as those of our programs, in the sections that say where each belongs.
const PROGRAMS: [(&str, &str, [u8; 16]); 6] = [
    ("connect4", "cgroup/connect4", LET_GO),
    ("sock_ops", "sockops", LET_GO),
    ("skb_egress", "cgroup_skb/egress", LET_GO),
    ("skb_ingress", "cgroup_skb/ingress", LET_GO),
    ("act_egress", "classifier", NEXT),
    ("law", "classifier", RAN),
];

/// One empty program for each of ours that is measured, under the same name.
pub fn load() -> Result<Ebpf> {
    EbpfLoader::new()
        .load(&elf()?)
        .context("the empty programs do not load")
}

fn elf() -> Result<Vec<u8>> {
    let mut elf = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let license = elf.add_section(Vec::new(), b"license".to_vec(), SectionKind::Data);
    elf.append_section_data(license, b"GPL\0", 1);
    for (name, section, code) in PROGRAMS {
        let section = elf.add_section(Vec::new(), section.into(), SectionKind::Text);
        let value = elf.append_section_data(section, &code, 8);
        elf.add_symbol(Symbol {
            name: name.into(),
            value,
            size: code.len() as u64,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }
    elf.write().context("the empty programs can not be written")
}
