//! P-17.1: what ends a connection, and under which code.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::time::Instant;

use bytes::Bytes;

use hermes_peer_proto::protocol::DEFAULT_PRIORITY;
use hermes_peer_proto::protocol::Link;
use hermes_peer_proto::protocol::LinkSettings;
use hermes_peer_proto::testing::message;
use hermes_peer_proto::wire::Ack;
use hermes_peer_proto::wire::Advertise;
use hermes_peer_proto::wire::Batch;
use hermes_peer_proto::wire::Cancel;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::LinkId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::Side;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_proto::wire::Subscribe;
use hermes_peer_proto::wire::Window;

/// A link's acceptor that has opened stream 2, and that takes little.
struct Victim(Link, Instant);

impl Victim {
    fn new(version: u8) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one origin of a test's time")]
        let now = Instant::now();
        let mut settings = LinkSettings::default();
        settings.announced.max_message = 100_000;
        settings.announced.event_window = 1_000;
        settings.announced.max_streams = 3;
        let id = LinkId::from_bytes([1; 16]);
        let peer = settings.announced;
        let mut link = Link::new(now, id, Side::Acceptor, Epoch(1), version, settings, peer);
        let stream = link.open(DEFAULT_PRIORITY).unwrap();
        link.send(stream, MessageType::Request, message(1, 8), false).unwrap();
        link.poll_transmit(now, &mut Batch::default());
        Self(link, now)
    }

    /// The code under which the first of these frames that is refused is refused.
    fn hears(mut self, frames: impl IntoIterator<Item = Frame>) -> Option<ErrorCode> {
        frames
            .into_iter()
            .find_map(|frame| self.0.handle_frame(self.1, frame).err())
            .map(|error| error.code())
    }
}

fn data(message_type: MessageType, stream: u32, fin: bool, payload: &[u8]) -> Frame {
    Frame::data(message_type, StreamId(stream), fin, Bytes::copy_from_slice(payload))
}

fn say<T: Payload>(message_type: MessageType, stream: u32, value: &T) -> Frame {
    Frame::control(message_type, StreamId(stream), value.encode())
}

/// A message without envelope and with a body of one byte.
const WHOLE: &[u8] = &[0, 1, b'x'];
/// The first bytes of one with 100.
const BEGUN: &[u8] = &[0, 100, b'x'];

