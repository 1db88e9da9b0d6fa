//! Results on stdout, all else on stderr, and an end that says how it went.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use crate::support::Ended;
use crate::support::Folder;
use crate::support::mode;

#[test]
fn there_are_no_escape_codes_in_pipes_and_files() {
    // FC-080
    let folder = Folder::new();
    folder.good(&["init"]);
    folder.write("bad.yaml", "lisen: 1\n");
    for args in [
        &["certs", "show"][..],
        &["check"],
        &["check", "bad.yaml"],
        &["check", "-vvv"],
        &["certs", "show", "nowhere.pem"],
        &["--help"],
        &["chek"],
    ] {
        let Ended { out, err, .. } = folder.run(args);
        assert!(!format!("{out}{err}").contains('\u{1b}'), "{args:?}: {out}{err}");
    }
}

#[test]
fn the_log_goes_to_stderr_and_leaves_the_result_alone() {
    // FC-080
    let folder = Folder::new();
    folder.write("peers.yaml", "node_id: here-01\n");
    for (args, variable) in
        [(&["check", "--json", "-vvv"][..], ("RUST_LOG", "")), (&["check", "--json"], ("RUST_LOG", "trace"))]
    {
        let ended = Ended::of(folder.command(args).env(variable.0, variable.1).output().unwrap());
        let result: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!((ended.code, &result["ok"]), (Some(0), &true.into()), "{args:?}");
        assert!(ended.err.contains("DEBUG hermes-peer starts"), "{args:?}: {}", ended.err);
    }
    // A log that cannot be written is no reason to fail.
    if let Ok(full) = File::options().write(true).open("/dev/full") {
        let output = folder.command(&["check", "-vvv"]).stderr(full).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn a_full_disk_is_told_and_no_success() {
    // FC-080
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let folder = Folder::new();
    folder.good(&["init"]);
    for args in [&["certs", "show"][..], &["check"], &["completions", "bash"], &["--help"]] {
        let stdout = File::options().write(true).open(full).unwrap();
        let ended = Ended::of(folder.command(args).stdout(stdout).output().unwrap());
        assert_eq!(ended.code, Some(1), "{args:?}: {}", ended.err);
        assert!(ended.err.contains("cannot write the output"), "{args:?}: {}", ended.err);
    }
}

#[test]
fn a_reader_who_leaves_is_no_panic() {
    // FC-080
    let folder = Folder::new();
    folder.good(&["init"]);
    let mut child = folder
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_would_be_right() {
    // FC-080
    let folder = Folder::new();
    for (args, expected) in [
        (&["chek"][..], "check"),
        (&["check", "--jsn"], "--json"),
        (&[], "Usage:"),
        (&["certs", "issue", "--node", "n-01"], "--agent"),
    ] {
        let told = folder.refused(args);
        assert!(told.contains(expected), "{args:?}: {told}");
    }
    let mut command = folder.command(&["certs", "init"]);
    let ended = Ended::of(command.env("RUST_LOG", "hermes_peer=loud").output().unwrap());
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("RUST_LOG is no filter"), "{}", ended.err);
    assert!(!folder.path("certs").exists(), "nothing is done before that");
}

#[test]
fn help_names_every_exit_code_of_every_verb_that_can_fail() {
    // FC-080
    let folder = Folder::new();
    for args in [&["--help"][..], &["init", "--help"], &["check", "--help"], &["certs", "--help"]] {
        let told = folder.good(args);
        assert!(
            told.contains("  130  interrupted") && told.contains("    3  nobody can be reached"),
            "{told}"
        );
    }
}

#[test]
fn man_pages_and_completions_know_every_verb() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("man")).unwrap();
    folder.good(&["man", "man"]);
    for page in ["hermes-peer.1", "hermes-peer-init.1", "hermes-peer-check.1", "hermes-peer-certs-issue.1"] {
        assert_ne!(mode(&folder.path("man").join(page)), 0, "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.good(&["completions", shell]);
        assert!(script.contains("certs") && script.contains("init"), "{shell}");
    }
}
