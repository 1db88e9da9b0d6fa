//! The mesh's tables.
#![expect(dead_code, reason = "used by the dispatcher")]

pub(crate) mod admission;
pub(crate) mod session;
pub(crate) mod slot;

pub use admission::{HandlerLimits, Overloaded};
pub use session::{OpenRefused, SessionGone, SessionSettings};
pub use slot::SlotRefused;
