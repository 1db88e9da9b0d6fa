//! The mesh's tables.
#![expect(dead_code, reason = "used by the dispatcher")]
#![cfg_attr(not(test), expect(unused_imports, reason = "used by the dispatcher"))]

pub(crate) mod admission;
pub(crate) mod idempotency;
pub(crate) mod program;
pub(crate) mod session;
pub(crate) mod slot;
pub(crate) mod subscription;

pub use admission::{HandlerLimits, Overloaded};
pub use idempotency::{IdempotencyCounters, IdempotencySettings, KeyRefused};
pub use program::{Program, ProgramError};
pub use session::{OpenRefused, SessionGone, SessionSettings};
pub use slot::SlotRefused;
pub use subscription::{EventSettings, RateLimited, SubscribeRefused, TooManyHops};
