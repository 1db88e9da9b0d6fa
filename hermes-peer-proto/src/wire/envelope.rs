//! What stands before the body in a message.

use std::time::Duration;

use bytes::BytesMut;
use postcard::ser_flavors::Flavor;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::control::Field;
use super::error::WireError;
use super::id::AgentUri;
use super::id::CapabilityName;
use super::id::MessageId;
use super::id::NodeId;
use super::id::SessionId;
use super::id::SlotName;
use super::id::Topic;
use super::info::CapabilityVersion;

const WHAT: &str = "envelope";

/// Longest envelope, in bytes: 16 hops of longest names and some slots. Bodies are where bulk belongs.
pub const MAX_ENVELOPE: usize = 64 * 1024;
/// Longest idempotency key, in bytes.
pub const MAX_KEY: usize = 255;
/// Longest `tracestate`, in bytes, as W3C Trace Context asks its carriers to keep at least.
pub const MAX_TRACE_STATE: usize = 512;

/// Whom a call is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "a target is a logical identity or one process")]
pub enum Target {
    /// Any node that serves this agent.
    Agent(AgentUri),
    /// This node and no other.
    Node(NodeId),
}

/// One step of a call's way: who handled it, and under which name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a step is a node and a capability")]
pub struct Hop {
    /// The node.
    pub node: NodeId,
    /// The capability.
    pub capability: CapabilityName,
}

/// W3C Trace Context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the fields are those of the W3C recommendation")]
pub struct Trace {
    /// The whole story.
    pub trace_id: [u8; 16],
    /// The sender's part in it.
    pub parent_id: [u8; 8],
    /// Bit 0: sampled.
    pub flags: u8,
    /// Vendors' own, passed on unchanged.
    pub state: String,
}

/// How a slot's value is joined to what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "another kind of merging changes what sessions mean")]
pub enum Merge {
    /// The new value stands alone.
    #[default]
    Replace,
    /// The new value is appended to a list.
    Append,
    /// The new value is a JSON merge patch (RFC 7396).
    Merge,
}

/// A slot as it travels: its value with a request, a write with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "what is added travels in the envelope's extra fields")]
pub struct SlotValue {
    /// Which slot.
    pub name: SlotName,
    /// The value's version; of a write, the version it was based on. 0 is a slot never written.
    pub version: u64,
    /// How a write is joined to what is there.
    pub merge: Merge,
    /// A JSON text.
    pub value: String,
}

/// What the body's bytes are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ContentType {
    /// JSON, UTF-8.
    #[default]
    Json,
    /// postcard, between two Rust nodes that both declare it.
    Postcard,
    /// Bytes without a meaning for Hermes.
    Bytes,
    /// A media type, passed on as it is.
    Media(String),
}

/// What an answer's body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// The result.
    #[default]
    Value,
    /// A question to the caller: the body is JSON with `question`, `schema` and the opaque, signed `state`.
    NeedsInput,
}

/// What stands before the body. Every field may be absent, and an absent one costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Envelope {
    /// Whom the call is for, if not for any provider.
    pub target: Option<Target>,
    /// The operation called.
    pub capability: Option<CapabilityName>,
    /// Lowest version of it that will do.
    pub wanted: Option<CapabilityVersion>,
    /// What an event is about.
    pub topic: Option<Topic>,
    /// This message.
    pub message_id: Option<MessageId>,
    /// The first message of the story; absent in that first message itself.
    pub correlation_id: Option<MessageId>,
    /// The message that this one follows from.
    pub causation_id: Option<MessageId>,
    /// The collaboration it belongs to.
    pub session: Option<SessionId>,
    /// The caller's key: one key, one run.
    pub idempotency_key: Option<String>,
    /// What is left of the deadline, counted from when the message is read: clocks need not agree.
    pub time_left: Option<Duration>,
    /// When the message was made, in microseconds since 1970 by the sender's clock.
    pub composed_at: Option<u64>,
    /// When it loses its point, in microseconds after it was made.
    pub expires_after: Option<u64>,
    /// The capabilities that are at work on the way here, first one first.
    pub path: Vec<Hop>,
    /// How many nodes the message or its forebears have passed.
    pub hops: u8,
    /// What may be spent, in units of the application's choice. It only falls.
    pub budget: Option<u64>,
    /// Trace context; absent in a story's first message, whose message id is then the trace id.
    pub trace: Option<Trace>,
    /// The agent whose wish this is, if not the caller's own.
    pub on_behalf_of: Option<AgentUri>,
    /// What the body's bytes are.
    pub content_type: ContentType,
    /// Values that travel with a request, writes that come back with an answer.
    pub slots: Vec<SlotValue>,
    /// What an answer's body is.
    pub outcome: Outcome,
    /// Events lost at this place.
    pub lagged: u64,
    /// Which try this is, from 0.
    pub attempt: u8,
    /// What later versions add.
    pub extra: Vec<Field>,
}

