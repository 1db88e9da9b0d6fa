//! `hermes-peer check`: what a start would refuse, and where.

use crate::support::Ended;
use crate::support::Folder;
use crate::support::mode;

/// What is said of a file in which there is an error.
fn check(folder: &Folder, text: &str) -> String {
    folder.write("n.yaml", text);
    let ended = folder.run(&["check", "n.yaml"]);
    assert_eq!(ended.code, Some(2), "{}", ended.out);
    assert!(ended.err.ends_with("a start would be refused\n"), "{}", ended.err);
    ended.out
}

#[test]
fn a_misspelt_key_is_shown_in_its_line_with_the_right_one() {
    // FC-001
    let folder = Folder::new();
    let told = check(&folder, "listen: 127.0.0.1:0\nsession: { heartbeat_intervall: 5s }\n");
    let expected = "\
n.yaml:2:12: error: session.heartbeat_intervall: unknown key `heartbeat_intervall`
  2 | session: { heartbeat_intervall: 5s }
    |            ^
  help: did you mean `heartbeat_interval`?
";
    assert_eq!(told, expected);
    for (text, place, right) in [
        ("peers: [ { node_id: b-01, endpont: 127.0.0.1:7502 } ]\n", "n.yaml:1:27: ", "`endpoint`"),
        ("auth: { mode: token, tokn: abcdefgh12345678 }\n", "n.yaml:1:22: ", "`token`"),
        ("lisen: 127.0.0.1:7501\n", "n.yaml:1:1: ", "`listen`"),
        ("auth: { mode: token, ca: x.pem, token: abcdefgh12345678 }\n", "n.yaml:1:", "mtls"),
    ] {
        let told = check(&folder, text);
        assert!(told.contains(place) && told.contains(right), "{text}: {told}");
    }
}

#[test]
fn durations_without_a_meaning_are_refused_and_nothing_panics() {
    // FC-006
    let folder = Folder::new();
    for value in ["20", "0s", "-5s", "5 minutes", "5M", "20S", "99999999999999d", "\"\""] {
        let told = check(&folder, &format!("session: {{ heartbeat_interval: {value} }}\n"));
        assert!(told.starts_with("n.yaml:1:32: error: session.heartbeat_interval: "), "{value}: {told}");
    }
}

#[test]
fn no_piece_of_a_secret_is_shown_wherever_the_mistake_is() {
    // FC-004, FC-026, FC-079
    let folder = Folder::new();
    folder.write("short", "s3c\n");
    for text in [
        "auth: { mode: token, token: s3cr3t }\n",
        "auth: { mode: token, tokn: abc:def=ghi/+jkls3cr3t }\n",
        "auth: { mode: token, token: [s3cr3t-s3cr3t-s3cr3t }\n",
        "auth: { mode: token, token: \"${HERMES_FIELD\" }\n",
        "auth: { mode: token, token_file: short }\n",
        "token: s3cr3t-s3cr3t-s3cr3t\n",
    ] {
        folder.write("n.yaml", text);
        for args in [&["check", "n.yaml"][..], &["check", "n.yaml", "--json", "-vvv"]] {
            let Ended { code, out, err } = folder.run(args);
            assert_eq!(code, Some(2), "{out}");
            assert!(!format!("{out}{err}").contains("s3c"), "{text}: {out}{err}");
        }
    }
    let told =
        check(&folder, "listen: 127.0.0.1:0\nauth: { mode: token, token: \"${HERMES_FIELD_TOKEN}\" }\n");
    assert!(told.contains("n.yaml:2:") && told.contains("HERMES_FIELD_TOKEN"), "{told}");
}

/// A folder with an authority, and a node's certificate and key.
fn with_certificates() -> Folder {
    let folder = Folder::new();
    folder.good(&["certs", "init"]);
    for node in ["a-01", "b-01"] {
        folder.good(&["certs", "issue", "--agent", "agent://default/support/a", "--node", node]);
    }
    folder
}

fn mtls(cert: &str, key: &str) -> String {
    format!(
        "agent: agent://default/support/a\nauth: {{ mode: mtls, ca: certs/ca.pem, crl: certs/ca.crl.pem, cert: {cert}, key: {key} }}\n"
    )
}

#[test]
fn certificates_that_fit_are_good_and_the_summary_says_until_when() {
    let folder = with_certificates();
    folder.write("n.yaml", &mtls("certs/a-01.pem", "certs/a-01.key"));
    let told = folder.good(&["check", "n.yaml"]);
    assert!(
        told.starts_with("ok: n.yaml: a node with a name made up of agent://default/support/a"),
        "{told}"
    );
    assert!(told.contains("(in 89 days)"), "{told}");
    let json = folder.json(&["check", "n.yaml", "--json"]);
    assert_eq!((&json["ok"], &json["summary"]["agent"]), (&true.into(), &"agent://default/support/a".into()));
}

