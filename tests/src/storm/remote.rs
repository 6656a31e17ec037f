//! Mode `remote`: does what it reads, one command a line, on one thread; answers each with one try.
//!
//! With it a test decides step by step what one sequential caller does.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use anyhow::{Context, Result, bail};
use tokio::runtime::Runtime;

use super::exchange::{Connection, Target};
use super::report::{Failure, Try, monotonic_micros};

/// Reads commands until the input ends:
/// `call` (connect, say what is to be said, close) · `open NAME` · `exchange NAME` · `finish NAME`
/// (last request, half-close, answer) · `close NAME`.
pub fn run(target: &Target, runtime: &Runtime) -> Result<()> {
    let mut open: BTreeMap<String, Connection> = BTreeMap::new();
    for (op, line) in io::stdin().lock().lines().enumerate() {
        let began = monotonic_micros();
        let result = runtime.block_on(obey(target, &line?, &mut open))?;
        Try::ended(began, op as u64, 1, result).print()?;
    }
    Ok(())
}

async fn obey(
    target: &Target,
    line: &str,
    open: &mut BTreeMap<String, Connection>,
) -> Result<Result<(), Failure>> {
    let (verb, name) = line.split_once(' ').unwrap_or((line, ""));
    let unknown = || format!("no open connection `{name}`");
    Ok(match verb {
        "call" => target.call().await,
        "open" => target.connect().await.map(|connection| {
            open.insert(name.to_owned(), connection);
        }),
        "exchange" => open.get_mut(name).with_context(unknown)?.exchange().await,
        "finish" => {
            open.get_mut(name)
                .with_context(unknown)?
                .last_exchange()
                .await
        }
        "close" => {
            open.remove(name).with_context(unknown)?;
            Ok(())
        }
        _ => bail!("remote: unknown command `{line}`"),
    })
}
