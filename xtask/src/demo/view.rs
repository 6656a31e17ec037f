//! The storm while it happens: a picture that grows in place on a terminal, a line a
//! second elsewhere.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;

use super::{
    figures,
    record::{End, PerSecond, Plan, Scene, Seconds, Span},
    text,
};

/// A column of the picture.
const COLUMN: Seconds = Seconds(0.5);
/// Height of the picture of the load, in half capacities: four tries a call are 3.2.
const LOAD_ROWS: usize = 7;
const GOODPUT_ROWS: usize = 2;
const MARGIN: usize = 18;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const RED: &str = "31";
const YELLOW: &str = "33";
const GREEN: &str = "32";
const CYAN: &str = "36";
const BOLD: &str = "1";
const DIM: &str = "2";

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// A picture, drawn over and over.
    Live,
    /// A line a second.
    Lines,
}

impl Style {
    /// What fits the terminal, if it is one.
    pub fn fitting() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty())
            || std::env::var_os("TERM").is_none_or(|it| it == "dumb");
        match io::stdout().is_terminal() && !plain {
            true => Self::Live,
            false => Self::Lines,
        }
    }
}

/// The view of one scene.
#[derive(Debug)]
pub struct View {
    style: Style,
    title: &'static str,
    plan: Plan,
    /// Rows of the picture that is there.
    drawn: usize,
    /// The second that was told last.
    told: u64,
}

impl View {
    /// A view of the scene with this title.
    pub fn open(style: Style, title: &'static str, plan: Plan) -> Self {
        println!();
        if style == Style::Lines {
            println!("{title}");
        }
        Self {
            style,
            title,
            plan,
            drawn: 0,
            told: 0,
        }
    }

    /// Shows the scene as it is at `now`.
    pub fn show(&mut self, scene: &Scene, now: Seconds) -> Result<()> {
        match self.style {
            Style::Live => self.draw(&picture(self.title, &self.plan, scene, now)),
            Style::Lines if now.0 as u64 > self.told => {
                self.told = now.0 as u64;
                println!("{}", line(&self.plan, scene, now));
                Ok(())
            }
            Style::Lines => Ok(()),
        }
    }

    /// Shows it for the last time, as it was when the load ended.
    pub fn end(&mut self, scene: &Scene, at: Seconds) -> Result<()> {
        match self.style {
            Style::Live => self.show(scene, at),
            Style::Lines => Ok(()),
        }
    }

    /// Over the picture before. Long lines are cut, not wrapped: they would move it.
    fn draw(&mut self, rows: &[String]) -> Result<()> {
        let mut out = String::from("\x1b[?7l");
        if self.drawn > 0 {
            out += &format!("\x1b[{}A", self.drawn);
        }
        for row in rows {
            out += &format!("\r{row}\x1b[K\n");
        }
        out += "\x1b[?7h";
        self.drawn = rows.len();
        let mut terminal = io::stdout().lock();
        terminal.write_all(out.as_bytes())?;
        Ok(terminal.flush()?)
    }
}

/// The last second.
struct Now {
    load: PerSecond,
    good: usize,
    refused: usize,
    failed: usize,
    waiting: u64,
}

impl Now {
    fn of(scene: &Scene, now: Seconds) -> Self {
        let second = Span {
            from: now - Seconds(1.0),
            to: now,
        };
        let ended = |end| figures::ended(scene, second, end);
        let load = figures::arrived(scene, second.to) - figures::arrived(scene, second.from);
        Self {
            load: PerSecond(load),
            good: ended(End::Good),
            refused: ended(End::Refused),
            failed: ended(End::Failed),
            waiting: scene.samples.last().map_or(0, |sample| sample.waiting),
        }
    }
}

/// What the service is doing.
fn act(plan: &Plan, scene: &Scene, now: Seconds) -> &'static str {
    match now {
        _ if now < scene.stall.from => "healthy",
        _ if now < scene.stall.to => "stalled",
        _ if now < plan.length() => "works again",
        _ => "load has ended",
    }
}

/// One line for the second that ends.
fn line(plan: &Plan, scene: &Scene, now: Seconds) -> String {
    let at = Now::of(scene, now);
    format!(
        "{:>4} s  {:<14}  load {:>5}  goodput {:>5}  refused {:>5}  queue {:>6}",
        now.0 as u64,
        act(plan, scene, now),
        text::rate(at.load),
        text::rate(PerSecond(at.good as f64)),
        text::rate(PerSecond(at.refused as f64)),
        text::count(at.waiting),
    )
}

