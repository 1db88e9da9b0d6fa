//! Scenarios on a pair of links.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::DEFAULT_PRIORITY;
use super::Link;
use super::OpenRefused;
use super::Read;
use super::Received;
use super::SendRefused;
use super::UNCOUNTED;
use super::machine::ROLL_OVER;
use crate::protocol::LinkSettings;
use crate::protocol::Notice;
use crate::testing::Pair;
use crate::testing::body;
use crate::testing::message;
use crate::wire::CapabilityInfo;
use crate::wire::ErrorCode;
use crate::wire::GoAwayReason;
use crate::wire::Interest;
use crate::wire::MessageType;
use crate::wire::StreamId;

fn pair() -> Pair {
    Pair::new(2, LinkSettings::default())
}

fn small_windows() -> LinkSettings {
    let mut settings = LinkSettings::default();
    settings.announced.stream_window = 64 * 1024;
    settings.announced.link_window = 256 * 1024;
    settings
}

/// The messages of a stream, up to its end or as far as they have come.
fn read_all(link: &mut Link, stream: StreamId) -> Vec<(MessageType, bytes::Bytes)> {
    let mut got = Vec::new();
    while let Read::Message(received) = link.read(stream) {
        got.push((received.message_type, received.message.body));
    }
    got
}

fn call(pair: &mut Pair, mark: u64, len: usize) -> StreamId {
    let stream = pair.a.open(DEFAULT_PRIORITY).unwrap();
    pair.a.send(stream, MessageType::Request, message(mark, len), true).unwrap();
    stream
}

fn answer_requests(pair: &mut Pair, len: usize) {
    while let Some(notice) = pair.notices_b.pop_front() {
        if let Notice::Request(stream) = notice {
            let Read::Message(request) = pair.b.read(stream) else { panic!("a request was announced") };
            let mark = u64::from_le_bytes(request.message.body[..8].try_into().unwrap());
            pair.b.send(stream, MessageType::Response, message(mark, len), true).unwrap();
        }
    }
}

#[test]
fn a_call_is_answered_and_leaves_nothing_behind() {
    let mut pair = pair();
    let stream = call(&mut pair, 1, 100);
    pair.settle();
    answer_requests(&mut pair, 200);
    pair.settle();
    assert!(pair.notices_a.contains(&Notice::Readable(stream)));
    assert_eq!(read_all(&mut pair.a, stream), [(MessageType::Response, body(1, 200))]);
    assert_eq!((pair.a.open_streams(), pair.b.open_streams()), ((0, 0), (0, 0)));
    assert_eq!(pair.a.held_bytes() + pair.b.held_bytes(), 0);
}

#[test]
fn items_flow_both_ways_and_each_half_ends_by_itself() {
    // FC-042 (1) and (4)
    let mut pair = pair();
    let stream = pair.a.open(DEFAULT_PRIORITY).unwrap();
    pair.a.send(stream, MessageType::Request, message(0, 8), false).unwrap();
    for mark in 1..=10 {
        pair.a.send(stream, MessageType::Stream, message(mark, 8), false).unwrap();
    }
    pair.a.finish(stream);
    pair.settle();
    let input = read_all(&mut pair.b, stream);
    assert_eq!(input.len(), 11);
    assert_eq!(pair.b.read(stream), Read::End);
    for mark in 1..=10 {
        pair.b.send(stream, MessageType::Stream, message(mark, 8), false).unwrap();
    }
    pair.b.send(stream, MessageType::Response, message(99, 8), true).unwrap();
    pair.settle();
    let output = read_all(&mut pair.a, stream);
    assert_eq!(output.len(), 11);
    assert_eq!(output[10], (MessageType::Response, body(99, 8)));
    assert_eq!((pair.a.open_streams(), pair.b.open_streams()), ((0, 0), (0, 0)));
}

#[test]
fn a_handler_that_ends_early_ends_the_senders_half_too() {
    // FC-042 (2) and (3)
    let mut pair = pair();
    let stream = pair.a.open(DEFAULT_PRIORITY).unwrap();
    pair.a.send(stream, MessageType::Request, message(0, 8), false).unwrap();
    pair.settle();
    pair.b.send(stream, MessageType::Response, message(1, 8), true).unwrap();
    pair.settle();
    assert_eq!(pair.a.send(stream, MessageType::Stream, message(2, 8), false), Err(SendRefused::Ended));
    assert_eq!(read_all(&mut pair.a, stream), [(MessageType::Response, body(1, 8))]);
    pair.settle();
    assert_eq!((pair.a.open_streams(), pair.b.open_streams()), ((0, 0), (0, 0)));
}

