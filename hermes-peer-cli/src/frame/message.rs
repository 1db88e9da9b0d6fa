//! Data frames: pieces of a stream's messages, put together again as far as needed to say what each byte is.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::ContentType;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Merge;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Outcome;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::Prelude;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::Target;
use hermes_peer_proto::wire::Topic;
use serde_json::Value;

use super::payload;
use super::walk::Field;
use super::walk::Origin;
use super::walk::Walk;
use super::walk::Wrong;
use super::walk::hex;
use super::walk::offset;

/// What is said when a message does not parse and there was none before it on its stream.
const MAYBE_CONTINUED: &str =
    "; if this frame goes on with a message of an earlier frame, put that frame before it";

/// The messages that have begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Messages {
    open: BTreeMap<Key, Open>,
    seen: BTreeSet<Key>,
}

/// Stream and message type.
type Key = (u32, u8);

#[derive(Debug)]
struct Open {
    message_type: MessageType,
    /// The frame that it began in.
    frame: usize,
    /// Prelude and envelope, and where they stand.
    head: Vec<u8>,
    origins: Vec<Origin>,
    /// Bytes of the body: all of them and those that were there. Known once the head is whole.
    body: Option<(u64, u64)>,
}

/// Where a payload comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) message_type: MessageType,
    pub(super) stream: u32,
    pub(super) frame: usize,
    /// Of the payload in the input.
    pub(super) offset: usize,
}

impl Source {
    fn key(self) -> Key {
        (self.stream, self.message_type.number())
    }
}

impl Messages {
    /// Goes through the payload of a data frame.
    pub(super) fn walk(
        &mut self,
        source: Source,
        payload: &[u8],
        fields: &mut Vec<Field>,
    ) -> Result<(), Wrong> {
        let key = source.key();
        let mut at = 0;
        while at < payload.len() {
            let mut open = self.open.remove(&key).unwrap_or_else(|| Open::new(source));
            let rest = &payload[at..];
            let taken = if open.body.is_none() {
                let taken = open.take_head(rest, source.offset + at, fields);
                let is_first = !self.seen.contains(&key);
                taken.map_err(|wrong| if is_first { hinted(wrong) } else { wrong })?
            } else {
                open.take_body(rest, source.offset + at, fields)?
            };
            at += taken;
            if open.is_whole() {
                self.seen.insert(key);
            } else {
                self.open.insert(key, open);
            }
        }
        Ok(())
    }

    /// Whether a message of this stream has begun and not ended, for people.
    pub(super) fn unfinished_on(&self, source: Source) -> Option<String> {
        self.open.get(&source.key()).map(Open::lack)
    }

    /// What the input has not the end of, for people.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = String> {
        self.open.iter().map(|((stream, _), open)| format!("on stream {stream}, {}", open.lack()))
    }
}

impl Open {
    fn new(source: Source) -> Self {
        Self {
            message_type: source.message_type,
            frame: source.frame,
            head: Vec::new(),
            origins: Vec::new(),
            body: None,
        }
    }

    fn is_whole(&self) -> bool {
        self.body.is_some_and(|(all, got)| all == got)
    }

    fn lack(&self) -> String {
        let what = format!("the {} message of frame {} is not whole", self.message_type.name(), self.frame);
        match self.body {
            Some((all, got)) => format!("{what}: {got} of {all} bytes of its body are here"),
            None => format!("{what}: its envelope is cut"),
        }
    }

    /// Takes bytes until prelude and envelope are whole, and goes through them then.
    fn take_head(&mut self, bytes: &[u8], at: usize, fields: &mut Vec<Field>) -> Result<usize, Wrong> {
        let before = self.head.len();
        self.origins.push(Origin { at: before, offset: at });
        self.head.extend_from_slice(bytes);
        let prelude = Prelude::parse(&self.head).map_err(|error| Wrong {
            offset: offset(&self.origins, 0),
            field: "message".to_owned(),
            why: format!("expected the lengths of envelope and body: {error}"),
        })?;
        let whole = prelude.map(|(prelude, len)| (prelude, len, len + prelude.envelope_len as usize));
        let Some((prelude, prelude_len, head_len)) =
            whole.filter(|(.., head_len)| *head_len <= self.head.len())
        else {
            let meaning = "of a message's lengths and envelope, which are shown where they end";
            fields.push(piece("part", at, bytes, hex(bytes).into(), meaning.to_owned()));
            return Ok(bytes.len());
        };
        self.head.truncate(head_len);
        let mut walk = Walk::new(&self.head[..prelude_len], &self.origins, "", fields);
        walk.field::<u32>("envelope_length", "bytes of the envelope")?;
        walk.field::<u32>("body_length", "bytes of the body")?;
        let mut shifted = vec![Origin { at: 0, offset: offset(&self.origins, prelude_len) }];
        let later = self.origins.iter().filter(|origin| origin.at > prelude_len);
        shifted.extend(later.map(|origin| Origin { at: origin.at - prelude_len, ..*origin }));
        envelope(&self.head[prelude_len..], &shifted, fields)?;
        self.body = Some((prelude.body_len.into(), 0));
        Ok(head_len - before)
    }

    fn take_body(&mut self, bytes: &[u8], at: usize, fields: &mut Vec<Field>) -> Result<usize, Wrong> {
        let Some((all, got)) = &mut self.body else {
            return Ok(0);
        };
        let count = usize::try_from(*all - *got).map_or(bytes.len(), |left| left.min(bytes.len()));
        let bytes = &bytes[..count];
        let first = *got;
        *got += count as u64;
        let is_all = first == 0 && *got == *all;
        if is_all && self.message_type == MessageType::Error && Fault::decode(bytes).is_ok() {
            let origins = [Origin { at: 0, offset: at }];
            payload::fault(&mut Walk::new(bytes, &origins, "body.", fields))?;
            return Ok(count);
        }
        let (value, kind) = body(bytes, is_all);
        let meaning = if is_all {
            format!("the body, as {kind}")
        } else {
            let from =
                if first == 0 { String::new() } else { format!(", continued from frame {}", self.frame) };
            format!("bytes {first} to {} of the body's {all}{from}, as {kind}", *got - 1)
        };
        fields.push(piece("body", at, bytes, value, meaning));
        Ok(count)
    }
}

