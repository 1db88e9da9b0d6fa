//! Reports what happens in the folder of running nodes.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hermes_peer_proto::wire::NodeId;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::discovery::Change;
use crate::discovery::Sighting;
use crate::discovery::Source;
use crate::discovery::SourceKind;
use crate::discovery::local::LocalFolder;
use crate::discovery::local::NodeRecord;

/// How often the folder is looked at. Who comes looks at once and dials, so that this is for those already there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches the folder and reports who comes, changes and goes.
#[derive(Debug)]
pub(crate) struct Local {
    folder: LocalFolder,
    own: NodeId,
}

impl Local {
    /// Reports everybody but the node itself.
    pub(crate) fn new(folder: LocalFolder, own: NodeId) -> Self {
        Self { folder, own }
    }

    async fn look(&self) -> Option<HashMap<NodeId, Sighting>> {
        let folder = self.folder.clone();
        let records = match tokio::task::spawn_blocking(move || folder.scan()).await.ok()? {
            Ok(records) => records,
            Err(error) => {
                tracing::debug!(%error, "no look at the nodes of this machine");
                return None;
            }
        };
        let others = records.into_iter().filter(|record| record.node_id != self.own);
        Some(others.map(|record| (record.node_id.clone(), sighting(record))).collect())
    }
}

pub(crate) fn sighting(record: NodeRecord) -> Sighting {
    Sighting {
        node: record.node_id,
        agent: Some(record.agent),
        endpoints: vec![record.endpoint],
        capabilities: record.capabilities,
        source: SourceKind::Local,
        seen: Instant::now(),
    }
}

/// What is different, and what is known from then on.
fn changes(known: &mut HashMap<NodeId, Sighting>, found: HashMap<NodeId, Sighting>) -> Vec<Change> {
    let gone = known.keys().filter(|node| !found.contains_key(*node)).cloned().map(Change::Gone);
    let new = found.values().filter(|new| known.get(&new.node).is_none_or(|old| !old.says_the_same_as(new)));
    let changes = gone.chain(new.cloned().map(Change::Seen)).collect();
    *known = found;
    changes
}

impl Source for Local {
    fn kind(&self) -> SourceKind {
        SourceKind::Local
    }

    fn run(self: Box<Self>, sender: mpsc::Sender<Change>) -> BoxFuture<'static, ()> {
        async move {
            let mut known = HashMap::new();
            let mut ticks = tokio::time::interval(LOOK_EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = sender.closed() => return,
                }
                let Some(found) = self.look().await else { continue };
                for change in changes(&mut known, found) {
                    if sender.send(change).await.is_err() {
                        return;
                    }
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use hermes_peer_proto::wire::Epoch;

    use super::*;

    fn record(node: &str) -> NodeRecord {
        NodeRecord {
            node_id: node.parse().unwrap(),
            agent: "agent://default/support/nlu".parse().unwrap(),
            endpoint: "127.0.0.1:7501".parse().unwrap(),
            capabilities: vec!["demo.echo".parse().unwrap()],
            pid: 42,
            epoch: Epoch(1),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn comings_changes_and_goings_of_others_are_reported_once() {
        let root = tempfile::tempdir().unwrap();
        let folder = LocalFolder::open(root.path().join("run")).unwrap();
        let _own = folder.announce(record("own")).unwrap();
        let mut other = folder.announce(record("other")).unwrap();
        let source = Box::new(Local::new(folder.clone(), "own".parse().unwrap()));
        assert_eq!(source.kind(), SourceKind::Local);
        let (sender, mut reports) = mpsc::channel(1);
        let run = tokio::spawn(source.run(sender));
        let Some(Change::Seen(seen)) = reports.recv().await else { panic!("the other is there") };
        assert_eq!((seen.node.as_str(), seen.endpoints[0].to_string().as_str()), ("other", "127.0.0.1:7501"));
        other.update(Vec::new()).unwrap();
        assert!(matches!(reports.recv().await, Some(Change::Seen(seen)) if seen.capabilities.is_empty()));
        drop(other);
        assert!(matches!(reports.recv().await, Some(Change::Gone(node)) if node.as_str() == "other"));
        drop(reports);
        run.await.unwrap();
    }
}
