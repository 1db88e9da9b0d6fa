//! Where strangers come in, and what their SYN is answered.

use std::net::IpAddr;
use std::sync::Arc;

use hermes_peer_proto::protocol::handshake::Resumption;
use hermes_peer_proto::protocol::handshake::SynReceived;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::LinkId;

use crate::link;
use crate::mesh::state::Mesh;
use crate::transport::ByteStream;
use crate::transport::memory::MemoryListener;
use crate::transport::tcp::Listener;

/// Where connections come in.
pub(crate) enum Door {
    Sockets(Listener),
    Memory(MemoryListener),
}

impl Door {
    /// The next connection and its source; pipes come from this host.
    async fn accept(&mut self) -> Option<(Box<dyn ByteStream>, IpAddr)> {
        match self {
            Self::Sockets(listener) => {
                let (stream, from) = listener.accept().await;
                Some((Box::new(stream), from.ip()))
            }
            Self::Memory(listener) => {
                let (stream, _) = listener.accept().await?;
                Some((stream, IpAddr::from([127, 0, 0, 1])))
            }
        }
    }
}

impl Mesh {
    /// Accepts connections until the node shuts down. Nothing that a newcomer does or fails to do happens in here.
    pub(crate) async fn accept_loop(self: Arc<Self>, mut listener: Door) {
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Some((stream, from)) = accepted else { return };
            let place = self.strangers.enter(from);
            let mesh = self.clone();
            self.tracker.spawn(async move {
                let greeting = async {
                    let connection = mesh.tls.accept(stream).await.map_err(|error| error.to_string())?;
                    let local = mesh.local(&connection);
                    let decide = |received| mesh.decide(received);
                    let established = link::accept(connection, local, mesh.nonce(), decide)
                        .await
                        .map_err(|error| error.to_string())?;
                    mesh.admit(established).await.map_err(|error| error.to_string())
                };
                let outcome = tokio::select! {
                    () = mesh.shutdown.cancelled() => return,
                    () = place.lost() => Err("it made room for newer ones".to_owned()),
                    outcome = tokio::time::timeout(mesh.settings.handshake_timeout, greeting) => {
                        outcome.unwrap_or_else(|_| Err("it took too long to say who it is".to_owned()))
                    }
                };
                drop(place);
                if let Err(error) = outcome {
                    mesh.refused_stranger(from, &error);
                }
            });
        }
    }

    /// A stranger can cause this as often as it likes: one line per some seconds has to do.
    fn refused_stranger(&self, from: IpAddr, error: &str) {
        if let Some(unsaid) = self.stranger_log.turn() {
            tracing::warn!(%from, error, unsaid, "a connection came to nothing");
        }
    }

    /// What to do with a SYN: which link it is for, or why it is refused.
    fn decide(self: &Arc<Self>, received: SynReceived) -> Result<(SynReceived, LinkId, Resumption), Fault> {
        if self.is_draining() {
            return Err(Fault::new(ErrorCode::Unavailable, "this node is shutting down"));
        }
        let new_link = LinkId::from_bytes(*self.new_message_id().as_bytes());
        let peer = self.peers.get(received.node());
        let link = peer.as_ref().and_then(|peer| peer.link.load_full());
        let Some(wish) = received.resume() else {
            self.check_room()?;
            return Ok((received, new_link, Resumption::New));
        };
        let resumed = link.filter(|link| {
            link.id() == wish.link
                && link.epoch() == received.epoch()
                && link.peer().agent() == received.agent()
                && !link.is_ended()
        });
        let proven = resumed.and_then(|link| {
            let secret = link.secrets().into_iter().find(|secret| received.verify_resume(secret))?;
            Some((link, secret))
        });
        let Some((link, secret)) = proven else {
            // Room is kept for links that go on, not for whoever wishes.
            self.check_room()?;
            return Ok((received, new_link, Resumption::Refused { received: None }));
        };
        // The old connection ends first, so that the count told is final.
        link.detach();
        if let Some(peer) = peer {
            self.suspended(&peer, &link, "the peer dialled anew");
        }
        let (received_count, _) = link.resume_state();
        Ok((received, new_link, Resumption::Continue { received: received_count, secret }))
    }

    fn check_room(&self) -> Result<(), Fault> {
        if self.peers.linked() < self.settings.max_connections {
            return Ok(());
        }
        let mut fault = Fault::new(
            ErrorCode::Overloaded,
            "this node has as many peers as it takes (`limits.max_connections`)",
        );
        fault.retry_after_ms = u64::try_from(self.settings.reconnect_max.as_millis()).ok();
        Err(fault)
    }
}
