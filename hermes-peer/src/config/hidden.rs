//! Values as messages may name them, so that none ever holds a secret.

use super::finding::Position;
use super::keys;
use super::tree::Entry;
use super::tree::Node;
use super::tree::Value;

/// A line with one of these words is never shown, wherever it stands: a misplaced secret is a secret.
const SECRET_WORDS: [&str; 5] = ["token", "secret", "passw", "auth:", "key:"];
/// Longest piece of a value that a finding quotes, in characters: enough to know it again.
const MAX_QUOTED: usize = 60;

/// A single value with everything that a finding about it needs.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub(super) text: String,
    pub(super) at: Position,
    pub(super) path: String,
    /// The variable that the text came from.
    pub(super) variable: Option<String>,
}

impl Scalar {
    /// The value as a finding names it: quoted, unless it is or could be secret.
    pub(super) fn subject(&self) -> String {
        match &self.variable {
            Some(name) => format!("the value of the environment variable `{name}`"),
            None if is_secret(&self.path) => "the value".to_owned(),
            None => {
                let mut shown: String =
                    self.text.chars().take(MAX_QUOTED).flat_map(char::escape_debug).collect();
                if self.text.chars().nth(MAX_QUOTED).is_some() {
                    shown.push('…');
                }
                format!("`{shown}`")
            }
        }
    }
}

/// Whether values at this path are kept out of every message.
pub(super) fn is_secret(path: &str) -> bool {
    path == "auth" || path.starts_with("auth.")
}

/// Whether a line can be shown: not in a part of the file that is `auth`, or that could be meant as it, and not if it
/// mentions a secret. Where the text is no tree, nothing is shown after the first mention of a secret.
pub(super) fn can_show(text: &str, root: Option<&Node>, line: usize) -> bool {
    let mentions = |text: &str| {
        let text = text.to_ascii_lowercase();
        SECRET_WORDS.iter().any(|word| text.contains(word))
    };
    // To YAML a lone CR ends a line, and the lines counted here would be others.
    if text.replace("\r\n", "").contains('\r') {
        return false;
    }
    let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    match root.map(|node| &node.value) {
        Some(Value::Map(entries)) => {
            let is_in = |(index, entry): (usize, &Entry)| {
                // The next key ends this one's lines; where it does not begin its line, they share it.
                let end = entries
                    .get(index + 1)
                    .map_or(usize::MAX, |next| next.at.line + usize::from(next.at.column > 1));
                let is_known = keys::children("").any(|known| known == entry.key);
                let meant = if is_known { Some(entry.key.as_str()) } else { keys::similar("", &entry.key) };
                let is_open = meant.is_some_and(|key| key != "auth");
                !is_open && (entry.at.line..end).contains(&line)
            };
            !mentions(shown) && !entries.iter().enumerate().any(is_in)
        }
        _ => !text.lines().take(line).any(mentions),
    }
}
