//! What happened when: shades and lines through all panels, named above them.

use super::axis::Axis;
use super::paper::{self, Anchor, GREY, Paper, Pen, Words};
use crate::findings::{Mark, Run};

/// Height of a row of names.
const ROW: f64 = 16.0;
/// Between two names in a row.
const BETWEEN: f64 = 10.0;
/// Runs that play the same do it at the same time, but for so many seconds.
const SAME: f64 = 0.5;

/// Marks with the places of their names.
#[derive(Debug)]
pub struct Shown {
    /// Each with its row and the middle of its name.
    marks: Vec<(Mark, usize, f64)>,
}

impl Shown {
    /// The marks of all runs, each once, on this time axis.
    pub fn of(runs: &[Run], time: Axis) -> Self {
        let mut rows: Vec<f64> = Vec::new();
        let place = |mark: Mark| {
            let half = paper::width(&mark.label) / 2.0;
            let middle = (time.at(mark.from) + time.at(mark.to)) / 2.0;
            // Not beyond the panels, as long as they are wide enough.
            let middle = middle.min(time.end - half).max(time.zero + half);
            let row = rows
                .iter()
                .position(|end| end + BETWEEN <= middle - half)
                .unwrap_or(rows.len());
            if row == rows.len() {
                rows.push(0.0);
            }
            rows[row] = middle + half;
            (mark, row, middle)
        };
        Self {
            marks: merged(runs).into_iter().map(place).collect(),
        }
    }

    /// Room that the names need.
    pub fn height(&self) -> f64 {
        let rows = self.marks.iter().map(|mark| mark.1 + 1).max();
        rows.unwrap_or(0) as f64 * ROW
    }

    /// Draws them: names from `y` on, shades and lines down to `bottom`.
    pub fn draw(&self, paper: &mut Paper, y: f64, bottom: f64, time: Axis) {
        for (mark, row, middle) in &self.marks {
            let base = y + *row as f64 * ROW + 11.0;
            let top = base + 5.0;
            let (from, to) = (time.at(mark.from), time.at(mark.to));
            if to - from >= 1.0 {
                paper.shade((from, top), (to, bottom), GREY, 0.16);
            } else {
                let pen = Pen {
                    width: 1.5,
                    opacity: 0.6,
                    dash: Some("2 3"),
                    ..Pen::GRID
                };
                paper.line((from, top), (from, bottom), pen);
            }
            paper.words(
                (*middle, base),
                Anchor::Middle,
                Words::Plain,
                GREY,
                &mark.label,
            );
        }
    }
}

/// The marks in the order of time; what happened in one run only says in which.
fn merged(runs: &[Run]) -> Vec<Mark> {
    let mut all: Vec<(Mark, Vec<&str>)> = Vec::new();
    for run in runs {
        for mark in &run.marks {
            let same = |other: &&mut (Mark, Vec<&str>)| {
                other.0.label == mark.label
                    && (other.0.from - mark.from).abs() <= SAME
                    && (other.0.to - mark.to).abs() <= SAME
            };
            match all.iter_mut().find(same) {
                Some((_, names)) => names.push(&run.name),
                None => all.push((mark.clone(), vec![&run.name])),
            }
        }
    }
    let mut marks: Vec<Mark> = all
        .into_iter()
        .map(|(mark, names)| named(mark, &names, runs.len()))
        .collect();
    marks.sort_by(|a, b| a.from.total_cmp(&b.from));
    marks
}

fn named(mut mark: Mark, names: &[&str], runs: usize) -> Mark {
    if names.len() < runs {
        mark.label = format!("{} ({})", mark.label, names.join("; "));
    }
    mark
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::run;

    const TIME: Axis = Axis {
        top: 60.0,
        zero: 0.0,
        end: 600.0,
    };

    fn mark(from: f64, to: f64, label: &str) -> Mark {
        Mark {
            from,
            to,
            label: label.to_owned(),
        }
    }

    #[test]
    fn what_happens_in_every_run_is_named_once() {
        let mut runs = [run("without", false), run("with", true)];
        runs[0].marks = vec![mark(10.0, 15.0, "stalled")];
        runs[1].marks = vec![mark(10.1, 15.2, "stalled"), mark(20.0, 20.0, "retries off")];
        let labels: Vec<_> = merged(&runs).into_iter().map(|mark| mark.label).collect();
        assert_eq!(labels, ["stalled", "retries off (with)"]);
    }

    #[test]
    fn names_that_would_touch_are_in_rows() {
        let mut one = run("with", true);
        one.marks = vec![
            mark(10.0, 10.0, "killed"),
            mark(11.0, 11.0, "restarted"),
            mark(40.0, 40.0, "killed"),
        ];
        let shown = Shown::of(&[one], TIME);
        let rows: Vec<_> = shown.marks.iter().map(|mark| mark.1).collect();
        assert_eq!(rows, [0, 1, 0]);
        assert_eq!(shown.height(), 2.0 * ROW);
    }

    #[test]
    fn a_name_does_not_leave_the_panel() {
        let mut one = run("with", true);
        one.marks = vec![
            mark(0.0, 0.0, "restarted cold"),
            mark(60.0, 60.0, "restarted cold"),
        ];
        let shown = Shown::of(&[one], TIME);
        let half = paper::width("restarted cold") / 2.0;
        assert_eq!(shown.marks[0].2, half);
        assert_eq!(shown.marks[1].2, 600.0 - half);
    }
}
