//! How many handlers of a capability run and wait at once. Past that, `OVERLOADED` with a time to come back.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_peer_proto::wire::ErrorCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Shortest time to come back: below it, callers would only knock harder.
const MIN_RETRY_AFTER: Duration = Duration::from_millis(50);
/// Longest time to come back: past it the estimate says little, and room may be free long before.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);
/// Share of a new sample in the moving average of the handler's time: one part in so many. A change shows after about
/// as many calls.
const SMOOTHING: u64 = 8;

/// How many calls of a capability run and wait at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerLimits {
    /// Handlers that run at once, at least 1. 64 by default: enough to hide waiting for a model or a database, few
    /// enough to bound memory.
    pub concurrency: u32,
    /// Calls that wait for a handler. 64 by default; 0 refuses at once what cannot run at once.
    pub queue: u32,
}

impl Default for HandlerLimits {
    fn default() -> Self {
        Self { concurrency: 64, queue: 64 }
    }
}

impl HandlerLimits {
    /// With this many handlers at once; 0 counts as 1.
    #[must_use]
    pub fn concurrency(self, concurrency: u32) -> Self {
        Self { concurrency: concurrency.max(1), ..self }
    }

    /// With this many waiting calls.
    #[must_use]
    pub fn queue(self, queue: u32) -> Self {
        Self { queue, ..self }
    }
}

/// A call that found neither a free handler nor a place to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{running} calls run and {waiting} wait, which is all that the capability allows: try again in {} ms", retry_after.as_millis())]
#[non_exhaustive]
pub(crate) struct Overloaded {
    /// Handlers that run.
    pub running: u32,
    /// Calls that wait.
    pub waiting: u32,
    /// When room is expected: 50 ms to 5 s.
    pub retry_after: Duration,
}

impl Overloaded {
    /// The code that the caller sees.
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode::Overloaded
    }
}

/// The door of one capability. Those who wait are let in in the order in which they came.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: HandlerLimits,
    handlers: Arc<Semaphore>,
    waiting: AtomicU32,
    /// Moving average of the time that a handler takes, in microseconds.
    average: AtomicU64,
}

/// What [`Admission::enter`] gives.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A handler may run.
    Now(Permit),
    /// There is a place to wait.
    Queued(Queued),
}

impl Entry {
    /// Ready when a handler may run.
    pub(crate) async fn permit(self) -> Permit {
        match self {
            Self::Now(permit) => permit,
            Self::Queued(queued) => queued.permit().await,
        }
    }
}

impl Admission {
    /// A door with these limits and nobody inside.
    pub(crate) fn new(limits: HandlerLimits) -> Arc<Self> {
        let concurrency = limits.concurrency.max(1);
        Arc::new(Self {
            limits: HandlerLimits { concurrency, ..limits },
            handlers: Arc::new(Semaphore::new(concurrency as usize)),
            waiting: AtomicU32::new(0),
            average: AtomicU64::new(0),
        })
    }

    /// Asks for a handler. Neither waits nor allocates if one is free.
    ///
    /// # Errors
    /// [`Overloaded`] if none is free and all places to wait are taken.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Entry, Overloaded> {
        if let Ok(permit) = self.handlers.clone().try_acquire_owned() {
            return Ok(Entry::Now(Permit::new(self.clone(), permit)));
        }
        let place = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            (waiting < self.limits.queue).then_some(waiting + 1)
        });
        match place {
            Ok(_) => Ok(Entry::Queued(Queued { place: Place(self.clone()) })),
            Err(waiting) => {
                Err(Overloaded { running: self.running(), waiting, retry_after: self.retry_after(waiting) })
            }
        }
    }

    /// How much of what may run does run, in percent: 100 means that the next call has to wait.
    pub(crate) fn load(&self) -> u8 {
        let percent = u64::from(self.running()) * 100 / u64::from(self.limits.concurrency);
        u8::try_from(percent).unwrap_or(100)
    }

    /// Handlers that run.
    pub(crate) fn running(&self) -> u32 {
        let free = u32::try_from(self.handlers.available_permits()).unwrap_or(u32::MAX);
        self.limits.concurrency.saturating_sub(free)
    }

    /// Calls that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    fn retry_after(&self, waiting: u32) -> Duration {
        let average = Duration::from_micros(self.average.load(Ordering::Relaxed));
        let rounds = f64::from(waiting + 1) / f64::from(self.limits.concurrency);
        average.mul_f64(rounds).clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER)
    }

    fn count(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min(3_600_000_000);
        let update = |average: u64| match average {
            0 => took,
            _ => average - average / SMOOTHING + took / SMOOTHING,
        };
        // Cannot fail: the update is never refused.
        let _ =
            self.average.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |average| Some(update(average)));
    }
}

