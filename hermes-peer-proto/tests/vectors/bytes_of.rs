//! Headers, payloads, envelopes and messages, good and bad.

use std::time::Duration;

use bytes::BytesMut;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use hermes_peer_proto::protocol::limits::DEFAULT_ANNOUNCED;
use hermes_peer_proto::wire::Access;
use hermes_peer_proto::wire::Ack;
use hermes_peer_proto::wire::Advertise;
use hermes_peer_proto::wire::AuthKind;
use hermes_peer_proto::wire::Cancel;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityVersion;
use hermes_peer_proto::wire::ContentType;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Field;
use hermes_peer_proto::wire::Flags;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::GoAway;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::Header;
use hermes_peer_proto::wire::Heartbeat;
use hermes_peer_proto::wire::Hop;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::Merge;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Outcome;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::Prelude;
use hermes_peer_proto::wire::SECRET_LEN;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotValue;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_proto::wire::Subscribe;
use hermes_peer_proto::wire::Syn;
use hermes_peer_proto::wire::Target;
use hermes_peer_proto::wire::Trace;
use hermes_peer_proto::wire::Window;
use hermes_peer_proto::wire::WireError;
use hermes_peer_proto::wire::encode_head;

use super::hex;
use super::readable;

fn bad(name: &str, shows: &str, bytes: &[u8], error: &WireError) -> Value {
    json!({ "name": name, "shows": shows, "hex": hex(bytes), "error": error.to_string(), "code": error.code().name() })
}

pub(crate) fn headers() -> Value {
    let good = |name: &str, shows: &str, header: Header| {
        let raw = header.encode();
        assert_eq!(Header::parse(&raw), Ok(header));
        json!({ "name": name, "shows": shows, "hex": hex(&raw), "input": {
            "version": header.version,
            "flags": header.flags.names().collect::<Vec<_>>(),
            "message_type": header.message_type.name(),
            "stream": header.stream,
            "payload_length": header.payload_len,
        }})
    };
    let header = |flags, message_type, stream, payload_len| Header {
        version: 2,
        flags,
        message_type,
        stream,
        payload_len,
    };
    let mut all = vec![
        good("request", "a whole request on stream 3", header(Flags::FIN, MessageType::Request, 3, 5)),
        good("item", "an item that is not the last", header(Flags::NONE, MessageType::Stream, 2, 300)),
        good(
            "error on a stream",
            "counted, so without CONTROL",
            header(Flags::FIN.with(Flags::ERR), MessageType::Error, 7, 70_000),
        ),
        good(
            "error of the connection",
            "on stream 0 with CONTROL",
            header(Flags::CONTROL.with(Flags::ERR), MessageType::Error, 0, 20),
        ),
        good(
            "heartbeat reply",
            "the only type that carries ACK",
            header(Flags::CONTROL.with(Flags::ACK), MessageType::Heartbeat, 0, 11),
        ),
        good(
            "greatest numbers",
            "stream and length are little-endian",
            header(Flags::CONTROL, MessageType::Window, 0xfffe_fdfc, 0x0102_0304),
        ),
    ];
    let request = header(Flags::FIN, MessageType::Request, 3, 5).encode();
    let changed = |at: usize, byte: u8| {
        let mut raw = request;
        raw[at] = byte;
        raw
    };
    for (name, shows, raw) in [
        ("bad magic", "another protocol", changed(0, b'G')),
        ("reserved flag", "bits 5 and 6 have no meaning", changed(5, 0x22)),
        ("type 0", "types begin at 1", changed(6, 0)),
        ("type 16", "types end at 15", changed(6, 16)),
        ("request with CONTROL", "a data frame of a stream is counted", changed(5, 0x82)),
        ("request with ERR", "ERR stands on ERROR only", changed(5, 0x06)),
        ("request with ACK", "ACK stands on HEARTBEAT only", changed(5, 0x03)),
        ("compressed", "no version up to 2 negotiates compression", changed(5, 0x0a)),
        ("encrypted", "no version up to 2 negotiates encryption", changed(5, 0x12)),
        ("error without ERR", "ERROR always has ERR", changed(6, 9)),
        ("window without CONTROL", "control frames are not counted", changed(6, 11)),
    ] {
        all.push(bad(name, shows, &raw, &Header::parse(&raw).unwrap_err()));
    }
    let mut control_fin = header(Flags::CONTROL, MessageType::Ack, 0, 1).encode();
    control_fin[5] = 0x82;
    let error = Header::parse(&control_fin).unwrap_err();
    all.push(bad("control with FIN", "only streams end", &control_fin, &error));
    all.into()
}

