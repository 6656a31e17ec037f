//! When to look again: a device changed, or half a minute has passed (a queueing
//! discipline or a route changes without a word here).

use std::io;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

/// How often to look without being told.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// A container's device is made, moved, named and brought up in several steps:
/// the first is looked at at once, the rest together.
const SETTLES: Duration = Duration::from_millis(50);

/// Enough of a message to have taken it: the rest is cut off.
const ANY: usize = 64;

/// Changes of the devices of this network namespace.
pub struct Changes {
    /// None: it broke, and only the clock is left.
    socket: Option<TokioSocket>,
    clock: Interval,
    told: bool,
    again: bool,
}

impl Changes {
    /// Follows from now on: list the devices after this, so that none is missed.
    pub fn follow() -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        let groups = 1 << (libc::RTNLGRP_LINK - 1);
        socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
        let mut clock = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            socket: Some(socket),
            clock,
            told: false,
            again: false,
        })
    }

    /// It is time to look again at once: not all was done.
    pub fn again(&mut self) {
        self.again = true;
    }

    /// Returns when it is time to look. May be dropped and called again.
    pub async fn next(&mut self) {
        if self.again {
            self.again = false;
            return tokio::task::yield_now().await;
        }
        if self.told {
            sleep(SETTLES).await;
            self.told = false;
        }
        tokio::select! {
            _ = self.clock.tick() => {}
            () = heard(&mut self.socket) => self.told = true,
        }
    }
}

/// Returns when something was heard, once for all that had come.
async fn heard(socket: &mut Option<TokioSocket>) {
    let Some(open) = socket else {
        return std::future::pending().await;
    };
    let mut buffer = Vec::with_capacity(ANY);
    match open.recv(&mut buffer).await {
        Ok(()) => {}
        // More changes came than it can hold: all the more reason to look.
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
        Err(_) => {
            *socket = None;
            return;
        }
    }
    // What changed is not read: everything is listed anew.
    let mut more = [0; ANY];
    while open.socket_ref().recv(&mut more.as_mut_slice(), 0).is_ok() {}
}
