//! Findings of others about what a file names: where its keys stand.

use std::path::Path;

use super::file;
use super::finding::Finding;
use super::finding::Position;
use super::finding::Severity;
use super::section::Reader;
use super::section::Surroundings;
use super::tree;
use super::tree::Node;
use super::tree::Value;

/// A finding about the value of a key.
pub(super) fn finding(path: &Path, key: &str, severity: Severity, message: &str, remedy: &str) -> Finding {
    // The file was read before; if it is gone since, the finding stands without a place.
    let bytes = file::read_bounded(path, file::MAX_FILE).unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let root = tree::parse(text).ok();
    let at = root.as_ref().map_or_else(Position::default, |root| place(root, key));
    let name = path.display().to_string();
    let mut reader = Reader::new(Surroundings { file: &name, base: Path::new("."), env: &|_| None });
    match severity {
        Severity::Error => reader.error(at, key, message, remedy),
        Severity::Warning => reader.warn(at, key, message, remedy),
    }
    reader.finish(text, root.as_ref()).remove(0)
}

/// Where the value of a key such as `programs[0].schema` stands, or what there is of the way to it.
fn place(root: &Node, key: &str) -> Position {
    let mut node = root;
    for step in key.split(['.', '[']).filter(|step| !step.is_empty()) {
        let next = match &node.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == step).map(|entry| &entry.node),
            Value::List(items) => step
                .strip_suffix(']')
                .and_then(|index| index.parse::<usize>().ok())
                .and_then(|index| items.get(index)),
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node.at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_of_others_has_the_place_of_its_key_and_never_a_line_that_could_be_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.yaml");
        let text =
            "programs:\n  - capability: demo.echo\n    command: [cat]\nauth: { mode: mtls, cert: c.pem }\n";
        std::fs::write(&path, text).unwrap();
        let found = |key| {
            let found = finding(&path, key, Severity::Error, "is wrong", "mend it");
            ((found.at.line, found.at.column), found.source_line)
        };
        assert_eq!(found("programs[0].command[0]"), ((3, 15), Some("    command: [cat]".to_owned())));
        assert_eq!(found("programs[0].schema").0.0, 2, "what there is of the way");
        assert_eq!(found("auth.cert"), ((4, 27), None));
    }
}
