//! A file's bytes → [`Config`], or everything that is wrong with them.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::Path;

use super::Config;
use super::finding::ConfigError;
use super::finding::Position;
use super::finding::Severity;
use super::read;
use super::section::Reader;
use super::section::Surroundings;
use super::tree;
use super::tree::Value;

/// Largest file: some ten thousand peers. Whatever is larger is some other file.
pub(super) const MAX_FILE: u64 = 1 << 20;

pub(super) fn load(path: &Path) -> Result<Config, ConfigError> {
    let name = path.display().to_string();
    let base = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let around = Surroundings { file: &name, base, env: &|name| std::env::var(name).ok() };
    match read_bounded(path, MAX_FILE) {
        Ok(bytes) => parse(&bytes, around),
        Err(error) => Err(refused(around, "", Position::default(), &format!("cannot be read: {error}"), "")),
    }
}

/// Reads a file, and one byte more than allowed if it is larger.
pub(super) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn parse(bytes: &[u8], around: Surroundings<'_>) -> Result<Config, ConfigError> {
    if bytes.len() as u64 > MAX_FILE {
        let message = format!("more than {MAX_FILE} bytes, which is the most for a configuration file");
        return Err(refused(around, "", Position::default(), &message, ""));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let last = good.rsplit('\n').next().unwrap_or_default();
        let at = Position::new(good.matches('\n').count() + 1, last.chars().count() + 1);
        refused(around, &good, at, "a byte that is no UTF-8", "save the file as UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = tree::parse(text)
        .map_err(|malformed| refused(around, text, malformed.at, &malformed.message, malformed.remedy))?;
    if let Value::Null = root.value {
        let remedy =
            "the smallest useful file gives `node_id`, `agent` and `listen`; `{}` takes every default";
        return Err(refused(around, text, Position::new(1, 1), "the file is empty", remedy));
    }
    let mut reader = Reader::new(around);
    let mut config = read::config(&mut reader, &root);
    let findings = reader.finish(text, Some(&root));
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(ConfigError::new(findings));
    }
    config.warnings = findings;
    Ok(config)
}

/// A file that is refused before there is a tree.
fn refused(around: Surroundings<'_>, text: &str, at: Position, message: &str, remedy: &str) -> ConfigError {
    let mut reader = Reader::new(around);
    reader.error(at, "", message, remedy);
    ConfigError::new(reader.finish(text, None))
}
