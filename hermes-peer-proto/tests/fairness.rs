//! What is small or urgent does not wait for what is big: in which order a link hands frames to its connection.

use std::collections::BTreeMap;

use bytes::Buf;
use bytes::BytesMut;

use hermes_peer_proto::protocol::DEFAULT_PRIORITY;
use hermes_peer_proto::protocol::LinkSettings;
use hermes_peer_proto::testing::Pair;
use hermes_peer_proto::testing::message;
use hermes_peer_proto::wire::Batch;
use hermes_peer_proto::wire::Decoder;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::StreamId;

/// Largest payload of a data frame by default.
const CHUNK: usize = 32 * 1024;
const BULK: usize = 200 * 1024;

/// What one write to the connection carries.
fn next_write(pair: &mut Pair) -> Vec<Frame> {
    let mut batch = Batch::default();
    pair.a.poll_transmit(pair.now, &mut batch);
    let len = batch.len();
    let mut bytes = BytesMut::from(&batch.copy_to_bytes(len)[..]);
    let decoder = Decoder::new(2, 1 << 20);
    std::iter::from_fn(|| decoder.decode(&mut bytes).expect("a link encodes frames")).collect()
}

fn begin(pair: &mut Pair, priority: u8, len: usize) -> StreamId {
    let stream = pair.a.open(priority).expect("there is room for a stream");
    pair.a.send(stream, MessageType::Request, message(1, len), true).expect("the stream takes a request");
    stream
}

/// Bytes that go out before the first of `stream`, from now on.
fn bytes_before(pair: &mut Pair, stream: StreamId) -> usize {
    let mut before = 0;
    for _ in 0..1_000 {
        for frame in next_write(pair) {
            if frame.stream == stream {
                return before;
            }
            before += frame.payload.len();
        }
    }
    panic!("stream {} is never served", stream.0);
}

#[test]
fn a_small_call_waits_for_at_most_one_chunk_of_each_big_one() {
    // FC-037
    for bulk in [1, 8, 30] {
        let mut pair = Pair::new(2, LinkSettings::default());
        for _ in 0..bulk {
            begin(&mut pair, DEFAULT_PRIORITY, BULK);
        }
        next_write(&mut pair);
        let small = begin(&mut pair, DEFAULT_PRIORITY, 100);
        let before = bytes_before(&mut pair, small);
        assert!(before <= bulk * CHUNK, "{bulk} big calls: {before} bytes before the small one");
    }
}

#[test]
fn a_call_of_high_priority_passes_big_ones_of_low_priority() {
    // FC-037
    let mut pair = Pair::new(2, LinkSettings::default());
    for _ in 0..30 {
        begin(&mut pair, 0, BULK);
    }
    next_write(&mut pair);
    let small = begin(&mut pair, 7, 100);
    let before = bytes_before(&mut pair, small);
    assert!(before <= CHUNK, "{before} bytes before it");
}

#[test]
fn a_heartbeat_is_the_first_that_goes_out() {
    // FC-037
    let mut pair = Pair::new(2, LinkSettings::default());
    for _ in 0..30 {
        begin(&mut pair, 7, BULK);
    }
    next_write(&mut pair);
    pair.a.probe();
    let first = next_write(&mut pair).into_iter().next().expect("something goes out");
    assert_eq!(first.message_type, MessageType::Heartbeat);
}

#[test]
fn big_calls_of_one_priority_get_equal_shares() {
    // FC-037
    let mut pair = Pair::new(2, LinkSettings::default());
    for _ in 0..10 {
        begin(&mut pair, DEFAULT_PRIORITY, BULK);
    }
    let mut shares: BTreeMap<StreamId, usize> = BTreeMap::new();
    while shares.values().sum::<usize>() < 10 * BULK / 2 {
        for frame in next_write(&mut pair).into_iter().filter(|frame| frame.stream != StreamId::LINK) {
            *shares.entry(frame.stream).or_default() += frame.payload.len();
        }
    }
    let (least, most) = (shares.values().min(), shares.values().max());
    assert_eq!(shares.len(), 10);
    assert!(most.zip(least).is_some_and(|(most, least)| *most <= least + 2 * CHUNK), "{shares:?}");
}
