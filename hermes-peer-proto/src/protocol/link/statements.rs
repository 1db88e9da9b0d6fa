//! What we state of ourselves: what we provide and want to hear, that we go, how busy we are.

use super::machine::Link;
use crate::wire::Advertise;
use crate::wire::CapabilityInfo;
use crate::wire::Frame;
use crate::wire::GoAway;
use crate::wire::GoAwayReason;
use crate::wire::Interest;
use crate::wire::MAX_CAPABILITY;
use crate::wire::MAX_SEGMENT;
use crate::wire::MessageType;
use crate::wire::Payload;
use crate::wire::StreamId;
use crate::wire::Subscribe;

/// A part of an advertisement is closed once it holds this much: two chunks, so that it delays data hardly more than
/// data does.
const ADVERTISE_PART: usize = 64 * 1024;

impl Link {
    /// States all that we provide. It is said again on every new connection. What is older than what was stated before is
    /// passed over: two tasks that state at once may come in either order.
    pub fn advertise(&mut self, revision: u64, capabilities: Vec<CapabilityInfo>) {
        if revision < self.advertised_revision {
            return;
        }
        self.advertised_revision = revision;
        let mut parts: Vec<Vec<CapabilityInfo>> = vec![Vec::new()];
        let mut len = 0;
        for info in capabilities {
            let item_schema = info.item_schema.as_ref().map_or(0, String::len);
            let slots = (info.reads.len() + info.writes.len()) * MAX_SEGMENT;
            len += info.description.len() + info.input_schema.len() + info.output_schema.len() + item_schema;
            len += slots + MAX_CAPABILITY;
            if let Some(part) = parts.last_mut() {
                part.push(info);
            }
            if len >= ADVERTISE_PART {
                parts.push(Vec::new());
                len = 0;
            }
        }
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        self.advertised = (0..)
            .zip(parts)
            .map(|(part, capabilities)| {
                let statement = Advertise { revision, part, parts: count, capabilities };
                Frame::control(MessageType::Advertise, StreamId::LINK, statement.encode())
            })
            .collect();
        self.advertise_next = 0;
    }

    /// States all that we subscribe to. It is said again on every new connection. What is older than what was stated before
    /// is passed over.
    pub fn subscribe(&mut self, revision: u64, subscriptions: Vec<Interest>) {
        if self.subscribed.as_ref().is_some_and(|(stated, _)| revision < *stated) {
            return;
        }
        let statement = Subscribe { revision, subscriptions };
        let frame = Frame::control(MessageType::Subscribe, StreamId::LINK, statement.encode());
        self.subscribed = Some((revision, frame));
        self.is_subscribe_due = true;
    }

    /// Tells the peer that no new streams are taken. In the first of two phases, `final_word` false, streams on their way
    /// are still taken up; in the second, those that have not arrived by now are not, and the peer sends them elsewhere.
    pub fn go_away(&mut self, reason: GoAwayReason, message: &str, final_word: bool) {
        let last_stream = if final_word { self.peer_last } else { u32::MAX };
        self.going_away = Some(last_stream);
        let statement = GoAway { reason, last_stream, message: message.to_owned() };
        self.control.push_back(Frame::control(MessageType::GoAway, StreamId::LINK, statement.encode()));
    }

    /// Asks the peer for a sign of life.
    pub fn probe(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.liveness.want_beat();
        }
    }

    /// How busy we are, from 0 to 100; told with heartbeats.
    pub fn set_load(&mut self, load: u8) {
        self.load = load.min(100);
    }
}
