//! Times as people say them.

use std::time::Duration;
use std::time::SystemTime;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How far away a time is from now: `in 89 days`, `3 days ago`.
pub(crate) fn relative(at: SystemTime) -> String {
    from(at, SystemTime::now())
}

fn from(at: SystemTime, now: SystemTime) -> String {
    match at.duration_since(now) {
        Ok(ahead) => format!("in {}", length(ahead)),
        Err(past) => format!("{} ago", length(past.duration())),
    }
}

/// In the largest unit of which there are two, and never more than there is.
fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    let (count, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7200 => (seconds / MINUTE, "minute"),
        7200..172_800 => (seconds / HOUR, "hour"),
        _ => (seconds / DAY, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_the_largest_unit_of_which_there_are_two() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for (seconds, expected) in [
            (90 * DAY - 1, "89 days"),
            (2 * DAY, "2 days"),
            (2 * DAY - 1, "47 hours"),
            (2 * HOUR, "2 hours"),
            (2 * HOUR - 1, "119 minutes"),
            (119, "119 seconds"),
            (1, "1 second"),
        ] {
            let distance = Duration::from_secs(seconds);
            assert_eq!(from(now + distance, now), format!("in {expected}"));
            assert_eq!(from(now - distance, now), format!("{expected} ago"));
        }
    }
}
