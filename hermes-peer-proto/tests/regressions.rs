//! What went wrong once.

use std::time::Instant;

use bytes::Buf;
use bytes::Bytes;
use bytes::BytesMut;

use hermes_peer_proto::protocol::Link;
use hermes_peer_proto::protocol::LinkSettings;
use hermes_peer_proto::protocol::Notice;
use hermes_peer_proto::protocol::SendRefused;
use hermes_peer_proto::testing::Pair;
use hermes_peer_proto::testing::message;
use hermes_peer_proto::wire::Batch;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::Decoder;
use hermes_peer_proto::wire::Epoch;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Frame;
use hermes_peer_proto::wire::GoAwayReason;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::LinkId;
use hermes_peer_proto::wire::MessageType;
use hermes_peer_proto::wire::Side;
use hermes_peer_proto::wire::StreamId;

#[expect(clippy::disallowed_methods, reason = "the one origin of a test's time")]
fn origin() -> Instant {
    Instant::now()
}

#[test]
fn regression_streams_of_any_priority_begin_in_the_order_of_their_numbers() {
    let mut pair = Pair::new(2, LinkSettings::default());
    let low = pair.a.open(0).unwrap();
    pair.a.send(low, MessageType::Request, message(1, 8), true).unwrap();
    let high = pair.a.open(7).unwrap();
    pair.a.send(high, MessageType::Request, message(1, 8), true).unwrap();
    pair.settle();
}

#[test]
fn regression_a_stream_that_is_sent_on_late_still_begins_in_order() {
    let mut pair = Pair::new(2, LinkSettings::default());
    let first = pair.a.open(3).unwrap();
    let second = pair.a.open(3).unwrap();
    pair.a.send(second, MessageType::Request, message(1, 8), true).unwrap();
    pair.a.send(first, MessageType::Request, message(1, 8), true).unwrap();
    pair.settle();
}

#[test]
fn regression_an_event_larger_than_the_window_is_refused_before_it_is_sent() {
    let mut pair = Pair::new(2, LinkSettings::default());
    let refused = pair.a.publish(message(1, 2_000_000));
    assert_eq!(refused, Err(SendRefused::TooLarge { got: 2_000_004, limit: 1_048_576 }));
    pair.settle();
}

#[test]
fn regression_numbers_start_over_though_the_last_frames_were_lost() {
    let mut pair = Pair::new(2, LinkSettings::default());
    pair.settle();
    pair.is_cut = true;
    pair.a.skip_to_stream((1 << 30) + 1);
    let old = pair.a.open(3).unwrap();
    pair.a.send(old, MessageType::Request, message(1, 8), true).unwrap();
    pair.settle();
    pair.is_cut = false;
    pair.disconnect();
    pair.resume();
    let new = pair.a.open(3).unwrap();
    assert_eq!(new, StreamId(1));
    pair.a.send(new, MessageType::Request, message(1, 8), true).unwrap();
    pair.settle();
}

#[test]
fn regression_a_request_given_up_half_way_survives_a_resume() {
    let mut settings = LinkSettings::default();
    settings.announced.stream_window = 64 * 1024;
    let mut pair = Pair::new(2, settings);
    pair.settle();
    pair.is_cut = true;
    let stream = pair.a.open(3).unwrap();
    pair.a.send(stream, MessageType::Request, message(1, 1_000_000), true).unwrap();
    pair.settle();
    pair.a.cancel(stream, ErrorCode::Cancelled);
    pair.is_cut = false;
    pair.disconnect();
    pair.resume();
    pair.settle();
}

#[test]
fn regression_a_cancel_reaches_a_request_that_is_sent_again() {
    let mut pair = Pair::new(2, LinkSettings::default());
    pair.settle();
    pair.is_cut = true;
    let stream = pair.a.open(3).unwrap();
    pair.a.send(stream, MessageType::Request, message(1, 8), true).unwrap();
    pair.settle();
    pair.a.cancel(stream, ErrorCode::Cancelled);
    pair.settle();
    pair.is_cut = false;
    pair.disconnect();
    pair.resume();
    pair.settle();
    assert!(pair.notices_b.contains(&Notice::Cancelled(stream, ErrorCode::Cancelled)));
}

