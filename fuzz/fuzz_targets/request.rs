//! The scan of a request: any bytes, cut anywhere, never panic, are never taken
//! beyond what was offered, and say the same as when they come whole.
#![no_main]

use bytemuck::Zeroable as _;
use governor_core::http::{CHUNK, RequestScan};
use libfuzzer_sys::fuzz_target;

fn feed(scan: &mut RequestScan, bytes: &[u8]) -> usize {
    let mut taken = 0;
    for part in bytes.chunks(CHUNK) {
        let mut chunk = [0xff; CHUNK];
        chunk[..part.len()].copy_from_slice(part);
        let took = scan.chunk(&chunk, part.len() as u32) as usize;
        assert!(took <= part.len());
        taken += took;
        if took < part.len() {
            break;
        }
    }
    taken
}

// The first eight bytes say where the others are cut.
fuzz_target!(|input: &[u8]| {
    let (cuts, bytes) = input.split_at(input.len().min(8));
    let mut whole = RequestScan::zeroed();
    let taken = feed(&mut whole, bytes);
    let mut scan = RequestScan::zeroed();
    let mut took = 0;
    let mut rest = bytes;
    for cut in cuts {
        let (piece, more) = rest.split_at(rest.len().min(usize::from(*cut)));
        took += feed(&mut scan, piece);
        rest = more;
    }
    took += feed(&mut scan, rest);
    assert_eq!((scan, took), (whole, taken));
    let mut chunk = [0; CHUNK];
    let fit = bytes.len().min(CHUNK);
    chunk[..fit].copy_from_slice(&bytes[..fit]);
    scan.body(&chunk, fit as u32);
});
