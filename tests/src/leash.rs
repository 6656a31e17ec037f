//! No test attaches anything to an interface of the machine it runs on: `exec` and `run`
//! take every interface by default, so in the machine's own network they must be told not to.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::place::Place;

/// Commands of the binary that attach programs to interfaces.
const ATTACHING: [&str; 2] = ["exec", "run"];

/// Panics where `command` would attach programs to the machine's interfaces.
#[track_caller]
pub(crate) fn check(command: &Command, place: &Place<'_>) {
    let arguments: Vec<_> = command.get_args().filter_map(|it| it.to_str()).collect();
    // Also where something else starts it, `setpriv` say.
    let words = || {
        [command.get_program().to_str().unwrap_or_default()]
            .into_iter()
            .chain(arguments.iter().copied())
    };
    let is_ours = words().any(|word| {
        Path::new(word)
            .file_name()
            .is_some_and(|name| name == "retry-governor")
    });
    let ours = arguments.iter().take_while(|word| **word != "--");
    let ours: Vec<_> = ours.copied().collect();
    let attaches = is_ours && ours.iter().any(|word| ATTACHING.contains(word));
    let told_not_to = ours.windows(2).any(|pair| pair == ["--interface", "none"]);
    assert!(
        !attaches || told_not_to || place.has_a_network() || !is_the_machines_network(),
        "`{}` in the machine's own network: say `--interface none`, or give it a network of the test's own",
        words().collect::<Vec<_>>().join(" ")
    );
}

/// Whether the calling thread is in the network that the test was started in, which is not of its
/// making. In a virtual machine of its own the test is the first process.
fn is_the_machines_network() -> bool {
    let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    std::process::id() != 1 && network("thread-self") == network("self")
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;
    use crate::governor::retry_governor;
    use crate::netns::Netns;

    fn checked(arguments: &str) -> bool {
        let command = retry_governor(arguments.split(' '));
        let check = AssertUnwindSafe(|| check(&command, &Place::default()));
        std::panic::catch_unwind(check).is_ok()
    }

    #[test]
    fn in_a_network_of_the_tests_own_everything_may_be_attached() {
        let netns = Netns::create();
        assert!(netns.run(|| checked("run")));
    }

    #[test]
    fn the_machines_interfaces_are_safe_from_tests() {
        assert!(!checked("exec -- true"));
        assert!(!checked("run --interface lo"));
        assert!(!checked("exec -- echo --interface none"));
        assert!(checked("exec --interface none -- true"));
        assert!(checked("doctor --json"));
    }
}
