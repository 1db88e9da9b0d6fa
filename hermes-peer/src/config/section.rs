//! Walks the tree of a file: takes values by their key, and collects what is wrong instead of stopping at it.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::finding::Finding;
use super::finding::Position;
use super::finding::Severity;
use super::hidden;
use super::hidden::Scalar;
use super::keys;
use super::tree;
use super::tree::Entry;
use super::tree::Node;
use super::tree::Value;
use super::value;
use super::value::Refused;

/// Where values come from besides the file.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// The file's name, as findings give it.
    pub(super) file: &'a str,
    /// The folder that relative paths start at.
    pub(super) base: &'a Path,
    /// Looks a variable of the environment up.
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
}

/// Reads one file and keeps what it finds.
pub(super) struct Reader<'a> {
    pub(super) around: Surroundings<'a>,
    findings: Vec<Finding>,
}

/// A map of the file with a known set of keys.
pub(super) struct Section<'t> {
    pub(super) path: String,
    pub(super) at: Position,
    entries: &'t [Entry],
}

impl<'t> Section<'t> {
    /// The entry of a key, if the file has it.
    pub(super) fn entry(&self, key: &str) -> Option<&'t Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The path of a key in this map.
    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(around: Surroundings<'a>) -> Self {
        Self { around, findings: Vec::new() }
    }

    pub(super) fn error(
        &mut self,
        at: Position,
        path: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.push(Severity::Error, at, path, message.into(), remedy.into());
    }

    pub(super) fn warn(
        &mut self,
        at: Position,
        path: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.push(Severity::Warning, at, path, message.into(), remedy.into());
    }

    /// A finding about a value.
    pub(super) fn refuse(&mut self, scalar: &Scalar, refused: &Refused) {
        let message = format!("{} {}", scalar.subject(), refused.what);
        self.error(scalar.at, &scalar.path, message, refused.remedy.as_str());
    }

    fn push(&mut self, severity: Severity, at: Position, path: &str, message: String, remedy: String) {
        let (file, path) = (self.around.file.to_owned(), path.to_owned());
        self.findings.push(Finding { file, at, path, message, remedy, severity, source_line: None });
    }

    /// All findings in the order of the file, each with the line that it is about if that cannot hold a secret.
    pub(super) fn finish(mut self, text: &str, root: Option<&Node>) -> Vec<Finding> {
        self.findings.sort_by_key(|finding| finding.at);
        for finding in &mut self.findings {
            let line = finding.at.line.checked_sub(1).and_then(|index| text.lines().nth(index));
            finding.source_line =
                line.filter(|_| hidden::can_show(text, root, finding.at.line)).map(str::to_owned);
        }
        self.findings
    }

