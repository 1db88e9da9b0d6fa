//! Lists that can be looked at once or watched.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use crate::exit::Failure;
use crate::output::Output;

/// How often a list is looked at again.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Cursor home, screen empty.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// One entry of a list.
pub(super) struct Entry {
    /// What it is about, by which it is known again.
    pub(super) id: String,
    /// What is worth a word when it changes, for people.
    pub(super) news: String,
    /// All of it, for programs.
    pub(super) json: Value,
}

/// Prints a list once.
pub(super) fn once(
    entries: &[Entry],
    is_json: bool,
    out: &mut Output,
    table: impl Fn(&[Entry], &mut Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if is_json {
        let all: Vec<&Value> = entries.iter().map(|entry| &entry.json).collect();
        out.json(&all)?;
    } else {
        table(entries, out)?;
    }
    out.flush()
}

/// Prints a list for as long as somebody reads it: drawn anew on a terminal, else one line for each change.
pub(super) async fn forever(
    mut look: impl AsyncFnMut() -> Result<Vec<Entry>, Failure>,
    is_json: bool,
    out: &mut Output,
    table: impl Fn(&[Entry], &mut Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut known = BTreeMap::new();
    loop {
        let entries = look().await?;
        if out.is_terminal() && !is_json {
            out.bytes(CLEAR)?;
            table(&entries, out)?;
        } else {
            for (sign, change, entry) in changes(&mut known, entries) {
                match is_json {
                    true => out.json(&json!({ "change": change, "id": entry.id, "now": entry.json }))?,
                    false => out.line(format_args!("{sign} {}", entry.news))?,
                }
            }
        }
        out.flush()?;
        tokio::time::sleep(EVERY).await;
    }
}

/// What is new, different or gone since the last look.
fn changes(known: &mut BTreeMap<String, String>, entries: Vec<Entry>) -> Vec<(char, &'static str, Entry)> {
    let mut before = std::mem::take(known);
    let mut changes = Vec::new();
    for entry in entries {
        let was = before.remove(&entry.id);
        known.insert(entry.id.clone(), entry.news.clone());
        match was {
            None => changes.push(('+', "added", entry)),
            Some(news) if news != entry.news => changes.push(('~', "changed", entry)),
            Some(_) => {}
        }
    }
    let gone = before.into_iter().map(|(id, news)| ('-', "removed", Entry { id, news, json: Value::Null }));
    changes.extend(gone);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_told() {
        let entry = |id: &str, news: &str| Entry { id: id.into(), news: news.into(), json: Value::Null };
        let mut known = BTreeMap::new();
        let mut told = |entries| -> Vec<String> {
            changes(&mut known, entries)
                .iter()
                .map(|(sign, _, entry)| format!("{sign}{}", entry.news))
                .collect()
        };
        assert_eq!(told(vec![entry("a", "a up"), entry("b", "b up")]), ["+a up", "+b up"]);
        assert_eq!(told(vec![entry("a", "a up"), entry("b", "b down")]), ["~b down"]);
        assert_eq!(told(vec![entry("b", "b down")]), ["-a up"]);
        assert!(told(vec![entry("b", "b down")]).is_empty());
    }
}
