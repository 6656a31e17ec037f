//! Running other programs, in the open: each command line is shown before it runs.

use std::{
    env,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::tree;

/// How often it is looked whether a program has ended, or is to.
const LOOKS: Duration = Duration::from_millis(50);

/// The cargo that runs this xtask, at the top of the tree.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree::root());
    command
}

/// Shows and runs a command; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` failed: {status}", line_of(command));
    }
    Ok(())
}

/// Shows and runs a command that says itself why it fails: its exit code. Where a signal ended
/// it, which is said here, 128 + its number, as shells have it.
///
/// A Ctrl-C is its affair, it reaches it too; a SIGTERM reaches this program alone, and is passed
/// on. Either way this program waits for its end.
pub fn exit_code(command: &mut Command) -> Result<u8> {
    let told = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::default()).context("signals")?;
    signal_hook::flag::register(SIGTERM, Arc::clone(&told)).context("signals")?;
    let mut child = start(command)?;
    let status = loop {
        if let Some(status) = child.try_wait().with_context(|| line_of(command))? {
            break status;
        }
        if told.swap(false, Ordering::Relaxed) {
            end(child.id());
        }
        thread::sleep(LOOKS);
    };
    let failed = || format!("`{}` failed: {status}", line_of(command));
    if status.signal().is_some() {
        eprintln!("error: {}", failed());
    }
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.with_context(failed)
}

/// Sends SIGTERM; as root, since sudo takes no signal of its user.
fn end(pid: u32) {
    let pid = pid.to_string();
    let sent = as_root("sh").is_ok_and(|mut sh| succeeds(sh.args(["-c", "kill -TERM $0", &pid])));
    if !sent {
        eprintln!("error: SIGTERM does not reach process {pid}");
    }
}

fn status(command: &mut Command) -> Result<ExitStatus> {
    let mut child = start(command)?;
    child.wait().with_context(|| line_of(command))
}

fn start(command: &mut Command) -> Result<Child> {
    let line = line_of(command);
    eprintln!("+ {line}");
    command
        .spawn()
        .with_context(|| format!("`{line}` does not start"))
}

/// The command as one would type it, with the variables it sets.
fn line_of(command: &Command) -> String {
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(value?))));
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    set.chain([program.display().to_string()])
        .chain(command.get_args().map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(argument: &std::ffi::OsStr) -> String {
    let text = argument.display().to_string();
    if text.is_empty() || text.contains(char::is_whitespace) {
        format!("'{text}'")
    } else {
        text
    }
}

/// The program's path, if it is on PATH or among root's programs, which are not
/// on every user's PATH.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

/// Whether a command ends well; its output is of no interest.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Who runs this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Everything is allowed.
    Root,
    /// Goes through sudo where root is needed.
    Other,
}

/// The effective user of this process. Asked of `id`, so that no dependency and
/// no unsafe code is needed for it.
pub fn user() -> Result<User> {
    let output = Command::new("id")
        .arg("-u")
        .output()
        .context("`id -u` does not start")?;
    Ok(match output.stdout.trim_ascii() {
        b"0" => User::Root,
        _ => User::Other,
    })
}

/// A command that runs as root, through sudo where need be.
pub fn as_root(program: &str) -> Result<Command> {
    Ok(match user()? {
        User::Root => Command::new(program),
        User::Other => {
            let mut sudo = Command::new("sudo");
            sudo.arg(program);
            sudo
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        command
            .args(["doc", "a b"])
            .env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(
            line_of(&command),
            "RUSTDOCFLAGS='-D warnings' cargo doc 'a b'"
        );
    }

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let error = run(&mut Command::new("false")).expect_err("false fails");
        assert_eq!(error.to_string(), "`false` failed: exit status: 1");
    }

    /// How a script ends; one at a time, as a signal to this process is passed on to all.
    fn code_of(script: &str) -> u8 {
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap();
        exit_code(Command::new("sh").args(["-c", script])).expect("sh starts")
    }

    #[test]
    fn an_exit_code_is_passed_on_and_a_signal_is_one_too() {
        for code in [0, 1, 2, 4, 130] {
            assert_eq!(code_of(&format!("exit {code}")), code);
        }
        assert_eq!(code_of("kill -TERM $$"), 143);
    }

    #[test]
    fn a_ctrl_c_ends_only_the_program_that_runs() {
        // This process gets it too, as from a terminal.
        let script = "trap 'exit 130' INT; kill -INT $PPID; kill -INT $$";
        assert_eq!(code_of(script), 130);
    }

    #[test]
    fn a_sigterm_is_passed_on_to_the_program_that_runs() {
        let script = "trap 'exit 130' TERM; kill -TERM $PPID; while :; do sleep 0.01; done";
        assert_eq!(code_of(script), 130);
    }

    #[test]
    fn a_program_that_does_not_exist_is_not_found() {
        assert!(which("sh").is_some());
        assert_eq!(which("no-such-program-anywhere"), None);
    }
}
