//! Pipes inside one process: nodes that share it talk without sockets, and a whole mesh runs under a clock of its own.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::io::DuplexStream;
use tokio::io::ReadHalf;
use tokio::io::WriteHalf;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::transport::ByteStream;

/// Bytes that a pipe holds in each direction before its writer waits: about what a socket holds.
const PIPE: usize = 64 * 1024;
/// Bytes under way on a delayed path before its sender waits: a full pipe on a slow path must not take all memory.
const UNDER_WAY: usize = 256 * 1024;
/// Connections that wait to be accepted, as for a socket.
const BACKLOG: usize = 64;

/// A connection that somebody dialled, and their name.
type Dialled = (Box<dyn ByteStream>, String);

/// Two ends of a pipe.
#[cfg(test)]
pub(crate) fn pair() -> (Box<dyn ByteStream>, Box<dyn ByteStream>) {
    let (one, other) = tokio::io::duplex(PIPE);
    (Box::new(one), Box::new(other))
}

/// A network inside one process: nodes listen and dial by name, and the paths between two names can be cut, stalled and
/// delayed. The same seed gives the same delays. Clones share it.
#[derive(Clone)]
pub struct MemoryNetwork {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    random: u64,
    listeners: HashMap<String, mpsc::Sender<Dialled>>,
    paths: HashMap<(String, String), watch::Sender<Path>>,
}

/// How things stand between two names, for both directions.
#[derive(Clone, Copy, Default)]
struct Path {
    is_cut: bool,
    is_stalled: bool,
    delay: Duration,
    jitter: Duration,
}

/// Connections that others dialled, each with the name of who did.
#[derive(Debug)]
pub(crate) struct MemoryListener {
    incoming: mpsc::Receiver<Dialled>,
}

impl MemoryListener {
    /// The next connection; none when the network is gone.
    pub(crate) async fn accept(&mut self) -> Option<Dialled> {
        self.incoming.recv().await
    }
}

impl MemoryNetwork {
    /// A network without nodes.
    pub fn new(seed: u64) -> Self {
        let shared = Shared { random: seed, listeners: HashMap::new(), paths: HashMap::new() };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Ends all connections between the two and lets nobody dial, until [`Self::heal`].
    pub fn cut(&self, one: &str, other: &str) {
        self.change(one, other, |path| path.is_cut = true);
    }

    /// Lets nothing through between the two, without a word to either, until [`Self::heal`].
    pub fn stall(&self, one: &str, other: &str) {
        self.change(one, other, |path| path.is_stalled = true);
    }

    /// Delays every byte between the two by `delay` and up to `jitter` more, in order.
    pub fn delay(&self, one: &str, other: &str, delay: Duration, jitter: Duration) {
        self.change(one, other, |path| (path.delay, path.jitter) = (delay, jitter));
    }

    /// Lets everything through again, at once.
    pub fn heal(&self, one: &str, other: &str) {
        self.change(one, other, |path| *path = Path::default());
    }

    /// Takes the name, until the listener is dropped.
    ///
    /// # Errors
    ///
    /// `AddrInUse`, if somebody has it.
    pub(crate) fn listen(&self, name: &str) -> io::Result<MemoryListener> {
        let mut shared = self.shared.lock();
        if shared.listeners.get(name).is_some_and(|listener| !listener.is_closed()) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, format!("`{name}` is taken")));
        }
        let (sender, incoming) = mpsc::channel(BACKLOG);
        shared.listeners.insert(name.to_owned(), sender);
        Ok(MemoryListener { incoming })
    }

    /// Connects `from` to the one who listens as `to`. While their path is stalled, it waits.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, if nobody listens or the path is cut.
    pub(crate) async fn dial(&self, from: &str, to: &str) -> io::Result<Box<dyn ByteStream>> {
        let refused = |why: String| io::Error::new(io::ErrorKind::ConnectionRefused, why);
        let mut path = self.path(from, to);
        let gone = |_| refused("the network is gone".to_owned());
        let state = *path.wait_for(|path| path.is_cut || !path.is_stalled).await.map_err(gone)?;
        if state.is_cut {
            return Err(refused(format!("the path from `{from}` to `{to}` is cut")));
        }
        let listener = self.shared.lock().listeners.get(to).cloned();
        let listener = listener.ok_or_else(|| refused(format!("nobody listens as `{to}`")))?;
        let (near, near_inside) = tokio::io::duplex(PIPE);
        let (far, far_inside) = tokio::io::duplex(PIPE);
        let arrived = listener.send((Box::new(far), from.to_owned())).await;
        arrived.map_err(|_| refused(format!("nobody listens as `{to}`")))?;
        let (near_reads, near_writes) = tokio::io::split(near_inside);
        let (far_reads, far_writes) = tokio::io::split(far_inside);
        tokio::spawn(Carrier::new(near_reads, far_writes, path.clone(), self.draw()).run());
        tokio::spawn(Carrier::new(far_reads, near_writes, path, self.draw()).run());
        Ok(Box::new(near))
    }

    fn draw(&self) -> u64 {
        draw(&mut self.shared.lock().random)
    }

    fn path(&self, one: &str, other: &str) -> watch::Receiver<Path> {
        self.shared.lock().path(one, other).subscribe()
    }

    fn change(&self, one: &str, other: &str, change: impl FnOnce(&mut Path)) {
        self.shared.lock().path(one, other).send_modify(change);
    }
}

