//! The law in the kernel, run from several threads at once, spread over all CPUs.

use std::thread;

use governor_core::trace::Step;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::{Kernel, Law, now};

/// Threads on each CPU: one may run while another is interrupted between two steps.
const PER_CPU: usize = 2;

/// One step as its caller saw it.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The step's time, read before it began.
    pub before: u64,
    /// When it was over.
    pub after: u64,
    /// What came out.
    pub result: u64,
}

/// A thread of the hammer.
pub struct Hand<'a> {
    law: Law<'a>,
    /// Its number.
    pub number: usize,
}

impl Hand<'_> {
    /// Runs a step now.
    pub fn run(&self, step: Step) -> Run {
        let before = now();
        let result = self.law.run(&Step {
            now: before,
            ..step
        });
        Run {
            before,
            after: now(),
            result,
        }
    }
}

/// Lets every thread work; what each returned.
pub fn hammer<T: Send>(kernel: &Kernel, work: impl Fn(Hand<'_>) -> T + Sync) -> Vec<T> {
    let cpus = cpus();
    assert!(cpus.len() > 1, "one CPU shows no race");
    thread::scope(|scope| {
        let hands: Vec<_> = (0..cpus.len() * PER_CPU)
            .map(|number| {
                let (cpu, work) = (cpus[number % cpus.len()], &work);
                scope.spawn(move || {
                    let mut set = CpuSet::new();
                    set.set(cpu).unwrap();
                    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
                    work(Hand {
                        law: kernel.law(),
                        number,
                    })
                })
            })
            .collect();
        hands.into_iter().map(|hand| hand.join().unwrap()).collect()
    })
}

fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let allowed = |cpu: &usize| set.is_set(*cpu).unwrap_or(false);
    (0..CpuSet::count()).filter(allowed).collect()
}
