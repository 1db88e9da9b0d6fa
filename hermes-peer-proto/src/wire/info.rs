//! How a capability describes itself.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use super::control::Field;
use super::id::CapabilityName;
use super::id::SlotName;

/// A capability as it is advertised to neighbours.
///
/// Schemas are JSON texts of dialect 2020-12 unless they say otherwise; an empty text accepts anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CapabilityInfo {
    /// What callers name.
    pub name: CapabilityName,
    /// Which version of it this node provides.
    pub version: CapabilityVersion,
    /// What it does, for people and for models that choose tools.
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: String,
    /// JSON Schema of the result, or of each item if it streams.
    pub output_schema: String,
    /// JSON Schema of each streamed input item, if it takes any.
    pub item_schema: Option<String>,
    /// Whether the result is a stream of items.
    pub streams: bool,
    /// What callers may rely on.
    pub facts: Facts,
    /// How expensive a call is, from 0 (free) to 10, as its author rates it.
    pub cost: u8,
    /// Who may call it where no policy says otherwise.
    pub access: Access,
    /// The slots that travel to it with a request.
    pub reads: Vec<SlotName>,
    /// The slots that it may write.
    pub writes: Vec<SlotName>,
    /// Its share of calls among the providers of the same capability: 30 beside 70 gets three in ten.
    pub weight: u16,
    /// What later versions add.
    pub extra: Vec<Field>,
}

impl CapabilityInfo {
    /// Weight of a provider that does not say otherwise.
    pub const DEFAULT_WEIGHT: u16 = 100;

    /// A capability of version 1.0.0 that takes and gives anything and may be called within its tenant.
    pub fn new(name: CapabilityName) -> Self {
        Self {
            name,
            version: CapabilityVersion::default(),
            description: String::new(),
            input_schema: String::new(),
            output_schema: String::new(),
            item_schema: None,
            streams: false,
            facts: Facts::default(),
            cost: 0,
            access: Access::Public,
            reads: Vec::new(),
            writes: Vec::new(),
            weight: Self::DEFAULT_WEIGHT,
            extra: Vec::new(),
        }
    }
}

/// What callers may rely on. Nothing is assumed: each is false unless declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Facts {
    /// Running it twice does what running it once does.
    pub idempotent: bool,
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something that cannot be brought back.
    pub destructive: bool,
    /// It may stand in its own path: A calls B calls A.
    pub reentrant: bool,
}

/// Who may call a capability where no policy says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Access {
    /// Any agent of the same tenant.
    #[default]
    Public,
    /// Only whom a policy rule names.
    Restricted,
    /// Only whom a policy rule names as admin.
    Admin,
}

/// A capability's version, `major.minor.patch`. A caller that asks for 1.2 takes 1.2.0 and everything later below 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a version has three numbers")]
pub struct CapabilityVersion {
    /// Changes when callers have to change.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
    /// Changes when something is mended.
    pub patch: u32,
}

impl CapabilityVersion {
    /// Whether a caller who wants `wanted` can use this version: the same major number, and not earlier.
    pub fn serves(self, wanted: Self) -> bool {
        self.major == wanted.major && self >= wanted
    }
}

impl Default for CapabilityVersion {
    fn default() -> Self {
        Self { major: 1, minor: 0, patch: 0 }
    }
}

impl fmt::Display for CapabilityVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a version is one to three numbers joined by dots, such as 1.2.0")]
#[non_exhaustive]
pub struct InvalidVersion;

impl FromStr for CapabilityVersion {
    type Err = InvalidVersion;

    /// Reads `1.2.3`, and `1.2` or `1` with zeros for what is left out.
    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let mut numbers = [0; 3];
        let mut parts = text.split('.');
        for (index, number) in numbers.iter_mut().enumerate() {
            match parts.next() {
                Some(part) => *number = part.parse().map_err(|_| InvalidVersion)?,
                None if index > 0 => break,
                None => return Err(InvalidVersion),
            }
        }
        let [major, minor, patch] = numbers;
        parts.next().map_or(Ok(Self { major, minor, patch }), |_| Err(InvalidVersion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_version_serves_unless_its_major_number_differs() {
        let version = |text: &str| text.parse::<CapabilityVersion>().unwrap();
        assert!(version("1.4.0").serves(version("1.2")));
        assert!(!version("1.1.9").serves(version("1.2")));
        assert!(!version("2.0.0").serves(version("1.2")));
        for refused in ["", "1.2.3.4", "1..2", "v1", "1.-2"] {
            assert!(refused.parse::<CapabilityVersion>().is_err(), "{refused}");
        }
    }
}
