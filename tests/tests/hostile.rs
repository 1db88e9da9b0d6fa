//! A peer that has proven who it is, and then misbehaves: it is told how, its connection ends, and nobody else notices.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Items;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::handler;
use hermes_peer_proto::wire::Ack;
use hermes_peer_proto::wire::Advertise;
use hermes_peer_proto::wire::Cancel;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::Envelope;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Flags;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::Header;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::Merge;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Payload;
use hermes_peer_proto::wire::SlotValue;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_proto::wire::Subscribe;
use hermes_peer_proto::wire::Window;
use hermes_peer_tests::Gauge;
use hermes_peer_tests::Lab;
use hermes_peer_tests::endpoint;
use hermes_peer_tests::raw::PATIENCE;
use hermes_peer_tests::raw::Raw;
use hermes_peer_tests::raw::control;
use hermes_peer_tests::raw::message;
use hermes_peer_tests::raw::request;
use hermes_peer_tests::raw::request_with;
use hermes_peer_tests::until;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
/// A message without envelope and with a body of one byte.
const WHOLE: &[u8] = &[0, 1, b'1'];
/// The first bytes of one with 100.
const BEGUN: &[u8] = &[0, 100, b'1'];

/// A provider whose handlers are counted.
async fn provider(builder: NodeBuilder) -> (Node, Gauge) {
    let gauge = Gauge::default();
    let (echoed, slept, counted) = (gauge.clone(), gauge.clone(), gauge.clone());
    let echo = handler("demo.echo", move |n: u64, _context: Context| {
        let _at_work = echoed.begin();
        async move { Ok::<u64, Failure>(n) }
    });
    let sleep = handler("demo.sleep", move |_: u64, _context: Context| {
        let at_work = slept.begin();
        async move {
            let _at_work = at_work;
            std::future::pending::<Result<u64, Failure>>().await
        }
    });
    let count = handler("demo.count", move |n: u64, _context: Context| {
        let at_work = counted.begin();
        async move { Ok::<Items<u64>, Failure>(Items::from_iter((0..n).inspect(move |_| _ = &at_work))) }
    });
    let builder = builder.capability(echo.unwrap()).capability(sleep.unwrap()).capability(count.unwrap());
    (builder.start().await.unwrap(), gauge)
}

/// An honest peer that calls all the time, until it is asked how that went.
struct Honest {
    is_over: Arc<AtomicBool>,
    calling: tokio::task::JoinHandle<(u64, Duration)>,
}

impl Honest {
    async fn begin(lab: &Lab, provider: &Node) -> Self {
        let node = lab.caller_of("honest", provider).start().await.unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let calling = tokio::spawn(async move {
            let (mut calls, mut longest) = (0, Duration::ZERO);
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let answer: u64 = node.call("demo.echo", &calls).await.expect("honest calls are answered");
                assert_eq!(answer, calls);
                calls += 1;
                longest = longest.max(begun.elapsed());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (calls, longest)
        });
        Self { is_over, calling }
    }

    /// How many calls it has made; none of them failed or took long.
    async fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        let (calls, longest) = self.calling.await.unwrap();
        assert!(calls > 0 && longest < 2 * SECOND, "{calls} calls, the longest took {longest:?}");
        calls
    }
}

fn data(message_type: MessageType, stream: u32, fin: bool, payload: &[u8]) -> Frame {
    Frame::data(message_type, StreamId(stream), fin, Bytes::copy_from_slice(payload))
}

