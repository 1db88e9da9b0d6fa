//! Cutting text into words, the same way for everything that learns or searches.

/// The words of `text` in lower case, apostrophes dropped: `Haven't` is `havent`.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for letter in text.chars() {
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        } else if letter != '\'' && letter != '’' && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Whether a word is in every other sentence and says nothing about its subject.
fn is_filler(word: &str) -> bool {
    FILLERS.binary_search(&word).is_ok()
}

/// In the order of the alphabet, apostrophes dropped as [`words`] does.
const FILLERS: [&str; 131] = [
    "a", "about", "again", "all", "also", "am", "an", "and", "another", "any", "are", "as", "at", "be",
    "because", "been", "being", "but", "by", "can", "cannot", "cant", "could", "did", "didnt", "do", "does",
    "doesnt", "dont", "fix", "for", "from", "get", "go", "going", "got", "had", "has", "hasnt", "have",
    "havent", "he", "hello", "help", "her", "here", "hi", "his", "how", "i", "id", "if", "ill", "im", "in",
    "into", "is", "isnt", "it", "its", "ive", "just", "know", "let", "like", "made", "make", "may", "me",
    "might", "much", "my", "need", "no", "not", "now", "of", "on", "or", "our", "out", "please", "possible",
    "really", "said", "says", "see", "shall", "she", "should", "so", "some", "someone", "still", "than",
    "thanks", "that", "the", "their", "them", "then", "there", "these", "they", "think", "this", "those",
    "to", "tried", "try", "trying", "up", "us", "want", "was", "we", "were", "what", "when", "where",
    "which", "who", "why", "will", "with", "wont", "would", "yes", "yet", "you", "your",
];

/// The words of a text that say something about its subject, each as its stem.
pub(crate) fn terms(text: &str) -> Vec<String> {
    let words = words(text);
    let telling = words.iter().filter(|word| !is_filler(word));
    telling.map(|word| stem(word).to_owned()).collect()
}

/// `word` without its commonest endings, so that `cards`, `card` and `transferred`, `transfers` meet.
pub(crate) fn stem(word: &str) -> &str {
    /// Shorter remainders are other words: `during` is not `dur`.
    const LEAST: usize = 3;
    for ending in ["ings", "ing", "ies", "ied", "ed", "es", "s", "y", "e"] {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() > LEAST
            && !(ending == "s" && rest.ends_with('s'))
        {
            return undouble(rest);
        }
    }
    word.strip_suffix('s').filter(|rest| rest.len() == LEAST && !rest.ends_with('s')).unwrap_or(word)
}

/// `transferr` is `transfer`: English doubles the last consonant before an ending.
fn undouble(word: &str) -> &str {
    let mut last = word.chars().rev();
    match (last.next(), last.next()) {
        (Some(a), Some(b)) if a == b && !"lseo".contains(a) => &word[..word.len() - a.len_utf8()],
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_case_and_keep_contractions_whole() {
        assert_eq!(
            words("I haven't got my Card, 2 weeks!"),
            ["i", "havent", "got", "my", "card", "2", "weeks"]
        );
    }

    #[test]
    fn every_filler_is_found() {
        assert!(FILLERS.is_sorted());
        assert!(is_filler("havent") && !is_filler("card"));
    }

    #[test]
    fn inflections_of_a_word_share_a_stem() {
        for (a, b) in
            [("cards", "card"), ("transferred", "transfers"), ("fees", "fee"), ("topping", "topped")]
        {
            assert_eq!(stem(a), stem(b), "{a} and {b}");
        }
        assert_eq!(stem("bus"), "bus");
    }
}
