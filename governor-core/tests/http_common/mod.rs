//! Heads, read whole and in pieces.
#![allow(dead_code, reason = "each test file uses a part")]

use bytemuck::Zeroable;
use governor_core::http::{AnswerScan, CHUNK, RequestScan, state};

/// A chunk that holds these bytes, and others behind them that nobody may read.
pub fn chunk(bytes: &[u8]) -> [u8; CHUNK] {
    let mut chunk = [b'\n'; CHUNK];
    chunk[..bytes.len()].copy_from_slice(bytes);
    chunk
}

fn feed<S>(scan: &mut S, bytes: &[u8], read: impl Fn(&mut S, &[u8; CHUNK], u32) -> u32) -> usize {
    let mut taken = 0;
    for part in bytes.chunks(CHUNK) {
        let count = u32::try_from(part.len()).expect("a chunk is short");
        let took = read(scan, &chunk(part), count);
        assert!(took <= count, "took {took} of {count}");
        taken += took as usize;
        if took < count {
            break;
        }
    }
    taken
}

/// Feeds bytes to a scan; how many it took.
pub fn feed_request(scan: &mut RequestScan, bytes: &[u8]) -> usize {
    feed(scan, bytes, RequestScan::chunk)
}

/// The same. It stops after the status: one call more.
pub fn feed_answer(scan: &mut AnswerScan, bytes: &[u8]) -> usize {
    let known = scan.status != 0;
    let taken = feed(scan, bytes, AnswerScan::chunk);
    if !known && scan.status != 0 && scan.state == state::HEAD {
        return taken + feed(scan, &bytes[taken..], AnswerScan::chunk);
    }
    taken
}

/// A scan of all of it, and how many bytes it took.
pub fn request(bytes: &[u8]) -> (RequestScan, usize) {
    let mut scan = RequestScan::zeroed();
    let taken = feed_request(&mut scan, bytes);
    (scan, taken)
}

/// The same of an answer.
pub fn answer(bytes: &[u8]) -> (AnswerScan, usize) {
    let mut scan = AnswerScan::zeroed();
    let taken = feed_answer(&mut scan, bytes);
    (scan, taken)
}

/// A complete request.
#[track_caller]
pub fn read(bytes: &[u8]) -> RequestScan {
    let (scan, taken) = request(bytes);
    assert_eq!(
        scan.state,
        state::DONE,
        "{}",
        String::from_utf8_lossy(bytes)
    );
    assert!(taken <= bytes.len());
    scan
}

/// A complete request for `/` with these header lines.
#[track_caller]
pub fn with(headers: &str) -> RequestScan {
    read(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes())
}

/// A complete failure with these header lines.
#[track_caller]
pub fn failure(headers: &str) -> AnswerScan {
    let (scan, _) = answer(format!("HTTP/1.1 503 Busy\r\n{headers}\r\n").as_bytes());
    assert_eq!((scan.state, scan.status), (state::DONE, 503), "{headers}");
    scan
}