#[test]
fn a_message_far_larger_than_the_windows_arrives_whole() {
    let mut pair = Pair::new(2, small_windows());
    let stream = call(&mut pair, 5, 10_000_000);
    pair.settle();
    answer_requests(&mut pair, 5_000_000);
    pair.settle();
    assert_eq!(read_all(&mut pair.a, stream), [(MessageType::Response, body(5, 5_000_000))]);
}

#[test]
fn messages_larger_than_the_budget_are_completed_one_after_the_other() {
    let mut settings = small_windows();
    settings.assembly_bytes = 1_500_000;
    let mut pair = Pair::new(2, settings);
    let streams: Vec<_> = (0..5).map(|mark| call(&mut pair, mark, 1_000_000)).collect();
    for _ in 0..5 {
        pair.settle();
        answer_requests(&mut pair, 8);
    }
    pair.settle();
    for (mark, stream) in streams.into_iter().enumerate() {
        assert_eq!(read_all(&mut pair.a, stream), [(MessageType::Response, body(mark as u64, 8))]);
    }
}

#[test]
fn a_reader_that_does_not_read_stops_only_its_own_stream() {
    let mut pair = Pair::new(2, small_windows());
    let mut stalled = Vec::new();
    for mark in 0..8 {
        let stream = call(&mut pair, mark, 8);
        pair.settle();
        while let Ok(()) = pair.b.send(stream, MessageType::Stream, message(mark, 1000), false) {
            pair.settle();
        }
        stalled.push(stream);
    }
    assert!(pair.a.held_bytes() <= 256 * 1024 + 8 * UNCOUNTED);
    pair.notices_b.clear();
    let small = call(&mut pair, 77, 1000);
    pair.settle();
    answer_requests(&mut pair, 1000);
    pair.settle();
    assert_eq!(read_all(&mut pair.a, small), [(MessageType::Response, body(77, 1000))]);
}

#[test]
fn a_full_sender_is_told_when_it_may_go_on() {
    let mut pair = Pair::new(2, small_windows());
    let stream = call(&mut pair, 0, 8);
    pair.settle();
    let mut sent = 0;
    while let Ok(()) = pair.b.send(stream, MessageType::Stream, message(sent, 1000), false) {
        sent += 1;
    }
    pair.settle();
    assert!(pair.notices_b.contains(&Notice::Writable(stream)));
}

#[test]
fn cancelled_streams_give_back_all_that_they_held() {
    // FC-035
    let mut pair = Pair::new(2, small_windows());
    for round in 0..500 {
        let stream = call(&mut pair, round, 8);
        pair.settle();
        let items = if round % 3 == 0 { 100_000 } else { 100 };
        let _ = pair.b.send(stream, MessageType::Stream, message(round, items), false);
        pair.settle();
        pair.a.cancel(stream, ErrorCode::Cancelled);
        pair.settle();
    }
    assert_eq!((pair.a.open_streams(), pair.b.open_streams()), ((0, 0), (0, 0)));
    pair.notices_b.clear();
    let stream = call(&mut pair, 1, 2_000_000);
    pair.settle();
    answer_requests(&mut pair, 2_000_000);
    pair.settle();
    assert_eq!(read_all(&mut pair.a, stream), [(MessageType::Response, body(1, 2_000_000))]);
}

#[test]
fn the_provider_hears_of_a_cancelled_call_and_a_late_answer_goes_nowhere() {
    // FC-046 (2) and (3)
    let mut pair = pair();
    let stream = call(&mut pair, 1, 8);
    pair.settle();
    pair.a.cancel(stream, ErrorCode::DeadlineExceeded);
    pair.a.cancel(stream, ErrorCode::Cancelled);
    pair.settle();
    assert!(pair.notices_b.contains(&Notice::Cancelled(stream, ErrorCode::DeadlineExceeded)));
    assert_eq!(
        pair.b.send(stream, MessageType::Response, message(1, 8), true),
        Err(SendRefused::Ended),
        "the stream is over"
    );
    assert_eq!(pair.a.read(stream), Read::End);
    assert_eq!((pair.a.open_streams(), pair.b.open_streams()), ((0, 0), (0, 0)));
    pair.a.cancel(stream, ErrorCode::Cancelled);
}