/// Writes the named fields that are present, in order, behind a bit mask of which those are.
macro_rules! fields {
    ($($bit:literal $field:ident : $kind:tt)*) => {
        impl Envelope {
            /// Appends the envelope's bytes; nothing at all if every field is absent.
            pub fn encode_into(&self, out: &mut BytesMut) {
                let mask = $(fields!(@mask self $field $kind $bit))|*;
                if mask == 0 {
                    return;
                }
                put(out, &mask);
                $(fields!(@put self out $field $kind);)*
            }

            /// Reads an envelope that fills `bytes`.
            ///
            /// # Errors
            /// [`WireError`] if it does not parse, is longer than [`MAX_ENVELOPE`], breaks a field's limit, or has a
            /// mandatory extra field that this version does not know.
            pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
                let mut envelope = Self::default();
                if bytes.is_empty() {
                    return Ok(envelope);
                }
                if bytes.len() > MAX_ENVELOPE {
                    return Err(WireError::Malformed { what: WHAT, why: "it is longer than 65,536 bytes" });
                }
                let mut rest = bytes;
                let mask: u32 = take(&mut rest)?;
                if mask & !(0 $(| 1 << $bit)*) != 0 {
                    return Err(WireError::Malformed { what: WHAT, why: "a field is present that no version knows" });
                }
                $(if mask & (1 << $bit) != 0 { fields!(@take envelope rest $field $kind); })*
                if !rest.is_empty() {
                    return Err(WireError::TrailingBytes { what: WHAT, count: rest.len() });
                }
                envelope.check_limits()?;
                Ok(envelope)
            }
        }
    };
    (@mask $self:ident $field:ident option $bit:literal) => { (u32::from($self.$field.is_some()) << $bit) };
    (@mask $self:ident $field:ident list $bit:literal) => { (u32::from(!$self.$field.is_empty()) << $bit) };
    (@mask $self:ident $field:ident plain $bit:literal) => { (u32::from(!is_default(&$self.$field)) << $bit) };
    (@mask $self:ident $field:ident micros $bit:literal) => { (u32::from($self.$field.is_some()) << $bit) };
    (@put $self:ident $out:ident $field:ident option) => { if let Some(value) = &$self.$field { put($out, value) } };
    (@put $self:ident $out:ident $field:ident list) => { if !$self.$field.is_empty() { put($out, &$self.$field) } };
    (@put $self:ident $out:ident $field:ident plain) => {
        if !is_default(&$self.$field) { put($out, &$self.$field) }
    };
    (@put $self:ident $out:ident $field:ident micros) => {
        if let Some(time) = $self.$field { put($out, &u64::try_from(time.as_micros()).unwrap_or(u64::MAX)) }
    };
    (@take $envelope:ident $rest:ident $field:ident option) => { $envelope.$field = Some(take(&mut $rest)?) };
    (@take $envelope:ident $rest:ident $field:ident list) => { $envelope.$field = take(&mut $rest)? };
    (@take $envelope:ident $rest:ident $field:ident plain) => { $envelope.$field = take(&mut $rest)? };
    (@take $envelope:ident $rest:ident $field:ident micros) => {
        $envelope.$field = Some(Duration::from_micros(take(&mut $rest)?))
    };
}

fields! {
    0 target: option
    1 capability: option
    2 wanted: option
    3 topic: option
    4 message_id: option
    5 correlation_id: option
    6 causation_id: option
    7 session: option
    8 idempotency_key: option
    9 time_left: micros
    10 composed_at: option
    11 expires_after: option
    12 path: list
    13 hops: plain
    14 budget: option
    15 trace: option
    16 on_behalf_of: option
    17 content_type: plain
    18 slots: list
    19 outcome: plain
    20 lagged: plain
    21 attempt: plain
    22 extra: list
}