/// The picture: load above, goodput below, both on the same scale.
fn picture(title: &str, plan: &Plan, scene: &Scene, now: Seconds) -> Vec<String> {
    let row_height = PerSecond(plan.capacity.0 / 2.0);
    let until = if now < plan.length() {
        now
    } else {
        plan.length()
    };
    let load = figures::load(scene, COLUMN, until);
    let good = figures::ends(scene, COLUMN, until, End::Good);
    let at = Now::of(scene, now);
    let columns = (plan.length().0 / COLUMN.0).round() as usize;

    let clock = format!("{:.0} of {:.0} s", until.0, plan.length().0);
    let mut rows = vec![format!(
        " {}{clock:>width$}",
        paint(BOLD, title),
        width = MARGIN + columns - 1 - title.chars().count()
    )];
    for row in (0..LOAD_ROWS).rev() {
        let label = match row {
            _ if row == LOAD_ROWS - 1 => format!("load {:>9}", text::rate(at.load)),
            1 => format!("capacity {}", text::rate(plan.capacity)),
            _ => String::new(),
        };
        // Row 1 ends where capacity does.
        let color = if row > 1 { RED } else { YELLOW };
        let rule = if row == 1 { '┈' } else { ' ' };
        rows.push(chart_row(
            &label,
            color,
            &bars(&load, row_height, row, columns, rule),
        ));
    }
    for row in (0..GOODPUT_ROWS).rev() {
        let label = match row {
            1 => format!("goodput {:>6}", text::rate(PerSecond(at.good as f64))),
            _ => String::new(),
        };
        rows.push(chart_row(
            &label,
            GREEN,
            &bars(&good, row_height, row, columns, ' '),
        ));
    }
    rows.push(format!("{:MARGIN$}{}", "", paint(DIM, &acts(plan, scene))));
    let state = act(plan, scene, now);
    let color = if state == "stalled" { RED } else { CYAN };
    rows.push(format!(
        " {:<15}  {}, {} in its queue",
        "service",
        paint(color, state),
        text::count(at.waiting)
    ));
    rows.push(format!(
        " {:<15}  {} answered, {} gave up, {} refused at once",
        "tries",
        text::rate(PerSecond(at.good as f64)),
        text::rate(PerSecond(at.failed as f64)),
        text::rate(PerSecond(at.refused as f64)),
    ));
    rows
}

fn chart_row(label: &str, color: &str, bars: &str) -> String {
    format!(
        " {label:<width$}{}{}",
        paint(DIM, "│"),
        paint(color, bars),
        width = MARGIN - 2
    )
}

/// One row of a bar chart; where there is no bar, `rule`.
fn bars(values: &[PerSecond], height: PerSecond, row: usize, columns: usize, rule: char) -> String {
    let cell = |column: usize| {
        let value = values.get(column).map_or(0.0, |rate| rate.0);
        let eighths = (value / height.0 * 8.0).round() as usize;
        match eighths.saturating_sub(row * 8).min(8) {
            0 => rule,
            filled => EIGHTHS[filled],
        }
    };
    (0..columns).map(cell).collect()
}

/// What happened when, under the chart.
fn acts(plan: &Plan, scene: &Scene) -> String {
    let columns = |length: Seconds| (length.0 / COLUMN.0).round() as usize;
    let part = |name: &str, length: Seconds| {
        let width = columns(length).saturating_sub(1);
        format!("└{name:─<width$}")
    };
    [
        part(" healthy ", scene.stall.from),
        part(" stalled ", scene.stall.length()),
        part(" works again ", plan.length() - scene.stall.to),
    ]
    .concat()
}

fn paint(color: &str, text: &str) -> String {
    format!("\x1b[{color}m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::figures::tests::scene;

    fn plan() -> Plan {
        Plan {
            capacity: PerSecond(12.5),
            offered: PerSecond(10.0),
            curls: 0,
            healthy: Seconds(5.0),
            stall: Seconds(5.0),
            after: Seconds(19.0),
        }
    }

    /// Without colours.
    fn plain(row: &str) -> String {
        let mut out = String::new();
        let mut rest = row;
        while let Some((before, after)) = rest.split_once("\x1b[") {
            out += before;
            rest = after.split_once('m').map_or("", |(_, rest)| rest);
        }
        out + rest
    }

    #[test]
    fn the_picture_keeps_its_size_and_fits_the_narrowest_terminal() {
        let scene = scene(Seconds(10.0));
        let sizes: Vec<usize> = [0.0, 7.3, 29.0, 40.0]
            .map(|now| {
                let rows = picture("Without the governor", &plan(), &scene, Seconds(now));
                for row in &rows {
                    assert!(plain(row).chars().count() <= 80, "{row}");
                }
                rows.len()
            })
            .to_vec();
        assert!(sizes.iter().all(|size| *size == sizes[0] && *size < 24));
    }

    #[test]
    fn a_bar_fills_its_rows_from_below() {
        let values = [PerSecond(0.0), PerSecond(50.0), PerSecond(150.0)];
        let row = |row| bars(&values, PerSecond(100.0), row, 4, ' ');
        assert_eq!(row(0), " ▄█ ");
        assert_eq!(row(1), "  ▄ ");
        assert_eq!(row(2), "    ");
    }

    #[test]
    fn a_line_tells_the_last_second() {
        let told = line(&plan(), &scene(Seconds(10.0)), Seconds(4.0));
        assert!(told.contains("healthy"), "{told}");
        assert!(told.contains("load  10/s"), "{told}");
        assert!(told.chars().count() <= 80, "{told}");
    }
}
