//! Which provider gets a call: functions over a snapshot.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::CapabilityVersion;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Target;

use crate::mesh::peers::Peer;

/// A provider that says it is busier than this gets calls only if all others are as busy.
const BUSY: u8 = 80;
/// Failures in a row after which a provider is left alone for a while.
const FAILURES: u32 = 5;
/// How long it is left alone. Long enough for a restart, and one call in that time is what another failure costs.
const LEFT_ALONE: Duration = Duration::from_secs(10);
/// A latency sample counts for this part of the average: a slow answer is noticed within a few calls.
const SMOOTHING: u64 = 8;
/// A provider not called yet is taken to answer in this time, so that newcomers are tried and not flooded.
const FIRST_GUESS: Duration = Duration::from_millis(1);

/// How a peer has done as a provider so far.
#[derive(Debug, Default)]
pub(crate) struct Score {
    /// Smoothed time to answer, in microseconds; 0 before the first.
    latency: AtomicU64,
    in_flight: AtomicU32,
    failures: AtomicU32,
    failed_at: Mutex<Option<Instant>>,
}

impl Score {
    pub(crate) fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// A call ended. `took` is the time to a good answer; `None` if the provider failed.
    pub(crate) fn finish(&self, took: Option<Duration>) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let Some(took) = took else {
            self.failures.fetch_add(1, Ordering::Relaxed);
            *self.failed_at.lock() = Some(Instant::now());
            return;
        };
        self.failures.store(0, Ordering::Relaxed);
        let sample = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let old = self.latency.load(Ordering::Relaxed);
        // Two calls that end at once may lose one sample of the average: that is no loss.
        let new = if old == 0 { sample } else { old - old / SMOOTHING + sample / SMOOTHING };
        self.latency.store(new.max(1), Ordering::Relaxed);
    }

    /// A call ended that says nothing about the provider.
    pub(crate) fn forget(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// It failed so often in a row that it is left alone for now.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= FAILURES
            && self.failed_at.lock().is_some_and(|at| at.elapsed() < LEFT_ALONE)
    }

    /// Another process has taken the peer's place: what is known of the one before says nothing about it.
    pub(crate) fn start_over(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.latency.store(0, Ordering::Relaxed);
    }

    /// How long a call would take there, in microseconds.
    fn cost(&self) -> u64 {
        let latency = match self.latency.load(Ordering::Relaxed) {
            0 => FIRST_GUESS.as_micros() as u64,
            latency => latency,
        };
        latency.saturating_mul(u64::from(self.in_flight.load(Ordering::Relaxed)) + 1)
    }
}

/// A peer and the capability that it provides.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) peer: Arc<Peer>,
    pub(crate) info: Arc<CapabilityInfo>,
}

/// What the caller asks of a provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) target: Option<Target>,
    pub(crate) version: Option<CapabilityVersion>,
}

impl Wanted {
    /// Whether this node or peer will do.
    pub(crate) fn fits(&self, node: &NodeId, agent: Option<&AgentUri>, info: &CapabilityInfo) -> bool {
        let is_target = match &self.target {
            None => true,
            Some(Target::Node(wanted)) => wanted == node,
            Some(Target::Agent(wanted)) => Some(wanted) == agent,
        };
        is_target && self.version.is_none_or(|wanted| info.version.serves(wanted))
    }
}

/// Power of two choices (Mitzenmacher, 2001) among the providers that fit and were not tried before, drawn by weight;
/// of the two the one where the call would take less time. `random` gives numbers in 0..1.
pub(crate) fn choose(
    providers: &[Provider],
    wanted: &Wanted,
    tried: &[NodeId],
    mut random: impl FnMut() -> f64,
) -> Option<Provider> {
    let fits = |provider: &&Provider| {
        let agent = provider.peer.state.lock().agent.clone();
        wanted.fits(&provider.peer.node, agent.as_ref(), &provider.info)
            && !tried.contains(&provider.peer.node)
            && provider.peer.calling_link().is_some()
    };
    let fitting: Vec<&Provider> = providers.iter().filter(fits).collect();
    let is_fresh = |provider: &&&Provider| {
        let load = provider.peer.ready_link().map_or(0, |link| link.peer_load());
        load <= BUSY && !provider.peer.score.is_failing()
    };
    let fresh: Vec<&Provider> = fitting.iter().filter(is_fresh).copied().collect();
    let pool = if fresh.is_empty() { fitting } else { fresh };
    let first = draw(&pool, random())?;
    let second = draw(&pool, random())?;
    let chosen = if second.peer.score.cost() < first.peer.score.cost() { second } else { first };
    Some(chosen.clone())
}

/// Draws one by weight.
fn draw<'a>(pool: &[&'a Provider], random: f64) -> Option<&'a Provider> {
    let total: u64 = pool.iter().map(|provider| u64::from(provider.info.weight)).sum();
    let mut ticket = (random * total as f64) as u64;
    for provider in pool {
        let weight = u64::from(provider.info.weight);
        if ticket < weight {
            return Some(provider);
        }
        ticket -= weight;
    }
    pool.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::peers::PeerTable;

    #[test]
    fn weights_decide_how_often_one_is_drawn() {
        let table = PeerTable::default();
        let provider = |node: &str, weight| {
            let mut info = CapabilityInfo::new("demo.echo".parse().unwrap());
            info.weight = weight;
            Provider { peer: table.entry(&node.parse().unwrap()), info: Arc::new(info) }
        };
        let (canary, stable) = (provider("a-01", 30), provider("b-01", 70));
        let pool = [&canary, &stable];
        let drawn =
            (0..100).filter(|n| draw(&pool, f64::from(*n) / 100.0).unwrap().peer.node == canary.peer.node);
        assert_eq!(drawn.count(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_failed_is_left_alone_for_a_while_and_not_for_ever() {
        let score = Score::default();
        let fail = || {
            score.begin();
            score.finish(None);
        };
        (0..FAILURES).for_each(|_| fail());
        assert!(score.is_failing());
        tokio::time::advance(LEFT_ALONE).await;
        assert!(!score.is_failing(), "it is tried again");
        fail();
        assert!(score.is_failing(), "and one more failure is enough");
        score.start_over();
        assert!(!score.is_failing());
    }

    #[test]
    fn a_score_follows_what_calls_take_and_failures_in_a_row() {
        let score = Score::default();
        for _ in 0..FAILURES {
            score.begin();
            score.finish(None);
        }
        assert!(score.is_failing());
        score.begin();
        score.finish(Some(Duration::from_millis(8)));
        assert!(!score.is_failing());
        let idle = score.cost();
        score.begin();
        assert_eq!(score.cost(), 2 * idle);
    }
}
