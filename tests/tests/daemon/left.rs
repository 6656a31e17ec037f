//! Orders that policies leave behind: told, ended by the name they are shown with, or taken over.

use super::*;

/// Everything, at each ip:port by itself.
const EVERYTHING: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: all}
spec: {mode: Enforce}
";
const SINGLE: &str = "127.0.0.1:8080";

#[test]
fn an_order_that_outlives_the_name_of_its_destination_is_told_and_ended_by_it() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let daemon = node.start_daemon();
    let retries = |arguments: &str| node.ctl(format!("retries {arguments}").split(' '));
    retries("off --destination 127.0.0.1:8080").expect_success();
    let of_auth = "0 % of retries to destination auth are admitted";
    let shown = |name: &str| {
        let shown = retries(&format!("status --destination {name}"));
        shown.expect_success().stdout
    };
    for name in ["auth", "127.0.0.1:8080"] {
        assert!(shown(name).starts_with(of_auth), "{name}: {}", shown(name));
    }
    assert!(shown("10.9.9.9:1").starts_with("retries are enabled"));

    node.write_policy("auth.yaml", &ENFORCE.replace("name: auth", "name: login"));
    eventually("what outlives its name is told", || {
        heard(
            &node,
            "Order",
            "but no policy names that destination any more",
        )
    });
    let former = shown("auth");
    assert!(former.contains("no policy names"), "{former}");
    assert!(shown("127.0.0.1:8080").starts_with("retries are enabled"));
    retries("on --destination auth").expect_success();
    assert_eq!(request(&node, "GET /v1/orders", "").1, "{\"orders\":[]}");
    let refused = retries("off --destination auth");
    assert!(error(&refused).contains("no policy names it"));

    retries("off --destination login").expect_success();
    daemon.stop().expect_success();
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let orders = request(&node, "GET /v1/orders", "").1;
    let orders: Value = serde_json::from_str(&orders).expect("JSON");
    let number = orders["orders"][0]["destination"].as_str().expect("a name");
    assert!(number.starts_with("group:"), "{orders}");
    assert!(heard(
        &node,
        "Order",
        &format!("retries on --destination {number}")
    ));
    retries(&format!("on --destination {number}")).expect_success();
    assert_eq!(request(&node, "GET /v1/orders", "").1, "{\"orders\":[]}");
}

#[test]
fn an_order_for_an_address_that_joins_a_destination_is_told_and_ended_alone() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("all.yaml", EVERYTHING);
    let _daemon = node.start_daemon();
    let _server = lab.line_server(PORT, Behaviour::Answer);
    let mut caller = lab.caller(PORT, Speech::Line);
    node.ctl(["breaker", "open", SINGLE]).expect_success();
    node.ctl(["retries", "off", "--destination", SINGLE])
        .expect_success();
    assert_eq!(caller.call().outcome, Outcome::Refused);

    let of_more = ENFORCE.replace("127.0.0.1/32", "127.0.0.0/8");
    node.write_policy("auth.yaml", &of_more);
    eventually("what has joined a destination is told", || {
        heard(&node, "Order", "it belongs to destination auth now")
    });
    assert_eq!(caller.call().outcome, Outcome::Ok);
    let shown = node.ctl(["retries", "status"]).expect_success().stdout;
    let words = "nothing will be refused, because it belongs to destination auth now";
    assert!(shown.contains(words), "{shown}");
    let in_json = |command: &[&str]| -> Value {
        let shown = node.ctl(command).expect_success().stdout;
        serde_json::from_str(&shown).expect("JSON")
    };
    let orders = in_json(&["retries", "status", "--json"]);
    assert_eq!(orders["orders"][0]["destination"], SINGLE, "{orders}");
    let asked: Value = serde_json::from_str(&request(&node, "GET /v1/orders", "").1).expect("JSON");
    assert_eq!(orders, asked);
    let caveat = &in_json(&["status", "--json"])["orders"][0]["caveat"];
    assert_eq!(*caveat, orders["orders"][0]["caveat"]);

    node.ctl(["retries", "off", "--destination", "auth"])
        .expect_success();
    node.ctl(["retries", "on", "--destination", SINGLE])
        .expect_success();
    let orders = in_json(&["retries", "status", "--json"]);
    let of_auth = &orders["orders"][1];
    assert_eq!(of_auth["destination"], "auth", "{orders}");
    assert_eq!(of_auth["retries"]["percent"], 0, "{orders}");
    assert!(orders["orders"][0]["retries"].is_null(), "{orders}");
    node.ctl(["breaker", "auto", SINGLE]).expect_success();
    let orders = in_json(&["retries", "status", "--json"]);
    assert_eq!(orders["orders"].as_array().map(Vec::len), Some(1));

    node.remove_policy("auth.yaml");
    eventually("the name of the order for auth is told", || {
        heard(&node, "Order", "order for destination auth stands")
    });
}

#[test]
fn an_order_for_an_address_is_taken_over_by_a_destination_that_is_nothing_else() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("all.yaml", EVERYTHING);
    let _daemon = node.start_daemon();
    let _server = lab.line_server(PORT, Behaviour::Answer);
    let mut caller = lab.caller(PORT, Speech::Line);
    node.ctl(["breaker", "open", SINGLE]).expect_success();
    assert_eq!(caller.call().outcome, Outcome::Refused);

    node.write_policy("auth.yaml", ENFORCE);
    eventually("who has taken over is told", || {
        heard(&node, "Order", "is one for destination auth now")
    });
    assert_eq!(caller.call().outcome, Outcome::Refused);
    let shown = node.ctl(["status"]).expect_success().stdout;
    let held = "ORDERED: breakers of destination auth are held open until 2";
    assert!(
        shown.contains(held) && !shown.contains("nothing will be refused"),
        "{shown}"
    );
    node.ctl(["breaker", "auto", SINGLE]).expect_success();
    assert_eq!(caller.call().outcome, Outcome::Ok);
    assert_eq!(request(&node, "GET /v1/orders", "").1, "{\"orders\":[]}");
}

#[test]
fn an_order_for_an_address_that_a_host_gets_later_is_told() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("all.yaml", EVERYTHING);
    let of_host = "hosts: [auth.internal]";
    node.write_policy(
        "auth.yaml",
        &ENFORCE.replace("cidrs: [127.0.0.1/32]", of_host),
    );
    let _daemon = node.start_daemon();
    node.ctl(["breaker", "open", SINGLE]).expect_success();
    node.name_host("auth.internal", &["127.0.0.1".parse().expect("an address")]);
    // Names are asked for every 10 s.
    let joined = || heard(&node, "Order", "it belongs to destination auth now");
    let deadline = Instant::now() + 2 * NOTICED;
    while !joined() {
        assert!(Instant::now() < deadline, "the address is not told");
        thread::sleep(Duration::from_millis(100));
    }
}
