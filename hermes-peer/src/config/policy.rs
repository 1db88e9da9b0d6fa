//! The `policy` section.

use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::TopicPattern;

use super::section::Reader;
use super::section::Section;
use super::settings::PolicyRule;
use super::settings::PolicyVerb;
use super::settings::Spanned;
use super::tree::Value;
use super::value;
use super::value::Refused;

const VERBS: [(&str, PolicyVerb); 6] = [
    ("call", PolicyVerb::Call),
    ("admin", PolicyVerb::Admin),
    ("publish", PolicyVerb::Publish),
    ("subscribe", PolicyVerb::Subscribe),
    ("read_slot", PolicyVerb::ReadSlot),
    ("write_slot", PolicyVerb::WriteSlot),
];

impl PolicyVerb {
    /// The key under which a rule with this verb has its patterns.
    pub const fn names_key(self) -> &'static str {
        match self {
            Self::Call | Self::Admin => "capabilities",
            Self::Publish | Self::Subscribe => "topics",
            Self::ReadSlot | Self::WriteSlot => "slots",
        }
    }
}

/// Reads `policy`; an empty list is a policy too.
pub(super) fn policy(reader: &mut Reader<'_>, top: &Section<'_>) -> Option<Vec<PolicyRule>> {
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

fn rule(reader: &mut Reader<'_>, item: &Section<'_>) -> Option<PolicyRule> {
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
    let verb = reader.get(item, if allow { "allow" } else { "deny" }, |text| {
        value::one_of(text, &VERBS)
    })?;
    for key in ["capabilities", "topics", "slots"] {
        if let Some(entry) = item.entry(key).filter(|_| key != verb.names_key()) {
            let message = format!("`{key}` does not belong to a rule of this kind");
            reader.error(
                entry.at,
                &item.path_of(key),
                message,
                format!("write `{}`", verb.names_key()),
            );
        }
    }
    let names = patterns(reader, item, verb.names_key(), |text| {
        check_name_pattern(verb, text)
    });
    let from = patterns(reader, item, "from", check_agent_pattern);
    Some(PolicyRule {
        allow,
        verb,
        names: names?,
        from: from?,
    })
}

fn patterns(
    reader: &mut Reader<'_>,
    item: &Section<'_>,
    key: &str,
    check: impl Fn(&str) -> Result<(), Refused>,
) -> Option<Vec<Spanned<String>>> {
    let Some(entry) = item.entry(key) else {
        reader.error(
            item.at,
            &item.path,
            format!("`{key}` is missing"),
            format!("add `{key}: [\"…\"]`"),
        );
        return None;
    };
    let mut patterns = Vec::new();
    for (node, path) in reader.items(item, key) {
        let Some(scalar) = reader.scalar(node, path) else {
            continue;
        };
        match check(&scalar.text) {
            Ok(()) => patterns.push(Spanned {
                value: scalar.text,
                at: scalar.at,
            }),
            Err(refused) => reader.refuse(&scalar, &refused),
        }
    }
    if matches!(&entry.node.value, Value::List(items) if items.is_empty()) {
        reader.error(
            entry.node.at,
            &item.path_of(key),
            "the list is empty, so the rule is about nothing",
            "",
        );
    }
    (!patterns.is_empty()).then_some(patterns)
}

/// Refuses what is no pattern of what the verb is about.
fn check_name_pattern(verb: PolicyVerb, text: &str) -> Result<(), Refused> {
    let remedy = "write a name, or one with `*` for a word and `**` last for any rest, such as `knowledge.*`";
    let is_good = match verb {
        PolicyVerb::Call | PolicyVerb::Admin | PolicyVerb::Publish | PolicyVerb::Subscribe => {
            text.parse::<TopicPattern>().is_ok()
        }
        PolicyVerb::ReadSlot | PolicyVerb::WriteSlot => text == "*" || text.parse::<SlotName>().is_ok(),
    };
    if is_good {
        Ok(())
    } else {
        Err(Refused::new("is no pattern", remedy))
    }
}

/// Refuses what is no pattern of agents.
fn check_agent_pattern(text: &str) -> Result<(), Refused> {
    let is_part = |part: &str| {
        part == "*"
            || format!("agent://a/b/{part}")
                .parse::<hermes_peer_proto::wire::AgentUri>()
                .is_ok()
    };
    let is_good = text
        .strip_prefix("agent://")
        .is_some_and(|parts| parts.split('/').count() == 3 && parts.split('/').all(is_part));
    let remedy =
        "write `agent://tenant/space/name` with `*` for any part, such as `agent://default/support/*`";
    if is_good {
        Ok(())
    } else {
        Err(Refused::new("is no pattern of agents", remedy))
    }
}
