//! The vectors in `docs/vectors` are what the code produces, and `docs/PROTOCOL.md` shows the same bytes.
//!
//! `UPDATE_VECTORS=1 cargo test -p hermes-peer-proto --test vectors` writes the files anew after a deliberate change.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod bytes_of;
mod exchanges;
mod handshakes;
mod names;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use hermes_peer_proto::protocol::limits::DEFAULT_ANNOUNCED;
use hermes_peer_proto::protocol::limits::MAX_HANDSHAKE_PAYLOAD;
use hermes_peer_proto::protocol::limits::MAX_PAYLOAD;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::MessageType;

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value as serde gives it, with byte strings in hexadecimal.
fn readable(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let bytes: Option<Vec<u8>> =
                items.iter().map(|item| item.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect();
            match bytes {
                Some(bytes) if !bytes.is_empty() => hex(&bytes).into(),
                _ => items.into_iter().map(readable).collect(),
            }
        }
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, readable(value))).collect(),
        other => other,
    }
}

/// Compares a file with what the code produces, or writes it.
fn hold(name: &str, vectors: &Value) {
    let path = docs().join("vectors").join(name);
    let produced = serde_json::to_string_pretty(vectors).unwrap() + "\n";
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        fs::write(&path, &produced).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == produced,
        "{} is not what the code produces; if the wire format changed on purpose, run with UPDATE_VECTORS=1",
        path.display()
    );
}

#[test]
fn headers_are_what_the_code_produces() {
    hold("headers.json", &bytes_of::headers());
}

#[test]
fn control_payloads_are_what_the_code_produces() {
    hold("control.json", &bytes_of::control());
}

#[test]
fn envelopes_are_what_the_code_produces() {
    hold("envelopes.json", &bytes_of::envelopes());
}

#[test]
fn messages_are_what_the_code_produces() {
    hold("messages.json", &bytes_of::messages());
}

#[test]
fn names_are_judged_as_the_code_judges_them() {
    hold("names.json", &names::names());
}

#[test]
fn handshakes_are_what_the_code_produces() {
    hold("handshakes.json", &handshakes::handshakes());
}

#[test]
fn exchanges_are_what_two_links_say() {
    hold("exchanges.json", &exchanges::exchanges());
}

/// Numbers in the document that the code knows better.
#[test]
fn the_documents_tables_are_those_of_the_code() {
    let document = fs::read_to_string(docs().join("PROTOCOL.md")).unwrap();
    for code in ErrorCode::ALL {
        let retryable = if code.is_retryable() { "yes" } else { "no" };
        let row = format!("| {} | {} | {retryable} | {} |", code.number(), code.name(), code.sentence());
        assert!(document.contains(&row), "{row}");
    }
    for message_type in MessageType::ALL {
        let kind = if message_type.is_data() { "data" } else { "control" };
        let row = format!("| {} | {} | {kind} |", message_type.number(), message_type.name());
        assert!(document.contains(&row), "{row}");
    }
    let grouped = |number: u32| {
        let digits = number.to_string();
        let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
        groups.join(",")
    };
    let announced = DEFAULT_ANNOUNCED;
    for (name, number) in [
        ("max_message", announced.max_message),
        ("max_chunk", announced.max_chunk),
        ("stream_window", announced.stream_window),
        ("link_window", announced.link_window),
        ("event_window", announced.event_window),
        ("max_streams", announced.max_streams),
        ("heartbeat_ms", announced.heartbeat_ms),
    ] {
        let row = format!("| {name} | u32 | {} |", grouped(number));
        assert!(document.contains(&row), "{row}");
    }
    for number in [MAX_HANDSHAKE_PAYLOAD, MAX_PAYLOAD] {
        assert!(document.contains(&format!("{} bytes", grouped(number))), "{number}");
    }
}

/// A sentence is cited by its number, so no number stands twice, and none is cited that does not stand.
#[test]
fn each_number_of_the_document_leads_to_one_sentence() {
    let document = fs::read_to_string(docs().join("PROTOCOL.md")).unwrap();
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text[..end].trim_end_matches('.').to_owned()
    };
    let mut sentences = BTreeSet::new();
    for line in document.lines() {
        if let Some(rest) = line.strip_prefix("- P-") {
            assert!(sentences.insert(number(rest)), "P-{} stands twice", number(rest));
        }
    }
    for (at, _) in document.match_indices("P-") {
        let cited = number(&document[at + 2..]);
        assert!(!cited.contains('.') || sentences.contains(&cited), "P-{cited} is cited");
    }
    assert!(sentences.len() > 100);
}

/// The document shows whole frames in blocks of hexadecimal, each under the name of its vector.
#[test]
fn the_document_shows_the_vectors_bytes() {
    let document = fs::read_to_string(docs().join("PROTOCOL.md")).unwrap();
    let mut shown = 0;
    for vectors in [handshakes::handshakes(), exchanges::exchanges()] {
        for vector in vectors.as_array().unwrap() {
            let name = vector["name"].as_str().unwrap();
            let Some((_, after)) = document.split_once(&format!("<!-- vector: {name} -->")) else { continue };
            let block = after.split("```").nth(1).unwrap();
            let got: String = block
                .lines()
                .map(|line| line.split('|').next().unwrap_or_default())
                .flat_map(str::chars)
                .filter(char::is_ascii_hexdigit)
                .collect();
            let frames = vector["frames"].as_array().unwrap();
            let expected: String = frames.iter().map(|frame| frame["hex"].as_str().unwrap()).collect();
            assert_eq!(got, expected, "{name}");
            shown += 1;
        }
    }
    assert_eq!(shown, 4, "a handshake, a request, a stream, an error");
}

/// The other implementation, written from the document alone.
#[test]
fn a_peer_written_from_the_document_alone_agrees() {
    let script = docs().join("vectors/check.py");
    match Command::new("python3").arg(&script).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        }
        Err(error) => eprintln!("python3 cannot be run ({error}): {} was not checked", script.display()),
    }
}
