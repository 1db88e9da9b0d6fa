//! The JSON floor: what every body must be before a schema or a handler sees it, the same in every language.
//!
//! At most 128 levels, no key twice in one object, valid UTF-8, one value and nothing after it, and numbers kept
//! as they are written. One pass; the place of a fault is put together only once there is one.

use std::fmt;
use std::ops::Range;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::schema::hint;
use crate::schema::text::{segment, shown};

/// Deepest nesting of arrays and objects: real documents stay under 20, and a reader in any language survives 128.
pub(crate) const MAX_DEPTH: usize = 128;

/// Keys that serde_json gives a meaning of its own, so that a document holding one would be read as something else.
const RESERVED_PREFIX: &str = "$serde_json::private::";

/// Longest pointer in a message, in characters: room for ten ordinary names.
const SHOWN_POINTER: usize = 256;

/// A body that is not acceptable JSON. The sender's fault; nothing was run.
///
/// Lines and columns start at one, columns count bytes and may be one off where a fault ends an array or object;
/// a pointer is RFC 6901, escaped for a terminal and cut at 256 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonRefused {
    /// The body holds nothing but white space.
    #[error("the body is empty where a JSON value was expected")]
    Empty,
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8 at byte {offset} of the JSON body")]
    NotUtf8 {
        /// Index of the first byte that is wrong.
        offset: usize,
    },
    /// The text is not JSON.
    #[error("invalid JSON at line {line}, column {column}{}: {reason}{}", within(pointer), hint.map(|h| format!(" ({h})")).unwrap_or_default())]
    Syntax {
        /// Line of the fault.
        line: usize,
        /// Column of the fault.
        column: usize,
        /// The value that was being read, empty for the document itself.
        pointer: String,
        /// What the parser met.
        reason: String,
        /// What was probably meant.
        hint: Option<&'static str>,
    },
    /// One object has a key twice, and readers differ in which they take.
    #[error("the key at {pointer} stands twice in its object (line {line}, column {column})")]
    DoubledKey {
        /// The doubled key.
        pointer: String,
        /// Line where the second one ends.
        line: usize,
        /// Column where the second one ends.
        column: usize,
    },
    /// Arrays and objects are nested too deeply.
    #[error("the JSON body is nested deeper than {MAX_DEPTH} levels at line {line}, column {column}")]
    TooDeep {
        /// Line of the level that is one too many.
        line: usize,
        /// Column of the level that is one too many.
        column: usize,
    },
    /// A key starts with `$serde_json::private::`, which this implementation's reader keeps for itself.
    #[error("the key at {pointer} is reserved, rename it (line {line}, column {column})")]
    ReservedKey {
        /// The reserved key.
        pointer: String,
        /// Line where the key ends.
        line: usize,
        /// Column where the key ends.
        column: usize,
    },
}

fn within(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" (in {pointer})") }
}

/// Reads one JSON document from `bytes`.
///
/// # Errors
///
/// [`JsonRefused`] when the floor described above does not hold.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, JsonRefused> {
    let text =
        std::str::from_utf8(bytes).map_err(|fault| JsonRefused::NotUtf8 { offset: fault.valid_up_to() })?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // The visitor below counts levels itself: serde_json's own limit stops one level earlier and has no place.
    deserializer.disable_recursion_limit();
    let mut trail = Trail { input: bytes.as_ptr_range(), fault: None, steps: Vec::new() };
    let read = Node { trail: &mut trail, level: 0 }.deserialize(&mut deserializer);
    read.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| refusal(text, trail, &error))
}

