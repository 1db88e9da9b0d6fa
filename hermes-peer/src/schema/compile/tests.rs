use serde_json::{Value, json};

use super::*;
use crate::schema::json::parse;
use crate::schema::violation::{MAX_TEXT, MAX_VIOLATIONS};

fn compiled(schema: &Value) -> Compiled {
    Compiled::new(schema).expect("a valid schema")
}

fn verdict(schema: &Compiled, text: &str) -> Vec<String> {
    let value = parse(text.as_bytes()).expect("valid JSON");
    schema.check(&value).err().unwrap_or_default().iter().map(|v| format!("{v} [{}]", v.rule)).collect()
}

fn refused(schema: &Value) -> SchemaRefused {
    Compiled::new(schema).expect_err("refused")
}

fn search() -> Compiled {
    compiled(&json!({
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "k": {"type": "integer"},
            "opts": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "a"}, "name": {"type": "string"}}, "required": ["kind", "name"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "size": {"type": "integer"}}, "required": ["kind", "size"]},
                {"$ref": "#/$defs/c"}
            ]}
        },
        "required": ["query"],
        "additionalProperties": false,
        "$defs": {"c": {"type": "object", "properties": {"kind": {"const": "c"}, "deep": {"type": "boolean"}}, "required": ["kind"]}}
    }))
}