#[test]
fn certificates_that_do_not_fit_are_refused_by_what_is_wrong_with_them() {
    // FC-023
    let folder = with_certificates();
    folder.write("empty.key", "");
    let told = check(&folder, &mtls("certs/a-01.pem", "certs/b-01.key"));
    assert!(told.contains("key are not a pair") && !told.contains("mode: mtls"), "{told}");
    for (cert, key, expected) in [
        ("certs/a-01.pem", "empty.key", "holds nothing"),
        ("certs/a-01.pem", "certs/a-01.pem", "holds `CERTIFICATE`"),
        ("certs/a-01.key", "certs/a-01.key", "holds `PRIVATE KEY`"),
        ("certs/a-01.pem", "missing.key", "n.yaml:2:"),
        ("certs/a-01.pem", "certs", "n.yaml:2:"),
    ] {
        let told = check(&folder, &mtls(cert, key));
        assert!(told.contains(expected), "{cert} {key}: {told}");
        assert!(!told.contains("BEGIN PRIVATE KEY-"), "{told}");
    }
    let other = mtls("certs/a-01.pem", "certs/a-01.key").replace("support/a", "support/b");
    let told = check(&folder, &other);
    assert!(
        told.starts_with("n.yaml:1:8: error: agent: the file's agent is agent://default/support/b"),
        "{told}"
    );
    assert!(told.contains("is for agent://default/support/a"), "{told}");
}

#[test]
fn a_revoked_certificate_and_a_key_that_others_can_read_are_warned_of() {
    // FC-023
    use std::os::unix::fs::PermissionsExt as _;

    let folder = with_certificates();
    folder.good(&["certs", "revoke", "certs/a-01.pem"]);
    let key = folder.path("certs/a-01.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(mode(&key), 0o644);
    folder.write("n.yaml", &mtls("certs/a-01.pem", "certs/a-01.key"));
    let told = folder.good(&["check", "n.yaml"]);
    assert!(told.contains("warning: auth: peers will refuse this node's own certificate"), "{told}");
    assert_eq!(told.matches("0644").count(), 1, "{told}");
    assert!(told.contains("2 warnings"), "{told}");
}

#[test]
fn programs_and_schemas_that_are_not_there_or_cannot_be_used_are_refused() {
    let folder = Folder::new();
    folder.write("plain.sh", "#!/bin/sh\n");
    folder.write("bad.json", "{\"input\": {\"type\": \"objekt\"}}");
    for (program, place, expected) in [
        ("command: [no-such-program-here]", "2:39", "in PATH"),
        ("command: [./plain.sh]", "2:39", "chmod +x"),
        ("command: [./missing.sh]", "2:39", "missing.sh"),
        ("command: [cat], schema: bad.json", "2:54", "`input`"),
        ("command: [cat], schema: missing.json", "2:54", "missing.json"),
    ] {
        let told = check(&folder, &format!("programs:\n  - {{ capability: demo.echo, {program} }}\n"));
        let place = format!("n.yaml:{place}: error: programs[0].");
        assert!(told.contains(expected), "{program}: {told}");
        assert!(told.starts_with(&place), "{program}: {told}");
    }
}

#[test]
fn a_port_that_is_taken_is_a_warning_and_an_address_of_others_an_error() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    folder.write("n.yaml", &format!("listen: {}\n", taken.local_addr().unwrap()));
    let told = folder.good(&["check", "n.yaml"]);
    assert!(told.contains("n.yaml:1:9: warning: listen: something listens on 127.0.0.1:"), "{told}");
    let told = check(&folder, "listen: 192.0.2.1:7501\nauth: { mode: token, token: abcdefgh12345678 }\n");
    assert!(told.contains("n.yaml:1:9: error: listen: the node cannot listen on 192.0.2.1:7501"), "{told}");
}

#[test]
fn the_file_is_the_named_one_or_the_one_that_is_here_by_convention() {
    // FC-080
    let folder = Folder::new();
    let told = folder.refused(&["check"]);
    assert!(told.contains("there is no peers.yaml here") && told.contains("hermes-peer init"), "{told}");
    folder.write("peers.yaml", "node_id: here-01\n");
    folder.write("x.yaml", "node_id: named-01\n");
    assert!(folder.good(&["check"]).starts_with("ok: peers.yaml: here-01"));
    assert!(folder.good(&["check", "-c", "x.yaml"]).starts_with("ok: x.yaml: named-01"));
    assert!(folder.good(&["check", "x.yaml"]).starts_with("ok: x.yaml: named-01"));
    let missing = folder.run(&["check", "missing.yaml"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.out.starts_with("missing.yaml: error: cannot be read"), "{}", missing.out);
}

#[test]
fn json_has_every_finding_and_ends_with_the_same_code() {
    // FC-080
    let folder = Folder::new();
    folder.write("n.yaml", "lisen: 127.0.0.1:7501\nsession: { timeout: 0s }\n");
    let mut command = folder.command(&["check", "n.yaml", "--json"]);
    let ended = Ended::of(command.env("RUST_LOG", "trace").output().unwrap());
    assert_eq!(ended.code, Some(2));
    let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let findings = json["findings"].as_array().unwrap();
    assert_eq!((&json["ok"], findings.len()), (&false.into(), 2));
    assert_eq!(
        (&findings[0]["line"], &findings[0]["column"], &findings[0]["key"]),
        (&1.into(), &1.into(), &"lisen".into())
    );
    assert_eq!(findings[1]["severity"], "error");
}
