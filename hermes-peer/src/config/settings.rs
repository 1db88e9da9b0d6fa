//! The parts of a [`Config`](super::Config), each with its defaults.

use std::path::PathBuf;
use std::time::Duration;

use hermes_peer_proto::security::TokenSet;
use hermes_peer_proto::wire::Access;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::Facts;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::VERSION_MAX;
use hermes_peer_proto::wire::VERSION_MIN;

/// A peer that the file names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerConfig {
    /// Who answers there.
    pub node_id: NodeId,
    /// Which agent it has to be, if that is said.
    pub agent: Option<AgentUri>,
    /// Where it is dialled: a host and a port.
    pub endpoint: String,
    /// What it is expected to provide, until it says so itself.
    pub capabilities: Vec<CapabilityName>,
}

/// A capability that is a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramConfig {
    /// What callers name.
    pub capability: CapabilityName,
    /// The program and its arguments; never empty. A program with a `/` is a path from the file's folder, made whole
    /// here; without, it is looked up in `PATH`.
    pub command: Vec<String>,
    /// A JSON file with `input`, `output` and `description`.
    pub schema: Option<PathBuf>,
    /// What it does, for people and models.
    pub description: Option<String>,
    /// Whether each line that it writes is an item of a stream. Default: no.
    pub streams: bool,
    /// When it is killed. Default: 30 s.
    pub timeout: Duration,
    /// Most memory in bytes; absent for no limit of its own.
    pub memory: Option<u64>,
    /// How many run at once. Default: 4.
    pub concurrency: u32,
    /// Who may call it where no policy says otherwise.
    pub access: Access,
    /// What callers may rely on.
    pub facts: Facts,
}

/// How nodes prove who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthConfig {
    /// By certificates of one authority.
    #[non_exhaustive]
    Mtls {
        /// The authority's certificate, PEM.
        ca: PathBuf,
        /// This node's certificate, PEM.
        cert: PathBuf,
        /// Its private key, PEM.
        key: PathBuf,
        /// The authority's revocation list, PEM.
        crl: Option<PathBuf>,
    },
    /// By a shared secret.
    #[non_exhaustive]
    Token {
        /// All that are valid; the first is the one that this node would rather use.
        tokens: TokenSet,
    },
}

/// Heartbeats and sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionConfig {
    /// How often an idle link shows that it lives. Default: 40 s.
    pub heartbeat_interval: Duration,
    /// When an idle session ends. Default: 5 min.
    pub timeout: Duration,
    /// Most sessions that one peer holds open. Default: 10,000.
    pub max_sessions: u32,
    /// Most bytes that the slots of one session take. Default: 1 MiB.
    pub max_bytes: u64,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(40),
            timeout: Duration::from_secs(300),
            max_sessions: 10_000,
            max_bytes: 1 << 20,
        }
    }
}

/// Limits; sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// Largest message. Default: 64 MiB.
    pub max_message: u64,
    /// Most connections. Default: 1024.
    pub max_connections: u32,
    /// What a stream may have on its way. Default: 256 KiB.
    pub stream_window: u64,
    /// What a link may have on its way. Default: 8 MiB.
    pub link_window: u64,
    /// What the events of a link may have on their way. Default: 1 MiB.
    pub event_window: u64,
    /// What all links together may hold. Default: 256 MiB.
    pub memory: u64,
    /// Most streams open on a link. Default: 1024.
    pub streams_per_link: u32,
    /// Most messages on a link that are kept until they are acknowledged. Default: 200.
    pub retained_messages: u32,
    /// Most bytes of them. Default: 4 MiB.
    pub retained_bytes: u64,
    /// Most hops of a call. Default: 16.
    pub max_hops: u32,
    /// How many calls one capability handles at once. Default: 64.
    pub handler_concurrency: u32,
    /// How many calls wait for it. Default: 64.
    pub handler_queue: u32,
    /// Deadline of a call whose caller gives none. Default: 30 s.
    pub call_timeout: Duration,
    /// How long a call waits for somebody to provide its capability. Default: 5 s.
    pub provider_wait: Duration,
    /// Most connections that have not proven who they are. Default: 256.
    pub unauthenticated: u32,
    /// Most of them from one address. Default: 32.
    pub unauthenticated_per_source: u32,
    /// When a connection has to have proven who it is. Default: 10 s.
    pub handshake_timeout: Duration,
    /// First delay before a peer is dialled again. Default: 1 s.
    pub reconnect_min: Duration,
    /// Longest delay. Default: 16 s.
    pub reconnect_max: Duration,
    /// How long a link without a connection is kept for a resume. Default: 5 min.
    pub link_park: Duration,
    /// How long a link's secret is good. Default: 24 h.
    pub secret_lifetime: Duration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            max_message: 64 << 20,
            max_connections: 1024,
            stream_window: 256 << 10,
            link_window: 8 << 20,
            event_window: 1 << 20,
            memory: 256 << 20,
            streams_per_link: 1024,
            retained_messages: 200,
            retained_bytes: 4 << 20,
            max_hops: 16,
            handler_concurrency: 64,
            handler_queue: 64,
            call_timeout: Duration::from_secs(30),
            provider_wait: Duration::from_secs(5),
            unauthenticated: 256,
            unauthenticated_per_source: 32,
            handshake_timeout: Duration::from_secs(10),
            reconnect_min: Duration::from_secs(1),
            reconnect_max: Duration::from_secs(16),
            link_park: Duration::from_secs(300),
            secret_lifetime: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// Where peers are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveryConfig {
    /// Whether nodes of the same user on the same machine see each other. Default: yes.
    pub local: bool,
}

impl Default for DiscoveryConfig {
    fn default() -> Self {
        Self { local: true }
    }
}

/// What is logged and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// What is logged.
    pub level: LogLevel,
    /// How it is written.
    pub format: LogFormat,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Broken promises.
    Error,
    /// And what will need somebody.
    Warn,
    /// And what an operator did or has to know.
    #[default]
    Info,
    /// And changes of state.
    Debug,
    /// And frames.
    Trace,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The record of messages and connection changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalConfig {
    /// How many records are kept; the oldest go first. Default: 10,000.
    pub records: u32,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self { records: 10_000 }
    }
}

/// How results are kept for repeated calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdempotencyConfig {
    /// Most keys. Default: 10,000.
    pub max_keys: u32,
    /// Most bytes of results. Default: 64 MiB.
    pub max_bytes: u64,
    /// How long a result is kept. Default: 10 min.
    pub keep: Duration,
}

impl Default for IdempotencyConfig {
    fn default() -> Self {
        Self { max_keys: 10_000, max_bytes: 64 << 20, keep: Duration::from_secs(600) }
    }
}

/// The protocol versions that are spoken, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionConfig {
    /// The lowest. Default: 1.
    pub min: u8,
    /// The highest. Default: 2.
    pub max: u8,
}

impl Default for VersionConfig {
    fn default() -> Self {
        Self { min: VERSION_MIN, max: VERSION_MAX }
    }
}
