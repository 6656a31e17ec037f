//! What a request says.

use httparse::{EMPTY_HEADER, Error, Status};

use crate::storm::wire;

/// The caller of a request that does not name one.
const UNNAMED: &str = "unnamed";

/// What the service looks at in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do, as `GET`.
    pub method: String,
    /// With what.
    pub target: String,
    /// `User-Agent`.
    pub caller: String,
    /// The caller wants the connection closed after the answer.
    pub is_last: bool,
}

impl Request {
    /// The first whole request in `bytes`, and its length.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Error> {
        let mut headers = [EMPTY_HEADER; wire::MAX_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let Status::Complete(length) = head.parse(bytes)? else {
            return Ok(None);
        };
        let Some(length) = wire::whole(bytes, length, head.headers) else {
            return Ok(None);
        };
        let is_old = head.version == Some(0);
        let request = Self {
            method: head.method.unwrap_or_default().to_owned(),
            target: head.path.unwrap_or_default().to_owned(),
            caller: wire::value(head.headers, "user-agent")
                .unwrap_or(UNNAMED)
                .to_owned(),
            is_last: wire::says(head.headers, "connection", "close")
                || is_old && !wire::says(head.headers, "connection", "keep-alive"),
        };
        Ok(Some((request, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_with_its_body() {
        let bytes = b"POST /op/1 HTTP/1.1\r\nUser-Agent: edge\r\nContent-Length: 4\r\n\r\nbodyGET";
        let read = Request::read(bytes).unwrap();
        let request = Request {
            method: "POST".to_owned(),
            target: "/op/1".to_owned(),
            caller: "edge".to_owned(),
            is_last: false,
        };
        assert_eq!(read, Some((request, bytes.len() - 3)));
        assert_eq!(Request::read(&bytes[..bytes.len() - 4]).unwrap(), None);
        assert!(Request::read(b"\x16\x03\x01\x02").is_err());
    }

    #[test]
    fn the_last_on_a_connection_says_so() {
        let is_last = |head: &str| Request::read(head.as_bytes()).unwrap().unwrap().0.is_last;
        assert!(!is_last("GET / HTTP/1.1\r\n\r\n"));
        assert!(is_last("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
        assert!(is_last("GET / HTTP/1.0\r\n\r\n"));
        assert!(!is_last("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }
}