#[test]
fn whole_numbers_are_integers_and_bounds_are_exact() {
    // FC-062
    let schema = compiled(&parse(
        br#"{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":18446744073709551615}}}"#,
    ).expect("valid JSON"));
    for good in ["9007199254740993", "18446744073709551615", "1.0", "1e2", "-0"] {
        assert_eq!(verdict(&schema, &format!(r#"{{"id":{good}}}"#)), [""; 0], "{good}");
    }
    for (bad, message) in [
        (
            "18446744073709551616",
            "/id: must be at most 18446744073709551615, got 18446744073709551616 [maximum]",
        ),
        ("0.5", "/id: must be integer, got a number [type]"),
        ("\"1\"", "/id: must be integer, got a string [type]"),
        ("true", "/id: must be integer, got a boolean [type]"),
        ("-1", "/id: must be at least 0, got -1 [minimum]"),
    ] {
        assert_eq!(verdict(&schema, &format!(r#"{{"id":{bad}}}"#)), [message], "{bad}");
    }
}

#[test]
fn decimals_are_multiples_as_they_are_written() {
    // FC-062
    let schema = compiled(&json!({"type": "number", "multipleOf": 0.01}));
    for good in ["0.07", "4.35", "19.99"] {
        assert_eq!(verdict(&schema, good), [""; 0], "{good}");
    }
    assert_eq!(verdict(&schema, "0.075"), ["the value: must be a multiple of 0.01, got 0.075 [multipleOf]"]);
}

#[test]
fn an_enormous_exponent_costs_nothing() {
    let schema = compiled(&json!({"type": "integer", "multipleOf": 3, "maximum": 10}));
    for text in ["1e1000000000", "1e-1000000000", "-1e999999999999999999"] {
        assert!(!verdict(&schema, text).is_empty(), "{text}");
    }
}

#[test]
fn a_misspelt_key_is_named_with_the_one_that_was_meant() {
    // FC-066
    assert_eq!(
        verdict(&search(), r#"{"querry":"x"}"#),
        [
            "/querry: is not a known property, did you mean `query`? [additionalProperties]",
            "/query: is required but missing [required]",
        ]
    );
    assert_eq!(
        verdict(&search(), r#"{"query":"x","colour":1}"#),
        ["/colour: is not a known property, known are query, k, opts [additionalProperties]"]
    );
}

#[test]
fn null_where_absent_was_meant_says_so() {
    // FC-066
    assert_eq!(
        verdict(&search(), r#"{"query":"x","k":null}"#),
        ["/k: must be integer; null is not allowed, leave the property out instead [type]"]
    );
    assert_eq!(
        verdict(&search(), r#"{"query":null}"#),
        ["/query: must be string; null is not allowed [type]"]
    );
}

#[test]
fn only_the_alternative_that_was_meant_is_reported() {
    // FC-066
    for (opts, expected) in [
        (r#"{"kind":"b","size":"9"}"#, "/opts/size: must be integer, got a string [type]"),
        (r#"{"kind":"b"}"#, "/opts/size: is required but missing [required]"),
        (r#"{"kind":"c","deep":1}"#, "/opts/deep: must be boolean, got a number [type]"),
        (r#"{"kind":"d"}"#, "/opts/kind: must be one of \"a\", \"b\", \"c\", got \"d\" [oneOf]"),
        (r#"{}"#, "/opts: fits none of the 3 alternatives [oneOf]"),
        ("7", "/opts: must be object, got a number [type]"),
    ] {
        assert_eq!(verdict(&search(), &format!(r#"{{"query":"x","opts":{opts}}}"#)), [expected], "{opts}");
    }
}

#[test]
fn a_nullable_object_reports_what_is_wrong_with_the_object() {
    let schema = compiled(&json!({"anyOf": [
        {"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "null"}]},
        {"type": "null"}
    ]}));
    assert_eq!(verdict(&schema, "null"), [""; 0]);
    assert_eq!(verdict(&schema, r#"{"n":"x"}"#), ["/n: must be integer, got a string [type]"]);
    assert_eq!(
        verdict(&compiled(&json!({"anyOf": [{"type": "string"}, {"type": "null"}]})), "1"),
        ["the value: must be string or null, got a number [type]"]
    );
}

#[test]
fn a_string_that_holds_json_is_told_as_such() {
    // FC-066
    assert_eq!(
        verdict(&search(), r#""{\"query\":\"x\"}""#),
        ["the value: must be object; got a string that holds JSON, send the JSON itself [type]"]
    );
    assert_eq!(verdict(&search(), r#""hello""#), ["the value: must be object, got a string [type]"]);
    assert_eq!(verdict(&search(), "[]"), ["the value: must be object, got an array [type]"]);
    let either =
        compiled(&json!({"oneOf": [{"properties": {"a": false}, "type": "object"}, {"type": "array"}]}));
    assert!(verdict(&either, r#""[1]""#)[0].contains("holds JSON"));
}

#[test]
fn messages_are_bounded_and_escaped_whatever_the_value() {
    // FC-066
    let schema = compiled(&json!({
        "additionalProperties": {"type": "integer"},
        "properties": {"e": {"enum": ["a".repeat(5000), 1, 2, 3, 4, 5, 6, 7, 8, 9]}, "p": {"pattern": "^a+$"}}
    }));
    let evil = "\u{1b}[31m\n\u{202e}".repeat(10_000);
    let mut body = serde_json::Map::new();
    body.insert("e".into(), evil.clone().into());
    body.insert("p".into(), "x".repeat(1 << 20).into());
    for i in 0..100 {
        body.insert(format!("{evil}{i}"), "no".into());
    }
    let violations = schema.check(&Value::Object(body)).expect_err("all is wrong");
    let text: String = violations.iter().map(|v| format!("{v}{}", v.rule)).collect();
    assert!(
        violations.len() <= MAX_VIOLATIONS && text.len() <= MAX_TEXT + MAX_VIOLATIONS * 2,
        "{}",
        text.len()
    );
    assert!(!text.contains(char::is_control) && !text.contains('\u{202e}'));
}

#[test]
fn a_large_wrong_value_reports_its_first_violation() {
    let schema = compiled(&json!({"type": "array", "items": {"type": "integer"}}));
    let value = Value::from(vec!["x"; 100_000]);
    assert_eq!(schema.check(&value).expect_err("strings").len(), 1);
    let value = Value::from(vec!["x"; 100]);
    assert_eq!(schema.check(&value).expect_err("strings").len(), MAX_VIOLATIONS);
}

#[test]
fn values_of_secret_fields_never_appear() {
    // FC-066
    let secret = "hunter2hunter2";
    let pin = json!({"type": "string", "pattern": "^[0-9]+$"});
    for schema in [
        json!({"properties": {"pin": {"x-secret": true, "pattern": "^[0-9]+$"}}}),
        json!({"properties": {"pin": {"writeOnly": true, "enum": ["0000"]}}}),
        json!({"properties": {"pin": {"writeOnly": true, "const": "hunter3hunter3"}}}),
        json!({"properties": {"pin": {"$ref": "#/$defs/pin", "x-secret": true}}, "$defs": {"pin": pin}}),
        json!({"properties": {"pin": {"$ref": "#/$defs/pin"}}, "$defs": {"pin": {"x-secret": true, "pattern": "^[0-9]+$"}}}),
        json!({"properties": {"pin": {"x-secret": true}}, "allOf": [{"properties": {"pin": pin}}]}),
        json!({"properties": {"pin": {"anyOf": [{"x-secret": true, "pattern": "^[0-9]+$", "type": "string"}, {"type": "null"}]}}}),
        json!({"additionalProperties": {"x-secret": true, "pattern": "^[0-9]+$"}}),
        json!({"patternProperties": {"^p": {"x-secret": true, "not": {"const": secret}}}}),
        json!({"x-secret": true, "properties": {"pin": pin}}),
        json!({"properties": {"pin": {"$ref": "#pin"}}, "$defs": {"pin": {"$anchor": "pin", "x-secret": true, "pattern": "^[0-9]+$"}}}),
        json!({"$defs": {"p": {"$id": "https://a.example/p", "$defs": {"q": {"x-secret": true, "pattern": "^[0-9]+$"}}, "properties": {"pin": {"$ref": "#/$defs/q"}}}}, "$ref": "#/$defs/p"}),
    ] {
        let text = verdict(&compiled(&schema), &format!(r#"{{"pin":"{secret}"}}"#)).join("\n");
        assert!(text.contains("/pin") && !text.contains("hunter"), "{schema}: {text}");
    }
    let open = compiled(&json!({"properties": {"pin": pin}}));
    assert!(verdict(&open, &format!(r#"{{"pin":"{secret}"}}"#))[0].contains(secret), "the test can fail");
}

#[test]
fn true_takes_all_and_false_takes_nothing() {
    // FC-064
    for value in [json!(null), json!({"a": [1]}), json!("x")] {
        assert!(compiled(&json!(true)).check(&value).is_ok());
        assert_eq!(compiled(&json!(false)).check(&value).expect_err("false").len(), 1);
        assert!(compiled(&json!({})).check(&value).is_ok());
    }
}

#[test]
fn a_recursive_tree_is_checked_at_every_depth() {
    // FC-064
    let schema = compiled(&json!({
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"type": "object", "properties": {
            "n": {"type": "integer"}, "left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}
        }}}
    }));
    assert_eq!(verdict(&schema, r#"{"left":{"right":{"n":1}}}"#), [""; 0]);
    assert_eq!(
        verdict(&schema, r#"{"left":{"right":{"n":"1"}}}"#),
        ["/left/right/n: must be integer, got a string [type]"]
    );
}

#[test]
fn each_dialect_is_read_by_its_own_rules() {
    // FC-064
    let seven = compiled(&json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"word": {"type": "string"}},
        "properties": {"pair": {"items": [{"$ref": "#/definitions/word"}, {"type": "integer"}]}},
        "dependencies": {"a": ["b"]}
    }));
    assert_eq!(verdict(&seven, r#"{"pair":["x",1,true]}"#), [""; 0]);
    assert_eq!(verdict(&seven, r#"{"pair":[1,"x"]}"#).len(), 2);
    assert_eq!(verdict(&seven, r#"{"a":1}"#), ["/b: is required but missing [required]"]);
    let four = compiled(
        &json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true}),
    );
    assert_eq!(verdict(&four, "1"), ["the value: must be greater than 1, got 1 [exclusiveMinimum]"]);
    for dialect in ["http://json-schema.org/draft-06/schema", "https://json-schema.org/draft/2019-09/schema"]
    {
        compiled(&json!({"$schema": dialect, "type": "object"}));
    }
    assert!(
        Compiled::new(&json!({"items": [{"type": "string"}]})).is_err(),
        "2020-12 is what no dialect means"
    );
}

#[test]
fn a_dialect_that_is_not_honoured_is_refused_by_name() {
    // FC-064
    for schema in [
        json!({"$schema": "http://json-schema.org/draft-03/schema#"}),
        json!({"$schema": "https://spec.openapis.org/oas/3.1/dialect/base"}),
        json!({"properties": {"a": {"$id": "https://a.example/x", "$schema": "https://a.example/dialect"}}}),
    ] {
        assert!(matches!(refused(&schema), SchemaRefused::Dialect { .. }), "{schema}");
    }
    assert!(refused(&json!({"$schema": "urn:x"})).to_string().contains("dialect urn:x is not supported"));
    compiled(&json!({"properties": {"$schema": {"type": "string"}}, "default": {"$schema": "urn:x"}}));
}

#[test]
fn a_reference_out_of_the_document_is_refused_by_name_and_never_fetched() {
    for reference in
        ["https://schemas.example/a.json", "file:///etc/passwd", "other.json#/a", "urn:example:x"]
    {
        let refusal = refused(&json!({"properties": {"a": {"$ref": reference}}}));
        assert!(matches!(refusal, SchemaRefused::RemoteReference { .. }), "{reference}: {refusal:?}");
    }
    assert!(refused(&json!({"$ref": "https://s.example/a"})).to_string().contains("https://s.example/a"));
    for reference in ["#/$defs/nowhere", "#nowhere"] {
        let refusal = refused(&json!({"$ref": reference}));
        assert!(matches!(refusal, SchemaRefused::DanglingReference { .. }), "{reference}: {refusal:?}");
    }
    compiled(&json!({"$ref": "#word", "$defs": {"word": {"$anchor": "word", "type": "string"}}}));
}

#[test]
fn a_pattern_that_needs_backtracking_is_refused_by_name() {
    for pattern in ["^(?!x)", "(?<=a)b", r"(a)\1", "(", r"(\w{200}){200}"] {
        let refusal = refused(&json!({"properties": {"a": {"pattern": pattern}}}));
        assert!(
            matches!(&refusal, SchemaRefused::Pattern { pattern: named, .. } if named == pattern),
            "{pattern}: {refusal:?}"
        );
        let refusal = refused(&json!({"patternProperties": {pattern: {}}}));
        assert!(matches!(&refusal, SchemaRefused::Pattern { .. }), "{pattern}: {refusal:?}");
    }
    let schema = compiled(&json!({"pattern": r"^(a+)+$"}));
    assert_eq!(verdict(&schema, &format!("\"{}!\"", "a".repeat(100_000))).len(), 1, "and it ends");
}

#[test]
fn a_schema_beyond_its_limits_is_refused_by_name() {
    // FC-064
    let large = json!({"enum": (0..100_000).map(|i| i.to_string()).collect::<Vec<_>>()});
    assert_eq!(refused(&large), SchemaRefused::TooLarge { limit: MAX_SCHEMA_BYTES });
    Compiled::with_limit(&large, 1 << 20).expect("within the raised limit");
    compiled(&json!({"enum": (0..3_000).map(|i| format!("value-{i}")).collect::<Vec<_>>()}));
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"not": deep});
    }
    assert_eq!(refused(&deep), SchemaRefused::TooDeep);
}

#[test]
fn an_invalid_schema_says_where_it_is_wrong() {
    let refusal = refused(&json!({"properties": {"a": {"type": "strnig"}}}));
    assert!(
        matches!(&refusal, SchemaRefused::Invalid { pointer, .. } if pointer == "/properties/a/type"),
        "{refusal:?}"
    );
    assert!(matches!(refused(&json!("x")), SchemaRefused::Invalid { .. }));
}

#[test]
fn schemas_that_refer_to_themselves_end() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"not": {"$ref": "#"}}),
        json!({"properties": {"a": {"$ref": "#"}}, "anyOf": [{"$ref": "#"}, {"type": "string"}]}),
    ] {
        if let Ok(schema) = Compiled::new(&schema) {
            let _ = schema.check(&json!({"a": {"a": {"a": 1}}}));
        }
    }
}

/// A chain of definitions, each leading twice to the next.
fn doubling(links: usize, link: impl Fn(&Value) -> Value) -> Value {
    let mut definitions = serde_json::Map::new();
    for i in 0..links {
        definitions.insert(format!("d{i}"), link(&json!({"$ref": format!("#/$defs/d{}", i + 1)})));
    }
    definitions.insert(format!("d{links}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

#[test]
fn a_small_schema_that_doubles_at_every_step_is_refused_by_name() {
    for link in [
        |next: &Value| json!({"allOf": [next, next]}),
        |next: &Value| json!({"anyOf": [{"not": next}, next]}),
        |next: &Value| json!({"properties": {"a": next}, "patternProperties": {"^a": next}}),
        |next: &Value| json!({"items": {"oneOf": [next, next]}}),
    ] {
        assert!(matches!(refused(&doubling(40, link)), SchemaRefused::Entangled { .. }));
        compiled(&doubling(8, link));
    }
}

#[test]
fn a_recursive_choice_is_decided_and_answered_in_bounded_time() {
    let branches: Vec<Value> = (0..12)
        .map(|i| json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "op": {"enum": [i, "any"]}}}))
        .collect();
    let schema = compiled(&json!({"anyOf": branches}));
    let deep = |leaf: &str| format!("{}{leaf}{}", r#"{"op":"any","left":"#.repeat(100), "}".repeat(100));
    assert_eq!(verdict(&schema, &deep(r#"{"op":7}"#)), [""; 0]);
    assert_eq!(
        verdict(&schema, &deep(r#"{"op":-7}"#)),
        ["the value: does not fit the schema, whose alternatives are too many to say where [schema]"]
    );
}

#[test]
fn formats_are_notes_and_check_nothing() {
    let schema = compiled(&json!({"format": "uint8", "properties": {"d": {"format": "date-time"}}}));
    assert_eq!(verdict(&schema, r#"{"d":"tomorrow"}"#), [""; 0]);
}

#[test]
fn clones_share_one_compilation() {
    let schema = search();
    assert!(Arc::ptr_eq(&schema.inner, &schema.clone().inner));
    assert!(!format!("{schema:?}").contains("query"));
}

#[test]
fn the_deepest_schemas_and_longest_chains_fit_the_stack_of_a_worker_thread() {
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"properties": {"a": deep}, "type": "object"});
    }
    let deep = compiled(&deep);
    let value = format!("{}1{}", r#"{"a":"#.repeat(60), "}".repeat(60));
    assert_eq!(verdict(&deep, &value).len(), 1);
    let chain = compiled(&doubling(120, |next| json!({"allOf": [next]})));
    assert_eq!(verdict(&chain, "1").len(), 1);
    for links in [130, 1_000] {
        assert_eq!(refused(&doubling(links, |next| json!({"allOf": [next]}))), SchemaRefused::ChainTooLong);
    }
    let mut ring = doubling(100, Value::clone);
    ring["$defs"]["d100"] = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
    let ring = compiled(&ring);
    let value = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    assert!(verdict(&ring, &value(100))[0].contains("nested too deeply"));
    assert!(verdict(&ring, &value(1))[0].contains("must be object"));
}

#[test]
fn patterns_share_a_bounded_memory() {
    let many = |n: usize, pattern: &str| {
        let property = |i| (format!("p{i}"), json!({"pattern": format!("^{pattern}{i}$")}));
        json!({"properties": (0..n).map(property).collect::<serde_json::Map<_, _>>()})
    };
    compiled(&many(1, r"\p{L}{1,32}"));
    compiled(&many(5, r"\p{L}{1,32}"));
    compiled(&many(500, r"[a-z]+@\w+\.[a-z]{2,63}"));
    assert!(matches!(refused(&many(500, r"\p{L}{1,32}")), SchemaRefused::Pattern { .. }));
}
