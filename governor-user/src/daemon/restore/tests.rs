use super::*;
use crate::daemon::operators::NOTHING;

const LOOK: u64 = 500;
const EVERY: u64 = 60;

/// A restore, its daemon, and the service: 100 outcomes in the last seconds, of which so many fail.
struct World {
    order: Order,
    watch: Option<Watch>,
    failing: u64,
    outcomes: u64,
    now: Nanos,
    told: Vec<String>,
}

const START: Nanos = Nanos::from_secs(10_000);

impl World {
    /// Retries are off for so long; the daemon has watched from the start.
    fn off_for(seconds: u64) -> Self {
        Self {
            order: Order {
                off_from: START.0,
                off_until: START.0 + Nanos::from_secs(seconds).0,
                stage_every: Nanos::from_secs(EVERY).0,
                stages: [10, 25, 50, 100, 0, 0, 0, 0],
                ..NOTHING
            },
            watch: None,
            failing: 12,
            outcomes: 100,
            now: START,
            told: Vec::new(),
        }
    }

    fn restoring() -> Self {
        Self::off_for(0)
    }

    fn failing(&mut self, percent: u64) -> &mut Self {
        self.failing = percent;
        self
    }

    fn outcomes(&mut self, outcomes: u64) -> &mut Self {
        self.outcomes = outcomes;
        self
    }

    /// The daemon looks for so long.
    fn watched_for(&mut self, seconds: u64) -> &mut Self {
        for _ in 0..seconds * 1_000 / LOOK {
            self.now = Nanos(self.now.0 + Nanos::from_millis(LOOK).0);
            let badly = self.failing * self.outcomes / 100;
            let ended = Ended {
                well: self.outcomes - badly,
                badly,
            };
            // What a stage is judged by comes after it has begun.
            let (now, span) = (self.now, Nanos::from_secs(1));
            let since = |since: Nanos| {
                let ended = match now.since(since) > span {
                    true => ended,
                    false => Ended::default(),
                };
                Failing::of(vec![OfOne {
                    workload: 42,
                    recently: ended,
                    lately: ended,
                }])
            };
            let (order, step) = look(&self.order, &mut self.watch, since, self.now);
            self.order = order;
            let workload = |id| format!("cgroup:{id}");
            self.told
                .extend(step.map(|step| step.in_words("auth", workload)));
        }
        self
    }

    /// The daemon is dead for so long; its successor knows the order alone.
    fn unwatched_for(&mut self, seconds: u64) -> &mut Self {
        self.now = Nanos(self.now.0 + Nanos::from_secs(seconds).0);
        self.watch = None;
        self
    }

    fn percent(&self) -> u32 {
        self.order.retries_percent(self.now)
    }

    fn held(&self) -> bool {
        self.watch.is_some_and(|watch| watch.held().is_some())
    }

    #[track_caller]
    fn last_told(&self) -> &str {
        self.told.last().expect("something was told")
    }
}

#[test]
fn a_calm_restore_advances_by_itself_and_says_so() {
    let mut world = World::restoring();
    let percents = [1, 60, 60, 60, 60].map(|seconds| world.watched_for(seconds).percent());
    assert_eq!(percents, [10, 25, 50, 100, 100]);
    assert_eq!(
        world.told,
        [25, 50, 100].map(|percent| format!(
            "{percent} % of retries to auth are admitted: 12 % of attempts fail"
        ))
    );
    assert_eq!(world.order.restoring(world.now), None);
}

#[test]
fn a_calm_restore_is_never_written() {
    let mut world = World::restoring();
    world.watched_for(1);
    let first = world.order;
    world.watched_for(50);
    assert_eq!(world.order, first);
}

#[test]
fn a_stage_in_which_more_fail_than_at_its_beginning_is_held_and_goes_on_where_it_stood() {
    let mut world = World::restoring();
    world.watched_for(80).failing(31).watched_for(20);
    assert!(world.held());
    assert_eq!(
        world.last_told(),
        "retries to auth are held at 25 %: 31 % of attempts fail, 12 % when the stage began; \
         worst: cgroup:42, 31 %"
    );
    world.failing(14).watched_for(38);
    assert_eq!((world.percent(), world.held()), (25, false));
    assert!(
        world
            .last_told()
            .starts_with("retries to auth go on from 25 %: 14 %"),
        "{:?}",
        world.told
    );
    assert_eq!(world.watched_for(4).percent(), 50);
    assert_eq!(world.told.len(), 4, "{:?}", world.told);
}

