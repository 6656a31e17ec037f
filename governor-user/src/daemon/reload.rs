//! Policies from their directory, again and again. All files of the directory
//! are one unit: with one mistake anywhere, what is in force stays.

use std::path::Path;
use std::sync::PoisonError;

use super::eventlog::{Entry, Kind};
use super::log;
use super::node::Node;
use crate::errors::Result;
use crate::policy::error::Cause;
use crate::policy::{Policy, load};

/// Why policies are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// SIGHUP: whoever sent it wants to hear of it.
    Asked,
    /// A file changed; perhaps nothing that matters.
    Changed,
}

/// The policies of a directory; none where nobody wrote any.
pub fn read(directory: &Path) -> Result<Vec<Policy>> {
    match load::directory(directory) {
        Err(errors) if errors.iter().all(|error| error.cause == Cause::Absent) => Ok(Vec::new()),
        loaded => Ok(loaded?),
    }
}

/// `3 policies (auth, db, legacy)`, or that there is none.
pub fn describe(policies: &[Policy]) -> String {
    const NAMED: usize = 8;
    let mut names: Vec<_> = policies
        .iter()
        .take(NAMED)
        .map(|policy| policy.name.as_str())
        .collect();
    if policies.len() > NAMED {
        names.push("...");
    }
    match policies.len() {
        0 => "no policy: everything is observed, nothing is refused".to_owned(),
        1 => format!("1 policy ({})", names.join(", ")),
        many => format!("{many} policies ({})", names.join(", ")),
    }
}

impl Node {
    /// Loads the policies and puts them in force, or keeps what is in force and
    /// says why.
    pub fn reload(&self, why: Why) {
        let applied = read(&self.policy_dir).and_then(|policies| self.apply(policies, why));
        match applied {
            Ok(()) => self.repaired(),
            Err(failure) => self.refuse(&failure.to_string(), why),
        }
    }

    /// Whoever repaired a file wants to hear of it, also where nothing else changed.
    fn repaired(&self) {
        let mut before = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        if !before.is_empty() {
            before.clear();
            let line = "policies are valid again";
            log::say(line);
            self.events.push(Entry::now(Kind::Policy, line));
        }
    }

    fn apply(&self, policies: Vec<Policy>, why: Why) -> Result<()> {
        let mut state = self.state();
        if why == Why::Changed && policies == state.in_force.policies {
            return Ok(());
        }
        let description = describe(&policies);
        state.put_in_force(policies)?;
        self.reloads.applied();
        log::say(format_args!("policies reloaded: {description}"));
        self.events.push(Entry::now(
            Kind::Policy,
            format!("policies reloaded: {description}"),
        ));
        self.settle_orders(&mut state);
        // Names that are new have no addresses yet.
        self.resolve.notify_one();
        Ok(())
    }

    fn refuse(&self, mistakes: &str, why: Why) {
        let mut before = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at again, and nobody has repaired it: it was said.
        if why == Why::Changed && *before == mistakes {
            return;
        }
        mistakes.clone_into(&mut before);
        self.reloads.refused();
        for line in mistakes.lines() {
            let line = format!(
                "policies refused, those in force stay: {}",
                line.trim_start_matches("error: ")
            );
            log::warn(&line);
            self.events.push(Entry::now(Kind::Policy, line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::Exit;
    use std::fs;

    #[test]
    fn a_directory_without_policies_is_no_mistake_but_a_wrong_file_is() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(read(scratch.path()).unwrap(), []);
        assert_eq!(read(&scratch.path().join("absent")).unwrap(), []);
        fs::write(scratch.path().join("a.yaml"), "kind: Nonsense\n").unwrap();
        assert_eq!(read(scratch.path()).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn policies_are_described_by_name() {
        assert!(describe(&[]).starts_with("no policy"));
        let policies = crate::policy::parse(crate::policy::default::TEXT, "default").unwrap();
        assert_eq!(
            describe(&policies),
            format!("1 policy ({})", policies[0].name)
        );
    }
}
