//! One name for all that a test makes: it carries the pid, so that a later run
//! can tell what belongs to the living.

use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "governor-test-";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// `governor-test-<pid>-<n>`, never twice in one process.
pub fn unique() -> String {
    format!(
        "{PREFIX}{}-{}",
        process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Whether `name` is one of ours and the process that made it is gone.
pub fn is_orphan(name: &str) -> bool {
    owner(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_living_process_is_no_orphan() {
        let name = unique();
        assert_eq!(owner(&name), Some(process::id()));
        assert!(!is_orphan(&name));
    }

    #[test]
    fn names_of_others_are_never_orphans() {
        assert!(!is_orphan("user.slice"));
        assert!(!is_orphan("governor-test-x-1"));
        // Above the kernel's largest pid: surely dead.
        assert!(is_orphan("governor-test-4194305-0-pod"));
    }
}
