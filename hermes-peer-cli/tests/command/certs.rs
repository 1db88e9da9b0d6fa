//! `hermes-peer certs`, from making an authority to revoking what it issued.

use std::process::Command;

use crate::support::Folder;
use crate::support::mode;

const ISSUE: [&str; 6] = ["certs", "issue", "--agent", "agent://default/support/nlu", "--node", "nlu-01"];

fn issued() -> Folder {
    let folder = Folder::new();
    folder.good(&["certs", "init"]);
    folder.good(&ISSUE);
    folder
}

#[test]
fn an_authority_and_what_it_issues_are_files_for_this_user_alone() {
    let folder = issued();
    for name in ["ca.pem", "ca.key", "ca.crl.pem", "nlu-01.pem", "nlu-01.key"] {
        assert_eq!(mode(&folder.path("certs").join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&folder.path("certs")), 0o700);
}

#[test]
fn what_was_written_is_told_and_no_key_is_printed() {
    // FC-079
    let folder = Folder::new();
    let made = folder.good(&["certs", "init", "ca"]);
    assert!(made.contains("ca/ca.key") && made.contains("certs issue --ca ca --agent"), "{made}");
    let told = folder.good(&[&ISSUE[..], &["--ca", "ca"]].concat());
    assert!(
        told.contains("ca/nlu-01.pem") && told.contains("cert: ca/nlu-01.pem, key: ca/nlu-01.key"),
        "{told}"
    );
    assert!(!format!("{made}{told}").contains("BEGIN"), "{made}{told}");
    let renewed = folder.json(&["certs", "renew", "ca/nlu-01.pem", "--ca", "ca", "--json"]);
    assert_eq!(renewed["files"][1]["path"], "ca/nlu-01.key");
}

#[test]
fn nothing_that_is_there_is_overwritten() {
    let folder = issued();
    let before = (folder.read("certs/ca.key"), folder.read("certs/nlu-01.key"));
    assert!(folder.refused(&["certs", "init"]).contains("is there already"));
    let told = folder.refused(&ISSUE);
    assert!(told.contains("certs/nlu-01.pem is there already") && told.contains("certs renew"), "{told}");
    std::fs::remove_file(folder.path("certs/nlu-01.pem")).unwrap();
    assert!(folder.refused(&ISSUE).contains("certs/nlu-01.key is there already"));
    assert_eq!((folder.read("certs/ca.key"), folder.read("certs/nlu-01.key")), before);
}

#[test]
fn show_tells_whose_a_certificate_is_how_long_and_whether_it_is_revoked() {
    let folder = issued();
    let table = folder.good(&["certs", "show"]);
    let line = table.lines().find(|line| line.contains("nlu-01")).unwrap();
    assert!(line.starts_with("agent://default/support/nlu  nlu-01  "), "{table}");
    assert!(line.contains("(in 89 days)") && line.contains("  no       certs/nlu-01.pem"), "{table}");
    assert!(table.contains("\nauthority "), "{table}");

    let file = "certs/nlu-01.pem";
    let before = folder.json(&["certs", "show", file, "--json"]);
    assert_eq!((&before[0]["state"], &before[0]["revoked"]), (&"valid".into(), &false.into()));
    assert!(folder.good(&["certs", "revoke", file]).starts_with("revoked certs/nlu-01.pem (serial "));
    let after = folder.json(&["--json", "certs", "show", file]);
    assert_eq!((&after[0]["state"], &after[0]["revoked"]), (&"revoked".into(), &true.into()));
    assert!(folder.good(&["certs", "revoke", file]).contains("nothing was changed"));
    // Without the authority nobody knows.
    let alone = folder.json(&["certs", "show", file, "--ca", "elsewhere", "--json"]);
    assert_eq!((&alone[0]["state"], &alone[0]["revoked"]), (&"valid".into(), &serde_json::Value::Null));
}

#[test]
fn a_renewed_certificate_is_a_new_one_for_the_same_node_and_the_old_one_can_be_revoked() {
    let folder = issued();
    let show = || folder.json(&["certs", "show", "certs/nlu-01.pem", "--json"])[0].clone();
    let (old, old_key) = (show(), folder.read("certs/nlu-01.key"));
    let told = folder.good(&["certs", "renew", "certs/nlu-01.pem", "--valid", "2d"]);
    let new = show();
    assert_eq!((&old["agent"], &old["node"]), (&new["agent"], &new["node"]));
    assert_ne!(old["serial"], new["serial"]);
    assert_ne!(old_key, folder.read("certs/nlu-01.key"));
    assert_eq!(mode(&folder.path("certs/nlu-01.key")), 0o600);
    let serial = old["serial"].as_str().unwrap();
    assert!(told.contains(&format!("certs revoke {serial}")), "{told}");
    folder.good(&["certs", "revoke", serial]);
    assert_eq!(show()["revoked"], false, "the new one is as good as before");
}

#[test]
fn what_cannot_be_done_is_refused_with_what_helps() {
    // FC-020, FC-023
    let folder = issued();
    folder.good(&["certs", "init", "other"]);
    folder.write("empty.pem", "");
    for (args, expected) in [
        (&["certs", "renew", "certs/nlu-01.pem", "--ca", "other"][..], "this authority did not issue it"),
        (&["certs", "revoke", "certs/nlu-01.pem", "--ca", "other"], "name the right one with --ca"),
        (&["certs", "revoke", "certs/ca.pem"], "an authority's own certificate"),
        (&["certs", "revoke", "missing.pem"], "there is no file missing.pem"),
        (&["certs", "revoke", "certs/nlu-01.pem", "--ca", "nowhere"], "certs init nowhere"),
        (&["certs", "renew", "missing.pem"], "missing.pem: No such file"),
        (&["certs", "renew", "certs/nlu-01.pem", "--key", "no.key"], "there is no key no.key"),
        (&["certs", "show", "empty.pem"], "holds nothing"),
        (&["certs", "show", "certs/nlu-01.key"], "holds `PRIVATE KEY`"),
        (&["certs", "show", "--ca", "nowhere"], "nowhere"),
        (&["certs", "issue", "--agent", "agent://x", "--node", "n"], "agent://"),
        (&["certs", "issue", "--agent", "agent://a/b/c", "--node", "n", "--valid", "90"], "has no unit"),
    ] {
        let told = folder.refused(args);
        assert!(told.contains(expected), "{args:?}: {told}");
    }
    assert_eq!(folder.json(&["certs", "show", "certs/nlu-01.pem", "--json"])[0]["revoked"], false);
}

#[test]
fn another_reader_of_certificates_finds_the_agent_and_a_beginning_in_the_past() {
    // FC-020
    let folder = issued();
    let shown = Command::new("openssl")
        .args(["x509", "-noout", "-text", "-in"])
        .arg(folder.path("certs/nlu-01.pem"))
        .output();
    let Ok(shown) = shown else {
        println!("skipped: there is no openssl here");
        return;
    };
    let text = String::from_utf8(shown.stdout).unwrap();
    for expected in ["URI:agent://default/support/nlu", "DNS:nlu-01", "TLS Web Client Authentication"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let verified = Command::new("openssl")
        .args(["verify", "-CAfile"])
        .args([folder.path("certs/ca.pem"), folder.path("certs/nlu-01.pem")])
        .output()
        .unwrap();
    assert!(verified.status.success(), "{verified:?}");
}