#[test]
fn what_exceeds_the_beginning_by_no_more_than_allowed_holds_nothing() {
    let mut world = World::restoring();
    world.watched_for(10).failing(17).watched_for(30);
    assert!(!world.held());
    world.failing(18).watched_for(1);
    assert!(world.held());
}

#[test]
fn a_stage_held_at_its_very_end_is_not_left_between_two_looks() {
    let mut world = World::restoring();
    world.watched_for(59).failing(20).watched_for(1);
    for _ in 0..100 {
        assert_eq!(world.watched_for(1).percent(), 10);
        let late = Nanos(world.now.0 + Nanos::from_secs(4).0);
        assert_eq!(world.order.retries_percent(late), 10);
        assert!(world.held());
    }
}

#[test]
fn what_stays_bad_for_a_whole_stage_falls_back_to_the_one_before() {
    let mut world = World::restoring();
    world.watched_for(130).failing(31).watched_for(58);
    assert_eq!((world.percent(), world.held()), (50, true));
    world.watched_for(3);
    assert_eq!(world.percent(), 25);
    assert_eq!(
        world.last_told(),
        "retries to auth fall back from 50 % to 25 %: 31 % of attempts fail, 12 % when the stage began; \
         worst: cgroup:42, 31 %"
    );
    world.watched_for(62);
    assert_eq!(world.percent(), 10);
}

#[test]
fn a_stage_that_was_fallen_back_to_lasts_as_long_as_any_and_the_way_up_goes_on() {
    let mut world = World::restoring();
    world.watched_for(130).failing(31).watched_for(61);
    world.failing(12).watched_for(58);
    assert_eq!((world.percent(), world.held()), (25, false));
    assert_eq!(world.watched_for(3).percent(), 50);
}

#[test]
fn far_above_falls_back_after_five_seconds() {
    let mut world = World::restoring();
    world.watched_for(70).failing(33).watched_for(4);
    assert_eq!(world.percent(), 25);
    assert_eq!(world.watched_for(3).percent(), 10);
    // With 40 points allowed, far above is more than there can be.
    let mut world = World::restoring();
    world.order.hold_above = Told::share(BasisPoints(4_000));
    world.watched_for(70).failing(90).watched_for(50);
    assert_eq!((world.percent(), world.held()), (25, true));
}

#[test]
fn the_first_stage_begins_anew_and_never_falls_back_to_off() {
    let mut world = World::restoring();
    world.watched_for(10).failing(90);
    for _ in 0..302 {
        assert_eq!(world.watched_for(1).percent(), 10);
    }
    let anew = world
        .told
        .iter()
        .filter(|told| told.contains("begin anew at 10 %"));
    assert_eq!(anew.count(), 5, "{:?}", world.told);
    world.failing(12).watched_for(62);
    assert_eq!(world.percent(), 25);
}

#[test]
fn a_restore_is_held_up_for_two_days_at_most() {
    let mut world = World::restoring();
    world
        .watched_for(10)
        .failing(90)
        .watched_for(48 * 3_600 - 20);
    assert_eq!((world.percent(), world.held()), (10, true));
    world.watched_for(20);
    assert!(
        world.last_told().contains("after two days"),
        "{}",
        world.last_told()
    );
    world.watched_for(240);
    assert_eq!(world.percent(), 100);
}

#[test]
fn with_too_few_outcomes_there_is_neither_a_hold_nor_a_fall() {
    let mut world = World::restoring();
    world
        .watched_for(70)
        .outcomes(19)
        .failing(100)
        .watched_for(52);
    assert_eq!((world.percent(), world.held()), (50, false));
    assert_eq!(
        world.last_told(),
        "50 % of retries to auth are admitted: too few attempts end to tell how many fail"
    );
    world.outcomes(20).watched_for(2);
    assert!(world.held(), "12 % are known from the stage before");
    world.outcomes(19).watched_for(1);
    assert!(!world.held(), "nothing is known any more");
}

#[test]
fn what_is_known_first_of_a_stage_stands_for_its_beginning_where_nothing_else_does() {
    let mut world = World::restoring();
    world.outcomes(0).watched_for(5);
    assert_eq!(world.order.began_with.get(), None);
    world.outcomes(100).failing(40).watched_for(10);
    assert_eq!(world.order.began_with.get(), Some(BasisPoints(4_000)));
    assert!(!world.held());
    world.failing(50).watched_for(1);
    assert!(world.held());
}

