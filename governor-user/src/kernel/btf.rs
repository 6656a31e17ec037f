//! Where two fields lie in this kernel's `struct sock`: why a connection ended
//! (`sk_err`) and who closed it (`sk_shutdown`). Neither is in `bpf_sock_ops`.
//!
//! aya and its object crate keep BTF members to themselves, and a relocation in
//! the programs would make kernel BTF a hard requirement (cilium#48778: it kept
//! nodes without BTF from starting). So this reads the one struct itself; without
//! BTF the offsets stay 0 and the programs judge by the other fields.
//!
//! The format: Documentation/bpf/btf.rst.

use std::fs;

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;

/// Byte offsets in `struct sock`; 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offsets {
    pub sk_err: u32,
    pub sk_shutdown: u32,
}

/// Those of the running kernel.
pub(super) fn offsets() -> Offsets {
    fs::read("/sys/kernel/btf/vmlinux")
        .ok()
        .and_then(|btf| parse(&btf))
        .unwrap_or_default()
}

fn parse(btf: &[u8]) -> Option<Offsets> {
    let blob = Blob(btf);
    if blob.u32(0)? as u16 != MAGIC {
        return None;
    }
    let header = blob.u32(4)? as usize;
    let (types, types_len) = (blob.u32(8)? as usize, blob.u32(12)? as usize);
    let (strings, strings_len) = (blob.u32(16)? as usize, blob.u32(20)? as usize);
    let strings = btf.get(header + strings..)?.get(..strings_len)?;
    let types = Blob(btf.get(header + types..)?.get(..types_len)?);
    let name = |offset: u32| {
        let text = strings.get(offset as usize..)?;
        text.split(|byte| *byte == 0).next()
    };

    let mut at = 0;
    while at < types.0.len() {
        let info = types.u32(at + 4)?;
        let (count, kind) = (info & 0xffff, info >> 24 & 0x1f);
        let is_sock = kind == KIND_STRUCT && name(types.u32(at)?)? == b"sock";
        if !is_sock {
            at += 12 + trailing(kind, count)?;
            continue;
        }
        let mut offsets = Offsets::default();
        for member in 0..count as usize {
            let member = at + 12 + member * 12;
            // With the kind flag the upper byte is the size of a bit field.
            let bits = match info >> 31 {
                0 => types.u32(member + 8)?,
                _ => types.u32(member + 8)? & 0x00ff_ffff,
            };
            match name(types.u32(member)?)? {
                b"sk_err" => offsets.sk_err = bits / 8,
                b"sk_shutdown" => offsets.sk_shutdown = bits / 8,
                _ => {}
            }
        }
        return Some(offsets);
    }
    None
}

/// Bytes after the three words of a type.
fn trailing(kind: u32, count: u32) -> Option<usize> {
    let count = count as usize;
    match kind {
        // int, var, decl tag
        1 | 14 | 17 => Some(4),
        // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
        2 | 7..=12 | 16 | 18 => Some(0),
        // array
        3 => Some(12),
        // struct, union, data section, enum64
        4 | 5 | 15 | 19 => Some(count * 12),
        // enum, function prototype
        6 | 13 => Some(count * 8),
        // A kind of a later kernel: its length is unknown.
        _ => None,
    }
}

struct Blob<'a>(&'a [u8]);

impl Blob<'_> {
    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernels_offsets_are_plausible_where_it_has_btf() {
        let Ok(btf) = fs::read("/sys/kernel/btf/vmlinux") else {
            return;
        };
        let offsets = parse(&btf).expect("struct sock is in vmlinux");
        // sk_err is an int in the middle of struct sock (284 in 6.18).
        assert!(
            (100..1000).contains(&offsets.sk_err) && offsets.sk_err.is_multiple_of(4),
            "{offsets:?}"
        );
        assert!((100..1000).contains(&offsets.sk_shutdown), "{offsets:?}");
    }

    #[test]
    fn what_is_not_btf_has_no_offsets() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(&[0; 64]), None);
        let mut truncated = MAGIC.to_ne_bytes().to_vec();
        truncated.extend([1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0]);
        assert_eq!(parse(&truncated), None);
    }
}
