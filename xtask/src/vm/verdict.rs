//! What the console says of the checks: `ok NAME`, `not ok NAME: why`, `# remark`, and at the end
//! how many there were. Everything else is the kernel's.

use std::{collections::VecDeque, fmt};

use anyhow::{Result, bail};

/// As many lines of the console as a failure shows.
const TAIL: usize = 40;

/// The checks so far.
#[derive(Debug, Default)]
pub struct Verdict {
    passed: usize,
    failed: usize,
    /// How many there were, by the machine's own count.
    announced: Option<usize>,
    panicked: bool,
    broke_off: Option<String>,
    tail: VecDeque<String>,
}

impl Verdict {
    /// Takes a line of the console; gives it back if it is for people.
    pub fn take(&mut self, line: String) -> Option<String> {
        // What the firmware prints last has no end of its own.
        let told = ["ok ", "not ok ", "# ", "end of "];
        let is_told = told.iter().any(|start| line.starts_with(start));
        self.passed += usize::from(line.starts_with("ok "));
        self.failed += usize::from(line.starts_with("not ok "));
        self.panicked |= line.contains("Kernel panic") || line.contains("BUG: ");
        if let Some(rest) = line.strip_prefix("end of ") {
            self.announced = rest.split(' ').next().and_then(|count| count.parse().ok());
        }
        let shown = is_told.then(|| line.clone());
        self.tail.push_back(line);
        if self.tail.len() > TAIL {
            self.tail.pop_front();
        }
        shown
    }

    /// Whether the machine has said that it is done.
    pub fn is_complete(&self) -> bool {
        self.announced.is_some()
    }

    /// No more will come, for this reason.
    pub fn broke_off(&mut self, why: impl Into<String>) {
        self.broke_off = Some(why.into());
    }

    /// An error unless all checks have passed; then with the end of the console.
    pub fn finish(&self) -> Result<()> {
        let Some(why) = self.why() else {
            return Ok(());
        };
        eprintln!("the last lines of the console:");
        for line in &self.tail {
            eprintln!("| {line}");
        }
        bail!("vmtest: {why}");
    }

    fn why(&self) -> Option<String> {
        if self.panicked {
            return Some("the machine's kernel has failed".to_owned());
        }
        if let Some(why) = &self.broke_off {
            return Some(why.clone());
        }
        let seen = self.passed + self.failed;
        match (self.failed, self.announced) {
            (0, Some(announced)) if announced == seen && seen > 0 => None,
            (0, _) => Some(format!("{seen} checks were told, and not all of them")),
            (failed, _) => Some(format!("{failed} of {seen} checks failed")),
        }
    }
}

/// In the form that CI counts.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broken = usize::from(self.failed == 0 && self.why().is_some());
        let failed = self.failed + broken;
        write!(f, "vmtest: {} passed, {failed} failed", self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(console: &str) -> Verdict {
        let mut verdict = Verdict::default();
        for line in console.lines() {
            verdict.take(line.to_owned());
        }
        verdict
    }

    #[test]
    fn a_machine_whose_checks_all_pass_is_well() {
        let verdict = verdict("[ 0.1] Linux\nok one\n# remark\nok two\nend of 2 checks\n");
        assert!(verdict.is_complete() && verdict.finish().is_ok());
        assert_eq!(verdict.to_string(), "vmtest: 2 passed, 0 failed");
    }

    #[test]
    fn a_failed_check_fails_the_run() {
        let verdict = verdict("ok one\nnot ok two: it broke\nend of 2 checks");
        let error = verdict.finish().expect_err("a check failed");
        assert_eq!(error.to_string(), "vmtest: 1 of 2 checks failed");
        assert_eq!(verdict.to_string(), "vmtest: 1 passed, 1 failed");
    }

    #[test]
    fn a_machine_that_dies_midway_has_failed() {
        let mut verdict = verdict("ok one");
        assert!(!verdict.is_complete());
        verdict.broke_off("the machine ended before its checks did");
        assert!(verdict.finish().is_err());
        assert_eq!(verdict.to_string(), "vmtest: 1 passed, 1 failed");
    }

    #[test]
    fn a_line_that_was_lost_is_no_success() {
        assert!(verdict("ok one\nend of 2 checks").finish().is_err());
        assert!(verdict("end of 0 checks").finish().is_err());
    }

    #[test]
    fn a_kernel_that_fails_is_named_first() {
        let verdict = verdict("ok one\nKernel panic - not syncing: Attempted to kill init!");
        let error = verdict.finish().expect_err("it panicked");
        assert_eq!(error.to_string(), "vmtest: the machine's kernel has failed");
    }

    #[test]
    fn only_what_is_for_people_is_passed_on() {
        let mut verdict = Verdict::default();
        assert_eq!(verdict.take("[ 1.2] random".to_owned()), None);
        let told = verdict.take("# six programs".to_owned());
        assert_eq!(told.as_deref(), Some("# six programs"));
    }
}
