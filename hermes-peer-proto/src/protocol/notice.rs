//! What a link tells its driver.

use crate::wire::CapabilityInfo;
use crate::wire::ErrorCode;
use crate::wire::GoAway;
use crate::wire::Interest;
use crate::wire::StreamId;

/// Something happened on the link that the floors above must know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The peer opened a stream and its request is whole: read it.
    Request(StreamId),
    /// There is a message to read, or the end.
    Readable(StreamId),
    /// A stream that was full takes messages again.
    Writable(StreamId),
    /// A stream that could not be opened before can be now.
    Openable,
    /// The peer no longer wants the answer; the stream is over.
    Cancelled(StreamId, ErrorCode),
    /// The peer did not take this stream up and never will: sending it elsewhere is safe.
    NotTaken(StreamId),
    /// Events wait to be read.
    Events,
    /// The event queue, full before, takes events again.
    EventsWritable,
    /// All that the peer provides.
    Advertised(Vec<CapabilityInfo>),
    /// All that the peer subscribes to.
    Subscribed(Vec<Interest>),
    /// The peer takes no new streams.
    GoAway(GoAway),
    /// The peer is silent for too long: the connection is of no use.
    Silent,
    /// Stream numbers run out: the connection has to be made anew.
    Exhausted,
}
