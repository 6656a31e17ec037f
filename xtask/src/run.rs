//! Running other programs, in the open: each command line is shown before it runs.

use std::{
    env,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, ExitStatus},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use signal_hook::consts::SIGINT;

use crate::tree;

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
/// A Ctrl-C is its affair, it reaches it too: this program waits for its end.
pub fn exit_code(command: &mut Command) -> Result<u8> {
    signal_hook::flag::register(SIGINT, Arc::default()).context("signals")?;
    let status = status(command)?;
    let failed = || format!("`{}` failed: {status}", line_of(command));
    if status.signal().is_some() {
        eprintln!("error: {}", failed());
    }
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.with_context(failed)
}

fn status(command: &mut Command) -> Result<ExitStatus> {
    let line = line_of(command);
    eprintln!("+ {line}");
    command
        .status()
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

    #[test]
    fn an_exit_code_is_passed_on_and_a_signal_is_one_too() {
        let of =
            |script: &str| exit_code(Command::new("sh").args(["-c", script])).expect("sh starts");
        for code in [0, 1, 2, 4, 130] {
            assert_eq!(of(&format!("exit {code}")), code);
        }
        assert_eq!(of("kill -TERM $$"), 143);
    }

    #[test]
    fn a_ctrl_c_ends_only_the_program_that_runs() {
        // This process gets it too, as from a terminal.
        let script = "trap 'exit 130' INT; kill -INT $PPID; kill -INT $$";
        let code = exit_code(Command::new("sh").args(["-c", script]));
        assert_eq!(code.expect("sh starts"), 130);
    }

    #[test]
    fn a_program_that_does_not_exist_is_not_found() {
        assert!(which("sh").is_some());
        assert_eq!(which("no-such-program-anywhere"), None);
    }
}
