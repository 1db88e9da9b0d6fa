//! Every limit of the protocol, with the reason for its number.

use crate::wire::Announced;

/// Capabilities that a peer may advertise. Enough for a gateway that stands for a large tool collection.
pub const MAX_ADVERTISED: usize = 10_000;
/// Topic patterns that a peer may subscribe to.
pub const MAX_SUBSCRIPTIONS: usize = 1_024;
/// Longest payload of a frame on an established link, in bytes: a control frame with one capability of the longest
/// schemas. Data frames are bounded by the chunk that each side announced.
pub const MAX_PAYLOAD: u32 = 1024 * 1024;

/// What a link is prepared to take and keep.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkSettings {
    /// Told to the peer.
    pub announced: Announced,
    /// Data frames kept until acknowledged. At 200 a link with a round trip of 25 ms still moves 8,000 a second.
    pub retained_frames: usize,
    /// Bytes kept until acknowledged.
    pub retained_bytes: usize,
    /// Memory for messages longer than a stream's window, in bytes. A single message may exceed it.
    pub assembly_bytes: u64,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            announced: Announced {
                max_message: 64 * 1024 * 1024,
                // With the header exactly two TLS records of 16,384 bytes.
                max_chunk: 32_753,
                stream_window: 256 * 1024,
                link_window: 8 * 1024 * 1024,
                event_window: 1024 * 1024,
                max_streams: 1_024,
                heartbeat_ms: 40_000,
            },
            retained_frames: 200,
            retained_bytes: 4 * 1024 * 1024,
            assembly_bytes: 128 * 1024 * 1024,
        }
    }
}
