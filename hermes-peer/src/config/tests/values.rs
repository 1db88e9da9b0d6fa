//! Durations, sizes and counts.

use super::*;
use crate::config::value::MAX_DURATION;

fn heartbeat(text: &str) -> Result<Duration, String> {
    parse(&format!("session: {{ heartbeat_interval: {text} }}"))
        .map(|config| config.session.heartbeat_interval)
        .map_err(|error| error.to_string())
}

#[test]
fn a_duration_is_exact_or_refused() {
    // FC-006
    for (text, millis) in [
        ("100ms", 100),
        ("20s", 20_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        ("1m30.25s", 90_250),
        ("1.5h", 5_400_000),
        ("'5m'", 300_000),
        ("024s", 24_000),
    ] {
        assert_eq!(heartbeat(text), Ok(Duration::from_millis(millis)), "{text}");
    }
    for (text, piece) in [
        ("20", "`20` has no unit"),
        ("0s", "is zero"),
        ("0", "has no unit"),
        ("-5s", "is negative"),
        ("20ms", "is too short; 100ms is the least"),
        ("5 minutes", "unknown unit"),
        ("5M", "wrong case, which would be `m`"),
        ("20S", "wrong case, which would be `s`"),
        ("99999999999999d", "is too long"),
        ("9999999999999999999999999999999999999999d", "cannot be kept exactly"),
        ("''", "is empty"),
        ("' '", "is empty"),
        ("1s1s", "not in one of the forms"),
        ("1m1h", "not in one of the forms"),
        ("1.5h30m", "not in one of the forms"),
        ("1..5s", "cannot be kept exactly"),
        ("1.s", "cannot be kept exactly"),
        (".5s", "cannot be kept exactly"),
        ("0.0000000001s", "cannot be kept exactly"),
        ("s", "does not begin with a number"),
        ("1e3s", "unknown unit"),
        ("+5s", "does not begin with a number"),
        ("٣s", "does not begin with a number"),
        ("25h", "is too long"),
    ] {
        let printed = heartbeat(text).unwrap_err();
        assert!(printed.contains("f.yaml:1:32: session.heartbeat_interval: "), "{printed}");
        assert!(printed.contains(piece), "{text}: {printed}");
    }
    assert!(heartbeat("20").unwrap_err().contains("ms, s, m, h, d"));
    assert_refused("session: { timeout: 0 }", &["session.timeout", "has no unit"]);
    assert_refused("session: { timeout: 367d }", &["is too long", &format!("{MAX_DURATION:?}")]);
}

#[test]
fn every_duration_refuses_zero() {
    // FC-006
    for key in keys::KEYS {
        let value = match key.split_once('.') {
            Some((section @ ("session" | "limits" | "idempotency"), key)) => {
                format!("{section}: {{ {key}: 0s }}")
            }
            _ => continue,
        };
        assert!(parse(&value).is_err(), "{value}");
    }
}

#[test]
fn a_heartbeat_longer_than_a_session_is_warned_about() {
    // FC-006
    let config = good("session: { heartbeat_interval: 10m, timeout: 5m }");
    let [warning] = config.warnings() else { panic!("{:?}", config.warnings()) };
    assert_eq!(warning.severity, Severity::Warning);
    assert!(
        warning.to_string().starts_with("f.yaml:1:32: warning: session.heartbeat_interval: "),
        "{warning}"
    );
}

#[test]
fn a_size_has_a_unit_and_is_exact() {
    let size = |text: &str| {
        parse(&format!("session: {{ max_bytes: {text} }}")).map(|config| config.session.max_bytes)
    };
    for (text, bytes) in [
        ("64MiB", 64 << 20),
        ("16777216B", 16 << 20),
        ("1GiB", 1 << 30),
        ("1GB", 1_000_000_000),
        ("100MB", 100_000_000),
        ("20000kB", 20_000_000),
        ("8192KiB", 8 << 20),
        ("1.5GiB", 3 << 29),
    ] {
        assert_eq!(size(text).unwrap(), bytes, "{text}");
    }
    for (text, piece) in [
        ("67108864", "has no unit"),
        ("64mib", "wrong case, which would be `MiB`"),
        ("64M", "unknown unit"),
        ("0MiB", "is zero"),
        ("-1MiB", "is negative"),
        ("1MiB1KiB", "not in one of the forms"),
        ("0.0001KiB", "cannot be kept exactly"),
        ("999999999999999999GiB", "is too much"),
        ("1B", "is too little; 1024 bytes"),
    ] {
        let printed = size(text).unwrap_err().to_string();
        assert!(printed.contains(piece), "{text}: {printed}");
    }
}

#[test]
fn a_count_is_digits() {
    for text in ["0", "-1", "1_000", "0x10", "1e3", "1.0", "ten", "''", "99999999999999999999", "true"] {
        assert_refused(&format!("journal: {{ records: {text} }}"), &["f.yaml:1:21: journal.records"]);
    }
    assert_refused("limits: { max_hops: 256 }", &["255 is the most"]);
    assert_refused("version: { min: 2, max: 1 }", &["no version is left"]);
    assert_refused("version: { max: 3 }", &["2 is the most"]);
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    for (text, piece) in [
        ("{ reconnect_min: 20s }", "more than `limits.reconnect_max`"),
        ("{ stream_window: 16MiB }", "more than `limits.link_window`"),
        ("{ unauthenticated: 8 }", "more than `limits.unauthenticated`"),
    ] {
        assert_refused(&format!("limits: {text}"), &["f.yaml:1:", piece]);
    }
}

#[test]
fn words_are_taken_to_the_letter() {
    assert_refused("log: { level: INFO }", &["`INFO` is none of the words", "`info`"]);
    assert_refused("discovery: { local: true }", &["write `on` or `off`"]);
}
