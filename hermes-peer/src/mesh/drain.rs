//! The end of a node: what runs may end, nothing new begins.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use hermes_peer_proto::wire::GoAwayReason;

use crate::link::Stop;
use crate::mesh::state::Mesh;

/// Between the two words of a drain: the first has reached every peer, and what they sent before is here.
const DRAIN_GRACE: Duration = Duration::from_millis(100);
/// How often a drain looks whether all is done.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

impl Mesh {
    /// Takes no new work, lets running work end, closes links. True if all work ended in time.
    pub(crate) async fn drain(self: &Arc<Self>) -> bool {
        if self.is_draining.swap(true, Ordering::Relaxed) {
            self.tracker.wait().await;
            return true;
        }
        let deadline = Instant::now() + self.settings.drain_timeout;
        let announcement = self.announcement.lock().take();
        if announcement.is_some() {
            // Removes the record; blocking work is short here and the node is going anyway.
            let _removed = tokio::task::spawn_blocking(move || drop(announcement)).await;
        }
        self.say_goodbye(false);
        if self.running() > 0 {
            tokio::time::sleep(DRAIN_GRACE).await;
        }
        self.say_goodbye(true);
        while self.running() > 0 && Instant::now() < deadline {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        let is_whole = self.running() == 0;
        for peer in self.peers.all() {
            if let Some(link) = peer.link.load_full() {
                link.stop(Stop::Close);
            }
        }
        self.subscriptions.close();
        self.shutdown.cancel();
        self.tracker.close();
        // The last frames are on their way; a peer that does not take them is not waited for.
        if tokio::time::timeout(Duration::from_secs(1), self.tracker.wait()).await.is_err() {
            for peer in self.peers.all() {
                if let Some(link) = peer.link.load_full() {
                    link.stop(Stop::Abandon);
                }
            }
        }
        is_whole
    }

    /// The node is given up without a word to running work.
    pub(crate) fn stop(self: &Arc<Self>) {
        if self.is_draining.swap(true, Ordering::Relaxed) {
            return;
        }
        self.say_goodbye(true);
        for peer in self.peers.all() {
            if let Some(link) = peer.link.load_full() {
                link.stop(Stop::Close);
            }
        }
        self.subscriptions.close();
        self.shutdown.cancel();
    }

    fn say_goodbye(&self, final_word: bool) {
        for peer in self.peers.all() {
            if let Some(link) = peer.ready_link() {
                link.go_away(GoAwayReason::Draining, "the node is shutting down", final_word);
            }
        }
    }

    fn running(&self) -> u32 {
        self.peers.all().iter().filter_map(|peer| peer.ready_link()).map(|link| link.running_calls()).sum()
    }
}
