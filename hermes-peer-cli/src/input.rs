//! What is sent: JSON from the command line, a file or stdin, handed on to the byte.

use std::fs::File;
use std::io;
use std::io::IsTerminal;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::value::RawValue;

use crate::exit::Failure;
use crate::exit::tell;
use crate::output::printable;

/// Largest body in bytes: the largest message of the protocol by default.
const MAX_BODY: u64 = 64 * 1024 * 1024;
/// Characters shown before and after the one that is wrong.
const AROUND: usize = 30;

/// Where the body comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// As it was typed.
    Text(String),
    /// `@FILE`
    File(PathBuf),
    /// `-` or `@-`
    Stdin,
}

impl FromStr for Input {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        match given.strip_prefix('@') {
            _ if given == "-" => Ok(Self::Stdin),
            Some("-") => Ok(Self::Stdin),
            Some("") => Err("`@` stands before the name of a file, and there is none".to_owned()),
            Some(file) => Ok(Self::File(file.into())),
            None => Ok(Self::Text(given.to_owned())),
        }
    }
}

impl Input {
    /// The JSON text, checked and otherwise as it was given: a number keeps its digits, an object its order.
    pub(crate) fn read(&self) -> Result<String, Failure> {
        match self {
            Self::Text(text) => json(text.clone().into_bytes(), "the body", true),
            Self::File(path) => {
                let name = path.display().to_string();
                json(read_file(path)?, &name, false)
            }
            Self::Stdin => {
                if io::stdin().is_terminal() {
                    tell("JSON, please; Ctrl-D ends it");
                }
                json(read_bounded(&mut io::stdin(), "stdin")?, "stdin", false)
            }
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let name = path.display();
    let mut file = File::open(path).map_err(|error| {
        Failure::usage(format!(
            "cannot read {name}: {error}; `@` stands before the name of a file, and the text itself is written '\"@{name}\"'"
        ))
    })?;
    read_bounded(&mut file, &name.to_string())
}

fn read_bounded(reader: &mut dyn Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    reader
        .take(MAX_BODY + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > MAX_BODY {
        return Err(Failure::usage(format!("{name} has more than {MAX_BODY} bytes, the most for one body")));
    }
    Ok(bytes)
}

fn json(bytes: Vec<u8>, name: &str, is_typed: bool) -> Result<String, Failure> {
    if is_utf16(&bytes) {
        return Err(Failure::usage(format!(
            "{name} is UTF-16, and JSON is UTF-8; `iconv -f UTF-16 -t UTF-8` converts it"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("{name} is no UTF-8 text at byte {at}"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(Failure::usage(format!(
            "{name} is empty, and nothing is no JSON; `{{}}`, `null` and `\"\"` are"
        )));
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) => Ok(value.get().to_owned()),
        Err(error) => Err(Failure::usage(refused(text, name, &error, is_typed))),
    }
}

/// Every second byte of ASCII text is zero in UTF-16, whether a byte-order mark says so or not.
fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}

fn refused(text: &str, name: &str, error: &serde_json::Error, is_typed: bool) -> String {
    let (line, column) = (error.line(), error.column());
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let mut told = format!("{name} is no JSON: {reason}, line {line}, column {column}");
    let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    // The parser counts bytes.
    let before = shown.floor_char_boundary(column.saturating_sub(1).min(shown.len()));
    let head: String = shown[..before].chars().rev().take(AROUND).collect();
    let head = printable(&head.chars().rev().collect::<String>());
    let tail = printable(&shown[before..].chars().take(AROUND).collect::<String>());
    told.push_str(&format!("\n  {head}{tail}\n  {}^", " ".repeat(head.chars().count())));
    if let Some(hint) = hint(text, is_typed) {
        told.push_str(&format!("\n  {hint}"));
    }
    told
}

fn hint(text: &str, is_typed: bool) -> Option<&'static str> {
    let lost_quotes = !text.contains('"') && text.trim_start().starts_with(['{', '[']);
    if text.contains('\'') && !text.contains('"') {
        Some("in JSON, texts and keys stand in double quotes")
    } else if is_typed && lost_quotes {
        Some("the shell may have taken the quotes: put the JSON in single quotes, as in '{\"a\":1}'")
    } else if is_typed && !text.contains(['{', '[', '"']) {
        Some("a text stands in double quotes, within single ones for the shell: '\"text\"'")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn told(result: Result<String, Failure>) -> String {
        match result {
            Err(Failure::Told { exit: crate::exit::Exit::Usage, message }) => message,
            other => panic!("{other:?}"),
        }
    }

    fn typed(text: &str) -> Result<String, Failure> {
        Input::Text(text.to_owned()).read()
    }

    fn file(bytes: &[u8]) -> Result<String, Failure> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Input::File(file.path().to_owned()).read()
    }

    #[test]
    fn a_value_arrives_as_it_was_written() {
        // FC-081
        for text in [
            r#"{"b":1,"a":[1.0,1e400,123456789012345678901234567890]}"#,
            r#""x""#,
            "1",
            "-1",
            "null",
            r#"{"q":"-x"}"#,
        ] {
            assert_eq!(typed(text).unwrap(), text);
            assert_eq!(file(format!("\u{feff} {text}\r\n").as_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn lost_quotes_are_named_with_their_place_and_what_helps() {
        // FC-081
        let message = told(typed("{a:1}"));
        assert!(
            message
                .starts_with("the body is no JSON: key must be a string, line 1, column 2\n  {a:1}\n   ^\n"),
            "{message}"
        );
        assert!(message.contains("put the JSON in single quotes"), "{message}");
        assert!(told(typed("{'a':1}")).contains("double quotes"));
        assert!(told(typed("hello")).contains(r#"'"text"'"#));
        assert!(!told(file(b"{a:1}")).contains("shell"), "no shell had this in its hands");
        assert!(
            told(file("{\n\"知識\": x}".as_bytes())).contains("\n  \"知識\": x}\n        ^"),
            "{}",
            told(file("{\n\"知識\": x}".as_bytes()))
        );
    }

    #[test]
    fn nothing_and_two_values_are_no_json() {
        // FC-081
        assert!(told(typed("")).contains("the body is empty"));
        assert!(told(file(b" \n")).contains("is empty"));
        assert!(told(typed("1 2")).contains("trailing characters"));
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        // FC-081
        let message = told(Input::File("missing.json".into()).read());
        assert!(message.starts_with("cannot read missing.json: "), "{message}");
        assert!(message.ends_with(r#"'"@missing.json"'"#), "{message}");
        for utf16 in [&b"\xff\xfe{\0}\0"[..], b"{\0}\0", b"\0{\0}"] {
            assert!(told(file(utf16)).contains("is UTF-16"), "{utf16:?}");
        }
        assert!(told(file(b"\"\xff\"")).contains("no UTF-8 text at byte 1"));
        assert!("@".parse::<Input>().unwrap_err().contains("name of a file"));
    }

    #[test]
    fn a_body_beyond_the_limit_is_refused_before_memory_is() {
        let mut endless = io::repeat(b' ');
        let refused = read_bounded(&mut endless, "stdin").map(|_| String::new());
        assert!(told(refused).contains("stdin has more than 67108864 bytes"));
    }
}
