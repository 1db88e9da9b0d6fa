//! Finding one's way in a schema document: local references, and which values must not be shown.

use std::collections::HashSet;

use jsonschema::paths::Location;
use serde_json::{Map, Value};

/// Keywords whose subschemas describe the very value that the schema itself describes.
const IN_PLACE: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The target of a reference within the document, by pointer or by anchor.
pub(crate) fn local<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.is_empty() || fragment.starts_with('/') {
        root.pointer(fragment)
    } else {
        anchored(root, fragment)
    }
}

fn anchored<'a>(at: &'a Value, anchor: &str) -> Option<&'a Value> {
    match at {
        Value::Object(object) => {
            let named = object.get("$anchor").and_then(Value::as_str) == Some(anchor);
            if named { Some(at) } else { object.values().find_map(|inner| anchored(inner, anchor)) }
        }
        Value::Array(items) => items.iter().find_map(|inner| anchored(inner, anchor)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The schema object that holds the keyword at the end of `path` (a path without references).
pub(crate) fn holder<'a>(root: &'a Value, path: &Location) -> Option<&'a Map<String, Value>> {
    let (holder, _keyword) = path.as_str().rsplit_once('/')?;
    root.pointer(holder)?.as_object()
}

/// Whose values never appear in a message.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    names: HashSet<String>,
    /// The document embeds others by `$id`, whose references this module does not follow: nothing is shown.
    all: bool,
}

impl Secrets {
    pub(crate) fn of(root: &Value) -> Self {
        let mut secrets = Self { names: HashSet::new(), all: marked(root, root) };
        secrets.collect(root, root);
        secrets
    }

    /// Walks the whole document: a property may be marked in one branch and checked in another.
    fn collect(&mut self, root: &Value, at: &Value) {
        match at {
            Value::Object(object) => {
                self.all |= !std::ptr::eq(root, at) && object.get("$id").is_some_and(Value::is_string);
                if let Some(Value::Object(properties)) = object.get("properties") {
                    let marked = properties.iter().filter(|(_, schema)| marked(root, schema));
                    self.names.extend(marked.map(|(name, _)| name.clone()));
                }
                object.values().for_each(|inner| self.collect(root, inner));
            }
            Value::Array(items) => items.iter().for_each(|inner| self.collect(root, inner)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Whether the value at `instance`, checked along `evaluation`, must not be shown.
    pub(crate) fn cover(&self, root: &Value, instance: &Location, evaluation: &Location) -> bool {
        let named = || instance.segments().any(|segment| self.names.contains(&segment.to_string()));
        self.all || named() || crosses_mark(root, evaluation)
    }
}

/// Whether a schema, or one that it applies to the same value, is marked secret.
fn marked(root: &Value, schema: &Value) -> bool {
    let mut seen: HashSet<*const Value> = HashSet::new();
    let mut waiting = vec![schema];
    while let Some(schema) = waiting.pop() {
        let Some(object) = schema.as_object() else {
            continue;
        };
        if !seen.insert(schema) {
            continue;
        }
        if ["x-secret", "writeOnly"].iter().any(|mark| object.get(*mark) == Some(&Value::Bool(true))) {
            return true;
        }
        waiting
            .extend(object.get("$ref").and_then(Value::as_str).and_then(|reference| local(root, reference)));
        let branches = IN_PLACE.iter().filter_map(|keyword| object.get(*keyword)?.as_array());
        waiting.extend(branches.flatten());
    }
    false
}

/// Whether one of the schemas on the way to a keyword is marked; a way that cannot be followed counts as marked.
fn crosses_mark(root: &Value, evaluation: &Location) -> bool {
    let mut at = root;
    for segment in evaluation.segments() {
        let segment = segment.to_string();
        let next = match at {
            Value::Object(object) => object.get(&segment),
            Value::Array(items) => segment.parse::<usize>().ok().and_then(|index| items.get(index)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        let Some(mut next) = next else { return true };
        if let ("$ref", Value::String(reference)) = (segment.as_str(), next) {
            let Some(target) = local(root, reference) else {
                return true;
            };
            next = target;
        }
        if marked(root, next) {
            return true;
        }
        at = next;
    }
    false
}
