//! Schemas of Rust types.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Number, Value};

/// The JSON Schema (draft 2020-12) of `T`, as a capability advertises it.
///
/// - Doc comments become `description`, `#[serde(…)]` and `#[schemars(…)]` attributes are honoured.
/// - Types used inside stand under `$defs`, so that recursive ones work.
/// - A field of type `Option<_>` may be absent **and** may be null: both decode to `None`. A field with
///   `#[serde(default)]` may be absent only. `#[schemars(extend("x-secret" = true))]` keeps a field's values out of
///   every error message.
/// - Integers of up to 64 bits carry the bounds of their Rust type, so that what fits the schema fits the type;
///   formats like `uint8` are notes for readers and check nothing.
/// - Unknown properties are accepted, as serde does, unless the type says `#[serde(deny_unknown_fields)]`.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(bound_integer).transform(&mut schema);
    schema.to_value()
}

/// schemars bounds integers of 8 and 16 bits only, and names the width of others in `format`.
fn bound_integer(schema: &mut Schema) {
    let Some((least, most)) = schema.get("format").and_then(Value::as_str).and_then(bounds) else {
        return;
    };
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    object.entry("minimum").or_insert(Value::Number(least));
    object.entry("maximum").or_insert(Value::Number(most));
}

fn bounds(format: &str) -> Option<(Number, Number)> {
    Some(match format {
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "int64" | "int" => (i64::MIN.into(), i64::MAX.into()),
        "uint32" => (0.into(), u32::MAX.into()),
        "uint64" | "uint" => (0.into(), u64::MAX.into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::schema_of;
    use crate::schema::compile::Compiled;
    use crate::schema::integer::spell_integers_plainly;
    use crate::schema::json::parse;

    /// What is asked.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Question {
        /// The words to look for.
        query: String,
        /// How many passages, all when absent.
        k: Option<u32>,
        #[serde(default)]
        level: u8,
        #[schemars(extend("x-secret" = true), regex(pattern = "^[0-9]+$"))]
        pin: Option<String>,
        /// How to look.
        opts: Option<Options>,
        after: Option<Box<Self>>,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema and its decoding matter")]
    enum Options {
        Exact { folded: bool },
        Fuzzy { size: u64 },
    }

    fn answer(text: &str) -> Result<Question, String> {
        let schema = Compiled::new(&schema_of::<Question>()).expect("a derived schema is valid");
        let mut value = parse(text.as_bytes()).expect("valid JSON");
        let checked =
            schema.check(&value).map_err(|all| all.iter().map(|v| format!("{v}\n")).collect::<String>());
        spell_integers_plainly(&mut value);
        let decoded = serde_json::from_value::<Question>(value);
        assert_eq!(
            checked.is_ok(),
            decoded.is_ok(),
            "schema and type agree on {text}: {checked:?} {decoded:?}"
        );
        checked.map(|()| decoded.expect("both agree"))
    }

    #[test]
    fn a_schema_names_its_draft_and_keeps_the_doc_comments() {
        let schema = schema_of::<Question>();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["description"], "What is asked.");
        assert_eq!(schema["properties"]["query"]["description"], "The words to look for.");
        assert_eq!(schema["required"], json!(["query"]));
    }

    #[test]
    fn an_optional_field_may_be_absent_or_null_and_a_defaulted_one_absent_only() {
        for text in [r#"{"query":"x"}"#, r#"{"query":"x","k":null,"opts":null,"after":null}"#] {
            let question = answer(text).expect(text);
            assert!(question.query == "x" && question.k.is_none() && question.level == 0, "{question:?}");
        }
        assert!(
            answer(r#"{"query":"x","level":null}"#)
                .expect_err("null")
                .contains("/level: must be integer; null")
        );
    }

    #[test]
    fn integers_are_held_to_the_bounds_of_their_rust_type() {
        assert_eq!(
            answer(r#"{"query":"x","k":4294967295.0,"level":2.55e2}"#).expect("whole").k,
            Some(u32::MAX)
        );
        for text in
            [r#"{"query":"x","level":256}"#, r#"{"query":"x","level":-1}"#, r#"{"query":"x","level":1.5}"#]
        {
            assert!(answer(text).expect_err(text).starts_with("/level: must be "), "{text}");
        }
        assert!(
            answer(r#"{"query":"x","k":-1}"#).expect_err("negative").starts_with("/k: must be at least 0")
        );
        assert!(
            answer(r#"{"query":"x","k":4294967296}"#)
                .expect_err("large")
                .starts_with("/k: must be at most 4294967295")
        );
    }

    #[test]
    fn every_integer_type_is_bounded_as_its_values_are() {
        fn fits<T: JsonSchema + serde::de::DeserializeOwned>(text: &str) -> bool {
            let value = parse(text.as_bytes()).expect("a number");
            let fits = Compiled::new(&schema_of::<T>()).expect("valid").check(&value).is_ok();
            assert_eq!(fits, serde_json::from_value::<T>(value).is_ok(), "{text} in {}", schema_of::<T>());
            fits
        }
        assert!(fits::<i32>("-2147483648") && !fits::<i32>("-2147483649"));
        assert!(fits::<i64>("9223372036854775807") && !fits::<i64>("9223372036854775808"));
        assert!(fits::<u64>("18446744073709551615") && !fits::<u64>("18446744073709551616"));
        assert!(fits::<usize>("18446744073709551615") && !fits::<isize>("-9223372036854775809"));
        assert!(fits::<std::num::NonZeroU32>("1") && !fits::<std::num::NonZeroU32>("0"));
        assert!(!fits::<Vec<Option<i8>>>("[null, 128]") && !fits::<u16>("65536"));
    }

    #[test]
    fn a_tagged_enum_reports_the_variant_that_was_meant() {
        answer(r#"{"query":"x","opts":{"kind":"fuzzy","size":9}}"#).expect("valid");
        for (opts, message) in [
            (r#"{"kind":"fuzzy","size":"9"}"#, "/opts/size: must be integer, got a string\n"),
            (r#"{"kind":"exact"}"#, "/opts/folded: is required but missing\n"),
            (
                r#"{"kind":"fuzy"}"#,
                "/opts/kind: must be one of \"exact\", \"fuzzy\", did you mean \"fuzzy\"?\n",
            ),
        ] {
            assert_eq!(answer(&format!(r#"{{"query":"x","opts":{opts}}}"#)).expect_err(opts), message);
        }
        let nested = r#"{"query":"x","after":{"query":"y","after":{"querry":"z"}}}"#;
        assert!(
            answer(nested)
                .expect_err("misspelt")
                .starts_with("/after/after/querry: is not a known property, did you")
        );
    }

    #[test]
    fn a_field_marked_secret_is_not_shown() {
        let schema = Compiled::new(&schema_of::<Question>()).expect("valid");
        let value: Value = json!({"query": "x", "pin": "hunter2"});
        let text = schema.check(&value).expect_err("no digits")[0].to_string();
        assert!(text.starts_with("/pin: must match") && !text.contains("hunter2"), "{text}");
    }
}