#[test]
fn a_call_cancelled_before_it_left_is_never_heard_of() {
    let mut pair = pair();
    pair.settle();
    let stream = call(&mut pair, 1, 8);
    pair.a.cancel(stream, ErrorCode::Cancelled);
    pair.settle();
    assert!(pair.notices_b.is_empty());
    assert_eq!(pair.a.open_streams(), (0, 0));
}

#[test]
fn a_cut_cable_is_noticed_by_both_sides() {
    let mut pair = pair();
    pair.run_for(Duration::from_secs(600));
    assert!(!pair.notices_a.contains(&Notice::Silent), "heartbeats keep an idle link");
    pair.is_cut = true;
    pair.run_for(Duration::from_secs(121));
    assert!(pair.notices_a.contains(&Notice::Silent));
    assert!(pair.notices_b.contains(&Notice::Silent));
}

#[test]
fn while_a_call_waits_a_dead_peer_is_noticed_in_fifteen_seconds() {
    let mut pair = pair();
    pair.run_for(Duration::from_secs(100));
    call(&mut pair, 1, 8);
    pair.settle();
    pair.is_cut = true;
    pair.run_for(Duration::from_secs(16));
    assert!(pair.notices_a.contains(&Notice::Silent));
    assert!(!pair.notices_b.contains(&Notice::Silent), "the other side does not wait");
}

#[test]
fn a_process_that_slept_condemns_nobody() {
    let mut pair = pair();
    pair.run_for(Duration::from_secs(50));
    pair.now += Duration::from_secs(3600);
    pair.a.handle_timeout(pair.now);
    pair.b.handle_timeout(pair.now);
    pair.run_for(Duration::from_secs(200));
    assert!(!pair.notices_a.contains(&Notice::Silent));
    assert!(!pair.notices_b.contains(&Notice::Silent));
}

#[test]
fn a_peer_that_goes_away_gives_back_what_it_did_not_take_up() {
    let mut pair = pair();
    let taken = call(&mut pair, 1, 8);
    pair.settle();
    pair.b.go_away(GoAwayReason::Draining, "restart", false);
    pair.b.go_away(GoAwayReason::Draining, "restart", true);
    let late = call(&mut pair, 2, 8);
    pair.settle();
    assert!(pair.notices_a.contains(&Notice::NotTaken(late)));
    assert!(!pair.notices_a.contains(&Notice::NotTaken(taken)));
    assert_eq!(pair.a.open(DEFAULT_PRIORITY), Err(OpenRefused::GoingAway));
    answer_requests(&mut pair, 8);
    pair.settle();
    assert_eq!(read_all(&mut pair.a, taken), [(MessageType::Response, body(1, 8))]);
    assert_eq!((pair.a.open_streams(), pair.b.open_streams()), ((0, 0), (0, 0)));
}

#[test]
fn streams_are_limited_and_the_waiting_opener_is_told() {
    let mut settings = LinkSettings::default();
    settings.announced.max_streams = 2;
    let mut pair = Pair::new(2, settings);
    call(&mut pair, 1, 8);
    let second = call(&mut pair, 2, 8);
    assert_eq!(pair.a.open(DEFAULT_PRIORITY), Err(OpenRefused::TooMany { limit: 2 }));
    pair.settle();
    pair.a.cancel(second, ErrorCode::Cancelled);
    pair.settle();
    assert!(pair.notices_a.contains(&Notice::Openable));
    assert!(pair.a.open(DEFAULT_PRIORITY).is_ok());
}

#[test]
fn a_message_over_the_peers_limit_is_refused_before_it_is_sent() {
    let mut settings = LinkSettings::default();
    settings.announced.max_message = 1000;
    let mut pair = Pair::new(2, settings);
    let stream = pair.a.open(DEFAULT_PRIORITY).unwrap();
    assert_eq!(
        pair.a.send(stream, MessageType::Request, message(1, 2000), true),
        Err(SendRefused::TooLarge { got: 2003, limit: 1000 })
    );
    assert!(pair.a.send(stream, MessageType::Request, message(1, 997), true).is_ok());
}