    /// Opens a map: refuses keys that it cannot have and keys that stand in it twice.
    pub(super) fn open<'t>(&mut self, node: &'t Node, path: String) -> Option<Section<'t>> {
        let pattern = pattern(&path);
        let Value::Map(entries) = &node.value else {
            let known = keys::children(&pattern).collect::<Vec<_>>().join(", ");
            let what = if path.is_empty() { "the file" } else { "this" };
            self.error(
                node.at,
                &path,
                format!("{what} is {}, where a map of keys and values belongs", kind(&node.value)),
                format!("write `key: value` with these keys: {known}"),
            );
            return None;
        };
        let section = Section { path, at: node.at, entries };
        for (index, entry) in entries.iter().enumerate() {
            let shown = keys::quoted(&section.path, &entry.key);
            let key_path = shown.map_or_else(|| section.path.clone(), |key| section.path_of(key));
            if !keys::children(&pattern).any(|known| known == entry.key) {
                let shown =
                    shown.map_or_else(|| "unknown key".to_owned(), |key| format!("unknown key `{key}`"));
                self.error(entry.at, &key_path, shown, keys::nearest(&pattern, &entry.key));
            } else if let Some(first) = entries[..index].iter().find(|earlier| earlier.key == entry.key) {
                let message = format!("`{}` stands here twice, first in line {}", entry.key, first.at.line);
                self.error(entry.at, &key_path, message, "keep one of the two");
            }
        }
        Some(section)
    }

    /// The map under a key, if the file has the key.
    pub(super) fn section<'t>(&mut self, parent: &Section<'t>, key: &str) -> Option<Section<'t>> {
        let entry = parent.entry(key)?;
        self.open(&entry.node, parent.path_of(key))
    }

    /// The items of the list under a key with their paths; none if the file has not got the key.
    pub(super) fn items<'t>(&mut self, parent: &Section<'t>, key: &str) -> Vec<(&'t Node, String)> {
        let Some(entry) = parent.entry(key) else {
            return Vec::new();
        };
        let path = parent.path_of(key);
        let Value::List(items) = &entry.node.value else {
            let message = format!("this is {}, where a list belongs", kind(&entry.node.value));
            self.error(entry.node.at, &path, message, format!("write `{key}: […]`, or leave the key out"));
            return Vec::new();
        };
        items.iter().enumerate().map(|(index, item)| (item, format!("{path}[{index}]"))).collect()
    }

    /// A single value as it stands.
    pub(super) fn verbatim(&mut self, node: &Node, path: String) -> Option<Scalar> {
        let (message, remedy) = match &node.value {
            Value::Text(text) => {
                return Some(Scalar { text: text.clone(), at: node.at, path, variable: None });
            }
            Value::Null => ("this has no value", "write one, or leave the key out"),
            Value::List(_) => ("this is a list, where one value belongs", ""),
            Value::Map(_) => ("this is a map, where one value belongs", ""),
        };
        self.error(node.at, &path, message, remedy);
        None
    }

    /// A single value; `${NAME}` gives the variable's value, which is taken as it is.
    pub(super) fn scalar(&mut self, node: &Node, path: String) -> Option<Scalar> {
        let mut scalar = self.verbatim(node, path)?;
        let Some(after) = scalar.text.strip_prefix("${") else {
            if hidden::is_secret(&scalar.path) && (scalar.text.starts_with('$') || scalar.text.contains("${"))
            {
                self.error(
                    scalar.at,
                    &scalar.path,
                    "`$` is expanded only where the whole value is `${NAME}`",
                    "",
                );
                return None;
            }
            return Some(scalar);
        };
        let name = &after[..after.find(|c| !tree::is_variable_char(c)).unwrap_or(after.len())];
        let missing = match (&after[name.len()..], (self.around.env)(name)) {
            (_, _) if name.is_empty() => "`${` is not followed by a variable's name".to_owned(),
            ("}", Some(value)) if !value.trim().is_empty() => {
                scalar.variable = Some(name.to_owned());
                scalar.text = value;
                return Some(scalar);
            }
            ("}", None) => format!("the environment variable `{name}` is not set"),
            ("}", Some(_)) => format!("the environment variable `{name}` is empty"),
            _ => format!("`${{{name}` is not closed by `}}` at the end of the value"),
        };
        self.error(
            scalar.at,
            &scalar.path,
            missing,
            "write `${NAME}` as the whole value and set the variable",
        );
        None
    }

    /// The value of a key as `parse` reads it, if the file has the key and it is good.
    pub(super) fn get<T>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, Refused>,
    ) -> Option<T> {
        let scalar = self.scalar(&section.entry(key)?.node, section.path_of(key))?;
        self.parsed(&scalar, parse)
    }

    /// As [`get`](Self::get), and a finding if the file has not got the key.
    pub(super) fn need<T>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, Refused>,
    ) -> Option<T> {
        if section.entry(key).is_none() {
            self.error(section.at, &section.path, format!("`{key}` is missing"), format!("add `{key}: …`"));
        }
        self.get(section, key, parse)
    }

    /// The good items of a list of single values.
    pub(super) fn list<T>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        parse: impl Fn(&str) -> Result<T, Refused>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        for (node, path) in self.items(section, key) {
            let scalar = self.scalar(node, path);
            values.extend(scalar.and_then(|scalar| self.parsed(&scalar, &parse)));
        }
        values
    }

    fn parsed<T>(&mut self, scalar: &Scalar, parse: impl FnOnce(&str) -> Result<T, Refused>) -> Option<T> {
        parse(&scalar.text).map_err(|refused| self.refuse(scalar, &refused)).ok()
    }

    /// Replaces a default by what the file says.
    pub(super) fn set<T>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        target: &mut T,
        parse: impl FnOnce(&str) -> Result<T, Refused>,
    ) {
        if let Some(value) = self.get(section, key, parse) {
            *target = value;
        }
    }

    pub(super) fn duration(
        &mut self,
        section: &Section<'_>,
        key: &str,
        target: &mut Duration,
        bounds: RangeInclusive<Duration>,
    ) {
        self.set(section, key, target, |text| value::duration(text, &bounds));
    }

    pub(super) fn size(
        &mut self,
        section: &Section<'_>,
        key: &str,
        target: &mut u64,
        bounds: RangeInclusive<u64>,
    ) {
        self.set(section, key, target, |text| value::size(text, &bounds));
    }

    pub(super) fn count(
        &mut self,
        section: &Section<'_>,
        key: &str,
        target: &mut u32,
        bounds: RangeInclusive<u32>,
    ) {
        let bounds = u64::from(*bounds.start())..=u64::from(*bounds.end());
        self.set(section, key, target, |text| {
            value::count(text, &bounds).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
        });
    }

    pub(super) fn switch(&mut self, section: &Section<'_>, key: &str, target: &mut bool) {
        self.set(section, key, target, |text| value::one_of(text, &[("false", false), ("true", true)]));
    }
}

/// The path with `[]` for each `[n]`.
fn pattern(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    for (index, piece) in path.split('[').enumerate() {
        match piece.split_once(']') {
            Some((_, rest)) if index > 0 => {
                let _infallible = write!(pattern, "[]{rest}");
            }
            _ => pattern.push_str(piece),
        }
    }
    pattern
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Text(_) => "a single value",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
    }
}
