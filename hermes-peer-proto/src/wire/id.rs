//! Names and numbers that identify things. Whoever holds one has a good one: parsing is the only way in.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;

/// Longest node id and longest segment of an agent's name, in bytes: a DNS label, so that a node can be announced by mDNS.
pub const MAX_SEGMENT: usize = 63;
/// Longest capability name, in bytes.
pub const MAX_CAPABILITY: usize = 128;
/// Longest event topic, in bytes: as for capabilities.
pub const MAX_TOPIC: usize = 128;

const AGENT_SCHEME: &str = "agent://";

/// A name that breaks the rules for its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no {kind}: {rule}")]
pub struct InvalidName {
    given: String,
    kind: &'static str,
    rule: &'static str,
}

impl InvalidName {
    /// The name's kind, such as `node id`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// What a name of this kind looks like.
    pub fn rule(&self) -> &'static str {
        self.rule
    }

    fn new(given: &str, kind: &'static str, rule: &'static str) -> Self {
        // The text goes into logs: one line, and no more of it than helps.
        let given = given.chars().take(80).flat_map(char::escape_debug).collect();
        Self { given, kind, rule }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(given: &str) -> Result<Self, InvalidName> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(given) { Ok(Self(given.into())) } else { Err(InvalidName::new(given, $kind, $rule)) }
            }
        }

        impl TryFrom<&str> for $name {
            type Error = InvalidName;

            fn try_from(given: &str) -> Result<Self, InvalidName> {
                given.parse()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Parsed(std::marker::PhantomData))
            }
        }
    };
}

/// Reads a name without an owned copy where the format can lend the text.
struct Parsed<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = InvalidName>> serde::de::Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, given: &str) -> Result<T, E> {
        given.parse().map_err(E::custom)
    }
}

