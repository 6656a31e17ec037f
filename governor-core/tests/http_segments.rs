//! Heads made at random, good and bad ones, cut anywhere: the facts do not depend on where.

mod http_common;

use bytemuck::Zeroable;
use governor_core::http::{AnswerScan, RequestScan};
use http_common::{answer, feed_answer, feed_request, request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const NAMES: [&str; 20] = [
    "Host",
    "Content-Length",
    "Transfer-Encoding",
    "amz-sdk-request",
    "x-goog-api-client",
    "traceparent",
    "X-Request-Id",
    "Idempotency-Key",
    "x-envoy-attempt-count",
    "x-stainless-retry-count",
    "grpc-timeout",
    "X-Server-Timeout",
    "Authorization",
    "Upgrade",
    "Retry-After",
    "retry-after-ms",
    "Date",
    "x-should-retry",
    "x-retry-governor",
    "X",
];

const VALUES: [&str; 18] = [
    "",
    "0",
    "12",
    "1.5",
    "100m",
    "chunked",
    "gzip, chunked",
    "attempt=2; max=3",
    "ttl=20260101T000000Z; attempt=1; max=3",
    "gl-go/1 gccl-invocation-id/a-b gccl-attempt-count/2",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "false",
    "a !b\t c",
    "18446744073709551616",
    "é\0\u{1}",
];

fn line() -> impl Strategy<Value = String> {
    let between = select(["", ":", ": ", ":\t ", " : ", ": \r"].as_slice());
    let end = select(["\r\n", "\r\n", "\r\n", "\n", " \r\n", "\r\n ", "\r"].as_slice());
    let name = select(NAMES.as_slice());
    (name, between, select(VALUES.as_slice()), end)
        .prop_map(|(name, between, value, end)| format!("{name}{between}{value}{end}"))
}

fn head(starts: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let spoilt = (any::<prop::sample::Index>(), any::<u8>());
    let parts = (select(starts), vec(line(), 0..8), "[ -~]{0,40}");
    (parts, prop::option::weighted(0.3, spoilt)).prop_map(|((start, lines, rest), spoilt)| {
        let mut bytes = format!("{start}{}\r\n{rest}", lines.concat()).into_bytes();
        if let Some((at, byte)) = spoilt {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

const REQUESTS: [&str; 7] = [
    "GET / HTTP/1.1\r\n",
    "POST /a/b?c=d HTTP/1.0\r\n",
    "PROPFIND http://a.example/ HTTP/1.1\n",
    "\r\n\r\nCONNECT a.example:443 HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "GET /a b HTTP/1.1\r\n",
    "GET /\r\n",
];

const ANSWERS: [&str; 5] = [
    "HTTP/1.1 503 Service Unavailable\r\n",
    "HTTP/1.0 200\r\n",
    "\r\nHTTP/1.1 429 \n",
    "HTTP/1.1 100 Continue\r\n",
    "HTTP/1.1  12\r\n",
];

/// Pieces of it, of these lengths.
fn pieces<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, rest) = bytes.split_at((*length).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_request_is_read_alike_however_it_is_cut(
        bytes in head(&REQUESTS),
        lengths in vec(0_usize..70, 0..12),
    ) {
        let (whole, taken) = request(&bytes);
        let mut scan = RequestScan::zeroed();
        let took: usize = pieces(&bytes, &lengths)
            .into_iter()
            .map(|piece| feed_request(&mut scan, piece))
            .sum();
        prop_assert_eq!((scan, took), (whole, taken));
    }

    #[test]
    fn an_answer_is_read_alike_however_it_is_cut(
        bytes in head(&ANSWERS),
        lengths in vec(0_usize..70, 0..12),
    ) {
        let (whole, taken) = answer(&bytes);
        let mut scan = AnswerScan::zeroed();
        let took: usize = pieces(&bytes, &lengths)
            .into_iter()
            .map(|piece| feed_answer(&mut scan, piece))
            .sum();
        prop_assert_eq!((scan, took), (whole, taken));
    }

    #[test]
    fn any_bytes_are_read_alike_however_they_are_cut(
        bytes in vec(any::<u8>(), 0..200),
        lengths in vec(0_usize..70, 0..12),
    ) {
        let (whole, taken) = request(&bytes);
        let mut scan = RequestScan::zeroed();
        let took: usize = pieces(&bytes, &lengths)
            .into_iter()
            .map(|piece| feed_request(&mut scan, piece))
            .sum();
        prop_assert_eq!((scan, took), (whole, taken));
    }
}
