//! What a reload changes.

use super::Config;
use super::settings::AuthConfig;
use super::settings::PeerConfig;

/// What differs between the configuration in force and a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Peers that are new, or that stand there with other facts than before.
    pub peers_added: Vec<PeerConfig>,
    /// Peers that are gone, or that stood there with other facts.
    pub peers_removed: Vec<PeerConfig>,
    /// Whether who may do what has changed.
    pub policy_changed: bool,
    /// Whether the same way of proving who one is has other files or tokens.
    pub auth_changed: bool,
    /// The keys that only a restart changes. What they said before stays in force.
    pub needs_restart: Vec<&'static str>,
}

impl Changes {
    /// Whether both say the same.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

pub(super) fn between(old: &Config, new: &Config) -> Changes {
    let missing_in = |others: &[PeerConfig], peers: &[PeerConfig]| {
        peers.iter().filter(|peer| !others.contains(peer)).cloned().collect()
    };
    let has_same_mode = match (&old.auth, &new.auth) {
        (Some(AuthConfig::Mtls { .. }), Some(AuthConfig::Mtls { .. }))
        | (Some(AuthConfig::Token { .. }), Some(AuthConfig::Token { .. })) => true,
        (old, new) => old == new,
    };
    let fixed = [
        ("node_id", old.node_id == new.node_id),
        ("agent", old.agent == new.agent),
        ("listen", old.listen == new.listen),
        ("advertise", old.advertise == new.advertise),
        ("capabilities", old.capabilities == new.capabilities),
        ("programs", old.programs == new.programs),
        ("auth.mode", has_same_mode),
        ("session", old.session == new.session),
        ("limits", old.limits == new.limits),
        ("discovery", old.discovery == new.discovery),
        ("log", old.log == new.log),
        ("journal", old.journal == new.journal),
        ("idempotency", old.idempotency == new.idempotency),
        ("version", old.version == new.version),
    ];
    Changes {
        peers_added: missing_in(&old.peers, &new.peers),
        peers_removed: missing_in(&new.peers, &old.peers),
        policy_changed: old.policy != new.policy,
        auth_changed: has_same_mode && old.auth != new.auth,
        needs_restart: fixed.iter().filter(|(_, is_same)| !is_same).map(|(key, _)| *key).collect(),
    }
}
