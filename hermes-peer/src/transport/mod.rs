//! Byte streams to other nodes: TCP under TLS 1.3, and pipes inside one process.
//!
//! ```text
//!   Endpoint ──dial──▶ TcpStream ─┐                        ┌─▶ TlsConnection (bytes, exporter, the peer's certificate)
//!   Listener ─accept─▶ TcpStream ─┼─▶ Box<dyn ByteStream> ─┤
//!   MemoryNetwork ───▶ a pipe ────┘        TlsContext ─────┘
//! ```
//!
//! TLS runs over any [`ByteStream`], so that what is proven over a pipe holds over a socket. Nothing here knows frames:
//! a stream is handed on only after TLS is up, and who the peer may be is decided above.

pub(crate) mod authority;
pub(crate) mod endpoint;
pub(crate) mod facts;
pub(crate) mod home;
pub(crate) mod memory;
pub(crate) mod pem;
pub(crate) mod private;
pub(crate) mod reload;
pub(crate) mod tcp;
pub(crate) mod tls;

use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;

/// Bytes in order, both ways: what TLS runs over, and what TLS gives.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}
