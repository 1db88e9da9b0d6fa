//! `hermes-peer pub` and `hermes-peer sub`.

use std::time::Duration;

use hermes_peer::Delivery;
use hermes_peer::LinkState;
use hermes_peer::Node;
use hermes_peer::Topic;
use hermes_peer::TopicPattern;
use hermes_peer_proto::wire::Target;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::exit::Failure;
use crate::exit::tell;
use crate::input::Input;
use crate::output::Output;

use super::Surroundings;
use super::failed;
use super::node;
use super::node::Manner;
use super::node::PATIENCE;
use super::signals::interruptible;

/// How long a node that is linked has to say what it subscribes to.
const ANSWER: Duration = Duration::from_secs(2);

/// Publishes one event.
pub(super) async fn publish(
    topic: &Topic,
    body: &Input,
    around: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let body = body.read()?;
    let node = node::start(Manner::Asks, around).await?;
    let work = async {
        node.look_around(PATIENCE).await;
        let linked = hear(&node).await;
        let published = node.publish_json(topic.as_str(), body).await;
        let count = published.map_err(|error| failed::failure(&error, topic.as_str(), &node))?;
        if around.is_json {
            out.json(&json!({ "topic": topic.as_str(), "nodes": count }))?;
            out.flush()?;
        }
        match (linked, count) {
            (0, _) => Err(Failure::Told {
                exit: Exit::Unreachable,
                message: "no other node can be reached; `hermes-peer peers` shows why".to_owned(),
            }),
            (_, 0) => {
                tell(format_args!("none of {linked} nodes subscribes to {topic}"));
                Ok(())
            }
            (_, count) if !around.is_json => {
                tell(format_args!("published to {}", nodes(count)));
                Ok(())
            }
            _ => Ok(()),
        }
    };
    interruptible(node.clone(), work).await
}

/// Waits until every node that is linked has said what it subscribes to, and gives how many those are. They say it as the
/// first thing on a link, so that it is here when they have answered anything.
async fn hear(node: &Node) -> usize {
    let mut answers = JoinSet::new();
    let linked = linked(node);
    for peer in &linked {
        let (node, peer) = (node.clone(), Target::Node(peer.clone()));
        answers.spawn(async move {
            let asked = node::ask(&node, "hermes.node", "{}".to_owned(), Some(&peer));
            // A refusal is an answer too.
            let _answer = tokio::time::timeout(ANSWER, asked).await;
        });
    }
    answers.join_all().await;
    linked.len()
}

fn linked(node: &Node) -> Vec<hermes_peer::NodeId> {
    let peers = node.peers().into_iter();
    peers.filter(|peer| peer.state == LinkState::Linked).map(|peer| peer.node_id).collect()
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

/// Prints events until it is interrupted, or has seen enough.
pub(super) async fn subscribe(
    pattern: &TopicPattern,
    group: Option<&str>,
    count: Option<u64>,
    around: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let node = node::start(Manner::Listens, around).await?;
    let work = async {
        let subscribed = match group {
            Some(group) => node.subscribe_in_group::<Value>(pattern.as_str(), group),
            None => node.subscribe::<Value>(pattern.as_str()),
        };
        let refused = |error| failed::failure(&error, pattern.as_str(), &node);
        let mut events = subscribed.map_err(refused)?;
        node.look_around(PATIENCE).await;
        tell(format_args!("subscribed to {pattern} at {}; Ctrl-C ends it", nodes(hear(&node).await)));
        let mut left = count;
        while left != Some(0) {
            match events.next().await {
                None => break,
                Some(Ok(Delivery::Event(event))) => {
                    out.json(&json!({
                        "topic": event.topic.as_str(),
                        "value": event.value,
                        "key": event.key,
                        "session": event.session.map(|id| id.to_string()),
                        "hops": event.hops,
                    }))?;
                    left = left.map(|left| left - 1);
                }
                Some(Ok(Delivery::Lagged(lost))) => out.json(&json!({ "lagged": lost }))?,
                Some(Err(error)) => tracing::warn!(%error, "an event cannot be read"),
            }
            out.flush()?;
        }
        Ok(())
    };
    interruptible(node.clone(), work).await
}
