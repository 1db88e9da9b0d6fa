use std::time::Duration;

use bytes::Bytes;
use hermes_peer_proto::wire::Ack;
use hermes_peer_proto::wire::Advertise;
use hermes_peer_proto::wire::Announced;
use hermes_peer_proto::wire::AuthKind;
use hermes_peer_proto::wire::Cancel;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityVersion;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Established;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Field as Extra;
use hermes_peer_proto::wire::Frame as WireFrame;
use hermes_peer_proto::wire::GoAway;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::Heartbeat;
use hermes_peer_proto::wire::Hop;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::LinkId;
use hermes_peer_proto::wire::Merge;
use hermes_peer_proto::wire::MessageId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Outcome;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::Resume;
use hermes_peer_proto::wire::Resumed;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotValue;
use hermes_peer_proto::wire::Subscribe;
use hermes_peer_proto::wire::Syn;
use hermes_peer_proto::wire::SynAck;
use hermes_peer_proto::wire::Target;
use hermes_peer_proto::wire::TokenId;
use hermes_peer_proto::wire::Trace;
use hermes_peer_proto::wire::Window;
use hermes_peer_proto::wire::encode_head;

use super::*;

/// A call of `demo.echo` with 30 s left and the body `{}`.
const GOLDEN: [u8; 35] = [
    0x48, 0x52, 0x4d, 0x53, // magic
    0x02, // version 2
    0x02, // FIN
    0x04, // REQUEST
    0x03, 0x00, 0x00, 0x00, // stream 3
    0x14, 0x00, 0x00, 0x00, // payload of 20 bytes
    0x10, 0x02, // envelope of 16 bytes, body of 2
    0x82, 0x04, // bits 1 and 9
    0x09, b'd', b'e', b'm', b'o', b'.', b'e', b'c', b'h', b'o', // capability
    0x80, 0x87, 0xa7, 0x0e, // 30,000,000 microseconds
    b'{', b'}',
];

fn decode_all(bytes: &[u8]) -> (Vec<Decoded>, Vec<String>) {
    let (mut messages, mut frames, mut at) = (Messages::default(), Vec::new(), 0);
    while at < bytes.len() {
        let frame = Decoded::new(frames.len() + 1, bytes, at, &mut messages);
        at = frame.end;
        frames.push(frame);
    }
    let notes = messages.unfinished().collect();
    (frames, notes)
}

fn wrong(bytes: &[u8]) -> Wrong {
    let (frames, _) = decode_all(bytes);
    frames.last().unwrap().wrong.clone().unwrap()
}

