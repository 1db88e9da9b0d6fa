//! What does not fit its schema never reaches a handler, and what a handler gives that does not fit never reaches a caller.

#![expect(clippy::unwrap_used, reason = "a test whose scene cannot be set fails")]

use hermes_peer::Body;
use hermes_peer::CallError;
use hermes_peer::Capability;
use hermes_peer::CapabilityInfo;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::HandlerFuture;
use hermes_peer::Incoming;
use hermes_peer::Items;
use hermes_peer::Node;
use hermes_peer::RegisterError;
use hermes_peer::Reply;
use hermes_peer::ReplyPart;
use hermes_peer::Request;
use hermes_peer::Violation;
use hermes_peer::capability;
use hermes_peer::handler;
use hermes_peer_tests::Lab;
use hermes_peer_tests::eventually;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;

/// A capability whose description is made at run time, with a handler that gives back its input's bytes.
struct ByHand {
    info: CapabilityInfo,
    answer: fn(&Body) -> Reply,
}

impl ByHand {
    fn new(name: &str, input: &str, output: &str, answer: fn(&Body) -> Reply) -> Self {
        let mut info = CapabilityInfo::new(name.parse().unwrap());
        info.input_schema = input.to_owned();
        info.output_schema = output.to_owned();
        Self { info, answer }
    }

    fn echo(name: &str, input: &str) -> Self {
        Self::new(name, input, "", |body| Reply::body(body.clone()))
    }
}

impl Capability for ByHand {
    fn info(&self) -> CapabilityInfo {
        self.info.clone()
    }

    fn handle(&self, request: Request, _context: Context) -> HandlerFuture {
        let reply = (self.answer)(request.body());
        Box::pin(async move { Ok(reply) })
    }
}

/// Takes a whole number, in a typed handler.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Numbered {
    /// Which one it is.
    id: u64,
}

/// Gives its number back.
#[capability("typed.number")]
async fn number(input: Numbered) -> Result<u64, Failure> {
    Ok(input.id)
}

/// Sums its items up.
#[capability("typed.sum")]
async fn sum(mut items: Incoming<u32>) -> Result<u32, Failure> {
    let mut total = 0;
    while let Some(item) = items.next().await {
        total += item?;
    }
    Ok(total)
}

async fn pair(lab: &Lab, capabilities: Vec<ByHand>) -> (Node, Node) {
    let mut builder = lab.provider("provider").capability(number).capability(sum);
    for capability in capabilities {
        builder = builder.capability(capability);
    }
    let provider = builder.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    (provider, caller)
}

