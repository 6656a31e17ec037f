//! `retry-governor exec`: one command, governed, and nothing left of it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::artifact;
use governor_tests::caller::storm_client;
use governor_tests::cgroup::Cgroup;
use governor_tests::governor::{Executed, exec, retry_governor};
use governor_tests::lab::Lab;
use governor_tests::place::Place;
use governor_tests::process::{self, Process};
use governor_tests::server::Behaviour;
use governor_tests::storm::report::Outcome;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The cgroups that `exec`s made below this one.
fn left(cgroup: &Cgroup) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup.path())
        .expect("the lab has its cgroup")
        .flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

#[test]
fn exec_ends_as_its_command_ends() {
    let lab = Lab::new();
    for (script, code) in [("true", 0), ("exit 42", 42), ("kill -TERM $$", 143)] {
        let executed = exec(&lab, &[], &shell(script), LIMIT);
        assert_eq!(executed.code(), code, "{script}");
        assert!(executed.summary.is_some(), "{script}");
    }
    let unknown = exec(&lab, &[], &Command::new("no-such-command"), LIMIT);
    assert_eq!(unknown.code(), 127);
    assert_eq!(
        unknown.finished.stderr,
        "error: no-such-command: No such file or directory\n"
    );
    let directory = exec(&lab, &[], &Command::new("/etc"), LIMIT);
    assert_eq!(directory.code(), 126);
    assert!(left(lab.cgroup()).is_empty());
}