#[test]
fn what_breaks_the_protocol_ends_the_connection_under_the_documented_code() {
    use MessageType as T;
    let advertise = |part| Advertise { revision: 1, part, parts: 3, capabilities: Vec::new() };
    let many = Advertise {
        revision: 1,
        part: 0,
        parts: 1,
        capabilities: vec![CapabilityInfo::new("a.b".parse().unwrap()); 10_001],
    };
    let interest = Interest { pattern: "a.*".parse().unwrap(), group: None };
    let subscribe = Subscribe { revision: 1, subscriptions: vec![interest; 1_025] };
    let open = |stream| data(T::Request, stream, false, WHOLE);
    let cases: Vec<(&str, ErrorCode, Vec<Frame>)> = vec![
        ("payload and more", ErrorCode::InvalidFrame, vec![Frame::control(T::Ack, StreamId(0), vec![0, 0])]),
        ("SYN again", ErrorCode::InvalidFrame, vec![Frame::control(T::Syn, StreamId(0), Bytes::new())]),
        ("ack of unsent", ErrorCode::InvalidFrame, vec![say(T::Ack, 0, &Ack { received: 2 })]),
        ("unopened", ErrorCode::InvalidFrame, vec![data(T::Stream, 1, false, WHOLE)]),
        ("answer unopened", ErrorCode::InvalidFrame, vec![data(T::Response, 4, true, WHOLE)]),
        ("request of ours", ErrorCode::InvalidFrame, vec![data(T::Request, 2, true, WHOLE)]),
        ("out of order", ErrorCode::InvalidFrame, vec![open(3), open(1)]),
        ("response by opener", ErrorCode::InvalidFrame, vec![open(1), data(T::Response, 1, true, WHOLE)]),
        ("request twice", ErrorCode::InvalidFrame, vec![open(1), open(1)]),
        (
            "cancel by acceptor",
            ErrorCode::InvalidFrame,
            vec![say(T::Cancel, 2, &Cancel { code: ErrorCode::Cancelled })],
        ),
        (
            "after fin",
            ErrorCode::InvalidFrame,
            vec![data(T::Request, 1, true, WHOLE), data(T::Stream, 1, false, WHOLE)],
        ),
        ("fin on items", ErrorCode::InvalidFrame, vec![data(T::Stream, 2, true, WHOLE)]),
        ("no fin", ErrorCode::InvalidFrame, vec![data(T::Response, 2, false, WHOLE)]),
        (
            "mixed",
            ErrorCode::InvalidFrame,
            vec![data(T::Stream, 2, false, BEGUN), data(T::Response, 2, true, WHOLE)],
        ),
        ("cut answer", ErrorCode::InvalidFrame, vec![data(T::Response, 2, true, BEGUN)]),
        ("lengths", ErrorCode::InvalidFrame, vec![data(T::Stream, 2, false, &[0xff; 10])]),
        ("empty", ErrorCode::InvalidFrame, vec![data(T::Stream, 2, false, &[]); 101]),
        ("event with fin", ErrorCode::InvalidFrame, vec![data(T::Event, 0, true, WHOLE)]),
        ("event on a stream", ErrorCode::InvalidFrame, vec![data(T::Event, 2, false, WHOLE)]),
        ("stream 0", ErrorCode::InvalidFrame, vec![data(T::Request, 0, false, WHOLE)]),
        (
            "parts",
            ErrorCode::InvalidFrame,
            vec![say(T::Advertise, 0, &advertise(0)), say(T::Advertise, 0, &advertise(2))],
        ),
        ("long message", ErrorCode::TooLarge, vec![data(T::Stream, 2, false, &[0, 0xa1, 0x8d, 0x06])]),
        ("long event", ErrorCode::TooLarge, vec![data(T::Event, 0, false, &[0, 0xe9, 0x07])]),
        ("past a window", ErrorCode::TooLarge, vec![data(T::Stream, 2, false, &[0; 262_145])]),
        ("past the events' window", ErrorCode::TooLarge, vec![data(T::Event, 0, false, &[0; 1_001])]),
        ("streams", ErrorCode::Overloaded, [1, 3, 5, 7].map(open).into()),
        ("capabilities", ErrorCode::Overloaded, vec![say(T::Advertise, 0, &many)]),
        ("patterns", ErrorCode::Overloaded, vec![say(T::Subscribe, 0, &subscribe)]),
    ];
    for (name, code, frames) in cases {
        assert_eq!(Victim::new(2).hears(frames), Some(code), "{name}");
    }
    let ack = say(MessageType::Ack, 0, &Ack { received: 0 });
    assert_eq!(Victim::new(1).hears([ack]), Some(ErrorCode::InvalidFrame), "ACK in version 1");
}

#[test]
fn what_comes_too_late_is_passed_over() {
    use MessageType as T;
    let frames = [
        say(T::Window, 0, &Window { limit: 1, events: 1 }),
        say(T::Window, 99, &Window { limit: 1, events: 0 }),
        say(T::Cancel, 99, &Cancel { code: ErrorCode::Cancelled }),
        say(T::Ack, 0, &Ack { received: 1 }),
        say(T::Ack, 0, &Ack { received: 0 }),
        say(T::Subscribe, 0, &Subscribe { revision: 5, subscriptions: Vec::new() }),
        say(T::Subscribe, 0, &Subscribe { revision: 4, subscriptions: Vec::new() }),
        data(T::Stream, 2, false, WHOLE),
        data(T::Response, 2, true, WHOLE),
    ];
    assert_eq!(Victim::new(2).hears(frames), None);
}
