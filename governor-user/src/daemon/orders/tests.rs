use super::*;
use governor_core::order::Kind;
use governor_core::verdict::Reason;

const NOW: Nanos = Nanos::from_secs(1_000);
const NONE: Order = Order {
    shed_until: 0,
    off_from: 0,
    off_until: 0,
    stage_every: 0,
    stages: [0; STAGES],
    hold_until: 0,
    hold: 0,
    shed_share: 0,
    shed_retries_only: 0,
    hold_above: Told::NOTHING,
    began_with: Told::NOTHING,
};

fn at(seconds: u64) -> Nanos {
    Nanos(NOW.0 + Nanos::from_secs(seconds).0)
}

fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[test]
fn retries_off_ends_into_the_stages_and_then_into_nothing() {
    let order: Retries = read(r#"{"state":"Disabled","for":"15m"}"#).unwrap();
    let order = order.apply(NONE, NOW).unwrap();
    assert_eq!(order.retries_percent(NOW), 0);
    assert_eq!(order.retries_percent(at(899)), 0);
    assert_eq!(
        [901, 961, 1021, 1081].map(|s| order.retries_percent(at(s))),
        [10, 25, 50, 100]
    );
    assert_eq!(ends(&order), at(900 + 240));
}

#[test]
fn a_restore_begins_now_whether_retries_were_off_or_returning_already() {
    let off: Retries = read(r#"{"state":"Disabled","for":"15m"}"#).unwrap();
    let off = off.apply(NONE, NOW).unwrap();
    let restore: Retries =
        read(r#"{"state":"Restoring","stages":[20,60],"every":"30s","holdAbove":7.5}"#).unwrap();
    for begun in [at(10), at(1_000)] {
        let order = restore.apply(off, begun).unwrap();
        let after = |seconds| Nanos(begun.0 + Nanos::from_secs(seconds).0);
        let percents = [0, 31, 61].map(|s| order.retries_percent(after(s)));
        assert_eq!(percents, [20, 60, 100]);
        assert_eq!(order.hold_above.get(), Some(BasisPoints(750)));
        assert_eq!((order.off_from, ends(&order)), (begun.0, after(60)));
    }
}

#[test]
fn a_restore_goes_on_with_what_was_said_with_off_and_off_begins_from_the_usual() {
    let off: Retries =
        read(r#"{"state":"Disabled","stages":[5,100],"every":"2m","holdAbove":20}"#).unwrap();
    let off = off.apply(NONE, NOW).unwrap();
    let restore: Retries = read(r#"{"state":"Restoring"}"#).unwrap();
    let restored = restore.apply(off, at(10)).unwrap();
    let said = |order: &Order| {
        (
            stages_of(order).to_vec(),
            order.stage_every,
            order.hold_above,
        )
    };
    assert_eq!(said(&restored), said(&off));
    assert_eq!(
        (restored.off_from, restored.off_until),
        (at(10).0, at(10).0)
    );
    let every: Retries = read(r#"{"state":"Restoring","every":"5s"}"#).unwrap();
    let every = every.apply(restored, at(20)).unwrap();
    assert_eq!(stages_of(&every), [5, 100]);
    assert_eq!(Nanos(every.stage_every), Nanos::from_secs(5));
    let off: Retries = read(r#"{"state":"Disabled"}"#).unwrap();
    let off = off.apply(every, at(30)).unwrap();
    assert_eq!(stages_of(&off), USUAL_STAGES);
}

#[test]
fn a_restore_needs_something_to_restore_and_has_no_end_of_its_own() {
    let off: Retries = read(r#"{"state":"Disabled","for":"1s","every":"1s"}"#).unwrap();
    let off = off.apply(NONE, NOW).unwrap();
    let restore: Retries = read(r#"{"state":"Restoring"}"#).unwrap();
    for (before, now) in [(NONE, NOW), (off, at(5))] {
        let refused = restore.apply(before, now).unwrap_err();
        assert_eq!(refused.0, NOTHING_TO_RESTORE);
    }
    let restore: Retries = read(r#"{"state":"Restoring","for":"1m"}"#).unwrap();
    assert!(restore.apply(off, NOW).unwrap_err().0.starts_with("for: "));
}

#[test]
fn retries_on_ends_the_order_at_once_and_keeps_what_else_is_ordered() {
    let shed: Shed = read(r#"{"percent":30,"for":"10m"}"#).unwrap();
    let off: Retries = read(r#"{"state":"Disabled"}"#).unwrap();
    let on: Retries = read(r#"{"state":"Enabled"}"#).unwrap();
    let shed = shed.apply(NONE, NOW).unwrap();
    let both = off.apply(shed, NOW).unwrap();
    assert_eq!(both.retries_percent(at(1)), 0);
    assert_eq!(on.apply(both, at(2)).unwrap(), shed);
}

#[test]
fn shedding_everything_refuses_first_tries_unless_only_retries_are_meant() {
    let all: Shed = read(r#"{"percent":100,"for":"1m"}"#).unwrap();
    let all = all.apply(NONE, NOW).unwrap();
    assert_eq!(
        all.refuses(at(1), Kind::First, u32::MAX),
        Some(Reason::Shed)
    );
    assert_eq!(all.refuses(at(61), Kind::First, 0), None);
    let retries: Shed = read(r#"{"percent":100,"retriesOnly":true,"for":"1m"}"#).unwrap();
    let retries = retries.apply(NONE, NOW).unwrap();
    assert_eq!(retries.refuses(at(1), Kind::First, 0), None);
    assert_eq!(retries.refuses(at(1), Kind::Retry, 0), Some(Reason::Shed));
}

#[test]
fn a_held_breaker_is_let_go_when_its_time_is_over() {
    let open: Breakers = read(r#"{"state":"Open","for":"30s"}"#).unwrap();
    let order = open.apply(NONE, NOW).unwrap();
    assert_eq!(
        [order.held(at(29)), order.held(at(30))],
        [hold::OPEN, hold::NONE]
    );
    let auto: Breakers = read(r#"{"state":"Auto"}"#).unwrap();
    assert_eq!(auto.apply(order, at(1)), Ok(NONE));
}

#[test]
fn an_order_without_an_end_or_with_a_distant_one_is_refused() {
    let shed: Shed = read(r#"{"percent":30}"#).unwrap();
    assert!(shed.apply(NONE, NOW).unwrap_err().0.contains("--for"));
    for lasting in ["25h", "10ms"] {
        let shed: Shed = read(&format!(r#"{{"percent":30,"for":"{lasting}"}}"#)).unwrap();
        assert!(shed.apply(NONE, NOW).unwrap_err().0.contains("1s to 24h"));
    }
}

#[test]
fn requests_with_unknown_keys_bad_durations_or_odd_stages_are_refused() {
    assert!(
        read::<Retries>(r#"{"state":"Disabled","fro":"1m"}"#)
            .unwrap_err()
            .contains("fro")
    );
    assert!(
        read::<Retries>(r#"{"state":"off"}"#)
            .unwrap_err()
            .contains("Disabled")
    );
    assert!(
        read::<Retries>(r#"{"state":"Disabled","for":"15"}"#)
            .unwrap_err()
            .contains("no unit")
    );
    for stages in ["[]", "[50,25]", "[0]", "[101]", "[1,2,3,4,5,6,7,8,9]"] {
        let off: Retries = read(&format!(r#"{{"state":"Disabled","stages":{stages}}}"#)).unwrap();
        assert!(off.apply(NONE, NOW).is_err(), "{stages}");
    }
    for (key, value) in [
        ("holdAbove", "-1"),
        ("holdAbove", "100.5"),
        ("every", r#""999ms""#),
        ("every", r#""61m""#),
    ] {
        let off = format!(r#"{{"state":"Disabled","{key}":{value}}}"#);
        let off: Retries = read(&off).unwrap();
        let why = off.apply(NONE, NOW).unwrap_err().0;
        assert!(
            why.starts_with(key) && why.contains("out of bounds"),
            "{why}"
        );
    }
    for percent in ["-1", "100.5", "1e9"] {
        let shed: Shed = read(&format!(r#"{{"percent":{percent},"for":"1m"}}"#)).unwrap();
        assert!(shed.apply(NONE, NOW).is_err(), "{percent}");
    }
}