name! {
    /// One running process in the mesh, such as `nlu-agent-01`. Unique among the nodes that can reach each other.
    NodeId, "node id", "1 to 63 bytes of a-z, 0-9 and `-`, such as `nlu-agent-01`",
    |given| is_segment(given, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

name! {
    /// A logical identity, `agent://tenant/space/name`. Several nodes can serve one agent.
    AgentUri, "agent",
    "agent://tenant/space/name, each part 1 to 63 bytes of a-z, 0-9, `.`, `_` and `-`",
    |given| agent_segments(given).is_some()
}

name! {
    /// A named operation, such as `knowledge.retrieve`.
    CapabilityName, "capability",
    "2 or more words of a-z, 0-9 and `_` joined by dots, 128 bytes at most, such as `knowledge.retrieve`",
    |given| given.len() <= MAX_CAPABILITY && is_dotted(given)
}

name! {
    /// A named value in a session, such as `intent`.
    SlotName, "slot", "1 to 63 bytes of a-z, 0-9, `.`, `_` and `-`, such as `intent`",
    |given| is_segment(given, is_segment_byte)
}

name! {
    /// What an event is about, such as `ticket.created`.
    Topic, "topic",
    "2 or more words of a-z, 0-9 and `_` joined by dots, 128 bytes at most, such as `ticket.created`",
    |given| given.len() <= MAX_TOPIC && is_dotted(given)
}

name! {
    /// Which topics a subscriber wants: a topic in which a word can be `*` (any word), and the last also `**` (any rest).
    TopicPattern, "topic pattern",
    "words of a-z, 0-9 and `_`, or `*` for any one word, joined by dots; `**` last for any rest; such as `ticket.*`",
    |given| given.len() <= MAX_TOPIC && is_pattern(given)
}

impl AgentUri {
    /// Which organisation the agent belongs to. Nothing crosses from one tenant to another unless a policy says so.
    pub fn tenant(&self) -> &str {
        self.segments()[0]
    }

    /// The group within the tenant.
    pub fn space(&self) -> &str {
        self.segments()[1]
    }

    /// The agent's own name.
    pub fn name(&self) -> &str {
        self.segments()[2]
    }

    fn segments(&self) -> [&str; 3] {
        agent_segments(&self.0).expect("an AgentUri was parsed when it was made")
    }
}

impl TopicPattern {
    /// Whether the pattern covers this topic.
    ///
    /// ```
    /// # use hermes_peer_proto::wire::{Topic, TopicPattern};
    /// let pattern: TopicPattern = "ticket.*".parse()?;
    /// assert!(pattern.covers(&"ticket.created".parse()?));
    /// assert!(!pattern.covers(&"ticket.note.added".parse()?));
    /// # Ok::<(), hermes_peer_proto::wire::InvalidName>(())
    /// ```
    pub fn covers(&self, topic: &Topic) -> bool {
        let mut words = topic.0.split('.');
        for expected in self.0.split('.') {
            match (expected, words.next()) {
                ("**", Some(_)) => return true,
                ("*", Some(_)) => {}
                (word, Some(got)) if word == got => {}
                _ => return false,
            }
        }
        words.next().is_none()
    }
}

fn is_segment(given: &str, is_allowed: fn(u8) -> bool) -> bool {
    (1..=MAX_SEGMENT).contains(&given.len()) && given.bytes().all(is_allowed)
}

fn agent_segments(given: &str) -> Option<[&str; 3]> {
    let mut parts = given.strip_prefix(AGENT_SCHEME)?.split('/');
    let segments = [parts.next()?, parts.next()?, parts.next()?];
    (parts.next().is_none() && segments.iter().all(|s| is_segment(s, is_segment_byte))).then_some(segments)
}

fn is_segment_byte(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-')
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn is_dotted(given: &str) -> bool {
    given.contains('.') && given.split('.').all(is_word)
}

fn is_pattern(given: &str) -> bool {
    let (head, last) = given.rsplit_once('.').unwrap_or(("*", given));
    let is_wild = |word: &str| word == "*" || is_word(word);
    head.split('.').all(is_wild) && (last == "**" || is_wild(last))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// From 16 bytes that the caller made unique.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The 16 bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(given: &str) -> Result<Self, InvalidName> {
                let refused = || InvalidName::new(given, $kind, "32 hexadecimal digits");
                if given.len() != 32 || !given.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(refused());
                }
                u128::from_str_radix(given, 16).map(|number| Self(number.to_be_bytes())).map_err(|_| refused())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    deserializer.deserialize_str(Parsed(std::marker::PhantomData))
                } else {
                    <[u8; 16]>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

id! {
    /// One collaboration. It names a session and opens nothing by itself: identity decides.
    SessionId, "session id"
}

id! {
    /// One message; what it answers or follows from refers to it.
    MessageId, "message id"
}

id! {
    /// One authenticated relation between two nodes. Connections come and go below it.
    LinkId, "link id"
}

/// Which start of a node this is: greater for a later start. Microseconds since 1970 when the node started; only the
/// order counts, so a clock that is off does no harm as long as it does not run backwards between two starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// Number of an exchange on a link. 0 is the link itself; odd numbers are opened by the link's initiator, even ones by
/// its acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId(pub u32);

impl StreamId {
    /// The link itself.
    pub const LINK: Self = Self(0);

    /// Who opens streams of this number; nobody opens the link itself.
    pub const fn opener(self) -> Option<Side> {
        match self.0 {
            0 => None,
            id if id % 2 == 1 => Some(Side::Initiator),
            _ => Some(Side::Acceptor),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The two ends of a link. Fixed when the link is made; a later connection of the same link may be dialled by either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a link has two ends")]
pub enum Side {
    /// Dialled the link's first connection.
    Initiator,
    /// Accepted the link's first connection.
    Acceptor,
}

impl Side {
    /// The first stream number that this side opens.
    pub const fn first_stream(self) -> StreamId {
        match self {
            Self::Initiator => StreamId(1),
            Self::Acceptor => StreamId(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_compared_to_the_letter() {
        // FC-022
        for refused in [
            "agent://default/support/NLU",
            "agent://default/support/nlu/",
            "agent://default/support/%6elu",
            "agent://default/support",
            "agent:/default/support/nlu",
            "agent://default//nlu",
            "spiffe://default/support/nlu",
        ] {
            assert!(refused.parse::<AgentUri>().is_err(), "{refused}");
        }
        let agent: AgentUri = "agent://default/support/nlu-agent".parse().unwrap();
        assert_eq!((agent.tenant(), agent.space(), agent.name()), ("default", "support", "nlu-agent"));
    }

    #[test]
    fn a_node_id_fits_into_a_dns_label() {
        // FC-007
        assert!("a".repeat(63).parse::<NodeId>().is_ok());
        for refused in ["a".repeat(64), String::new(), "a.b".into(), "知識".into(), "A".into()] {
            assert!(refused.parse::<NodeId>().is_err(), "{refused}");
        }
    }

    #[test]
    fn a_capability_has_two_words_or_more() {
        for good in ["a.b", "knowledge.retrieve", "hermes.peers", "a.b.c_1"] {
            assert!(good.parse::<CapabilityName>().is_ok(), "{good}");
        }
        for refused in ["echo", "a.", ".a", "a..b", "A.b", "a-b.c", "a.b ", &format!("a.{}", "b".repeat(127))]
        {
            assert!(refused.parse::<CapabilityName>().is_err(), "{refused}");
        }
    }

    #[test]
    fn a_star_is_one_word_and_two_are_any_rest() {
        let covers = |pattern: &str, topic: &str| {
            pattern.parse::<TopicPattern>().unwrap().covers(&topic.parse().unwrap())
        };
        assert!(covers("ticket.*", "ticket.created"));
        assert!(!covers("ticket.*", "ticket.note.added"));
        assert!(covers("ticket.**", "ticket.note.added"));
        assert!(covers("**", "ticket.created"));
        assert!(!covers("*.created", "ticket.closed"));
        assert!(!covers("ticket.created", "ticket.created.again"));
        for refused in ["", ".", "a.**.b", "tick*", "Ticket.*", "***"] {
            assert!(refused.parse::<TopicPattern>().is_err(), "{refused}");
        }
    }

    #[test]
    fn ids_read_what_they_print() {
        let id = SessionId::from_bytes([0xab; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for refused in ["", "ab", &"g".repeat(32), &"+".repeat(32), &"a".repeat(10_240)] {
            assert!(refused.parse::<SessionId>().is_err());
        }
    }
}
