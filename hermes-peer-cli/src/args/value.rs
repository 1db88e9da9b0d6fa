//! Values as they are typed.

use std::time::Duration;

use hermes_peer::certificates::MAX_VALIDITY;
use hermes_peer::config;
use hermes_peer::config::InvalidValue;
use hermes_peer_proto::wire::InvalidName;
use hermes_peer_proto::wire::MAX_KEY;
use hermes_peer_proto::wire::Target;

/// Longest time that is waited for an answer: more is a slip of the keyboard.
const MAX_WAIT: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How long a certificate is to be valid.
pub(super) fn validity(text: &str) -> Result<Duration, InvalidValue> {
    config::parse_duration(text, &(Duration::from_secs(60)..=MAX_VALIDITY))
}

/// How long something may take.
pub(super) fn wait(text: &str) -> Result<Duration, InvalidValue> {
    config::parse_duration(text, &(Duration::from_millis(1)..=MAX_WAIT))
}

/// Memory of a program.
pub(super) fn memory(text: &str) -> Result<u64, InvalidValue> {
    // A shell alone needs some MiB to start.
    config::parse_size(text, &(1 << 20..=1 << 40))
}

/// Whom a call is for: an agent, or one node.
pub(super) fn target(text: &str) -> Result<Target, InvalidName> {
    if text.starts_with("agent:") { text.parse().map(Target::Agent) } else { text.parse().map(Target::Node) }
}

/// The key under which a repeated call gets the first one's result.
pub(super) fn key(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > MAX_KEY {
        return Err(format!("a key has 1 to {MAX_KEY} bytes, this one {}", text.len()));
    }
    Ok(text.to_owned())
}
