//! How a daemon dies, is followed, and goes.

use governor_tests::cgroup::Cgroup;
use governor_tests::governor::destination_of;
use governor_tests::place::Place;
use governor_tests::storm::report::Outcome;
use serde_json::Value;

use crate::echo::Echo;
use crate::load::{fleet, storm};
use crate::node::{self, Daemon, Loaded, ctl, status};
use crate::report::Checks;
use crate::wire::filters_at;

const AUTH: &str = "127.0.0.1:8080";

/// Runs the checks. `bare` is what the kernel held before any of ours.
pub fn check(checks: &mut Checks, bare: Loaded) {
    let slice = Cgroup::top("crash.slice");
    let unit = slice.child("retry-governor.service");
    let legacy = slice.child("legacy.service");
    let healthy = slice.child("healthy.service");
    let place = Place::default().in_cgroup(&legacy);
    checks.check("detach leaves nothing of a killed daemon", || {
        Daemon::start(&unit).kill();
        assert_ne!(Loaded::now(), bare, "a killed daemon leaves its programs");
        ctl("detach");
        node::nothing_is_left(bare);
    });

    let mut ledger = Value::Null;
    // Requests are refused by it: a filter, as this kernel has no links at devices.
    let mut filters = Vec::new();
    checks.check(
        "a killed daemon leaves the programs judging: a storm is refused, healthy traffic is not",
        || {
            let daemon = Daemon::start(&unit);
            fleet(AUTH, &place);
            ledger = destination_of(&status(), "auth").clone();
            ctl("retries off --yes --for 10m");
            filters = filters_at("lo");
            assert_eq!(filters.len(), 1);
            daemon.kill();
            assert_eq!(filters_at("lo"), filters);
            let ended = fleet(AUTH, &place);
            let tries = ended.report.tries.len();
            assert!(ended.syns <= 4, "{} of {tries} left", ended.syns);
            let _server = Echo::start(8080);
            let load = "loop 127.0.0.1:8080 --speak line --rate 20 --for 2s";
            storm(load, &Place::default().in_cgroup(&healthy)).all(Outcome::Ok);
        },
    );
    let mut daemon = None;
    checks.check(
        "its successor takes over filters, ledgers and orders",
        || {
            daemon = Some(Daemon::start(&unit));
            let now = filters_at("lo");
            assert!(now.len() == 1 && now != filters, "{filters:?}, {now:?}");
            let status = status();
            let offered = |auth: &Value| auth["offered"]["firstTries"].as_u64();
            let now = destination_of(&status, "auth");
            assert!(offered(now) >= offered(&ledger).map(|n| n + 80), "{now}");
            assert_eq!(status["retries"]["state"], "Disabled", "orders are kept");
        },
    );
    checks.check("a daemon that is told to end leaves nothing", || {
        // Orders that stand would be left for the next one.
        ctl("retries on");
        daemon.take().expect("it has been started").stop();
        assert!(!node::socket_exists());
        node::nothing_is_left(bare);
        assert!(filters_at("lo").is_empty());
        let ended = fleet(AUTH, &place);
        assert_eq!(ended.syns as usize, ended.report.tries.len());
    });
}
