//! `hermes-peer journal`: what a node recorded.

use hermes_peer::LinkState;
use hermes_peer::Node;
use hermes_peer::SessionId;
use hermes_peer_proto::wire::Target;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

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
use super::peers::unreadable;
use super::signals::interruptible;
use super::watch::EVERY;

/// The built-in capability that answers.
const JOURNAL: &str = "hermes.journal";

/// Runs the verb.
pub(super) async fn run(
    to: Option<&Target>,
    session: Option<SessionId>,
    is_watched: bool,
    around: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let node = node::start(Manner::Asks, around).await?;
    let work = async {
        let target = match to {
            Some(target) => target.clone(),
            None => only(&node, around).await?,
        };
        let mut next = 0;
        loop {
            let (here, records) = ask(&node, &target, session).await?;
            let new: Vec<&Value> = records.iter().filter(|record| number(record) >= next).collect();
            next = new.last().map_or(next, |record| number(record) + 1);
            match (around.is_json, is_watched) {
                (true, false) => out.json(&new)?,
                (true, true) => new.iter().try_for_each(|record| out.json(record))?,
                (false, _) => table(&here, &new, out)?,
            }
            out.flush()?;
            if !is_watched {
                if new.is_empty() && !around.is_json {
                    tell(format_args!("{here} has no record of this"));
                }
                return Ok(());
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    interruptible(node.clone(), work).await
}

/// Whose journal is meant where nobody is named: the file's node, or the only one there is.
async fn only(node: &Node, around: &Surroundings) -> Result<Target, Failure> {
    if let Some(own) = around.file.as_ref().and_then(|file| file.config.node_id.clone()) {
        return Ok(Target::Node(own));
    }
    node.look_around(PATIENCE).await;
    let linked = node.peers().into_iter().filter(|peer| peer.state == LinkState::Linked);
    let names: Vec<_> = linked.map(|peer| peer.node_id).collect();
    match names.as_slice() {
        [] => Err(Failure::Told { exit: Exit::Unreachable, message: "no other node was found".to_owned() }),
        [one] => Ok(Target::Node(one.clone())),
        many => {
            let names: Vec<&str> = many.iter().map(|name| name.as_str()).collect();
            Err(Failure::usage(format!("there are several nodes; --to names one of {}", names.join(", "))))
        }
    }
}

async fn ask(node: &Node, to: &Target, session: Option<SessionId>) -> Result<(String, Vec<Value>), Failure> {
    let query = json!({ "session": session.map(|id| id.to_string()) }).to_string();
    let answer = node::ask(node, JOURNAL, query, Some(to)).await;
    let (by, bytes) = answer.map_err(|error| failed::failure(&error, JOURNAL, node))?;
    let records = serde_json::from_slice(&bytes).map_err(unreadable)?;
    Ok((by.map_or_else(|| node::name(to).to_owned(), |node| node.to_string()), records))
}

fn number(record: &Value) -> u64 {
    record["number"].as_u64().unwrap_or_default()
}

/// A record as `hermes.journal` gives it. What a later version adds is printed by `--json` alone.
#[derive(Deserialize)]
struct Record {
    at: u64,
    kind: String,
    peer: Option<String>,
    direction: Option<String>,
    message: Option<String>,
    capability: Option<String>,
    topic: Option<String>,
    bytes: Option<u64>,
    took_ms: Option<f64>,
    code: Option<String>,
    state: Option<String>,
    detail: Option<String>,
    #[serde(default)]
    slots_read: Vec<String>,
    #[serde(default)]
    slots_written: Vec<String>,
}

impl Record {
    /// From whom, to whom.
    fn ends<'a>(&'a self, here: &'a str) -> (&'a str, &'a str) {
        let peer = self.peer.as_deref().unwrap_or("-");
        if self.direction.as_deref() == Some("received") { (peer, here) } else { (here, peer) }
    }

    fn remark(&self) -> String {
        let slots = |verb, names: &[String]| match names {
            [] => None,
            names => Some(format!("{verb} {}", names.join(", "))),
        };
        let all = [
            self.code.clone(),
            self.detail.clone().filter(|detail| !detail.is_empty()),
            slots("reads", &self.slots_read),
            slots("writes", &self.slots_written),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

fn table(here: &str, records: &[&Value], out: &mut Output) -> Result<(), Failure> {
    let column = |paint, is_right| Column { paint, is_right };
    let mut table = Table::new(&[
        column(Paint::Aside, false),
        column(Paint::Name, false),
        column(Paint::Name, false),
        column(Paint::Value, false),
        column(Paint::Plain, false),
        column(Paint::Plain, true),
        column(Paint::Plain, true),
        column(Paint::Aside, false),
    ]);
    for record in records {
        let record = Record::deserialize(*record).map_err(unreadable)?;
        let (from, to) = record.ends(here);
        let what = record.message.as_ref().or(record.state.as_ref()).unwrap_or(&record.kind);
        let about = record.capability.as_ref().or(record.topic.as_ref());
        table.row([
            clock(record.at),
            printable(from),
            printable(to),
            printable(what),
            about.map(|about| printable(about)).unwrap_or_default(),
            record.bytes.map(|bytes| format!("{bytes} B")).unwrap_or_default(),
            record.took_ms.map(|took| format!("{took:.1} ms")).unwrap_or_default(),
            printable(&record.remark()),
        ]);
    }
    out.table(&table)
}

/// The time of day, UTC.
fn clock(micros: u64) -> String {
    let seconds = micros / 1_000_000 % 86_400;
    let [hours, minutes, seconds] = [seconds / 3_600, seconds / 60 % 60, seconds % 60];
    format!("{hours:02}:{minutes:02}:{seconds:02}.{:03}", micros / 1_000 % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_to_the_millisecond() {
        assert_eq!(clock(86_400_000_000 * 3 + 3_723_004_999), "01:02:03.004");
    }
}
