//! What a running node looks after by itself: sessions that idle, certificates that change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use hermes_peer_proto::wire::GoAwayReason;

use crate::link::Stop;
use crate::mesh::state::Mesh;
use crate::transport::reload::Reload;
use crate::transport::reload::WATCH_EVERY;

/// How often idle sessions are looked for. A session lives this much longer than its timeout at most.
const SESSION_SWEEP: Duration = Duration::from_secs(1);
/// How often the certificates of live links are checked again: a revoked one is gone within a minute.
const CERTIFICATE_CHECK: Duration = Duration::from_secs(30);

impl Mesh {
    pub(crate) async fn look_after_sessions(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(SESSION_SWEEP) => {}
            }
            self.sessions.expire(Instant::now());
        }
    }

    /// Follows the certificate files, and ends links whose certificates are no longer good.
    pub(crate) async fn look_after_certificates(self: Arc<Self>) {
        let (events, mut news) = mpsc::channel(8);
        let watching = self.tls.clone().watch(WATCH_EVERY, events);
        tokio::pin!(watching);
        let mut next_check = Instant::now() + CERTIFICATE_CHECK;
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = &mut watching => return self.check_links_until_shutdown().await,
                event = news.recv() => {
                    let Some(event) = event else { continue };
                    self.certificates_changed(event);
                    self.check_links();
                }
                () = tokio::time::sleep_until(next_check) => {
                    next_check = Instant::now() + CERTIFICATE_CHECK;
                    self.check_links();
                }
            }
        }
    }

    async fn check_links_until_shutdown(&self) {
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(CERTIFICATE_CHECK) => self.check_links(),
            }
        }
    }

    fn certificates_changed(&self, event: Reload) {
        match event {
            Reload::Reloaded { serial, warnings, .. } => {
                tracing::info!(serial, "certificates read anew");
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
            }
            Reload::Refused { why } => {
                tracing::warn!(
                    why,
                    "changed certificate files are not taken up, the last good ones stay in force"
                );
            }
        }
    }

    /// A link whose certificate has expired or was revoked is closed; healthy ones stay.
    fn check_links(&self) {
        for peer in self.peers.all() {
            let Some(link) = peer.ready_link() else { continue };
            if let Err(error) = link.check_certificate(&self.tls) {
                tracing::warn!(peer = %peer.node, %error, "a link is closed: its certificate is no longer good");
                link.go_away(GoAwayReason::Unauthenticated, "the certificate is no longer good", true);
                link.stop(Stop::Close);
            }
        }
    }
}