fn frame_hex(frame: &Frame) -> String {
    hex(&frame.header(2).encode()) + &hex(&frame.payload)
}

fn statement<T: Payload + PartialEq>(
    message_type: MessageType,
    stream: u32,
    name: &str,
    shows: &str,
    value: &T,
) -> Value {
    let payload = value.encode();
    assert!(T::decode(&payload).unwrap() == *value);
    let frame = Frame::control(message_type, StreamId(stream), payload);
    json!({
        "name": name, "shows": shows, "type": T::NAME, "stream": stream,
        "input": readable(serde_json::to_value(value).unwrap()), "hex": frame_hex(&frame),
    })
}

fn syn() -> Syn {
    Syn {
        min_version: 1,
        max_version: 2,
        agent: "agent://default/support/nlu-agent".parse().unwrap(),
        node: "nlu-agent-01".parse().unwrap(),
        epoch: Epoch(1_700_000_000_000_000),
        nonce: [0xa1; SECRET_LEN],
        auth: AuthKind::Mtls,
        token_ids: Vec::new(),
        announced: DEFAULT_ANNOUNCED,
        resume: None,
        fields: vec![Field { tag: 300, mandatory: false, value: vec![1, 2, 3] }],
    }
}

fn capability() -> CapabilityInfo {
    let mut info = CapabilityInfo::new("knowledge.retrieve".parse().unwrap());
    info.version = CapabilityVersion { major: 1, minor: 2, patch: 0 };
    info.description = "Finds the passages that answer a question. 知識".into();
    info.input_schema = r#"{"type":"object"}"#.into();
    info.item_schema = Some("true".into());
    info.streams = true;
    info.facts.read_only = true;
    info.cost = 3;
    info.access = Access::Restricted;
    info.reads = vec!["intent".parse().unwrap()];
    info.writes = vec!["passages".parse().unwrap()];
    info.weight = 300;
    info.extra = vec![Field { tag: 7, mandatory: false, value: vec![0xff] }];
    info
}

