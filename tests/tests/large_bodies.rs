//! Requests behind large bodies. lo sends a body of IPv6 in packets beyond 64 kB, with a header that
//! no other packet has: a body that is not seen to its end hides the next request.

use std::process::Command;
use std::time::Duration;

use governor_tests::governor::exec;
use governor_tests::lab::Lab;

const LIMIT: Duration = Duration::from_secs(30);

/// Five posts of 300 kB over one connection, to a server of its own.
const POSTS: &str = r"
import http.client, http.server, socket, sys, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(204)
        self.end_headers()
    def log_message(self, *arguments):
        pass

class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET

server = Server((sys.argv[1], 8080), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = http.client.HTTPConnection(sys.argv[1], 8080)
for number in range(5):
    client.request('POST', f'/{number}', body=b'x' * 300_000)
    client.getresponse().read()
";

#[test]
fn each_request_behind_a_large_body_is_seen() {
    let lab = Lab::new();
    for (address, destination) in [("127.0.0.1", "127.0.0.1:8080"), ("::1", "[::1]:8080")] {
        let mut client = Command::new("python3");
        client.args(["-c", POSTS, address]);
        let executed = exec(&lab, &[], &client, LIMIT);
        assert_eq!(executed.code(), 0, "{}", executed.finished.stderr);
        let seen = executed.destination(destination);
        assert_eq!(seen["requests"]["sent"], 5, "{seen}");
        assert_eq!(seen["requests"]["unread"], 0, "{seen}");
    }
}
