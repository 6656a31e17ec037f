//! How late the operations of an open loop began: a load that is late measures itself.

use std::time::Duration;

use nix::errno::Errno;

use super::arrivals::Due;
use super::report::{Pace, Try};

/// A slot of the service: what is later than this is counted in the wrong one.
const LATE: Duration = Duration::from_millis(50);

/// Errors of the machine that a load ran into, not the service.
const OWN_FAULTS: [Errno; 5] = [
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::EADDRNOTAVAIL,
    Errno::ENOBUFS,
    Errno::ENOMEM,
];

/// What is kept of it while the load runs.
#[derive(Clone, Debug, Default)]
pub struct Punctuality {
    /// By how much each operation was late.
    late: Vec<Duration>,
    /// The same of the last of a herd: one thread takes its time for thousands.
    herd: Duration,
    cut: usize,
    most_open: usize,
}

impl Punctuality {
    /// An operation begins; `now` is the time since the start.
    pub fn began(&mut self, due: Due, now: Duration) {
        let late = now.saturating_sub(due.at);
        match due.in_herd {
            true => self.herd = self.herd.max(late),
            false => self.late.push(late),
        }
    }

    /// An operation was given up.
    pub fn was_cut(&mut self) {
        self.cut += 1;
    }

    /// So many operations are open.
    pub fn are_open(&mut self, operations: usize) {
        self.most_open = self.most_open.max(operations);
    }

    /// Whether it kept its pace, by all that happened.
    pub fn pace(mut self, tries: &[Try]) -> Pace {
        self.late.sort_unstable();
        let rank = (self.late.len() * 99).div_ceil(100).saturating_sub(1);
        let p99 = self.late.get(rank).copied().unwrap_or_default();
        let own_faults = tries.iter().filter(|each| is_own_fault(each)).count();
        Pace {
            kept: p99 <= LATE && own_faults == 0,
            late: self.late.iter().filter(|late| **late > LATE).count(),
            p99_late_micros: p99.as_micros() as u64,
            max_late_micros: self.late.last().copied().unwrap_or_default().as_micros() as u64,
            herd_micros: self.herd.as_micros() as u64,
            own_faults,
            given_up: self.cut,
            most_open: self.most_open,
        }
    }
}

fn is_own_fault(ended: &Try) -> bool {
    ended
        .errno
        .is_some_and(|errno| OWN_FAULTS.contains(&Errno::from_raw(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storm::report::{Failure, Outcome};

    /// A load of which one operation in `of` is late by this much.
    fn load(of: u64, late: Duration) -> Punctuality {
        let mut load = Punctuality::default();
        for number in 0..1_000 {
            let at = Duration::from_millis(number);
            let late = if number % of == 0 {
                late
            } else {
                Duration::ZERO
            };
            load.began(Due { at, in_herd: false }, at + late);
        }
        load
    }

    #[test]
    fn a_load_that_is_late_says_so() {
        let second = Duration::from_secs(1);
        assert!(load(200, second).pace(&[]).kept);
        let pace = load(50, second).pace(&[]);
        assert!(!pace.kept);
        assert_eq!(
            (pace.late, pace.p99_late_micros, pace.max_late_micros),
            (20, 1_000_000, 1_000_000)
        );
    }

    #[test]
    fn a_herd_takes_its_time_and_is_not_late() {
        let mut load = load(1_000, Duration::ZERO);
        let herd = Due {
            at: Duration::ZERO,
            in_herd: true,
        };
        for number in 0..1_000 {
            load.began(herd, Duration::from_millis(number));
        }
        let pace = load.pace(&[]);
        assert!(pace.kept);
        assert_eq!(pace.herd_micros, 999_000);
    }

    #[test]
    fn a_load_without_ports_says_so() {
        let starved = Failure {
            errno: Some(Errno::EADDRNOTAVAIL as i32),
            ..Failure::of(Outcome::Other)
        };
        let refused = Failure {
            errno: Some(Errno::ECONNREFUSED as i32),
            ..Failure::of(Outcome::Refused)
        };
        let tries = [starved, refused].map(|failure| Try::ended(0, 0, 1, Err(failure)));
        let pace = load(1_000, Duration::ZERO).pace(&tries);
        assert_eq!((pace.own_faults, pace.kept), (1, false));
        assert!(load(1_000, Duration::ZERO).pace(&tries[1..]).kept);
    }
}
