//! `hermes-peer up`: the node of a configuration file.

use std::path::Path;

use hermes_peer::Node;
use hermes_peer::config::Config;
use hermes_peer::config::Severity;

use crate::exit::Failure;
use crate::output::Output;

use super::Surroundings;
use super::hosting;
use super::node::refused;
use super::signals::Signals;

/// Runs the verb.
pub(super) async fn run(around: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    let signals = Signals::with_reload()?;
    let Some(file) = &around.file else {
        return Err(Failure::usage("a node needs a configuration file"));
    };
    warn(&file.config);
    let builder = Node::from_config(&file.config).map_err(refused)?;
    let mut in_force = file.config.clone();
    hosting::host(builder, signals, around, out, |node| reload(node, &file.path, &mut in_force)).await
}

fn warn(config: &Config) {
    config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
}

/// Takes over what can be taken over. A file that is wrong changes nothing.
fn reload(node: &Node, path: &Path, in_force: &mut Config) {
    let new = match Config::load(path) {
        Ok(new) => new,
        Err(error) => {
            let errors = error.findings().iter().filter(|finding| finding.severity == Severity::Error);
            let why: Vec<String> = errors.map(ToString::to_string).collect();
            tracing::warn!(
                "the configuration is not taken over, the last good one stays in force: {}",
                why.join(" | ")
            );
            return;
        }
    };
    warn(&new);
    let changes = in_force.differences(&new);
    if let Err(error) = node.apply(&changes, &new) {
        tracing::warn!("the configuration is not taken over, the last good one stays in force: {error}");
        return;
    }
    let mut later = changes.needs_restart.clone();
    if changes.auth_changed {
        later.push("auth");
    }
    if !later.is_empty() {
        tracing::warn!("changed, and in force only after a restart: {}", later.join(", "));
    }
    tracing::info!(
        peers_added = changes.peers_added.len(),
        peers_removed = changes.peers_removed.len(),
        policy_changed = changes.policy_changed,
        "configuration read again"
    );
    // What waits for a restart is compared with what is in force, also next time.
    in_force.peers = new.peers;
    in_force.policy = new.policy;
}