impl Shared {
    fn path(&mut self, one: &str, other: &str) -> &watch::Sender<Path> {
        let (low, high) = if one <= other { (one, other) } else { (other, one) };
        self.paths
            .entry((low.to_owned(), high.to_owned()))
            .or_insert_with(|| watch::Sender::new(Path::default()))
    }
}

/// One step of SplitMix64: small, good enough for delays, and the same everywhere.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Carries bytes in one direction of one connection.
struct Carrier {
    from: ReadHalf<DuplexStream>,
    to: WriteHalf<DuplexStream>,
    path: watch::Receiver<Path>,
    random: u64,
    under_way: VecDeque<(Instant, Bytes)>,
    is_over: bool,
}

impl Carrier {
    fn new(
        from: ReadHalf<DuplexStream>,
        to: WriteHalf<DuplexStream>,
        path: watch::Receiver<Path>,
        random: u64,
    ) -> Self {
        Self { from, to, path, random, under_way: VecDeque::new(), is_over: false }
    }

    async fn run(mut self) {
        let mut chunk = BytesMut::new();
        loop {
            let state = *self.path.borrow_and_update();
            if state.is_cut {
                return;
            }
            if self.is_over && self.under_way.is_empty() {
                // The receiver may be gone already, and then needs no end.
                let _gone = self.to.shutdown().await;
                return;
            }
            let waiting: usize = self.under_way.iter().map(|(_, bytes)| bytes.len()).sum();
            let takes = !self.is_over && waiting < UNDER_WAY;
            tokio::select! {
                changed = self.path.changed() => if changed.is_err() { return },
                read = self.from.read_buf(&mut chunk), if takes && !state.is_stalled => match read {
                    Ok(1..) => {
                        let due = self.due(state);
                        self.under_way.push_back((due, chunk.split().freeze()));
                    }
                    Ok(0) | Err(_) => self.is_over = true,
                },
                written = deliver(&mut self.to, self.under_way.front_mut()), if !state.is_stalled => {
                    if written.is_err() {
                        return;
                    }
                    self.under_way.pop_front_if(|(_, bytes)| bytes.is_empty());
                }
            }
        }
    }

    fn due(&mut self, path: Path) -> Instant {
        let share = (draw(&mut self.random) >> 40) as f64 / f64::from(1 << 24);
        let due = Instant::now() + path.delay + path.jitter.mul_f64(share);
        self.under_way.back().map_or(due, |(before, _)| due.max(*before))
    }
}

async fn deliver(
    to: &mut WriteHalf<DuplexStream>,
    first: Option<&mut (Instant, Bytes)>,
) -> io::Result<usize> {
    match first {
        Some((due, bytes)) => {
            tokio::time::sleep_until(*due).await;
            to.write_buf(bytes).await
        }
        None => std::future::pending().await,
    }
}

impl fmt::Debug for MemoryNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.shared.lock();
        f.debug_struct("MemoryNetwork").field("listeners", &shared.listeners.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
