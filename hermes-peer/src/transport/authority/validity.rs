//! How long certificates are valid.

use std::time::Duration;

/// How long a certificate is valid if nothing else is said: renewed each quarter, it is renewed by habit.
pub const DEFAULT_VALIDITY: Duration = Duration::from_secs(90 * DAY);
/// The longest that a certificate can be valid: the bound that browsers set for what people forget to renew.
pub const MAX_VALIDITY: Duration = Duration::from_secs(825 * DAY);

/// Seconds in a day.
pub(crate) const DAY: u64 = 24 * 60 * 60;
/// Certificates begin this long ago: a peer whose clock is a little behind accepts a new one at once.
pub(crate) const BACKDATED: Duration = Duration::from_secs(5 * 60);
/// How long the authority's own certificate is valid.
pub(crate) const CA_VALIDITY: Duration = Duration::from_secs(3650 * DAY);
/// The end of 2049: from 2050 on X.509 writes dates in another form, which some readers still get wrong.
pub(crate) const LAST_DAY: Duration = Duration::from_secs(2_524_607_999);
