use std::path::Path;

use clap::CommandFactory;

use crate::input::Input;

use super::mesh::Call;
use super::mesh::Serve;
use super::*;

#[derive(Debug)]
struct MeshArgs {
    global: Global,
    verb: MeshCommand,
}

fn mesh(args: &[&str]) -> Result<MeshArgs, String> {
    let Args { global, verb } =
        Args::try_parse_from([COMMAND].iter().chain(args)).map_err(|error| error.to_string())?;
    match verb {
        Verb::Mesh(verb) => Ok(MeshArgs { global, verb }),
        other => Err(format!("{other:?}")),
    }
}

fn call(args: &[&str]) -> Call {
    match mesh(&[&["call", "demo.echo"], args].concat()).unwrap().verb {
        MeshCommand::Call(call) => call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_lines_hold_together() {
    Args::command().debug_assert();
}

#[test]
fn a_body_is_json_a_file_or_stdin_however_it_begins() {
    // FC-081
    for (args, expected) in [
        (&[r#"{"a":1}"#][..], Input::Text(r#"{"a":1}"#.into())),
        (&["-1"], Input::Text("-1".into())),
        (&["--", "-1"], Input::Text("-1".into())),
        (&[r#"{"q":"-x"}"#], Input::Text(r#"{"q":"-x"}"#.into())),
        (&[""], Input::Text(String::new())),
        (&["@q.json"], Input::File("q.json".into())),
        (&["-"], Input::Stdin),
        (&["@-"], Input::Stdin),
        (&[], Input::Text("{}".into())),
    ] {
        assert_eq!(call(args).body.body, expected, "{args:?}");
    }
}

#[test]
fn a_call_takes_whom_when_and_how() {
    let session = "0123456789abcdef0123456789abcdef";
    let call =
        call(&["1", "--to", "nlu-01", "--timeout", "1500ms", "--session", session, "--key", "k", "--stream"]);
    assert_eq!(call.to, Some(hermes_peer_proto::wire::Target::Node("nlu-01".parse().unwrap())));
    assert_eq!(call.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(call.session.unwrap().to_string(), session);
    assert_eq!((call.key.as_deref(), call.stream), (Some("k"), true));
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_would_be_right() {
    // FC-006, FC-080
    for (args, expected) in [
        (&["call", "demo.echo", "--timeout", "5"][..], "has no unit"),
        (&["call", "demo.echo", "--timeout", "0s"], "is zero"),
        (&["call", "demo.echo", "--timeout=-5s"], "is negative"),
        (&["call", "demo.echo", "--to", "agent://x"], "agent://"),
        (&["call", "demo.echo", "--to", "Nlu"], "node id"),
        (&["call", "echo"], "echo"),
        (&["call", "demo.echo", "--key", ""], "1 to 255 bytes"),
        (&["call", "demo.echo", "1", "2"], "unexpected argument"),
        (&["call", "demo.echo", "--sesion", "1"], "--session"),
        (&["serve", "--capability", "demo.echo"], "<PROGRAM>"),
        (&["serve", "--capability", "demo.echo", "cat"], "unexpected argument"),
        (&["serve", "--capability", "demo.echo", "--memory", "1", "--", "cat"], "has no unit"),
        (&["sub", "a.**.b"], "a.**.b"),
    ] {
        let told = mesh(args).unwrap_err();
        assert!(told.contains(expected), "{args:?}: {told}");
    }
}

#[test]
fn a_program_keeps_its_own_flags() {
    let args =
        mesh(&["serve", "--capability", "text.words", "--memory", "64MiB", "--", "./w", "--json", "-c", "x"])
            .unwrap();
    assert!(!args.global.json && args.global.config.is_none());
    let MeshCommand::Serve(Serve { program, memory, timeout, concurrency, .. }) = args.verb else {
        panic!("{args:?}");
    };
    assert_eq!(program, ["./w", "--json", "-c", "x"]);
    assert_eq!((memory, timeout, concurrency), (Some(64 << 20), Duration::from_secs(30), 4));
}

#[test]
fn options_of_every_verb_stand_before_and_after_it() {
    for args in [&["-c", "x.yaml", "--json", "-vv", "peers"][..], &["peers", "-vv", "--json", "-c", "x.yaml"]]
    {
        let global = mesh(args).unwrap().global;
        assert_eq!(global.config.as_deref(), Some(Path::new("x.yaml")), "{args:?}");
        assert_eq!((global.json, global.verbose), (true, 2), "{args:?}");
    }
}

#[test]
fn certificates_are_valid_for_a_quarter_unless_something_else_is_said() {
    let issue = |more: &[&str]| {
        let args = ["certs", "issue", "--agent", "agent://t/s/n", "--node", "n-01"];
        let parsed = Args::try_parse_from([COMMAND].iter().chain(&args).chain(more));
        match parsed.map_err(|error| error.to_string())?.verb {
            Verb::Certs { verb: CertsVerb::Issue(issue) } => Ok(issue.validity.duration.as_secs()),
            other => Err(format!("{other:?}")),
        }
    };
    assert_eq!(issue(&[]), Ok(90 * 86_400));
    assert_eq!(issue(&["--valid", "825d"]), Ok(825 * 86_400));
    for (given, expected) in [("90", "has no unit"), ("826d", "is too long"), ("59s", "is too short")] {
        assert!(issue(&["--valid", given]).unwrap_err().contains(expected), "{given}");
    }
}
