//! What a ticket names: amounts, dates, cards, countries, shops, and what went wrong. Rules over words: each
//! looks at one place of the text and says how many words it takes there.

use crate::model::Entity;
use crate::model::EntityKind;

/// Everything that the rules find, in the order of the text; what is named twice is listed once.
pub(crate) fn find(text: &str) -> Vec<Entity> {
    let words = cut(text);
    let mut found: Vec<Entity> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let Some((kind, length)) = RULES.iter().find_map(|rule| rule(&words, at)) else {
            at += 1;
            continue;
        };
        let value = text[words[at].start..words[at + length - 1].end].to_owned();
        if !found.iter().any(|other| other.kind == kind && other.value.eq_ignore_ascii_case(&value)) {
            found.push(Entity { kind, value });
        }
        at += length;
    }
    found
}

/// A word with its place in the text, without the punctuation around it.
#[derive(Debug)]
struct Word<'a> {
    start: usize,
    end: usize,
    written: &'a str,
    lower: String,
    /// Nothing but white space stands between this word and the one before it.
    joined: bool,
}

fn cut(text: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    for piece in text.split_whitespace() {
        let inner = piece.trim_matches(|letter: char| !letter.is_alphanumeric() && !"£$€¥+".contains(letter));
        if inner.is_empty() {
            continue;
        }
        // `piece` and `inner` are parts of `text`, so the distance of their beginnings is a place in it.
        let start = inner.as_ptr().addr() - text.as_ptr().addr();
        let end = start + inner.len();
        let joined = words.last().is_some_and(|last| text[last.end..start].trim().is_empty());
        words.push(Word {
            start,
            end,
            written: inner,
            lower: inner.to_lowercase().replace('’', "'"),
            joined,
        });
    }
    words
}

