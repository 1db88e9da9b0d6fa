//! The `auth` section: certificates or tokens. Nothing here quotes a value.

use std::net::SocketAddr;

use hermes_peer_proto::security::MAX_TOKEN_LEN;
use hermes_peer_proto::security::Token;
use hermes_peer_proto::security::TokenSet;

use super::file;
use super::hidden::Scalar;
use super::read;
use super::section::Reader;
use super::section::Section;
use super::settings::AuthConfig;
use super::tree::Node;
use super::tree::Value;
use super::value;
use super::value::Refused;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Mtls,
    Token,
}

const KEYS: [(&str, Mode); 8] = [
    ("ca", Mode::Mtls),
    ("cert", Mode::Mtls),
    ("key", Mode::Mtls),
    ("crl", Mode::Mtls),
    ("token", Mode::Token),
    ("token_file", Mode::Token),
    ("tokens", Mode::Token),
    ("token_files", Mode::Token),
];

/// Reads `auth`, which is needed where others than this machine can connect.
pub(super) fn auth(reader: &mut Reader<'_>, top: &Section<'_>, listen: SocketAddr) -> Option<AuthConfig> {
    if top.entry("auth").is_none() && !listen.ip().is_loopback() {
        let at = top.entry("listen").map_or(top.at, |entry| entry.node.at);
        reader.error(
            at,
            "listen",
            "the node would listen beyond this machine without `auth`",
            "add `auth: { mode: mtls, ca: …, cert: …, key: … }` (`hermes-peer certs` makes the files), \
             or listen on 127.0.0.1",
        );
    }
    let section = reader.section(top, "auth")?;
    let modes = [("mtls", Mode::Mtls), ("token", Mode::Token)];
    let mode = reader.need(&section, "mode", |text| value::one_of(text, &modes))?;
    for (key, belongs) in KEYS {
        if let Some(entry) = section.entry(key).filter(|_| belongs != mode) {
            let (other, this) = if mode == Mode::Token { ("mtls", "token") } else { ("token", "mtls") };
            let message = format!("`{key}` belongs to `mode: {other}`, and this is `mode: {this}`");
            reader.error(entry.at, &section.path_of(key), message, "leave it out, or change the mode");
        }
    }
    match mode {
        Mode::Mtls => mtls(reader, &section),
        Mode::Token => tokens(reader, &section).map(|tokens| AuthConfig::Token { tokens }),
    }
}

fn mtls(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<AuthConfig> {
    for key in ["ca", "cert", "key"] {
        if section.entry(key).is_none() {
            reader.error(
                section.at,
                &section.path,
                format!("`{key}` is missing"),
                format!("add `{key}: FILE`, a PEM file"),
            );
        }
    }
    let [ca, cert, key, crl] = ["ca", "cert", "key", "crl"].map(|name| read::file_of(reader, section, name));
    if let (Some(path), Some(entry)) = (&key, section.entry("key")) {
        warn_if_others_read(reader, path, &entry.node, &section.path_of("key"));
    }
    Some(AuthConfig::Mtls { ca: ca?, cert: cert?, key: key?, crl })
}

fn tokens(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<TokenSet> {
    let mut tokens = Vec::new();
    let mut has_any = false;
    for (key, is_file) in [("token", false), ("token_file", true), ("tokens", false), ("token_files", true)] {
        let Some(entry) = section.entry(key) else { continue };
        has_any = true;
        let nodes = if key.ends_with('s') {
            let items = reader.items(section, key);
            if items.is_empty() && matches!(&entry.node.value, Value::List(_)) {
                reader.error(entry.node.at, &section.path_of(key), "the list is empty", "name at least one");
            }
            items
        } else {
            vec![(&entry.node, section.path_of(key))]
        };
        for (node, path) in nodes {
            let Some(scalar) = reader.scalar(node, path) else {
                continue;
            };
            tokens.extend(if is_file { token_file(reader, &scalar, node) } else { token(reader, &scalar) });
        }
    }
    if !has_any {
        let remedy = "add `token: ${NAME}` to take it from the environment, or `token_file: FILE`";
        reader.error(section.at, &section.path, "there is no token", remedy);
    }
    if tokens.is_empty() {
        return None;
    }
    TokenSet::new(tokens).map_err(|error| reader.error(section.at, &section.path, error.to_string(), "")).ok()
}

fn token(reader: &mut Reader<'_>, scalar: &Scalar) -> Option<Token> {
    let secret =
        value::token(scalar.text.as_bytes()).map_err(|refused| reader.refuse(scalar, &refused)).ok()?;
    if scalar.variable.is_none() {
        reader.warn(
            scalar.at,
            &scalar.path,
            "the token stands in this file, and whoever can read the file has it",
            "write `${NAME}` to take it from the environment, or use `token_file`",
        );
    }
    Some(secret)
}

fn token_file(reader: &mut Reader<'_>, scalar: &Scalar, node: &Node) -> Option<Token> {
    /// What stands around a token in a file: a byte-order mark and a line end.
    const DRESSING: u64 = 5;
    let path = reader.around.base.join(&scalar.text);
    let limit = MAX_TOKEN_LEN as u64 + DRESSING;
    let secret = file::read_bounded(&path, limit)
        .map_err(|error| {
            let remedy = "relative paths start at the folder of this file";
            Refused::new(format!("is a file that cannot be read: {error}"), remedy)
        })
        .and_then(|bytes| {
            value::token(&bytes).map_err(|refused| {
                Refused::new(format!("is a file whose content {}", refused.what), refused.remedy)
            })
        });
    let secret = secret.map_err(|refused| reader.refuse(scalar, &refused)).ok()?;
    warn_if_others_read(reader, &path, node, &scalar.path);
    Some(secret)
}

#[cfg(unix)]
fn warn_if_others_read(reader: &mut Reader<'_>, path: &std::path::Path, node: &Node, key: &str) {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = std::fs::metadata(path).map_or(0, |facts| facts.permissions().mode());
    if mode & 0o077 != 0 {
        let message = format!("other users of this machine can read the file (mode {:04o})", mode & 0o7777);
        reader.warn(node.at, key, message, "take that away with `chmod 600`");
    }
}

/// Access lists of other systems are not read.
#[cfg(not(unix))]
fn warn_if_others_read(_: &mut Reader<'_>, _: &std::path::Path, _: &Node, _: &str) {}
