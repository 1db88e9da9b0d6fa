use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use hermes_peer_proto::security::Effect;
use hermes_peer_proto::security::Verb;
use tempfile::TempDir;

use super::AuthConfig;
use super::Config;
use super::ConfigError;
use super::Severity;
use super::keys;
use super::tree;
use super::tree::Node;
use super::tree::Value;

mod arbitrary;
mod example;
mod secrets;
mod values;

/// A folder with what the files of the tests point to.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["ca.pem", "cert.pem", "key.pem", "echo.sh", "schema.json"] {
        fs::write(folder.path().join(name), "x").unwrap();
        restrict(&folder.path().join(name));
    }
    folder
}

fn restrict(path: &Path) {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

fn parse_in(text: &str, base: &Path, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let env: BTreeMap<_, _> = env.iter().copied().collect();
    Config::parse(text, "f.yaml", base, &|name| env.get(name).map(|&value| value.to_owned()))
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    let folder = folder();
    parse_in(text, folder.path(), &[])
}

fn good(text: &str) -> Config {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// What is printed for a text that is refused.
fn refused(text: &str) -> String {
    match parse(text) {
        Ok(config) => panic!("taken: {text}\n{config:?}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn assert_refused(text: &str, expected: &[&str]) {
    let printed = refused(text);
    for piece in expected {
        assert!(printed.contains(piece), "{text}\nsays:  {printed}\nwants: {piece}");
    }
}

#[test]
fn three_lines_are_enough() {
    let config =
        good("node_id: nlu-agent-01\nagent: agent://default/support/nlu-agent\nlisten: 127.0.0.1:7501\n");
    assert_eq!(config.node_id.unwrap().as_ref(), "nlu-agent-01");
    assert_eq!(config.listen.to_string(), "127.0.0.1:7501");
    assert_eq!(good("{}"), Config::default());
}

#[test]
fn a_misspelt_key_is_refused_at_every_depth_with_the_nearest_one() {
    // FC-001
    for (text, place, path, near) in [
        (
            "session: { heartbeat_intervall: 5s }",
            "f.yaml:1:12:",
            "session.heartbeat_intervall",
            "heartbeat_interval",
        ),
        (
            "peers: [ { node_id: b-01, endpont: 127.0.0.1:7502 } ]",
            "f.yaml:1:27:",
            "peers[0].endpont",
            "endpoint",
        ),
        ("auth: { mode: token, tokn: x }", "f.yaml:1:22:", "auth.tokn", "token"),
        ("lisen: 127.0.0.1:7501", "f.yaml:1:1:", "lisen", "listen"),
        (
            "\npolicy:\n  - allow: call\n    capabilties: []\n",
            "f.yaml:4:5:",
            "policy[0].capabilties",
            "capabilities",
        ),
        ("programs:\n- capabilty: a.b", "f.yaml:2:3:", "programs[0].capabilty", "capability"),
        ("heartbeat_interval: 5s", "f.yaml:1:1:", "heartbeat_interval", "session.heartbeat_interval"),
        ("limits: { max_mesage: 1MiB }", "f.yaml:1:11:", "limits.max_mesage", "max_message"),
    ] {
        assert_refused(text, &[place, &format!(" {path}: unknown key"), &format!("did you mean `{near}`?")]);
    }
    assert_refused("colour: red", &["unknown key `colour`; known here: node_id, agent, listen"]);
    assert_refused("<<: {}", &["unknown key"]);
}

#[test]
fn a_key_of_the_other_mode_is_refused_with_its_mode() {
    // FC-001
    assert_refused(
        "auth:\n  mode: token\n  token_file: ca.pem\n  ca: ca.pem\n",
        &["f.yaml:4:3: auth.ca: `ca` belongs to `mode: mtls`, and this is `mode: token`"],
    );
    assert_refused(
        "auth: { mode: mtls, ca: ca.pem, cert: cert.pem, key: key.pem, token: x }",
        &["`token` belongs to `mode: token`, and this is `mode: mtls`"],
    );
}

#[test]
fn everything_that_is_wrong_is_reported_at_once_in_the_order_of_the_file() {
    let error = parse(
        "node_id: A\npeers:\n- endpoint: ::1:7502\n  x: 1\nlog: { level: loud }\nsesion: {}\nlog: {}\n",
    );
    let findings = error.unwrap_err();
    let places: Vec<_> = findings.findings().iter().map(|f| (f.at.line, f.path.as_str())).collect();
    let expected = [
        (1, "node_id"),
        (3, "peers[0]"),
        (3, "peers[0].endpoint"),
        (4, "peers[0].x"),
        (5, "log.level"),
        (6, "sesion"),
        (7, "log"),
    ];
    assert_eq!(places, expected);
    assert_eq!(findings.to_string().lines().count(), expected.len());
}

#[test]
fn a_doubled_key_is_refused_where_it_stands_again() {
    assert_refused(
        "log:\n  level: info\n  level: warn\n",
        &["f.yaml:3:3: log.level: `level` stands here twice, first in line 2"],
    );
}

#[test]
fn what_is_no_yaml_is_refused_with_its_place() {
    for (text, pieces) in [
        ("session:\n\ttimeout: 5s\n", &["f.yaml:2:", "tab", "blanks instead of tabs"][..]),
        ("auth: { mode: token\n", &["f.yaml:", "not YAML"]),
        ("a: b: c\n", &["f.yaml:1:", "not YAML"]),
        ("listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n", &["f.yaml:2:1", "second document"]),
        ("listen: !!str x\n", &["f.yaml:1:", "tag"]),
        ("[a]: b\n", &["f.yaml:1:1", "no plain word"]),
        ("- listen\n", &["f.yaml:1:1", "the file is a list"]),
        ("hello\n", &["the file is a single value"]),
        ("", &["f.yaml:1:1: the file is empty"]),
        ("# nothing\n\n", &["the file is empty"]),
        ("peers:\n", &["peers: this is empty, where a list belongs"]),
        ("auth:\n", &["auth: this is empty, where a map"]),
        ("listen:\n", &["listen: this has no value"]),
        ("listen: [a]\n", &["listen: this is a list, where one value belongs"]),
        ("log: { level: { a: b } }\n", &["this is a map, where one value belongs"]),
        ("listen: *x\n", &["f.yaml:1:9: not YAML"]),
        ("peers: &a [*a]\n", &["an alias stands inside of what it repeats"]),
    ] {
        assert_refused(text, pieces);
    }
    assert_refused(&"[".repeat(10_000), &["not YAML"]);
    assert_refused(&format!("peers: {}", "{a: ".repeat(10_000)), &["not YAML"]);
}

#[test]
fn a_byte_order_mark_and_crlf_change_nothing() {
    let plain = good("log:\n  level: warn\n  format: json\n");
    assert_eq!(good("\u{feff}log:\r\n  level: warn\r\n  format: json\r\n"), plain);
    assert_refused("\u{feff}log:\r\n  level: loud\r\n", &["f.yaml:2:10: log.level"]);
}

#[test]
fn aliases_repeat_a_value_and_a_bomb_is_refused() {
    let text = "policy:\n- { allow: call, capabilities: [a.b], from: &us ['agent://a/b/*'] }\n\
                - { allow: publish, topics: [a.*], from: *us }\n";
    let policy = good(text).policy.unwrap();
    assert_eq!(policy[0].from, policy[1].from);

    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let flat = format!("x: &x [{}]\ny: [{}]\n", "x, ".repeat(1_000), "*x, ".repeat(1_000));
    assert_refused(&flat, &["f.yaml:2:", "more than 100000 values"]);
    let started = std::time::Instant::now();
    assert_refused(&bomb, &["more than 100000 values"]);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn files_that_cannot_be_a_configuration_are_refused_by_name() {
    let folder = folder();
    let path = folder.path().join("n.yaml");
    let check = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Config::load(&path).map(drop).unwrap_err().to_string()
    };
    assert!(check(b"").contains("n.yaml:1:1: the file is empty"));
    assert!(check(b"log:\n  # \xc3\xa9\xff\n").contains("n.yaml:2:6: a byte that is no UTF-8"));
    assert!(check(&vec![b'#'; (1 << 20) + 1]).contains("n.yaml: more than 1048576 bytes"));
    assert!(check(b"a\0b: c\n").contains("n.yaml:1:"));
    assert!(Config::load(folder.path()).unwrap_err().to_string().contains("cannot be read"));
    fs::remove_file(&path).unwrap();
    let missing = Config::check(&path);
    assert!(missing[0].to_string().contains("n.yaml: cannot be read"), "{missing:?}");
    assert_eq!(missing[0].at.line, 0);
}

#[test]
fn a_good_file_is_read_to_the_last_value() {
    let config = good(
        "node_id: a-01\nagent: agent://t/s/a\nlisten: 0.0.0.0:7501\nadvertise: [a.example, '10.0.0.1:9501']\n\
         peers:\n- { node_id: b-01, agent: 'agent://t/s/b', endpoint: ' [::1]:7502 ', capabilities: [x.y] }\n\
         capabilities: [x.z]\n\
         programs:\n- capability: demo.echo\n  command: [./echo.sh, '${NOT_EXPANDED}']\n  schema: schema.json\n  \
         description: Echo.\n  streams: true\n  timeout: 1m\n  memory: 512MiB\n  concurrency: 2\n  \
         access: restricted\n  read_only: true\n\
         auth: { mode: mtls, ca: ca.pem, cert: cert.pem, key: key.pem }\n\
         discovery: { local: off, mdns: off }\nversion: { min: 1, max: 1 }\n",
    );
    assert_eq!(config.advertise, ["a.example:7501", "10.0.0.1:9501"]);
    assert_eq!(config.peers[0].endpoint, "[::1]:7502");
    let program = &config.programs[0];
    assert!(Path::new(&program.command[0]).is_absolute() && program.command[0].ends_with("echo.sh"));
    assert_eq!(program.command[1], "${NOT_EXPANDED}");
    assert!(program.streams && program.facts.read_only && !program.facts.idempotent);
    assert_eq!((program.memory, program.concurrency), (Some(512 << 20), 2));
    assert!(matches!(config.auth, Some(AuthConfig::Mtls { crl: None, .. })));
    assert!(!config.discovery.local);
    assert_eq!(config.version.max, 1);
    assert_eq!(config.warnings(), []);
}

#[test]
fn endpoints_have_one_grammar() {
    // FC-017
    for endpoint in
        ["localhost:7502", "[::1]:7502", "[fe80::1%eth0]:7502", "B.TEST:7502", "127.0.0.1:7502", "b.:1"]
    {
        let peers = good(&format!("peers: [{{ node_id: b, endpoint: '{endpoint}' }}]")).peers;
        assert_eq!(peers[0].endpoint, endpoint);
    }
    assert_eq!(good("peers: [{ node_id: b, endpoint: ' b:7502 ' }]").peers[0].endpoint, "b:7502");
    for (endpoint, piece) in [
        ("::1:7502", "write `[::1]:7502`"),
        ("fe80::1%eth0:7502", "write `[fe80::1%eth0]:7502`"),
        ("2001:db8::1", "write `[2001:db8::1]:7501`"),
        ("b", "has no port"),
        ("b:", "has no port from 1 to 65535"),
        ("b:0", "has no port from 1 to 65535"),
        ("b:70000", "has no port from 1 to 65535"),
        ("b:+1", "has no port from 1 to 65535"),
        ("https://b:7502", "is a URL"),
        ("b:7502/x", "has more than a host and a port"),
        (":7502", "has no host"),
        ("a b:7502", "neither a name nor an address"),
        ("999.1.1.1:7502", "neither a name nor an address"),
        ("[b]:7502", "no IPv6 address"),
        ("[::1:7502", "neither"),
        ("[::1]x:7502", "between host and port"),
        ("[fe80::1%]:7502", "no IPv6 address"),
        ("", "has no host"),
    ] {
        let text = format!("peers:\n  - node_id: b\n    endpoint: '{endpoint}'\n");
        assert_refused(&text, &["f.yaml:3:15: peers[0].endpoint", piece]);
    }
}

#[test]
fn what_others_are_told_can_be_dialled() {
    // FC-014
    for (advertise, piece) in [
        ("0.0.0.0:7501", "nobody can dial it"),
        ("'[::]:7501'", "nobody can dial it"),
        ("0.0.0.0", "nobody can dial it"),
        ("host.example:0", "has no port from 1"),
        ("host.example", "`listen` has none either"),
        ("[host.example:1, 'x y:1']", "neither a name"),
    ] {
        assert_refused(&format!("advertise: {advertise}"), &["f.yaml:1:", "advertise", piece]);
    }
    let config = good("listen: 127.0.0.1:7501\nadvertise: host.example\n");
    assert_eq!(config.advertise, ["host.example:7501"]);
}

#[test]
fn beyond_this_machine_auth_is_needed() {
    for listen in ["0.0.0.0:7501", "'[::]:7501'", "192.168.1.2:7501"] {
        let text = format!("node_id: a\nlisten: {listen}\n");
        assert_refused(
            &text,
            &["f.yaml:2:9: listen", "without `auth`", "mode: mtls", "or listen on 127.0.0.1"],
        );
    }
    for listen in ["localhost:0", "'[::1]:0'", "127.0.0.2:0"] {
        assert!(good(&format!("listen: {listen}")).listen.ip().is_loopback());
    }
    assert_refused("listen: ::1:7501", &["write `[::1]:7501`"]);
    assert_refused("listen: host.example:7501", &["is no address and port"]);
}

#[test]
fn names_are_refused_with_their_rule() {
    assert_refused("node_id: Nlu_01", &["`Nlu_01` is no node id; 1 to 63 bytes"]);
    assert_refused("agent: nlu", &["`nlu` is no agent; agent://tenant/space/name"]);
    assert_refused("capabilities: [a.b, echo]", &["f.yaml:1:21: capabilities[1]: `echo` is no capability"]);
    assert_refused("peers: [{}]", &["`node_id` is missing", "`endpoint` is missing"]);
    let twice = "peers: [{ node_id: b, endpoint: 'b:1' }, { node_id: b, endpoint: 'c:1' }]";
    assert_refused(twice, &["peers[1]: `b` is peers[0] already"]);
}

#[test]
fn programs_are_there_and_say_what_they_run() {
    for (program, piece) in [
        ("{ capability: a.b }", "`command` is missing"),
        ("{ command: [cat] }", "`capability` is missing"),
        ("{ capability: a.b, command: [] }", "has no program"),
        ("{ capability: a.b, command: cat }", "a list belongs"),
        ("{ capability: a.b, command: [./gone.sh] }", "there is no program"),
        ("{ capability: a.b, command: [cat], schema: gone.json }", "cannot be read"),
        ("{ capability: a.b, command: [cat], schema: . }", "is a folder or a device"),
        ("{ capability: a.b, command: [cat], streams: yes }", "write `false` or `true`"),
        ("{ capability: a.b, command: [cat], access: all }", "write `public` or `restricted` or `admin`"),
        ("{ capability: a.b, command: [cat], concurrency: 0 }", "1 is the least"),
    ] {
        assert_refused(&format!("programs: [{program}]"), &["f.yaml:1:", "programs[0]", piece]);
    }
    let twice = "programs: [{ capability: a.b, command: [cat] }, { capability: a.b, command: [cat] }]";
    assert_refused(twice, &["programs[1]: `a.b` is programs[0] already"]);
}

#[test]
fn policy_rules_are_whole() {
    let rules = good("policy:\n- deny: read_slot\n  slots: ['*', intent]\n  from: ['agent://*/*/*']\n")
        .policy
        .unwrap();
    assert_eq!((rules[0].effect, rules[0].verb), (Effect::Deny, Verb::ReadSlot));
    assert_eq!(rules[0].names, ["*".parse().unwrap(), "intent".parse().unwrap()]);
    assert_eq!(rules[0].from, ["agent://*/*/*".parse().unwrap()]);
    assert_eq!(good("policy: []").policy, Some(Vec::new()));
    assert_eq!(good("{}").policy, None);
    for (rule, piece) in [
        ("{ capabilities: [a.b] }", "either `allow` or `deny`"),
        ("{ allow: call, deny: call }", "either `allow` or `deny`"),
        ("{ allow: calls, capabilities: [a.b] }", "write `call` or `admin`"),
        ("{ allow: call, topics: [a.b], from: ['agent://a/b/c'] }", "write `capabilities`"),
        ("{ allow: call, capabilities: [a.b] }", "`from` is missing"),
        ("{ allow: call, capabilities: [], from: ['agent://a/b/c'] }", "the list is empty"),
        ("{ allow: call, capabilities: ['a.**.b'], from: ['agent://a/b/c'] }", "is no pattern"),
        ("{ allow: call, capabilities: [a.b], from: [support] }", "is no pattern; agent://tenant/space/name"),
        ("{ allow: write_slot, slots: ['in*'], from: ['agent://a/b/c'] }", "is no pattern"),
    ] {
        assert_refused(&format!("policy: [{rule}]"), &["f.yaml:1:", "policy[0]", piece]);
    }
}

#[test]
fn discovery_that_is_not_built_is_refused_when_it_is_turned_on() {
    for text in [
        "discovery: { mdns: {} }",
        "discovery: { mdns: on }",
        "discovery: { registry: { endpoints: ['a:1'] } }",
    ] {
        assert_refused(text, &["is not built in this version", "name the nodes under `peers`"]);
    }
}

#[test]
fn a_reload_knows_what_changes() {
    // FC-005
    let old = good("node_id: a\npeers: [{ node_id: b, endpoint: 'b:1' }, { node_id: c, endpoint: 'c:1' }]\n");
    let same = good(
        "\n# moved\nnode_id: a\npeers:\n- { node_id: b, endpoint: b:1 }\n- { node_id: c, endpoint: c:1 }\n",
    );
    assert!(old.differences(&same).is_empty());

    let new = good(
        "node_id: z\nlisten: 127.0.0.1:1\npeers: [{ node_id: b, endpoint: 'b:2' }, { node_id: c, endpoint: 'c:1' }]\n\
         policy: []\n",
    );
    let changes = old.differences(&new);
    assert_eq!(changes.peers_added, new.peers[..1]);
    assert_eq!(changes.peers_removed, old.peers[..1]);
    assert!(changes.policy_changed && !changes.auth_changed);
    assert_eq!(changes.needs_restart, ["node_id", "listen"]);
}

#[test]
fn a_policy_that_only_moved_has_not_changed() {
    // FC-005
    let rule = "policy: [{ allow: call, capabilities: [a.b], from: ['agent://a/b/*'] }]";
    assert!(good(rule).differences(&good(&format!("\n\n{rule}"))).is_empty());
}

#[test]
fn other_tokens_are_a_change_and_another_mode_needs_a_restart() {
    // FC-005, FC-026
    let folder = folder();
    let with = |auth: &str| {
        let env = [("K1", "0123456789abcdef"), ("K2", "fedcba9876543210")];
        parse_in(&format!("auth: {auth}"), folder.path(), &env).unwrap()
    };
    let first = with("{ mode: token, token: ${K1} }");
    let rotated = first.differences(&with("{ mode: token, tokens: [${K2}, ${K1}] }"));
    assert!(rotated.auth_changed && rotated.needs_restart.is_empty());
    let other = first.differences(&with("{ mode: mtls, ca: ca.pem, cert: cert.pem, key: key.pem }"));
    assert_eq!(other.needs_restart, ["auth.mode"]);
}

#[test]
fn a_finding_shows_its_line_unless_that_can_hold_a_secret() {
    // FC-079
    let lines = |text: &str| -> Vec<Option<String>> {
        let error = parse(text).unwrap_err();
        error.findings().iter().map(|finding| finding.source_line.clone()).collect()
    };
    assert_eq!(lines("log:\n  level: loud\n"), [Some("  level: loud".to_owned())]);
    assert_eq!(lines("lisen: a\n"), [Some("lisen: a".to_owned())]);
    for text in [
        "auth: { mode: token, tokn: abc:def=ghi/+jkl }\n",
        "auth:\n  mode: x\nlog: {}\n",
        "atuh:\n  mode: token\n  x: abc:def=ghi/+jkl\nlog: {}\n",
        "log: { token: abc:def=ghi/+jkl }\n",
        "log:\r  level: loud\rauth:\r  mode: mtls\r  tokens:\n  - def=ghi/+jkl\n",
        "{ auth: {\n mode: token,\n x: def=ghi/+jkl }, log: { level: loud } }\n",
    ] {
        assert!(lines(text).iter().all(Option::is_none), "{text}");
    }
    assert_eq!(lines("auth: { mode: token, token: abc:def\nlog: [\n"), [None]);
    assert_eq!(lines("log: [\n\u{0}\n").len(), 1);
}
