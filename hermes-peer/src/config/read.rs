//! The sections of a file, one function each.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use hermes_peer_proto::wire::InvalidName;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::VERSION_MAX;
use hermes_peer_proto::wire::VERSION_MIN;

use super::Config;
use super::address;
use super::auth;
use super::policy;
use super::program;
use super::section::Reader;
use super::section::Section;
use super::settings::DiscoveryConfig;
use super::settings::IdempotencyConfig;
use super::settings::JournalConfig;
use super::settings::LimitsConfig;
use super::settings::LogConfig;
use super::settings::LogFormat;
use super::settings::LogLevel;
use super::settings::PeerConfig;
use super::settings::SessionConfig;
use super::settings::VersionConfig;
use super::tree::Node;
use super::tree::Value;
use super::value;
use super::value::MAX_DURATION;
use super::value::Refused;

/// Bounds of a delay or timeout: a millisecond is the finest that timers keep.
pub(super) const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=MAX_DURATION;
/// Bounds of a heartbeat: faster than ten a second is load without knowledge, slower than a day is none.
const HEARTBEATS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(24 * 60 * 60);
/// Bounds of a count: more than a million of anything in one process is a slip of the keyboard.
const COUNTS: RangeInclusive<u32> = 1..=1_000_000;
/// Bounds of an amount of memory.
const SIZES: RangeInclusive<u64> = 1024..=1 << 40;
/// Bounds of a window: at least two chunks of 32,753 bytes, so that one is sent while the other is acknowledged; at most
/// what the 32-bit counts of the wire hold.
const WINDOWS: RangeInclusive<u64> = 64 << 10..=1 << 30;
/// Bounds of a message, which a 32-bit length has to hold.
const MESSAGES: RangeInclusive<u64> = 1024..=u32::MAX as u64;
/// Bounds of the hops of a call: one byte counts them.
const HOPS: RangeInclusive<u32> = 1..=255;

/// Reads a whole file. What is wrong is in the reader; the result counts only if nothing is.
pub(super) fn config(reader: &mut Reader<'_>, root: &Node) -> Config {
    let mut config = Config::default();
    let Some(top) = reader.open(root, String::new()) else {
        return config;
    };
    config.node_id = reader.get(&top, "node_id", name);
    config.agent = reader.get(&top, "agent", name);
    reader.set(&top, "listen", &mut config.listen, address::listen);
    config.advertise = advertise(reader, &top, &config);
    config.peers = peers(reader, &top);
    config.capabilities = reader.list(&top, "capabilities", name);
    config.programs = program::programs(reader, &top);
    config.auth = auth::auth(reader, &top, config.listen);
    session(reader, &top, &mut config.session);
    limits(reader, &top, &mut config.limits);
    discovery(reader, &top, &mut config.discovery);
    config.policy = policy::policy(reader, &top);
    log(reader, &top, &mut config.log);
    journal(reader, &top, &mut config.journal);
    idempotency(reader, &top, &mut config.idempotency);
    version(reader, &top, &mut config.version);
    config
}

/// Reads a name of the wire.
pub(super) fn name<T: std::str::FromStr<Err = InvalidName>>(text: &str) -> Result<T, Refused> {
    text.parse().map_err(|error: InvalidName| Refused::new(format!("is no {}", error.kind()), error.rule()))
}

fn advertise(reader: &mut Reader<'_>, top: &Section<'_>, config: &Config) -> Vec<String> {
    let parse = |text: &str| address::advertised(text.trim(), config.listen);
    match top.entry("advertise").map(|entry| &entry.node.value) {
        Some(Value::List(_)) => reader.list(top, "advertise", parse),
        _ => reader.get(top, "advertise", parse).into_iter().collect(),
    }
}

fn endpoint(text: &str) -> Result<String, Refused> {
    let text = text.trim();
    address::check_endpoint(text).map(|()| text.to_owned())
}

