//! What the writer of broken JSON probably meant; consulted only once parsing has failed.

/// A remedy for the fault `reason` that the parser met at `line` and `column` of `text`.
pub(crate) fn for_syntax(text: &str, reason: &str, line: usize, column: usize) -> Option<&'static str> {
    if text.starts_with('\u{feff}') {
        return Some("the body starts with a byte order mark, leave it out");
    }
    if text.trim_ascii_start().starts_with("```") {
        return Some("a Markdown code fence is not JSON, send what stands inside it");
    }
    if reason.starts_with("control character") {
        return Some("a line break or tab inside a string is written \\n or \\t");
    }
    if reason.starts_with("EOF") {
        return Some("the body ends too early");
    }
    let at = offset(text, line, column);
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    match rest.first()? {
        b'\'' => Some("JSON strings and keys stand in double quotes, not single ones"),
        b'/' | b'#' => Some("JSON has no comments"),
        b'}' | b']' if last_before(text, at) == Some(b',') => Some("JSON has no comma after the last item"),
        _ => for_word(word_around(text, at), last_before(text, at)),
    }
}

fn for_word(word: &str, before: Option<u8>) -> Option<&'static str> {
    match word {
        "" => None,
        "True" | "False" | "None" | "nil" | "undefined" => Some("JSON writes true, false and null"),
        "NaN" | "nan" | "Infinity" | "inf" => Some("JSON has no such number, use null"),
        _ if matches!(before, Some(b'{' | b',')) => Some("JSON keys stand in double quotes: {\"key\": 1}"),
        _ => None,
    }
}

/// serde_json counts columns in bytes, starting at one.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    start + column.saturating_sub(1)
}

/// The letters around `at`: the parser may stop in the middle of `nan`.
fn word_around(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let is_letter = |b: &u8| b.is_ascii_alphabetic();
    if !bytes.get(at).is_some_and(is_letter) {
        return "";
    }
    let start = at - bytes[..at].iter().rev().take_while(|b| is_letter(b)).count();
    let end = at + bytes[at..].iter().take_while(|b| is_letter(b)).count();
    text.get(start..end).unwrap_or_default()
}

fn last_before(text: &str, at: usize) -> Option<u8> {
    text.as_bytes().get(..at)?.trim_ascii_end().last().copied()
}