/// What stands at a place, and over how many words.
type Rule = fn(&[Word<'_>], usize) -> Option<(EntityKind, usize)>;

/// In order of precedence: what can be told from its form alone, then lists, then the guess.
const RULES: [Rule; 7] = [email, phone, amount, currency, date, listed, merchant];

fn email(words: &[Word<'_>], at: usize) -> Option<(EntityKind, usize)> {
    let (name, host) = words[at].written.split_once('@')?;
    (!name.is_empty() && host.contains('.')).then_some((EntityKind::Email, 1))
}

fn phone(words: &[Word<'_>], at: usize) -> Option<(EntityKind, usize)> {
    let is_part = |word: &&Word<'_>| word.written.chars().all(|c| c.is_ascii_digit() || "+-().".contains(c));
    let length = words[at..].iter().take_while(is_part).count();
    let run = &words[at..at + length];
    let digits = run.iter().flat_map(|word| word.written.chars()).filter(char::is_ascii_digit).count();
    // Seven digits are the shortest local number, fifteen the longest international one.
    let is_marked = length > 1 || run.first().is_some_and(|word| word.written.contains(['+', '-', ')']));
    ((7..=15).contains(&digits) && (is_marked || digits >= 10)).then_some((EntityKind::Phone, length))
}

fn amount(words: &[Word<'_>], at: usize) -> Option<(EntityKind, usize)> {
    let word = words[at].lower.as_str();
    let bare = word.trim_matches(|letter| "£$€¥".contains(letter));
    if bare.len() < word.len() && is_number(bare) {
        return Some((EntityKind::Amount, 1));
    }
    let is_glued = CURRENCIES.split(' ').any(|name| word.strip_suffix(name).is_some_and(is_number));
    if is_glued {
        return Some((EntityKind::Amount, 1));
    }
    let unit = words.get(at + 1).filter(|next| next.joined)?;
    let has_unit = among(CURRENCIES, &unit.lower);
    (has_unit && (is_number(word) || among(COUNTS, word))).then_some((EntityKind::Amount, 2))
}

/// Whether a list of words has this one.
fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|other| other == word)
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',')
}

fn currency(words: &[Word<'_>], at: usize) -> Option<(EntityKind, usize)> {
    among(CURRENCIES, &words[at].lower).then_some((EntityKind::Currency, 1))
}

fn date(words: &[Word<'_>], at: usize) -> Option<(EntityKind, usize)> {
    let lower = |place: usize| words.get(place).map_or("", |word| word.lower.as_str());
    let (first, second) = (lower(at), lower(at + 1));
    let is_count = is_number(first) || among(COUNTS, first);
    let is_day = |word: &str| {
        word.trim_end_matches(char::is_alphabetic).parse().is_ok_and(|day: u8| (1..=31).contains(&day))
    };
    let length = match second {
        _ if first.split('/').count() > 1 && first.split('/').all(is_number) => 1,
        "business" | "working" if is_count && among(UNITS, lower(at + 2)) => 3,
        _ if is_count && among(UNITS, second) => 2,
        _ if is_day(first) && among(MONTHS, second) => 2,
        _ if among(MONTHS, first) && is_day(second) => 2,
        _ if ["last", "this", "next"].contains(&first) && (among(UNITS, second) || among(DAYS, second)) => 2,
        _ if among(DAYS, first) => 1,
        _ => return None,
    };
    let is_past = lower(at + length) == "ago";
    Some((EntityKind::Date, length + usize::from(is_past)))
}

/// The longest phrase of [`PHRASES`] that begins here.
fn listed(words: &[Word<'_>], at: usize) -> Option<(EntityKind, usize)> {
    let matches = |phrase: &str| {
        let parts: Vec<&str> = phrase.split(' ').collect();
        let here = words.get(at..at + parts.len())?;
        // A phrase in capitals stands for itself only: `US` is a country, `us` is not.
        let fits = |(word, part): (&Word<'_>, &&str)| word.written == *part || word.lower == *part;
        here.iter().zip(&parts).all(fits).then_some(parts.len())
    };
    let lengths = PHRASES.iter().flat_map(|(kind, phrases)| {
        phrases.split(", ").filter_map(move |phrase| matches(phrase).map(|length| (*kind, length)))
    });
    lengths.max_by_key(|(_, length)| *length)
}

/// Capitalised words after `at`, `from`, `to` or `by`.
fn merchant(words: &[Word<'_>], at: usize) -> Option<(EntityKind, usize)> {
    let before = at.checked_sub(1).map(|before| &words[before])?;
    if !["at", "from", "to", "by", "with"].contains(&before.lower.as_str()) || !words[at].joined {
        return None;
    }
    // A text in capitals throughout names nothing by them; `I`, `ATM`, `PIN` are no shops.
    let is_name = |word: &Word<'_>| {
        let mut letters = word.written.chars();
        letters.next().is_some_and(char::is_uppercase)
            && letters.any(char::is_lowercase)
            && !word.lower.starts_with("i'")
    };
    let rest = words[at + 1..].iter().take_while(|word| word.joined && is_name(word)).count();
    is_name(&words[at]).then_some((EntityKind::Merchant, 1 + rest))
}

const COUNTS: &str = "a an one two three four five six seven eight nine ten few couple several hundred";
const UNITS: &str =
    "minute minutes hour hours day days week weeks weekend month months year years night morning";
const DAYS: &str =
    "today yesterday tomorrow tonight monday tuesday wednesday thursday friday saturday sunday";
const MONTHS: &str = "january february march april may june july august september october november december";
const CURRENCIES: &str = "pound pounds quid euro euros dollar dollars cents pence yen gbp eur usd aud cad chf jpy pln \
    rubles rupees francs bitcoin";

/// What is known by name, by kind, between commas.
const PHRASES: [(EntityKind, &str); 3] = [
    (
        EntityKind::Card,
        "debit card, credit card, virtual card, disposable card, disposable virtual card, physical \
         card, prepaid card, replacement card, spare card, second card, virtual cards, disposable \
         cards, visa, mastercard, maestro, amex, american express, apple pay, google pay",
    ),
    (
        EntityKind::Country,
        "US, USA, UK, EU, united states, united kingdom, america, england, scotland, wales, ireland, \
         france, spain, portugal, germany, austria, switzerland, italy, greece, belgium, \
         netherlands, holland, denmark, sweden, norway, finland, poland, czech republic, hungary, \
         romania, bulgaria, croatia, ukraine, russia, turkey, israel, egypt, morocco, nigeria, \
         kenya, south africa, india, pakistan, china, hong kong, japan, south korea, thailand, \
         vietnam, singapore, malaysia, indonesia, philippines, australia, new zealand, canada, \
         mexico, brazil, argentina, chile, colombia, peru, europe, asia, africa, london, paris, \
         berlin",
    ),
    (
        EntityKind::Problem,
        "declined, rejected, refused, failed, reverted, reversed, cancelled, canceled, pending, \
         blocked, locked, frozen, stuck, missing, lost, stolen, swallowed, expired, damaged, broken, \
         fraud, fraudulent, hacked, compromised, unauthorized, charged twice, double charged, \
         duplicate, overcharged, wrong amount, wrong exchange rate, extra fee, not working, doesn't \
         work, does not work, won't work, isn't working, didn't work, not recognised, not \
         recognized, don't recognize, don't recognise, hasn't arrived, has not arrived, not arrived, \
         didn't arrive, not showing, not received, disappeared, error",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EntityKind::*;

    fn found(text: &str) -> Vec<(EntityKind, String)> {
        find(text).into_iter().map(|entity| (entity.kind, entity.value)).collect()
    }

    #[track_caller]
    fn assert_finds(text: &str, expected: &[(EntityKind, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(kind, value)| (*kind, (*value).to_owned())).collect();
        assert_eq!(found(text), expected, "{text}");
    }

    #[test]
    fn sums_are_found_in_every_common_way_of_writing_them() {
        assert_finds(
            "I lost £20, €5.50 and 1,000 dollars",
            &[(Problem, "lost"), (Amount, "£20"), (Amount, "€5.50"), (Amount, "1,000 dollars")],
        );
        assert_finds("a fee of 3eur?", &[(Amount, "3eur")]);
    }

    #[test]
    fn days_and_spans_of_time_are_dates() {
        assert_finds(
            "Ordered two weeks ago, on 3 March, paid last Friday",
            &[(Date, "two weeks ago"), (Date, "3 March"), (Date, "last Friday")],
        );
        assert_finds(
            "It takes 5 business days. Since 12/03/2024?",
            &[(Date, "5 business days"), (Date, "12/03/2024")],
        );
        assert_finds("May I ask something?", &[]);
    }

    #[test]
    fn a_country_in_capitals_is_not_the_pronoun() {
        assert_finds(
            "Can you tell us if it works in the US or Spain?",
            &[(Country, "US"), (Country, "Spain")],
        );
    }

    #[test]
    fn the_longest_phrase_wins() {
        assert_finds(
            "My disposable virtual card was charged twice",
            &[(Card, "disposable virtual card"), (Problem, "charged twice")],
        );
    }

    #[test]
    fn shops_are_names_after_a_preposition() {
        assert_finds(
            "Charged by Corner Coffee, not at home. I'm from Amazon",
            &[(Merchant, "Corner Coffee"), (Merchant, "Amazon")],
        );
    }

    #[test]
    fn contact_details_are_found_and_plain_numbers_are_not() {
        assert_finds(
            "Write to jo@example.org or call +44 20 7946 0000, order 1234567",
            &[(Email, "jo@example.org"), (Phone, "+44 20 7946 0000")],
        );
    }

    #[test]
    fn text_in_any_script_is_cut_at_letters() {
        assert_eq!(found("«ñandú» — 日本 😀 …"), []);
    }
}