pub(crate) fn control() -> Value {
    let mut fault = Fault::new(ErrorCode::Overloaded, "2 calls run, 2 are allowed");
    fault.details = r#"{"limit":2}"#.into();
    fault.retry_after_ms = Some(250);
    fault.node = Some("b-01".parse().unwrap());
    let subscribe = Subscribe {
        revision: 2,
        subscriptions: vec![
            Interest { pattern: "ticket.*".parse().unwrap(), group: None },
            Interest { pattern: "audit.**".parse().unwrap(), group: Some("writers".into()) },
        ],
    };
    let go_away =
        |reason, last_stream, message: &str| GoAway { reason, last_stream, message: message.into() };
    let beat = Heartbeat { epoch: Epoch(1_700_000_000_000_000), received: 300, token: 1, load: 40 };
    let advertise = Advertise { revision: 1, part: 0, parts: 1, capabilities: vec![capability()] };
    let nothing = Advertise { revision: 2, part: 0, parts: 1, capabilities: vec![] };
    use MessageType as T;
    let mut all = vec![
        statement(T::Syn, 0, "syn by certificate", "a SYN with a field of a later version, optional", &syn()),
        statement(T::Heartbeat, 0, "heartbeat", "epoch, count, token, load", &beat),
        statement(T::Ack, 0, "ack 7", "one byte", &Ack { received: 7 }),
        statement(T::Ack, 0, "ack 300", "two bytes", &Ack { received: 300 }),
        statement(T::Ack, 0, "ack of the greatest count", "ten bytes", &Ack { received: u64::MAX }),
        statement(T::Window, 5, "window of a stream", "events is 0", &Window { limit: 524_288, events: 0 }),
        statement(
            T::Window,
            0,
            "window of the link",
            "both",
            &Window { limit: 8_388_608, events: 1_048_576 },
        ),
        statement(
            T::Cancel,
            5,
            "cancel",
            "the opener's reason",
            &Cancel { code: ErrorCode::DeadlineExceeded },
        ),
        statement(T::Advertise, 0, "advertise", "every field of a capability", &advertise),
        statement(T::Advertise, 0, "advertise nothing", "one part without capabilities", &nothing),
        statement(T::Subscribe, 0, "subscribe", "a pattern alone, and one for a group", &subscribe),
        statement(
            T::GoAway,
            0,
            "go away, first phase",
            "not known yet: the greatest number",
            &go_away(GoAwayReason::Draining, u32::MAX, "restart"),
        ),
        statement(
            T::GoAway,
            0,
            "go away, second phase",
            "streams after 9 were not taken up",
            &go_away(GoAwayReason::Draining, 9, "restart"),
        ),
        statement(T::Error, 0, "error of the connection", "every field", &fault),
    ];
    let ack = |bytes: &[u8]| Ack::decode(bytes).map(drop);
    let heartbeat = |bytes: &[u8]| Heartbeat::decode(bytes).map(drop);
    let go_away = |bytes: &[u8]| GoAway::decode(bytes).map(drop);
    let error = |bytes: &[u8]| Fault::decode(bytes).map(drop);
    let subscribe = |bytes: &[u8]| Subscribe::decode(bytes).map(drop);
    type Decode<'a> = &'a dyn Fn(&[u8]) -> Result<(), WireError>;
    let cases: [(&str, &str, &str, &[u8], Decode<'_>); 8] = [
        ("empty ack", "it ends too early", "ACK", &[], &ack),
        ("ack and more", "nothing may follow a payload", "ACK", &[7, 0], &ack),
        ("ack with eleven bytes", "a u64 has ten bytes at most", "ACK", &[0x80; 11], &ack),
        ("heartbeat cut", "it ends too early", "HEARTBEAT", &[1, 2, 3], &heartbeat),
        ("unknown reason", "variants end at 4", "GO_AWAY", &[5, 0, 0], &go_away),
        ("message is no text", "UTF-8 only", "GO_AWAY", &[0, 0, 1, 0xff], &go_away),
        ("presence 2", "an option begins with 0 or 1", "ERROR", &[10, 0, 0, 2, 0, 0], &error),
        (
            "bad pattern",
            "names are checked when they are read",
            "SUBSCRIBE",
            &[1, 1, 2, b'*', b'x', 0],
            &subscribe,
        ),
    ];
    for (name, shows, kind, payload, decode) in cases {
        let mut vector = bad(name, shows, payload, &decode(payload).unwrap_err());
        vector["type"] = kind.into();
        all.push(vector);
    }
    let unknown = [200, 1, b'?', 0, 0, 0, 0];
    assert_eq!(Fault::decode(&unknown).unwrap().code, ErrorCode::Internal);
    all.push(json!({
        "name": "code of a later version", "shows": "an unknown error code is read as INTERNAL",
        "type": "ERROR", "payload": hex(&unknown), "reads_as": "INTERNAL",
    }));
    all.into()
}

/// The fields that are present, under the names of the document.
pub(crate) fn envelope_json(envelope: &Envelope) -> Value {
    let default = Envelope::default();
    let mut fields = Map::new();
    macro_rules! present {
        ($($field:ident)*) => { $(
            if envelope.$field != default.$field {
                let value = serde_json::to_value(&envelope.$field).unwrap();
                fields.insert(stringify!($field).to_owned(), readable(value));
            }
        )* };
    }
    present! {
        target capability wanted topic message_id correlation_id causation_id session idempotency_key composed_at
        expires_after path hops budget trace on_behalf_of content_type slots outcome lagged attempt extra
    }
    if let Some(time) = envelope.time_left {
        fields.insert("time_left".into(), u64::try_from(time.as_micros()).unwrap().into());
    }
    fields.into()
}

fn full_envelope() -> Envelope {
    let mut envelope = call_envelope();
    envelope.target = Some(Target::Agent("agent://default/support/retrieval-agent".parse().unwrap()));
    envelope.wanted = Some(CapabilityVersion { major: 1, minor: 2, patch: 0 });
    envelope.topic = Some("ticket.created".parse().unwrap());
    envelope.correlation_id = Some(MessageId::from_bytes([0x22; 16]));
    envelope.causation_id = Some(MessageId::from_bytes([0x33; 16]));
    envelope.session = Some(SessionId::from_bytes([0x44; 16]));
    envelope.idempotency_key = Some("order-17".into());
    envelope.composed_at = Some(1_790_000_000_000_000);
    envelope.expires_after = Some(5_000_000);
    let hop = Hop { node: "coordinator-01".parse().unwrap(), capability: "ticket.triage".parse().unwrap() };
    envelope.path = vec![hop];
    envelope.hops = 1;
    envelope.budget = Some(900);
    envelope.trace =
        Some(Trace { trace_id: [0x22; 16], parent_id: [0x11; 8], flags: 1, state: "vendor=1".into() });
    envelope.on_behalf_of = Some("agent://default/support/human".parse().unwrap());
    envelope.content_type = ContentType::Media("image/png".into());
    let slot = |name: &str, version, merge, value: &str| SlotValue {
        name: name.parse().unwrap(),
        version,
        merge,
        value: value.into(),
    };
    envelope.slots =
        vec![slot("intent", 3, Merge::Replace, "\"card_lost\""), slot("seen", 0, Merge::Append, "1")];
    envelope.outcome = Outcome::NeedsInput;
    envelope.lagged = 7;
    envelope.attempt = 2;
    envelope.extra = vec![Field { tag: 900, mandatory: false, value: vec![1, 2] }];
    envelope
}

pub(crate) fn call_envelope() -> Envelope {
    let mut envelope = Envelope::default();
    envelope.capability = Some("demo.echo".parse().unwrap());
    envelope.message_id = Some(MessageId::from_bytes([0x11; 16]));
    envelope.time_left = Some(Duration::from_secs(30));
    envelope
}

pub(crate) fn envelopes() -> Value {
    let encoded = |envelope: &Envelope| {
        let mut out = BytesMut::new();
        envelope.encode_into(&mut out);
        assert_eq!(Envelope::decode(&out).as_ref(), Ok(envelope));
        out
    };
    let good = |name: &str, shows: &str, envelope: &Envelope| json!({ "name": name, "shows": shows, "input": envelope_json(envelope), "hex": hex(&encoded(envelope)) });
    let mut node = Envelope::default();
    node.target = Some(Target::Node("b-01".parse().unwrap()));
    let mut merge = Envelope::default();
    let patch =
        SlotValue { name: "entities".parse().unwrap(), version: 2, merge: Merge::Merge, value: "{}".into() };
    merge.slots = vec![patch];
    let mut all = vec![
        good("empty", "no field, no byte", &Envelope::default()),
        good("call", "what a first call carries", &call_envelope()),
        good("to a node", "a target of the other kind", &node),
        good("write", "an answer that writes a slot by merge patch", &merge),
        good("full", "every field", &full_envelope()),
    ];
    let full = encoded(&full_envelope());
    let mut longer = full.to_vec();
    longer.push(0);
    let key = |len: usize| {
        let mut envelope = Envelope::default();
        envelope.idempotency_key = Some("k".repeat(len));
        let mut out = BytesMut::new();
        envelope.encode_into(&mut out);
        out.to_vec()
    };
    let mut mandatory = Envelope::default();
    mandatory.extra = vec![Field { tag: 900, mandatory: true, value: vec![1] }];
    let mut out = BytesMut::new();
    mandatory.encode_into(&mut out);
    for (name, shows, bytes) in [
        ("bit 23", "a field that no version up to 2 knows", vec![0x80, 0x80, 0x80, 0x04]),
        ("cut", "it ends within a field", full[..full.len() - 1].to_vec()),
        ("longer", "a byte follows the last field", longer),
        ("no key", "an idempotency key has at least one byte", key(0)),
        ("long key", "and at most 255", key(256)),
        ("mandatory extra", "a mandatory field that is not known", out.to_vec()),
    ] {
        all.push(bad(name, shows, &bytes, &Envelope::decode(&bytes).unwrap_err()));
    }
    all.into()
}

pub(crate) fn message(envelope: &Envelope, body: &[u8]) -> Vec<u8> {
    let mut bytes = encode_head(envelope, body.len()).unwrap();
    bytes.extend_from_slice(body);
    bytes.to_vec()
}

pub(crate) fn messages() -> Value {
    let good = |name: &str, shows: &str, envelope: &Envelope, body: &[u8]| {
        let input = json!({ "envelope": envelope_json(envelope), "body": hex(body) });
        json!({ "name": name, "shows": shows, "input": input, "hex": hex(&message(envelope, body)) })
    };
    let mut all = vec![
        good("nothing", "no envelope, no body: two bytes", &Envelope::default(), b""),
        good("call", "an envelope and a body", &call_envelope(), br#"{"hello":"mesh"}"#),
        good("item", "no envelope", &Envelope::default(), br#"{"token":"Hello"}"#),
        good("long", "a length of two bytes", &Envelope::default(), &[b'7'; 300]),
    ];
    for (name, shows, bytes) in [
        ("envelope too long", "65,537 bytes", vec![0x81, 0x80, 0x04, 0]),
        ("length over 4 GiB", "a length is a u32", vec![0xff, 0xff, 0xff, 0xff, 0x7f]),
        ("length without end", "five bytes at most", vec![0x80; 6]),
    ] {
        all.push(bad(name, shows, &bytes, &Prelude::parse(&bytes).unwrap_err()));
    }
    all.into()
}
