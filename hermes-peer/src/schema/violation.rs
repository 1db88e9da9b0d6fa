//! What a value breaks, in words for people and fields for programs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::schema::text::shown;

/// Most violations reported for one value: who has more mends these first.
pub(crate) const MAX_VIOLATIONS: usize = 16;

/// Most bytes of text in all violations of one value together, so that an error always fits its frame.
pub(crate) const MAX_TEXT: usize = 4 * 1024;

/// Longest pointer, in characters: room for ten ordinary names.
const MAX_POINTER: usize = 256;

/// Longest message, in characters.
const MAX_MESSAGE: usize = 512;

/// One rule of a JSON Schema that a value breaks, and where.
///
/// Pointer and message are escaped (no control characters) and bounded; values are shown in part at most, and those
/// of fields marked `"x-secret": true` or `"writeOnly": true` never.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Violation {
    /// RFC 6901 pointer to the offending place: the unexpected or missing property itself, empty for the whole value.
    pub pointer: String,
    /// The keyword of the schema that refused: `type`, `required`, `additionalProperties`, …
    pub rule: String,
    /// What must hold, as in `must be integer, got a string`.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(pointer: &str, rule: &str, message: &str) -> Self {
        Self {
            pointer: shown(pointer, MAX_POINTER),
            rule: shown(rule, MAX_POINTER),
            message: shown(message, MAX_MESSAGE),
        }
    }

    fn bytes(&self) -> usize {
        self.pointer.len() + self.rule.len() + self.message.len()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the value" } else { &self.pointer };
        write!(f, "{place}: {}", self.message)
    }
}

/// At most [`MAX_VIOLATIONS`] of `found` and [`MAX_TEXT`] bytes, without repetitions.
///
/// A missing property comes after what stands in its place unexpectedly: a misspelt key is the cause.
pub(crate) fn bounded(found: impl IntoIterator<Item = Violation>) -> Vec<Violation> {
    let mut kept: Vec<Violation> = Vec::new();
    let mut text = 0;
    for violation in found {
        if kept.contains(&violation) {
            continue;
        }
        text += violation.bytes();
        if kept.len() == MAX_VIOLATIONS || text > MAX_TEXT {
            break;
        }
        kept.push(violation);
    }
    kept.sort_by_key(|violation| violation.rule == "required");
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_place_and_rule() {
        assert_eq!(
            Violation::new("/opts/size", "type", "must be integer").to_string(),
            "/opts/size: must be integer"
        );
        assert_eq!(Violation::new("", "type", "must be object").to_string(), "the value: must be object");
    }

    #[test]
    fn a_violation_survives_its_json_form() {
        let violation = Violation::new("/k", "type", "must be integer");
        let text = serde_json::to_string(&violation).expect("serializable");
        assert_eq!(text, r#"{"pointer":"/k","rule":"type","message":"must be integer"}"#);
        assert_eq!(serde_json::from_str::<Violation>(&text).expect("readable"), violation);
    }

    #[test]
    fn violations_stay_within_sixteen_and_four_kibibytes() {
        let many = (0..100).map(|i| Violation::new(&format!("/{i}"), "type", "must be integer"));
        assert_eq!(bounded(many).len(), MAX_VIOLATIONS);
        let long = (0..100).map(|i| Violation::new(&format!("/{i}"), "type", &"é\n".repeat(10_000)));
        let kept = bounded(long);
        assert!(!kept.is_empty() && kept.iter().map(Violation::bytes).sum::<usize>() <= MAX_TEXT);
    }

    #[test]
    fn the_misspelt_key_comes_before_the_missing_one() {
        let found = [("/query", "required"), ("/querry", "additionalProperties"), ("/query", "required")];
        let kept = bounded(found.map(|(pointer, rule)| Violation::new(pointer, rule, "")));
        assert_eq!(kept.iter().map(|v| v.pointer.as_str()).collect::<Vec<_>>(), ["/querry", "/query"]);
    }
}
