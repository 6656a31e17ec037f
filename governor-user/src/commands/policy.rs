//! `retry-governor policy`: validation without loading anything.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::output::print;
use crate::client::{Client, Socket, block_on};
use crate::errors::Result;
use crate::policy::notes::notes;
use crate::policy::{Policy, default, load, show};

/// Check, show or start policies
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  retry-governor policy default > policy.yaml
  retry-governor policy check policy.yaml
  retry-governor policy show --json policy.yaml
  retry-governor policy show")]
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
        /// Policy files; none: what the daemon has in force
        files: Vec<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: Socket,
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
            let notes: String = notes(&policies)
                .iter()
                .map(|note| format!("note: {note}\n"))
                .collect();
            print(&format!("{notes}ok: {}\n", names.join(", ")))
        }
        PolicyCommand::Show {
            files,
            json,
            socket,
        } => {
            let policies = match files.as_slice() {
                [] => in_force(socket)?,
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

/// What the daemon has in force.
fn in_force(socket: &Socket) -> Result<Vec<Policy>> {
    let list: serde_json::Value =
        block_on(async { Client::connect(socket).await?.get("/v1/policy").await })?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    // JSON is YAML: read as a file is, and shown as a file is.
    let documents: Vec<_> = items.iter().map(ToString::to_string).collect();
    match documents.is_empty() {
        true => Ok(Vec::new()),
        false => Ok(crate::policy::parse(&documents.join("\n---\n"), "daemon")?),
    }
}

/// The default policy.
pub fn default_policies() -> Result<Vec<Policy>> {
    Ok(crate::policy::parse(default::TEXT, "default policy")?)
}
