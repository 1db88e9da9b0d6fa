//! Names of each kind, and what patterns cover.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;
use serde_json::json;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::InvalidName;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::Topic;
use hermes_peer_proto::wire::TopicPattern;

pub(crate) fn names() -> Value {
    fn judge<T: FromStr<Err = InvalidName> + Display>(kind: &str, valid: &[&str], invalid: &[&str]) -> Value {
        for name in valid {
            assert_eq!(name.parse::<T>().map(|parsed| parsed.to_string()), Ok((*name).to_owned()));
        }
        for name in invalid {
            assert!(name.parse::<T>().is_err(), "{kind} {name}");
        }
        json!({ "name": kind, "shows": format!("what a {kind} is, and what not"), "valid": valid, "invalid": invalid })
    }
    let long = |len: usize| "a".repeat(len);
    let (n63, n64) = (long(63), long(64));
    let (c128, c129) = (format!("a.{}", long(126)), format!("a.{}", long(127)));
    let covers = |pattern: &str, topic: &str| {
        let covered = pattern.parse::<TopicPattern>().unwrap().covers(&topic.parse().unwrap());
        json!({ "pattern": pattern, "topic": topic, "covers": covered })
    };
    json!([
        judge::<NodeId>("node id", &["a", "nlu-agent-01", "-", &n63], &["", "A", "a.b", "a_b", "知識", "a ", &n64]),
        judge::<AgentUri>(
            "agent",
            &["agent://default/support/nlu-agent", "agent://a/b_1/c.d"],
            &[
                "agent://a/b", "agent://a/b/c/", "agent://a/b/c/d", "agent://a//c", "agent:/a/b/c", "AGENT://a/b/c",
                "agent://a/b/C", "agent://a/b/%63", "spiffe://a/b/c", "agent://a/b/c?x", "",
            ],
        ),
        judge::<CapabilityName>(
            "capability",
            &["a.b", "knowledge.retrieve", "a.b.c_1", &c128],
            &["echo", "a.", ".a", "a..b", "A.b", "a-b.c", "a.b ", "", &c129],
        ),
        judge::<SlotName>("slot", &["intent", "a.b_c-1", &n63], &["", "A", "a b", "a/b", &n64]),
        judge::<Topic>("topic", &["ticket.created", "a.b.c"], &["ticket", "a.*", "a-b.c", "", &c129]),
        judge::<TopicPattern>(
            "topic pattern",
            &["*", "**", "ticket", "ticket.*", "ticket.**", "*.created", "*.*.x"],
            &["", ".", "a.**.b", "tick*", "Ticket.*", "***", "a-b.*", &c129],
        ),
        {
            "name": "coverage", "shows": "which topics a pattern covers",
            "cases": [
                covers("ticket.*", "ticket.created"), covers("ticket.*", "ticket.note.added"),
                covers("ticket.**", "ticket.note.added"), covers("**", "ticket.created"), covers("*", "ticket.created"),
                covers("*.created", "ticket.closed"), covers("ticket.created", "ticket.created.again"),
                covers("ticket.created.**", "ticket.created"), covers("*.*", "ticket.created"),
            ],
        },
    ])
}
