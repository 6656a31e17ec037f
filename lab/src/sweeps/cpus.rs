//! Many runs of the simulator, on all CPUs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::stop;

/// What `play` makes of each job, in the order of the jobs. Where the lab is stopped, what was not
/// played is left out.
pub fn on_all<J: Sync, T: Send>(jobs: &[J], play: impl Fn(&J) -> T + Sync) -> Vec<(&J, T)> {
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { return };
            if stop::is_wanted() {
                return;
            }
            let made = play(job);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((number, job, made));
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, ..)| *number);
    done.into_iter().map(|(_, job, made)| (job, made)).collect()
}
