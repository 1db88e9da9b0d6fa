//! `hermes-peer serve` and `hermes-peer up`.

use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use crate::support::Folder;

#[test]
fn a_program_is_killed_at_its_deadline() {
    let folder = Folder::new();
    let _slow = folder.serve("demo.slow", &["--timeout", "300ms"], "echo $$ > pid; exec sleep 60");
    let began = Instant::now();
    let ended = folder.run(&["call", "demo.slow"]);
    assert!(ended.code == Some(4) || ended.code == Some(5), "{:?}: {}", ended.code, ended.err);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let pid = folder.read("pid").trim().to_owned();
    folder.until("the program is killed", || !std::path::Path::new("/proc").join(&pid).exists());
}

#[test]
fn a_program_that_takes_too_much_memory_ends_alone() {
    let folder = Folder::new();
    let script = "if grep -q more; then head -c 200000000 /dev/zero | tail -c 190000000 > rest && echo 2; else echo 1; fi";
    let _greedy = folder.serve("demo.greedy", &["--memory", "64MiB"], script);
    let ended = folder.run(&["call", "demo.greedy", r#""more""#]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""), "{}", ended.err);
    assert_eq!(folder.good(&["call", "demo.greedy", r#""less""#]), "1\n");
}

#[test]
fn what_a_start_would_trip_over_is_refused_with_2() {
    let folder = Folder::new();
    let first = folder.serve("demo.echo", &["--node", "echo-07"], "cat");
    let address = first.told["address"].as_str().unwrap();
    folder.write("schema.json", r#"{"input":{"type":"nonsense"}}"#);
    for (args, expected) in [
        (&["serve", "--capability", "demo.echo", "--node", "echo-07", "--", "cat"][..], "echo-07"),
        (&["serve", "--capability", "demo.echo", "--listen", address, "--", "cat"], "is taken"),
        (&["serve", "--capability", "demo.echo", "--listen", "0.0.0.0:0", "--", "cat"], "auth"),
        (&["serve", "--capability", "demo.echo", "--", "./nothing-here"], "nothing-here"),
        (&["serve", "--capability", "demo.echo", "--schema", "schema.json", "--", "cat"], "nonsense"),
        (&["serve", "--capability", "demo.echo", "--schema", "missing.json", "--", "cat"], "missing.json"),
        (&["serve", "--capability", "hermes.echo", "--", "cat"], "hermes."),
        (&["up"], "hermes-peer init"),
        (&["up", "-c", "missing.yaml"], "missing.yaml"),
    ] {
        let told = folder.refused(args);
        assert!(told.contains(expected), "{args:?}: {told}");
    }
    assert_eq!(folder.good(&["call", "demo.echo", "1"]), "1\n", "the first one serves on");
}

#[test]
fn a_stop_lets_running_calls_end() {
    // FC-072
    let folder = Folder::new();
    let mut slow =
        folder.serve("demo.slow", &[], "echo > begun; while [ ! -e go ]; do sleep 0.02; done; echo 1");
    let call = folder.command(&["call", "demo.slow"]).stdout(Stdio::piped()).spawn().unwrap();
    folder.until("the program runs", || folder.path("begun").exists());
    slow.signal("TERM");
    folder.until("it says that it waits", || folder.logs().contains("once more stops at once"));
    folder.write("go", "");
    let output = call.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"1\n"[..]));
    assert_eq!(slow.code(), Some(0));
}

#[test]
fn a_second_stop_does_not_wait_and_leaves_no_program_behind() {
    // FC-072
    let folder = Folder::new();
    let mut slow = folder.serve("demo.slow", &[], "echo $$ > pid; exec sleep 60");
    let mut call = folder.command(&["call", "demo.slow"]).stderr(Stdio::null()).spawn().unwrap();
    folder.until("the program runs", || folder.path("pid").exists() && !folder.read("pid").is_empty());
    slow.signal("INT");
    folder.until("it says that it waits", || folder.logs().contains("once more stops at once"));
    let began = Instant::now();
    slow.signal("INT");
    assert_eq!(slow.code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let pid = folder.read("pid").trim().to_owned();
    folder.until("the program is killed", || !std::path::Path::new("/proc").join(&pid).exists());
    assert_eq!(call.wait().unwrap().code(), Some(3));
}

#[test]
fn an_idle_node_stops_at_once_with_0() {
    // FC-072
    let folder = Folder::new();
    folder.good(&["init"]);
    let mut up = folder.host(&["up"]);
    let began = Instant::now();
    up.signal("INT");
    assert_eq!(up.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn a_reload_takes_the_good_file_whole_and_the_wrong_one_not_at_all() {
    // FC-005
    let folder = Folder::new();
    folder.good(&["init"]);
    let file = folder.read("peers.yaml");
    let up = folder.host(&["up"]);
    let reloads = |text: Option<&str>, expected: &str| {
        match text {
            Some(text) => folder.write("peers.yaml", text),
            None => std::fs::remove_file(folder.path("peers.yaml")).unwrap(),
        }
        let before = folder.logs().matches(expected).count();
        up.signal("HUP");
        folder.until(expected, || folder.logs().matches(expected).count() > before);
    };
    let refused = "the last good one stays in force";
    reloads(Some(""), refused);
    reloads(Some(&file.replace("listen:", "lisen:")), refused);
    reloads(None, refused);
    let added = format!("{file}peers:\n  - {{ node_id: other-01, endpoint: \"127.0.0.1:1\" }}\n");
    reloads(Some(&added.replace("node_id: echo-01", "node_id: echo-02")), "only after a restart: node_id");
    reloads(Some(&added), "configuration read again");
    let peers = folder.json(&["peers", "--to", "echo-01", "--json"]);
    assert!(peers.as_array().unwrap().iter().any(|peer| peer["node_id"] == "other-01"), "{peers}");
    reloads(Some(&file), "peers_removed=1");
    assert_eq!(folder.good(&["call", "demo.echo", "1"]), "1\n");
    reloads(Some(&format!("{file}policy: []\n")), "policy_changed=true");
    let ended = folder.run(&["call", "demo.echo", "1"]);
    assert_eq!(ended.code, Some(4), "nobody may do anything any more: {}", ended.err);
}
