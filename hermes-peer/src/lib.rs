//! Placeholder.

mod mesh;

pub use mesh::*;
