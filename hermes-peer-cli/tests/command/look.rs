//! `peers`, `caps`, `journal`, `pub` and `sub`.

use std::io::BufRead;
use std::io::BufReader;
use std::process::Stdio;

use serde_json::Value;
use serde_json::json;

use crate::support::Ended;
use crate::support::Folder;
use crate::support::signal;

#[test]
fn peers_are_listed_with_how_things_stand() {
    let folder = Folder::new();
    assert_eq!(folder.json(&["peers", "--json"]), json!([]));
    let echo = folder.host(&["serve", "--capability", "demo.echo", "--", "cat"]);
    let peers = folder.json(&["peers", "--json"]);
    assert_eq!(peers[0]["node_id"], echo.node());
    assert_eq!((&peers[0]["state"], &peers[0]["capabilities"]), (&json!("linked"), &json!(["demo.echo"])));
    let table = folder.good(&["peers"]);
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("NODE "), "{table}");
    let line = lines.next().unwrap();
    assert!(
        line.starts_with(echo.node()) && line.contains(" linked ") && line.contains(" local "),
        "{table}"
    );
}

#[test]
fn a_peer_that_cannot_be_reached_stays_with_why() {
    let folder = Folder::new();
    folder.write("peers.yaml", "peers: [{ node_id: gone-01, endpoint: \"127.0.0.1:1\" }]\n");
    let peers = folder.json(&["peers", "--json"]);
    assert_eq!((&peers[0]["node_id"], &peers[0]["state"]), (&json!("gone-01"), &json!("unreachable")));
    let table = folder.good(&["peers"]);
    assert!(table.contains("gone-01") && table.contains("refused"), "{table}");
}

#[test]
fn a_capability_is_shown_with_its_schemas() {
    let folder = Folder::new();
    folder.write(
        "schema.json",
        r#"{"description":"Counts words.","input":{"type":"object","properties":{"text":{"type":"string"}}},"output":{"type":"integer"}}"#,
    );
    let words = folder.serve("text.words", &["--schema", "schema.json"], "wc -w");
    let table = folder.good(&["caps"]);
    assert!(table.contains("text.words") && table.contains("Counts words."), "{table}");
    let shown = folder.good(&["caps", "text.words"]);
    for expected in
        ["Counts words.", words.node(), "agent://default/local/text-words", "\"integer\"", "access: public"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let caps = folder.json(&["caps", "text.words", "--json"]);
    assert_eq!(caps[0]["input"]["properties"]["text"]["type"], "string");
    let ended = folder.run(&["caps", "text.wrods"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""));
    assert!(ended.err.contains("did you mean `text.words`"), "{}", ended.err);
}

#[test]
fn a_change_is_told_while_it_is_watched() {
    let folder = Folder::new();
    let first = folder.host(&["serve", "--capability", "demo.one", "--", "cat"]);
    let mut watching = folder.command(&["caps", "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("+ demo.one "));
    let _second = folder.host(&["serve", "--capability", "demo.two", "--", "cat"]);
    assert!(lines.next().unwrap().unwrap().starts_with("+ demo.two "));
    first.signal("TERM");
    assert!(lines.next().unwrap().unwrap().starts_with("- demo.one "));
    signal(watching.id(), "INT");
    assert_eq!(watching.wait().unwrap().code(), Some(130));
}

#[test]
fn an_event_reaches_whoever_subscribed() {
    let folder = Folder::new();
    let ended = folder.run(&["pub", "ticket.opened", "1"]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    let mut command = folder.command(&["sub", "ticket.*", "--count", "2"]);
    let mut sub = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(sub.stderr.as_mut().unwrap()).read_line(&mut told).unwrap();
    assert!(told.starts_with("subscribed to ticket.*"), "{told}");
    assert_eq!(folder.json(&["pub", "ticket.opened", r#"{"n":12345678901234567890}"#, "--json"])["nodes"], 1);
    let other = folder.run(&["pub", "other.topic", "1"]);
    assert!(other.code == Some(0) && other.err.contains("none of 1 nodes subscribes"), "{}", other.err);
    assert_eq!(folder.run(&["pub", "ticket.closed"]).code, Some(0));
    let ended = Ended::of(sub.wait_with_output().unwrap());
    let events: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ended.code, Some(0));
    assert!(ended.out.contains("12345678901234567890"), "{}", ended.out);
    assert_eq!(
        (events.len(), &events[0]["topic"], &events[1]["topic"]),
        (2, &json!("ticket.opened"), &json!("ticket.closed"))
    );
}

#[test]
fn a_journal_shows_the_messages_of_a_session() {
    let folder = Folder::new();
    let echo = folder.host(&["serve", "--capability", "demo.echo", "--", "cat"]);
    let session = "0123456789abcdef0123456789abcdef";
    folder.good(&["call", "demo.echo", "--session", session]);
    folder.good(&["call", "demo.echo"]);
    let records = folder.json(&["journal", "--session", session, "--json"]);
    let kinds: Vec<&Value> = records.as_array().unwrap().iter().map(|record| &record["message"]).collect();
    assert_eq!(kinds, ["request", "response"]);
    let table = folder.good(&["journal", "--session", session, "--to", echo.node()]);
    assert!(
        table.lines().count() == 2 && table.contains("demo.echo") && table.contains(echo.node()),
        "{table}"
    );
}

#[test]
fn a_journal_that_policy_keeps_back_is_explained() {
    let folder = Folder::new();
    folder.good(&["init"]);
    let _up = folder.host(&["up"]);
    let ended = folder.run(&["journal"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""), "{}", ended.err);
    assert!(ended.err.contains("PERMISSION_DENIED") && ended.err.contains("allow: call"), "{}", ended.err);
}
