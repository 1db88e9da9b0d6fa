//! Patterns of policy rules.

use std::fmt;
use std::str::FromStr;

use crate::wire::AgentUri;
use crate::wire::MAX_CAPABILITY;
use crate::wire::MAX_SEGMENT;
use crate::wire::TopicPattern;

const ANY_WORD: &str = "*";
const ANY_REST: &str = "**";
const AGENT_SCHEME: &str = "agent://";

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no {kind}: {rule}")]
pub struct InvalidPattern {
    given: String,
    kind: &'static str,
    rule: &'static str,
}

impl InvalidPattern {
    fn new(given: &str, kind: &'static str, rule: &'static str) -> Self {
        let given = given.chars().take(80).flat_map(char::escape_debug).collect();
        Self { given, kind, rule }
    }

    /// What a pattern of this kind looks like.
    pub fn rule(&self) -> &'static str {
        self.rule
    }
}

/// Which capabilities, topics or slots a rule is about: words joined by dots, where `*` stands for any one word, `**` as the
/// last one for any rest of at least one word, and `*` alone for everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(given: &str) -> Result<Self, InvalidPattern> {
        if given == ANY_WORD {
            return Ok(Self(ANY_REST.to_owned()));
        }
        let (head, last) = given
            .rsplit_once('.')
            .map_or((None, given), |(head, last)| (Some(head), last));
        let is_good = given.len() <= MAX_CAPABILITY
            && head.is_none_or(|head| head.split('.').all(is_word_or_star))
            && (last == ANY_REST || is_word_or_star(last));
        if is_good {
            Ok(Self(given.to_owned()))
        } else {
            Err(InvalidPattern::new(
                given,
                "pattern",
                "words of a-z, 0-9, `_` and `-`, or `*` for any one word, joined by dots; `**` last for any rest; \
                 `*` alone for everything; such as `knowledge.*`",
            ))
        }
    }
}