#[test]
fn a_summary_that_cannot_be_written_is_told_before_the_command_runs() {
    let lab = Lab::new();
    let mut command = retry_governor(["exec", "--json-summary", "/no/such/summary.json", "--"]);
    command.args(["echo", "ran"]);
    let place = Place::new(lab.netns(), lab.cgroup());
    let refused = process::run(command, &place, LIMIT);
    assert_eq!(
        (refused.status.code(), refused.stdout.as_str()),
        (Some(1), "")
    );
    assert!(
        refused.stderr.contains("the command was not run"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_command_lives_below_its_callers_cgroup() {
    let lab = Lab::new();
    let executed = exec(&lab, &["--quiet"], &shell("cat /proc/self/cgroup"), LIMIT);
    let inside = executed.finished.stdout;
    let below = format!("0::{}/retry-governor-exec-", lab.cgroup().name());
    assert!(inside.contains(&below), "{inside}");
    assert_eq!(executed.finished.stderr, "");
}

#[test]
fn a_signal_to_exec_alone_reaches_its_command() {
    let lab = Lab::new();
    let mut governed = retry_governor(["exec", "--quiet", "--"]);
    governed.args(["sh", "-c"]);
    governed.arg("trap 'echo asked; exit 9' TERM; echo ready >&2; while :; do sleep 0.05; done");
    let process = Process::start(governed, &lab.place());
    wait_for_child(&lab);
    process.signal(Signal::SIGTERM);
    let finished = process.finish(LIMIT);
    assert_eq!(finished.status.code(), Some(9));
    assert_eq!(finished.stdout, "asked\n");
}

/// Waits until the command of an `exec` has had time to set its traps; its process.
fn wait_for_child(lab: &Lab) -> u32 {
    let deadline = Instant::now() + LIMIT;
    loop {
        let procs = left(lab.cgroup())
            .first()
            .and_then(|path| fs::read_to_string(path.join("cgroup.procs")).ok())
            .unwrap_or_default();
        if let Some(pid) = procs.lines().next().and_then(|pid| pid.parse().ok()) {
            thread::sleep(Duration::from_millis(200));
            return pid;
        }
        assert!(Instant::now() < deadline, "the command did not start");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_exec_leaves_its_command_alive_and_the_next_one_cleans_up() {
    let lab = Lab::new();
    let mut governed = retry_governor(["exec", "--"]);
    governed.args(["sleep", "60"]);
    let process = Process::start(governed, &lab.place());
    let child = wait_for_child(&lab);
    process.signal(Signal::SIGKILL);
    // Its output stays open in the command: only the process is waited for.
    drop(process);
    assert!(PathBuf::from(format!("/proc/{child}")).exists());
    assert_eq!(left(lab.cgroup()).len(), 1);

    kill(Pid::from_raw(child.try_into().unwrap()), Signal::SIGKILL).unwrap();
    let deadline = Instant::now() + LIMIT;
    while fs::read_to_string(left(lab.cgroup())[0].join("cgroup.procs"))
        .is_ok_and(|p| !p.is_empty())
    {
        assert!(Instant::now() < deadline, "the command did not die");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(exec(&lab, &[], &shell("true"), LIMIT).code(), 0);
    assert!(left(lab.cgroup()).is_empty());
}

#[test]
fn what_outlives_the_command_is_told_of() {
    let lab = Lab::new();
    let executed = exec(&lab, &[], &shell("sleep 1 >&- 2>&- & exit 3"), LIMIT);
    assert_eq!(executed.code(), 3);
    assert!(
        executed.finished.stderr.contains("ungoverned"),
        "{}",
        executed.finished.stderr
    );
    assert_eq!(left(lab.cgroup()).len(), 1);
}

/// A fleet of short-lived processes, four tries each, at one port.
fn fleet(options: &[&str]) -> (Executed, u64) {
    let lab = Lab::new();
    let syns = lab.count_syns(PORT);
    let tries = format!("tries 127.0.0.1:{PORT} --tries 4 --delay 50ms");
    let fleet = storm_client(&format!("fleet --processes 50 --rate 100 -- {tries}"));
    let executed = exec(&lab, options, &fleet, LIMIT);
    println!("{}", executed.finished.stderr);
    (executed, syns.count())
}

#[test]
fn a_refusing_port_hears_little_of_a_storm_and_the_summary_says_so() {
    let (executed, syns) = fleet(&[]);
    // Silence trips after 7 in a row where nothing succeeded; what was in
    // flight then and one probe per open period come on top.
    assert!(syns <= 30, "{syns} of 200 tries reached the port");
    let destination = executed.destination(&format!("127.0.0.1:{PORT}"));
    assert_eq!(destination["mode"], "Enforce");
    assert_eq!(destination["attempts"], syns);
    assert_eq!(destination["failures"]["refused"], syns);
    let denied = destination["denied"]["breaker"].as_u64().unwrap();
    assert_eq!(denied + syns, 200);
    assert_eq!(destination["endpoints"][0]["breaker"]["state"], "Open");
    assert!(
        executed.finished.stderr.contains("denied"),
        "{}",
        executed.finished.stderr
    );
}

#[test]
fn audit_denies_nothing_and_counts_what_it_would_have_denied() {
    let (executed, syns) = fleet(&["--mode", "Audit"]);
    assert_eq!(syns, 200);
    let destination = executed.destination(&format!("127.0.0.1:{PORT}"));
    assert_eq!(destination["mode"], "Audit");
    assert_eq!(destination["denied"]["breaker"], 0);
    let would = destination["wouldDeny"]["breaker"].as_u64().unwrap();
    assert!(would > 150, "{would}");
    assert_eq!(destination["wouldDenyFailed"], would);
}

#[test]
fn a_healthy_server_is_left_alone() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::Answer);
    let load = storm_client(&format!("loop 127.0.0.1:{PORT} --rate 200 --count 200"));
    let executed = exec(&lab, &[], &load, LIMIT);
    println!("{}", executed.finished.stderr);
    let report = governor_tests::storm::report::Report::parse(&executed.finished.stdout).unwrap();
    assert_eq!(report.count(Outcome::Ok), 200);
    let destination = executed.destination(&format!("127.0.0.1:{PORT}"));
    assert_eq!(destination["attempts"], 200);
    assert_eq!(destination["successes"], 200);
    assert_eq!(destination["deniedFirstTries"], 0);
    assert_eq!(destination["retries"], 0);
    assert!(destination["latencySeconds"]["p99"].as_f64().unwrap() < 1.0);
}

#[test]
fn a_policy_names_the_destination_and_bad_ones_are_refused() {
    let lab = Lab::new();
    let _server = lab.line_server(PORT, Behaviour::Answer);
    let directory = std::env::temp_dir().join(lab.netns().name());
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("policy.yaml");
    let policy = "apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: auth}
spec:
  mode: Enforce
  workloads: [{cgroup: /elsewhere}]
  destinations:
    - {name: auth, hosts: [localhost], ports: [8080]}
";
    fs::write(&file, policy).unwrap();
    let option = file.to_str().unwrap().to_owned();
    let load = storm_client(&format!(
        "loop 127.0.0.1:{PORT} --speak line --rate 50 --count 5"
    ));
    let executed = exec(&lab, &["--policy", &option, "--budget", "20"], &load, LIMIT);
    let auth = executed.destination("auth");
    assert_eq!(
        (&auth["policy"], &auth["mode"]),
        (&"auth".into(), &"Enforce".into())
    );
    assert_eq!(auth["addresses"][0], format!("127.0.0.1:{PORT}"));
    assert_eq!(auth["attempts"], 5);
    assert_eq!(auth["budget"]["percent"], 20.0);

    fs::write(&file, policy.replace("mode: Enforce", "mode: Enforced")).unwrap();
    let executed = exec(&lab, &["--policy", &option], &load, LIMIT);
    assert_eq!(executed.code(), 2);
    assert!(
        executed.finished.stderr.contains("policy.yaml:5:"),
        "{}",
        executed.finished.stderr
    );
    assert!(executed.finished.stdout.is_empty());
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn without_privilege_exec_says_which_is_missing() {
    let lab = Lab::new();
    let binary = artifact::program("retry-governor").unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-all"]);
    command.arg(binary).args(["exec", "--", "true"]);
    let finished = lab.run(command, LIMIT);
    assert_eq!(finished.status.code(), Some(4));
    assert!(finished.stderr.contains("CAP_BPF"), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 1);
    assert!(left(lab.cgroup()).is_empty());
}