fn hinted(wrong: Wrong) -> Wrong {
    Wrong { why: wrong.why + MAYBE_CONTINUED, ..wrong }
}

fn piece(name: &str, offset: usize, bytes: &[u8], value: Value, meaning: String) -> Field {
    let head = bytes.iter().take(8).copied().collect();
    Field { name: name.to_owned(), offset, len: bytes.len(), head, value, meaning }
}

/// JSON if it is, else text if it is, else hex.
fn body(bytes: &[u8], is_all: bool) -> (Value, &'static str) {
    if is_all && let Ok(value) = serde_json::from_slice(bytes) {
        return (value, "JSON");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), "text"),
        Err(_) => (hex(bytes).into(), "hex"),
    }
}

/// The fields of an envelope, by the bits of the mask before them.
type EnvelopeField = (&'static str, &'static str, fn(&mut Walk<'_>, &str, &str) -> Result<(), Wrong>);

const ENVELOPE: [EnvelopeField; 23] = [
    ("target", "whom the call is for", plain::<Target>),
    ("capability", "the operation called", |w, n, m| w.name::<CapabilityName>(n, m)),
    ("wanted", "lowest version of it that will do", payload::version),
    ("topic", "what the event is about", |w, n, m| w.name::<Topic>(n, m)),
    ("message_id", "this message", id),
    ("correlation_id", "the first message of the story", id),
    ("causation_id", "the message that this one follows from", id),
    ("session", "the collaboration it belongs to", id),
    ("idempotency_key", "one key, one run", |w, n, m| w.text(n, m)),
    ("time_left", "what is left of the deadline", micros),
    ("composed_at", "microseconds since 1970 by the sender's clock", plain::<u64>),
    ("expires_after", "when it loses its point after that", micros),
    ("path", "the capabilities at work on the way here, first one first", |w, n, m| w.list(n, m, hop)),
    ("hops", "nodes passed", plain::<u8>),
    ("budget", "what may be spent, in the application's units", plain::<u64>),
    ("trace", "W3C Trace Context", trace),
    ("on_behalf_of", "whose wish this is", |w, n, m| w.name::<AgentUri>(n, m)),
    ("content_type", "what the body's bytes are", plain::<ContentType>),
    ("slots", "values with a request, writes with an answer", |w, n, m| w.list(n, m, slot)),
    ("outcome", "what the answer's body is", plain::<Outcome>),
    ("lagged", "events lost before this one", plain::<u64>),
    ("attempt", "which try this is, from 0", plain::<u8>),
    ("extra", "what later versions add", |w, n, _| payload::extra(w, n)),
];

fn envelope(bytes: &[u8], origins: &[Origin], fields: &mut Vec<Field>) -> Result<(), Wrong> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut walk = Walk::new(bytes, origins, "envelope.", fields);
    let show = |mask: &u32| format!("{mask:#x}").into();
    let mask = walk.field_as("mask", show, |mask| format!("which fields follow: {}", mask.count_ones()))?;
    if mask >> ENVELOPE.len() != 0 {
        return Err(walk.wrong(
            0,
            "mask",
            format!("bits 0 to {} have a meaning, and another is set", ENVELOPE.len() - 1),
        ));
    }
    for (bit, (name, meaning, field)) in ENVELOPE.iter().enumerate() {
        if mask & (1 << bit) != 0 {
            field(&mut walk, name, meaning)?;
        }
    }
    // What single fields do not show: limits, and mandatory fields that nobody here knows.
    if walk.at() == bytes.len()
        && let Err(error) = Envelope::decode(bytes)
    {
        return Err(walk.wrong(0, "mask", error.to_string()));
    }
    walk.end("mask")
}

fn plain<T: serde::Serialize + serde::de::DeserializeOwned>(
    w: &mut Walk<'_>,
    name: &str,
    meaning: &str,
) -> Result<(), Wrong> {
    w.field::<T>(name, meaning).map(|_| ())
}

fn id(w: &mut Walk<'_>, name: &str, meaning: &str) -> Result<(), Wrong> {
    w.fixed(name, 16, meaning)
}

fn micros(w: &mut Walk<'_>, name: &str, meaning: &str) -> Result<(), Wrong> {
    let show = |micros: &u64| (*micros).into();
    let explain = |micros: &u64| format!("{meaning}: {:?}", Duration::from_micros(*micros));
    w.field_as(name, show, explain).map(|_| ())
}

fn hop(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.name::<NodeId>("node", "who handled it")?;
    w.name::<CapabilityName>("capability", "under which name")
}

fn trace(w: &mut Walk<'_>, name: &str, _: &str) -> Result<(), Wrong> {
    w.within(name, |w| {
        w.fixed("trace_id", 16, "the whole story")?;
        w.fixed("parent_id", 8, "the sender's part in it")?;
        w.field::<u8>("flags", "bit 0: sampled")?;
        w.text("state", "vendors' own")
    })
}

fn slot(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.name::<SlotName>("name", "which slot")?;
    w.field::<u64>("version", "the value's; of a write, the one it was based on")?;
    w.field::<Merge>("merge", "how a write is joined to what is there")?;
    w.text("value", "JSON")
}
