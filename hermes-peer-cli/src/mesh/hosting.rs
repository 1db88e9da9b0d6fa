//! A node that runs until it is told to end.

use std::time::Duration;

use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use serde_json::json;

use crate::exit::Exit;
use crate::exit::Failure;
use crate::exit::tell;
use crate::output::Output;

use super::Surroundings;
use super::node::refused;
use super::signals::Signals;
use super::signals::Word;

/// An end that takes longer is explained.
const SHORT: Duration = Duration::from_millis(300);

/// Starts the node, says so, and runs it until it is told to end; `reload` is called for each wish to reload.
pub(super) async fn host(
    builder: NodeBuilder,
    mut signals: Signals,
    around: &Surroundings,
    out: &mut Output,
    reload: impl FnMut(&Node),
) -> Result<(), Failure> {
    let node = tokio::select! {
        started = builder.start() => started.map_err(refused)?,
        // Nothing has begun yet.
        () = signals.stop() => return Ok(()),
    };
    tell_start(&node, around, out)?;
    until_stopped(&node, &mut signals, reload).await
}

fn tell_start(node: &Node, around: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    let provided = node.provided();
    let names: Vec<&str> = provided.iter().map(|info| info.name.as_str()).collect();
    let address = node.address().map(|address| address.to_string());
    if around.is_json {
        out.json(&json!({
            "node_id": node.id().as_str(), "agent": node.agent().as_str(), "address": address, "capabilities": names,
        }))?;
        return out.flush();
    }
    let at = address.map(|address| format!(", listens on {address}")).unwrap_or_default();
    tell(format_args!("{} of {} is up{at}", node.id(), node.agent()));
    if let Some(first) = names.first() {
        let config = match &around.file {
            Some(file) if file.is_named => format!("-c {} ", file.path.display()),
            _ => String::new(),
        };
        tell(format_args!("provides {}; call it: hermes-peer {config}call {first} '{{}}'", names.join(", ")));
    }
    Ok(())
}

async fn until_stopped(
    node: &Node,
    signals: &mut Signals,
    mut reload: impl FnMut(&Node),
) -> Result<(), Failure> {
    while signals.next().await == Word::Reload {
        reload(node);
    }
    let ending = node.shutdown();
    tokio::pin!(ending);
    let explained = async {
        tokio::time::sleep(SHORT).await;
        tell("waits for calls that still run; once more stops at once");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        is_whole = &mut ending => match is_whole {
            true => Ok(()),
            false => Err(Failure::Told {
                exit: Exit::Other,
                message: "calls that did not end in time were cut; their callers were told".to_owned(),
            }),
        },
        () = signals.stop() => Err(Failure::Interrupted),
        () = explained => Ok(()),
    }
}
