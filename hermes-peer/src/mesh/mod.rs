//! Floor 4: what a node is in the mesh. It owns the tables; each step of a call is a call into the file that knows it.

pub(crate) mod admission;
mod admit;
mod builtin;
pub(crate) mod call;
mod check;
mod dial;
mod dispatch;
mod door;
mod drain;
mod ending;
pub(crate) mod events;
pub(crate) mod handler;
pub(crate) mod idempotency;
mod keyed;
mod local;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod order;
pub(crate) mod participation;
pub(crate) mod peers;
pub(crate) mod program;
pub(crate) mod providers;
mod reply;
pub(crate) mod route;
mod seen;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod slot;
pub(crate) mod start;
mod state;
mod strangers;
pub(crate) mod subscription;
mod upkeep;

pub(crate) use state::Mesh;
