//! Payloads of control frames, field by field as in `hermes_peer_proto::wire`.

use hermes_peer_proto::wire::Access;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::AuthKind;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::CapabilityVersion;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Resumed;
use hermes_peer_proto::wire::SECRET_LEN;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::TopicPattern;

use super::walk::Walk;
use super::walk::Wrong;

/// Goes through the payload of a control frame of this type, to its end.
pub(super) fn walk(message_type: MessageType, mut walk: Walk<'_>) -> Result<(), Wrong> {
    let w = &mut walk;
    match message_type {
        MessageType::Syn => syn(w)?,
        MessageType::SynAck => {
            syn_ack(w)?;
            proof(w)?;
        }
        MessageType::Established => {
            extra(w, "fields")?;
            proof(w)?;
        }
        MessageType::Heartbeat => heartbeat(w)?,
        MessageType::Error => fault(w)?,
        MessageType::Ack => {
            w.field::<u64>("received", "data frames received on the link so far")?;
        }
        MessageType::Window => {
            w.field::<u64>(
                "limit",
                "bytes that may be sent on the stream so far; on stream 0, on all streams together",
            )?;
            w.field::<u64>("events", "on stream 0: bytes of events that may be sent so far")?;
        }
        MessageType::Cancel => w.code("code")?,
        MessageType::Advertise => advertise(w)?,
        MessageType::Subscribe => subscribe(w)?,
        MessageType::GoAway => go_away(w)?,
        other => {
            return Err(walk.wrong(0, other.name(), "a control frame of this type has no known payload"));
        }
    }
    walk.end(message_type.name())
}

fn syn(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.field::<u8>("min_version", "lowest protocol version spoken")?;
    w.field::<u8>("max_version", "highest protocol version spoken")?;
    w.name::<AgentUri>("agent", "who dials")?;
    w.name::<NodeId>("node", "the process that dials")?;
    w.field::<u64>("epoch", "its start, in microseconds since 1970")?;
    w.fixed("nonce", SECRET_LEN, "random")?;
    w.field_as("auth", |auth: &AuthKind| auth.name().into(), |_| "how both prove who they are".to_owned())?;
    w.list("token_ids", "tokens that the dialler holds", |w| w.fixed("id", 8, "a token's fingerprint"))?;
    announced(w)?;
    w.option("resume", "the link to go on with", |w| {
        w.within("resume", |w| {
            w.fixed("link", 16, "which link")?;
            w.field::<u64>("received", "data frames received on it")?;
            w.fixed("proof", SECRET_LEN, "shows that the dialler holds the link's secret")
        })
    })?;
    extra(w, "fields")
}

fn syn_ack(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.field::<u8>("version", "the version spoken from here on")?;
    w.name::<AgentUri>("agent", "who answers")?;
    w.name::<NodeId>("node", "the process that answers")?;
    w.field::<u64>("epoch", "its start, in microseconds since 1970")?;
    w.fixed("nonce", SECRET_LEN, "random")?;
    w.option("token_id", "the token that the proofs are keyed by", |w| {
        w.fixed("token_id.id", 8, "its fingerprint")
    })?;
    announced(w)?;
    w.fixed("capability_digest", SECRET_LEN, "hash over the capabilities that it provides")?;
    w.fixed("link", 16, "the link that this connection carries")?;
    w.field_as(
        "resumed",
        |resumed: &Resumed| resumed_shown(*resumed).into(),
        |_| "how the wish to resume was answered".to_owned(),
    )?;
    extra(w, "fields")
}

fn resumed_shown(resumed: Resumed) -> String {
    match resumed {
        Resumed::New => "new: nothing was asked for".to_owned(),
        Resumed::Yes { received } => format!("yes: {received} data frames received"),
        Resumed::No { received: Some(received) } => {
            format!("no: {received} data frames received on the old link")
        }
        Resumed::No { received: None } => "no: the old link is not known".to_owned(),
    }
}

fn announced(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.within("announced", |w| {
        w.field::<u32>("max_message", "bytes of the longest message")?;
        w.field::<u32>("max_chunk", "bytes of the longest payload of a data frame")?;
        w.field::<u32>("stream_window", "bytes on a stream before more are granted")?;
        w.field::<u32>("link_window", "bytes on all streams before more are granted")?;
        w.field::<u32>("event_window", "bytes of events before more are granted")?;
        w.field::<u32>("max_streams", "streams that the other side may have open")?;
        w.field::<u32>("heartbeat_ms", "milliseconds of silence before a heartbeat")?;
        Ok(())
    })
}

