//! The small examples print what their headers say.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

/// The block of a header that shows the output. `…` stands for what differs from run to run.
fn promised(source: &str) -> Vec<String> {
    let header = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = header.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let block = lines.skip_while(|line| *line != "```text").skip(1).take_while(|line| *line != "```");
    block.map(str::to_owned).collect()
}

fn fits(line: &str, promise: &str) -> bool {
    match promise.split_once('…') {
        Some((begin, end)) => line.starts_with(begin) && line.ends_with(end),
        None => line == promise,
    }
}

#[track_caller]
fn assert_prints_what_it_promises(example: &str, file: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(file);
    let promised = promised(&std::fs::read_to_string(&source).unwrap());
    assert!(!promised.is_empty(), "{file} says what you should see");
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap().join("examples");
    let binary = folder.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        binary.exists(),
        "{} is missing: `cargo test` builds it, `cargo build --examples` does too",
        binary.display()
    );

    // A user of its own, so to speak: nobody else's nodes are seen. A name for a socket is short.
    let home = tempfile::Builder::new().prefix("hp").tempdir().unwrap();
    let mut command = Command::new(binary);
    command
        .env("HERMES_PEER_HOME", home.path().join("home"))
        .env("HERMES_PEER_RUNTIME", home.path().join("run"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), promised.len(), "{text}");
    for (line, promise) in lines.iter().zip(&promised) {
        assert!(fits(line, promise), "promised: {promise}\nprinted:  {line}");
    }
}

#[test]
fn echo_prints_what_it_promises() {
    assert_prints_what_it_promises("echo", "echo.rs");
}

#[test]
fn streaming_prints_what_it_promises() {
    assert_prints_what_it_promises("streaming", "streaming.rs");
}

#[test]
fn session_slots_prints_what_it_promises() {
    assert_prints_what_it_promises("session-slots", "session_slots.rs");
}

#[test]
fn events_prints_what_it_promises() {
    assert_prints_what_it_promises("events", "events.rs");
}

#[test]
fn token_auth_prints_what_it_promises() {
    assert_prints_what_it_promises("token-auth", "token_auth.rs");
}

#[cfg(unix)]
#[test]
fn any_program_prints_what_it_promises() {
    assert_prints_what_it_promises("any-program", "any_program.rs");
}
