//! TLS 1.3 over any byte stream: who the peer is by its certificate, and a number that only this connection has.

pub(crate) mod check;
pub(crate) mod error;
pub(crate) mod identity;
pub(crate) mod read_ahead;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::ServerName;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::TlsConnector;
use tokio_rustls::TlsStream;

use hermes_peer_proto::security::CertificateKey;

use crate::transport::ByteStream;
use crate::transport::facts::CertificateFacts;
use crate::transport::tls::check::REFUSAL;
use crate::transport::tls::error::TlsError;
use crate::transport::tls::identity::TlsSnapshot;
use crate::transport::tls::identity::is_hermes;
use crate::transport::tls::read_ahead::ReadAhead;

/// Encrypted bytes that TLS holds before the socket: one chunk, so that something urgent waits for no more than that.
const WRITE_LIMIT: usize = 32 * 1024;

/// What the exporter is asked for; both sides must use the same.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-hermes-peer";

type Inner = TlsStream<ReadAhead<Box<dyn ByteStream>>>;

/// A stream under TLS 1.3 to somebody who speaks Hermes and, with `mtls`, has a certificate that we accept.
///
/// Errors of reading and writing carry a [`TlsError`] where TLS has something to say: with TLS 1.3 the side that dials
/// learns only from its first read that its certificate was refused.
pub(crate) struct TlsConnection {
    inner: Inner,
    binding: [u8; 32],
    peer: Vec<CertificateDer<'static>>,
    snapshot: Arc<TlsSnapshot>,
}

/// Sets TLS up as the side that dialled. There is no deadline in here: the caller has one for all of the set-up.
///
/// # Errors
///
/// Why there is no connection, whose certificate it was, and what helps.
pub(crate) async fn connect(
    stream: Box<dyn ByteStream>,
    snapshot: Arc<TlsSnapshot>,
) -> Result<TlsConnection, TlsError> {
    // Nodes are not known by host names, so none is sent: an address makes rustls leave the name out.
    let nobody = ServerName::from(std::net::Ipv4Addr::UNSPECIFIED);
    let connector = TlsConnector::from(Arc::clone(&snapshot.client));
    let handshake = connector.connect_with(nobody, ReadAhead::new(stream), |tls| {
        tls.set_buffer_limit(Some(WRITE_LIMIT));
    });
    finish(async { handshake.await.map(TlsStream::from) }, snapshot).await
}

/// Sets TLS up as the side that accepted. There is no deadline in here: the caller has one for all of the set-up.
///
/// # Errors
///
/// Why there is no connection, whose certificate it was, and what helps.
pub(crate) async fn accept(
    stream: Box<dyn ByteStream>,
    snapshot: Arc<TlsSnapshot>,
) -> Result<TlsConnection, TlsError> {
    let acceptor = TlsAcceptor::from(Arc::clone(&snapshot.server));
    let handshake =
        acceptor.accept_with(ReadAhead::new(stream), |tls| tls.set_buffer_limit(Some(WRITE_LIMIT)));
    finish(async { handshake.await.map(TlsStream::from) }, snapshot).await
}

async fn finish(
    handshake: impl Future<Output = io::Result<Inner>>,
    snapshot: Arc<TlsSnapshot>,
) -> Result<TlsConnection, TlsError> {
    let outcome = REFUSAL.scope(RefCell::new(None), async {
        let outcome = handshake.await;
        outcome.map_err(|error| {
            let refusal = REFUSAL.with(RefCell::take);
            refusal.unwrap_or_else(|| TlsError::from_handshake(&error, snapshot.own()))
        })
    });
    let inner = outcome.await?;
    let (_, tls) = inner.get_ref();
    if !is_hermes(tls.alpn_protocol()) {
        return Err(TlsError::NoAlpn);
    }
    let peer =
        tls.peer_certificates().unwrap_or_default().iter().map(|one| one.clone().into_owned()).collect();
    let exported = match &inner {
        TlsStream::Client(client) => client.get_ref().1.export_keying_material([0; 32], EXPORTER_LABEL, None),
        TlsStream::Server(server) => server.get_ref().1.export_keying_material([0; 32], EXPORTER_LABEL, None),
    };
    let binding = exported.map_err(|error| TlsError::Failed { why: error.to_string() })?;
    Ok(TlsConnection { inner, binding, peer, snapshot })
}

impl TlsConnection {
    /// 32 bytes that both ends of this connection know and nobody else, not even between them: what proofs are bound to.
    pub(crate) fn channel_binding(&self) -> [u8; 32] {
        self.binding
    }

    /// The certificate that the peer proved to own; none in `token` mode.
    pub(crate) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.peer.first()
    }

    /// What this node proves itself with on this connection; none in `token` mode. Files that were read anew meanwhile do
    /// not change it.
    pub(crate) fn prover(&self) -> Option<Arc<CertificateKey>> {
        self.snapshot.mutual.as_ref().map(|mutual| Arc::clone(&mutual.prover))
    }

    /// The peer's certificate and those between it and its authority, as checked.
    pub(crate) fn peer_chain(&self) -> &[CertificateDer<'static>] {
        &self.peer
    }

    fn explain(&self, error: io::Error) -> io::Error {
        TlsError::from_io(&error, self.snapshot.own()).map_or(error, io::Error::from)
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, out).map_err(|error| self.explain(error))
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes).map_err(|error| self.explain(error))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices).map_err(|error| self.explain(error))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx).map_err(|error| self.explain(error))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx).map_err(|error| self.explain(error))
    }
}

impl fmt::Debug for TlsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer_certificate().and_then(CertificateFacts::read);
        f.debug_struct("TlsConnection").field("peer", &peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