/// What breaks the protocol, and the code under which the documents say it ends.
fn misdeeds() -> Vec<(&'static str, ErrorCode, Vec<Frame>)> {
    use MessageType as T;
    let open = |stream| request(stream, "demo.sleep", "1", false);
    let parts = |part| Advertise { revision: 1, part, parts: 3, capabilities: Vec::new() };
    let interest = Interest { pattern: "a.*".parse().unwrap(), group: None };
    let patterns = Subscribe { revision: 1, subscriptions: vec![interest; 1_025] };
    let flags =
        |flags, message_type| Frame { message_type, flags, stream: StreamId::LINK, payload: Bytes::new() };
    let invalid = ErrorCode::InvalidFrame;
    vec![
        ("SYN again", invalid, vec![Frame::control(T::Syn, StreamId::LINK, vec![0; 9])]),
        ("SYN_ACK", invalid, vec![Frame::control(T::SynAck, StreamId::LINK, vec![0; 9])]),
        ("ESTABLISHED again", invalid, vec![Frame::control(T::Established, StreamId::LINK, vec![0, 0])]),
        ("bytes after a payload", invalid, vec![Frame::control(T::Ack, StreamId::LINK, vec![0, 0])]),
        ("no payload", invalid, vec![Frame::control(T::Heartbeat, StreamId::LINK, vec![])]),
        ("ack of what was never sent", invalid, vec![control(T::Ack, 0, &Ack { received: 1 << 40 })]),
        ("answer on a stream that is not open", invalid, vec![data(T::Response, 2, true, WHOLE)]),
        ("items on a stream that is not open", invalid, vec![data(T::Stream, 1, true, WHOLE)]),
        ("wrong parity", invalid, vec![open(2)]),
        ("stream used twice", invalid, vec![open(1), request(1, "demo.echo", "1", true)]),
        ("streams out of order", invalid, vec![open(3), open(1)]),
        ("data on stream 0", invalid, vec![data(T::Request, 0, true, WHOLE)]),
        ("answer by the opener", invalid, vec![open(1), data(T::Response, 1, true, WHOLE)]),
        ("error by the opener", invalid, vec![open(1), data(T::Error, 1, true, WHOLE)]),
        (
            "data after FIN",
            invalid,
            vec![request(1, "demo.sleep", "1", true), data(T::Stream, 1, true, WHOLE)],
        ),
        (
            "cancel by the acceptor",
            invalid,
            vec![control(T::Cancel, 2, &Cancel { code: ErrorCode::Cancelled })],
        ),
        ("event with FIN", invalid, vec![data(T::Event, 0, true, WHOLE)]),
        ("event on a stream", invalid, vec![open(1), data(T::Event, 1, false, WHOLE)]),
        (
            "parts out of order",
            invalid,
            vec![control(T::Advertise, 0, &parts(0)), control(T::Advertise, 0, &parts(2))],
        ),
        ("lengths that cannot be", invalid, vec![open(1), data(T::Stream, 1, false, &[0xff; 12])]),
        (
            "one message of two types",
            invalid,
            vec![data(T::Request, 1, false, BEGUN), data(T::Stream, 1, false, WHOLE)],
        ),
        ("empty frames", invalid, [vec![open(1)], vec![data(T::Stream, 1, false, &[]); 102]].concat()),
        ("COMPRESSED", invalid, vec![flags(Flags::COMPRESSED, T::Request)]),
        ("ENCRYPTED", invalid, vec![flags(Flags::ENCRYPTED, T::Request)]),
        ("control without CONTROL", invalid, vec![flags(Flags::NONE, T::Heartbeat)]),
        ("data with CONTROL", invalid, vec![flags(Flags::CONTROL, T::Request)]),
        ("a chunk over the limit", ErrorCode::TooLarge, vec![data(T::Request, 1, false, &[0; 40_000])]),
        (
            "a message over the limit",
            ErrorCode::TooLarge,
            vec![data(T::Request, 1, false, &[0, 0xff, 0xff, 0xff, 0x7f])],
        ),
        ("too many patterns", ErrorCode::Overloaded, vec![control(T::Subscribe, 0, &patterns)]),
        ("too many streams", ErrorCode::Overloaded, (0..1_025).map(|n| open(2 * n + 1)).collect()),
        ("a window passed", ErrorCode::TooLarge, {
            // A message as long as the window, then more that nobody has made room for.
            let mut frames = vec![request(1, "demo.sleep", "1", false)];
            let item = message(&Envelope::default(), &[b'1'; 30_000]);
            frames.extend((0..10).map(|_| data(T::Stream, 1, false, &item)));
            frames
        }),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_misdeed_ends_as_documented_and_disturbs_nobody() {
    // FC-034
    let lab = Lab::new();
    let (provider, gauge) = provider(lab.provider("provider")).await;
    let (address, identity) = (endpoint(&provider), lab.raw("raw"));
    let honest = Honest::begin(&lab, &provider).await;
    for (what, code, frames) in misdeeds() {
        let mut raw = Raw::dial(&identity, &address).await;
        raw.send_all(&frames).await;
        let fault = raw.last_word().await.unwrap_or_else(|| panic!("{what}: closed without a word"));
        assert_eq!(fault.code, code, "{what}: {}", fault.message);
    }
    honest.end().await;
    until("no handler of theirs is left", SECOND, || gauge.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_in_a_stream_ends_that_stream_alone() {
    // FC-034
    let lab = Lab::new();
    let (provider, _gauge) = provider(lab.provider("provider")).await;
    let mut raw = Raw::dial(&lab.raw("raw"), &endpoint(&provider)).await;
    let garbled = |stream| {
        // An envelope of 3 bytes with a bit that no version knows.
        data(MessageType::Request, stream, true, &[3, 0, 0x80, 0x80, 0x7f])
    };
    let nameless = |stream| data(MessageType::Request, stream, true, &message(&Envelope::default(), b"1"));
    let cases = [
        (ErrorCode::InvalidFrame, garbled(1)),
        (ErrorCode::InvalidFrame, nameless(3)),
        (ErrorCode::NotFound, request(5, "demo.nope", "1", true)),
        (ErrorCode::InvalidInput, request(7, "demo.echo", "\"one\"", true)),
        (ErrorCode::InvalidInput, request(9, "demo.echo", "{", true)),
        (
            ErrorCode::DeadlineExceeded,
            request_with(11, "demo.echo", "1", true, |envelope| {
                envelope.time_left = Some(Duration::ZERO);
            }),
        ),
        (
            ErrorCode::NotFound,
            request_with(13, "demo.echo", "1", true, |envelope| {
                envelope.target = Some(hermes_peer_proto::wire::Target::Node("other".parse().unwrap()));
            }),
        ),
        (
            ErrorCode::DeadlineExceeded,
            request_with(15, "demo.sleep", "1", true, |envelope| {
                envelope.time_left = Some(Duration::from_millis(30));
            }),
        ),
    ];
    for (code, frame) in cases {
        raw.send(&frame).await;
        let answer =
            tokio::time::timeout(2 * SECOND, raw.receive_on(MessageType::Error, frame.stream.0)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{code} is not said")).expect("the link lives");
        assert!(answer.is_fin());
        let (_, at) = hermes_peer_proto::wire::Prelude::parse(&answer.payload).unwrap().unwrap();
        let envelope_len = usize::from(answer.payload[0]);
        let fault = Fault::decode(&answer.payload[at + envelope_len..]).unwrap();
        assert_eq!(fault.code, code, "{}", fault.message);
    }
    // What comes too late is passed over.
    raw.send_all(&[
        control(MessageType::Window, 99, &Window { limit: 5, events: 0 }),
        control(MessageType::Window, 0, &Window { limit: 1, events: 1 }),
        control(MessageType::Cancel, 99, &Cancel { code: ErrorCode::Cancelled }),
        control(MessageType::Cancel, 1, &Cancel { code: ErrorCode::Cancelled }),
        control(MessageType::Cancel, 1, &Cancel { code: ErrorCode::Cancelled }),
        request(17, "demo.echo", "17", true),
    ])
    .await;
    assert!(raw.receive_on(MessageType::Response, 17).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_strikes_also_where_the_caller_takes_nothing() {
    // FC-044: P-19.1
    let lab = Lab::new();
    let (provider, gauge) = provider(lab.provider("provider")).await;
    let mut identity = lab.raw("raw");
    identity.local.announced.stream_window = 1_024;
    let mut raw = Raw::dial(&identity, &endpoint(&provider)).await;
    let long = request_with(1, "demo.count", "100000000", true, |envelope| {
        envelope.time_left = Some(SECOND / 2);
    });
    let begun = Instant::now();
    raw.send(&long).await;
    until("the handler streams", SECOND, || gauge.running() == 1).await;
    until("it is stopped at its deadline", 2 * SECOND, || gauge.running() == 0).await;
    assert!(begun.elapsed() >= SECOND / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_that_lies_is_refused_before_anything_is_kept_for_it() {
    // FC-031
    let lab = Lab::new();
    let (provider, _gauge) = provider(lab.provider("provider")).await;
    let (address, identity) = (endpoint(&provider), lab.raw("raw"));
    let honest = Honest::begin(&lab, &provider).await;
    let header = |message_type, flags, payload_len, version| {
        Header { version, flags, message_type, stream: 0, payload_len }.encode()
    };
    let before = hermes_peer_tests::resident_bytes();
    let mut open = Vec::new();
    for (payload_len, code) in [
        (16_385, ErrorCode::TooLarge),
        (0x7fff_ffff, ErrorCode::TooLarge),
        (0xffff_ffff, ErrorCode::TooLarge),
        (0, ErrorCode::InvalidFrame),
    ] {
        for _ in 0..8 {
            let mut raw = Raw::connect(&identity, &address).await.unwrap();
            raw.send_bytes(&header(MessageType::Syn, Flags::CONTROL, payload_len, 1)).await;
            assert_eq!(raw.last_word().await.unwrap().code, code, "{payload_len} before the handshake");
            open.push(raw);
        }
    }
    for payload_len in [1_048_577, 0x7fff_ffff, 0xffff_ffff] {
        let mut raw = Raw::dial(&identity, &address).await;
        raw.send_bytes(&header(MessageType::Advertise, Flags::CONTROL, payload_len, 2)).await;
        assert_eq!(raw.last_word().await.unwrap().code, ErrorCode::TooLarge, "{payload_len} afterwards");
    }
    if let (Some(before), Some(after)) = (before, hermes_peer_tests::resident_bytes()) {
        assert!(after < before + (20 << 20), "{} KiB more", (after - before) >> 10);
    }
    honest.end().await;
}

/// A good exchange: two calls, one of them a stream.
fn good_exchange(raw: &Raw) -> Vec<u8> {
    let frames = [
        request(1, "demo.echo", "41", true),
        data(MessageType::Request, 3, false, &request(3, "demo.count", "3", true).payload[..9]),
        control(MessageType::Window, 0, &Window { limit: 9 << 20, events: 2 << 20 }),
        data(MessageType::Request, 3, true, &request(3, "demo.count", "3", true).payload[9..]),
    ];
    frames.iter().flat_map(|frame| raw.encode(frame)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_in_single_bytes_is_the_same_exchange() {
    // FC-034
    let lab = Lab::new();
    let (provider, gauge) = provider(lab.provider("provider")).await;
    let mut raw = Raw::dial(&lab.raw("raw"), &endpoint(&provider)).await;
    for byte in good_exchange(&raw) {
        assert!(raw.send_bytes(&[byte]).await);
    }
    let (mut ended, mut items) = (Vec::new(), 0);
    while ended.len() < 2 {
        let frame = raw.receive().await.expect("the link lives");
        match frame.message_type {
            MessageType::Response => ended.push(frame.stream.0),
            MessageType::Stream => items += frame.payload.len() / 3,
            MessageType::Error => panic!("{frame:?}"),
            _ => {}
        }
    }
    ended.sort_unstable();
    assert_eq!((ended, items), (vec![1, 3], 3));
    assert_eq!(gauge.begun(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_cut_anywhere_runs_handlers_only_for_whole_requests() {
    // FC-034
    let lab = Lab::new();
    let (provider, gauge) = provider(lab.provider("provider")).await;
    let (address, identity) = (endpoint(&provider), lab.raw("raw"));
    let honest = Honest::begin(&lab, &provider).await;
    let mut raw = Raw::dial(&identity, &address).await;
    let exchange = good_exchange(&raw);
    let first = raw.encode(&request(1, "demo.echo", "41", true)).len();
    raw.send_bytes(&exchange).await;
    raw.receive_on(MessageType::Response, 3).await.unwrap();
    raw.close().await;
    // The connection breaks off at each place, without TLS's farewell.
    let mut whole = 2;
    for cut in (0..exchange.len()).step_by(3) {
        let mut raw = Raw::dial(&identity, &address).await;
        raw.send_bytes(&exchange[..cut]).await;
        drop(raw);
        whole += usize::from(cut >= first);
    }
    let calls = honest.end().await;
    let expected = whole + usize::try_from(calls).unwrap();
    until("all whole requests have run", PATIENCE, || gauge.begun() >= expected).await;
    assert_eq!(gauge.begun(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_flipped_bit_of_a_header_is_survived() {
    // FC-034
    let lab = Lab::new();
    let (provider, _gauge) = provider(lab.provider("provider")).await;
    let (address, identity) = (endpoint(&provider), lab.raw("raw"));
    let honest = Honest::begin(&lab, &provider).await;
    for bit in 0..15 * 8 {
        let mut raw = Raw::dial(&identity, &address).await;
        let mut bytes = raw.encode(&request(1, "demo.echo", "1", true));
        bytes[bit / 8] ^= 1 << (bit % 8);
        raw.send_bytes(&bytes).await;
        // The connection ends or goes on: what is asked is that the node does.
        drop(raw);
    }
    honest.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_from_one_peer_leaves_the_others_their_turn() {
    // FC-039
    let lab = Lab::new();
    let (provider, gauge) = provider(lab.provider("provider")).await;
    let (address, identity) = (endpoint(&provider), lab.raw("raw"));
    let mut big = CapabilityInfo::new("flood.big".parse().unwrap());
    big.input_schema = format!("{{\"description\":\"{}\"}}", "x".repeat(100_000));
    let mut stream = 1;
    let mut opened = |count: u32| {
        let mut frames = Vec::new();
        for _ in 0..count {
            frames.push(request(stream, "demo.sleep", "1", false));
            frames.push(control(MessageType::Cancel, stream, &Cancel { code: ErrorCode::Cancelled }));
            frames.push(data(MessageType::Stream, stream, true, &[]));
            stream += 2;
        }
        frames
    };
    let beat =
        hermes_peer_proto::wire::Heartbeat { epoch: identity.local.epoch, received: 0, token: 7, load: 0 };
    let beats = vec![control(MessageType::Heartbeat, 0, &beat); 5_000];
    let advertise = |revision| {
        control(
            MessageType::Advertise,
            0,
            &Advertise { revision, part: 0, parts: 1, capabilities: vec![big.clone()] },
        )
    };
    let advertised: Vec<_> = (1..200).map(advertise).collect();
    let honest = Honest::begin(&lab, &provider).await;
    let mut raw = Raw::dial(&identity, &address).await;
    // A reader beside, or the answers would block the writer.
    for frames in [opened(1_500), beats, advertised] {
        for some in frames.chunks(100) {
            raw.send_all(some).await;
            while let Ok(Some(_)) = tokio::time::timeout(Duration::from_micros(200), raw.receive()).await {}
        }
    }
    let calls = honest.end().await;
    assert!(calls > 20, "{calls} calls beside the flood");
    assert!(gauge.most() <= 200, "{} handlers at once", gauge.most());
    until("what was cancelled has stopped", 2 * SECOND, || gauge.running() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_writes_no_slot_that_its_capability_does_not_declare() {
    let lab = Lab::new();
    let owner = lab.provider("owner").start().await.unwrap();
    let mut raw = Raw::dial(&lab.raw("raw"), &endpoint(&owner)).await;
    let mut info = CapabilityInfo::new("demo.write".parse().unwrap());
    info.writes = vec!["mine".parse().unwrap()];
    let capabilities = vec![info];
    raw.send(&control(
        MessageType::Advertise,
        0,
        &Advertise { revision: 1, part: 0, parts: 1, capabilities },
    ))
    .await;
    owner.wait_for("demo.write", PATIENCE).await.unwrap();
    let session = owner.open_session().unwrap();
    for (slot, stream, expected) in [("mine", 2, None), ("others", 4, Some(ErrorCode::PermissionDenied))] {
        let answering = async {
            raw.receive_on(MessageType::Request, stream).await.expect("the owner calls");
            let mut envelope = Envelope::default();
            let value = "1".to_owned();
            envelope.slots =
                vec![SlotValue { name: slot.parse().unwrap(), version: 0, merge: Merge::Replace, value }];
            let answer = message(&envelope, b"null");
            raw.send(&Frame::data(MessageType::Response, StreamId(stream), true, answer)).await;
        };
        let calling = owner.call::<()>("demo.write", &()).session(&session).into_future();
        let (outcome, ()) = tokio::join!(calling, answering);
        assert_eq!(outcome.err().map(|error| error.code()), expected, "{slot}");
        let written = session.get::<u64>(slot).unwrap();
        assert_eq!(written, expected.is_none().then_some(1), "{slot}");
    }
}