fn is_word_or_star(word: &str) -> bool {
    word == ANY_WORD
        || (!word.is_empty()
            && word
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-')))
}

impl Pattern {
    /// Whether the pattern covers this name.
    pub fn covers(&self, name: &str) -> bool {
        self.walk(name, |own, theirs| own == ANY_WORD || own == theirs)
    }

    /// Whether it covers every topic that `other` covers.
    pub fn covers_all_of(&self, other: &TopicPattern) -> bool {
        // A `**` on the other side reaches further than any one word of this side.
        self.walk(other.as_str(), |own, theirs| {
            theirs != ANY_REST && (own == ANY_WORD || own == theirs)
        })
    }

    /// Whether there can be a topic that both cover.
    pub fn overlaps(&self, other: &TopicPattern) -> bool {
        let (mut own, mut theirs) = (self.0.split('.'), other.as_str().split('.'));
        loop {
            match (own.next(), theirs.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if a == ANY_REST || b == ANY_REST => return true,
                (Some(a), Some(b)) if a == ANY_WORD || b == ANY_WORD || a == b => {}
                _ => return false,
            }
        }
    }

    fn walk(&self, name: &str, fits: fn(&str, &str) -> bool) -> bool {
        let mut words = name.split('.');
        for own in self.0.split('.') {
            match words.next() {
                Some(_) if own == ANY_REST => return true,
                Some(word) if fits(own, word) => {}
                _ => return false,
            }
        }
        words.next().is_none()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which agents a rule is about: `agent://tenant/space/name`, where `*` stands for any one segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentPattern(String);

impl FromStr for AgentPattern {
    type Err = InvalidPattern;

    fn from_str(given: &str) -> Result<Self, InvalidPattern> {
        let segments = given.strip_prefix(AGENT_SCHEME).map(|rest| rest.split('/'));
        match segments {
            Some(segments) if segments.clone().count() == 3 && segments.clone().all(is_segment_or_star) => {
                Ok(Self(given.to_owned()))
            }
            _ => Err(InvalidPattern::new(
                given,
                "agent pattern",
                "agent://tenant/space/name, where `*` can stand for a whole part, such as `agent://default/support/*`",
            )),
        }
    }
}

fn is_segment_or_star(segment: &str) -> bool {
    segment == ANY_WORD
        || ((1..=MAX_SEGMENT).contains(&segment.len())
            && segment
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-')))
}

impl AgentPattern {
    /// Whether the pattern covers this agent.
    pub fn covers(&self, agent: &AgentUri) -> bool {
        // Both have five parts between slashes: scheme, nothing, tenant, space and name.
        self.0
            .split('/')
            .zip(agent.as_str().split('/'))
            .all(|(own, part)| own == ANY_WORD || own == part)
    }
}

impl fmt::Display for AgentPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_star_is_one_word_and_alone_everything() {
        for (text, covered, not_covered) in [
            ("knowledge.*", "knowledge.retrieve", "knowledge.base.retrieve"),
            ("knowledge.*", "knowledge.retrieve", "knowledgex.retrieve"),
            ("knowledge.**", "knowledge.base.retrieve", "knowledge"),
            ("knowledge.retrieve", "knowledge.retrieve", "knowledge.retrieve2"),
            ("*.retrieve", "knowledge.retrieve", "knowledge.base.retrieve"),
        ] {
            assert!(pattern(text).covers(covered), "{text}");
            assert!(!pattern(text).covers(not_covered), "{text}");
        }
        for everything in ["*", "**"] {
            assert!(pattern(everything).covers("intent") && pattern(everything).covers("a.b.c"));
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_its_rule() {
        for text in [
            "", ".", "a.", ".a", "a..b", "**.a", "a.**.b", "know*", "A.b", "a b", "***",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        for text in [
            "",
            "*",
            "agent://*",
            "agent://a/b",
            "agent://a/b/c/d",
            "agent://a/b/",
            "agent://a/b/nlu-*",
            "agent://A/b/c",
            "agent://a/**/c",
            "spiffe://a/b/c",
        ] {
            assert!(text.parse::<AgentPattern>().is_err(), "{text}");
        }
        let text = "kno wledge.*".parse::<Pattern>().unwrap_err().to_string();
        assert!(
            text.contains("`kno wledge.*`") && text.contains("such as `knowledge.*`"),
            "{text}"
        );
    }

    #[test]
    fn agents_are_covered_part_by_part_and_never_by_prefix() {
        // FC-022
        let covers = |pattern: &str, agent: &str| {
            pattern
                .parse::<AgentPattern>()
                .unwrap()
                .covers(&agent.parse().unwrap())
        };
        assert!(covers("agent://default/support/*", "agent://default/support/nlu"));
        assert!(covers("agent://*/support/nlu", "agent://acme/support/nlu"));
        assert!(covers(
            "agent://default/support/nlu",
            "agent://default/support/nlu"
        ));
        assert!(!covers(
            "agent://default/support/nlu",
            "agent://default/support/nlu-admin"
        ));
        assert!(!covers("agent://default/support/*", "agent://default/sales/nlu"));
        assert!(!covers("agent://default/*/*", "agent://acme/support/nlu"));
    }

    fn any_words(wild: bool) -> impl Strategy<Value = String> {
        let word = if wild { "[ab]|\\*" } else { "[ab]" };
        (
            prop::collection::vec(word, 0..3),
            if wild { "[ab]|\\*|\\*\\*" } else { "[ab]" },
        )
            .prop_map(|(mut words, last)| {
                words.push(last);
                words.join(".")
            })
    }

    proptest! {
        #[test]
        fn covering_and_overlapping_agree_with_single_topics(
            rule in any_words(true),
            wanted in any_words(true),
            rest in any_words(false),
        ) {
            let rule = pattern(&rule);
            let Ok(wanted) = format!("a.{wanted}").parse::<TopicPattern>() else { return Ok(()) };
            let topic = format!("a.{rest}").parse().unwrap();
            if wanted.covers(&topic) {
                prop_assert!(!rule.covers_all_of(&wanted) || rule.covers(topic.as_str()));
                prop_assert!(rule.overlaps(&wanted) || !rule.covers(topic.as_str()));
            }
        }
    }
}
