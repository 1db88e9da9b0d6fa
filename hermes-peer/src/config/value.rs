//! Values as they are written: durations, sizes, secrets. What cannot be kept exactly is refused, never rounded.

use std::ops::RangeInclusive;
use std::time::Duration;

use hermes_peer_proto::security::Token;

/// Longest duration that is taken: more is a slip of the keyboard, and timers stay far from overflow.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);
const DURATION_FORMS: &str =
    "write a number and its unit, one of ms, s, m, h, d, such as `20s`, `500ms`, `1h30m` or `1.5s`";
const SIZE_FORMS: &str =
    "write a number and its unit, one of B, KiB, MiB, GiB, kB, MB, GB, such as `64MiB` or `256KiB`";
const DURATION_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];
/// Most digits of one number: with the largest unit still far inside 128 bits.
const MAX_DIGITS: usize = 18;

/// Why a value is refused. It does not quote the value, so that a secret can be refused too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// What is wrong, to be read after the value: `has no unit`.
    pub(super) what: String,
    /// What would be right.
    pub(super) remedy: String,
}

impl Refused {
    pub(super) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// A value that is refused, to be read after it: `has no unit; write a number and its unit`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}{remedy}", if remedy.is_empty() { "" } else { "; " })]
pub struct InvalidValue {
    what: String,
    remedy: String,
}

impl From<Refused> for InvalidValue {
    fn from(refused: Refused) -> Self {
        Self { what: refused.what, remedy: refused.remedy }
    }
}

/// Reads a token as it stands in a file, in the environment or in the configuration. Blanks at either end and control
/// characters are refused instead of guessed about: the other side would have to make the same guess.
pub(super) fn token(bytes: &[u8]) -> Result<Token, Refused> {
    let token = Token::parse(bytes).map_err(|error| Refused::new(format!("is refused: {error}"), ""))?;
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(Refused::new("is no UTF-8 text", "make one with `openssl rand -hex 32`"));
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.trim() != text || text.contains(char::is_control) {
        return Err(Refused::new(
            "is a token with a blank at an end or a control character in it",
            "take it out, here and on the other nodes: a token is compared to the byte",
        ));
    }
    Ok(token)
}

/// Reads a duration within bounds; nothing else than the exact value is given.
pub(super) fn duration(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, Refused> {
    let nanos = amount(text, &DURATION_UNITS, true, DURATION_FORMS)?;
    let value = u64::try_from(nanos).map(Duration::from_nanos).unwrap_or(Duration::MAX);
    if value > *bounds.end() {
        return Err(Refused::new("is too long", format!("{:?} is the most", bounds.end())));
    }
    if value < *bounds.start() {
        return Err(Refused::new("is too short", format!("{:?} is the least", bounds.start())));
    }
    Ok(value)
}

/// Reads a size in bytes within bounds.
pub(super) fn size(text: &str, bounds: &RangeInclusive<u64>) -> Result<u64, Refused> {
    let bytes = amount(text, &SIZE_UNITS, false, SIZE_FORMS)?;
    let value = u64::try_from(bytes).unwrap_or(u64::MAX);
    in_bounds(value, bounds, " bytes")
}

/// Reads a count within bounds: decimal digits and nothing else.
pub(super) fn count(text: &str, bounds: &RangeInclusive<u64>) -> Result<u64, Refused> {
    let is_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits {
        return Err(Refused::new(
            "is no count",
            format!("write a whole number, {} to {}", bounds.start(), bounds.end()),
        ));
    }
    in_bounds(text.parse().unwrap_or(u64::MAX), bounds, "")
}

fn in_bounds(value: u64, bounds: &RangeInclusive<u64>, unit: &str) -> Result<u64, Refused> {
    if value > *bounds.end() {
        return Err(Refused::new("is too much", format!("{}{unit} is the most", bounds.end())));
    }
    if value < *bounds.start() {
        return Err(Refused::new("is too little", format!("{}{unit} is the least", bounds.start())));
    }
    Ok(value)
}

/// Reads numbers with units, largest unit first, in the smallest unit. Zero is refused everywhere: it means *at once*
/// to one reader and *never* to another.
fn amount(text: &str, units: &[(&str, u64)], can_join: bool, forms: &str) -> Result<u128, Refused> {
    let refused = |what: &str| Err(Refused::new(what, forms));
    if text.trim().is_empty() {
        return refused("is empty");
    }
    if text.starts_with('-') {
        return refused("is negative");
    }
    let (mut total, mut rest, mut used) = (0_u128, text, 0);
    while !rest.is_empty() {
        let (number, after) = split_at_first(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, after) = split_at_first(after, |c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            return refused("does not begin with a number");
        }
        if unit.is_empty() {
            return refused("has no unit");
        }
        let Some(index) = units.iter().position(|(name, _)| *name == unit) else {
            let near = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
            return refused(&near.map_or_else(
                || "has an unknown unit".to_owned(),
                |(name, _)| format!("has a unit in the wrong case, which would be `{name}`"),
            ));
        };
        if index < used || !can_join && !after.is_empty() || number.contains('.') && !after.is_empty() {
            return refused("is not in one of the forms that are read");
        }
        used = index + 1;
        match scaled(number, units[index].1) {
            Some(part) => total += part,
            None => return refused("cannot be kept exactly"),
        }
        rest = after;
    }
    if total == 0 { refused("is zero, which is never taken to mean `off` or `at once`") } else { Ok(total) }
}

fn split_at_first(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

/// `number` times `unit` if that is a whole number.
fn scaled(number: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_decimal = !number.contains('.') || !fraction.is_empty() && !fraction.contains('.');
    if whole.is_empty() || !is_decimal || whole.len() > MAX_DIGITS || fraction.len() > MAX_DIGITS {
        return None;
    }
    let whole = whole.parse::<u128>().ok()? * u128::from(unit);
    if fraction.is_empty() {
        return Some(whole);
    }
    let part = fraction.parse::<u128>().ok()? * u128::from(unit);
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    (part % scale == 0).then_some(whole + part / scale)
}

/// Reads one of a few words.
pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Refused> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        Refused::new("is none of the words that can stand here", format!("write {}", words.join(" or ")))
    })
}
