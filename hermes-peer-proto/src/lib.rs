//! The Hermes protocol without I/O: no sockets, no clock, no tasks.
//!
//! Two floors: [`wire`] is the bytes, and above it [`security`] (who is who, what is proven, who may do what) and
//! [`protocol`] (the state machines of handshake and link). A driver feeds them frames, commands and the time, and takes
//! out frames, notices and the next time to call.

pub mod protocol;
pub mod security;
pub mod wire;
