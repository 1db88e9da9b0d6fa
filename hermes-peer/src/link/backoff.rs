//! How long to wait before dialling again.

use std::time::Duration;

/// Exponential back-off with full jitter (Brooker, "Exponential Backoff And Jitter", 2015): the delay is drawn evenly
/// from 0 to a ceiling that doubles. Randomness comes in from outside.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

/// The first retry comes within this time whatever the settings: most losses are momentary.
const FIRST: Duration = Duration::from_millis(100);
/// Whatever the settings: a day without a try is a peer given up.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min).min(LONGEST), failures: 0 }
    }

    /// How long to wait now; `random` is uniform in 0..1.
    pub(crate) fn next(&mut self, random: f64) -> Duration {
        let ceiling = match self.failures {
            0 => FIRST.min(self.max),
            failures => {
                self.min.saturating_mul(1u32.checked_shl(failures - 1).unwrap_or(u32::MAX)).min(self.max)
            }
        };
        self.failures = self.failures.saturating_add(1);
        ceiling.mul_f64(random.clamp(0.0, 1.0))
    }

    /// Waits as long as it ever does: for refusals that another try will not change.
    pub(crate) fn rest(&mut self) {
        self.failures = u32::MAX;
    }

    /// The link was healthy for long enough: the next failure is a first one again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_ceiling_and_never_overflow() {
        // FC-051
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(16));
        let delays: Vec<_> = (0..10_000).map(|_| backoff.next(1.0)).collect();
        assert_eq!(
            delays[..7].iter().map(Duration::as_millis).collect::<Vec<_>>(),
            [100, 1000, 2000, 4000, 8000, 16000, 16000]
        );
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(16)));
        backoff.reset();
        assert_eq!(backoff.next(1.0), FIRST);
    }

    #[test]
    fn absurd_settings_do_not_panic() {
        let mut zero = Backoff::new(Duration::ZERO, Duration::ZERO);
        let mut huge = Backoff::new(Duration::MAX, Duration::from_secs(1));
        for _ in 0..100 {
            assert_eq!(zero.next(0.5), Duration::ZERO);
            huge.next(1.0);
        }
    }
}
