//! The known name that was probably meant.

/// Names longer than this are not compared: no property or key that a person typed is, and the cost is quadratic.
const LONGEST_COMPARED: usize = 64;

/// Most candidates looked at: an answer is a courtesy and must not cost more than the question.
const MAX_CANDIDATES: usize = 1000;

/// The candidate that differs from `name` by at most two edits or a third of its length, whichever is more.
///
/// Case is ignored, a swap of neighbours counts as one edit, and of equally near candidates the first wins.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = letters(name)?;
    let allowed = (wanted.len() / 3).max(2).min(wanted.len().saturating_sub(1));
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates.take(MAX_CANDIDATES) {
        let Some(other) = letters(candidate) else { continue };
        if other.len().abs_diff(wanted.len()) > allowed {
            continue;
        }
        let distance = edits(&wanted, &other);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn letters(name: &str) -> Option<Vec<char>> {
    let letters: Vec<char> = name.chars().take(LONGEST_COMPARED + 1).flat_map(char::to_lowercase).collect();
    (1..=LONGEST_COMPARED).contains(&letters.len()).then_some(letters)
}

/// Optimal string alignment: insertions, deletions, replacements and swaps of neighbours cost one each.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = previous[j] + usize::from(x != y);
            let mut least = replaced.min(previous[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 6] = ["query", "k", "opts", "heartbeat_interval", "timeout", "capabilities"];

    fn near(name: &str) -> Option<&'static str> {
        nearest(name, KEYS.into_iter())
    }

    #[test]
    fn a_slip_of_the_finger_finds_the_name_that_was_meant() {
        assert_eq!(near("querry"), Some("query"));
        assert_eq!(near("qeury"), Some("query"));
        assert_eq!(near("Opts"), Some("opts"));
        assert_eq!(near("hartbeat_intervall"), Some("heartbeat_interval"));
        assert_eq!(near("capabilites"), Some("capabilities"));
    }

    #[test]
    fn a_name_that_is_far_from_all_gets_no_suggestion() {
        assert_eq!(near("colour"), None);
        assert_eq!(near("ab"), None, "two letters replaced leave nothing in common");
        assert_eq!(near(""), None);
        assert_eq!(near(&"q".repeat(10_000)), None);
    }

    #[test]
    fn the_nearest_wins_and_of_equals_the_first() {
        assert_eq!(nearest("abcd", ["abxx", "abcx", "abcy"].into_iter()), Some("abcx"));
    }
}
