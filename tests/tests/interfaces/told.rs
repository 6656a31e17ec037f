//! What is not reached is told: by `run`, by `exec`, by `doctor`.

use super::*;

#[test]
fn a_name_that_nobody_has_is_refused_with_nothing_done() {
    let lab = Lab::new();
    let refused = exec(
        &lab,
        &["--interface", "lo,absent"],
        &Command::new("true"),
        LIMIT,
    );
    assert_eq!(refused.code(), 2);
    assert_eq!(
        refused.finished.stderr,
        "error: --interface absent: there is no such interface in this network namespace (there \
         are: lo)\n"
    );
    let node = Node::new(&lab);
    let refused = process::run(run_on(&node, "absent"), &node.place(), LIMIT);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    let nothing = process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
    assert!(
        nothing.stdout.contains("nothing of ours"),
        "{}",
        nothing.stdout
    );
}

#[test]
fn where_no_interface_is_up_connects_are_governed_and_it_is_told() {
    let lab = Lab::new();
    set(lab.netns(), "lo", &["down"]);
    let executed = exec(&lab, &[], &Command::new("true"), LIMIT);
    assert_eq!(executed.code(), 0);
    let told = executed
        .finished
        .stderr
        .lines()
        .filter(|line| line.contains("interface"));
    assert_eq!(told.count(), 1, "{}", executed.finished.stderr);
}

#[test]
fn doctor_says_what_is_reached_and_what_is_delayed() {
    let lab = Lab::new();
    add(lab.netns(), "there");
    set(lab.netns(), "there", &["up"]);
    let node = Node::new(&lab);
    let report = process::run(retry_governor(["doctor", "--json"]), &node.place(), LIMIT);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let found = |check: &str| {
        let checks = report["checks"].as_array().expect("checks");
        let check = checks
            .iter()
            .find(|it| it["check"] == check)
            .expect("a check");
        check["found"].as_str().expect("text").to_owned()
    };
    let reached = found("interfaces");
    assert!(reached.starts_with("lo, there by TCX"), "{reached}");
    assert!(reached.contains("therep is down"), "{reached}");
    assert_eq!(found("pacing"), "no fq: there");
    assert!(
        egress(lab.netns(), "lo").is_empty(),
        "doctor attaches nothing"
    );
}

/// The same, as root without that privilege.
fn without_sys_admin(command: &Command) -> Command {
    let mut lesser = Command::new("setpriv");
    lesser.args(["--bounding-set=-sys_admin", "--inh-caps=-all"]);
    lesser.arg(command.get_program()).args(command.get_args());
    lesser
}

#[test]
fn without_cap_sys_admin_all_is_attached_and_doctor_says_what_is_lost() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let daemon = Process::start(without_sys_admin(&node.run_command()), &node.place());
    eventually("it is ready", || {
        node.socket().exists() && node.get("/readyz").0 == 200
    });
    let status = node.status();
    assert_eq!(hooks(&status), [(EGRESS.to_owned(), "lo".to_owned())]);
    let hooks = status["kernel"]["hooks"].as_array().expect("hooks");
    assert!(
        hooks.iter().all(|hook| hook["attached"] == true),
        "{status}"
    );

    // Something is attached, whose name may not be asked.
    let doctor = without_sys_admin(&retry_governor(["doctor", "--json"]));
    let report = process::run(doctor, &node.place(), LIMIT).expect_success();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let check = |name: &str| checks.iter().find(|it| it["check"] == name);
    let privileges = check("privileges").expect("a check");
    assert_eq!(privileges["state"], "Degraded", "{report}");
    assert_eq!(privileges["found"], "without CAP_SYS_ADMIN");
    assert_eq!(check("interfaces").expect("a check")["found"], "lo by TCX");

    daemon.signal(Signal::SIGTERM);
    daemon.finish(LIMIT).expect_success();
    assert!(egress(lab.netns(), "lo").is_empty());
}
