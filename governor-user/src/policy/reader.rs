//! Reads a YAML tree into typed slots and writes down every mistake on the way.
//! A slot whose text is wrong keeps its default: reading goes on, so that one
//! run names all mistakes of a file.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use super::error::{PolicyError, Position, Wrong, one_line};
use super::yaml::{Entry, Node, Scalar, Value};

/// The mistakes of one file.
pub struct Report<'a> {
    file: &'a str,
    errors: RefCell<Vec<PolicyError>>,
}

impl<'a> Report<'a> {
    /// None so far.
    pub fn new(file: &'a str) -> Self {
        Self {
            file,
            errors: RefCell::default(),
        }
    }

    /// One more.
    pub fn wrong(&self, at: Position, path: &str, wrong: Wrong) {
        let error = PolicyError::at(self.file, at, path, wrong);
        self.errors.borrow_mut().push(error);
    }

    /// All of them in file order.
    pub fn into_errors(self) -> Vec<PolicyError> {
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(PolicyError::position);
        errors
    }
}

/// A value, and the path that leads to it.
pub struct Field<'a> {
    report: &'a Report<'a>,
    node: &'a Node,
    path: String,
}

impl<'a> Field<'a> {
    /// A whole document.
    pub fn document(report: &'a Report<'a>, node: &'a Node) -> Self {
        let path = String::new();
        Self { report, node, path }
    }

    /// Where it starts.
    pub fn at(&self) -> Position {
        self.node.at
    }

    fn wrong(&self, wrong: Wrong) {
        self.report.wrong(self.node.at, &self.path, wrong);
    }

    /// The value, where it is a scalar that `read` takes.
    pub fn scalar<T>(&self, read: impl Fn(&Scalar) -> Result<T, Wrong>) -> Option<T> {
        let result = match &self.node.value {
            Value::Text(text) => read(text),
            Value::List(_) => Err(Wrong::new("a list: a single value is wanted")),
            Value::Map(_) => Err(Wrong::new("a mapping: a single value is wanted")),
        };
        result.map_err(|wrong| self.wrong(wrong)).ok()
    }

    /// Reads a mapping with `read`, then reports the keys it did not ask for.
    pub fn mapping<T>(&self, read: impl FnOnce(&mut Mapping<'a>) -> T) -> Option<T> {
        let entries = match &self.node.value {
            Value::Map(entries) => entries,
            other => {
                let is = match other {
                    Value::Text(text) if text.is_null() => "nothing",
                    Value::Text(_) => "a single value",
                    _ => "a list",
                };
                let wrong = Wrong::new(format!("{is}: a mapping of keys is wanted"));
                self.wrong(if is == "nothing" {
                    wrong.hint("remove the key for the defaults")
                } else {
                    wrong
                });
                return None;
            }
        };
        let mut mapping = Mapping {
            report: self.report,
            at: self.node.at,
            path: self.path.clone(),
            entries,
            known: Vec::new(),
        };
        let out = read(&mut mapping);
        mapping.report_unknown_keys();
        Some(out)
    }

    /// Reads each item of a list of such a size.
    pub fn list<T>(
        &self,
        size: RangeInclusive<usize>,
        read: impl Fn(Field<'a>) -> Option<T>,
    ) -> Vec<T> {
        let items = match &self.node.value {
            Value::List(items) => items,
            other => {
                let is = match other {
                    Value::Map(_) => "a mapping",
                    _ => "a single value",
                };
                self.wrong(Wrong::new(format!("{is}: a list is wanted")).hint("write [a, b]"));
                return Vec::new();
            }
        };
        if !size.contains(&items.len()) {
            let (n, least, most) = (items.len(), size.start(), size.end());
            let wrong = Wrong::new(format!("{n} items is out of bounds: {least} to {most}"));
            // Nobody, or everybody? The two are one bracket apart: say which.
            self.wrong(match n {
                0 => wrong.hint("remove the key for the default"),
                _ => wrong,
            });
            return Vec::new();
        }
        let item = |(i, node)| Field {
            report: self.report,
            node,
            path: format!("{}[{i}]", self.path),
        };
        items
            .iter()
            .enumerate()
            .map(item)
            .filter_map(read)
            .collect()
    }

    /// A list without repeats.
    pub fn distinct<T: PartialEq>(
        &self,
        size: RangeInclusive<usize>,
        read: impl Fn(&Scalar) -> Result<T, Wrong>,
    ) -> Vec<T> {
        let seen: RefCell<Vec<T>> = RefCell::default();
        self.list(size, |item| {
            let value = item.scalar(&read)?;
            if seen.borrow().contains(&value) {
                item.wrong(Wrong::new("a repeat: it is in the list already").hint("remove it"));
            } else {
                seen.borrow_mut().push(value);
            }
            Some(())
        });
        seen.into_inner()
    }
}

/// A mapping whose keys are asked for one by one.
pub struct Mapping<'a> {
    report: &'a Report<'a>,
    at: Position,
    path: String,
    entries: &'a [Entry],
    known: Vec<&'static str>,
}

impl<'a> Mapping<'a> {
    /// The field of this key, if given.
    pub fn get(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.known.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Field {
            report: self.report,
            node: &entry.value,
            path: self.path_of(key),
        })
    }

    /// The field of this key; that it is missing is reported.
    pub fn require(&mut self, key: &'static str, hint: &str) -> Option<Field<'a>> {
        let field = self.get(key);
        if field.is_none() {
            self.wrong(key, Wrong::new("missing: the key is required").hint(hint));
        }
        field
    }

    /// Fills the slot where the key is given and right.
    pub fn set<T>(
        &mut self,
        key: &'static str,
        slot: &mut T,
        read: impl Fn(&Scalar) -> Result<T, Wrong>,
    ) {
        if let Some(value) = self.get(key).and_then(|field| field.scalar(read)) {
            *slot = value;
        }
    }

    /// Reads the mapping of this key where it is given.
    pub fn section(&mut self, key: &'static str, read: impl FnOnce(&mut Mapping<'a>)) {
        if let Some(field) = self.get(key) {
            field.mapping(read);
        }
    }

    /// Whether the key is given.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Something is wrong with a key in the light of others; at its value, or
    /// where the mapping starts if it is not given.
    pub fn wrong(&self, key: &str, wrong: Wrong) {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        let at = entry.map_or(self.at, |entry| entry.value.at);
        self.report.wrong(at, &self.path_of(key), wrong);
    }

    /// Something is wrong with the mapping itself.
    pub fn wrong_itself(&self, wrong: Wrong) {
        self.report.wrong(self.at, &self.path, wrong);
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    fn report_unknown_keys(&self) {
        for entry in self.entries {
            let key = entry.key.as_str();
            if self.known.contains(&key) {
                continue;
            }
            let hint = match closest(key, &self.known) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("known keys: {}", self.known.join(", ")),
            };
            let path = self.path_of(&one_line(key));
            let wrong = Wrong::new("unknown key: no such key here").hint(hint);
            self.report.wrong(entry.at, &path, wrong);
        }
    }
}

/// The candidate that was most likely meant, if any was. A difference in case
/// alone is always a slip.
pub fn closest<'c>(text: &str, candidates: &[&'c str]) -> Option<&'c str> {
    const ALIKE: f64 = 0.8;
    const LONGEST: usize = 64;
    if text.len() > LONGEST {
        return None;
    }
    let lower = text.to_lowercase();
    candidates
        .iter()
        .map(|c| (strsim::jaro_winkler(&lower, &c.to_lowercase()), *c))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, c)| c)
}
