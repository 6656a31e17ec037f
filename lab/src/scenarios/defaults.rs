//! The defaults of the policy, each beside smaller and larger values.

use crate::findings::Key;
use crate::scenario::{Found, Play, Scenario};
use crate::sweeps::stand::{Stand, Tried};
use crate::sweeps::{self, Trial, trial};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "defaults",
    title: "each default of the policy, tried beside smaller and larger values",
    seconds: |length| length.pick(12.0, 75.0, 225.0),
    play,
};

fn play(play: &Play<'_>) -> Found {
    let trials: Vec<&'static Trial> = sweeps::all().collect();
    let act = play
        .progress
        .act("in the simulator", (SCENARIO.seconds)(play.length));
    act.begins();
    let tried = trial::run(&trials, play.length);
    let claims: Vec<_> = tried.iter().map(Tried::claim).collect();
    let stand = |which: fn(&Stand) -> bool| tried.iter().filter(|it| which(&it.stand())).count();
    let plateau = stand(|it| *it == Stand::Plateau);
    let trade = stand(|it| *it == Stand::Trade);
    Found {
        story: format!(
            "{} defaults of the policy, each with five to eight values in the storms in which it matters: what a \
             smaller value loses, and what a larger one. The law is the real one, in the simulator; {} seeds. A \
             default stands where no value tried is much better in one measure and not much worse in another; how \
             much is much is set for each measure, in its source.",
            tried.len(),
            trial::seeds(play.length),
        ),
        key: Some(Key {
            what: format!("of {} defaults", tried.len()),
            without: String::new(),
            with: format!(
                "{plateau} on the plateau, {trade} a trade, {} beaten",
                tried.len() - plateau - trade
            ),
        }),
        notes: vec![
            "`a trade`: some value is much better in one measure and much worse in another. Named is the nearest such \
             value on either side, with its figures and the default's; the sweep's table has all."
                .to_owned(),
            "`circuitBreaker.silence.duration`: 3 s would serve better where one backend of ten lives. It is 2 s since \
             no more than 250 of 500 tries may reach a port in the 5 s after it began to refuse."
                .to_owned(),
            "`circuitBreaker.ramp`: 2 s would serve services better that are killed while they are cold, and let a \
             stalled one come back later. It is 1 s for the many that only stalled; a service that needs long until it \
             is warm wants 2 to 5 s."
                .to_owned(),
            "`concurrency.latencyTolerance`: in the first seconds after a stall latency may sway by so much; what sways \
             by more is taken for a queue until the limit is down to a quarter. It matters only where answers \
             take more than a sixteenth of what callers wait: below, the limiter does not call latency high."
                .to_owned(),
            "`retry.evidenceWindow`: guesses refuse nothing. Retries that come later are not counted as such, and polls \
             that come sooner are."
                .to_owned(),
            "`pushback.maxRetryAfter` of 0 is `honorRetryAfter: false`. `deny.retryAfter` of 0 can not be set: callers \
             then wait as long as they would by themselves. Only callers that read `Retry-After` are in its storms; \
             for others all values are alike."
                .to_owned(),
            "Not swept: `retry.codes` and `nonIdempotent`, since the simulator knows one status and no methods (scenario \
             not-retryable), and the limiter's fixed figures."
                .to_owned(),
        ],
        claims,
        sweeps: tried.into_iter().map(|tried| tried.sweep).collect(),
        ..Found::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_is_the_one_in_force_and_among_the_values_tried() {
        for trial in sweeps::all() {
            assert!(trial.values.contains(&trial.chosen), "{}", trial.key);
            assert!(trial.values.is_sorted(), "{}", trial.key);
            let mut params = governor_core::params::Params::DEFAULT;
            (trial.set)(&mut params, trial.chosen);
            assert_eq!(
                params,
                governor_core::params::Params::DEFAULT,
                "{}",
                trial.key
            );
        }
    }
}
