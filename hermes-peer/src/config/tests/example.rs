//! `peers.example.yaml` is held to the code.

use super::*;

const EXAMPLE: &str = include_str!("../../../../peers.example.yaml");

/// A line whose key is commented out begins with `#`, blanks in steps of two or a dash, and a word with a colon.
fn as_live(line: &str) -> Option<String> {
    let rest = line.strip_prefix('#')?;
    let word = rest.trim_start_matches([' ', '-']);
    let is_key =
        word.split(':').next().is_some_and(|key| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
    let indent = rest.len() - rest.trim_start().len();
    (is_key && word.contains(':') && indent != 1 && indent != 3).then(|| rest.to_owned())
}

/// The example with every key live.
fn with_every_key() -> String {
    EXAMPLE.lines().map(|line| as_live(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

fn collect(node: &Node, path: &str, paths: &mut BTreeSet<String>) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                let path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
                collect(&entry.node, &path, paths);
            }
        }
        Value::List(items) if items.iter().all(|item| matches!(item.value, Value::Map(_))) => {
            items.iter().for_each(|item| collect(item, &format!("{path}[]"), paths));
        }
        _ => drop(paths.insert(path.to_owned())),
    }
}

#[test]
fn the_example_has_every_key_of_the_code_and_no_other() {
    let mut paths = BTreeSet::new();
    collect(&tree::parse(&with_every_key()).unwrap(), "", &mut paths);
    assert_eq!(paths, keys::KEYS.iter().map(|&key| key.to_owned()).collect());
}

#[test]
fn what_is_live_in_the_example_is_the_default() {
    assert_eq!(good(EXAMPLE), Config::default());
    // And nothing that has a default is left out of it.
    let mut live = BTreeSet::new();
    collect(&tree::parse(EXAMPLE).unwrap(), "", &mut live);
    for section in ["session", "limits", "log", "journal", "idempotency", "version"] {
        for key in keys::KEYS.iter().filter(|key| key.starts_with(&format!("{section}."))) {
            assert!(live.contains(*key), "{key}");
        }
    }
}

#[test]
fn the_example_loads_with_every_key_live() {
    let text = with_every_key();
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("certs")).unwrap();
    for name in [
        "peers.example.yaml",
        "certs/ca.pem",
        "certs/nlu-agent-01.pem",
        "certs/nlu-agent-01.key",
        "certs/revoked.pem",
        "certs/token",
        "certs/token.old",
    ] {
        fs::write(folder.path().join(name), format!("{name}-0123456789\n")).unwrap();
        restrict(&folder.path().join(name));
    }
    let auths: Vec<_> = text.match_indices("\nauth:").map(|(at, _)| at).collect();
    let [first, second] = auths[..] else { panic!("{auths:?}") };
    let end = second + text[second..].find("\nsession:").unwrap();
    let env = [("HERMES_TOKEN", "0123456789abcdef"), ("HERMES_TOKEN_NEW", "fedcba9876543210")];
    for without in [(first, second), (second, end)] {
        let text = format!("{}{}", &text[..without.0], &text[without.1..]);
        let config = parse_in(&text, folder.path(), &env).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.warnings(), []);
        assert_eq!(config.policy.as_ref().map(Vec::len), Some(3));
        assert!(config.auth.is_some());

        let bare = good("programs: [{ capability: demo.echo, command: [cat] }]").programs.remove(0);
        let mut program = config.programs[0].clone();
        (program.schema, program.memory, program.description) = (None, None, None);
        assert_eq!(program, bare, "the example shows other defaults of a program");
    }
}

#[test]
fn every_key_of_the_example_says_what_it_means() {
    for line in EXAMPLE.lines() {
        let Some(live) = as_live(line).or_else(|| (!line.starts_with('#')).then(|| line.to_owned())) else {
            continue;
        };
        let is_heading = live.trim_end().ends_with(':') || live.is_empty();
        let is_repeated = live.trim_start().starts_with("from:") || live.trim() == "mode: token";
        assert!(is_heading || is_repeated || live.contains(" # "), "{line}");
    }
}
