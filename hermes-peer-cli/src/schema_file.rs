//! The schema of a program: a JSON file with `input`, `output` and `description`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use hermes_peer::check_schema;
use serde::Deserialize;
use serde_json::Value;

/// Longest file in bytes: both schemas at their largest, and a description.
const MAX_FILE: u64 = 256 * 1024;

/// What a schema file says. Without a schema, anything goes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SchemaFile {
    /// What goes in.
    pub(crate) input: Option<Value>,
    /// What comes out; of a stream, each item.
    pub(crate) output: Option<Value>,
    /// What the capability does.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the verbs that serve programs"))]
    pub(crate) description: Option<String>,
}

impl SchemaFile {
    /// Reads a file, and checks that its schemas can be used.
    ///
    /// # Errors
    ///
    /// What is wrong and where, to be read after the file's name.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
        file.take(MAX_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("cannot be read: {error}"))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(format!("has more than {MAX_FILE} bytes, the most for a schema file"));
        }
        let file: Self = serde_json::from_slice(&bytes).map_err(|error| {
            format!(
                "is no schema file: {error}; it is a JSON object with `input`, `output` and `description`"
            )
        })?;
        for (part, schema) in [("input", &file.input), ("output", &file.output)] {
            if let Some(schema) = schema {
                check_schema(schema)
                    .map_err(|refused| format!("has an `{part}` that cannot be used: {refused}"))?;
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<SchemaFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schema.json");
        std::fs::write(&path, text).unwrap();
        SchemaFile::load(&path)
    }

    #[test]
    fn a_schema_file_gives_its_parts() {
        let file = load(r#"{"input": {"type": "object"}, "description": "Echoes."}"#).unwrap();
        assert_eq!(file.input, Some(serde_json::json!({"type": "object"})));
        assert!(file.output.is_none());
        assert_eq!(file.description.as_deref(), Some("Echoes."));
    }

    #[test]
    fn what_is_no_schema_file_is_named_with_its_place() {
        for (text, expected) in [
            (r#"{"inptu": {}}"#, "unknown field `inptu`"),
            ("{\n x}", "line 2 column 2"),
            (r#"{"input": {"type": "objekt"}}"#, "has an `input` that cannot be used"),
            (r#"{"output": {"$ref": "https://example.org/s"}}"#, "https://example.org/s"),
        ] {
            let told = load(text).unwrap_err();
            assert!(told.contains(expected), "{text}: {told}");
        }
    }
}
