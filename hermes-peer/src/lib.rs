//! Placeholder.
#[allow(dead_code, unused_imports)]
mod schema;
pub use schema::{JsonRefused, SchemaRefused, Violation, schema_of};
