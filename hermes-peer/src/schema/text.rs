//! Text from outside, made fit for a message: bounded, and without anything that moves a terminal's cursor.

/// Longest piece of a value shown in a message, in characters: enough to recognise it, too little to flood a log.
pub(crate) const SHOWN_VALUE: usize = 64;

/// `text` with control and direction-changing characters escaped, cut to `limit` characters.
pub(crate) fn shown(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    let mut left = limit;
    for c in text.chars() {
        let escaped = c.is_control() || is_invisible(c);
        let width = if escaped { c.escape_default().count() } else { 1 };
        if width > left {
            out.push('…');
            return out;
        }
        left -= width;
        if escaped { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// One segment of a JSON pointer: `~` and `/` written as RFC 6901 wants.
pub(crate) fn segment(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_codes_and_direction_marks_do_not_reach_a_terminal() {
        assert_eq!(shown("a\u{1b}[31m\nb\u{202e}c", 64), "a\\u{1b}[31m\\nb\\u{202e}c");
    }

    #[test]
    fn a_long_text_is_cut_at_the_limit_and_says_so() {
        assert_eq!(shown("ééééé", 3), "ééé…");
        assert_eq!(shown("abc", 3), "abc");
        assert_eq!(shown("ab\n", 3), "ab…", "an escape is never cut in half");
    }

    #[test]
    fn a_segment_keeps_its_slashes_apart_from_the_pointers_own() {
        assert_eq!(segment("a/b~c"), "a~1b~0c");
    }
}