fn peers(reader: &mut Reader<'_>, top: &Section<'_>) -> Vec<PeerConfig> {
    let mut peers: Vec<PeerConfig> = Vec::new();
    for (node, path) in reader.items(top, "peers") {
        let Some(item) = reader.open(node, path) else {
            continue;
        };
        let node_id: Option<NodeId> = reader.need(&item, "node_id", name);
        let agent = reader.get(&item, "agent", name);
        let endpoint = reader.need(&item, "endpoint", endpoint);
        let capabilities = reader.list(&item, "capabilities", name);
        let (Some(node_id), Some(endpoint)) = (node_id, endpoint) else {
            continue;
        };
        if let Some(first) = peers.iter().position(|peer| peer.node_id == node_id) {
            let message = format!("`{node_id}` is peers[{first}] already");
            reader.error(item.at, &item.path, message, "a node_id names one node: keep one of the two");
        }
        peers.push(PeerConfig { node_id, agent, endpoint, capabilities });
    }
    peers
}

/// The path of a file that has to be there and readable.
pub(super) fn file_of(reader: &mut Reader<'_>, section: &Section<'_>, key: &str) -> Option<PathBuf> {
    let base = reader.around.base;
    reader.get(section, key, |text| {
        let path = base.join(text);
        let refused = |what: String| Refused::new(what, "relative paths start at the folder of this file");
        match std::fs::metadata(&path) {
            _ if text.is_empty() => Err(refused("is empty, where the path of a file belongs".to_owned())),
            Err(error) => Err(refused(format!("is a file that cannot be read: {error}"))),
            // Opening anything else, such as a pipe, could wait for ever.
            Ok(facts) if !facts.is_file() => {
                Err(refused("is a folder or a device, where a file belongs".to_owned()))
            }
            Ok(_) => File::open(&path)
                .map(|_| path)
                .map_err(|error| refused(format!("is a file that cannot be read: {error}"))),
        }
    })
}

fn session(reader: &mut Reader<'_>, top: &Section<'_>, session: &mut SessionConfig) {
    let Some(section) = reader.section(top, "session") else {
        return;
    };
    reader.duration(&section, "heartbeat_interval", &mut session.heartbeat_interval, HEARTBEATS);
    reader.duration(&section, "timeout", &mut session.timeout, Duration::from_secs(1)..=MAX_DURATION);
    reader.count(&section, "max_sessions", &mut session.max_sessions, COUNTS);
    reader.size(&section, "max_bytes", &mut session.max_bytes, SIZES);
    if session.heartbeat_interval >= session.timeout {
        let at = section.entry("heartbeat_interval").map_or(section.at, |entry| entry.node.at);
        reader.warn(
            at,
            &section.path_of("heartbeat_interval"),
            "a session ends before one heartbeat shows that its peer is gone",
            "keep `session.timeout` at three heartbeats or more",
        );
    }
}

