//! Which events were here before.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::time::Duration;

use aws_lc_rs::digest;
use hermes_peer_proto::wire::AgentUri;
use tokio::time::Instant;

/// Keys that are remembered: at 32 bytes each, with the tables around them, some 6 MiB.
const MAX_KEYS: usize = 65_536;
/// How long a key is remembered: longer than any link waits before it sends again.
const KEEP_FOR: Duration = Duration::from_secs(120);

/// Hashed, so that long keys take no more than short ones and nobody can choose keys that collide.
type Key = [u8; 32];

#[derive(Debug, Default)]
pub(super) struct Seen {
    keys: HashSet<Key>,
    by_age: VecDeque<(Instant, Key)>,
}

impl Seen {
    /// Remembers a key; false if it was remembered already.
    pub(super) fn insert(&mut self, publisher: &AgentUri, key: &str, now: Instant) -> bool {
        while let Some((at, oldest)) = self.by_age.front()
            && (self.by_age.len() >= MAX_KEYS || now.saturating_duration_since(*at) >= KEEP_FOR)
        {
            self.keys.remove(oldest);
            self.by_age.pop_front();
        }
        let key = hash(publisher, key);
        let is_new = self.keys.insert(key);
        if is_new {
            self.by_age.push_back((now, key));
        }
        is_new
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        assert_eq!(self.keys.len(), self.by_age.len());
        self.keys.len()
    }
}

fn hash(publisher: &AgentUri, key: &str) -> Key {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(publisher.as_str().as_bytes());
    // No agent's name has this byte, so no other agent and key come to the same bytes.
    context.update(&[0]);
    context.update(key.as_bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}