/// The answer as it came, to the letter.
async fn text(caller: &Node, capability: &str, json: &str) -> Result<String, CallError> {
    let mut parts = caller.call_json(capability, json.to_owned()).parts().await?;
    match parts.next().await.unwrap()? {
        ReplyPart::End(Some(body)) => Ok(String::from_utf8(body.bytes.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn violations(error: &CallError) -> Vec<Violation> {
    serde_json::from_value(error.details().expect("details").clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_numbers_arrive_exactly_or_are_refused() {
    // FC-062
    let schema = r#"{"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":18446744073709551615}}}"#;
    let lab = Lab::new();
    let (_provider, caller) = pair(&lab, vec![ByHand::echo("by.hand", schema)]).await;
    for (given, whole) in [
        ("9007199254740993", Some("9007199254740993")),
        ("18446744073709551615", Some("18446744073709551615")),
        ("18446744073709551616", None),
        ("1.0", Some("1")),
        ("1e2", Some("100")),
        ("-0", Some("0")),
        ("0.5", None),
        ("\"1\"", None),
        ("true", None),
    ] {
        let json = format!(r#"{{"id":{given}}}"#);
        let (by_hand, typed) =
            (text(&caller, "by.hand", &json).await, text(&caller, "typed.number", &json).await);
        match whole {
            Some(whole) => {
                assert_eq!(by_hand.unwrap(), json, "bytes pass as they are");
                assert_eq!(typed.unwrap(), whole, "a typed handler gets the integer {given}");
            }
            None => {
                for error in [by_hand.unwrap_err(), typed.unwrap_err()] {
                    assert_eq!(error.code(), ErrorCode::InvalidInput, "{given}");
                    assert_eq!(violations(&error)[0].pointer, "/id", "{error}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_are_multiples_as_they_are_written() {
    // FC-062
    let lab = Lab::new();
    let schema = r#"{"type":"number","multipleOf":0.01}"#;
    let (_provider, caller) = pair(&lab, vec![ByHand::echo("by.hand", schema)]).await;
    for good in ["0.07", "4.35", "19.99", "1.1000000000000000000000000000001e1"] {
        let answer = text(&caller, "by.hand", good).await;
        match good.len() {
            0..8 => assert_eq!(answer.unwrap(), good),
            _ => assert_eq!(answer.unwrap_err().code(), ErrorCode::InvalidInput),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_says_where_and_what() {
    // FC-066
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["query"],
        "properties": {
            "query": { "type": "string" },
            "k": { "type": "integer" },
            "pin": { "type": "string", "maxLength": 4, "x-secret": true },
            "opts": { "oneOf": [
                { "type": "object", "properties": { "kind": { "const": "a" }, "name": { "type": "string" } }, "required": ["kind"] },
                { "type": "object", "properties": { "kind": { "const": "b" }, "size": { "type": "integer" } }, "required": ["kind"] },
            ] },
        },
    });
    let lab = Lab::new();
    let (_provider, caller) = pair(&lab, vec![ByHand::echo("by.hand", &schema.to_string())]).await;
    let refused = async |input: String| {
        let error = text(&caller, "by.hand", &input).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidInput);
        assert!(error.message().len() <= 6 * 1024, "{} bytes", error.message().len());
        assert!(!error.message().chars().any(char::is_control), "escaped: {error}");
        assert!(error.message().contains("`by.hand`"), "whose input: {error}");
        assert_eq!(error.node().map(|node| node.as_str()), Some("provider"));
        assert!(!error.is_retryable() && !error.may_have_run());
        error
    };
    for (input, pointers, words) in [
        (r#"{"querry":"x"}"#, &["/querry", "/query"][..], "did you mean `query`?"),
        (r#"{"query":"x","k":null}"#, &["/k"], "null is not allowed"),
        (r#"{"query":"x","opts":{"kind":"b","size":"9"}}"#, &["/opts/size"], "must be integer"),
        (r#""{\"query\":\"x\"}""#, &[""], "got a string that holds JSON"),
        ("[]", &[""], "must be object"),
        (r#"{"query":"x","a\n\u001b[31mb":1}"#, &["/a\\n\\u{1b}[31mb"], "is not a known property"),
    ] {
        let error = refused(input.to_owned()).await;
        let found: Vec<_> = violations(&error).into_iter().map(|violation| violation.pointer).collect();
        assert_eq!(found, pointers, "{error}");
        assert!(error.message().contains(words), "{error}");
    }
    // A huge wrong value, many wrong values, and a secret one.
    refused(format!(r#"{{"query":{{"x":"{}"}}}}"#, "y".repeat(1 << 20))).await;
    let many: Vec<_> = (0..1000).map(|n| format!(r#""extra{n}":{n}"#)).collect();
    refused(format!("{{{}}}", many.join(","))).await;
    let error = refused(r#"{"query":"x","pin":"hunter2"}"#.to_owned()).await;
    let whole = format!("{error:?} {error} {:?}", error.details());
    assert!(whole.contains("/pin") && !whole.contains("hunter2"), "{whole}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_json_leaves_open_is_refused_whatever_the_schema() {
    let lab = Lab::new();
    let (_provider, caller) = pair(&lab, vec![ByHand::echo("by.hand", "")]).await;
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let refused = async |input: Vec<u8>, words: &str| {
        for capability in ["by.hand", "typed.number"] {
            let error = caller.call_json::<Value>(capability, input.clone()).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidInput);
            assert!(error.message().contains(words), "{error}");
        }
    };
    refused(br#"{"id":1,"id":2}"#.to_vec(), "/id stands twice").await;
    refused(br#"{"id":1,"\u0069d":2}"#.to_vec(), "/id stands twice").await;
    refused(deep(129).into_bytes(), "deeper than 128 levels").await;
    refused(deep(1_000_000).into_bytes(), "deeper than 128 levels").await;
    refused(b"{\"id\":\"\xff\"}".to_vec(), "invalid UTF-8 at byte 7").await;
    refused(b"{\"id\":1".to_vec(), "ends too early").await;
    refused(b"".to_vec(), "empty").await;
    refused(b"{'id':1}".to_vec(), "double quotes").await;
    refused(b"1 2".to_vec(), "line 1, column 3").await;
    assert_eq!(text(&caller, "by.hand", &deep(128)).await.unwrap(), deep(128));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_json_do_not_get_past_a_schema() {
    let lab = Lab::new();
    let capabilities = vec![
        ByHand::echo("by.schema", r#"{"type":"object","required":["id"]}"#),
        ByHand::echo("by.hand", ""),
        ByHand::new("wrong.bytes", "", r#"{"type":"integer"}"#, |_| Reply::body(Body::raw("1"))),
    ];
    let (_provider, caller) = pair(&lab, capabilities).await;
    for capability in ["by.schema", "typed.number"] {
        let error = caller.call_body::<Value>(capability, Body::raw(r#"{"id":1}"#)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidInput);
        assert!(error.message().contains("JSON"), "{error}");
    }
    let mut parts = caller.call_body("by.hand", Body::raw("\u{0}\u{1}")).parts().await.unwrap();
    let answer = parts.next().await.unwrap().unwrap();
    assert_eq!(answer, ReplyPart::End(Some(Body::raw("\u{0}\u{1}"))), "without a schema bytes pass");
    let error = caller.call::<Value>("wrong.bytes", &()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidOutput);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_result_is_the_providers_fault_and_does_not_arrive() {
    let integer = r#"{"type":"integer"}"#;
    let mut streams = ByHand::new("wrong.item", "", integer, |_| {
        Reply::items(Items::from_iter(["1", "2", "\"three\"", "4"].map(Body::json)))
    });
    streams.info.streams = true;
    let lab = Lab::new();
    let capabilities = vec![
        ByHand::new("wrong.type", "", integer, |_| Reply::body(Body::json("\"text\""))),
        ByHand::new("wrong.json", "", "", |_| Reply::body(Body::json("{"))),
        ByHand::new("good.type", "", integer, |_| Reply::body(Body::json("7"))),
        streams,
    ];
    let (provider, caller) = pair(&lab, capabilities).await;
    for node in [&caller, &provider] {
        let error = node.call::<Value>("wrong.type", &()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidOutput);
        assert_eq!(violations(&error)[0].rule, "type");
        assert!(error.message().contains("the result of `wrong.type`"), "{error}");
        let error = node.call::<Value>("wrong.json", &()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidOutput);
        assert_eq!(node.call::<u32>("good.type", &()).await.unwrap(), 7);
        let mut items = node.call("wrong.item", &()).stream::<Value>().await.unwrap();
        // The error may overtake items that wait to be sent, and comes after those that do not.
        let mut good = 0;
        let error = loop {
            match items.next().await.expect("a stream that fails has no end but an error") {
                Ok(item) => {
                    good += 1;
                    assert_eq!(item, json!(good), "in order");
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), ErrorCode::InvalidOutput);
        assert!(good <= 2, "a wrong item does not arrive");
        assert!(items.next().await.is_none(), "nothing comes after an error");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_a_caller_sends_are_checked_one_by_one() {
    let lab = Lab::new();
    let (_provider, caller) = pair(&lab, vec![]).await;
    let (sender, mut replies) = caller.call("typed.sum", &()).exchange::<Value, u32>().await.unwrap();
    sender.send(&json!(1)).await.unwrap();
    sender.send(&json!("two")).await.unwrap();
    let error = replies.next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidInput);
    assert!(error.message().contains("an input item of `typed.sum`"), "{error}");
    drop(sender);
    let (sender, mut replies) = caller.call("typed.sum", &()).exchange::<Value, u32>().await.unwrap();
    for item in ["1", "2.0", "3e0"] {
        sender.send(&serde_json::from_str(item).unwrap()).await.unwrap();
    }
    sender.finish();
    assert_eq!(replies.next().await.unwrap().unwrap(), 6);
}

/// What to look for.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Question {
    /// In the customer's words.
    text: String,
    /// At most so many passages.
    #[schemars(range(min = 1, max = 50))]
    k: Option<u8>,
}

/// Finds the passages that answer a question.
#[capability("knowledge.retrieve")]
async fn retrieve(question: Question) -> Result<Vec<String>, Failure> {
    Ok(vec![question.text])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_made_of_a_type_says_what_its_comments_say() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(retrieve).start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    caller.wait_for("knowledge.retrieve", std::time::Duration::from_secs(10)).await.unwrap();
    let (node, info) = caller.capabilities().pop().unwrap();
    assert_eq!(node.as_str(), "provider");
    assert_eq!(info.description, "Finds the passages that answer a question.");
    let input: Value = serde_json::from_str(&info.input_schema).unwrap();
    assert_eq!(input["properties"]["text"]["description"], "In the customer's words.");
    assert_eq!(input["properties"]["k"]["description"], "At most so many passages.");
    assert_eq!(input["required"], json!(["text"]));
    let error =
        caller.call::<Value>("knowledge.retrieve", &json!({ "text": "x", "k": 51 })).await.unwrap_err();
    assert_eq!(violations(&error)[0].pointer, "/k");
    let passages: Vec<String> =
        caller.call("knowledge.retrieve", &json!({ "text": "x", "k": null })).await.unwrap();
    assert_eq!(passages, ["x"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_comes_later_reads_each_schema_as_it_was_registered() {
    // FC-064
    let enum_of_3000: Vec<_> = (0..3000).map(|n| format!("value {n}")).collect();
    let schemas = [
        (
            "tree",
            json!({
                "$ref": "#/$defs/tree",
                "$defs": { "tree": { "type": "object", "properties": {
                    "n": { "type": "integer" }, "left": { "$ref": "#/$defs/tree" }, "right": { "$ref": "#/$defs/tree" } } } },
            }),
            json!({ "left": { "n": 1 } }),
            Some(json!({ "left": { "n": "x" } })),
        ),
        (
            "seven",
            json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "definitions": { "word": { "type": "string" } },
                "properties": { "pair": { "items": [{ "$ref": "#/definitions/word" }, { "type": "integer" }] } },
                "dependencies": { "a": ["b"] },
            }),
            json!({ "pair": ["x", 1] }),
            Some(json!({ "pair": [1, "x"] })),
        ),
        ("anything", json!(true), json!([1, null]), None),
        (
            "nullable",
            json!({ "anyOf": [{ "anyOf": [{ "type": "string" }, { "type": "null" }] }, { "type": "null" }] }),
            json!(null),
            Some(json!(1)),
        ),
        ("choice", json!({ "enum": enum_of_3000 }), json!("value 2999"), Some(json!("value 3000"))),
        ("unicode", json!({ "title": "Größe 📏 \u{2028}", "maximum": 1e3 }), json!(1000), Some(json!(1001))),
    ];
    let lab = Lab::new();
    let made =
        schemas.iter().map(|(name, schema, ..)| ByHand::echo(&format!("by.{name}"), &schema.to_string()));
    let (provider, first) = pair(&lab, made.collect()).await;
    first.call::<u64>("typed.number", &json!({ "id": 1 })).await.unwrap();
    let later = lab.caller_of("later", &provider).start().await.unwrap();
    later.call::<u64>("typed.number", &json!({ "id": 1 })).await.unwrap();
    let known = later.capabilities();
    for (name, schema, good, bad) in schemas {
        let name = format!("by.{name}");
        let (_, info) = known.iter().find(|(_, info)| info.name.as_str() == name).expect("it is known");
        assert_eq!(serde_json::from_str::<Value>(&info.input_schema).unwrap(), schema);
        assert_eq!(later.call::<Value>(&name, &good).await.unwrap(), good);
        if let Some(bad) = bad {
            assert_eq!(later.call::<Value>(&name, &bad).await.unwrap_err().code(), ErrorCode::InvalidInput);
        }
    }
    provider.register(ByHand::echo("by.nothing", "false")).unwrap();
    eventually("it is known", || {
        later.capabilities().iter().any(|(_, info)| info.name.as_str() == "by.nothing")
    })
    .await;
    assert_eq!(later.call::<Value>("by.nothing", &1).await.unwrap_err().code(), ErrorCode::InvalidInput);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_cannot_be_held_to_is_refused_by_name_at_registration() {
    // FC-064
    let lab = Lab::new();
    let node = lab.provider("provider").start().await.unwrap();
    let large = format!(r#"{{"enum":["{}"]}}"#, "x".repeat(1 << 20));
    for (schema, words) in [
        (
            r#"{"$schema":"https://example.com/my-dialect"}"#,
            "dialect https://example.com/my-dialect is not supported",
        ),
        (r#"{"$ref":"https://example.com/other.json"}"#, "https://example.com/other.json"),
        (r##"{"$ref":"#/$defs/nowhere"}"##, "/$defs/nowhere"),
        (r#"{"type":"strnig"}"#, "/type"),
        (r#"{"pattern":"(?=x)"}"#, "(?=x)"),
        (r#"{"type":"object","type":"array"}"#, "stands twice"),
        ("{", "JSON"),
        (&large, "larger than 65536 bytes"),
    ] {
        let error = node.register(ByHand::echo("by.hand", schema)).unwrap_err();
        assert!(matches!(error, RegisterError::Schema { which: "input", .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("`by.hand`"), "{words}: {text}");
    }
    assert!(node.provided().is_empty(), "none of them is provided");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_capabilities_arrive_and_calls_go_on() {
    // FC-064
    let lab = Lab::new();
    let (provider, caller) = pair(&lab, vec![]).await;
    for n in 0..1000 {
        let schema = json!({ "type": "object", "properties": { "n": { "const": n } } }).to_string();
        provider.register(ByHand::echo(&format!("many.c{n}"), &schema)).unwrap();
    }
    caller.call::<u64>("typed.number", &json!({ "id": 1 })).await.unwrap();
    eventually("all are known", || caller.capabilities().len() == 1002).await;
    assert_eq!(caller.call::<Value>("many.c999", &json!({ "n": 999 })).await.unwrap(), json!({ "n": 999 }));
    let error = caller.call::<Value>("many.c999", &json!({ "n": 1 })).await.unwrap_err();
    assert_eq!(violations(&error)[0].pointer, "/n");
    let double = handler("demo.double", |n: u64, _: Context| async move { Ok::<_, Failure>(2 * n) }).unwrap();
    provider.register(double).unwrap();
    eventually("what comes last is known", || caller.capabilities().len() == 1003).await;
    assert_eq!(caller.call::<u64>("demo.double", &21).await.unwrap(), 42);
}