fn field<'a>(frame: &'a Decoded, name: &str) -> &'a Field {
    let found = frame.fields.iter().find(|field| field.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {:#?}", frame.fields))
}

fn encoded(frame: &WireFrame) -> Vec<u8> {
    [&frame.header(2).encode()[..], &frame.payload[..]].concat()
}

fn control(message_type: MessageType, payload: impl Into<Bytes>) -> Vec<u8> {
    encoded(&WireFrame::control(message_type, StreamId::LINK, payload))
}

/// The fields lie side by side from the frame's first byte to its last.
fn assert_covered(frame: &Decoded) {
    assert_eq!(frame.wrong, None);
    let mut at = frame.offset;
    for field in &frame.fields {
        assert_eq!(field.offset, at, "{}", field.name);
        at += field.len;
    }
    assert_eq!(at, frame.end);
}

fn announced() -> Announced {
    Announced {
        max_message: 16_777_216,
        max_chunk: 32_753,
        stream_window: 262_144,
        link_window: 8_388_608,
        event_window: 1_048_576,
        max_streams: 1024,
        heartbeat_ms: 40_000,
    }
}

fn extra() -> Vec<Extra> {
    vec![Extra { tag: 900, mandatory: false, value: vec![1, 2] }]
}

fn syn() -> Syn {
    Syn {
        min_version: 1,
        max_version: 2,
        agent: "agent://default/support/nlu".parse().unwrap(),
        node: "nlu-agent-01".parse().unwrap(),
        epoch: Epoch(1_790_000_000_000_000),
        nonce: [7; 32],
        auth: AuthKind::Token,
        token_ids: vec![TokenId([1; 8]), TokenId([2; 8])],
        announced: announced(),
        resume: Some(Resume { link: LinkId::from_bytes([9; 16]), received: 300, proof: [8; 32] }),
        fields: extra(),
    }
}

fn syn_ack(resumed: Resumed) -> SynAck {
    SynAck {
        version: 2,
        agent: "agent://default/support/retrieval".parse().unwrap(),
        node: "retrieval-agent-01".parse().unwrap(),
        epoch: Epoch(5),
        nonce: [6; 32],
        token_id: Some(TokenId([1; 8])),
        announced: announced(),
        capability_digest: [5; 32],
        link: LinkId::from_bytes([9; 16]),
        resumed,
        fields: extra(),
    }
}

fn advertise() -> Advertise {
    let mut info = CapabilityInfo::new("knowledge.retrieve".parse().unwrap());
    info.version = CapabilityVersion { major: 1, minor: 4, patch: 0 };
    info.input_schema = "{\"type\":\"string\"}".to_owned();
    info.item_schema = Some("{}".to_owned());
    info.facts.idempotent = true;
    info.reads = vec!["intent".parse().unwrap()];
    info.writes = vec!["passages".parse().unwrap()];
    info.extra = extra();
    Advertise { revision: 3, part: 0, parts: 1, capabilities: vec![info] }
}

fn fault() -> Fault {
    Fault {
        retry_after_ms: Some(500),
        node: Some("b-01".parse().unwrap()),
        ..Fault::new(ErrorCode::Overloaded, "busy")
    }
}

/// One frame of each control type, every field of it set.
fn controls() -> Vec<Vec<u8>> {
    let proof = postcard::to_stdvec(&vec![0xaa_u8; 70]).unwrap();
    let with_proof = |payload: Bytes| [&payload[..], &proof[..]].concat();
    let interest = Interest { pattern: "ticket.*".parse().unwrap(), group: Some("triage".to_owned()) };
    let go_away = GoAway { reason: GoAwayReason::Draining, last_stream: 7, message: "bye".to_owned() };
    vec![
        control(MessageType::Syn, syn().encode()),
        control(MessageType::SynAck, with_proof(syn_ack(Resumed::Yes { received: 3 }).encode())),
        control(MessageType::Established, with_proof(Established { fields: extra() }.encode())),
        control(
            MessageType::Heartbeat,
            Heartbeat { epoch: Epoch(5), received: 300, token: u64::MAX, load: 12 }.encode(),
        ),
        control(MessageType::Error, fault().encode()),
        control(MessageType::Ack, Ack { received: 300 }.encode()),
        control(MessageType::Window, Window { limit: 262_144, events: 0 }.encode()),
        control(MessageType::Cancel, Cancel { code: ErrorCode::Cancelled }.encode()),
        control(MessageType::Advertise, advertise().encode()),
        control(MessageType::Subscribe, Subscribe { revision: 2, subscriptions: vec![interest] }.encode()),
        control(MessageType::GoAway, go_away.encode()),
    ]
}

fn full_envelope() -> Envelope {
    let mut envelope = Envelope::default();
    envelope.target = Some(Target::Node("b-01".parse().unwrap()));
    envelope.capability = Some("knowledge.retrieve".parse().unwrap());
    envelope.wanted = Some(CapabilityVersion { major: 1, minor: 2, patch: 0 });
    envelope.topic = Some("ticket.created".parse().unwrap());
    envelope.message_id = Some(MessageId::from_bytes([1; 16]));
    envelope.correlation_id = Some(MessageId::from_bytes([2; 16]));
    envelope.causation_id = Some(MessageId::from_bytes([3; 16]));
    envelope.session = Some(SessionId::from_bytes([4; 16]));
    envelope.idempotency_key = Some("order-17".into());
    envelope.time_left = Some(Duration::from_secs(2));
    envelope.composed_at = Some(1_790_000_000_000_000);
    envelope.expires_after = Some(5_000_000);
    envelope.path = vec![Hop { node: "a-01".parse().unwrap(), capability: "a.ask".parse().unwrap() }];
    envelope.hops = 1;
    envelope.budget = Some(900);
    envelope.trace = Some(Trace { trace_id: [5; 16], parent_id: [6; 8], flags: 1, state: "v=1".into() });
    envelope.on_behalf_of = Some("agent://default/support/human".parse().unwrap());
    envelope.content_type = hermes_peer_proto::wire::ContentType::Media("image/png".into());
    envelope.slots = vec![SlotValue {
        name: "intent".parse().unwrap(),
        version: 3,
        merge: Merge::Append,
        value: "[\"card\"]".into(),
    }];
    envelope.outcome = Outcome::NeedsInput;
    envelope.lagged = 7;
    envelope.attempt = 2;
    envelope.extra = extra();
    envelope
}

fn message(envelope: &Envelope, body: &[u8]) -> Vec<u8> {
    [&encode_head(envelope, body.len()).unwrap()[..], body].concat()
}

fn chunks(message_type: MessageType, message: &[u8], size: usize) -> Vec<u8> {
    let pieces = message.chunks(size).map(Bytes::copy_from_slice);
    pieces.flat_map(|piece| encoded(&WireFrame::data(message_type, StreamId(3), false, piece))).collect()
}

#[test]
fn a_request_is_shown_byte_by_byte() {
    let (frames, notes) = decode_all(&GOLDEN);
    assert_eq!((frames.len(), notes.len()), (1, 0));
    assert_covered(&frames[0]);
    assert_eq!(frames[0].title(), "frame 1 at byte 0: REQUEST FIN, stream 3, 20 bytes");
    let shown: Vec<_> = frames[0]
        .fields
        .iter()
        .map(|field| (field.offset, field.name.as_str(), shown(&field.value)))
        .collect();
    let expected = [
        (0, "magic", "HRMS"),
        (4, "version", "2"),
        (5, "flags", "FIN"),
        (6, "message_type", "REQUEST"),
        (7, "stream", "3"),
        (11, "payload_length", "20"),
        (15, "envelope_length", "16"),
        (16, "body_length", "2"),
        (17, "envelope.mask", "0x202"),
        (19, "envelope.capability", "demo.echo"),
        (29, "envelope.time_left", "30000000"),
        (33, "body", "{}"),
    ];
    assert_eq!(shown, expected.map(|(at, name, value)| (at, name, value.to_owned())));
    assert!(field(&frames[0], "envelope.time_left").meaning.ends_with("30s"));
}

#[test]
fn every_byte_of_every_control_frame_belongs_to_a_field() {
    for bytes in controls() {
        let (frames, _) = decode_all(&bytes);
        assert_eq!(frames.len(), 1);
        assert_covered(&frames[0]);
    }
}

#[test]
fn fields_show_what_was_sent() {
    let bytes = controls().concat();
    let (frames, _) = decode_all(&bytes);
    for (frame, name, expected) in [
        (0, "agent", "agent://default/support/nlu"),
        (0, "auth", "token"),
        (0, "token_ids[1].id", "0202020202020202"),
        (0, "announced.heartbeat_ms", "40000"),
        (0, "resume.received", "300"),
        (0, "fields[0].value", "0102"),
        (1, "resumed", "yes: 3 data frames received"),
        (1, "token_id.id", "0101010101010101"),
        (2, "proof", &"aa".repeat(70)),
        (3, "token", "18446744073709551615"),
        (4, "code", "OVERLOADED"),
        (4, "retry_after_ms", "500"),
        (4, "node.id", "b-01"),
        (7, "code", "CANCELLED"),
        (8, "capabilities[0].version", "1.4.0"),
        (8, "capabilities[0].facts.idempotent", "true"),
        (8, "capabilities[0].access", "public"),
        (9, "subscriptions[0].pattern", "ticket.*"),
        (10, "reason", "Draining"),
    ] {
        assert_eq!(shown(&field(&frames[frame], name).value), expected, "{name}");
    }
}

#[test]
fn every_field_of_an_envelope_is_shown() {
    let bytes = chunks(MessageType::Response, &message(&full_envelope(), b"\x89PNG\xff"), 4096);
    let (frames, notes) = decode_all(&bytes);
    assert_eq!(notes, Vec::<String>::new());
    assert_covered(&frames[0]);
    for (name, expected) in [
        ("target", "{\"Node\":\"b-01\"}"),
        ("wanted", "1.2.0"),
        ("session", &"04".repeat(16)),
        ("path[0].capability", "a.ask"),
        ("trace.state", "v=1"),
        ("slots[0].merge", "append"),
        ("slots[0].value", "[\"card\"]"),
        ("outcome", "NeedsInput"),
        ("attempt", "2"),
        ("extra[0].tag", "900"),
    ] {
        assert_eq!(shown(&field(&frames[0], &format!("envelope.{name}")).value), expected, "{name}");
    }
    assert_eq!(field(&frames[0], "body").value, "89504e47ff");
}

#[test]
fn a_message_in_several_frames_is_put_together_wherever_it_is_cut() {
    let body = b"{\"passages\":[1,2,3]}";
    let whole = message(&full_envelope(), body);
    for size in [1, 2, 7, 100, whole.len() - 1] {
        let bytes = chunks(MessageType::Stream, &whole, size);
        let (frames, notes) = decode_all(&bytes);
        assert!(frames.iter().all(|frame| frame.wrong.is_none()), "{size}");
        assert_eq!(notes, Vec::<String>::new());
        let fields = || frames.iter().flat_map(|frame| &frame.fields);
        let capability = fields().find(|field| field.name == "envelope.capability").unwrap();
        let name = capability.offset..;
        assert_eq!(bytes[name.start], 18, "its length is where the offset says, with pieces of {size}");
        let text: String =
            fields().filter(|field| field.name == "body").map(|field| shown(&field.value)).collect();
        assert_eq!(text.as_bytes(), body);
        let last = frames.last().unwrap();
        let is_cut = field(last, "body").meaning.contains("continued from frame 1");
        assert_eq!(is_cut, size < body.len() || size == whole.len() - 1, "{size}");
    }
}

#[test]
fn messages_of_one_frame_are_shown_one_after_the_other() {
    let item = message(&Envelope::default(), b"1");
    let (frames, _) = decode_all(&chunks(MessageType::Stream, &item.repeat(3), 4096));
    assert_covered(&frames[0]);
    assert_eq!(frames[0].fields.iter().filter(|field| field.name == "body").count(), 3);
}

#[test]
fn a_message_without_its_end_is_reported() {
    let whole = message(&Envelope::default(), b"0123456789");
    let bytes = chunks(MessageType::Request, &whole[..6], 100);
    let (_, notes) = decode_all(&bytes);
    assert_eq!(
        notes,
        ["on stream 3, the REQUEST message of frame 1 is not whole: 4 of 10 bytes of its body are here"]
    );
}

#[test]
fn an_error_on_a_stream_shows_what_failed() {
    let (frames, _) =
        decode_all(&chunks(MessageType::Error, &message(&Envelope::default(), &fault().encode()), 4096));
    assert_eq!(field(&frames[0], "body.code").value, "OVERLOADED");
    assert_covered(&frames[0]);
}

#[test]
fn the_byte_that_is_wrong_is_named() {
    let with = |at: usize, byte: u8| {
        let mut bytes = GOLDEN.to_vec();
        bytes[at] = byte;
        wrong(&bytes)
    };
    for (at, byte, field) in [
        (2, 0x4e, "magic"),
        (4, 9, "version"),
        (5, 0x22, "flags"),
        (5, 0x80, "flags"),
        (6, 77, "message_type"),
        (11, 0x15, "payload_length"),
        (22, b'E', "envelope.capability"),
        (22, 0xff, "envelope.capability"),
    ] {
        let wrong = with(at, byte);
        let expected = if byte == b'E' { 20 } else { at };
        assert_eq!((wrong.offset, wrong.field.as_str()), (expected, field), "{wrong}");
    }
    assert!(with(22, b'E').why.contains("words of a-z"), "the rule is stated");
    assert!(with(17, 0x80).why.contains("put that frame before it"));
    let ended = with(16, 3);
    assert_eq!(ended.offset, GOLDEN.len(), "FIN within a message: {ended}");
    let cut = wrong(&GOLDEN[..9]);
    assert_eq!((cut.offset, cut.field.as_str()), (9, "header"));
    let mut second = GOLDEN.to_vec();
    second.extend(&GOLDEN);
    second[35] = 0;
    assert_eq!(wrong(&second).offset, 35);
}

#[test]
fn what_is_cut_or_left_over_in_a_payload_is_named() {
    let ack = Ack { received: 300 }.encode();
    let cut = wrong(&control(MessageType::Ack, ack.slice(..1)));
    assert_eq!((cut.offset, cut.field.as_str()), (16, "received"));
    let long = wrong(&control(MessageType::Ack, [&ack[..], &[0, 0]].concat()));
    assert_eq!(long.offset, 17);
    assert!(long.why.contains("2 bytes follow"), "{long}");
    let many = wrong(&control(MessageType::Subscribe, vec![1, 0xff, 0xff, 0xff, 0xff, 0x0f]));
    assert_eq!((many.offset, many.field.as_str()), (16, "subscriptions"));
}

#[test]
fn no_bytes_make_it_panic() {
    let mut samples = controls();
    samples.push(chunks(MessageType::Request, &message(&full_envelope(), b"{}"), 64));
    for bytes in samples {
        for at in 0..bytes.len() {
            decode_all(&bytes[..at]);
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                for frame in decode_all(&flipped).0 {
                    if let Some(wrong) = frame.wrong {
                        assert!(wrong.offset <= flipped.len());
                        around(&flipped, wrong.offset);
                    }
                }
            }
        }
    }
}

#[test]
fn the_wrong_byte_stands_in_brackets() {
    assert_eq!(around(&[1, 2, 3], 1), "01 [02] 03");
    assert_eq!(around(&[1, 2, 3], 3), "01 02 03 [end of input]");
    assert_eq!(around(&[0; 40], 20), "… 00 00 00 00 00 00 00 00 [00] 00 00 00 00 00 00 00 00 …");
}
