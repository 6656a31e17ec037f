//! The lab, where it is stopped.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn a_lab_that_is_stopped_says_one_line() {
    let out = std::env::temp_dir().join(format!("storm-lab-stopped-{}", std::process::id()));
    let lab = Command::new(env!("CARGO_BIN_EXE_storm-lab"))
        .args(["--fast", "blip-5s", "--out"])
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The storm is being played.
    thread::sleep(Duration::from_secs(3));
    kill(Pid::from_raw(lab.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let lab = lab.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&lab.stderr);
    let line = "stopped: no scenario was played to its end, no report is written\n";
    assert_eq!((lab.status.code(), said.as_ref()), (Some(130), line));
    std::fs::remove_dir_all(&out).expect("nothing is there but an empty directory");
}
