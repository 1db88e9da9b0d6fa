//! Which alternative of a `oneOf` or `anyOf` was meant, read from how each of them failed.

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::Location;
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use crate::schema::describe::types;

/// What to say about alternatives that all failed.
#[derive(Debug)]
pub(crate) enum Choice<'c> {
    /// One alternative was meant, and this is what is wrong with it.
    Branch(&'c [ValidationError<'static>]),
    /// The property that tells the alternatives apart has none of their values.
    Kinds {
        /// The property.
        place: &'c Location,
        /// The value of each alternative.
        expected: Vec<&'c Value>,
    },
    /// All wanted another type.
    Types(Vec<JsonType>),
    /// Nothing can be told.
    None,
}

/// Chooses among the errors of each alternative for the value at `at`.
pub(crate) fn choose<'c>(at: &Location, context: &'c [Vec<ValidationError<'static>>]) -> Choice<'c> {
    if let Some(types) = all_types(at, context) {
        return Choice::Types(types);
    }
    let fitting: Vec<&'c Vec<_>> =
        context.iter().filter(|errors| !errors.iter().any(|e| is_other_type(at, e))).collect();
    if let [only] = fitting[..] {
        return Choice::Branch(only);
    }
    let tags: Vec<Vec<_>> =
        fitting.iter().map(|errors| errors.iter().filter_map(|e| tag(at, e)).collect()).collect();
    if let Some(choice) = by_tag(&fitting, &tags) {
        return choice;
    }
    let shaped: Vec<&'c Vec<_>> = fitting
        .into_iter()
        .filter(|errors| errors.iter().all(|e| e.instance_path() != at && tag(at, e).is_none()))
        .collect();
    match shaped[..] {
        [only] => Choice::Branch(only),
        _ => Choice::None,
    }
}

/// The one alternative whose constant properties all hold, or the property whose value none has.
fn by_tag<'c>(
    fitting: &[&'c Vec<ValidationError<'static>>],
    tags: &[Vec<(&'c Location, &'c Value)>],
) -> Option<Choice<'c>> {
    let (mut untagged, tagged): (Vec<_>, Vec<_>) =
        fitting.iter().zip(tags).partition(|(_, tags)| tags.is_empty());
    if untagged.len() == 1 && !tagged.is_empty() {
        return untagged.pop().map(|(errors, _)| Choice::Branch(errors));
    }
    let (place, _) = *tags.first()?.first()?;
    let expected =
        tags.iter().map(|tags| tags.iter().find(|(other, _)| *other == place).map(|(_, value)| *value));
    Some(Choice::Kinds { place, expected: expected.collect::<Option<_>>()? })
}

/// The constant that a direct property of the value should have had.
fn tag<'c>(at: &Location, error: &'c ValidationError<'static>) -> Option<(&'c Location, &'c Value)> {
    let below = error.instance_path().as_str().strip_prefix(at.as_str())?.strip_prefix('/')?;
    let expected = match error.kind() {
        ValidationErrorKind::Constant { expected_value } => expected_value,
        ValidationErrorKind::Enum { options } => match options.as_array()?.as_slice() {
            [only] => only,
            _ => return None,
        },
        _ => return None,
    };
    (!below.contains('/')).then_some((error.instance_path(), expected))
}

fn is_other_type(at: &Location, error: &ValidationError<'static>) -> bool {
    error.instance_path() == at && matches!(error.kind(), ValidationErrorKind::Type { .. })
}

/// The types that all alternatives want together, when type is all they complain about.
fn all_types(at: &Location, context: &[Vec<ValidationError<'static>>]) -> Option<Vec<JsonType>> {
    let mut wanted = Vec::new();
    for errors in context {
        let error = errors.iter().find(|error| is_other_type(at, error))?;
        let ValidationErrorKind::Type { kind } = error.kind() else {
            return None;
        };
        for one in types(kind) {
            if !wanted.contains(&one) {
                wanted.push(one);
            }
        }
    }
    (!wanted.is_empty()).then_some(wanted)
}
