//! The `policy` section.

use std::str::FromStr;

use hermes_peer_proto::security::Effect;
use hermes_peer_proto::security::InvalidPattern;
use hermes_peer_proto::security::Rule;
use hermes_peer_proto::security::Verb;

use super::section::Reader;
use super::section::Section;
use super::tree::Value;
use super::value;
use super::value::Refused;

const VERBS: [(&str, Verb); 6] = [
    ("call", Verb::Call),
    ("admin", Verb::Admin),
    ("publish", Verb::Publish),
    ("subscribe", Verb::Subscribe),
    ("read_slot", Verb::ReadSlot),
    ("write_slot", Verb::WriteSlot),
];

/// The key under which a rule about this has its patterns, if rules can be about it.
fn names_key(verb: Verb) -> &'static str {
    match verb {
        Verb::Publish | Verb::Subscribe => "topics",
        Verb::ReadSlot | Verb::WriteSlot => "slots",
        _ => "capabilities",
    }
}

/// Reads `policy`; an empty list is a policy too.
pub(super) fn policy(reader: &mut Reader<'_>, top: &Section<'_>) -> Option<Vec<Rule>> {
    top.entry("policy")?;
    let mut rules = Vec::new();
    for (node, path) in reader.items(top, "policy") {
        let Some(item) = reader.open(node, path) else {
            continue;
        };
        rules.extend(rule(reader, &item));
    }
    Some(rules)
}

fn rule(reader: &mut Reader<'_>, item: &Section<'_>) -> Option<Rule> {
    let allow = match (item.entry("allow"), item.entry("deny")) {
        (Some(_), None) => true,
        (None, Some(_)) => false,
        _ => {
            reader.error(
                item.at,
                &item.path,
                "a rule has either `allow` or `deny`",
                "add `allow: call` or `deny: call`",
            );
            return None;
        }
    };
    let verb = reader.get(item, if allow { "allow" } else { "deny" }, |text| value::one_of(text, &VERBS))?;
    for key in ["capabilities", "topics", "slots"] {
        if let Some(entry) = item.entry(key).filter(|_| key != names_key(verb)) {
            let message = format!("`{key}` does not belong to a rule of this kind");
            reader.error(entry.at, &item.path_of(key), message, format!("write `{}`", names_key(verb)));
        }
    }
    let names = patterns(reader, item, names_key(verb));
    let from = patterns(reader, item, "from");
    Some(Rule { effect: if allow { Effect::Allow } else { Effect::Deny }, verb, names: names?, from: from? })
}

/// A list of patterns that has to be there and not empty.
fn patterns<P: FromStr<Err = InvalidPattern>>(
    reader: &mut Reader<'_>,
    item: &Section<'_>,
    key: &str,
) -> Option<Vec<P>> {
    let Some(entry) = item.entry(key) else {
        reader.error(item.at, &item.path, format!("`{key}` is missing"), format!("add `{key}: [\"…\"]`"));
        return None;
    };
    if matches!(&entry.node.value, Value::List(items) if items.is_empty()) {
        let message = "the list is empty, so the rule is about nothing";
        reader.error(entry.node.at, &item.path_of(key), message, "");
    }
    Some(reader.list(item, key, |text| {
        text.parse().map_err(|error: InvalidPattern| Refused::new("is no pattern", error.rule()))
    }))
}
