//! The devices of one command.

use super::*;

#[test]
fn an_exec_governs_the_devices_of_its_command_and_leaves_none_governed() {
    let lab = Lab::new();
    let netns = lab.netns();
    add(netns, "there");
    set(netns, "there", &["up"]);
    let mut governed = retry_governor(["exec", "--", "sleep", "60"]);
    governed.env("LANG", "C");
    let process = Process::start(governed, &lab.place());
    eventually("lo and what is up are governed", || {
        egress(netns, "lo") == [EGRESS] && egress(netns, "there") == [EGRESS]
    });
    add(netns, "later");
    set(netns, "later", &["up"]);
    eventually("so is what comes later", || {
        egress(netns, "later") == [EGRESS]
    });
    process.signal(Signal::SIGKILL);
    drop(process);
    eventually("a killed exec governs nothing", || {
        ["lo", "there", "later"]
            .iter()
            .all(|device| egress(netns, device).is_empty())
    });
}

#[test]
fn an_exec_takes_the_interfaces_that_it_is_given() {
    let lab = Lab::new();
    add(lab.netns(), "there");
    set(lab.netns(), "there", &["up"]);
    let of = |interface: &str| {
        let executed = exec(
            &lab,
            &["--interface", interface],
            &Command::new("true"),
            LIMIT,
        );
        assert_eq!(executed.code(), 0, "{}", executed.finished.stderr);
        hooks(&executed.summary.expect("a summary"))
    };
    let egress_of = |device: &str| (EGRESS.to_owned(), device.to_owned());
    assert_eq!(of("none"), []);
    assert_eq!(of("lo"), [egress_of("lo")]);
    let mut all = of("auto");
    all.sort();
    assert_eq!(all, [egress_of("lo"), egress_of("there")]);
}
