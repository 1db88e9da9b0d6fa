//! Compiling a schema once, checking values against it often.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::schema::describe::Describer;
use crate::schema::effort::{self, Effort};
use crate::schema::json::MAX_DEPTH;
use crate::schema::place::Secrets;
use crate::schema::text::{SHOWN_VALUE, shown};
use crate::schema::violation::{Violation, bounded};

/// Largest schema by default, in bytes of its JSON text: an enum of three thousand values or a thousand properties
/// fit, and compiling them takes milliseconds.
pub(crate) const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// Most schemas applied within one another while a value is checked, each a frame or two on the stack: four times as
/// many fit the 2 MiB of a worker thread.
const MAX_FRAMES: usize = 2048;

/// Most visits to one place of a value while it is decided whether the value fits: some milliseconds.
const MAX_VISITS_TO_DECIDE: u64 = 64 * 1024;

/// Most visits to nodes of a value for which all its violations are collected; beyond it the first one is reported.
/// The validator collects every error before it gives the first, some 300 bytes each: 20 MB at most.
const MAX_COLLECTED: u64 = 64 * 1024;

/// Most visits to one place for which even a first violation is sought: an error of alternatives holds those of each.
const MAX_VISITS: u64 = 64;

/// Memory for the compiled patterns of one schema together, in bytes, shared out evenly: a schema from a peer costs
/// no more, and `\p{L}{1,32}`, an unusually large one, takes a fifteenth.
const MAX_PATTERN_BYTES: usize = 16 * 1024 * 1024;

/// Most memory for one compiled pattern, in bytes.
const MAX_ONE_PATTERN_BYTES: usize = 2 * 1024 * 1024;

/// Most memory that one pattern may use for speed while it runs, in bytes.
const MAX_PATTERN_CACHE_BYTES: usize = 256 * 1024;

/// The dialects that are honoured, by their URI without scheme and trailing `#`.
const DIALECTS: [&str; 5] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-04/schema",
];

/// Keywords whose values are data and no schemas.
const DATA_KEYWORDS: [&str; 4] = ["const", "enum", "default", "examples"];

/// Longest URI, pointer or reason shown, in characters.
const SHOWN_URI: usize = 256;

/// A schema that cannot be used. The fault of whoever registered or advertised it; only its capability is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaRefused {
    /// The text is longer than allowed.
    #[error("the schema is larger than {limit} bytes, the limit for one schema")]
    TooLarge {
        /// Most bytes allowed.
        limit: usize,
    },
    /// Arrays and objects are nested too deeply.
    #[error("the schema is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// References lead from one to the next too many times.
    #[error(
        "more than {} schemas in a row lead from one to the next, by nesting or by reference",
        effort::MAX_HEIGHT
    )]
    ChainTooLong,
    /// Subschemas refer to each other so that one value would be checked in too many ways.
    #[error(
        "the schema checks one place in {visits} ways, more than the {MAX_VISITS_TO_DECIDE} allowed: let fewer references lead to the same definition"
    )]
    Entangled {
        /// How many ways.
        visits: u64,
    },
    /// `$schema` names a dialect that is not honoured.
    #[error(
        "the schema dialect {dialect} is not supported, use https://json-schema.org/draft/2020-12/schema (2019-09, draft-07, 06 and 04 work too)"
    )]
    Dialect {
        /// The dialect named.
        dialect: String,
    },
    /// A reference leads out of the document; nothing is ever fetched.
    #[error(
        "the reference {reference} leads out of the schema and is never fetched, put its target under $defs"
    )]
    RemoteReference {
        /// The reference.
        reference: String,
    },
    /// A reference within the document leads nowhere.
    #[error("the schema refers to something it does not hold: {reason}")]
    DanglingReference {
        /// What was looked for.
        reason: String,
    },
    /// A pattern cannot run in linear time, or is no pattern.
    #[error(
        "the pattern {pattern} (in {pointer}) is not supported: patterns run in linear time, so there is no look-around, no back-reference and no huge repetition"
    )]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Where it stands in the schema.
        pointer: String,
    },
    /// The document is not a valid schema of its dialect.
    #[error("the schema is invalid{}: {reason}", if pointer.is_empty() { String::new() } else { format!(" (in {pointer})") })]
    Invalid {
        /// Where in the schema.
        pointer: String,
        /// Which rule of the dialect is broken.
        reason: String,
    },
}

/// A schema ready to check values. Clones share it.
#[derive(Clone)]
pub(crate) struct Compiled {
    inner: Arc<Inner>,
}

struct Inner {
    schema: Value,
    validator: Validator,
    secrets: Secrets,
    /// How many schemas in a row apply to one place.
    chain: usize,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("draft", &self.inner.validator.draft()).finish_non_exhaustive()
    }
}

impl Compiled {
    /// Compiles `schema`, of at most [`MAX_SCHEMA_BYTES`].
    ///
    /// Without `$schema` it is read as draft 2020-12. `format` is a note, as that draft has it, and checks nothing.
    ///
    /// # Errors
    ///
    /// [`SchemaRefused`] says which limit or rule the schema breaks.
    pub(crate) fn new(schema: &Value) -> Result<Self, SchemaRefused> {
        Self::with_limit(schema, MAX_SCHEMA_BYTES)
    }

