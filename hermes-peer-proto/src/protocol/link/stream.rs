//! One stream.
//!
//! ```text
//!  opener                                    acceptor
//!  ------                                    --------
//!  REQUEST ... (FIN: no input follows)  -->  request whole: a handler runs
//!  STREAM ...  (FIN: end of input)      -->
//!                                       <--  STREAM ...           items of the answer
//!                                       <--  RESPONSE or ERROR    always with FIN: the end
//!  CANCEL                               -->  the end, at any time; ERROR answers it
//! ```
//!
//! The acceptor's FIN ends the whole stream: what the opener still had to say is dropped, and what it said meanwhile is
//! passed over when it arrives.

use super::inbound::Inbound;
use super::outbound::Outbound;

/// What is left to happen on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Both sides may speak, each until its FIN.
    Open,
    /// We opened it and no longer want the answer; the peer's end is awaited so that the number is not used too early.
    Cancelled,
    /// The end has come; what was received before waits to be read.
    Ended,
}

/// A stream as one side sees it.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) phase: Phase,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    /// Data frame of this link that carried the last piece of our request: a peer that has not received as many did not
    /// run it.
    pub(super) request_sent: Option<u64>,
}

impl Stream {
    pub(super) fn new(priority: u8, receive_window: u64, send_limit: u64) -> Self {
        Self {
            phase: Phase::Open,
            inbound: Inbound::new(receive_window),
            outbound: Outbound::new(priority, send_limit),
            request_sent: None,
        }
    }
}
