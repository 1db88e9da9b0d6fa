//! Floor 0, `schema`: what a body must be before anybody acts on it.
//!
//! ```text
//! bytes → json::parse → Value → Compiled::check → (spell_integers_plainly → typed decoding) → handler
//! ```
//!
//! Nothing here does I/O, reads a clock or spawns: a remote `$ref` is refused by name, never fetched. Schemas come
//! from peers, so compiling and checking are bounded in size and depth, patterns run in linear time, and what a
//! violation says is bounded, escaped, and silent about values of fields marked secret.

mod branch;
mod compile;
mod derive;
mod describe;
mod effort;
mod hint;
mod integer;
mod json;
mod nearest;
mod place;
mod text;
mod violation;

pub(crate) use self::compile::Compiled;
pub use self::compile::SchemaRefused;
pub use self::derive::schema_of;
pub(crate) use self::integer::spell_integers_plainly;
pub use self::json::JsonRefused;
pub(crate) use self::json::parse;
pub(crate) use self::nearest::nearest;
pub use self::violation::Violation;

/// Whether a schema can be used: its dialect, its size, its patterns, where its references lead.
///
/// # Errors
///
/// [`SchemaRefused`] says which limit or rule it breaks.
pub fn check_schema(schema: &serde_json::Value) -> Result<(), SchemaRefused> {
    Compiled::new(schema).map(drop)
}
