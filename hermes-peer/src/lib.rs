//! Placeholder.
#[expect(dead_code, unused_imports, reason = "the floors above come later")]
mod schema;
pub use schema::{JsonRefused, SchemaRefused, Violation, schema_of};
