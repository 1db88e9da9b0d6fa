//! `hermes-peer init`: a folder that works, and nothing that was there is lost.

use std::io::Write;
use std::process::Command;
use std::process::Stdio;

use crate::support::Folder;
use crate::support::mode;

#[test]
fn the_folder_is_whole_and_a_start_would_go_ahead_without_a_warning() {
    let folder = Folder::new();
    let told = folder.good(&["init", "demo"]);
    assert!(told.contains("\n  cd demo && hermes-peer up\n"), "{told}");
    assert!(told.contains("\n  cd demo && hermes-peer call demo.echo '{\"hello\":\"mesh\"}'\n"), "{told}");
    let checked = folder.json(&["check", "demo/peers.yaml", "--json"]);
    assert_eq!((&checked["ok"], &checked["findings"]), (&true.into(), &serde_json::json!([])));
    let summary = &checked["summary"];
    assert_eq!(summary["agent"], "agent://default/demo/echo");
    assert_eq!(summary["programs"], serde_json::json!(["demo.echo"]));
    let listen: std::net::SocketAddr = summary["listen"].as_str().unwrap().parse().unwrap();
    assert!(listen.ip().is_loopback() && (7500..=7599).contains(&listen.port()), "{listen}");
}

#[test]
fn the_line_to_take_the_comment_from_is_right_too() {
    let folder = Folder::new();
    folder.good(&["init"]);
    let text = folder.read("peers.yaml");
    folder.write("peers.yaml", &text.replace("#peers:", "peers:").replace("#  - ", "  - "));
    let checked = folder.json(&["check", "--json"]);
    assert_eq!(checked["summary"]["peers"], serde_json::json!(["other-01"]));
}

#[test]
fn keys_are_for_this_user_alone_and_kept_out_of_git() {
    let folder = Folder::new();
    folder.good(&["init", "demo"]);
    for name in ["ca.key", "echo-01.key", "ca.pem", "echo-01.pem"] {
        assert_eq!(mode(&folder.path("demo/certs").join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&folder.path("demo/certs")), 0o700);
    assert_eq!(mode(&folder.path("demo/echo.sh")) & 0o700, 0o700);
    let ignored: Vec<String> = folder.read("demo/certs/.gitignore").lines().map(str::to_owned).collect();
    assert!(ignored.iter().any(|line| line == "*"), "{ignored:?}");
}

#[test]
fn the_first_agent_gives_back_what_it_gets() {
    let folder = Folder::new();
    folder.good(&["init"]);
    let mut child =
        Command::new(folder.path("echo.sh")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"hello\":\"mesh\"}").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"{\"hello\":\"mesh\"}");
}

#[test]
fn what_is_there_is_never_overwritten_and_nothing_is_left_half_made() {
    for there in ["peers.yaml", "echo.sh"] {
        let folder = Folder::new();
        folder.write(there, "mine");
        let told = folder.refused(&["init"]);
        assert!(told.contains(&format!("{there} is there already")), "{told}");
        assert_eq!(folder.read(there), "mine");
        assert!(!folder.path("certs").exists());
    }
    let folder = Folder::new();
    folder.good(&["init"]);
    let key = folder.read("certs/ca.key");
    folder.refused(&["init"]);
    assert_eq!(folder.read("certs/ca.key"), key);
    // Other files are no hindrance.
    let folder = Folder::new();
    folder.write("README.md", "mine");
    folder.good(&["init"]);
}

#[test]
fn two_folders_do_not_trust_each_other() {
    let folder = Folder::new();
    folder.good(&["init", "one"]);
    folder.good(&["init", "two"]);
    let issuer = |file: &str| folder.json(&["certs", "show", file, "--json"])[0]["issuer"].clone();
    assert_ne!(issuer("one/certs/echo-01.pem"), issuer("two/certs/echo-01.pem"));
}
