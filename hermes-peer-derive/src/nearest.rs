//! The known word that an unknown one was probably meant to be.

/// The word of `known` with the fewest letters inserted, left out or changed, if they are at most a third of it.
pub(crate) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|word| (distance(given, word), *word))
        .filter(|(distance, word)| *distance <= word.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Levenshtein's distance, in letters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let changed = row[j] + usize::from(from != *to);
            next.push(changed.min(row[j + 1] + 1).min(next[j] + 1));
        }
        row = next;
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["read_only", "reads", "writes", "cost"];
        for (given, meant) in [
            ("readonly", Some("read_only")),
            ("read", Some("reads")),
            ("wrties", Some("writes")),
            ("costs", Some("cost")),
            ("timeout", None),
            ("", None),
            ("größe", None),
        ] {
            assert_eq!(nearest(given, &known), meant, "{given}");
        }
    }
}
