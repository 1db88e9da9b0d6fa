//! Schemas of Rust types.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The JSON Schema (draft 2020-12) of `T`, as a capability advertises it.
///
/// - Doc comments become `description`, `#[serde(…)]` and `#[schemars(…)]` attributes are honoured.
/// - Types used inside stand under `$defs`, so that recursive ones work.
/// - A field of type `Option<_>` may be absent **and** may be null: both decode to `None`. A field with
///   `#[serde(default)]` may be absent only. `#[schemars(extend("x-secret" = true))]` keeps a field's values out of
///   every error message.
/// - Integers carry the bounds of their Rust type where JSON has no such type (`u8`: 0 to 255, unsigned: minimum 0);
///   formats like `uint8` are notes for readers and check nothing.
/// - Unknown properties are accepted, as serde does, unless the type says `#[serde(deny_unknown_fields)]`.
pub fn schema_of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}
