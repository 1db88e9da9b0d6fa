//! TCP: listening and dialling, with the options that a mesh link needs.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use socket2::SockRef;
use socket2::TcpKeepalive;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::transport::endpoint::Endpoint;

/// How many addresses of one name are tried in a dial: a name with more must not turn one dial into a flood.
const MAX_ADDRESSES: usize = 8;
/// How long to wait when no socket can be accepted: the reason (files, memory) goes away when others close, not sooner.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// At most one line per this time about sockets that cannot be accepted: whoever connects must not fill the log.
const ACCEPT_LOG_EVERY: Duration = Duration::from_secs(5);

/// Options of TCP connections.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub(crate) struct TransportSettings {
    /// Bytes that the kernel keeps unsent, 16 KiB by default: what is there cannot be overtaken by something more
    /// urgent. Linux only.
    pub unsent_low_water: u32,
    /// How long sent bytes may stay unacknowledged before the kernel ends the connection, 20 s by default. Linux only.
    pub user_timeout: Duration,
    /// Silence after which the kernel probes an idle connection, 60 s by default. It keeps routers from forgetting a
    /// connection whose heartbeats are slower.
    pub keepalive: Duration,
    /// How much later than the one before the next address of a name is tried, 250 ms by default.
    pub stagger: Duration,
    /// Connections that the kernel completes ahead of us, 1024 by default: as many as may connect at once after a
    /// restart of the node.
    pub backlog: u32,
}

impl Default for TransportSettings {
    fn default() -> Self {
        Self {
            unsent_low_water: 16 * 1024,
            user_timeout: Duration::from_secs(20),
            keepalive: Duration::from_secs(60),
            stagger: Duration::from_millis(250),
            backlog: 1024,
        }
    }
}

impl TransportSettings {
    /// Sets what can be set: a system that lacks an option still has a working connection.
    fn apply(&self, stream: &TcpStream) {
        let socket = SockRef::from(stream);
        let keepalive = TcpKeepalive::new().with_time(self.keepalive);
        let mut results = vec![socket.set_tcp_nodelay(true), socket.set_tcp_keepalive(&keepalive)];
        #[cfg(target_os = "linux")]
        results.extend([
            socket.set_tcp_notsent_lowat(self.unsent_low_water),
            socket.set_tcp_user_timeout(Some(self.user_timeout)),
        ]);
        for error in results.drain(..).filter_map(Result::err) {
            tracing::debug!(%error, "a socket option cannot be set");
        }
    }
}

/// Why a node cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody listens there already.
    #[error(
        "port {} is taken: another process listens on {address}; stop it (a node of the same file perhaps), or change \
         `listen` (7500 to 7599 by convention)",
        address.port()
    )]
    PortTaken {
        /// Where this node should have listened.
        address: SocketAddr,
    },
    /// The address belongs to no interface of this machine.
    #[error(
        "{} is no address of this machine; `listen` takes one of its own, or `0.0.0.0` or `[::]` for all of them",
        address.ip()
    )]
    NotOurs {
        /// Where this node should have listened.
        address: SocketAddr,
    },
    /// The system does not let this user listen there.
    #[error(
        "this user may not listen on {address}; ports from 1024 on need no privilege, 7500 to 7599 by convention"
    )]
    Denied {
        /// Where this node should have listened.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("cannot listen on {address}")]
    Other {
        /// Where this node should have listened.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl ListenError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::PortTaken { address },
            io::ErrorKind::AddrNotAvailable => Self::NotOurs { address },
            io::ErrorKind::PermissionDenied => Self::Denied { address },
            _ => Self::Other { address, source },
        }
    }
}

/// Accepts connections. It reads nothing from them: whatever a newcomer does or fails to do happens elsewhere.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    settings: TransportSettings,
    logged: Option<Instant>,
}

impl Listener {
    /// Listens on the address; `[::]` takes IPv4 too; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// Where the system refuses, with the remedy.
    pub(crate) fn bind(address: SocketAddr, settings: TransportSettings) -> Result<Self, ListenError> {
        let socket = listen(address, &settings).map_err(|source| ListenError::new(address, source))?;
        Ok(Self { socket, settings, logged: None })
    }

    /// Where it listens, with the port that was taken.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The next connection. Dropping the future loses none.
    pub(crate) async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, from)) => {
                    self.settings.apply(&stream);
                    return (stream, plain(from));
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    self.log(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn log(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.logged.is_none_or(|logged| now.duration_since(logged) >= ACCEPT_LOG_EVERY) {
            self.logged = Some(now);
            tracing::warn!(%error, "no connection can be accepted; with too many open files, raise the limit (ulimit -n)");
        }
    }
}

/// Errors that end a connection which waited to be accepted, and say nothing about the next.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
    )
}