impl Envelope {
    fn check_limits(&self) -> Result<(), WireError> {
        let refuse = |why| Err(WireError::Malformed { what: WHAT, why });
        match () {
            () if self.idempotency_key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY) => {
                refuse("the idempotency key has not 1 to 255 bytes")
            }
            () if self.trace.as_ref().is_some_and(|trace| trace.state.len() > MAX_TRACE_STATE) => {
                refuse("the trace state is longer than 512 bytes")
            }
            () if self.extra.iter().any(|field| field.mandatory) => {
                refuse("a mandatory extra field is unknown to this version")
            }
            () => Ok(()),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Appends to a `BytesMut` what postcard writes.
struct Append<'a>(&'a mut BytesMut);

impl Flavor for Append<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.extend_from_slice(&[byte]);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

pub(super) fn put<T: Serialize>(out: &mut BytesMut, value: &T) {
    postcard::serialize_with_flavor(value, Append(out))
        .expect("envelope fields hold only what postcard can write");
}

pub(super) fn take<T: DeserializeOwned>(rest: &mut &[u8]) -> Result<T, WireError> {
    let (value, after) =
        postcard::take_from_bytes(rest).map_err(|error| WireError::malformed(WHAT, error))?;
    *rest = after;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(envelope: &Envelope) -> BytesMut {
        let mut out = BytesMut::new();
        envelope.encode_into(&mut out);
        out
    }

    fn full() -> Envelope {
        Envelope {
            target: Some(Target::Node("b-01".parse().unwrap())),
            capability: Some("knowledge.retrieve".parse().unwrap()),
            wanted: Some(CapabilityVersion { major: 1, minor: 2, patch: 0 }),
            topic: Some("ticket.created".parse().unwrap()),
            message_id: Some(MessageId::from_bytes([1; 16])),
            correlation_id: Some(MessageId::from_bytes([2; 16])),
            causation_id: Some(MessageId::from_bytes([3; 16])),
            session: Some(SessionId::from_bytes([4; 16])),
            idempotency_key: Some("order-17".into()),
            time_left: Some(Duration::from_micros(2_000_001)),
            composed_at: Some(1_790_000_000_000_000),
            expires_after: Some(5_000_000),
            path: vec![Hop { node: "a-01".parse().unwrap(), capability: "a.ask".parse().unwrap() }],
            hops: 1,
            budget: Some(900),
            trace: Some(Trace { trace_id: [5; 16], parent_id: [6; 8], flags: 1, state: "v=1".into() }),
            on_behalf_of: Some("agent://default/support/human".parse().unwrap()),
            content_type: ContentType::Media("image/png".into()),
            slots: vec![SlotValue {
                name: "intent".parse().unwrap(),
                version: 3,
                merge: Merge::Append,
                value: "[\"card\"]".into(),
            }],
            outcome: Outcome::NeedsInput,
            lagged: 7,
            attempt: 2,
            extra: vec![Field { tag: 900, mandatory: false, value: vec![1, 2] }],
        }
    }

    #[test]
    fn every_field_comes_back() {
        assert_eq!(Envelope::decode(&encoded(&full())), Ok(full()));
    }

    #[test]
    fn absent_fields_cost_nothing() {
        assert!(encoded(&Envelope::default()).is_empty());
        let call = Envelope {
            capability: Some("demo.echo".parse().unwrap()),
            time_left: Some(Duration::from_secs(30)),
            ..Envelope::default()
        };
        // Mask (2), name with its length (10), time left (4).
        assert_eq!(encoded(&call).len(), 16);
    }

    #[test]
    fn what_breaks_a_limit_is_refused() {
        let refused = [
            Envelope { idempotency_key: Some(String::new()), ..Envelope::default() },
            Envelope { idempotency_key: Some("k".repeat(256)), ..Envelope::default() },
            Envelope {
                trace: Some(Trace {
                    trace_id: [1; 16],
                    parent_id: [1; 8],
                    flags: 0,
                    state: "s".repeat(4096),
                }),
                ..Envelope::default()
            },
            Envelope {
                extra: vec![Field { tag: 1, mandatory: true, value: Vec::new() }],
                ..Envelope::default()
            },
            Envelope { idempotency_key: None, budget: Some(1), ..full() },
        ];
        for envelope in &refused[..4] {
            assert!(Envelope::decode(&encoded(envelope)).is_err());
        }
        assert!(Envelope::decode(&encoded(&refused[4])).is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_make_decoding_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            flip in 0usize..400,
            cut in 0usize..400,
        ) {
            let _ = Envelope::decode(&bytes);
            bytes = encoded(&full()).to_vec();
            let at = flip % bytes.len();
            bytes[at] ^= 1 << (flip % 8);
            bytes.truncate(bytes.len().min(cut));
            let _ = Envelope::decode(&bytes);
        }
    }
}
