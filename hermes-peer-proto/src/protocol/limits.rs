//! Limits of the protocol, each with the reason for its number.

use std::time::Duration;

use crate::wire::Announced;

/// Longest payload of a frame before authentication, in bytes. The longest SYN has under 1 KiB; the rest is room for fields
/// of later versions, and little enough that 256 strangers at once hold 4 MiB.
pub const MAX_HANDSHAKE_PAYLOAD: u32 = 16 * 1024;

/// TCP, TLS and the three handshake messages together. Three round trips to the far side of the world take one second; a
/// lost packet or two may come on top.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that may be unauthenticated at once: a mesh of that size that restarts as one gets in.
pub const MAX_UNAUTHENTICATED: usize = 256;

/// Of these, from one source address: several nodes share a host, an attacker with one address must not take all.
pub const MAX_UNAUTHENTICATED_PER_SOURCE: usize = 32;

/// Shortest chunk that a peer may ask for, in bytes: below, headers and TLS records outweigh what they carry.
pub const MIN_CHUNK: u32 = 256;

/// Shortest heartbeat interval that a peer may announce, in milliseconds. It counts as dead after three, and under 10 ms
/// that would be the scheduler's mood.
pub const MIN_HEARTBEAT_MS: u32 = 10;

/// Smallest window and longest message that a peer may announce, in bytes: below, hardly a call would fit.
pub const MIN_WINDOW: u32 = 1_024;

/// What a node announces unless its configuration says otherwise.
pub const DEFAULT_ANNOUNCED: Announced = Announced {
    // A large document or image; what is larger is streamed.
    max_message: 64 * 1024 * 1024,
    // With the 15 bytes of the header exactly two full TLS records.
    max_chunk: 2 * 16_384 - 15,
    // 20 Mbit/s over 100 ms, from the first byte; it grows where it pays.
    stream_window: 256 * 1024,
    // 640 Mbit/s over 100 ms for all streams together, and 1000 links that are all full hold 8 GiB at the very most.
    link_window: 8 * 1024 * 1024,
    // Events are small, and slow subscribers must not take what calls need.
    event_window: 1024 * 1024,
    // Ten times what one agent has open at once when it is busy.
    max_streams: 1024,
    // Under the minute or more after which middleboxes forget an idle connection.
    heartbeat_ms: 40_000,
};

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
            announced: DEFAULT_ANNOUNCED,
            retained_frames: 200,
            retained_bytes: 4 * 1024 * 1024,
            assembly_bytes: 128 * 1024 * 1024,
        }
    }
}
