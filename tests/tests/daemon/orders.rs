//! What operators order.

use super::*;

#[test]
fn retries_off_is_confirmed_shown_and_taken_back() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let unconfirmed = node.ctl(["retries", "off"]);
    assert_eq!(code(&unconfirmed), Some(2));
    assert!(error(&unconfirmed).contains("--yes"));

    let off = node
        .ctl(["retries", "off", "--yes", "--for", "10m"])
        .expect_success();
    assert!(off.stdout.contains("off for 10m"), "{}", off.stdout);
    let status = node.status();
    assert_eq!(
        (&status["retries"]["state"], &status["retries"]["percent"]),
        (&Value::from("Disabled"), &Value::from(0))
    );
    assert!(status["retries"]["expiresAt"].is_string());
    let shown = node.ctl(["retries", "status"]).expect_success();
    assert!(shown.stdout.contains("0 % of retries"), "{}", shown.stdout);
    let orders: Vec<_> = events(&node)
        .into_iter()
        .filter(|event| event["kind"] == "Order")
        .collect();
    assert_eq!(orders[0]["by"]["uid"], 0, "{orders:?}");
    assert!(
        orders[0]["by"]["pid"].is_number() && orders[0]["until"].is_string(),
        "{orders:?}"
    );

    node.ctl(["retries", "on"]).expect_success();
    assert_eq!(node.status()["retries"]["state"], "Enabled");
}

#[test]
fn retries_that_were_off_return_in_stages() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let order = "{\"state\":\"Disabled\",\"for\":\"1s\",\"stages\":[10,50],\"every\":\"2s\"}";
    assert_eq!(request(&node, "PUT /v1/retries", order).0, 200);
    let stage = || {
        let status = node.status();
        (
            status["retries"]["state"].clone(),
            status["retries"]["percent"].clone(),
        )
    };
    assert_eq!(stage(), ("Disabled".into(), 0.into()));
    for (state, percent) in [("Restoring", 10), ("Restoring", 50), ("Enabled", 100)] {
        eventually("the next stage", || {
            stage() == (state.into(), percent.into())
        });
    }
}

#[test]
fn an_order_that_nothing_will_come_of_says_so() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", &ENFORCE.replace("Enforce", "Audit"));
    let _daemon = node.start_daemon();
    let ordered = node
        .ctl(["breaker", "open", "127.0.0.1:8080"])
        .expect_success();
    assert!(
        ordered.stdout.contains("destination auth")
            && ordered.stdout.contains("nothing will be refused"),
        "{}",
        ordered.stdout
    );
    node.ctl(["retries", "off", "--destination", "auth"])
        .expect_success();
    let shown = node.ctl(["retries", "status"]).expect_success().stdout;
    assert!(shown.contains("nothing will be refused"), "{shown}");
}

#[test]
fn shedding_everything_refuses_first_tries_until_it_is_off() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let _server = lab.line_server(PORT, Behaviour::Answer);
    let mut caller = lab.caller(PORT, Speech::Line);
    assert_eq!(caller.call().outcome, Outcome::Ok);
    assert_eq!(
        code(&node.ctl(["shed", "100"])),
        Some(2),
        "shedding needs an end"
    );
    node.ctl(["shed", "100", "--destination", "auth", "--for", "10m"])
        .expect_success();
    assert_eq!(caller.call().outcome, Outcome::Refused);
    let status = node.status();
    assert_eq!(destination_of(&status, "auth")["denied"]["shed"], 1);
    node.ctl(["shed", "off", "--destination", "auth"])
        .expect_success();
    assert_eq!(caller.call().outcome, Outcome::Ok);
}

#[test]
fn an_order_ends_by_itself_and_is_then_forgotten() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let _server = lab.line_server(PORT, Behaviour::Answer);
    let mut caller = lab.caller(PORT, Speech::Line);
    node.ctl(["breaker", "open", "auth", "--for", "1s"])
        .expect_success();
    assert_eq!(caller.call().outcome, Outcome::Refused);
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(caller.call().outcome, Outcome::Ok);
    eventually("the end is told", || heard(&node, "Order", "has ended"));
    assert_eq!(request(&node, "GET /v1/orders", "").1, "{\"orders\":[]}");
}

#[test]
fn a_breaker_that_is_held_closed_lets_a_storm_through() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let unlimited = "spec:\n  concurrency: {mode: Disabled}\n  retryConstraint: {mode: Disabled}";
    node.write_policy("auth.yaml", &ENFORCE.replace("spec:", unlimited));
    let _daemon = node.start_daemon();
    node.ctl(["breaker", "close", "auth"]).expect_success();
    let syns = lab.count_syns(PORT);
    assert_eq!((storm(&lab), syns.count()), (40, 40));
    node.ctl(["breaker", "auto", "auth"]).expect_success();
    storm(&lab);
    let syns = lab.count_syns(PORT);
    storm(&lab);
    assert!(syns.count() < 10, "{} passed", syns.count());
}

