//! What a link hands to the floor above.

use hermes_peer_proto::protocol::Received;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::GoAway;
use hermes_peer_proto::wire::Interest;
use hermes_peer_proto::wire::StreamId;

use super::handle::LinkHandle;

/// What a link hands upward. Called by the driver, outside the link's lock; nothing in it may wait.
pub(crate) trait Upward: Send + Sync {
    /// The peer opened a stream and its request is whole.
    fn request(&self, link: &LinkHandle, stream: StreamId);
    /// All that the peer provides.
    fn advertised(&self, link: &LinkHandle, capabilities: Vec<CapabilityInfo>);
    /// All that the peer subscribes to.
    fn subscribed(&self, link: &LinkHandle, interests: Vec<Interest>);
    /// Events, in order.
    fn events(&self, link: &LinkHandle, events: Vec<Received>);
    /// The event queue, full before, takes events again.
    fn events_writable(&self, link: &LinkHandle);
    /// The peer takes no new streams.
    fn going_away(&self, link: &LinkHandle, statement: GoAway);
    /// The connection has to be made anew while it still works.
    fn exhausted(&self, link: &LinkHandle);
}
