//! `hermes-peer peers`: the nodes of the mesh, as the command or another node sees them.

use std::cmp::Ordering;

use hermes_peer::Node;
use hermes_peer_proto::wire::Target;
use serde::Deserialize;
use serde_json::Value;

use crate::exit::Exit;
use crate::exit::Failure;
use crate::exit::tell;
use crate::output::Column;
use crate::output::Output;
use crate::output::Paint;
use crate::output::Table;
use crate::output::printable;

use super::Surroundings;
use super::failed;
use super::node;
use super::node::Manner;
use super::node::PATIENCE;
use super::signals::interruptible;
use super::watch;
use super::watch::Entry;

/// The built-in capability that answers.
const PEERS: &str = "hermes.peers";

/// Runs the verb.
pub(super) async fn run(
    to: Option<&Target>,
    is_watched: bool,
    around: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let manner = if is_watched { Manner::Watches } else { Manner::Asks };
    let node = node::start(manner, around).await?;
    let work = async {
        if to.is_none() {
            node.look_around(PATIENCE).await;
        }
        if is_watched {
            return watch::forever(async || look(&node, to).await, around.is_json, out, table).await;
        }
        let entries = look(&node, to).await?;
        if entries.is_empty() && !around.is_json {
            tell("no other node was found");
        }
        watch::once(&entries, around.is_json, out, table)
    };
    interruptible(node.clone(), work).await
}

async fn look(node: &Node, to: Option<&Target>) -> Result<Vec<Entry>, Failure> {
    let peers: Vec<Value> = match to {
        None => serde_json::to_value(node.peers()).and_then(serde_json::from_value),
        Some(_) => {
            let answer = node::ask(node, PEERS, "{}".to_owned(), to).await;
            let (_, bytes) = answer.map_err(|error| failed::failure(&error, PEERS, node))?;
            serde_json::from_slice(&bytes)
        }
    }
    .map_err(unreadable)?;
    peers.into_iter().map(entry).collect()
}

pub(super) fn unreadable(error: serde_json::Error) -> Failure {
    Failure::Told { exit: Exit::Remote, message: format!("the answer cannot be read: {error}") }
}

/// A peer as `hermes.peers` shows it. What a later version adds is printed by `--json` alone.
#[derive(Deserialize)]
struct Peer {
    node_id: String,
    agent: Option<String>,
    state: String,
    round_trip_ms: Option<f64>,
    load: Option<u8>,
    linked_for_s: Option<f64>,
    #[serde(default)]
    addresses: Vec<Place>,
    #[serde(default)]
    capabilities: Vec<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Place {
    address: String,
    source: String,
    seen_s_ago: f64,
    proven_s_ago: Option<f64>,
}

impl Peer {
    fn is_linked(&self) -> bool {
        matches!(self.state.as_str(), "linked" | "draining")
    }

    /// The address where it was last proven to be, else the one that was seen last.
    fn place(&self) -> Option<&Place> {
        let age = |place: &Place| (place.proven_s_ago.unwrap_or(f64::INFINITY), place.seen_s_ago);
        self.addresses
            .iter()
            .min_by(|one, other| age(one).partial_cmp(&age(other)).unwrap_or(Ordering::Equal))
    }

    fn why(&self) -> &str {
        if self.is_linked() { "" } else { self.error.as_deref().unwrap_or_default() }
    }
}

fn entry(json: Value) -> Result<Entry, Failure> {
    let peer: Peer = serde_json::from_value(json.clone()).map_err(unreadable)?;
    let agent = peer.agent.as_deref().unwrap_or("-");
    let place = peer.place().map_or("-", |place| place.address.as_str());
    let mut news = format!("{} {} {agent} {place} {}", peer.node_id, peer.state, peer.capabilities.join(","));
    if !peer.why().is_empty() {
        news.push_str(": ");
        news.push_str(peer.why());
    }
    Ok(Entry { id: peer.node_id, news: printable(&news), json })
}

fn table(entries: &[Entry], out: &mut Output) -> Result<(), Failure> {
    if entries.is_empty() {
        return Ok(());
    }
    let column = |paint, is_right| Column { paint, is_right };
    let mut table = Table::new(&[
        column(Paint::Name, false),
        column(Paint::Plain, false),
        column(Paint::Value, false),
        column(Paint::Plain, false),
        column(Paint::Plain, false),
        column(Paint::Plain, true),
        column(Paint::Plain, true),
        column(Paint::Plain, true),
        column(Paint::Plain, true),
    ]);
    table.row(
        ["NODE", "AGENT", "STATE", "ADDRESS", "SOURCE", "AGE", "RTT", "LOAD", "CAPS"].map(str::to_owned),
    );
    let mut reasons = Vec::new();
    for entry in entries {
        let peer: Peer = serde_json::from_value(entry.json.clone()).map_err(unreadable)?;
        let place = peer.place();
        let age = peer.linked_for_s.filter(|_| peer.is_linked()).or_else(|| Some(place?.seen_s_ago));
        if !peer.why().is_empty() {
            reasons.push(format!("{}: {}", peer.node_id, peer.why()));
        }
        table.row([
            printable(&peer.node_id),
            printable(peer.agent.as_deref().unwrap_or("-")),
            printable(&peer.state),
            printable(place.map_or("-", |place| &place.address)),
            printable(place.map_or("-", |place| &place.source)),
            age.map_or_else(dash, seconds),
            peer.round_trip_ms.map_or_else(dash, |ms| format!("{ms:.1}ms")),
            peer.load.map_or_else(dash, |load| format!("{load}%")),
            peer.capabilities.len().to_string(),
        ]);
    }
    out.table(&table)?;
    reasons.iter().try_for_each(|reason| out.line(printable(reason)))
}

fn dash() -> String {
    "-".to_owned()
}

/// In the largest unit of which there are two.
fn seconds(age: f64) -> String {
    let whole = age as u64;
    match whole {
        0..120 => format!("{whole}s"),
        120..7_200 => format!("{}m", whole / 60),
        7_200..172_800 => format!("{}h", whole / 3_600),
        _ => format!("{}d", whole / 86_400),
    }
}
