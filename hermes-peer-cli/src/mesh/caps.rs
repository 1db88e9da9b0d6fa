//! `hermes-peer caps`: what can be called, by whom it is provided, and how.

use std::collections::BTreeMap;
use std::time::Duration;

use hermes_peer::CapabilityInfo;
use hermes_peer::CapabilityName;
use hermes_peer::Facts;
use hermes_peer::Node;
use hermes_peer::NodeId;
use hermes_peer::SlotName;
use serde_json::Value;
use serde_json::json;

use crate::exit::Failure;
use crate::exit::tell;
use crate::output::Column;
use crate::output::Output;
use crate::output::Paint;
use crate::output::Table;
use crate::output::printable;
use crate::output::printable_json;

use super::Surroundings;
use super::failed;
use super::node;
use super::node::Manner;
use super::node::PATIENCE;
use super::signals::interruptible;
use super::watch;
use super::watch::Entry;

/// Front of the names that every node provides by itself.
const BUILT_IN: &str = "hermes.";
/// Characters of a description in the table.
const MAX_DESCRIPTION: usize = 60;

/// Runs the verb.
pub(super) async fn run(
    name: Option<&CapabilityName>,
    is_watched: bool,
    around: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    if let Some(name) = name.filter(|name| name.as_str().starts_with(BUILT_IN)) {
        return Err(Failure::usage(format!(
            "names that begin with `{BUILT_IN}` are provided by every node itself and not advertised; `hermes-peer call {name} \
             --to NODE` calls one"
        )));
    }
    let manner = if is_watched { Manner::Watches } else { Manner::Asks };
    let node = node::start(manner, around).await?;
    let work = async {
        node.look_around(PATIENCE).await;
        if is_watched {
            return watch::forever(async || Ok(look(&node, name)), around.is_json, out, table).await;
        }
        let entries = look(&node, name);
        match name {
            Some(name) if entries.is_empty() => {
                // The search that a call would make knows best what to say.
                node.wait_for(name.as_str(), Duration::ZERO)
                    .await
                    .map_err(|error| failed::failure(&error, name.as_str(), &node))
            }
            Some(_) => watch::once(&entries, around.is_json, out, details),
            None => {
                if entries.is_empty() && !around.is_json {
                    tell(nothing(&node));
                }
                watch::once(&entries, around.is_json, out, table)
            }
        }
    };
    interruptible(node.clone(), work).await
}

fn nothing(node: &Node) -> &'static str {
    if node.peers().is_empty() {
        "no other node was found"
    } else {
        "nobody provides anything to us; `hermes-peer peers` shows who is there"
    }
}

fn look(node: &Node, name: Option<&CapabilityName>) -> Vec<Entry> {
    let agents: BTreeMap<NodeId, String> =
        node.peers().into_iter().filter_map(|peer| Some((peer.node_id, peer.agent?.to_string()))).collect();
    let wanted = |info: &CapabilityInfo| name.is_none_or(|name| info.name == *name);
    let all = node.capabilities().into_iter().filter(|(_, info)| wanted(info));
    all.map(|(node, info)| entry(&node, agents.get(&node).map(String::as_str), &info)).collect()
}

fn entry(node: &NodeId, agent: Option<&str>, info: &CapabilityInfo) -> Entry {
    let schema = |text: &str| serde_json::from_str::<Value>(text).ok();
    let names = |slots: &[SlotName]| slots.iter().map(|slot| slot.as_str().to_owned()).collect::<Vec<_>>();
    let json = json!({
        "capability": info.name.as_str(),
        "node_id": node.as_str(),
        "agent": agent,
        "version": info.version.to_string(),
        "description": info.description,
        "streams": info.streams,
        "facts": facts(info.facts),
        "access": format!("{:?}", info.access).to_lowercase(),
        "cost": info.cost,
        "weight": info.weight,
        "slots_read": names(&info.reads),
        "slots_written": names(&info.writes),
        "input": schema(&info.input_schema),
        "output": schema(&info.output_schema),
        "item": info.item_schema.as_deref().and_then(schema),
    });
    let news = format!("{} {} {node} {}", info.name, info.version, info.description);
    Entry { id: format!("{}@{node}", info.name), news: printable(&news), json }
}

fn facts(facts: Facts) -> Vec<&'static str> {
    let all = [
        (facts.read_only, "read only"),
        (facts.idempotent, "idempotent"),
        (facts.destructive, "destructive"),
        (facts.reentrant, "reentrant"),
    ];
    all.into_iter().filter_map(|(is_so, name)| is_so.then_some(name)).collect()
}

fn table(entries: &[Entry], out: &mut Output) -> Result<(), Failure> {
    if entries.is_empty() {
        return Ok(());
    }
    let column = |paint| Column { paint, is_right: false };
    let mut table = Table::new(&[
        column(Paint::Name),
        column(Paint::Plain),
        column(Paint::Plain),
        column(Paint::Plain),
        column(Paint::Aside),
    ]);
    table.row(["CAPABILITY", "VERSION", "NODE", "RESULT", "DESCRIPTION"].map(str::to_owned));
    for Entry { json, .. } in entries {
        let result = if json["streams"] == true { "stream" } else { "value" };
        table.row([
            text(&json["capability"]),
            text(&json["version"]),
            text(&json["node_id"]),
            result.to_owned(),
            shortened(&text(&json["description"])),
        ]);
    }
    out.table(&table)
}

/// The first sentence or so.
fn shortened(description: &str) -> String {
    if description.chars().count() <= MAX_DESCRIPTION {
        return description.to_owned();
    }
    let mut short: String = description.chars().take(MAX_DESCRIPTION - 1).collect();
    short.push('…');
    short
}

fn details(entries: &[Entry], out: &mut Output) -> Result<(), Failure> {
    for (index, Entry { json, .. }) in entries.iter().enumerate() {
        if index > 0 {
            out.line("")?;
        }
        let style = out.style();
        let title = style.paint(Paint::Title, &text(&json["capability"]));
        let agent =
            json["agent"].as_str().map(|agent| format!(" of {}", printable(agent))).unwrap_or_default();
        out.line(format_args!("{title} {} at {}{agent}", text(&json["version"]), text(&json["node_id"])))?;
        let description = text(&json["description"]);
        if !description.is_empty() {
            out.line(format_args!("  {description}"))?;
        }
        for (key, words) in
            [("facts", "facts"), ("slots_read", "reads slots"), ("slots_written", "writes slots")]
        {
            let list: Vec<String> = json[key].as_array().into_iter().flatten().map(text).collect();
            if !list.is_empty() {
                out.line(format_args!("  {words}: {}", list.join(", ")))?;
            }
        }
        let result = if json["streams"] == true { "a stream of items" } else { "one value" };
        out.line(format_args!("  access: {}; result: {result}", text(&json["access"])))?;
        for (key, absent) in [("input", "input: anything"), ("output", "output: anything"), ("item", "")] {
            schema(key, absent, &json[key], out)?;
        }
    }
    Ok(())
}

fn schema(name: &str, absent: &str, schema: &Value, out: &mut Output) -> Result<(), Failure> {
    if schema.is_null() {
        return if absent.is_empty() { Ok(()) } else { out.line(format_args!("  {absent}")) };
    }
    out.line(format_args!("  {name}:"))?;
    for line in format!("{schema:#}").lines() {
        out.line(format_args!("    {}", printable_json(line)))?;
    }
    Ok(())
}

/// A text as one that does nothing to a terminal.
fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}