fn proof(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.counted("proof", "signature or HMAC over the handshake so far")
}

fn heartbeat(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.field::<u64>("epoch", "the sender's start, in microseconds since 1970")?;
    w.field::<u64>("received", "data frames received on the link so far")?;
    w.field::<u64>("token", "sent back unchanged, with the ACK flag")?;
    w.field::<u8>("load", "how busy the sender is, 0 to 100")?;
    Ok(())
}

/// Also the body of an ERROR message on a stream.
pub(super) fn fault(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.code("code")?;
    w.text("message", "for people")?;
    w.text("details", "for programs: JSON, or nothing")?;
    w.field::<Option<u64>>("retry_after_ms", "milliseconds after which to try again")?;
    w.field::<bool>("may_have_run", "whether the handler may have run")?;
    w.option("node", "where it happened, if not at the sender", |w| w.name::<NodeId>("node.id", "the node"))
}

fn advertise(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.field::<u64>("revision", "greater than the one before")?;
    w.field::<u32>("part", "which part this is, from 0")?;
    w.field::<u32>("parts", "how many parts there are")?;
    w.list("capabilities", "what the sender provides, as far as in this part", capability)
}

fn capability(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.name::<CapabilityName>("name", "what callers name")?;
    version(w, "version", "the version provided")?;
    w.text("description", "what it does")?;
    w.text("input_schema", "JSON Schema of the input; nothing accepts anything")?;
    w.text("output_schema", "JSON Schema of the result or of each item")?;
    w.field::<Option<String>>("item_schema", "JSON Schema of each streamed input item, if it takes any")?;
    w.field::<bool>("streams", "whether the result is a stream of items")?;
    w.within("facts", |w| {
        w.field::<bool>("idempotent", "running it twice does what running it once does")?;
        w.field::<bool>("read_only", "it changes nothing")?;
        w.field::<bool>("destructive", "it may destroy what cannot be brought back")?;
        w.field::<bool>("reentrant", "it may stand in its own path")?;
        Ok(())
    })?;
    w.field::<u8>("cost", "0 (free) to 10")?;
    w.field::<Access>("access", "who may call it where no policy says otherwise")?;
    w.list("reads", "slots that travel with a request", |w| w.name::<SlotName>("name", "a slot"))?;
    w.list("writes", "slots that it may write", |w| w.name::<SlotName>("name", "a slot"))?;
    w.field::<u16>("weight", "its share of calls among the providers")?;
    extra(w, "extra")
}

/// A capability's version.
pub(super) fn version(w: &mut Walk<'_>, name: &str, meaning: &str) -> Result<(), Wrong> {
    let show = |version: &CapabilityVersion| version.to_string().into();
    w.field_as(name, show, |_| meaning.to_owned()).map(|_| ())
}

fn subscribe(w: &mut Walk<'_>) -> Result<(), Wrong> {
    w.field::<u64>("revision", "greater than the one before")?;
    w.list("subscriptions", "all that the sender wants", |w| {
        w.name::<TopicPattern>("pattern", "topics wanted")?;
        w.field::<Option<String>>("group", "the group that shares the events, if any")?;
        Ok(())
    })
}

fn go_away(w: &mut Walk<'_>) -> Result<(), Wrong> {
    let explain = |reason: &GoAwayReason| {
        match reason {
            GoAwayReason::Draining => "the node is shutting down",
            GoAwayReason::Duplicate => "another connection carries the link",
            GoAwayReason::Unauthenticated => "the certificate in use has expired or was revoked",
            GoAwayReason::RateLimited => "the receiver floods",
            GoAwayReason::Misbehaved => "the receiver broke the protocol",
            _ => "a later version's reason",
        }
        .to_owned()
    };
    w.field_as("reason", |reason| serde_json::to_value(reason).unwrap_or_default(), explain)?;
    w.field::<u32>("last_stream", "the receiver's greatest stream that was taken up")?;
    w.text("message", "for people")
}

/// What later versions add.
pub(super) fn extra(w: &mut Walk<'_>, name: &str) -> Result<(), Wrong> {
    w.list(name, "what later versions add", |w| {
        w.field::<u16>("tag", "which field it is")?;
        w.field::<bool>("mandatory", "whether who does not know it must refuse the message")?;
        w.counted("value", "what it says")
    })
}