#[test]
fn numbers_start_over_on_a_new_connection_when_they_run_out() {
    let mut pair = pair();
    pair.a.skip_to_stream(ROLL_OVER + 1);
    let old = call(&mut pair, 1, 8);
    pair.settle();
    assert!(pair.notices_a.contains(&Notice::Exhausted));
    pair.disconnect();
    pair.resume();
    let new = call(&mut pair, 2, 8);
    assert_eq!(new, StreamId(1));
    pair.settle();
    answer_requests(&mut pair, 8);
    pair.settle();
    for (mark, stream) in [(1, old), (2, new)] {
        assert_eq!(read_all(&mut pair.a, stream), [(MessageType::Response, body(mark, 8))]);
    }
}

#[test]
fn advertisements_and_subscriptions_are_said_again_on_a_new_connection() {
    let mut pair = pair();
    let infos: Vec<_> = (0..1000)
        .map(|n| {
            let mut info = CapabilityInfo::new(format!("demo.c{n}").parse().unwrap());
            info.input_schema = "x".repeat(1000);
            info
        })
        .collect();
    pair.a.advertise(1, infos.clone());
    pair.settle();
    let is_all = |notice: &Notice| matches!(notice, Notice::Advertised(got) if *got == infos);
    assert!(pair.notices_b.iter().any(is_all));
    pair.notices_b.clear();
    pair.disconnect();
    pair.resume();
    pair.settle();
    assert!(pair.notices_b.iter().any(is_all));
}

#[test]
fn what_is_stated_late_does_not_overwrite_what_is_newer() {
    let mut pair = pair();
    let info = |name: &str| CapabilityInfo::new(name.parse().unwrap());
    let interest = |pattern: &str| Interest { pattern: pattern.parse().unwrap(), group: None };
    pair.a.advertise(2, vec![info("demo.new")]);
    pair.a.advertise(1, vec![]);
    pair.a.subscribe(2, vec![interest("new.*")]);
    pair.a.subscribe(1, vec![]);
    pair.settle();
    let advertised =
        |notice: &Notice| matches!(notice, Notice::Advertised(got) if *got == [info("demo.new")]);
    let subscribed =
        |notice: &Notice| matches!(notice, Notice::Subscribed(got) if *got == [interest("new.*")]);
    assert!(pair.notices_b.iter().any(advertised) && pair.notices_b.iter().any(subscribed));
}

#[test]
fn events_arrive_in_order_and_a_full_queue_is_told() {
    let mut pair = pair();
    let mut sent = 0;
    loop {
        match pair.a.publish(message(sent, 1000)) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error, SendRefused::Full);
                break;
            }
        }
    }
    pair.settle();
    assert!(pair.notices_a.contains(&Notice::EventsWritable));
    let got: Vec<_> =
        std::iter::from_fn(|| pair.b.read_event()).map(|received| received.message.body).collect();
    assert_eq!(got, (0..sent).map(|mark| body(mark, 1000)).collect::<Vec<_>>());
}

#[test]
fn what_is_unacknowledged_is_bounded() {
    let settings = LinkSettings { retained_frames: 10, ..LinkSettings::default() };
    let mut pair = Pair::new(2, settings);
    pair.is_cut = true;
    for mark in 0..50 {
        call(&mut pair, mark, 8);
        pair.settle();
    }
    assert_eq!(pair.a.unacknowledged(), 10);
}

#[test]
fn a_link_that_ends_says_which_calls_may_have_run() {
    let mut pair = pair();
    let heard = call(&mut pair, 1, 8);
    pair.settle();
    pair.is_cut = true;
    let unheard = call(&mut pair, 2, 8);
    pair.settle();
    pair.disconnect();
    let queued = call(&mut pair, 3, 8);
    let received = pair.b.received();
    let ended = pair.a.end(Some(received));
    assert_eq!(ended.streams, [(heard, true), (unheard, false), (queued, false)]);
    assert_eq!(ended.gap, Some((2, 2)));
}

