//! The whole of a configuration file.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use hermes_peer_proto::security::Rule;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::NodeId;

use super::changes;
use super::changes::Changes;
use super::file;
use super::finding::ConfigError;
use super::finding::Finding;
use super::finding::Severity;
use super::place;
use super::section::Surroundings;
use super::settings::AuthConfig;
use super::settings::DiscoveryConfig;
use super::settings::IdempotencyConfig;
use super::settings::JournalConfig;
use super::settings::LimitsConfig;
use super::settings::LogConfig;
use super::settings::PeerConfig;
use super::settings::ProgramConfig;
use super::settings::SessionConfig;
use super::settings::VersionConfig;
use super::value;
use super::value::InvalidValue;

/// What a configuration file says, with the default for what it does not say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// This node's name; whoever starts it makes one up if the file gives none.
    pub node_id: Option<NodeId>,
    /// The agent that this node serves.
    pub agent: Option<AgentUri>,
    /// Where the node listens. Default: 127.0.0.1, a free port.
    pub listen: SocketAddr,
    /// What others are told instead of [`listen`](Self::listen): each a host and a port. Empty if the file has none.
    pub advertise: Vec<String>,
    /// The peers that the file names.
    pub peers: Vec<PeerConfig>,
    /// Capabilities that this node is expected to provide: a start is refused if one has no handler.
    pub capabilities: Vec<CapabilityName>,
    /// Capabilities that are commands.
    pub programs: Vec<ProgramConfig>,
    /// How nodes prove who they are. Absent only where the node listens on loopback.
    pub auth: Option<AuthConfig>,
    /// Heartbeats and sessions.
    pub session: SessionConfig,
    /// Every other limit.
    pub limits: LimitsConfig,
    /// Where peers are looked for.
    pub discovery: DiscoveryConfig,
    /// Who may do what, in the order of the file; absent if the file has no `policy`, which is not the same as an empty
    /// one.
    pub policy: Option<Vec<Rule>>,
    /// What is logged and how.
    pub log: LogConfig,
    /// The record of messages and connection changes.
    pub journal: JournalConfig,
    /// How results are kept for repeated calls.
    pub idempotency: IdempotencyConfig,
    /// The protocol versions that are spoken.
    pub version: VersionConfig,
    pub(super) warnings: Vec<Finding>,
}

impl Config {
    /// Reads and checks a file, with the environment of this process.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with everything that a start would trip over.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        file::load(path)
    }

    /// Checks a text as if it stood in a file of this name. Relative paths start at `base`; `env` looks variables up.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn parse(
        text: &str,
        file: &str,
        base: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        file::parse(text.as_bytes(), Surroundings { file, base, env })
    }

    /// What a start with this file would refuse or warn about; nothing if the file is good.
    pub fn check(path: &Path) -> Vec<Finding> {
        match Self::load(path) {
            Ok(config) => config.warnings,
            Err(error) => error.findings().to_vec(),
        }
    }

    /// A finding about a key of a file, for whoever checks what the file names: with the place of the key, such as
    /// `programs[0].schema`, and its line where that can be shown. Where the file has no such key it is about the nearest
    /// part around it.
    pub fn finding(path: &Path, key: &str, severity: Severity, message: &str, remedy: &str) -> Finding {
        place::finding(path, key, severity, message, remedy)
    }

    /// What is allowed in this file and still looks wrong.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// What a reload from this configuration to `new` means.
    pub fn differences(&self, new: &Self) -> Changes {
        changes::between(self, new)
    }
}

/// Reads a duration as a file has it: `20s`, `500ms`, `1h30m`, `90d`.
///
/// # Errors
///
/// What is wrong with it, and the forms that are read.
pub fn parse_duration(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, InvalidValue> {
    value::duration(text, bounds).map_err(InvalidValue::from)
}

/// Reads a size in bytes as a file has it: `64MiB`, `256KiB`, `1GB`.
///
/// # Errors
///
/// What is wrong with it, and the forms that are read.
pub fn parse_size(text: &str, bounds: &RangeInclusive<u64>) -> Result<u64, InvalidValue> {
    value::size(text, bounds).map_err(InvalidValue::from)
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node_id: None,
            agent: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            advertise: Vec::new(),
            peers: Vec::new(),
            capabilities: Vec::new(),
            programs: Vec::new(),
            auth: None,
            session: SessionConfig::default(),
            limits: LimitsConfig::default(),
            discovery: DiscoveryConfig::default(),
            policy: None,
            log: LogConfig::default(),
            journal: JournalConfig::default(),
            idempotency: IdempotencyConfig::default(),
            version: VersionConfig::default(),
            warnings: Vec::new(),
        }
    }
}
