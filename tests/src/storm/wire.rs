//! Where messages end.

use httparse::{EMPTY_HEADER, Header, Request, Response, Status};

/// More headers than any client of a test sends.
pub(crate) const MAX_HEADERS: usize = 100;

/// The length of the first whole HTTP request in `bytes`.
pub fn http_request_length(bytes: &[u8]) -> Option<usize> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Complete(head)) => whole(bytes, head, request.headers),
        _ => None,
    }
}

/// The header of an answer that the governor gave in the service's place
/// (`governor_core::refusal`).
const DENIAL: &str = "x-retry-governor";

/// What an answer says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its bytes.
    pub length: usize,
    /// Its status.
    pub status: u16,
    /// It is the last on its connection.
    pub is_last: bool,
    /// The governor gave it.
    pub is_denial: bool,
}

/// The first whole HTTP answer in `bytes`.
pub fn http_answer(bytes: &[u8]) -> Option<Answer> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut response = Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(Status::Complete(head)) => Some(Answer {
            length: whole(bytes, head, response.headers)?,
            status: response.code?,
            is_last: says(response.headers, "connection", "close"),
            is_denial: value(response.headers, DENIAL).is_some(),
        }),
        _ => None,
    }
}

/// The length of the first whole line in `bytes`, its end included.
pub fn line_length(bytes: &[u8]) -> Option<usize> {
    bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .map(|end| end + 1)
}

/// The length of a message whose head is so long: with its body, of either framing.
pub(crate) fn whole(bytes: &[u8], head: usize, headers: &[Header<'_>]) -> Option<usize> {
    if says(headers, "transfer-encoding", "chunked") {
        return chunked(bytes, head);
    }
    let body = match value(headers, "content-length") {
        Some(length) => length.parse().ok()?,
        None => 0,
    };
    let end = head.checked_add(body)?;
    (bytes.len() >= end).then_some(end)
}

/// The end of a chunked body that begins at `at`. Clients of tests send no trailers.
fn chunked(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let Ok(Status::Complete((line, size))) = httparse::parse_chunk_size(bytes.get(at..)?)
        else {
            return None;
        };
        at = at.checked_add(line)?.checked_add(size.try_into().ok()?)?;
        if bytes.get(at..at + 2)? != b"\r\n" {
            return None;
        }
        at += 2;
        if size == 0 {
            return Some(at);
        }
    }
}

pub(crate) fn says(headers: &[Header<'_>], name: &str, word: &str) -> bool {
    value(headers, name).is_some_and(|value| value.eq_ignore_ascii_case(word))
}

pub(crate) fn value<'h>(headers: &[Header<'h>], name: &str) -> Option<&'h str> {
    let found = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(name))?;
    str::from_utf8(found.value).ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let request = b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody";
        assert_eq!(http_request_length(request), Some(request.len()));
        assert_eq!(http_request_length(&request[..request.len() - 1]), None);
        assert_eq!(http_request_length(b"GET / HTTP/1.1\r\n\r\nGET"), Some(18));
    }

    #[test]
    fn a_chunked_answer_ends_with_its_empty_chunk() {
        let answer =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nHTTP";
        let whole = answer.len() - 4;
        assert_eq!(http_answer(answer).map(|it| it.length), Some(whole));
        assert_eq!(http_answer(&answer[..whole - 1]), None);
    }

    #[test]
    fn an_answer_tells_its_status_and_whether_it_is_the_last() {
        let answer = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let told = Answer {
            length: answer.len(),
            status: 503,
            is_last: true,
            is_denial: false,
        };
        assert_eq!(http_answer(answer), Some(told));
        assert_eq!(http_answer(b"HTTP/1.1 20"), None);
    }
    #[test]
    fn the_governors_own_answer_is_told_from_a_services() {
        let refusal = governor_core::refusal::Refusal::new(1, 3);
        let mut words = refusal.text.words;
        words[governor_core::refusal::SECONDS as usize / 4] = refusal.seconds;
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        let told = Answer {
            length: refusal.text.length as usize,
            status: 503,
            is_last: true,
            is_denial: true,
        };
        assert_eq!(http_answer(bytes), Some(told));
    }
}
