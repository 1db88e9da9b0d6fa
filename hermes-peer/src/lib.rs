//! Placeholder.
mod discovery;
mod transport;
