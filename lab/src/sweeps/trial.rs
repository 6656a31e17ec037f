//! One default under trial: its values, the storms, and what is measured in them.

use governor_core::params::Params;
use governor_tests::sim::world::{Random, World};
use governor_tests::sim::{Law, Report, simulate};

use super::cpus;
use super::stand::Tried;
use crate::findings::Sweep;
use crate::scenario::Length;

/// A default, and the values it is tried with.
pub struct Trial {
    /// As the policy spells it.
    pub key: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// The default.
    pub chosen: f64,
    /// The values, in order; the default is one of them.
    pub values: &'static [f64],
    /// Sets a value.
    pub set: fn(&mut Params, f64),
    /// Where it matters.
    pub scenes: &'static [&'static Scene],
}

/// A storm and what is measured in it.
pub struct Scene {
    world: fn(&mut Random) -> World,
    law: fn(Params) -> Law,
    measures: &'static [Measure],
}

impl Scene {
    /// Played under the real law.
    pub const fn of(world: fn(&mut Random) -> World, measures: &'static [Measure]) -> Self {
        Self {
            world,
            law: Law::Governor,
            measures,
        }
    }

    /// The same, with the law applied otherwise.
    pub const fn under(self, law: fn(Params) -> Law) -> Self {
        Self { law, ..self }
    }
}

/// One figure of a storm.
pub struct Measure {
    pub(super) name: &'static str,
    pub(super) wanted: Wanted,
    over: Over,
    of: fn(&Report) -> f64,
}

/// A figure with its unit, mean of several seeds: which way is better, and how much worse than the
/// best the default may be.
pub const fn mean(name: &'static str, wanted: Wanted, of: fn(&Report) -> f64) -> Measure {
    Measure {
        name,
        wanted,
        over: Over::Mean,
        of,
    }
}

/// The same, of the worst seed.
pub const fn worst(name: &'static str, wanted: Wanted, of: fn(&Report) -> f64) -> Measure {
    Measure {
        name,
        wanted,
        over: Over::Worst,
        of,
    }
}

/// Which way is better; the default may be so much worse than the best value.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// More is better.
    More(f64),
    /// Less is better.
    Less(f64),
}

/// What is taken of several seeds.
#[derive(Clone, Copy)]
enum Over {
    Mean,
    Worst,
}

impl Wanted {
    /// How much better one figure is than another; negative where it is worse.
    pub(super) fn gain(self, of: f64, over: f64) -> f64 {
        match self {
            Self::More(_) => of - over,
            Self::Less(_) => over - of,
        }
    }

    pub(super) fn within(self) -> f64 {
        match self {
            Self::More(within) | Self::Less(within) => within,
        }
    }
}

impl Measure {
    fn taken(&self, figures: &[f64]) -> f64 {
        match self.over {
            Over::Mean => figures.iter().sum::<f64>() / figures.len() as f64,
            Over::Worst => figures
                .iter()
                .copied()
                .reduce(|a, b| if self.wanted.gain(a, b) < 0.0 { a } else { b })
                .unwrap_or(f64::NAN),
        }
    }
}

/// One run: which trial, value, scene, seed.
#[derive(Clone, Copy)]
struct Job {
    trial: usize,
    value: usize,
    scene: usize,
    seed: u64,
}

/// How many seeds each value is tried with.
pub fn seeds(length: Length) -> u64 {
    length.pick(2, 10, 30)
}

/// Runs trials, on all CPUs.
pub fn run(trials: &[&'static Trial], length: Length) -> Vec<Tried> {
    let seeds = seeds(length);
    let mut jobs = Vec::new();
    for (number, trial) in trials.iter().enumerate() {
        for value in 0..trial.values.len() {
            for scene in 0..trial.scenes.len() {
                jobs.extend((1..=seeds).map(|seed| Job {
                    trial: number,
                    value,
                    scene,
                    seed,
                }));
            }
        }
    }
    let done = cpus::on_all(&jobs, |job| job.play(trials[job.trial]));
    let tried = |(number, trial): (usize, &&'static Trial)| Tried {
        trial,
        sweep: trial.sweep(|value, scene| {
            let of = |job: &Job| (job.trial, job.value, job.scene) == (number, value, scene);
            let of = done.iter().filter(|(job, _)| of(job));
            of.map(|(_, figures)| figures.as_slice()).collect()
        }),
    };
    trials.iter().enumerate().map(tried).collect()
}

impl Job {
    fn play(self, trial: &Trial) -> Vec<f64> {
        let scene = trial.scenes[self.scene];
        let mut params = Params::DEFAULT;
        (trial.set)(&mut params, trial.values[self.value]);
        let world = (scene.world)(&mut Random::new(self.seed));
        let report = simulate(&world, (scene.law)(params), self.seed);
        let measures = scene.measures.iter();
        measures.map(|measure| (measure.of)(&report)).collect()
    }
}

impl Trial {
    pub(super) fn measures(&self) -> impl Iterator<Item = &'static Measure> {
        self.scenes.iter().flat_map(|scene| scene.measures)
    }

    /// `figures` gives for a value and a scene, seed by seed, the figure of each measure.
    pub(super) fn sweep<'a>(&self, figures: impl Fn(usize, usize) -> Vec<&'a [f64]>) -> Sweep {
        let point = |value: usize| {
            let mut measured = Vec::new();
            for (number, scene) in self.scenes.iter().enumerate() {
                let seeds = figures(value, number);
                for (at, measure) in scene.measures.iter().enumerate() {
                    let figures: Vec<f64> = seeds.iter().map(|seed| seed[at]).collect();
                    measured.push((measure.name.to_owned(), measure.taken(&figures)));
                }
            }
            (self.values[value], measured)
        };
        Sweep {
            key: self.key.to_owned(),
            unit: self.unit.to_owned(),
            chosen: self.chosen,
            points: (0..self.values.len()).map(point).collect(),
        }
    }
}
