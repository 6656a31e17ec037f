//! `retry-governor policy`: validation without loading anything.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::errors::{Failure, Result};
use crate::policy::{Policy, default, load, show};

/// Check, show or start policies
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  retry-governor policy default > policy.yaml
  retry-governor policy check policy.yaml
  retry-governor policy show --json policy.yaml")]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Say what is wrong with policies: file, line, column, hint
    Check {
        /// Policy files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print policies with every default filled in
    Show {
        /// Policy files; none: the default policy
        files: Vec<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the default policy as a commented file
    Default,
}

/// Runs it.
pub fn run(args: &PolicyArgs) -> Result<()> {
    match &args.command {
        PolicyCommand::Check { files } => {
            let policies = load::files(files)?;
            let names: Vec<_> = policies.iter().map(|policy| policy.name.as_str()).collect();
            print(&format!("ok: {}\n", names.join(", ")))
        }
        PolicyCommand::Show { files, json } => {
            let policies = match files.as_slice() {
                [] => default_policies()?,
                files => load::files(files)?,
            };
            match json {
                true => print(&(show::json(&policies)? + "\n")),
                false => print(&show::yaml(&policies)?),
            }
        }
        PolicyCommand::Default => print(default::TEXT),
    }
}

/// The default policy.
pub fn default_policies() -> Result<Vec<Policy>> {
    Ok(crate::policy::parse(default::TEXT, "default policy")?)
}

/// Standard output, where a reader that has gone (`| head`) is no error.
fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed("standard output", error))
        }
        _ => Ok(()),
    }
}