/// A place to wait for a handler. Dropped, it is free for somebody else.
#[derive(Debug)]
pub(crate) struct Queued {
    place: Place,
}

#[derive(Debug)]
struct Place(Arc<Admission>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queued {
    /// Waits for a handler, as long as it takes: the call's deadline is the caller's to watch.
    pub(crate) async fn permit(self) -> Permit {
        let permit = self.place.0.handlers.clone().acquire_owned().await;
        Permit::new(self.place.0.clone(), permit.expect("the semaphore of an admission is never closed"))
    }
}

/// The right to run a handler, until dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    since: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Permit {
    fn new(admission: Arc<Admission>, permit: OwnedSemaphorePermit) -> Self {
        Self { admission, since: Instant::now(), _permit: permit }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.count(self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::poll;
    use tokio::time::advance;

    use super::*;

    fn admission(concurrency: u32, queue: u32) -> Arc<Admission> {
        Admission::new(HandlerLimits::default().concurrency(concurrency).queue(queue))
    }

    fn run(admission: &Arc<Admission>) -> Permit {
        match admission.enter() {
            Ok(Entry::Now(permit)) => permit,
            other => panic!("{other:?}"),
        }
    }

    fn wait(admission: &Arc<Admission>) -> Queued {
        match admission.enter() {
            Ok(Entry::Queued(queued)) => queued,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn past_concurrency_calls_wait_and_past_the_queue_they_are_refused() {
        let admission = admission(2, 1);
        let first = run(&admission);
        assert_eq!(admission.load(), 50);
        let _second = run(&admission);
        let waiting = wait(&admission).permit();
        tokio::pin!(waiting);
        assert!(poll!(&mut waiting).is_pending());
        let refused = admission.enter().unwrap_err();
        assert_eq!((refused.running, refused.waiting, refused.code()), (2, 1, ErrorCode::Overloaded));
        assert_eq!(admission.load(), 100);
        drop(first);
        let _third = waiting.await;
        assert_eq!((admission.running(), admission.waiting()), (2, 0));
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_the_place_to_another() {
        let admission = admission(1, 1);
        let running = run(&admission);
        let mut given_up = Box::pin(wait(&admission).permit());
        assert!(poll!(&mut given_up).is_pending());
        drop(given_up);
        let next = wait(&admission);
        drop(running);
        assert!(next.permit().now_or_never().is_some(), "the permit was not lost to the one who gave up");
    }

    #[tokio::test]
    async fn nobody_overtakes_those_who_wait() {
        let admission = admission(1, 2);
        let running = run(&admission);
        let mut first = Box::pin(wait(&admission).permit());
        assert!(poll!(&mut first).is_pending());
        drop(running);
        let mut second = Box::pin(wait(&admission).permit());
        assert!(poll!(&mut second).is_pending(), "the free handler belongs to the first");
        drop(first.await);
        second.await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_to_come_back_follows_handler_time_and_queue() {
        let admission = admission(2, 3);
        let retry_after = || {
            let _running = (run(&admission), run(&admission));
            let _waiting = [wait(&admission), wait(&admission), wait(&admission)];
            admission.enter().unwrap_err().retry_after
        };
        assert_eq!(retry_after(), MIN_RETRY_AFTER, "nothing is known yet");
        for _ in 0..100 {
            let permit = run(&admission);
            advance(Duration::from_secs(1)).await;
            drop(permit);
        }
        let estimate = retry_after();
        assert!(
            estimate > Duration::from_millis(1_900) && estimate <= Duration::from_secs(2),
            "{estimate:?}"
        );
        for _ in 0..100 {
            let permit = run(&admission);
            advance(Duration::from_secs(3_600)).await;
            drop(permit);
        }
        assert_eq!(retry_after(), MAX_RETRY_AFTER);
    }

    #[test]
    fn no_handler_at_all_counts_as_one() {
        let admission = Admission::new(HandlerLimits { concurrency: 0, queue: 0 });
        assert!(matches!(admission.enter(), Ok(Entry::Now(_))));
    }
}
