use proptest::prelude::*;
use serde_json::json;

use super::*;

fn refused(text: &str) -> String {
    parse(text.as_bytes()).expect_err(text).to_string()
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn numbers_keep_every_digit_that_was_written() {
    // FC-062
    for text in
        ["9007199254740993", "18446744073709551615", "18446744073709551616", "1.0", "0.5", "-0", "1.10"]
    {
        let value = parse(text.as_bytes()).expect("a number");
        assert_eq!(value.to_string(), text);
    }
    assert_eq!(parse(b"1E2").expect("a number").to_string(), "1e+2", "an exponent is spelt in one way");
    let long = format!("{}.{}", "7".repeat(400), "3".repeat(400));
    assert_eq!(parse(long.as_bytes()).expect("a number").to_string(), long);
}

#[test]
fn a_key_that_stands_twice_is_refused_with_its_pointer() {
    let fault = parse(br#"{"a":[{"b/c":1,"d":2,"b/c":1}]}"#).expect_err("doubled");
    assert_eq!(fault, JsonRefused::DoubledKey { pointer: "/a/0/b~1c".into(), line: 1, column: 26 });
    assert!(refused(r#"{"a":1,"\u0061":2}"#).contains("/a stands twice"), "escapes do not hide it");
}

#[test]
fn exactly_128_levels_are_read_and_129_refused() {
    parse(nested(128).as_bytes()).expect("128 levels");
    assert!(matches!(
        parse(nested(129).as_bytes()),
        Err(JsonRefused::TooDeep { line: 1, column: 129..=130 })
    ));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(128), "}".repeat(128));
    parse(objects.as_bytes()).expect("128 objects around a number");
    let deeper = format!("{}1.5{}", r#"{"a":"#.repeat(129), "}".repeat(129));
    assert!(matches!(parse(deeper.as_bytes()), Err(JsonRefused::TooDeep { .. })));
}

#[test]
fn a_megabyte_of_openings_is_refused_without_reading_on() {
    // FC-068
    for opening in ["[", "{\"a\":", "[{\"a\":"] {
        let text = opening.repeat(1 << 18);
        assert!(matches!(parse(text.as_bytes()), Err(JsonRefused::TooDeep { .. })), "{opening}");
    }
}

#[test]
fn invalid_utf8_names_its_byte() {
    assert_eq!(parse(b"{\"a\":\"\xff\"}"), Err(JsonRefused::NotUtf8 { offset: 6 }));
    assert!(refused(r#""\ud800""#).contains("hex escape"), "half a character is none");
}

#[test]
fn one_body_is_one_value() {
    assert!(refused("{} {}").contains("trailing characters"));
    assert_eq!(parse(b" \n"), Err(JsonRefused::Empty));
    assert_eq!(parse(b""), Err(JsonRefused::Empty));
    assert_eq!(parse(b" {} \n"), Ok(json!({})));
}

#[test]
fn a_document_cannot_pose_as_the_readers_own_types() {
    for key in [
        "$serde_json::private::Number",
        "$serde_json::private::RawValue",
        "\\u0024serde_json::private::Number",
    ] {
        for value in ["\"7\"", "7", "{\"a\":1}"] {
            let text = format!(r#"{{"x":{{"{key}":{value}}}}}"#);
            assert!(matches!(parse(text.as_bytes()), Err(JsonRefused::ReservedKey { .. })), "{text}");
        }
    }
}

#[test]
fn a_syntax_error_says_where_and_what_was_probably_meant() {
    for (text, place, hint) in [
        ("{a:1}", "line 1, column 2", "double quotes"),
        ("{'a':1}", "line 1, column 2", "not single"),
        ("'x'", "line 1, column 1", "not single"),
        ("{\"a\":1,\n \"b\":[1,2,]}", "line 2, column 11 (in /b", "no comma after the last"),
        ("{\"a\":1,}", "line 1, column 8", "no comma after the last"),
        ("[True]", "line 1, column 2 (in /0)", "true, false and null"),
        ("nan", "line 1", "no such number"),
        ("{\"a\": NaN}", "(in /a)", "no such number"),
        ("```json\n{}\n```", "line 1, column 1", "fence"),
        ("{\"a\":1} // done", "line 1, column 9", "no comments"),
        ("\u{feff}{}", "line 1, column 1", "byte order mark"),
        ("{\"a\":\"x\ny\"}", "(in /a)", "written \\n"),
        ("{\"a\":", "line 1, column 5", "ends too early"),
    ] {
        let message = refused(text);
        assert!(message.contains(place), "{text}: {message}");
        assert!(message.contains(hint), "{text}: {message}");
    }
}

#[test]
fn a_message_is_short_and_escaped_whatever_the_body() {
    let key = "k\u{1b}[31m\n".repeat(100_000);
    let text = format!("{{{}:[x]}}", serde_json::to_string(&key).expect("a string"));
    let message = refused(&text);
    assert!(message.len() < 1024 && !message.contains(char::is_control), "{message}");
}

#[test]
fn a_string_that_holds_json_is_told_from_one_that_only_starts_like_it() {
    assert!(holds_json(r#" {"query":"x"}"#));
    assert!(holds_json("[]"));
    assert!(!holds_json("{query}"));
    assert!(!holds_json("12"));
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_valid_document_reads_the_same_as_with_serde_json(document in documents(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
        let text = text.expect("a value has a text");
        prop_assert_eq!(parse(text.as_bytes()).expect("valid"), serde_json::from_str::<Value>(&text).expect("valid"));
    }

    #[test]
    fn cut_or_flipped_documents_never_panic_and_are_refused_when_serde_json_refuses(
        document in documents(), at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<bool>()
    ) {
        let mut bytes = serde_json::to_vec(&document).expect("a value has a text");
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        let theirs = serde_json::from_slice::<Value>(&bytes);
        match parse(&bytes) {
            Ok(value) => prop_assert_eq!(value, theirs.expect("what the floor takes is JSON")),
            Err(JsonRefused::DoubledKey { .. } | JsonRefused::ReservedKey { .. }) => {}
            Err(fault) => prop_assert!(theirs.is_err(), "{}", fault),
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn short_strings_of_json_marks_are_answered_as_serde_json_answers(text in "[{}\\[\\]\"':,\\\\a1\n]{0,8}") {
        // FC-068
        let theirs = serde_json::from_str::<Value>(&text);
        match parse(text.as_bytes()) {
            Ok(value) => prop_assert_eq!(value, theirs.expect("what the floor takes is JSON")),
            Err(JsonRefused::DoubledKey { .. }) => {}
            Err(_) => prop_assert!(theirs.is_err()),
        }
    }
}
