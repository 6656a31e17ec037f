//! Connections that are not HTTP/1, or no longer: they go on as turns, and nothing on them is a request.

use super::{BUSY, OK, get, on_stage};

#[test]
fn pipelined_requests_pass_unread_and_the_connection_goes_on() {
    on_stage(|stage| {
        // In one segment, and in two.
        let mut wire = stage.wire("1 sent, 1 unread, 3 well");
        wire.say(&[get("/1") + &get("/2")]);
        wire.answer(&[OK, BUSY]);
        wire.exchange(get("/3"), OK);
        wire.exchange(get("/4"), BUSY);
        let mut wire = stage.wire("1 sent, 1 unread, 1 well, 1 status 503");
        wire.say(&[get("/1"), get("/2")]);
        wire.answer(&[BUSY, OK]);
        wire.exchange(get("/3"), OK);
    });
}

#[test]
fn what_follows_an_upgrade_or_a_tunnel_is_no_request() {
    on_stage(|stage| {
        let mut wire = stage.wire("1 sent, 3 well");
        wire.exchange(
            "GET /chat HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        wire.exchange("\u{1}\u{2}frame", BUSY);
        wire.exchange(get("/inner"), BUSY);
        let mut wire = stage.wire("1 sent, 3 well");
        wire.exchange(
            "CONNECT shop:443 HTTP/1.1\r\nHost: shop:443\r\n\r\n",
            "HTTP/1.1 200 Connection established\r\n\r\n",
        );
        wire.exchange(get("/inner"), BUSY);
        wire.exchange(get("/inner"), BUSY);
        // What the server does not go along with stays HTTP.
        let mut wire = stage.wire("3 sent, 2 well, 1 status 503");
        wire.exchange(
            "GET / HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
            OK,
        );
        wire.exchange("CONNECT shop:443 HTTP/1.1\r\nHost: shop:443\r\n\r\n", BUSY);
        wire.exchange(get("/"), OK);
    });
}

#[test]
fn other_protocols_are_turns_and_never_requests() {
    on_stage(|stage| {
        let hello = [
            &[0x16, 3, 1, 0, 100, 1, 0, 0, 96, 3, 3][..],
            &[0x20; 89][..],
        ]
        .concat();
        for (request, answer) in [
            (&b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"[..], &b"$-1\r\n"[..]),
            (b"GET key\r\n", b"$-1\r\n"),
            (b"PING\r\n", b"+PONG\r\n"),
            (&hello, &[0x16, 3, 3, 0, 4, 2, 0, 0, 0]),
            (b"EHLO mail.example\r\n", b"250 shop\r\n"),
            (
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                &[0, 0, 0, 4, 0, 0, 0, 0, 0],
            ),
            (b"get key\r\n", b"END\r\n"),
            (b"SSH-2.0-OpenSSH_10.0\r\n", b"\0\0\x04\x14"),
            (b"\x03select 1", b"\x01\0\0\x01\x01"),
        ] {
            let mut wire = stage.wire("3 well");
            for _ in 0..3 {
                wire.exchange(request, answer);
            }
            // An HTTP/1 request does not bring it back.
            let mut wire = stage.wire("2 well");
            wire.exchange(request, answer);
            wire.exchange(get("/"), BUSY);
        }
        // The server speaks first.
        let mut wire = stage.wire("2 well");
        wire.answer(&["SSH-2.0-OpenSSH_10.0\r\n"]);
        wire.exchange("SSH-2.0-Go\r\n", "\0\0\x04\x14");
        wire.exchange("\0\0\x04\x14", "\0\0\x04\x14");
    });
}
