//! YAML text → a tree in which every key and value knows where it stands.
//!
//! The tree keeps doubled keys and the text of scalars as they were written: what a text means is for the reader of
//! its key to say, so `off`, `1_000` or `5M` are never turned into something else on the way.

use std::collections::HashMap;

use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::granit_parser::Event;
use serde_saphyr::granit_parser::Marker;
use serde_saphyr::granit_parser::Parser;
use serde_saphyr::granit_parser::ScalarStyle;
use serde_saphyr::granit_parser::Span;
use serde_saphyr::granit_parser::StrInput;
use serde_saphyr::granit_parser::options;

use super::finding::Position;

/// Deepest nesting: the deepest key of ours stands at four.
const MAX_DEPTH: usize = 32;
/// Most values in a file, those of repeated aliases counted each time: some thousand peers, and no alias bomb.
const MAX_NODES: usize = 100_000;

/// Stand for the braces of `${NAME}` while the text is parsed, so that it can stand in `{ … }` without quotes. These are
/// noncharacters, which no text holds; each is one character, so columns stay right.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// A value.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Value,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) node: Node,
}

/// Why a text is no tree. It quotes nothing of the text.
#[derive(Debug)]
pub(super) struct Malformed {
    pub(super) at: Position,
    pub(super) message: String,
    pub(super) remedy: &'static str,
}

impl Malformed {
    fn new(span: Span, message: &str, remedy: &'static str) -> Self {
        Self { at: position(&span.start), message: message.to_owned(), remedy }
    }
}

/// Reads one document; none gives [`Value::Null`].
pub(super) fn parse(text: &str) -> Result<Node, Malformed> {
    let masked = mask_variables(text);
    let limits = options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        disallow_directives: true,
        emit_comments: false,
    };
    Builder { parser: Parser::new_from_str_with_options(&masked, limits), anchors: HashMap::new(), count: 0 }
        .document()
}

struct Builder<'t> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    count: usize,
}

impl<'t> Builder<'t> {
    fn document(mut self) -> Result<Node, Malformed> {
        let mut root = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => break,
                (Event::DocumentStart(..), span) if root.is_some() => {
                    return Err(Malformed::new(
                        span,
                        "a second document begins",
                        "keep one document in the file",
                    ));
                }
                (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
                (event, span) => root = Some(self.node(event, span)?),
            }
        }
        Ok(root.unwrap_or(Node { at: Position::new(1, 1), value: Value::Null }))
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Malformed> {
        match self.parser.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Malformed {
                at: position(error.marker()),
                message: format!("not YAML: {}", unmask(&error.info())),
                remedy: match error.kind() {
                    ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation => {
                        "indent with blanks instead of tabs"
                    }
                    _ => "",
                },
            }),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span) -> Result<Node, Malformed> {
        self.count_nodes(1, span)?;
        let (value, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_null =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null { Value::Null } else { Value::Text(unmask(&text)) };
                (value, anchor, tag)
            }
            Event::SequenceStart(_, anchor, tag) => (Value::List(self.items()?), anchor, tag),
            Event::MappingStart(_, anchor, tag) => (Value::Map(self.entries()?), anchor, tag),
            Event::Alias(anchor) => return self.alias(anchor, span),
            _ => return Err(Malformed::new(span, "not YAML: a value is missing", "")),
        };
        if tag.is_some() {
            return Err(Malformed::new(
                span,
                "a tag (`!…`) stands before the value",
                "leave it out: nothing here has tags",
            ));
        }
        let node = Node { at: position(&span.start), value };
        if anchor != 0 {
            self.count_nodes(node.size(), span)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn items(&mut self) -> Result<Vec<Node>, Malformed> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span)?),
            }
        }
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Malformed> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(key, _, 0, None) => unmask(&key),
                _ => {
                    return Err(Malformed::new(span, "a key that is no plain word", "write `key: value`"));
                }
            };
            let (event, value_span) = self.next()?;
            let node = self.node(event, value_span)?;
            entries.push(Entry { key, at: position(&span.start), node });
        }
    }

    /// A copy of what the anchor stands at, found where the alias stands.
    fn alias(&mut self, anchor: usize, span: Span) -> Result<Node, Malformed> {
        let Some(target) = self.anchors.get(&anchor) else {
            return Err(Malformed::new(
                span,
                "an alias stands inside of what it repeats",
                "write the value out",
            ));
        };
        let node = Node { at: position(&span.start), ..target.clone() };
        self.count_nodes(node.size(), span)?;
        Ok(node)
    }

    fn count_nodes(&mut self, more: usize, span: Span) -> Result<(), Malformed> {
        self.count += more;
        if self.count > MAX_NODES {
            return Err(Malformed::new(
                span,
                &format!("more than {MAX_NODES} values, those that aliases repeat included"),
                "write the values out, or make the file smaller",
            ));
        }
        Ok(())
    }
}

impl Node {
    fn size(&self) -> usize {
        1 + match &self.value {
            Value::Null | Value::Text(_) => 0,
            Value::List(items) => items.iter().map(Self::size).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.node.size()).sum(),
        }
    }
}

fn position(marker: &Marker) -> Position {
    Position::new(marker.line(), marker.col() + 1)
}

/// Replaces the braces of `${NAME}`, and the first one where the second is missing, by [`OPEN`] and [`CLOSE`].
fn mask_variables(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, after) = rest.split_at(start);
        let after = &after[2..];
        let end = after.find(|c: char| !is_variable_char(c)).unwrap_or(after.len());
        masked.extend([before, "$"]);
        masked.push(OPEN);
        masked.push_str(&after[..end]);
        rest = &after[end..];
        if let Some(closed) = rest.strip_prefix('}') {
            masked.push(CLOSE);
            rest = closed;
        }
    }
    masked.push_str(rest);
    masked
}

/// Whether a character can stand in a variable's name.
pub(super) fn is_variable_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn unmask(text: &str) -> String {
    text.replace(OPEN, "{").replace(CLOSE, "}")
}
