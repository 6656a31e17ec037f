//! The report as people read it.

use super::figures::{Figures, key};
use super::number::{duration, number, percent};
use super::{About, Program, chart, chart_name, sweep, sweep_name};
use crate::findings::{Claim, Findings, Sweep, Table, Verdict};

/// The whole of it.
pub fn report(findings: &[Findings], about: &About) -> String {
    let mut page = Page::default();
    page.line("# The storm lab");
    page.line("");
    page.line(
        "Outages, played with real processes, real sockets and the real kernel programs: each storm without \
         the governor and with it, in the same run. *Offered* are first tries: more than that reaches a service \
         by retries only. *Possible* is the lesser of what is offered and what the service can do.",
    );
    page.line("");
    page.line(&format!("**{}**", summary(findings, about)));
    page.line("");
    table(&mut page, findings);
    measured_on(&mut page, findings, about);
    for found in findings {
        section(&mut page, found, about);
    }
    sweeps(&mut page, findings);
    page.0
}

/// `every claim holds (6 of 6)`, `2 of 6 claims FAIL`, `6 of 6 claims not judged: the machine was too slow`
pub fn verdict(found: &Findings) -> String {
    let all = found.claims.len();
    let failed = match found.count(Verdict::Fails) {
        0 => None,
        1 => Some(format!("1 of {all} claims FAILS")),
        failed => Some(format!("{failed} of {all} claims FAIL")),
    };
    let unjudged = match found.count(Verdict::NotJudged) {
        0 => None,
        unjudged => Some(format!("{unjudged} of {all} claims {TOO_SLOW}")),
    };
    match (failed, unjudged) {
        (Some(failed), Some(unjudged)) => format!("{failed}, {unjudged}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if all == 0 => "nothing is claimed".to_owned(),
        (None, None) => format!("every claim holds ({all} of {all})"),
    }
}

/// Why a claim is not judged.
const TOO_SLOW: &str = "not judged: the machine was too slow";

/// Over all scenarios.
fn summary(findings: &[Findings], about: &About) -> String {
    let all = findings.len();
    let with = |verdict| {
        let these = findings.iter().filter(move |it| it.count(verdict) > 0);
        these.map(|it| it.name.as_str()).collect::<Vec<_>>()
    };
    let (failed, unjudged) = (with(Verdict::Fails), with(Verdict::NotJudged));
    let mut summary = match (failed.len(), unjudged.len()) {
        (0, 0) if all == 1 => "Every claim of the one scenario that was played holds.".to_owned(),
        (0, 0) => format!("Every claim holds in all {all} scenarios."),
        (0, _) => "No claim that was judged fails.".to_owned(),
        (1, _) => format!("1 of {all} scenarios FAILS: {}.", failed.join(", ")),
        (count, _) => format!("{count} of {all} scenarios FAIL: {}.", failed.join(", ")),
    };
    if !unjudged.is_empty() {
        let count: usize = findings.iter().map(|it| it.count(Verdict::NotJudged)).sum();
        summary += &format!(" {count} {TOO_SLOW} ({}).", unjudged.join(", "));
    }
    if all < about.planned {
        summary += &format!(" Stopped after {all} of {} scenarios.", about.planned);
    }
    summary
}

fn table(page: &mut Page, findings: &[Findings]) {
    page.row(&[
        "scenario",
        "what it shows",
        "holds?",
        "key figure, without → with the governor",
    ]);
    page.row(&["---"; 4]);
    for found in findings {
        let name = format!("[{0}](#{0})", found.name);
        let held = format!("{} of {}", found.count(Verdict::Holds), found.claims.len());
        let holds = match (found.count(Verdict::Fails), found.hold()) {
            (0, true) => format!("yes ({held})"),
            (0, false) => format!("not judged ({held})"),
            _ => format!("**NO** ({held})"),
        };
        page.row(&[&name, &cell(&found.title), &holds, &cell(&key(found))]);
    }
    page.line("");
}

fn measured_on(page: &mut Page, findings: &[Findings], about: &About) {
    let took = findings.iter().map(|found| found.took).sum();
    page.line(&format!(
        "- machine: {}; Linux {}",
        about.machine, about.kernel
    ));
    page.line(&format!("- governor {}; {}", about.version, about.date));
    page.line(&format!(
        "- length: {}; took {}",
        about.length,
        duration(took)
    ));
    page.line(&match about.program {
        Program::Lab => format!(
            "- again: `{}`; one scenario: `{}`",
            about.again(),
            about.again_one("NAME")
        ),
        Program::Peers => format!("- again: `{}`", about.again()),
    });
    page.line("- all of it for programs: [report.json](report.json)");
    page.line("");
}

fn section(page: &mut Page, found: &Findings, about: &About) {
    page.line(&format!("## {}", found.name));
    page.line("");
    page.line(&format!("{}. {}", capital(&found.title), found.story));
    page.line("");
    for shown in found.pictures() {
        if chart::chart(&shown).is_some() {
            let file = chart_name(&shown);
            page.line(&format!(
                "![{}: load, goodput and denials over time]({file})",
                cell(&shown.title)
            ));
            page.line("");
        }
    }
    page.line(&format!("{}:", capital(&verdict(found))));
    page.line("");
    if !found.claims.is_empty() {
        page.row(&["claim", "measured", "wanted", "holds?"]);
        page.row(&["---"; 4]);
        for Claim {
            what,
            measured,
            wanted,
            verdict,
            ..
        } in &found.claims
        {
            let verdict = match verdict {
                Verdict::Holds => "holds",
                Verdict::Fails => "**FAILS**",
                Verdict::NotJudged => TOO_SLOW,
            };
            page.row(&[&cell(what), &cell(measured), &cell(wanted), verdict]);
        }
        page.line("");
    }
    for Table { columns, rows } in &found.tables {
        page.row(&columns.iter().map(String::as_str).collect::<Vec<_>>());
        page.row(&vec!["---"; columns.len()]);
        for row in rows {
            page.row(
                &row.iter()
                    .map(|it| cell(it))
                    .collect::<Vec<_>>()
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>(),
            );
        }
        page.line("");
    }
    runs(page, found);
    for note in &found.notes {
        page.line(&format!("- {note}"));
    }
    let again = about.again_one(&found.name);
    page.line(&format!(
        "- took {}; again: `{again}`",
        duration(found.took)
    ));
    page.line("");
}

/// What the runs come to.
fn runs(page: &mut Page, found: &Findings) {
    if found.runs.is_empty() {
        return;
    }
    page.row(&[
        "run",
        "load from the trouble on",
        "its worst second",
        "goodput after the trouble",
        "denied",
    ]);
    page.row(&["---"; 5]);
    for run in &found.runs {
        let figures = Figures::of(run);
        let times = |load: f64| format!("{} x offered", number(load));
        let denied = match run.governed {
            true => number(figures.denied.round()),
            false => "-".to_owned(),
        };
        let whole = match figures.after {
            0.0 => ", in the whole run",
            _ => "",
        };
        let goodput = format!("{} of what is possible{whole}", percent(figures.goodput));
        let (load, worst) = (times(figures.load), times(figures.worst));
        page.row(&[&cell(&run.name), &load, &worst, &goodput, &denied]);
    }
    page.line("");
}

fn sweeps(page: &mut Page, findings: &[Findings]) {
    let all = || {
        findings
            .iter()
            .flat_map(|found| found.sweeps.iter().map(move |sweep| (found, sweep)))
    };
    if all().next().is_none() {
        return;
    }
    page.line("## Defaults, and what chose them");
    page.line("");
    for (found, each) in all() {
        one_sweep(page, found, each);
    }
}

fn one_sweep(page: &mut Page, found: &Findings, each: &Sweep) {
    let with_unit = |value: f64| format!("{} {}", number(value), each.unit).trim().to_owned();
    page.line(&format!("### `{}`: {}", each.key, with_unit(each.chosen)));
    page.line("");
    page.line(&format!("Measured in [{0}](#{0}).", found.name));
    page.line("");
    let measures = sweep::measures(each);
    if measures.is_empty() {
        page.line("Nothing was measured.");
        page.line("");
        return;
    }
    page.line(&format!(
        "![{}: what was measured for each value]({})",
        each.key,
        sweep_name(found, each)
    ));
    page.line("");
    let mut heads = vec!["value".to_owned()];
    heads.extend(measures.iter().map(|measure| cell(measure)));
    page.row(&heads);
    page.row(&vec!["---"; heads.len()]);
    for (value, _) in &each.points {
        let chosen = *value == each.chosen;
        let bold = |words: String| {
            if chosen {
                format!("**{words}**")
            } else {
                words
            }
        };
        let value_is = if chosen { " (chosen)" } else { "" };
        let mut cells = vec![bold(format!("{}{value_is}", with_unit(*value)))];
        let figures = measures
            .iter()
            .map(|measure| sweep::figure(each, *value, measure));
        cells.extend(figures.map(|figure| bold(figure.map_or_else(|| "-".to_owned(), number))));
        page.row(&cells);
    }
    page.line("");
}

/// Words that do not end a table's cell.
fn cell(words: &str) -> String {
    words.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// With a capital letter.
pub fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// A page while it is written.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, words: &str) {
        self.0.push_str(words);
        self.0.push('\n');
    }

    fn row<T: AsRef<str>>(&mut self, cells: &[T]) {
        let cells: Vec<_> = cells.iter().map(AsRef::as_ref).collect();
        self.line(&format!("| {} |", cells.join(" | ")));
    }
}
