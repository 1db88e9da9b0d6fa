//! Every key that a file can hold. `peers.example.yaml` is held to this table by a test.

/// The paths of the keys, `[]` standing for the items of a list. The keys of one map stand together.
pub(super) const KEYS: &[&str] = &[
    "node_id",
    "agent",
    "listen",
    "advertise",
    "peers[].node_id",
    "peers[].agent",
    "peers[].endpoint",
    "peers[].capabilities",
    "capabilities",
    "programs[].capability",
    "programs[].command",
    "programs[].schema",
    "programs[].description",
    "programs[].streams",
    "programs[].timeout",
    "programs[].memory",
    "programs[].concurrency",
    "programs[].access",
    "programs[].idempotent",
    "programs[].read_only",
    "programs[].destructive",
    "programs[].reentrant",
    "auth.mode",
    "auth.ca",
    "auth.cert",
    "auth.key",
    "auth.crl",
    "auth.token",
    "auth.token_file",
    "auth.tokens",
    "auth.token_files",
    "session.heartbeat_interval",
    "session.timeout",
    "session.max_sessions",
    "session.max_bytes",
    "limits.max_message",
    "limits.max_connections",
    "limits.stream_window",
    "limits.link_window",
    "limits.event_window",
    "limits.memory",
    "limits.streams_per_link",
    "limits.retained_messages",
    "limits.retained_bytes",
    "limits.max_hops",
    "limits.handler_concurrency",
    "limits.handler_queue",
    "limits.call_timeout",
    "limits.provider_wait",
    "limits.unauthenticated",
    "limits.unauthenticated_per_source",
    "limits.handshake_timeout",
    "limits.reconnect_min",
    "limits.reconnect_max",
    "limits.link_park",
    "limits.secret_lifetime",
    "discovery.local",
    "discovery.mdns",
    "discovery.registry",
    "policy[].allow",
    "policy[].deny",
    "policy[].capabilities",
    "policy[].topics",
    "policy[].slots",
    "policy[].from",
    "log.level",
    "log.format",
    "journal.records",
    "idempotency.max_keys",
    "idempotency.max_bytes",
    "idempotency.keep",
    "version.min",
    "version.max",
];

/// Longest key that is compared or quoted: a longer one is no key of ours written wrong.
const MAX_QUOTED: usize = 40;

/// The keys that can stand in a map at `path`, such as `peers[]`; empty for the top.
pub(super) fn children(path: &str) -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().filter_map(move |key| {
        let below = match path {
            "" => *key,
            _ => key.strip_prefix(path)?.strip_prefix('.')?,
        };
        let name = &below[..below.find(['.', '[']).unwrap_or(below.len())];
        (std::mem::replace(&mut last, name) != name).then_some(name)
    })
}

/// What an unknown key at `path` was probably meant to be, as a remedy.
pub(super) fn nearest(path: &str, unknown: &str) -> String {
    let elsewhere = || KEYS.iter().find(|key| key.rsplit('.').next() == Some(unknown));
    match similar(path, unknown).or_else(|| elsewhere().copied()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known here: {}", children(path).collect::<Vec<_>>().join(", ")),
    }
}

/// The key of the map at `path` that an unknown one is a slip of.
pub(super) fn similar(path: &str, unknown: &str) -> Option<&'static str> {
    let distance = |name: &&str| strsim::damerau_levenshtein(name, unknown);
    let nearest = (unknown.len() <= MAX_QUOTED).then(|| children(path).min_by_key(distance)).flatten()?;
    // A third of the letters wrong is still a slip; more is another word.
    (distance(&nearest) <= nearest.len().div_ceil(3)).then_some(nearest)
}

/// The key as it may be shown: a value that slipped into the place of a key in `auth` stays hidden.
pub(super) fn quoted<'k>(path: &str, key: &'k str) -> Option<&'k str> {
    let is_word =
        key.len() <= MAX_QUOTED && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let near_secret =
        path == "auth" && !children(path).any(|name| strsim::damerau_levenshtein(name, key) <= 3);
    (is_word && !near_secret).then_some(key)
}
