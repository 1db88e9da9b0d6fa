//! The example `ticket-triage` as its users run it.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod support;

use std::io::BufRead;
use std::io::BufReader;
use std::process::Stdio;

use serde_json::Value;

use crate::support::Model;
use crate::support::Server;
use crate::support::objects;
use crate::support::run;

const STOLEN: &str = "My card was stolen yesterday, please block it.";

fn texts<'a>(list: &'a Value, member: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[member].as_str().unwrap()).collect()
}

#[test]
fn json_mode_prints_one_whole_object_for_each_ticket_and_nothing_else() {
    let output = run(&["--json", "--tickets", "2"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let reports = objects(&output);
    assert_eq!(reports.len(), 2);
    for report in &reports {
        let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
        let expected =
            ["ticket", "session", "intent", "entities", "passages", "suggestion", "tokens", "timeline"];
        assert_eq!(keys, expected);
        let suggestion = report["suggestion"].as_str().unwrap();
        assert!(suggestion.contains("[1]") && suggestion.contains("Sources"), "{suggestion}");
        assert!(report["tokens"].as_u64().unwrap() > 10);
    }
    assert_ne!(reports[0]["session"], reports[1]["session"]);
    assert_eq!(reports[0]["intent"], "card_not_arrived");
    assert_eq!(reports[0]["passages"][0]["id"], "cards-01");
    let passages = reports[0]["passages"].as_array().unwrap();
    assert!(passages.is_sorted_by_key(|passage| passage["at_ms"].as_f64()));
    assert!(passages.is_sorted_by(|one, next| one["score"].as_f64() >= next["score"].as_f64()));
}

#[test]
fn the_timeline_has_every_message_of_the_session_both_ways_with_its_slots() {
    let output = run(&["--json", "--tickets", "1"]);
    let report = objects(&output).remove(0);
    let timeline = report["timeline"].as_array().unwrap();
    let found = |kind: &str, capability: &str| -> Vec<&Value> {
        let is_it = |entry: &&Value| entry["type"] == kind && entry["capability"] == capability;
        timeline.iter().filter(is_it).collect()
    };
    for (capability, agent, items, reads, writes) in [
        ("intent.detect", "nlu-agent-01", 0, vec![], vec!["intent", "entities"]),
        (
            "knowledge.retrieve",
            "retrieval-agent-01",
            report["passages"].as_array().unwrap().len(),
            vec!["intent", "entities"],
            vec![],
        ),
        (
            "content.generate",
            "generator-agent-01",
            report["tokens"].as_u64().unwrap() as usize,
            vec!["intent", "entities"],
            vec![],
        ),
    ] {
        let [request] = found("request", capability)[..] else { panic!("one request: {timeline:?}") };
        let [response] = found("response", capability)[..] else { panic!("one response: {timeline:?}") };
        assert_eq!((&request["from"], &request["to"]), (&"coordinator-agent-01".into(), &agent.into()));
        assert_eq!((&response["from"], &response["to"]), (&agent.into(), &"coordinator-agent-01".into()));
        assert_eq!(request["slots_read"], Value::from(reads));
        assert_eq!(response["slots_written"], Value::from(writes));
        assert!(response["took_ms"].as_f64().unwrap() > 0.0 && request["took_ms"].is_null());
        assert_eq!(found("item", capability).len(), items);
    }
    assert!(timeline.is_sorted_by_key(|entry| entry["at_ms"].as_f64()));
}

#[test]
fn people_see_all_of_a_ticket_and_a_file_sees_no_colours() {
    let output = run(&["--tickets", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "ticket-01",
        "intent",
        "entities",
        "passages",
        "suggestion",
        "Sources",
        "timeline",
        "writes intent, entities",
    ] {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_reader_that_has_had_enough_ends_the_run_quietly() {
    let mut child =
        support::triage(&["--tickets", "9"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("error") && !said.contains("panicked"), "{said}");
}

#[test]
fn the_score_says_how_it_was_got() {
    let output = run(&["--score", "--json"]);
    let score = objects(&output).remove(0);
    for figure in ["intent_accuracy", "recall_at_5"] {
        assert!(score[figure]["value"].as_f64().unwrap() >= 0.8, "{score}");
        assert!(score[figure]["how"].as_str().unwrap().len() > 40, "{score}");
    }
}

#[test]
fn wrong_tickets_are_refused_before_anything_is_started() {
    let output = run(&["--tickets", "no-such-file.txt"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no-such-file.txt") && !said.contains("started"), "{said}");
}

#[test]
fn a_ticket_over_http_is_answered_whole_or_as_it_happens() {
    let server = Server::start(&[]);
    let (status, report) =
        server.post("Content-Type: application/json\r\n", &format!("{{\"text\":\"{STOLEN}\"}}"));
    assert_eq!((status, &report["intent"]), (200, &"card_lost_or_stolen".into()), "{report}");
    let (status, plain) = server.post("", STOLEN);
    assert_eq!((status, &plain["suggestion"]), (200, &report["suggestion"]));

    let (mut events, mut kinds, mut said) = (server.events(STOLEN), Vec::new(), String::new());
    while let Some((kind, data)) = events.next() {
        said += data["text"].as_str().filter(|_| kind == "token").unwrap_or_default();
        if kind == "result" {
            assert_eq!(data["suggestion"], said.as_str());
            assert_eq!(said, plain["suggestion"].as_str().unwrap());
        }
        kinds.push(kind);
    }
    kinds.dedup();
    assert_eq!(kinds, ["intent", "passage", "token", "result"]);
}

#[test]
fn bad_requests_get_a_status_and_a_reason() {
    let server = Server::start(&[]);
    let large = "x".repeat(100_000);
    for (what, body, expected, reason) in [
        ("POST /tickets", " ", 400, "empty"),
        ("POST /tickets", "{\"txt\":\"lost card\"}", 400, "txt"),
        ("POST /tickets", "{\"text\":", 400, "EOF"),
        ("POST /tickets", large.as_str(), 413, "bytes"),
        ("GET /tickets", "", 405, "POST"),
        ("GET /", "", 404, "/tickets"),
    ] {
        let (status, answer) = server.ask(what, "", body);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(status == expected && message.contains(reason), "{what}: {status} {answer}");
    }
}

#[cfg(unix)]
#[test]
fn a_ticket_whose_agent_is_killed_fails_and_the_next_one_is_answered() {
    let mut server = Server::start(&[]);
    let retrieval = server.process("retrieval-agent-01");
    // It takes the call and says nothing: now it dies in the middle of a ticket, whoever is faster.
    support::signal(retrieval, "-STOP");
    let mut events = server.events(STOLEN);
    assert_eq!(events.next().unwrap().0, "intent");
    support::signal(retrieval, "-KILL");
    let (kind, problem) = events.next().unwrap();
    assert_eq!(kind, "error");
    let message = problem["message"].as_str().unwrap();
    assert!(message.contains("knowledge.retrieve") && message.contains("retrieval-agent-01"), "{message}");
    assert!(events.next().is_none(), "an error is the end");

    server.wait_for_line("started again");
    assert_ne!(server.process("retrieval-agent-01"), retrieval);
    let (status, report) = server.post("", STOLEN);
    assert_eq!((status, texts(&report["passages"], "id")[0]), (200, "cards-02"), "{report}");
}

#[cfg(unix)]
#[test]
fn all_processes_end_with_the_one_that_started_them() {
    for how in ["-KILL", "-TERM", "-INT"] {
        let server = Server::start(&[]);
        let processes = server.processes();
        assert_eq!(processes.len(), 4);
        support::signal(server.id(), how);
        processes.into_iter().for_each(support::wait_until_gone);
    }
}

fn chunk(text: &str) -> String {
    format!("data: {}\n\n", serde_json::json!({ "choices": [{ "delta": { "content": text } }] }))
}

#[test]
fn a_model_writes_the_suggestion_and_what_it_cites_is_named() {
    let answer = [&chunk("Block the card"), &chunk(" at once [1]."), "data: [DONE]\n\n"].concat();
    let model = Model::answering("200 OK", answer, false);
    let mut command =
        support::triage(&["--json", "--tickets", "1", "--model", &model.url, "--model-name", "tiny"]);
    let output = command.env("OPENAI_API_KEY", "key-of-the-test").output().unwrap();
    let report = objects(&output).remove(0);
    let suggestion = report["suggestion"].as_str().unwrap();
    let first = &report["passages"][0];
    let source = format!("[1] {} ({})", first["title"].as_str().unwrap(), first["id"].as_str().unwrap());
    assert_eq!(suggestion, format!("Block the card at once [1].\n\nSources\n{source}"));

    let request = model.request();
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1"), "{request}");
    for part in ["Bearer key-of-the-test", "\"stream\":true", "\"model\":\"tiny\"", "Passage [1]"] {
        assert!(request.contains(part), "`{part}` is missing: {request}");
    }
}

#[test]
fn a_model_that_refuses_or_breaks_off_fails_the_ticket_and_says_why() {
    let refusal = "{\"error\":{\"message\":\"no such model\"}}".to_owned();
    for (status, body, reason) in
        [("404 Not Found", refusal, "no such model"), ("200 OK", chunk("Block"), "cut off")]
    {
        let model = Model::answering(status, body, false);
        let output = run(&["--json", "--tickets", "1", "--model", &model.url]);
        assert_eq!(output.status.code(), Some(1));
        let report = objects(&output).remove(0);
        let message = report["error"]["message"].as_str().unwrap();
        assert!(message.contains(reason) && message.contains("content.generate"), "{message}");
        assert_eq!(report["passages"][0]["id"], "cards-01", "what was found before is not lost");
    }
}

#[test]
fn a_client_that_hangs_up_ends_the_work_at_the_last_agent() {
    let model = Model::answering("200 OK", chunk("Block"), true);
    let server = Server::start(&["--model", &model.url]);
    let mut events = server.events(STOLEN);
    while events.next().unwrap().0 != "token" {}
    drop(events);
    // The model sees the connection closed, though it has not said that it is done.
    model.request();
}
