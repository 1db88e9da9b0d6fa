//! The peers of the configuration file: they stand for as long as the node runs.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::discovery::Change;
use crate::discovery::Sighting;
use crate::discovery::Source;
use crate::discovery::SourceKind;

/// Reports what it was given, once.
#[derive(Debug)]
pub(crate) struct Fixed {
    peers: Vec<Sighting>,
}

impl Fixed {
    /// Peers as the file names them.
    pub(crate) fn new(peers: Vec<Sighting>) -> Self {
        Self { peers }
    }
}

impl Source for Fixed {
    fn kind(&self) -> SourceKind {
        SourceKind::File
    }

    fn run(self: Box<Self>, changes: mpsc::Sender<Change>) -> BoxFuture<'static, ()> {
        async move {
            for peer in self.peers {
                if changes.send(Change::Seen(peer)).await.is_err() {
                    return;
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn the_peers_of_the_file_are_reported_in_its_order() {
        let sighting = |node: &str, endpoint: &str| Sighting {
            node: node.parse().unwrap(),
            agent: None,
            endpoints: vec![endpoint.parse().unwrap()],
            capabilities: Vec::new(),
            source: SourceKind::File,
            seen: Instant::now(),
            expires: None,
        };
        let peers = vec![sighting("b", "b.test:7502"), sighting("a", "a.test:7503")];
        let (sender, mut receiver) = mpsc::channel(1);
        let run = tokio::spawn(Box::new(Fixed::new(peers.clone())).run(sender));
        let mut got = Vec::new();
        while let Some(Change::Seen(peer)) = receiver.recv().await {
            assert!(peer.is_fresh(Instant::now()));
            got.push(peer);
        }
        assert_eq!(got, peers);
        run.await.unwrap();
    }
}
