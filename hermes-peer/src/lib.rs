//! A peer-to-peer mesh for agent processes.

mod api;
mod config;
mod discovery;
mod link;
mod mesh;
mod observe;
mod schema;
mod transport;
