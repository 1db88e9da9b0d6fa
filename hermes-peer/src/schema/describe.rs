//! From the validator's errors to violations: one rule, one place, one sentence.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::Location;
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use crate::schema::branch::{self, Choice};
use crate::schema::json::holds_json;
use crate::schema::nearest::nearest;
use crate::schema::place::{Secrets, holder};
use crate::schema::text::{SHOWN_VALUE, segment, shown};
use crate::schema::violation::{MAX_VIOLATIONS, Violation};

/// Most allowed values listed in a message: more are not read.
const LISTED_VALUES: usize = 8;

/// Deepest nesting of alternatives followed into their branches; a schema that needs more is told apart by hand.
const MAX_BRANCHES: usize = 8;

/// Turns errors of one value into violations.
pub(crate) struct Describer<'a> {
    pub(crate) root: &'a Value,
    pub(crate) secrets: &'a Secrets,
}

impl Describer<'_> {
    /// The violations behind `errors`, which may be more than are reported.
    pub(crate) fn describe<'e>(
        &self,
        errors: impl IntoIterator<Item = ValidationError<'e>>,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        for error in errors {
            self.add(&error, 0, &mut found);
            if found.len() > MAX_VIOLATIONS {
                break;
            }
        }
        found
    }

    fn add(&self, error: &ValidationError<'_>, depth: usize, found: &mut Vec<Violation>) {
        let at = error.instance_path().as_str();
        let rule = error.kind().keyword();
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let known = self.known_names(error);
                found.extend(unexpected.iter().take(MAX_VIOLATIONS).map(|name| {
                    let message = unexpected_name(name, error.instance(), &known);
                    Violation::new(&format!("{at}/{}", segment(name)), rule, &message)
                }));
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let message = "is required but missing";
                found.push(Violation::new(&format!("{at}/{}", segment(name)), rule, message));
            }
            ValidationErrorKind::PropertyNames { error: inner } => {
                let name = inner.instance().as_str().unwrap_or_default();
                let message = format!("has a name that is not allowed: {}", self.sentence(inner));
                found.push(Violation::new(&format!("{at}/{}", segment(name)), rule, &message));
            }
            ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
                self.add_alternatives(error, context, depth, found);
            }
            _ => found.push(Violation::new(at, rule, &self.sentence(error))),
        }
    }

    fn add_alternatives(
        &self,
        error: &ValidationError<'_>,
        context: &[Vec<ValidationError<'static>>],
        depth: usize,
        found: &mut Vec<Violation>,
    ) {
        let at = error.instance_path();
        let rule = error.kind().keyword();
        match branch::choose(at, context) {
            Choice::Branch(errors) if depth < MAX_BRANCHES => {
                for inner in errors.iter().take(MAX_VIOLATIONS) {
                    self.add(inner, depth + 1, found);
                }
            }
            Choice::Kinds { place, expected } => {
                let got =
                    error.instance().pointer(place.as_str().get(at.as_str().len()..).unwrap_or_default());
                let hidden = self.hidden(error, place);
                let message = one_of(&expected, got.filter(|_| !hidden), hidden);
                found.push(Violation::new(place.as_str(), rule, &message));
            }
            Choice::Types(types) => {
                let message = self.wrong_type(&types, error);
                found.push(Violation::new(at.as_str(), "type", &message));
            }
            Choice::Branch(_) | Choice::None => {
                let message = format!(
                    "fits none of the {} alternatives{}",
                    context.len(),
                    json_inside(error.instance())
                );
                found.push(Violation::new(at.as_str(), rule, &message));
            }
        }
    }

    /// What must hold at the error's own place.
    fn sentence(&self, error: &ValidationError<'_>) -> String {
        let hidden = self.hidden(error, error.instance_path());
        let got = || got(error.instance(), hidden);
        match error.kind() {
            ValidationErrorKind::Type { kind } => self.wrong_type(&types(kind), error),
            ValidationErrorKind::Enum { options } => {
                let options: Vec<&Value> =
                    options.as_array().map(|all| all.iter().collect()).unwrap_or_default();
                one_of(&options, Some(&**error.instance()).filter(|_| !hidden), hidden)
            }
            ValidationErrorKind::Constant { expected_value } => {
                one_of(&[&**expected_value], Some(&**error.instance()).filter(|_| !hidden), hidden)
            }
            ValidationErrorKind::Minimum { limit } => format!("must be at least {limit}{}", got()),
            ValidationErrorKind::Maximum { limit } => format!("must be at most {limit}{}", got()),
            ValidationErrorKind::ExclusiveMinimum { limit } => {
                format!("must be greater than {limit}{}", got())
            }
            ValidationErrorKind::ExclusiveMaximum { limit } => format!("must be less than {limit}{}", got()),
            ValidationErrorKind::MultipleOf { multiple_of } => {
                format!("must be a multiple of {multiple_of}{}", got())
            }
            ValidationErrorKind::MinLength { limit } => format!("must have at least {limit} characters"),
            ValidationErrorKind::MaxLength { limit } => format!("must have at most {limit} characters"),
            ValidationErrorKind::MinItems { limit } => format!("must have at least {limit} items"),
            ValidationErrorKind::MaxItems { limit } => format!("must have at most {limit} items"),
            ValidationErrorKind::AdditionalItems { limit } => format!("must have no more than {limit} items"),
            ValidationErrorKind::MinProperties { limit } => format!("must have at least {limit} properties"),
            ValidationErrorKind::MaxProperties { limit } => format!("must have at most {limit} properties"),
            ValidationErrorKind::Pattern { pattern } => {
                format!("must match the pattern {}{}", shown(pattern, SHOWN_VALUE), got())
            }
            ValidationErrorKind::Format { format } => format!("must be a valid {format}{}", got()),
            ValidationErrorKind::UniqueItems => "must not hold the same item twice".to_owned(),
            ValidationErrorKind::UnevaluatedItems { .. } => "has items that are not allowed".to_owned(),
            ValidationErrorKind::Contains => {
                "must contain an item that fits the schema under `contains`".to_owned()
            }
            ValidationErrorKind::FalseSchema => "is not allowed here".to_owned(),
            ValidationErrorKind::Not { .. } => "fits the schema under `not`, which it must not".to_owned(),
            ValidationErrorKind::OneOfMultipleValid { .. } => {
                "fits more than one of the alternatives and must fit exactly one".to_owned()
            }
            _ => error.masked_with("the value").to_string(),
        }
    }

    fn wrong_type(&self, types: &[JsonType], error: &ValidationError<'_>) -> String {
        let wanted: Vec<&str> = types.iter().map(|one| one.as_str()).collect();
        let must = format!("must be {}", wanted.join(" or "));
        let instance = error.instance();
        match instance.as_ref() {
            Value::Null if self.may_be_absent(error) => {
                format!("{must}; null is not allowed, leave the property out instead")
            }
            Value::Null => format!("{must}; null is not allowed"),
            _ if types.iter().any(|t| matches!(t, JsonType::Object | JsonType::Array)) && holds(instance) => {
                format!("{must}{}", json_inside(instance))
            }
            _ => format!("{must}, got {}", kind_of(instance)),
        }
    }

    /// Whether the property at the error's place is declared and not required: null was probably meant as absent.
    fn may_be_absent(&self, error: &ValidationError<'_>) -> bool {
        let path = error.evaluation_path().as_str();
        let Some((_, name)) = error.instance_path().as_str().rsplit_once('/') else {
            return false;
        };
        let Some(at) = path.rfind(&format!("/properties/{name}/")) else {
            return false;
        };
        let Some(object) = self.root.pointer(&path[..at]).and_then(Value::as_object) else {
            return false;
        };
        let required = object.get("required").and_then(Value::as_array);
        let name = name.replace("~1", "/").replace("~0", "~");
        !required.is_some_and(|names| names.iter().any(|known| known.as_str() == Some(&name)))
    }

    fn known_names(&self, error: &ValidationError<'_>) -> Vec<&str> {
        let properties = holder(self.root, error.schema_path()).and_then(|object| object.get("properties"));
        properties
            .and_then(Value::as_object)
            .map(|names| names.keys().map(String::as_str).collect())
            .unwrap_or_default()
    }

    fn hidden(&self, error: &ValidationError<'_>, place: &Location) -> bool {
        self.secrets.cover(self.root, place, error.evaluation_path())
    }
}

