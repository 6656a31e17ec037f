//! A run of several steps that goes on after a failure and tells all at the end.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// What became of a step.
#[derive(Debug)]
enum End {
    Passed,
    Failed(String),
    Skipped(&'static str),
}

/// What a step says of itself where nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was done.
    Yes,
    /// It can not be done here, for this reason.
    Skipped(&'static str),
}

struct Step {
    name: &'static str,
    took: Duration,
    end: End,
}

/// The steps so far.
#[derive(Default)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// Does one step, whatever became of those before.
    pub fn take(&mut self, name: &'static str, step: impl FnOnce() -> Result<Done>) {
        eprintln!("\n=== {name}");
        let start = Instant::now();
        let end = match step() {
            Ok(Done::Yes) => End::Passed,
            Ok(Done::Skipped(why)) => End::Skipped(why),
            Err(why) => End::Failed(format!("{why:#}")),
        };
        let step = Step {
            name,
            took: start.elapsed(),
            end,
        };
        eprintln!("{step}");
        self.0.push(step);
    }

    /// Prints every step and the counts; an error if any step failed.
    pub fn finish(self) -> Result<()> {
        println!("\n{self}");
        match self.count(|end| matches!(end, End::Failed(_))) {
            0 => Ok(()),
            failed => bail!("{failed} of {} steps failed", self.0.len()),
        }
    }

    fn count(&self, which: impl Fn(&End) -> bool) -> usize {
        self.0.iter().filter(|step| which(&step.end)).count()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        let (word, why) = match &self.end {
            End::Passed => ("passed", ""),
            End::Failed(why) => ("FAILED", why.as_str()),
            End::Skipped(why) => ("skipped", *why),
        };
        let line = format!("{word:<8}{seconds:>6.1} s  {:<14}  {why}", self.name);
        f.write_str(line.trim_end())
    }
}

/// The last line is in the form that CI counts.
impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            writeln!(f, "{step}")?;
        }
        let passed = self.count(|end| matches!(end, End::Passed));
        let failed = self.count(|end| matches!(end, End::Failed(_)));
        write!(f, "steps: {passed} passed, {failed} failed")?;
        match self.count(|end| matches!(end, End::Skipped(_))) {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn last_line(steps: &Steps) -> String {
        let text = steps.to_string();
        text.lines().next_back().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_failed_step_does_not_stop_the_next_and_fails_the_run() {
        let mut steps = Steps::default();
        steps.take("first", || Err(anyhow!("broken")));
        steps.take("second", || Ok(Done::Yes));
        assert_eq!(last_line(&steps), "steps: 1 passed, 1 failed");
        let error = steps.finish().expect_err("a step failed");
        assert_eq!(error.to_string(), "1 of 2 steps failed");
    }

    #[test]
    fn a_skipped_step_is_counted_and_says_why() {
        let mut steps = Steps::default();
        steps.take("only", || Ok(Done::Skipped("no clippy")));
        assert_eq!(last_line(&steps), "steps: 0 passed, 0 failed, 1 skipped");
        assert!(steps.to_string().contains("no clippy"));
        assert!(steps.finish().is_ok());
    }
}
