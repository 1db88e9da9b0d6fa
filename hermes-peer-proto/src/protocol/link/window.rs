//! Byte windows: absolute limits that only rise, so that stating one twice does no harm.

use std::time::Duration;
use std::time::Instant;

/// The first bytes of each stream and direction that do not count against the link's window. However many slow
/// readers hold the link's window, a call of this size still goes through at once (promise 6). The price is bounded:
/// this much for each of the streams that may be open.
pub const UNCOUNTED: u64 = 16 * 1024;

/// How many of a stream's first `bytes` count against the link's window.
pub(super) const fn counted(bytes: u64) -> u64 {
    bytes.saturating_sub(UNCOUNTED)
}

/// What we let the peer send: the receiving end of a window.
#[derive(Debug)]
pub(super) struct Grant {
    size: u64,
    max_size: u64,
    freed: u64,
    limit: u64,
    granted_at: Option<Instant>,
}

impl Grant {
    /// A window of `size` bytes that may grow to `max_size` while it is what slows the peer.
    pub(super) fn new(size: u64, max_size: u64) -> Self {
        Self { size, max_size: max_size.max(size), freed: 0, limit: size, granted_at: None }
    }

    /// Bytes that the peer may send, counted from the start.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Of `received` bytes, `freed` no longer occupy memory that the window guards. True if the peer should be told now:
    /// the news at least doubles what it has left. With nothing held back that is at half of the window; with much held
    /// back by a slow reader it is earlier, so that the rest is never stuck.
    pub(super) fn free(&mut self, freed: u64, received: u64) -> bool {
        self.freed = self.freed.max(freed);
        let gain = (self.freed + self.size).saturating_sub(self.limit);
        gain > 0 && gain >= self.limit.saturating_sub(received)
    }

    /// The new limit to tell. The window doubles when half of it was used within two round trips: then it, not the
    /// peer, sets the pace.
    pub(super) fn renew(&mut self, now: Instant, round_trip: Option<Duration>) -> u64 {
        if let (Some(before), Some(round_trip)) = (self.granted_at, round_trip)
            && now.duration_since(before) < 2 * round_trip
        {
            self.size = (2 * self.size).min(self.max_size);
        }
        self.granted_at = Some(now);
        self.limit = self.limit.max(self.freed + self.size);
        self.limit
    }
}

/// What the peer lets us send: the sending end of a window.
#[derive(Debug)]
pub(super) struct Credit {
    used: u64,
    limit: u64,
}

impl Credit {
    pub(super) fn new(limit: u64) -> Self {
        Self { used: 0, limit }
    }

    pub(super) fn left(&self) -> u64 {
        self.limit - self.used
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// # Panics
    /// If more is used than is left: the sender must look first.
    pub(super) fn take(&mut self, bytes: u64) {
        assert!(bytes <= self.left(), "{bytes} bytes sent into a window of {}", self.left());
        self.used += bytes;
    }

    /// A new limit; a lower one is out of date. True if there was nothing left before and is now.
    pub(super) fn raise(&mut self, limit: u64) -> bool {
        let was_empty = self.left() == 0;
        self.limit = self.limit.max(limit);
        was_empty && self.left() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_renewed_at_half_and_never_falls() {
        let mut grant = Grant::new(100, 100);
        assert!(!grant.free(49, 49));
        assert!(grant.free(50, 50));
        #[expect(clippy::disallowed_methods, reason = "a test's one origin of time")]
        let now = Instant::now();
        assert_eq!(grant.renew(now, None), 150);
        assert!(!grant.free(10, 50), "what was freed stays freed");
        assert_eq!(grant.renew(now, None), 150);
    }

    #[test]
    fn a_window_that_sets_the_pace_grows_to_its_maximum() {
        #[expect(clippy::disallowed_methods, reason = "a test's one origin of time")]
        let mut now = Instant::now();
        let round_trip = Some(Duration::from_millis(100));
        let mut grant = Grant::new(100, 400);
        let mut freed = 0;
        for _ in 0..8 {
            now += Duration::from_millis(50);
            freed = grant.limit();
            assert!(grant.free(freed, freed));
            grant.renew(now, round_trip);
        }
        assert_eq!(grant.limit() - freed, 400);
    }

    #[test]
    fn what_a_slow_reader_leaves_of_a_window_keeps_moving() {
        let mut grant = Grant::new(100, 100);
        // 90 bytes are held for good; the other ten come and go.
        assert!(!grant.free(4, 94));
        assert!(grant.free(5, 95));
        assert!(grant.free(10, 100));
    }

    #[test]
    fn credit_ignores_limits_that_are_out_of_date() {
        let mut credit = Credit::new(10);
        credit.take(10);
        assert!(!credit.raise(5));
        assert!(credit.raise(12));
        assert!(!credit.raise(20), "it was not empty");
        assert_eq!(credit.left(), 10);
    }
}