fn limits(reader: &mut Reader<'_>, top: &Section<'_>, limits: &mut LimitsConfig) {
    let Some(section) = reader.section(top, "limits") else {
        return;
    };
    reader.size(&section, "max_message", &mut limits.max_message, MESSAGES);
    reader.count(&section, "max_connections", &mut limits.max_connections, COUNTS);
    reader.size(&section, "stream_window", &mut limits.stream_window, WINDOWS);
    reader.size(&section, "link_window", &mut limits.link_window, WINDOWS);
    reader.size(&section, "event_window", &mut limits.event_window, WINDOWS);
    reader.size(&section, "memory", &mut limits.memory, SIZES);
    reader.count(&section, "streams_per_link", &mut limits.streams_per_link, COUNTS);
    reader.count(&section, "retained_messages", &mut limits.retained_messages, COUNTS);
    reader.size(&section, "retained_bytes", &mut limits.retained_bytes, WINDOWS);
    reader.count(&section, "max_hops", &mut limits.max_hops, HOPS);
    reader.count(&section, "handler_concurrency", &mut limits.handler_concurrency, COUNTS);
    reader.count(&section, "handler_queue", &mut limits.handler_queue, COUNTS);
    reader.duration(&section, "call_timeout", &mut limits.call_timeout, TIMES);
    reader.duration(&section, "provider_wait", &mut limits.provider_wait, TIMES);
    reader.count(&section, "unauthenticated", &mut limits.unauthenticated, COUNTS);
    reader.count(&section, "unauthenticated_per_source", &mut limits.unauthenticated_per_source, COUNTS);
    reader.duration(&section, "handshake_timeout", &mut limits.handshake_timeout, TIMES);
    reader.duration(&section, "reconnect_min", &mut limits.reconnect_min, TIMES);
    reader.duration(&section, "reconnect_max", &mut limits.reconnect_max, TIMES);
    reader.duration(&section, "link_park", &mut limits.link_park, TIMES);
    reader.duration(&section, "secret_lifetime", &mut limits.secret_lifetime, TIMES);
    let pairs = [
        ("reconnect_min", "reconnect_max", limits.reconnect_min <= limits.reconnect_max),
        ("stream_window", "link_window", limits.stream_window <= limits.link_window),
        ("link_window", "memory", limits.link_window <= limits.memory),
        (
            "unauthenticated_per_source",
            "unauthenticated",
            limits.unauthenticated_per_source <= limits.unauthenticated,
        ),
    ];
    for (less, more, _) in pairs.iter().filter(|(_, _, is_good)| !is_good) {
        let entry = section.entry(less).or_else(|| section.entry(more));
        let at = entry.map_or(section.at, |entry| entry.node.at);
        let remedy = format!("raise `limits.{more}` or lower `limits.{less}`");
        reader.error(at, &section.path_of(less), format!("this is more than `limits.{more}`"), remedy);
    }
}

fn discovery(reader: &mut Reader<'_>, top: &Section<'_>, discovery: &mut DiscoveryConfig) {
    let Some(section) = reader.section(top, "discovery") else {
        return;
    };
    reader.set(&section, "local", &mut discovery.local, |text| {
        value::one_of(text, &[("on", true), ("off", false)])
    });
    for key in ["mdns", "registry"] {
        let Some(entry) = section.entry(key) else { continue };
        if !matches!(&entry.node.value, Value::Text(text) if text == "off") {
            let message = format!("discovery by {key} is not built in this version");
            let remedy = format!("write `{key}: off` or leave it out, and name the nodes under `peers`");
            reader.error(entry.at, &section.path_of(key), message, remedy);
        }
    }
}

fn log(reader: &mut Reader<'_>, top: &Section<'_>, log: &mut LogConfig) {
    let Some(section) = reader.section(top, "log") else {
        return;
    };
    let levels = [
        ("off", LogLevel::Off),
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    reader.set(&section, "level", &mut log.level, |text| value::one_of(text, &levels));
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    reader.set(&section, "format", &mut log.format, |text| value::one_of(text, &formats));
}

fn journal(reader: &mut Reader<'_>, top: &Section<'_>, journal: &mut JournalConfig) {
    let Some(section) = reader.section(top, "journal") else {
        return;
    };
    reader.count(&section, "records", &mut journal.records, COUNTS);
}

fn idempotency(reader: &mut Reader<'_>, top: &Section<'_>, idempotency: &mut IdempotencyConfig) {
    let Some(section) = reader.section(top, "idempotency") else {
        return;
    };
    reader.count(&section, "max_keys", &mut idempotency.max_keys, COUNTS);
    reader.size(&section, "max_bytes", &mut idempotency.max_bytes, SIZES);
    reader.duration(&section, "keep", &mut idempotency.keep, TIMES);
}

fn version(reader: &mut Reader<'_>, top: &Section<'_>, version: &mut VersionConfig) {
    let Some(section) = reader.section(top, "version") else {
        return;
    };
    let bounds = u64::from(VERSION_MIN)..=u64::from(VERSION_MAX);
    let parse =
        |text: &str| value::count(text, &bounds).map(|number| u8::try_from(number).unwrap_or(VERSION_MAX));
    reader.set(&section, "min", &mut version.min, parse);
    reader.set(&section, "max", &mut version.max, parse);
    if version.min > version.max {
        let message =
            format!("no version is left: {} is the lowest and {} the highest", version.min, version.max);
        reader.error(section.at, &section.path, message, "`min` is the lower of the two");
    }
}
