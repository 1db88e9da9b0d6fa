//! Whether a link is still what it was: the peer alive, its certificate good.

use std::time::Duration;

use tokio::time::Instant;

use super::handle::LinkHandle;
use crate::transport::reload::TlsContext;
use crate::transport::tls::error::TlsError;

impl LinkHandle {
    /// Asks the peer for a sign of life. True if one comes in time.
    pub(crate) async fn probe(&self, patience: Duration) -> bool {
        /// How often to look: a live peer on the same continent is recognised within a few looks.
        const LOOK: Duration = Duration::from_millis(20);
        let before = self.command(|core| {
            core.link.probe();
            core.link.last_heard()
        });
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
            let heard = self.0.core.lock().link.last_heard();
            if heard.is_none() {
                return false;
            }
            if heard > before {
                return true;
            }
        }
        false
    }

    /// Whether the peer's certificate would still be accepted.
    ///
    /// # Errors
    /// Expired, revoked, or of an authority that is no longer trusted.
    pub(crate) fn check_certificate(&self, tls: &TlsContext) -> Result<(), TlsError> {
        let chain = self.0.core.lock().chain.clone();
        tls.is_still_good(&chain)
    }
}
