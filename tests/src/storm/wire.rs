//! Where messages end.

use httparse::{EMPTY_HEADER, Header, Request, Response, Status};

/// More headers than any client of a test sends.
const MAX_HEADERS: usize = 100;

/// The length of the first whole HTTP request in `bytes`.
pub fn http_request_length(bytes: &[u8]) -> Option<usize> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Complete(head)) => whole(bytes, head, request.headers),
        _ => None,
    }
}

/// The length and the status of the first whole HTTP answer in `bytes`.
pub fn http_answer(bytes: &[u8]) -> Option<(usize, u16)> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut response = Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(Status::Complete(head)) => Some((whole(bytes, head, response.headers)?, response.code?)),
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

fn whole(bytes: &[u8], head: usize, headers: &[Header<'_>]) -> Option<usize> {
    let length = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let body = match length {
        Some(header) => str::from_utf8(header.value).ok()?.trim().parse().ok()?,
        None => 0,
    };
    let end = head.checked_add(body)?;
    (bytes.len() >= end).then_some(end)
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
    fn an_answer_tells_its_status() {
        let answer = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(http_answer(answer), Some((answer.len(), 503)));
        assert_eq!(http_answer(b"HTTP/1.1 20"), None);
    }
}
