//! What the host reads on the console: `ok NAME` or `not ok NAME: why`, a line each, and a last one
//! with the number of checks, so that a machine that dies midway is not taken for one that is done.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// As many characters of a reason as the console shows.
const MOST: usize = 1500;
/// What panicked first in a check, with its place. Later panics are its consequences.
static WHY: Mutex<Option<String>> = Mutex::new(None);

/// Counts the checks.
#[derive(Debug, Default)]
pub struct Checks(u32);

impl Checks {
    /// Runs a check; it fails by panicking. `name` is a sentence.
    pub fn check(&mut self, name: &str, check: impl FnOnce()) {
        panic::set_hook(Box::new(|panic| {
            why().get_or_insert_with(|| panic.to_string());
        }));
        self.0 += 1;
        let start = Instant::now();
        let passed = panic::catch_unwind(AssertUnwindSafe(check)).is_ok();
        // Another thread may have panicked: a server's, say.
        match (why().take(), passed) {
            (None, true) => println!("ok {name} ({:.1} s)", start.elapsed().as_secs_f64()),
            (told, _) => println!("not ok {name}: {}", one_line(&told.unwrap_or_default())),
        }
    }

    /// Tells that all is done.
    pub fn finish(self) {
        println!("end of {} checks", self.0);
    }
}

/// A remark between the checks.
pub fn remark(text: impl std::fmt::Display) {
    println!("# {text}");
}

fn why() -> std::sync::MutexGuard<'static, Option<String>> {
    WHY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MOST).collect()
}
