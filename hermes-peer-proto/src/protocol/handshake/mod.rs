//! Who is there, shown to both sides before anything else is said.
//!
//! ```text
//!  initiator                                             acceptor
//!  Initiator::start ── SYN ───────────────────────────>  Acceptor::syn
//!                                                        SynReceived: resume or not, which link
//!  Initiator::syn_ack <─────── SYN_ACK, its proof ─────  SynReceived::accept
//!  Authenticated ───── ESTABLISHED, its proof ────────>  ExpectEstablished::established
//!                                                        Authenticated
//! ```
//!
//! All on stream 0, and with [`HANDSHAKE_VERSION`] in the frame's header. Each direction goes over to the version chosen
//! after its own last message: the acceptor's frames after SYN_ACK, the initiator's after ESTABLISHED. An ERROR in place of
//! a message has the header that the message would have had, so whoever waits for the one can read the other.
//!
//! Each step consumes the one before it, so the only way to own an [`Authenticated`] is to have passed them all. The driver
//! ends a handshake that takes longer than [`HANDSHAKE_TIMEOUT`](super::limits::HANDSHAKE_TIMEOUT), and sends the
//! [`refusal`](crate::protocol::HandshakeError::refusal) before it closes a connection that came to nothing.

mod acceptor;
mod initiator;
mod parts;
#[cfg(any(test, feature = "testing"))]
mod worked;

pub use acceptor::{Acceptor, ExpectEstablished, Resumption, SynReceived};
pub use initiator::{Expected, Initiator, ResumeTicket};
pub use parts::{Authenticated, HANDSHAKE_VERSION, Local};
#[cfg(any(test, feature = "testing"))]
pub use worked::{Worked, WorkedFrame, worked_handshake, worked_resume};

#[cfg(test)]
mod tests;