#[test]
fn a_daemon_that_dies_while_it_holds_lets_the_kernel_go_on() {
    let mut world = World::restoring();
    world.watched_for(30).failing(31).watched_for(20);
    assert_eq!((world.percent(), world.held()), (10, true));
    assert_eq!(world.unwatched_for(32).percent(), 25);
    assert_eq!(world.unwatched_for(60).percent(), 50);
    assert_eq!(world.unwatched_for(60).percent(), 100);
    world.unwatched_for(60);
    assert_eq!(world.order.restoring(world.now), None);
}

#[test]
fn a_daemon_that_comes_back_in_the_middle_of_a_stage_knows_what_it_began_with() {
    let mut world = World::restoring();
    world
        .watched_for(70)
        .failing(31)
        .unwatched_for(20)
        .watched_for(2);
    assert_eq!((world.percent(), world.held()), (25, true));
    let mut world = World::restoring();
    world
        .watched_for(70)
        .failing(31)
        .unwatched_for(70)
        .watched_for(2);
    assert_eq!(
        (world.percent(), world.held()),
        (50, true),
        "of the stage before"
    );
    assert!(
        world.last_told().contains("12 % when the stage began"),
        "{:?}",
        world.told
    );
}

#[test]
fn retries_that_were_off_are_watched_as_they_return() {
    let mut world = World::off_for(900);
    world.failing(12).watched_for(899);
    assert_eq!((world.percent(), world.told.len()), (0, 0));
    world.watched_for(2);
    assert_eq!(world.percent(), 10);
    assert_eq!(
        world.told,
        ["10 % of retries to auth are admitted: 12 % of attempts fail"]
    );
    world.failing(31).watched_for(10);
    assert!(world.held());
}

#[test]
fn a_restore_right_after_boot_falls_back_to_the_stage_before() {
    let mut world = World::restoring();
    world.order.off_from = 1;
    world.order.off_until = 1;
    world.now = Nanos(1);
    world.watched_for(61).failing(90).watched_for(70);
    assert_eq!(world.percent(), 10);
}

#[test]
fn while_most_attempts_fail_a_stage_is_held_though_no_more_do_than_when_it_began() {
    let mut world = World::off_for(30);
    world.failing(100).watched_for(32);
    for _ in 0..300 {
        assert_eq!(world.watched_for(1).percent(), 10);
    }
    assert!(world.held());
    assert_eq!(
        world.told,
        [
            "10 % of retries to auth are admitted: 100 % of attempts fail",
            "retries to auth are held at 10 %: 100 % of attempts fail, more than half \
             (`retry-governor retries on` ends it); worst: cgroup:42, 100 %"
        ]
    );
    world.failing(50).watched_for(62);
    assert_eq!((world.percent(), world.held()), (25, false));
}

#[test]
fn a_stage_that_was_held_because_most_fail_is_not_at_once_too_bad_for_a_whole_stage() {
    let mut world = World::restoring();
    world
        .failing(60)
        .watched_for(5)
        .failing(64)
        .watched_for(600);
    assert_eq!((world.percent(), world.held()), (10, true));
    world.failing(12).watched_for(60).failing(53).watched_for(4);
    assert_eq!((world.percent(), world.held()), (25, true));
}

#[test]
fn held_since_does_not_move_when_the_first_stage_begins_anew() {
    let mut world = World::restoring();
    world.watched_for(10).failing(40).watched_for(2);
    let since = |world: &World| world.watch.unwrap().held().unwrap().since;
    let first = since(&world);
    world.watched_for(150);
    assert!(world.last_told().contains("begin anew"), "{:?}", world.told);
    assert_eq!(since(&world), first);
    let back = world.watch.unwrap().falls_back(&world.order).unwrap();
    assert!(back > world.now, "it is yet to begin anew");
}

#[test]
fn whoever_is_heard_first_in_a_stage_does_not_decide_before_the_others() {
    let mut world = World::restoring();
    world.watched_for(10);
    let of = |percent: u32, asked| Failing {
        share: BasisPoints(percent * 100),
        worst: None,
        asked,
    };
    let mut held_where = |all| {
        let failing = |since| match since {
            Nanos(0) => Some(all),
            _ => Some(of(100, Asked::One)),
        };
        look(&world.order, &mut world.watch, failing, world.now);
        world.held()
    };
    assert!(!held_where(of(0, Asked::Several)));
    assert!(held_where(of(0, Asked::One)));
}
