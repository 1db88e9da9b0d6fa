//! Floor 5: the configuration file.
//!
//! A file is read in two steps: its text becomes a tree in which every key and value knows where it stands, and the tree
//! is walked with a table of the known keys. A file is taken whole or refused whole, with everything that is wrong in it:
//! file, line, column, the key's path, and what would be right. Nothing that a finding says holds a secret.
//!
//! Everything has a default; `peers.example.yaml` has every key with its meaning.

mod address;
mod auth;
mod changes;
mod contents;
mod file;
mod finding;
mod hidden;
mod keys;
mod place;
mod policy;
mod program;
mod read;
mod section;
mod settings;
mod tree;
mod value;

#[cfg(test)]
mod tests;

pub use changes::Changes;
pub use contents::Config;
pub use contents::parse_duration;
pub use contents::parse_size;
pub use finding::ConfigError;
pub use finding::Finding;
pub use finding::Position;
pub use finding::Severity;
pub use settings::AuthConfig;
pub use settings::DiscoveryConfig;
pub use settings::IdempotencyConfig;
pub use settings::JournalConfig;
pub use settings::LimitsConfig;
pub use settings::LogConfig;
pub use settings::LogFormat;
pub use settings::LogLevel;
pub use settings::PeerConfig;
pub use settings::ProgramConfig;
pub use settings::SessionConfig;
pub use settings::VersionConfig;
pub use value::InvalidValue;
