//! What was given, as bytes.

use std::fs::File;
use std::io;
use std::io::IsTerminal;
use std::io::Read;
use std::path::Path;

use hermes_peer_proto::wire::MAGIC;

use crate::args::Decode;
use crate::exit::Failure;
use crate::exit::tell;

/// Longest input, in bytes: far more than anyone reads, far less than memory.
const MAX_INPUT: u64 = 64 * 1024 * 1024;

/// Reads the input and turns hex into bytes.
pub(super) fn read(args: &Decode) -> Result<Vec<u8>, Failure> {
    let raw = read_raw(&args.file)?;
    let is_hex = args.hex || (!args.binary && is_hex(&raw));
    let bytes = if is_hex { parse_hex(&raw) } else { Ok(raw) };
    let bytes = bytes.map_err(|why| Failure::usage(format!("{}: {why}", shown(&args.file))))?;
    if bytes.is_empty() {
        return Err(Failure::usage(format!("{}: expected frames, and it is empty", shown(&args.file))));
    }
    Ok(bytes)
}

fn read_raw(file: &Path) -> Result<Vec<u8>, Failure> {
    let refused = |error: io::Error| Failure::usage(format!("cannot read {}: {error}", shown(file)));
    let mut reader: Box<dyn Read> = if file == Path::new("-") {
        if io::stdin().is_terminal() {
            tell("frames as hex, please; Ctrl-D ends them");
        }
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(refused)?)
    };
    let mut raw = Vec::new();
    reader.by_ref().take(MAX_INPUT + 1).read_to_end(&mut raw).map_err(refused)?;
    if raw.len() as u64 > MAX_INPUT {
        return Err(Failure::usage(format!(
            "{}: more than {MAX_INPUT} bytes, give it in parts",
            shown(file)
        )));
    }
    Ok(raw)
}

fn shown(file: &Path) -> String {
    if file == Path::new("-") { "stdin".to_owned() } else { file.display().to_string() }
}

/// Frames begin with letters that are no hex digits, and their numbers are no text.
fn is_hex(raw: &[u8]) -> bool {
    let is_text = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    !raw.starts_with(&MAGIC) && std::str::from_utf8(raw).is_ok() && raw.iter().all(is_text)
}

fn parse_hex(raw: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(raw)
        .map_err(|error| format!("byte {}: expected hex, and this is no text", error.valid_up_to()))?;
    let mut bytes = Vec::with_capacity(raw.len() / 2);
    for (index, line) in text.lines().enumerate() {
        let digits = line.split('#').next().unwrap_or_default();
        parse_line(digits, &mut bytes)
            .map_err(|(column, why)| format!("line {}, column {column}: {why}", index + 1))?;
    }
    Ok(bytes)
}

/// Column and reason of what is no hex.
fn parse_line(line: &str, bytes: &mut Vec<u8>) -> Result<(), (usize, String)> {
    let mut high = None;
    let mut chars = line.chars().enumerate().peekable();
    while let Some((index, c)) = chars.next() {
        let is_prefix =
            c == '0' && high.is_none() && chars.peek().is_some_and(|(_, next)| matches!(next, 'x' | 'X'));
        match (c.to_digit(16), high) {
            _ if is_prefix => {
                chars.next();
            }
            (Some(digit), None) => high = Some((index, digit)),
            (Some(digit), Some((_, first))) => {
                bytes.push((first << 4 | digit) as u8);
                high = None;
            }
            (None, None) if c.is_whitespace() || matches!(c, ',' | ':') => {}
            (None, _) => {
                return Err((index + 1, format!("expected a hexadecimal digit, got `{}`", c.escape_debug())));
            }
        }
    }
    high.map_or(Ok(()), |(index, _)| Err((index + 1, "a byte has two digits, this one has one".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_however_it_is_written() {
        let expected = Ok(vec![0x48, 0x52, 0x00, 0xff]);
        for text in
            ["485200ff", "48 52 00 FF\n", "0x48, 0x52,\r\n0x00 0xff # done", "# frame\n48:52\n\n\t00 ff#ff"]
        {
            assert_eq!(parse_hex(text.as_bytes()), expected, "{text}");
            assert!(is_hex(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_is_no_hex_is_named_by_line_and_column() {
        for (text, expected) in [
            ("48\n52 4g", "line 2, column 5: expected a hexadecimal digit, got `g`"),
            ("48 5", "line 1, column 4: a byte has two digits, this one has one"),
            ("4 8", "line 1, column 2: expected a hexadecimal digit, got ` `"),
        ] {
            assert_eq!(parse_hex(text.as_bytes()), Err(expected.to_owned()));
        }
    }

    #[test]
    fn frames_are_not_taken_for_hex() {
        assert!(!is_hex(b"HRMS\x02"));
        assert!(!is_hex(b"HRMT\x02\x80"), "with a wrong magic neither");
        assert!(!is_hex(&[0x48, 0xff]));
    }
}
