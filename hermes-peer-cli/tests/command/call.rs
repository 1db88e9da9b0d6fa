//! `hermes-peer call`, over real TLS between real processes.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;

use crate::support::Ended;
use crate::support::Folder;
use crate::support::signal;

#[test]
fn the_first_example_answers_in_well_under_a_second() {
    let folder = Folder::new();
    let _echo = folder.host(&["serve", "--capability", "demo.echo", "--", "cat"]);
    let began = Instant::now();
    assert_eq!(folder.good(&["call", "demo.echo", r#"{"hello":"mesh"}"#]), "{\"hello\":\"mesh\"}\n");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn a_folder_made_by_init_works_as_it_says() {
    let folder = Folder::new();
    folder.good(&["init"]);
    let up = folder.host(&["up"]);
    assert_eq!((up.node(), &up.told["capabilities"]), ("echo-01", &json!(["demo.echo"])));
    assert_eq!(folder.good(&["call", "demo.echo", r#"{"hello":"mesh"}"#]), "{\"hello\":\"mesh\"}\n");
    assert_eq!(folder.json(&["call", "demo.echo", "--json"])["node"], "echo-01");
}

#[test]
fn a_value_comes_back_to_the_letter() {
    // FC-062, FC-080, FC-081
    let folder = Folder::new();
    let _echo = folder.host(&["serve", "--capability", "demo.echo", "--", "cat"]);
    for value in [
        r#"{"id":18446744073709551615,"big":123456789012345678901234567890,"f":1.0,"e":1e2,"z":-0}"#,
        r#""x""#,
        "1",
        "-1",
        "null",
        r#"{"q":"-x"}"#,
        r#"[ 1,  2 ]"#,
    ] {
        assert_eq!(folder.good(&["call", "demo.echo", value]), format!("{value}\n"));
        let whole = folder.good(&["call", "demo.echo", value, "--json"]);
        assert!(whole.starts_with(&format!("{{\"result\":{value},\"node\":\"demo-echo-")), "{whole}");
    }
    assert_eq!(folder.good(&["call", "demo.echo"]), "{}\n");
    folder.write("q.json", "{\"a\":1}");
    assert_eq!(folder.good(&["call", "demo.echo", "@q.json"]), "{\"a\":1}\n");
    assert!(folder.refused(&["call", "demo.echo", "{a:1}"]).contains("single quotes"));
    assert!(folder.refused(&["call", "demo.echo", "@missing"]).contains("missing"));
}

#[test]
fn five_mebibytes_go_through_stdin_and_come_back() {
    // FC-081
    let folder = Folder::new();
    let _echo = folder.host(&["serve", "--capability", "demo.echo", "--", "cat"]);
    let body = format!("{{\"text\":\"{}\"}}", "ä".repeat(5 << 19));
    folder.write("large.json", &body);
    let stdin = File::open(folder.path("large.json")).unwrap();
    let ended = Ended::of(folder.command(&["call", "demo.echo", "-"]).stdin(stdin).output().unwrap());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out == format!("{body}\n"), "{} bytes came back", ended.out.len());
}

#[test]
fn exit_codes_say_what_happened_and_stdout_stays_empty() {
    // FC-080
    let folder = Folder::new();
    let ended = folder.run(&["call", "demo.echo"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{}", ended.err);
    assert!(ended.err.contains("serve --capability demo.echo"), "{}", ended.err);

    let _fails = folder.serve("demo.fails", &[], "echo 'no luck' >&2; exit 7");
    let _sleeps = folder.serve("demo.sleeps", &[], "sleep 60");
    for (args, code, expected) in [
        (&["call", "demo.fials"][..], 4, "demo.fails"),
        (&["call", "demo.fails", "--to", "nobody-01"], 4, "nobody-01"),
        (&["call", "demo.fails"], 4, "HANDLER_FAILED"),
        (&["call", "demo.sleeps", "--timeout", "300ms"], 5, "DEADLINE_EXCEEDED"),
        (&["call", "demo.fails", "--session", "nonsense"], 2, "nonsense"),
        (&["call", "demo.fails", "-c", "nowhere.yaml"], 2, "nowhere.yaml"),
    ] {
        let ended = folder.run(args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(expected), "{args:?}: {}", ended.err);
    }
    folder.write("peers.yaml", "lisen: 127.0.0.1:0\n");
    assert!(folder.refused(&["call", "demo.fails"]).contains("peers.yaml:1:1"));
}

#[test]
fn for_programs_an_error_is_an_object_on_stdout() {
    // FC-080
    let folder = Folder::new();
    folder.write(
        "schema.json",
        r#"{"input":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}"#,
    );
    let served = folder.serve("demo.count", &["--schema", "schema.json"], "cat");
    let ended = folder.run(&["call", "demo.count", r#"{"n":"x"}"#, "--json"]);
    let error: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(ended.code, Some(4));
    assert_eq!(error["error"]["code"], "INVALID_INPUT");
    assert_eq!(error["error"]["node"], served.node());
    assert_eq!(error["error"]["details"][0]["pointer"], "/n");
    let ended = folder.run(&["call", "demo.count", r#"{"n":"x"}"#]);
    assert!(ended.err.contains("\n  /n: must be integer"), "{}", ended.err);
    assert!(ended.err.contains("hermes-peer caps demo.count"), "{}", ended.err);
}

const COUNTS: &str =
    "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); while [ ! -e go-$i ]; do sleep 0.02; done; done";

#[test]
fn an_item_is_printed_when_it_is_there() {
    let folder = Folder::new();
    let _counts = folder.serve("demo.counts", &["--stream"], COUNTS);
    for (round, flag) in
        [&["call", "demo.counts"][..], &["call", "demo.counts", "--stream"]].iter().enumerate()
    {
        let mut child = folder.command(flag).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for number in 0..3 {
            // The program waits until this line was seen.
            assert_eq!(lines.next().unwrap().unwrap(), number.to_string());
            folder.write(&format!("go-{}", number + 1), "");
        }
        assert!(lines.next().is_none(), "{round}");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        (1..=3).for_each(|number| std::fs::remove_file(folder.path(&format!("go-{number}"))).unwrap());
    }
    (1..=3).for_each(|number| folder.write(&format!("go-{number}"), ""));
    assert_eq!(folder.json(&["call", "demo.counts", "--json"])["items"], json!([0, 1, 2]));
    let lines = folder.good(&["call", "demo.counts", "--json", "--stream"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["item"], &lines[3]["end"]), (4, &json!(0), &json!(3)));
}

#[test]
fn a_reader_who_leaves_ends_the_stream_quietly() {
    // FC-040, FC-080
    let folder = Folder::new();
    let _counts = folder.serve(
        "demo.endless",
        &["--stream"],
        "trap 'echo x > over' EXIT; while true; do echo 1 || exit; done",
    );
    let mut command = folder.command(&["call", "demo.endless"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.err.as_str(), line.as_str()), (Some(0), "", "1\n"));
}

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    // FC-080
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    let folder = Folder::new();
    let _echo = folder.host(&["serve", "--capability", "demo.echo", "--", "cat"]);
    let output = folder.command(&["call", "demo.echo"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// Writes its pid, and then works for a minute.
const WORKS: &str = "echo $$ > pid; exec sleep 60";

#[test]
fn an_interrupt_reaches_the_providers_program_within_a_second() {
    // FC-040
    let folder = Folder::new();
    let _works = folder.serve("demo.works", &[], WORKS);
    for name in ["INT", "TERM"] {
        let mut child = folder.command(&["call", "demo.works"]).stdout(Stdio::piped()).spawn().unwrap();
        folder.until("the program runs", || folder.path("pid").exists() && !folder.read("pid").is_empty());
        let pid = folder.read("pid").trim().to_owned();
        let began = Instant::now();
        signal(child.id(), name);
        folder.until("the program is killed", || !std::path::Path::new("/proc").join(&pid).exists());
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        std::fs::remove_file(folder.path("pid")).unwrap();
    }
}

#[test]
fn an_interrupt_also_ends_a_stream_whose_reader_sleeps() {
    // FC-040
    let folder = Folder::new();
    let _endless = folder.serve("demo.endless", &["--stream"], "echo $$ > pid; exec yes 1");
    let mut child = folder.command(&["call", "demo.endless"]).stdout(Stdio::piped()).spawn().unwrap();
    folder.until("the program runs", || folder.path("pid").exists() && !folder.read("pid").is_empty());
    // As much as the pipe holds: the command waits within a write.
    let written = || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
        let count = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse::<u64>();
        count.unwrap()
    };
    folder.until("the pipe is full", || written() >= 1 << 16);
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let pid = folder.read("pid").trim().to_owned();
    folder.until("the program is killed", || !std::path::Path::new("/proc").join(&pid).exists());
}

#[test]
fn a_provider_that_is_killed_ends_the_call_as_lost() {
    let folder = Folder::new();
    let works = folder.serve("demo.works", &[], WORKS);
    // Its node is on this machine, where it is seen that its process has ended.
    let child = folder
        .command(&["call", "demo.works"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    folder.until("the program runs", || folder.path("pid").exists() && !folder.read("pid").is_empty());
    let began = Instant::now();
    works.signal("KILL");
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{}", ended.err);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    signal(folder.read("pid").trim().parse().unwrap(), "KILL");
}

#[test]
fn a_key_runs_a_call_once() {
    let folder = Folder::new();
    let _counts = folder.serve("demo.once", &[], "echo x >> runs; wc -l < runs");
    let first = folder.good(&["call", "demo.once", "--key", "k"]);
    assert_eq!(folder.good(&["call", "demo.once", "--key", "k"]), first);
    assert_ne!(folder.good(&["call", "demo.once", "--key", "other"]), first);
}

#[test]
fn the_log_of_a_call_goes_to_stderr() {
    // FC-080
    let folder = Folder::new();
    let _echo = folder.host(&["serve", "--capability", "demo.echo", "--", "cat"]);
    let mut child = folder
        .command(&["call", "demo.echo", "-", "-vvv", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{\"a\":1}").unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(serde_json::from_str::<Value>(&ended.out).unwrap()["result"], json!({"a": 1}));
    assert!(ended.err.contains("DEBUG"), "{}", ended.err);
    assert!(!format!("{}{}", ended.out, ended.err).contains('\u{1b}'));
}
