//! Every key that a file can hold. `peers.example.yaml` is held to this table by a test.

/// A key: its path, `[]` standing for the items of a list, and the text of its default if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) path: &'static str,
    pub(super) default: Option<&'static str>,
}

const fn with(path: &'static str, default: &'static str) -> Key {
    Key {
        path,
        default: Some(default),
    }
}

const fn key(path: &'static str) -> Key {
    Key { path, default: None }
}

pub(super) const KEYS: &[Key] = &[
    key("node_id"),
    key("agent"),
    with("listen", "127.0.0.1:0"),
    key("advertise"),
    key("peers[].node_id"),
    key("peers[].agent"),
    key("peers[].endpoint"),
    key("peers[].capabilities"),
    key("capabilities"),
    key("programs[].capability"),
    key("programs[].command"),
    key("programs[].schema"),
    key("programs[].description"),
    with("programs[].streams", "false"),
    with("programs[].timeout", "30s"),
    key("programs[].memory"),
    with("programs[].concurrency", "4"),
    with("programs[].access", "public"),
    with("programs[].idempotent", "false"),
    with("programs[].read_only", "false"),
    with("programs[].destructive", "false"),
    with("programs[].reentrant", "false"),
    key("auth.mode"),
    key("auth.ca"),
    key("auth.cert"),
    key("auth.key"),
    key("auth.crl"),
    key("auth.token"),
    key("auth.token_file"),
    key("auth.tokens"),
    key("auth.token_files"),
    with("session.heartbeat_interval", "40s"),
    with("session.timeout", "5m"),
    with("session.max_sessions", "10000"),
    with("session.max_bytes", "1MiB"),
    with("limits.max_message", "64MiB"),
    with("limits.max_connections", "1024"),
    with("limits.stream_window", "256KiB"),
    with("limits.link_window", "8MiB"),
    with("limits.event_window", "1MiB"),
    with("limits.memory", "256MiB"),
    with("limits.streams_per_link", "1024"),
    with("limits.retained_messages", "200"),
    with("limits.retained_bytes", "4MiB"),
    with("limits.max_hops", "16"),
    with("limits.handler_concurrency", "64"),
    with("limits.handler_queue", "64"),
    with("limits.call_timeout", "30s"),
    with("limits.provider_wait", "5s"),
    with("limits.unauthenticated", "256"),
    with("limits.unauthenticated_per_source", "32"),
    with("limits.handshake_timeout", "10s"),
    with("limits.reconnect_min", "1s"),
    with("limits.reconnect_max", "16s"),
    with("limits.link_park", "5m"),
    with("limits.secret_lifetime", "24h"),
    with("discovery.local", "on"),
    with("discovery.mdns", "off"),
    key("discovery.registry"),
    key("policy[].allow"),
    key("policy[].deny"),
    key("policy[].capabilities"),
    key("policy[].topics"),
    key("policy[].slots"),
    key("policy[].from"),
    with("log.level", "info"),
    with("log.format", "text"),
    with("journal.records", "10000"),
    with("idempotency.max_keys", "10000"),
    with("idempotency.max_bytes", "64MiB"),
    with("idempotency.keep", "10m"),
    with("version.min", "1"),
    with("version.max", "2"),
];

/// Longest key that is compared or quoted: a longer one is no key of ours written wrong.
const MAX_QUOTED: usize = 40;

/// The keys that can stand in a map at `path`, such as `peers[]`; empty for the top.
pub(super) fn children(path: &str) -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().filter_map(move |key| {
        let below = match path {
            "" => key.path,
            _ => key.path.strip_prefix(path)?.strip_prefix('.')?,
        };
        let name = &below[..below.find(['.', '[']).unwrap_or(below.len())];
        // Keys of one map stand together in the table.
        (std::mem::replace(&mut last, name) != name).then_some(name)
    })
}

/// What an unknown key at `path` was probably meant to be, as a remedy.
pub(super) fn nearest(path: &str, unknown: &str) -> String {
    let elsewhere = || {
        KEYS.iter()
            .map(|key| key.path)
            .find(|path| path.rsplit('.').next() == Some(unknown))
    };
    let near = |name: &&str| strsim::damerau_levenshtein(name, unknown);
    let candidate = (unknown.len() <= MAX_QUOTED)
        .then(|| children(path).min_by_key(near))
        .flatten();
    match candidate {
        // A third of the letters wrong is still a slip; more is another word.
        Some(name) if near(&name) <= name.len().div_ceil(3) => format!("did you mean `{name}`?"),
        _ => match elsewhere() {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("known here: {}", children(path).collect::<Vec<_>>().join(", ")),
        },
    }
}

/// The key as it may be shown: a value that slipped into the place of a key in `auth` stays hidden.
pub(super) fn quoted<'k>(path: &str, key: &'k str) -> Option<&'k str> {
    let is_word = key.len() <= MAX_QUOTED
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let near_secret =
        path == "auth" && !children(path).any(|name| strsim::damerau_levenshtein(name, key) <= 3);
    (is_word && !near_secret).then_some(key)
}