    /// [`Compiled::new`] with another limit on the text, in bytes.
    ///
    /// # Errors
    ///
    /// As [`Compiled::new`].
    pub(crate) fn with_limit(schema: &Value, limit: usize) -> Result<Self, SchemaRefused> {
        if deeper_than(schema, MAX_DEPTH) {
            return Err(SchemaRefused::TooDeep);
        }
        measure(schema, limit)?;
        inspect_dialects(schema)?;
        let mut patterns = HashSet::new();
        collect_patterns(schema, &mut patterns);
        let share = (MAX_PATTERN_BYTES / patterns.len().max(1)).min(MAX_ONE_PATTERN_BYTES);
        let Effort { visits, chain, height } = effort::to_decide(schema);
        if height > effort::MAX_HEIGHT {
            return Err(SchemaRefused::ChainTooLong);
        }
        if visits > MAX_VISITS_TO_DECIDE {
            return Err(SchemaRefused::Entangled { visits });
        }
        let validator = jsonschema::options()
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(
                PatternOptions::regex().size_limit(share).dfa_size_limit(MAX_PATTERN_CACHE_BYTES),
            )
            .build(schema)
            .map_err(|error| refusal(&error))?;
        let secrets = Secrets::of(schema);
        Ok(Self { inner: Arc::new(Inner { schema: schema.clone(), validator, secrets, chain }) })
    }

    /// Checks `value`.
    ///
    /// # Errors
    ///
    /// At least one and at most sixteen violations, 4 KiB of text together.
    pub(crate) fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        let inner = &*self.inner;
        if (inner.chain + 1) * (MAX_DEPTH + 1) > MAX_FRAMES
            && (inner.chain + 1) * (extent(value).1 + 1) > MAX_FRAMES
        {
            let message = "is nested too deeply for a schema with such long chains of references";
            return Err(vec![Violation::new("", "schema", message)]);
        }
        if inner.validator.is_valid(value) {
            return Ok(());
        }
        let describer = Describer { root: &inner.schema, secrets: &inner.secrets };
        let (nodes, depth) = extent(value);
        let Effort { visits, .. } = effort::to_explain(&inner.schema, depth);
        let found = if visits.saturating_mul(nodes) <= MAX_COLLECTED {
            describer.describe(inner.validator.iter_errors(value))
        } else if visits <= MAX_VISITS {
            describer.describe(inner.validator.validate(value).err())
        } else {
            let message = "does not fit the schema, whose alternatives are too many to say where";
            vec![Violation::new("", "schema", message)]
        };
        Err(bounded(found))
    }
}

/// Nodes of a value and levels below its root.
fn extent(value: &Value) -> (u64, usize) {
    let add = |(nodes, depth): (u64, usize), inner: &Value| {
        let (more, deeper) = extent(inner);
        (nodes + more, depth.max(deeper + 1))
    };
    match value {
        Value::Array(items) => items.iter().fold((1, 0), add),
        Value::Object(object) => object.values().fold((1, 0), add),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (1, 0),
    }
}

fn deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| deeper_than(item, levels - 1)),
        Value::Object(object) => levels == 0 || object.values().any(|item| deeper_than(item, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn measure(schema: &Value, limit: usize) -> Result<(), SchemaRefused> {
    struct Meter(usize);
    impl std::io::Write for Meter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Meter(limit), schema).map_err(|_| SchemaRefused::TooLarge { limit })
}

/// Refuses dialects that the validator would not know, wherever the document names one.
fn inspect_dialects(at: &Value) -> Result<(), SchemaRefused> {
    match at {
        Value::Object(object) => {
            if let Some(Value::String(dialect)) = object.get("$schema") {
                let bare = dialect.trim_end_matches('#');
                let bare =
                    bare.strip_prefix("https://").or_else(|| bare.strip_prefix("http://")).unwrap_or(bare);
                if !DIALECTS.contains(&bare) {
                    return Err(SchemaRefused::Dialect { dialect: shown(dialect, SHOWN_URI) });
                }
            }
            let subschemas = object.iter().filter(|(keyword, _)| !DATA_KEYWORDS.contains(&keyword.as_str()));
            subschemas.map(|(_, inner)| inner).try_for_each(inspect_dialects)
        }
        Value::Array(items) => items.iter().try_for_each(inspect_dialects),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn collect_patterns<'a>(at: &'a Value, patterns: &mut HashSet<&'a str>) {
    match at {
        Value::Object(object) => {
            patterns.extend(object.get("pattern").and_then(Value::as_str));
            let keyed = object.get("patternProperties").and_then(Value::as_object);
            patterns.extend(keyed.into_iter().flat_map(|keyed| keyed.keys().map(String::as_str)));
            object.values().for_each(|inner| collect_patterns(inner, patterns));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect_patterns(inner, patterns)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn refusal(error: &ValidationError<'_>) -> SchemaRefused {
    let pointer = shown(error.instance_path().as_str(), SHOWN_URI);
    match error.kind() {
        ValidationErrorKind::Referencing(jsonschema::ReferencingError::Unretrievable { uri, .. }) => {
            SchemaRefused::RemoteReference { reference: shown(uri, SHOWN_URI) }
        }
        ValidationErrorKind::Referencing(fault) => {
            SchemaRefused::DanglingReference { reason: shown(&fault.to_string(), SHOWN_URI) }
        }
        ValidationErrorKind::Format { format } if format == "regex" => SchemaRefused::Pattern {
            pattern: shown(error.instance().as_str().unwrap_or_default(), SHOWN_VALUE),
            pointer,
        },
        _ => SchemaRefused::Invalid { pointer, reason: shown(&error.to_string(), SHOWN_URI) },
    }
}

#[cfg(test)]
mod tests;
