//! How fast events may be published on a topic.

use std::collections::HashMap;
use std::time::Duration;

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Topic;
use tokio::time::Instant;

/// Topics that have a bucket of their own at a time. Those of quiet topics are dropped for those of new ones; when all
/// are busy, further topics share one.
const MAX_TOPICS: usize = 4_096;

/// Too many events on a topic in too short a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} events a second on `{topic}`: try again in {} ms", retry_after.as_millis())]
#[non_exhaustive]
pub(crate) struct RateLimited {
    /// The topic.
    pub topic: Topic,
    /// Events a second that are allowed.
    pub limit: u32,
    /// When the next one is.
    pub retry_after: Duration,
}

impl RateLimited {
    /// The code that the publisher sees.
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode::RateLimited
    }
}

/// A bucket of tokens per topic.
#[derive(Debug)]
pub(super) struct Rates {
    per_second: u32,
    burst: u32,
    buckets: HashMap<Topic, Bucket>,
    shared: Option<Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Rates {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second: per_second.max(1), burst: burst.max(1), buckets: HashMap::new(), shared: None }
    }

    pub(super) fn admit(&mut self, topic: &Topic, now: Instant) -> Result<(), RateLimited> {
        let (per_second, burst) = (f64::from(self.per_second), f64::from(self.burst));
        let full = Bucket { tokens: burst, at: now };
        if self.buckets.len() >= MAX_TOPICS && !self.buckets.contains_key(topic) {
            self.buckets.retain(|_, bucket| bucket.at(now, per_second, burst) < burst);
        }
        let has_room = self.buckets.len() < MAX_TOPICS;
        let bucket = match self.buckets.get_mut(topic) {
            Some(bucket) => bucket,
            None if has_room => self.buckets.entry(topic.clone()).or_insert(full),
            None => self.shared.get_or_insert(full),
        };
        *bucket = Bucket { tokens: bucket.at(now, per_second, burst), at: now };
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        let retry_after = Duration::from_secs_f64((1.0 - bucket.tokens) / per_second);
        Err(RateLimited { topic: topic.clone(), limit: self.per_second, retry_after })
    }
}

impl Bucket {
    fn at(&self, now: Instant, per_second: f64, burst: f64) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.tokens + passed * per_second).min(burst)
    }
}
