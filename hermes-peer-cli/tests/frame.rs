//! The command itself: what it prints where, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot run the command has failed")]

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

/// A call of `demo.echo` with 30 s left and the body `{}`, and the sender's acknowledgement of 300 frames.
const HEX: &str = "
# REQUEST
48 52 4d 53 02 02 04 03000000 14000000
10 02 8204 09 64656d6f2e6563686f 8087a70e 7b7d
# ACK
48 52 4d 53 02 80 0a 00000000 02000000 ac02
";

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermes-peer"));
    command.args(args);
    command
}

fn run(args: &[&str], stdin: &[u8]) -> Output {
    let mut command = command(args);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn bytes() -> Vec<u8> {
    let digits: String =
        HEX.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn hex_and_binary_from_stdin_and_file_are_shown_alike() {
    let from_hex = run(&["frame", "decode"], HEX.as_bytes());
    assert_eq!((from_hex.status.code(), text(&from_hex.stderr)), (Some(0), ""));
    let shown = text(&from_hex.stdout);
    for line in [
        "frame 1 at byte 0: REQUEST FIN, stream 3, 20 bytes\n",
        "frame 2 at byte 35: ACK CONTROL, stream 0, 2 bytes\n",
        "19  09 64 65 6d 6f 2e 65 63 …  envelope.capability  demo.echo  the operation called\n",
        "received        300      data frames received on the link so far\n",
    ] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    for (args, stdin) in [
        (&["frame", "decode", "-"][..], &bytes()[..]),
        (&["frame", "decode", "--binary"], &bytes()),
        (&["frame", "decode", "--hex"], HEX.as_bytes()),
        (&["frame", "decode", path], b""),
    ] {
        assert_eq!(text(&run(args, stdin).stdout), shown, "{args:?}");
    }
}

#[test]
fn json_is_one_object_per_line_and_nothing_else() {
    let out = run(&["frame", "decode", "--json"], HEX.as_bytes());
    let frames: Vec<serde_json::Value> =
        text(&out.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[0]["type"], "REQUEST");
    let fields = frames[0]["fields"].as_array().unwrap();
    let capability = fields.iter().find(|field| field["name"] == "envelope.capability").unwrap();
    assert_eq!((&capability["offset"], &capability["value"]), (&19.into(), &"demo.echo".into()));
    assert_eq!(frames[1]["offset"], 35);
}

#[test]
fn what_is_right_is_shown_before_the_byte_that_is_wrong() {
    let hex = HEX.replace("02 80 0a", "02 80 63");
    let out = run(&["frame", "decode"], hex.as_bytes());
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stdout).contains("demo.echo"));
    let told = text(&out.stderr);
    assert!(told.contains("byte 41 (0x29): message_type: unknown message type 99"), "{told}");
    assert!(told.contains("02 80 [63] 00 00"), "{told}");
    let json = run(&["frame", "decode", "--json"], hex.as_bytes());
    let last: serde_json::Value = serde_json::from_str(text(&json.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["offset"], 41);
}

#[test]
fn input_that_is_no_frame_is_refused_with_its_place() {
    for (args, stdin, expected) in [
        (
            &["frame", "decode"][..],
            "48 52 4g",
            "stdin: line 1, column 8: expected a hexadecimal digit, got `g`",
        ),
        (&["frame", "decode"], "", "stdin: expected frames, and it is empty"),
        (&["frame", "decode", "/no/such/file"], "", "cannot read /no/such/file"),
        (&["frame", "decode", "--hex", "--binary"], "", "cannot be used with"),
        (&["frame", "decoed"], "", "decode"),
    ] {
        let out = run(args, stdin.as_bytes());
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(2), ""), "{args:?}");
        assert!(text(&out.stderr).contains(expected), "{args:?}: {}", text(&out.stderr));
    }
}

#[test]
fn a_message_without_its_end_is_a_note_and_no_failure() {
    let hex = "48524d53 02 00 04 03000000 04000000 00 0a 3132";
    let out = run(&["frame", "decode"], hex.as_bytes());
    assert_eq!(out.status.code(), Some(0));
    assert!(text(&out.stderr).contains("2 of 10 bytes of its body"), "{}", text(&out.stderr));
}

// FC-080
#[test]
fn a_reader_who_leaves_ends_it_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes().repeat(1000)).unwrap();
    let path = file.path().to_str().unwrap();
    let out = command(&["frame", "decode", path]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), ""));
}

// FC-080
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    for args in [&["frame", "decode", "-"][..], &["completions", "bash"], &["--help"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut child =
            command(args).stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        // Verbs that take no input may be gone already.
        drop(child.stdin.take().unwrap().write_all(HEX.as_bytes()));
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        let told = text(&out.stderr);
        assert!(told.contains("cannot write the output") && !told.contains("panicked"), "{told}");
    }
}

// FC-080
#[test]
fn there_is_no_colour_where_there_is_no_terminal() {
    let out = run(&["frame", "decode"], HEX.replace("02 80 0a", "02 80 63").as_bytes());
    assert!(!out.stdout.contains(&0x1b) && !out.stderr.contains(&0x1b));
}

#[test]
fn completions_and_man_pages_are_there() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let out = run(&["completions", shell], b"");
        assert_eq!(out.status.code(), Some(0));
        assert!(text(&out.stdout).contains("decode"), "{shell}");
    }
    let page = run(&["man"], b"");
    assert!(
        text(&page.stdout).contains(".TH hermes\\-peer 1")
            || text(&page.stdout).contains(".TH hermes-peer 1")
    );
    assert!(text(&page.stdout).contains("130"), "the exit codes are on it");
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(&["man", dir.path().to_str().unwrap()], b"").status.code(), Some(0));
    assert!(dir.path().join("hermes-peer-frame-decode.1").exists());
}