/// An IPv4 address as such, also where a socket for both families accepted it: limits per source count one source once.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn listen(address: SocketAddr, settings: &TransportSettings) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    // On Windows the option would let two processes share the port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(settings.backlog).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}

/// Why nobody was reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DialError {
    /// The host's name has no address.
    #[error("`{}` cannot be resolved: {why}", endpoint.host())]
    Unresolved {
        /// What was dialled.
        endpoint: Endpoint,
        /// What the resolver said.
        why: io::Error,
    },
    /// No address let us in.
    #[error("{endpoint} cannot be reached: {tried}")]
    Unreachable {
        /// What was dialled.
        endpoint: Endpoint,
        /// Every address that was tried, and why it failed.
        tried: Tried,
    },
    /// The time was over before the name was resolved.
    #[error("{endpoint} cannot be reached: its name was not resolved in time")]
    ResolverTimedOut {
        /// What was dialled.
        endpoint: Endpoint,
    },
}

/// The addresses of a dial that failed, each with the reason.
#[derive(Debug, Default)]
pub(crate) struct Tried(Vec<(SocketAddr, io::Error)>);

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("its name has no address");
        }
        for (number, (address, error)) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "; " };
            write!(f, "{comma}{address}: {error}")?;
        }
        Ok(())
    }
}

/// Connects to whichever address of the endpoint answers first. The name is resolved anew at every call.
///
/// # Errors
///
/// When no address answered by the deadline; each is named with the reason.
pub(crate) async fn dial(
    endpoint: &Endpoint,
    settings: &TransportSettings,
    deadline: Instant,
) -> Result<TcpStream, DialError> {
    let resolve = tokio::net::lookup_host((endpoint.host(), endpoint.port()));
    let addresses = match tokio::time::timeout_at(deadline, resolve).await {
        Ok(Ok(addresses)) => alternate(addresses),
        Ok(Err(why)) => {
            return Err(DialError::Unresolved { endpoint: endpoint.clone(), why });
        }
        Err(_) => {
            return Err(DialError::ResolverTimedOut { endpoint: endpoint.clone() });
        }
    };
    match race(addresses, settings.stagger, deadline, connect_once).await {
        Ok(stream) => {
            settings.apply(&stream);
            Ok(stream)
        }
        Err(tried) => Err(DialError::Unreachable { endpoint: endpoint.clone(), tried: Tried(tried) }),
    }
}

/// The two families in turn, beginning with the one that the resolver prefers: a family without a route costs one step.
fn alternate(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    let Some(first) = all.first().copied() else {
        return all;
    };
    let (preferred, other): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| a.is_ipv6() == first.is_ipv6());
    let (mut preferred, mut other) = (preferred.into_iter(), other.into_iter());
    let mut ordered = Vec::new();
    loop {
        let before = ordered.len();
        ordered.extend(preferred.next());
        ordered.extend(other.next());
        if ordered.len() == before || ordered.len() >= MAX_ADDRESSES {
            return ordered;
        }
    }
}

/// Each address a step after the one before, or at once when those before have failed; the first that connects wins.
async fn race<T>(
    addresses: Vec<SocketAddr>,
    stagger: Duration,
    deadline: Instant,
    connect: impl AsyncFn(SocketAddr) -> io::Result<T>,
) -> Result<T, Vec<(SocketAddr, io::Error)>> {
    let mut waiting = addresses.into_iter();
    let mut pending: Vec<SocketAddr> = Vec::new();
    let mut attempts = FuturesUnordered::new();
    let mut failed = Vec::new();
    let connect = &connect;
    loop {
        if let Some(address) = waiting.next() {
            pending.push(address);
            attempts.push(async move { (address, connect(address).await) });
        } else if attempts.is_empty() {
            return Err(failed);
        }
        tokio::select! {
            biased;
            Some((address, result)) = attempts.next() => match result {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    pending.retain(|other| *other != address);
                    failed.push((address, error));
                }
            },
            () = tokio::time::sleep_until(deadline) => {
                let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
                failed.extend(pending.into_iter().map(|address| (address, late())));
                return Err(failed);
            }
            () = tokio::time::sleep(stagger), if waiting.len() > 0 => {}
        }
    }
}

async fn connect_once(address: SocketAddr) -> io::Result<TcpStream> {
    refuse_itself(TcpStream::connect(address).await?)
}

fn refuse_itself(stream: TcpStream) -> io::Result<TcpStream> {
    // Where nobody listens on a port from which the system also takes its own, TCP can connect a socket with itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "nobody listens there (connected with itself)",
        ));
    }
    Ok(stream)
}

#[cfg(test)]
mod tests;