/// The types that an error of the `type` keyword allows.
pub(crate) fn types(kind: &TypeKind) -> Vec<JsonType> {
    match kind {
        TypeKind::Single(one) => vec![*one],
        TypeKind::Multiple(set) => set.iter().collect(),
    }
}

fn unexpected_name(name: &str, object: &Value, known: &[&str]) -> String {
    let free = known.iter().copied().filter(|known| object.get(known).is_none());
    match nearest(name, free) {
        Some(near) => format!("is not a known property, did you mean `{near}`?"),
        None if known.is_empty() => "is not a known property".to_owned(),
        None => {
            let listed: Vec<&str> = known.iter().copied().take(LISTED_VALUES).collect();
            let more = if known.len() > LISTED_VALUES { ", …" } else { "" };
            format!("is not a known property, known are {}{more}", listed.join(", "))
        }
    }
}

/// Which values are allowed; neither these nor the one that came are shown when `hidden`.
fn one_of(options: &[&Value], instance: Option<&Value>, hidden: bool) -> String {
    if hidden {
        return "is not one of the allowed values".to_owned();
    }
    let listed: Vec<String> = options.iter().take(LISTED_VALUES).map(|value| brief(value)).collect();
    let more = if options.len() > LISTED_VALUES { ", …" } else { "" };
    let must = if options.len() == 1 { "must be" } else { "must be one of" };
    let names = options.iter().filter_map(|value| value.as_str());
    let hint = match instance.and_then(Value::as_str).and_then(|text| nearest(text, names)) {
        Some(near) if options.len() > 1 => format!(", did you mean {}?", brief(&Value::from(near))),
        _ => instance.map(|value| got(value, false)).unwrap_or_default(),
    };
    format!("{must} {}{more}{hint}", listed.join(", "))
}

fn got(instance: &Value, hidden: bool) -> String {
    if hidden { String::new() } else { format!(", got {}", brief(instance)) }
}

/// A scalar as JSON, cut; an array or object by name only, for it may hold anything.
fn brief(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", shown(text, SHOWN_VALUE)),
        Value::Null | Value::Bool(_) | Value::Number(_) => shown(&value.to_string(), SHOWN_VALUE),
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn holds(value: &Value) -> bool {
    value.as_str().is_some_and(holds_json)
}

/// Models and scripts encode twice: the text of an object where the object was wanted.
fn json_inside(value: &Value) -> &'static str {
    if holds(value) { "; got a string that holds JSON, send the JSON itself" } else { "" }
}
