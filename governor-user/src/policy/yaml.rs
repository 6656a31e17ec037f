//! YAML as a tree that knows its lines. Only what a policy needs: text, lists
//! and mappings with text keys. What a scalar means is decided where its type
//! is known, so `on`, `012` or `1e3` never change their meaning on the way.
//!
//! The events come from granit-parser: it forbids unsafe code, bounds nesting
//! and gives a position for each event. Aliases are refused: they are what
//! makes a small file large, and the line of a value would not be where it is used.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::error::{Position, Wrong, one_line};

/// A value and where it starts.
#[derive(Debug)]
pub struct Node {
    /// Where it starts.
    pub at: Position,
    /// What it is.
    pub value: Value,
}

/// What YAML can say.
#[derive(Debug)]
pub enum Value {
    /// A scalar.
    Text(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in file order, without keys given twice.
    Map(Vec<Entry>),
}

/// The text of a scalar.
#[derive(Debug)]
pub struct Scalar {
    /// After YAML's escapes.
    pub text: String,
    /// How it was written.
    pub style: Style,
}

/// How a scalar was written; only a plain one can be a number or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// With quotes or as a block.
    Quoted,
}

impl Scalar {
    /// Nothing, as YAML spells it.
    pub fn is_null(&self) -> bool {
        self.style == Style::Plain
            && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

/// A key with its value.
#[derive(Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key starts.
    pub at: Position,
    /// Its value.
    pub value: Node,
}

/// What could be read of a text: its documents (empty ones left out), and what
/// was wrong on the way.
#[derive(Debug, Default)]
pub struct Documents {
    /// The complete documents.
    pub documents: Vec<Node>,
    /// The mistakes.
    pub errors: Vec<(Position, Wrong)>,
}

/// More nesting than any policy has; a bound for everything that recurses.
const DEEPEST: usize = 16;

/// Reads every document up to the first syntax error.
pub fn read(text: &str) -> Documents {
    let options = granit_parser::options! {
        flow_nesting_limit: DEEPEST,
        block_nesting_limit: DEEPEST,
    };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => builder.take(event, position(span)),
            Err(error) => {
                let at = start(&error);
                builder.out.errors.push((at, syntax(&error)));
                break;
            }
        }
    }
    builder.out
}

fn position(span: Span) -> Position {
    Position {
        line: span.start.line(),
        column: span.start.col() + 1,
    }
}

fn start(error: &ScanError) -> Position {
    Position {
        line: error.marker().line(),
        column: error.marker().col() + 1,
    }
}

fn syntax(error: &ScanError) -> Wrong {
    let wrong = Wrong::new(format!("not YAML: {}", one_line(&error.info())));
    match error.kind() {
        granit_parser::ErrorKind::TabInPlainScalar => wrong.hint("indent with spaces"),
        granit_parser::ErrorKind::RecursionLimitExceeded => {
            wrong.hint(format!("a policy needs less than {DEEPEST} levels"))
        }
        _ => wrong,
    }
}

/// A list or mapping that is not closed yet.
enum Open {
    List(Position, Vec<Node>),
    Map(Position, Vec<Entry>, Lines, Key),
}

/// The line of each key so far: a scan of the entries made 110,000 keys (1 MiB)
/// take 69 s.
type Lines = HashMap<String, usize>;

/// What a mapping waits for.
enum Key {
    /// A key.
    Wanted,
    /// The value of this key.
    Got(String, Position),
    /// A value that nobody will see: its key was reported.
    Dropped,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    out: Documents,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Position) {
        match event {
            Event::Scalar(text, style, _, tag) => {
                self.refuse_tag(tag.is_some(), at);
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    _ => Style::Quoted,
                };
                let text = text.into_owned();
                self.put(at, Value::Text(Scalar { text, style }));
            }
            Event::SequenceStart(_, _, tag) => {
                self.refuse_tag(tag.is_some(), at);
                self.open.push(Open::List(at, Vec::new()));
            }
            Event::MappingStart(_, _, tag) => {
                self.refuse_tag(tag.is_some(), at);
                self.open
                    .push(Open::Map(at, Vec::new(), Lines::new(), Key::Wanted));
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(at, items)) => self.put(at, Value::List(items)),
                Some(Open::Map(at, entries, ..)) => self.put(at, Value::Map(entries)),
                None => {}
            },
            Event::Alias(_) => {
                let wrong = Wrong::new("alias: a policy file has none").hint("write the value out");
                self.out.errors.push((at, wrong));
                // Stands for the value, so that the rest keeps its shape.
                let text = String::new();
                let style = Style::Plain;
                self.put(at, Value::Text(Scalar { text, style }));
            }
            _ => {}
        }
    }

    fn refuse_tag(&mut self, tagged: bool, at: Position) {
        if tagged {
            let wrong = Wrong::new("tag: a policy file has none").hint("remove the !");
            self.out.errors.push((at, wrong));
        }
    }

    fn put(&mut self, at: Position, value: Value) {
        match self.open.last_mut() {
            None => {
                if !matches!(&value, Value::Text(text) if text.is_null()) {
                    self.out.documents.push(Node { at, value });
                }
            }
            Some(Open::List(_, items)) => items.push(Node { at, value }),
            Some(Open::Map(_, entries, lines, key)) => match std::mem::replace(key, Key::Wanted) {
                Key::Got(name, key_at) => entries.push(Entry {
                    key: name,
                    at: key_at,
                    value: Node { at, value },
                }),
                Key::Dropped => {}
                Key::Wanted => match as_key(at, value, lines) {
                    Ok(text) => *key = Key::Got(text, at),
                    Err(wrong) => {
                        *key = Key::Dropped;
                        self.out.errors.push((at, wrong));
                    }
                },
            },
        }
    }
}

fn as_key(at: Position, value: Value, lines: &mut Lines) -> Result<String, Wrong> {
    let Value::Text(Scalar { text, .. }) = value else {
        return Err(Wrong::new("key: it is not text"));
    };
    if let Some(first) = lines.get(&text) {
        return Err(Wrong::new(format!(
            "{}: the key is given twice, first in line {first}",
            one_line(&text),
        )));
    }
    lines.insert(text.clone(), at.line);
    Ok(text)
}