fn refusal(text: &str, trail: Trail, error: &serde_json::Error) -> JsonRefused {
    let (line, column) = (error.line(), error.column());
    let pointer = trail.pointer();
    match trail.fault {
        Some(Fault::Doubled) => JsonRefused::DoubledKey { pointer, line, column },
        Some(Fault::Reserved) => JsonRefused::ReservedKey { pointer, line, column },
        Some(Fault::TooDeep) => JsonRefused::TooDeep { line, column },
        None if text.trim_ascii().is_empty() => JsonRefused::Empty,
        None => {
            let full = error.to_string();
            let reason = full.rsplit_once(" at line ").map_or(full.as_str(), |(reason, _)| reason).to_owned();
            let hint = hint::for_syntax(text, &reason, line, column);
            JsonRefused::Syntax { line, column, pointer, reason, hint }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Doubled,
    Reserved,
    TooDeep,
}

enum Step {
    Key(String),
    Index(usize),
}

/// Where the reader stands; written only on the way out of a fault, innermost step first.
struct Trail {
    /// Addresses of the document's bytes, to tell its keys from serde_json's own.
    input: Range<*const u8>,
    fault: Option<Fault>,
    steps: Vec<Step>,
}

impl Trail {
    fn fail<E: serde::de::Error>(&mut self, fault: Fault) -> E {
        self.fault = Some(fault);
        E::custom("refused")
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in self.steps.iter().rev() {
            pointer.push('/');
            match step {
                Step::Key(key) => pointer.push_str(&segment(key)),
                Step::Index(index) => pointer.push_str(&index.to_string()),
            }
        }
        shown(&pointer, SHOWN_POINTER)
    }
}

/// One value, `level` arrays and objects below the document's root.
struct Node<'t> {
    trail: &'t mut Trail,
    level: usize,
}

impl Node<'_> {
    fn inner(&mut self) -> Node<'_> {
        Node { trail: self.trail, level: self.level + 1 }
    }

    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        if self.level >= MAX_DEPTH { Err(self.trail.fail(Fault::TooDeep)) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut items = Vec::new();
        loop {
            match access.next_element_seed(self.inner()) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => return Ok(Value::Array(items)),
                Err(error) => {
                    self.trail.steps.push(Step::Index(items.len()));
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut next = access.next_key_seed(Key { input: &self.trail.input })?;
        if let Some(Found::Number) = next {
            let text: String = access.next_value()?;
            return text.parse::<Number>().map(Value::Number).map_err(A::Error::custom);
        }
        self.enter()?;
        let mut object = Map::new();
        while let Some(Found::Key(key)) = next {
            if key.starts_with(RESERVED_PREFIX) {
                self.trail.steps.push(Step::Key(key));
                return Err(self.trail.fail(Fault::Reserved));
            }
            match object.entry(key) {
                Entry::Vacant(place) => match access.next_value_seed(self.inner()) {
                    Ok(value) => {
                        place.insert(value);
                    }
                    Err(error) => {
                        self.trail.steps.push(Step::Key(place.key().clone()));
                        return Err(error);
                    }
                },
                Entry::Occupied(place) => {
                    self.trail.steps.push(Step::Key(place.key().clone()));
                    return Err(self.trail.fail(Fault::Doubled));
                }
            }
            next = access.next_key_seed(Key { input: &self.trail.input })?;
        }
        Ok(Value::Object(object))
    }
}

enum Found {
    Key(String),
    /// serde_json hands a number that fits no primitive over as a map with one key of its own.
    Number,
}

/// The key of a map, which is the document's or serde_json's own: only the document's lies inside the input.
struct Key<'t> {
    input: &'t Range<*const u8>,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Found;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Found, E> {
        if self.input.contains(&key.as_ptr()) { Ok(Found::Key(key.to_owned())) } else { Ok(Found::Number) }
    }

    fn visit_str<E>(self, key: &str) -> Result<Found, E> {
        Ok(Found::Key(key.to_owned()))
    }
}

/// Whether `text` is a JSON object or array, read without building it.
pub(crate) fn holds_json(text: &str) -> bool {
    let trimmed = text.trim_ascii_start();
    (trimmed.starts_with('{') || trimmed.starts_with('['))
        && serde_json::Deserializer::from_str(text).deserialize_ignored_any(serde::de::IgnoredAny).is_ok()
}

#[cfg(test)]
mod tests;
