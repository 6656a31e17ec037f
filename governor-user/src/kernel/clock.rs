//! The clock of the kernel programs.

use governor_core::units::Nanos;

/// `CLOCK_MONOTONIC`, which `bpf_ktime_get_ns` reads too.
pub fn now() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// When that clock was 0, s since 1970: for dates in answers and deadlines in
/// requests. It moves when the time of day is set.
pub fn booted() -> u64 {
    (read(libc::CLOCK_REALTIME).0.saturating_sub(now().0)) / 1_000_000_000
}

fn read(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that outlives the call; these clocks are always there.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
