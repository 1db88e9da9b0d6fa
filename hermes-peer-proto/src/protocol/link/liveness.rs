//! Whether the peer is there.
//!
//! Only bytes received are life: what we send proves nothing. Three clocks run: our heartbeat, so that the peer hears us;
//! the peer's silence against three of *its* intervals; and, while somebody waits for an answer, a quicker probe.

use std::time::Duration;
use std::time::Instant;

/// Heartbeats that may be missed.
const MISSED: u32 = 3;
/// Silence after which a peer is probed while an answer is awaited. A tenth of the usual patience of a caller.
const PROBE_AFTER: Duration = Duration::from_secs(5);
/// Silence after a probe that ends the connection.
const PROBE_WAIT: Duration = Duration::from_secs(10);
/// A timer that ran later than this was late because we were: the process was stopped, starved or asleep.
const LATE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Liveness {
    interval: Duration,
    peer_interval: Duration,
    heard: Instant,
    sent: Instant,
    /// Since when somebody has been waiting for an answer.
    waiting_since: Option<Instant>,
    /// The heartbeat that awaits its answer.
    probe: Option<(u64, Instant)>,
    next_token: u64,
    /// A heartbeat has to go out.
    is_beat_due: bool,
    is_silent: bool,
    round_trip: Option<Duration>,
}

impl Liveness {
    pub(super) fn new(now: Instant, interval: Duration, peer_interval: Duration) -> Self {
        Self {
            interval,
            peer_interval,
            heard: now,
            sent: now,
            waiting_since: None,
            probe: None,
            next_token: 0,
            // The first one measures the round trip, which windows and routing want to know early.
            is_beat_due: true,
            is_silent: false,
            round_trip: None,
        }
    }

    /// Bytes came in, be they part of a frame.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Frames went out.
    pub(super) fn sent(&mut self, now: Instant) {
        self.sent = now;
    }

    /// Whether somebody waits for an answer. Silence before that was nobody's concern.
    pub(super) fn note_waiting(&mut self, now: Instant, waits: bool) {
        if waits {
            self.waiting_since.get_or_insert(now);
        } else {
            self.waiting_since = None;
        }
    }

    /// When to look again.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.is_silent {
            return None;
        }
        let verdict = self.verdict_at();
        if self.is_beat_due {
            // It goes out as soon as the connection takes it; waking for it again would only spin.
            return Some(verdict);
        }
        let due = verdict.min(self.sent + self.interval);
        Some(self.probe_at().map_or(due, |probe| probe.min(due)))
    }

    /// Looks at the clocks. True once, when the peer has been silent for too long.
    pub(super) fn check(&mut self, now: Instant) -> bool {
        let Some(due) = self.due() else { return false };
        if now < due {
            return false;
        }
        if now.duration_since(due) > LATE {
            // What the peer sent meanwhile may still wait in the socket: nobody is condemned for our own sleep.
            self.heard = now;
            self.probe = None;
            self.is_beat_due = true;
            return false;
        }
        if now >= self.verdict_at() {
            self.is_silent = true;
            return true;
        }
        self.is_beat_due |= now >= self.sent + self.interval;
        self.is_beat_due |= self.probe_at().is_some_and(|probe| probe <= now);
        false
    }

    /// The token of a heartbeat that has to go out now.
    pub(super) fn take_beat(&mut self, now: Instant) -> Option<u64> {
        if !std::mem::take(&mut self.is_beat_due) {
            return None;
        }
        self.next_token += 1;
        self.probe = Some((self.next_token, now));
        Some(self.next_token)
    }

    pub(super) fn want_beat(&mut self) {
        self.is_beat_due = true;
    }

    pub(super) fn last_heard(&self) -> Instant {
        self.heard
    }

    pub(super) fn has_beat(&self) -> bool {
        self.is_beat_due
    }

    /// The answer to a heartbeat. The round trip is smoothed by an eighth, as in RFC 6298.
    pub(super) fn answered(&mut self, now: Instant, token: u64) {
        if let Some((expected, sent)) = self.probe
            && expected == token
        {
            let sample = now.duration_since(sent);
            self.round_trip = Some(self.round_trip.map_or(sample, |smoothed| (smoothed * 7 + sample) / 8));
            self.probe = None;
        }
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// A probe is out and nothing has come since.
    fn is_probing(&self) -> bool {
        self.probe.is_some_and(|(_, sent)| sent >= self.heard)
    }

    fn probe_at(&self) -> Option<Instant> {
        let since = self.waiting_since.filter(|_| !self.is_probing())?;
        Some(since.max(self.heard) + PROBE_AFTER)
    }

    fn verdict_at(&self) -> Instant {
        let patience = self.heard + self.peer_interval * MISSED;
        match (self.probe, self.waiting_since) {
            (Some((_, sent)), Some(since)) if self.is_probing() => patience.min(sent.max(since) + PROBE_WAIT),
            _ => patience,
        }
    }
}
