//! Connections that have not said who they are: bounded in number and per source, the oldest make room.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The places that strangers hold while they prove who they are.
#[derive(Debug)]
pub(crate) struct Strangers(Arc<Places>);

#[derive(Debug)]
struct Places {
    taken: Mutex<VecDeque<Taken>>,
    max: usize,
    max_per_source: usize,
}

#[derive(Debug)]
struct Taken {
    from: IpAddr,
    lost: CancellationToken,
}

/// A stranger's place. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    lost: CancellationToken,
}

impl Strangers {
    pub(crate) fn new(max: usize, max_per_source: usize) -> Self {
        Self(Arc::new(Places {
            taken: Mutex::default(),
            max: max.max(1),
            max_per_source: max_per_source.max(1),
        }))
    }

    /// Takes a place for a newcomer. If there is none, the oldest of its source, or of all, loses its own: those that
    /// are slow on purpose are the oldest, and an honest newcomer still gets in.
    pub(crate) fn enter(&self, from: IpAddr) -> Place {
        let mut taken = self.0.taken.lock();
        let of_source = taken.iter().filter(|place| place.from == from).count();
        let oldest = if of_source >= self.0.max_per_source {
            taken.iter().position(|place| place.from == from)
        } else if taken.len() >= self.0.max {
            Some(0)
        } else {
            None
        };
        if let Some(place) = oldest.and_then(|index| taken.remove(index)) {
            place.lost.cancel();
        }
        let lost = CancellationToken::new();
        taken.push_back(Taken { from, lost: lost.clone() });
        Place { places: self.0.clone(), lost }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.taken.lock().len()
    }
}

impl Place {
    /// Ready when a newcomer took the place.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // An identity by token: all clones of one share their state, and only ours is cancelled by us.
        self.lost.cancel();
        self.places.taken.lock().retain(|place| !place.lost.is_cancelled());
    }
}

/// Lets one line through per some time, and counts those that it holds back.
#[derive(Debug)]
pub(crate) struct LogGate {
    every: Duration,
    state: Mutex<(Option<Instant>, u64)>,
}

impl LogGate {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, state: Mutex::default() }
    }

    /// `Some` with how many were held back since the last one, if it may be said now.
    pub(crate) fn turn(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.0.is_some_and(|last| now.duration_since(last) < self.every) {
            state.1 += 1;
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_oldest_stranger_makes_room_and_one_source_takes_only_its_share() {
        // FC-019
        let strangers = Strangers::new(4, 2);
        let first = strangers.enter(source(1));
        let second = strangers.enter(source(1));
        let third = strangers.enter(source(1));
        assert!(first.lost.is_cancelled() && !second.lost.is_cancelled());
        let others: Vec<_> = (2..5).map(|last| strangers.enter(source(last))).collect();
        assert!(second.lost.is_cancelled() && !third.lost.is_cancelled());
        assert_eq!(strangers.count(), 4);
        drop((first, second, third, others));
        assert_eq!(strangers.count(), 0);
    }
}