#[test]
fn regression_a_call_from_before_a_roll_over_is_not_given_back() {
    let mut pair = Pair::new(2, LinkSettings::default());
    pair.a.skip_to_stream((1 << 30) + 1);
    let old = pair.a.open(3).unwrap();
    pair.a.send(old, MessageType::Request, message(1, 8), true).unwrap();
    pair.settle();
    pair.disconnect();
    pair.resume();
    let new = pair.a.open(3).unwrap();
    pair.a.send(new, MessageType::Request, message(1, 8), true).unwrap();
    pair.settle();
    pair.b.go_away(GoAwayReason::Draining, "", true);
    pair.settle();
    assert!(!pair.notices_a.contains(&Notice::NotTaken(old)));
}

#[test]
fn regression_what_is_opened_without_a_connection_keeps_to_the_peers_limits() {
    let mut big = LinkSettings::default();
    let mut small = LinkSettings::default();
    big.announced.stream_window = 1 << 20;
    small.announced.stream_window = 64 * 1024;
    let now = origin();
    let mut a = Link::new(
        now,
        LinkId::from_bytes([1; 16]),
        Side::Initiator,
        Epoch(1),
        2,
        big.clone(),
        small.announced,
    );
    let mut b = Link::new(
        now,
        LinkId::from_bytes([1; 16]),
        Side::Acceptor,
        Epoch(1),
        2,
        small.clone(),
        big.announced,
    );
    a.detach();
    b.detach();
    let s = a.open(3).unwrap();
    a.send(s, MessageType::Request, message(1, 300_000), true).unwrap();
    a.attach(now, 2, small.announced, 0).unwrap();
    b.attach(now, 2, big.announced, 0).unwrap();
    let mut batch = Batch::default();
    for _ in 0..20 {
        a.poll_transmit(now, &mut batch);
        let len = batch.len();
        let mut bytes = BytesMut::from(&batch.copy_to_bytes(len)[..]);
        while let Some(frame) = Decoder::new(2, 1 << 20).decode(&mut bytes).unwrap() {
            b.handle_frame(now, frame).unwrap();
        }
    }
}

#[test]
fn regression_a_request_without_a_byte_leaves_nothing_behind() {
    let settings = LinkSettings::default();
    let now = origin();
    let mut b = Link::new(
        now,
        LinkId::from_bytes([1; 16]),
        Side::Acceptor,
        Epoch(1),
        2,
        settings.clone(),
        settings.announced,
    );
    b.handle_frame(now, Frame::data(MessageType::Request, StreamId(1), true, Bytes::new())).unwrap();
    let mut batch = Batch::default();
    b.poll_transmit(now, &mut batch);
    assert_eq!(b.open_streams(), (0, 0));
}

#[test]
fn regression_a_statement_that_was_overtaken_does_not_take_the_place_of_the_newer_one() {
    // Two tasks that tell a peer what they read before and after a change may reach the link in the wrong order.
    let mut pair = Pair::new(2, LinkSettings::default());
    let interest = Interest { pattern: "ticket.*".parse().unwrap(), group: None };
    pair.a.subscribe(2, vec![interest.clone()]);
    pair.a.subscribe(1, Vec::new());
    pair.a.advertise(2, vec![CapabilityInfo::new("a.b".parse().unwrap())]);
    pair.a.advertise(1, Vec::new());
    pair.settle();
    let heard: Vec<_> = pair.notices_b.drain(..).collect();
    assert!(heard.contains(&Notice::Subscribed(vec![interest])), "{heard:?}");
    let provided = |notice: &Notice| matches!(notice, Notice::Advertised(all) if all.len() == 1);
    assert!(heard.iter().any(provided), "{heard:?}");
}
