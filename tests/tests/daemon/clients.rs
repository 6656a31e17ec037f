//! Who talks to the daemon: our command line, and clients that mean it no good.

use super::*;

#[test]
fn bad_requests_get_one_line_of_json_and_change_nothing() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let long = format!(
        "{{\"state\":\"Disabled\",\"destination\":\"{}\"}}",
        "x".repeat(100_000)
    );
    let cases = [
        ("PUT /v1/retries", "", 400),
        ("PUT /v1/retries", "not json", 400),
        (
            "PUT /v1/retries",
            "{\"state\":\"Disabled\",\"unknown\":1}",
            400,
        ),
        (
            "PUT /v1/retries",
            "{\"state\":\"Disabled\",\"for\":\"90000h\"}",
            400,
        ),
        ("PUT /v1/retries", &long, 413),
        ("PUT /v1/shed", "{\"percent\":50}", 400),
        ("PUT /v1/shed", "{\"percent\":1e400,\"for\":\"1m\"}", 400),
        ("PUT /v1/breakers/nobody", "{\"state\":\"Open\"}", 404),
        ("GET /v1/nothing", "", 404),
        ("DELETE /v1/retries", "", 405),
        ("GET /v1/events?follow=maybe", "", 400),
        ("PUT /v1/breakers/%ff", "{\"state\":\"Open\"}", 400),
        ("POST /v1/policy/check", &long, 413),
    ];
    for (head, body, expected) in cases {
        let (status, answer) = request(&node, head, body);
        assert_eq!(
            status,
            expected,
            "{head} {}: {answer}",
            &body[..body.len().min(60)]
        );
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let line = answer["error"].as_str().expect("an error");
        assert!(!line.contains('\n'), "{line}");
    }
    assert_eq!(node.status()["retries"]["state"], "Enabled");
    let (status, checked) = request(&node, "POST /v1/policy/check", "kind: Nonsense\n");
    assert_eq!(status, 200);
    assert!(checked.contains("\"valid\":false"), "{checked}");
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let socket = argument(&node, "--socket");
    let mut silent = Vec::new();
    for _ in 0..200 {
        match UnixStream::connect(&socket) {
            Ok(stream) => silent.push(stream),
            // The queue is full: as many as fit.
            Err(_) => break,
        }
    }
    for stream in silent.iter_mut().step_by(2) {
        let _ = stream.write_all(b"GET /v1/status HTTP/1.1\r\nX-Slow: ");
    }
    drop(silent.split_off(100));
    node.ctl(["status"]).expect_success();
    drop(silent);
    node.ctl(["status"]).expect_success();
}

#[test]
fn commands_without_a_daemon_end_with_three() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    for arguments in [
        vec!["status"],
        vec!["events"],
        vec!["gain"],
        vec!["retries", "status"],
        vec!["breaker", "auto", "x"],
        vec!["shed", "off"],
    ] {
        let ended = node.ctl(&arguments);
        assert_eq!(code(&ended), Some(3), "{arguments:?}: {}", ended.stderr);
        assert!(error(&ended).contains("no daemon"), "{}", ended.stderr);
    }
}

#[test]
fn a_followed_event_arrives_as_it_happens() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let mut command = retry_governor(["events", "--follow", "--json", "--socket"]);
    command.arg(argument(&node, "--socket"));
    let follower = Process::start(command, &node.place());
    thread::sleep(Duration::from_millis(300));
    node.ctl(["retries", "off", "--yes"]).expect_success();
    thread::sleep(Duration::from_millis(300));
    follower.signal(nix::sys::signal::Signal::SIGINT);
    let heard = follower.finish(LIMIT);
    assert!(
        heard
            .stdout
            .contains("retries to every destination are off"),
        "{}",
        heard.stdout
    );
}
