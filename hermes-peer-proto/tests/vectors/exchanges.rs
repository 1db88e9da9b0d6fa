//! What two links say to each other, frame by frame, heartbeats left out.

use std::time::Duration;
use std::time::Instant;

use bytes::Buf;
use bytes::Bytes;
use bytes::BytesMut;
use serde_json::Value;
use serde_json::json;

use hermes_peer_proto::protocol::DEFAULT_PRIORITY;
use hermes_peer_proto::protocol::Link;
use hermes_peer_proto::protocol::LinkSettings;
use hermes_peer_proto::protocol::Outgoing;
use hermes_peer_proto::protocol::Read;
use hermes_peer_proto::wire::Batch;
use hermes_peer_proto::wire::ContentType;
use hermes_peer_proto::wire::Decoder;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Field;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::LinkId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::Side;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_proto::wire::TopicPattern;
use hermes_peer_proto::wire::encode_head;

use super::bytes_of::call_envelope;
use super::bytes_of::envelope_json;
use super::hex;

/// Two links whose every frame is written down.
struct Talk {
    links: [Link; 2],
    now: Instant,
    frames: Vec<Value>,
}

const NAMES: [&str; 2] = ["initiator", "acceptor"];

impl Talk {
    fn new(max_chunk: u32) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one origin of a test's time")]
        let now = Instant::now();
        let mut settings = LinkSettings::default();
        settings.announced.max_chunk = max_chunk;
        let link = |side| {
            let id = LinkId::from_bytes([0x1c; 16]);
            Link::new(now, id, side, Epoch(1), 2, settings.clone(), settings.announced)
        };
        Self { links: [link(Side::Initiator), link(Side::Acceptor)], now, frames: Vec::new() }
    }

    /// Carries over what one side has to say.
    fn carry(&mut self, from: usize) {
        let mut bytes = BytesMut::new();
        let mut batch = Batch::default();
        while self.links[from].poll_transmit(self.now, &mut batch) {
            let len = batch.len();
            bytes.extend_from_slice(&batch.copy_to_bytes(len));
        }
        let decoder = Decoder::new(2, 1 << 20);
        while let Some(frame) = decoder.decode(&mut bytes).unwrap() {
            if frame.message_type != MessageType::Heartbeat {
                let whole = hex(&frame.header(2).encode()) + &hex(&frame.payload);
                let name = frame.message_type.name();
                self.frames.push(json!({ "type": name, "from": NAMES[from], "hex": whole }));
            }
            self.links[1 - from].handle_frame(self.now, frame).unwrap();
        }
    }

    fn send(
        &mut self,
        from: usize,
        stream: StreamId,
        kind: MessageType,
        envelope: &Envelope,
        body: &[u8],
        fin: bool,
    ) {
        let head = encode_head(envelope, body.len()).unwrap();
        let message = Outgoing { head, body: Bytes::copy_from_slice(body) };
        self.links[from].send(stream, kind, message, fin).unwrap();
    }

    fn read(&mut self, at: usize, stream: StreamId) {
        while let Read::Message(_) = self.links[at].read(stream) {}
    }

    fn vector(self, name: &str, shows: &str, input: Value) -> Value {
        json!({ "name": name, "shows": shows, "input": input, "frames": self.frames })
    }
}

fn envelope(change: impl FnOnce(&mut Envelope)) -> Envelope {
    let mut envelope = Envelope::default();
    change(&mut envelope);
    envelope
}

fn said(from: &str, kind: MessageType, envelope: &Envelope, body: &[u8]) -> Value {
    json!({ "from": from, "type": kind.name(), "envelope": envelope_json(envelope), "body": hex(body) })
}

const QUESTION: &[u8] = br#"{"hello":"mesh"}"#;

fn request() -> Value {
    let mut talk = Talk::new(32_753);
    let none = Envelope::default();
    let stream = talk.links[0].open(DEFAULT_PRIORITY).unwrap();
    talk.send(0, stream, MessageType::Request, &call_envelope(), QUESTION, true);
    talk.carry(0);
    talk.read(1, stream);
    talk.send(1, stream, MessageType::Response, &none, QUESTION, true);
    talk.carry(1);
    let input = json!([
        said("initiator", MessageType::Request, &call_envelope(), QUESTION),
        said("acceptor", MessageType::Response, &none, QUESTION),
    ]);
    talk.vector("request", "a call and its result", input)
}

