//! Floor 5: what users see.

pub(crate) mod builder;
pub(crate) mod call;
pub(crate) mod capability;
pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod from_file;
pub(crate) mod items;
pub(crate) mod node;
pub(crate) mod payload;
pub(crate) mod program;
pub(crate) mod session;
