//! Floor 3: one link machine under a lock, and the task that moves bytes for it.
//!
//! ```text
//!   callers, handlers ──▶ LinkHandle / StreamHandle ──▶ Mutex<Core { Link, wakers }> ◀── LinkDriver ◀──▶ connection
//! ```
//!
//! Callers work on the machine directly, so that back pressure is exact and a call costs no queue; the driver is woken
//! only if it is not at work already. The lock is held for the machine's own steps, never across a write or a wait.
//! The driver reads and writes in one task as two halves that never wait for each other, nor for a consumer.

mod backoff;
mod drive_end;
mod driver;
mod establish;
mod handle;
mod health;
mod linger;
mod stream;
mod upward;

pub(crate) use backoff::Backoff;
pub(crate) use drive_end::DriveEnd;
pub(crate) use driver::LinkDriver;
pub(crate) use establish::EstablishError;
pub(crate) use establish::Established;
pub(crate) use establish::accept;
pub(crate) use establish::close_duplicate;
pub(crate) use establish::dial;
pub(crate) use establish::turn_away;
pub(crate) use handle::LinkHandle;
pub(crate) use handle::Stop;
pub(crate) use stream::StreamHandle;
pub(crate) use stream::StreamLost;
pub(crate) use upward::Upward;
