//! A cable between two nodes that a test can cut, pinch and mend.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the cable does.
#[derive(Clone, Copy, Debug)]
struct Condition {
    /// Counts up with each cut: connections from before are closed.
    cuts: u64,
    /// Whether new connections are carried.
    is_open: bool,
    /// Nothing moves, and nobody is told.
    is_stalled: bool,
    /// How long bytes take.
    delay: Duration,
}

/// A TCP proxy to one address.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    condition: Arc<watch::Sender<Condition>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// On a free port, to `target`.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let condition = Condition { cuts: 0, is_open: true, is_stalled: false, delay: Duration::ZERO };
        let condition = Arc::new(watch::Sender::new(condition));
        let (target, watched) = (target.to_owned(), condition.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if watched.borrow().is_open {
                    tokio::spawn(carry(near, target.clone(), watched.clone()));
                }
            }
        });
        Self { address, condition, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Closes what is carried; new connections are carried.
    pub fn cut(&self) {
        self.condition.send_modify(|condition| condition.cuts += 1);
    }

    /// Closes what is carried, and carries nothing new until [`mend`](Self::mend).
    pub fn cut_for_good(&self) {
        self.condition.send_modify(|condition| {
            condition.cuts += 1;
            condition.is_open = false;
        });
    }

    /// Carries again.
    pub fn mend(&self) {
        self.condition.send_modify(|condition| {
            condition.is_open = true;
            condition.is_stalled = false;
        });
    }

    /// Nothing moves any more, and nobody is told.
    pub fn stall(&self) {
        self.condition.send_modify(|condition| condition.is_stalled = true);
    }

    /// Bytes take so long.
    pub fn delay(&self, delay: Duration) {
        self.condition.send_modify(|condition| condition.delay = delay);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn carry(near: TcpStream, target: String, condition: Arc<watch::Sender<Condition>>) {
    let cuts = condition.borrow().cuts;
    let Ok(far) = TcpStream::connect(target).await else { return };
    // A connection that is not as it should be is seen by its ends.
    let _delayed = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let mut watched = condition.subscribe();
    tokio::select! {
        () = async { tokio::join!(
            copy(near_read, far_write, condition.subscribe()),
            copy(far_read, near_write, condition.subscribe()),
        ); } => {}
        _ = watched.wait_for(|now| now.cuts != cuts) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut condition: watch::Receiver<Condition>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if condition.wait_for(|now| !now.is_stalled).await.is_err() {
            return;
        }
        let delay = condition.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    // The other half may go on.
    let _ended = to.shutdown().await;
}
