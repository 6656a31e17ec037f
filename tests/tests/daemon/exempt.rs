//! Who is never judged unless a policy names it.

use super::*;
use governor_tests::scratch::Scratch;

/// Everything, at each ip:port by itself.
const EVERYTHING: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: all}
spec: {mode: Enforce}
";

fn kubeconfig(server: &str) -> String {
    format!("kind: Config\nclusters:\n- cluster: {{server: \"{server}\"}}\n  name: default\n")
}

#[test]
fn the_api_server_of_the_kubelets_kubeconfig_is_not_judged_and_followed() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let scratch = Scratch::new();
    let path = scratch.path("kubelet.conf");
    let write = |server: &str| std::fs::write(&path, kubeconfig(server)).expect("writable");
    write("https://api.internal:8080");
    node.name_host("api.internal", &["127.0.0.1".parse().expect("an address")]);
    node.write_policy("all.yaml", EVERYTHING);
    let mut command = node.run_command();
    command.arg("--kubeconfig").arg(&path);
    let daemon = Process::start(command, &node.place());
    eventually("it is ready", || {
        node.socket().exists() && node.get("/readyz").0 == 200
    });
    let syns = lab.count_syns(PORT);
    assert_eq!((storm(&lab), syns.count()), (40, 40));

    let mut doctor = retry_governor(["doctor", "--json", "--kubeconfig"]);
    doctor.arg(&path);
    let report = process::run(doctor, &node.place(), LIMIT).expect_success();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let exempt = checks.iter().find(|check| check["check"] == "exempt");
    let found = exempt.expect("a check")["found"].as_str().expect("text");
    let from = format!("API server: api.internal:8080 ({})", path.display());
    assert!(found.contains(&from), "{found}");

    // It moved; files are looked at every 10 s.
    write("https://10.9.9.9:6443");
    thread::sleep(NOTICED + Duration::from_secs(1));
    let syns = lab.count_syns(PORT);
    storm(&lab);
    assert!(syns.count() < 30, "{} passed", syns.count());
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let ended = daemon.finish(LIMIT).expect_success();
    let told = ended.stderr.matches("API server: 10.9.9.9:6443").count();
    assert_eq!(told, 1, "{}", ended.stderr);
}