/// Runs a stream of items both ways with the connection cut whenever `cuts` says so, and gives what each side read.
fn streamed_through_cuts(items: u64, cuts: impl IntoIterator<Item = (usize, usize)>) -> (Vec<u64>, Vec<u64>) {
    let mut pair = pair();
    let stream = pair.a.open(DEFAULT_PRIORITY).unwrap();
    pair.a.send(stream, MessageType::Request, message(0, 8), false).unwrap();
    let mut cuts = cuts.into_iter();
    let (mut sent_a, mut sent_b, mut got) = (1, 1, HashMap::from([(true, Vec::new()), (false, Vec::new())]));
    let mark = |received: &Received| u64::from_le_bytes(received.message.body[..8].try_into().unwrap());
    let mut is_over = false;
    while !is_over {
        if let Some((to_b, to_a)) = cuts.next() {
            (pair.to_b.carries, pair.to_a.carries) = (Some(to_b), Some(to_a));
        }
        for _ in 0..7 {
            if sent_a <= items && pair.a.send(stream, MessageType::Stream, message(sent_a, 50), false).is_ok()
            {
                sent_a += 1;
                if sent_a > items {
                    pair.a.finish(stream);
                }
            }
            let is_last = sent_b == items + 1 && got[&false].len() as u64 == items + 1;
            let message_type = if is_last { MessageType::Response } else { MessageType::Stream };
            if (sent_b <= items || is_last)
                && pair.b.send(stream, message_type, message(sent_b, 50), is_last).is_ok()
            {
                sent_b += 1;
            }
        }
        if pair.settle() {
            pair.disconnect();
            pair.resume();
        }
        for (is_a, link) in [(true, &mut pair.a), (false, &mut pair.b)] {
            while let Read::Message(received) = link.read(stream) {
                got.get_mut(&is_a).unwrap().push(mark(&received));
            }
        }
        is_over = got[&true].len() as u64 > items;
    }
    (got.remove(&true).unwrap(), got.remove(&false).unwrap())
}

#[test]
fn every_item_is_seen_once_and_in_order_wherever_the_connection_is_cut() {
    // Each cut is one byte later than the one before, so every frame is cut at every place, and at its boundary.
    let (got_a, got_b) = streamed_through_cuts(1000, (1..4000).map(|at| (at % 997 + 1, at % 1009 + 1)));
    assert_eq!(got_a, (1..=1001).collect::<Vec<_>>());
    assert_eq!(got_b, (0..=1000).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_plan_of_cuts_loses_or_doubles_an_item(cuts in prop::collection::vec((1usize..3000, 1usize..3000), 0..60)) {
        let (got_a, got_b) = streamed_through_cuts(200, cuts);
        prop_assert_eq!(got_a, (1..=201).collect::<Vec<_>>());
        prop_assert_eq!(got_b, (0..=200).collect::<Vec<_>>());
    }

    #[test]
    fn whatever_is_opened_read_cancelled_and_cut_nothing_is_left_behind(
        operations in prop::collection::vec((0u8..7, 0usize..8, 1usize..200_000), 1..120),
    ) {
        let mut pair = Pair::new(2, small_windows());
        let mut open = Vec::new();
        for (operation, which, len) in operations {
            let stream = open.get(which % open.len().max(1)).copied();
            match (operation, stream) {
                (0, _) => open.extend(pair.a.open(3).ok().inspect(|stream| {
                    pair.a.send(*stream, MessageType::Request, message(1, len), which % 2 == 0).unwrap();
                })),
                (1, Some(stream)) => { let _ = pair.b.send(stream, MessageType::Stream, message(2, len), false); }
                (2, Some(stream)) => { let _ = pair.b.send(stream, MessageType::Response, message(3, len), true); }
                (3, Some(stream)) => pair.a.cancel(stream, ErrorCode::Cancelled),
                (4, Some(stream)) => { let _ = pair.a.send(stream, MessageType::Stream, message(4, len), which == 3); }
                (5, Some(stream)) => { read_all(&mut pair.a, stream); read_all(&mut pair.b, stream); }
                (6, _) => { pair.disconnect(); pair.resume(); }
                _ => {}
            }
            pair.settle();
        }
        for stream in open {
            pair.a.cancel(stream, ErrorCode::Cancelled);
        }
        pair.settle();
        prop_assert_eq!((pair.a.open_streams(), pair.b.open_streams()), ((0, 0), (0, 0)));
        prop_assert_eq!(pair.a.held_bytes() + pair.b.held_bytes(), 0);
        // The windows are whole again: a call as large as ten of them goes through.
        pair.notices_b.clear();
        let stream = call(&mut pair, 9, 640_000);
        pair.settle();
        answer_requests(&mut pair, 640_000);
        pair.settle();
        prop_assert_eq!(read_all(&mut pair.a, stream), [(MessageType::Response, body(9, 640_000))]);
    }
}
