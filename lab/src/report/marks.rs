//! What happened when: shades and lines through all panels, named above the first.

use super::axis::Axis;
use super::paper::{self, Anchor, GREY, Paper, Pen, Words};
use crate::findings::{Mark, Run};

/// Height of a row of names.
const ROW: f64 = 16.0;
/// Between two names in a row.
const BETWEEN: f64 = 10.0;
/// From a line to its name.
const LEAD: f64 = 4.0;
/// Runs that play the same do it at the same time, but for so many seconds.
const SAME: f64 = 0.5;
/// What is narrower than this on the paper is a line.
const LINE: f64 = 2.0;

/// Marks with the places of their names.
#[derive(Debug)]
pub struct Shown {
    marks: Vec<Placed>,
}

#[derive(Debug)]
struct Placed {
    mark: Mark,
    row: usize,
    /// Where its name begins.
    left: f64,
}

impl Shown {
    /// The marks of all runs, each once, on this time axis.
    pub fn of(runs: &[Run], time: Axis) -> Self {
        // Where the name that is last in each row ends.
        let mut rows: Vec<f64> = Vec::new();
        let place = |mark: Mark| {
            let width = paper::width(&mark.label);
            let (from, to) = (time.at(mark.from), time.at(mark.to));
            let wanted = if to - from < LINE {
                from + LEAD
            } else {
                // Where it is wider than its shade, the line of an earlier mark may be on its left.
                ((from + to - width) / 2.0).max(from)
            };
            // Not beyond the panels, as long as they are wide enough.
            let left = wanted.min(time.end - width).max(time.zero);
            // Its line or shade goes down through the rows below: nothing may be there.
            let begin = left.min(from);
            let row = rows
                .iter()
                .rposition(|end| end + BETWEEN > begin)
                .map_or(0, |row| row + 1);
            rows.truncate(row);
            rows.push(left + width);
            Placed { mark, row, left }
        };
        Self {
            marks: merged(runs).into_iter().map(place).collect(),
        }
    }

    /// Room that the names need.
    pub fn height(&self) -> f64 {
        let rows = self.marks.iter().map(|placed| placed.row + 1).max();
        rows.map_or(0.0, |rows| rows as f64 * ROW + 4.0)
    }

    /// Draws the names from `y` on, and shades and lines in the panels, from the top of each to
    /// its bottom.
    pub fn draw(&self, paper: &mut Paper, y: f64, panels: &[(f64, f64)], time: Axis) {
        for Placed { mark, row, left } in &self.marks {
            let top = y + *row as f64 * ROW;
            let (from, to) = (time.at(mark.from), time.at(mark.to));
            let base = (*left, top + 12.0);
            paper.words(base, Anchor::Start, Words::Plain, GREY, &mark.label);
            if to - from >= LINE {
                for (top, bottom) in panels {
                    paper.shade((from, *top), (to, *bottom), GREY, 0.16);
                }
                continue;
            }
            let pen = Pen {
                width: 1.5,
                opacity: 0.7,
                dash: Some("2 3"),
                ..Pen::GRID
            };
            let first = panels.first().map(|(_, bottom)| (top + 3.0, *bottom));
            for (top, bottom) in first.iter().chain(panels.iter().skip(1)) {
                paper.line((from, *top), (from, *bottom), pen);
            }
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
        let rows: Vec<_> = shown.marks.iter().map(|placed| placed.row).collect();
        assert_eq!(rows, [0, 1, 0]);
        assert_eq!(shown.height(), 2.0 * ROW + 4.0);
    }

    #[test]
    fn a_name_does_not_leave_the_panel() {
        let mut one = run("with", true);
        one.marks = vec![
            mark(0.0, 0.0, "restarted cold"),
            mark(60.0, 60.0, "restarted cold"),
        ];
        let shown = Shown::of(&[one], TIME);
        let width = paper::width("restarted cold");
        assert_eq!(shown.marks[0].left, LEAD);
        assert_eq!(shown.marks[1].left, 600.0 - width);
    }

    #[test]
    fn a_name_that_is_wider_than_its_shade_begins_with_it() {
        let mut one = run("with", true);
        one.marks = vec![mark(9.5, 9.5, "25 %"), mark(10.0, 12.0, "half are errors")];
        let shown = Shown::of(&[one], TIME);
        assert_eq!(shown.marks[1].left, 100.0);
    }

    #[test]
    fn no_line_goes_through_a_name() {
        let mut one = run("with", true);
        // The second name is below the first, and still there when the third begins.
        one.marks = vec![
            mark(10.0, 10.0, "killed"),
            mark(11.0, 11.0, "a name that is quite long"),
            mark(20.0, 20.0, "restarted"),
        ];
        let shown = Shown::of(&[one], TIME);
        let rows: Vec<_> = shown.marks.iter().map(|placed| placed.row).collect();
        assert_eq!(rows, [0, 1, 2]);
    }
}