fn stream() -> Value {
    let mut talk = Talk::new(32_753);
    let none = Envelope::default();
    let bytes = envelope(|envelope| envelope.content_type = ContentType::Bytes);
    let stream = talk.links[0].open(DEFAULT_PRIORITY).unwrap();
    talk.send(0, stream, MessageType::Request, &call_envelope(), QUESTION, false);
    talk.send(0, stream, MessageType::Stream, &none, b"1", false);
    talk.send(0, stream, MessageType::Stream, &none, b"2", false);
    talk.links[0].finish(stream);
    talk.carry(0);
    talk.read(1, stream);
    let items: [&[u8]; 3] = [br#"{"t":"a"}"#, br#"{"t":"b"}"#, br#"{"t":"c"}"#];
    talk.send(1, stream, MessageType::Stream, &none, items[0], false);
    talk.carry(1);
    talk.send(1, stream, MessageType::Stream, &none, items[1], false);
    talk.send(1, stream, MessageType::Stream, &none, items[2], false);
    talk.send(1, stream, MessageType::Response, &bytes, b"", true);
    talk.carry(1);
    let mut input = vec![
        said("initiator", MessageType::Request, &call_envelope(), QUESTION),
        said("initiator", MessageType::Stream, &none, b"1"),
        said("initiator", MessageType::Stream, &none, b"2"),
    ];
    input.extend(items.map(|item| said("acceptor", MessageType::Stream, &none, item)));
    input.push(said("acceptor", MessageType::Response, &bytes, b""));
    talk.vector(
        "stream",
        "items in both directions; several in one frame; the explicit end of each half",
        input.into(),
    )
}

fn error() -> Value {
    let mut talk = Talk::new(32_753);
    let postcard = envelope(|envelope| envelope.content_type = ContentType::Postcard);
    let mut fault = Fault::new(ErrorCode::NotFound, "b-01 does not provide `demo.echo`");
    fault.node = Some("b-01".parse().unwrap());
    let stream = talk.links[0].open(DEFAULT_PRIORITY).unwrap();
    talk.send(0, stream, MessageType::Request, &call_envelope(), QUESTION, true);
    talk.carry(0);
    talk.read(1, stream);
    talk.send(1, stream, MessageType::Error, &postcard, &fault.encode(), true);
    talk.carry(1);
    let input = json!([
        said("initiator", MessageType::Request, &call_envelope(), QUESTION),
        said("acceptor", MessageType::Error, &postcard, &fault.encode()),
    ]);
    talk.vector("error", "a call that ends in an error", input)
}

fn chunked() -> Value {
    let mut talk = Talk::new(256);
    let none = Envelope::default();
    let body = vec![b'7'; 700];
    let stream = talk.links[0].open(DEFAULT_PRIORITY).unwrap();
    talk.send(0, stream, MessageType::Request, &call_envelope(), &body, false);
    talk.carry(0);
    talk.read(1, stream);
    talk.send(1, stream, MessageType::Response, &none, b"1", true);
    talk.carry(1);
    talk.carry(0);
    let input = json!([
        said("initiator", MessageType::Request, &call_envelope(), &body),
        said("acceptor", MessageType::Response, &none, b"1"),
    ]);
    let shows =
        "a message cut at 256 bytes; the answer ends the stream, and the opener's empty FIN is still owed";
    talk.vector("chunked", shows, input)
}

fn event() -> Value {
    let mut talk = Talk::new(32_753);
    let field = |tag, value| Field { tag, mandatory: false, value };
    let about = |key: &str| {
        envelope(|envelope| {
            envelope.topic = Some("ticket.created".parse().unwrap());
            envelope.idempotency_key = Some(key.into());
        })
    };
    let lost: (TopicPattern, Option<String>, u64) = ("ticket.*".parse().unwrap(), None, 3);
    let lag = envelope(|envelope| {
        envelope.lagged = 3;
        envelope.extra = vec![field(2, postcard::to_stdvec(&vec![lost]).unwrap())];
    });
    let mut shared = about("5");
    shared.extra = vec![field(1, postcard::to_stdvec(&(false, vec!["writers"])).unwrap())];
    let said_in_order = [(about("1"), QUESTION), (lag, &[]), (shared, QUESTION)];
    for (envelope, body) in &said_in_order {
        let head = encode_head(envelope, body.len()).unwrap();
        talk.links[1].publish(Outgoing { head, body: Bytes::from_static(body) }).unwrap();
    }
    talk.carry(1);
    let input = said_in_order
        .iter()
        .map(|(envelope, body)| said("acceptor", MessageType::Event, envelope, body))
        .collect();
    talk.vector("event", "an event, three lost, and one for a member of a group", input)
}

fn cancel() -> Value {
    let mut talk = Talk::new(32_753);
    let postcard = envelope(|envelope| envelope.content_type = ContentType::Postcard);
    let fault = Fault::new(ErrorCode::Cancelled, "the caller gave the call up");
    let stream = talk.links[0].open(DEFAULT_PRIORITY).unwrap();
    talk.send(0, stream, MessageType::Request, &call_envelope(), QUESTION, false);
    talk.carry(0);
    talk.links[0].cancel(stream, ErrorCode::Cancelled);
    talk.carry(0);
    talk.carry(1);
    assert_eq!((talk.links[0].open_streams(), talk.links[1].open_streams()), ((0, 0), (0, 0)));
    let input = json!([
        said("initiator", MessageType::Request, &call_envelope(), QUESTION),
        said("acceptor", MessageType::Error, &postcard, &fault.encode()),
    ]);
    talk.vector("cancel", "CANCEL, the opener's empty FIN, and the ERROR that ends the stream", input)
}

fn flow() -> Value {
    let mut talk = Talk::new(32_753);
    let body = vec![b'7'; 200 * 1024];
    let stream = talk.links[0].open(DEFAULT_PRIORITY).unwrap();
    talk.send(0, stream, MessageType::Request, &call_envelope(), &body, false);
    talk.carry(0);
    talk.frames.clear();
    talk.read(1, stream);
    talk.now += Duration::from_millis(25);
    talk.carry(1);
    talk.links[1].go_away(GoAwayReason::Draining, "restart", false);
    talk.links[1].go_away(GoAwayReason::Draining, "restart", true);
    talk.carry(1);
    let shows = "after 200 KiB on stream 1: its window, the acknowledgement of seven frames, both phases of going away";
    talk.vector("flow", shows, json!([]))
}

pub(crate) fn exchanges() -> Value {
    [request(), stream(), error(), chunked(), event(), cancel(), flow()].into_iter().collect()
}