#[test]
fn orders_for_what_is_not_there_are_refused_in_one_line() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    for arguments in [
        ["breaker", "open", "nobody", "--for", "1m"],
        ["shed", "10", "--for=1m", "--destination", "nobody"],
        ["shed", "10", "--for=1m", "--workload", "/nobody.service"],
        ["events", "--json", "--follow", "--destination", "nobody"],
        ["retries", "status", "--yes", "--destination", "nobody"],
    ] {
        let refused = node.ctl(arguments);
        assert_eq!(code(&refused), Some(1), "{arguments:?}");
        assert!(error(&refused).contains("nobody"), "{}", refused.stderr);
    }
}

#[test]
fn what_is_ordered_is_seen_in_the_status_by_whoever_comes_later() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let _server = lab.line_server(PORT, Behaviour::Answer);
    let mut caller = lab.caller(PORT, Speech::Line);
    assert_eq!(caller.call().outcome, Outcome::Ok);
    node.ctl(["breaker", "open", "auth", "--for", "5m"])
        .expect_success();
    assert_eq!(caller.call().outcome, Outcome::Refused);
    node.ctl(["shed", "50", "--destination", "auth", "--for", "10m"])
        .expect_success();
    let order = node.status()["orders"][0].clone();
    assert_eq!(order["destination"], "auth", "{order}");
    assert_eq!(order["shed"]["percent"], 50.0, "{order}");
    assert_eq!(order["breaker"]["state"], "Open", "{order}");
    let table = node.ctl(["status"]).expect_success().stdout;
    for words in [
        "ORDERED: 50 % of attempts to destination auth are shed until 2",
        "ORDERED: breakers of destination auth are held open until 2",
        " held ",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let retries = node.ctl(["retries", "status"]).expect_success().stdout;
    assert!(retries.contains("other orders are in force"), "{retries}");
    eventually("who refused it is told", || {
        heard(&node, "Denied", "an operator holds its breaker open")
    });
}

#[test]
fn an_order_taken_back_without_a_name_is_taken_back_everywhere() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    node.ctl(["shed", "50", "--destination", "auth", "--for", "10m"])
        .expect_success();
    node.ctl(["retries", "off", "--destination", "auth"])
        .expect_success();
    let uncalled = node.ctl(["status", "auth"]).expect_success().stdout;
    assert!(uncalled.contains("are shed until"), "{uncalled}");
    node.ctl(["shed", "off"]).expect_success();
    let orders = request(&node, "GET /v1/orders", "").1;
    assert!(
        orders.contains("retries") && !orders.contains("shed"),
        "{orders}"
    );
    node.ctl(["retries", "on"]).expect_success();
    assert_eq!(request(&node, "GET /v1/orders", "").1, "{\"orders\":[]}");
}

#[test]
fn an_order_while_nothing_is_attached_says_so() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
    let ordered = node
        .ctl(["shed", "50", "--destination", "auth", "--for", "10m"])
        .expect_success();
    assert!(
        ordered.stdout.contains("the programs are not attached"),
        "{}",
        ordered.stdout
    );
    let table = node.ctl(["status"]).expect_success().stdout;
    assert!(table.contains("NOT ATTACHED: "), "{table}");
}

#[test]
fn a_full_disk_is_an_error_in_one_line() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    for arguments in ["shed 5 --destination auth --for 10s", "retries status"] {
        let socket = argument(&node, "--socket");
        let mut command = std::process::Command::new("sh");
        command
            .args([
                "-c",
                &format!("exec \"$0\" {arguments} --socket \"$1\" > /dev/full"),
            ])
            .arg(retry_governor(["retries"]).get_program())
            .arg(socket);
        let full = process::run(command, &node.place(), LIMIT);
        assert_eq!(code(&full), Some(1), "{}", full.stderr);
        assert!(error(&full).contains("No space left"), "{}", full.stderr);
    }
}

#[test]
fn what_a_node_wide_order_refuses_is_not_called_enabled_at_a_destination() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let retries = |arguments: &str| node.ctl(format!("retries {arguments}").split(' '));
    let node_wide = "still off there: node-wide order until 2";
    retries("off --yes --for 10m").expect_success();
    for (arguments, way_out) in [
        ("on --destination auth", "(`retry-governor retries on`)"),
        (
            "restore --destination auth",
            "(`retry-governor retries restore`)",
        ),
    ] {
        let refused = retries(arguments);
        assert_eq!(code(&refused), Some(1), "{arguments}: {}", refused.stdout);
        for words in [node_wide, way_out] {
            assert!(
                error(&refused).contains(words),
                "{arguments}: {}",
                refused.stderr
            );
        }
    }
    let of_auth = retries("status --destination auth").expect_success().stdout;
    assert!(of_auth.starts_with("0 % of retries to every"), "{of_auth}");

    retries("off --destination auth --for 20m").expect_success();
    let restored = retries("restore --destination auth --stages 100");
    assert_eq!(code(&restored), Some(1), "{}", restored.stdout);
    assert!(error(&restored).contains(node_wide), "{}", restored.stderr);
    let strictest = "0 % of retries to destination auth are admitted: node-wide order until 2";
    for command in [["retries", "status"], ["status", "auth"]] {
        let shown = node.ctl(command).expect_success().stdout;
        assert!(shown.contains(strictest), "{command:?}: {shown}");
    }
    retries("on").expect_success();
    retries("on --destination auth").expect_success();
}
