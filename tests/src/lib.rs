//! What tests of whole nodes share.

pub mod proxy;
pub mod raw;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_peer::Call;
use hermes_peer::CallError;
use hermes_peer::Capability;
use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::certificates::Authority;
use hermes_peer::certificates::DEFAULT_VALIDITY;
use hermes_peer::handler;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::raw::RawIdentity;

/// A folder with a development CA of its own: nodes that are built with it trust each other and nobody else, and are not
/// seen by whatever else runs on the machine.
#[derive(Debug)]
pub struct Lab {
    folder: tempfile::TempDir,
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Lab {
    /// # Panics
    /// If there is no place for temporary files.
    pub fn new() -> Self {
        // Seen with `RUST_LOG`; a second lab in the same process finds it set.
        let _set = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        Self { folder: tempfile::tempdir().expect("there is a place for temporary files") }
    }

    /// The lab's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A node of this lab, of agent `agent://default/lab/NAME`.
    pub fn builder(&self, name: &str) -> NodeBuilder {
        Node::builder(&format!("agent://default/lab/{name}"))
            .node_id(name)
            .development_ca(self.folder.path().join("ca"))
            .without_local_discovery()
    }

    /// The lab's authority.
    ///
    /// # Panics
    /// If it can be neither opened nor made.
    pub fn authority(&self) -> Authority {
        let folder = self.folder.path().join("ca");
        if folder.join("ca.pem").exists() {
            return Authority::open(&folder).expect("the lab's authority is whole");
        }
        Authority::create(&folder).expect("an authority can be made")
    }

    /// A raw peer of agent `agent://default/lab/NAME` with a certificate of the lab's authority.
    ///
    /// # Panics
    /// If the name is none.
    pub fn raw(&self, name: &str) -> RawIdentity {
        let agent = format!("agent://default/lab/{name}");
        let node = name.parse().expect("the test names a node");
        let parsed = agent.parse().expect("the test names an agent");
        let issued = self.authority().issue(&parsed, &node, DEFAULT_VALIDITY).expect("the authority issues");
        RawIdentity::mtls(&agent, name, &issued.cert, &issued.key)
    }

    /// A node that listens on a free port.
    pub fn provider(&self, name: &str) -> NodeBuilder {
        self.builder(name).listen("127.0.0.1:0")
    }

    /// A node that is linked to this provider, or will be.
    pub fn caller_of(&self, name: &str, provider: &Node) -> NodeBuilder {
        self.builder(name).peer(provider.id().as_str(), &endpoint(provider))
    }
}

/// Where a node listens.
///
/// # Panics
/// If it does not listen.
pub fn endpoint(node: &Node) -> String {
    node.address().expect("the node listens").to_string()
}

/// An address where nobody listens now. Its port is none of those that the system gives out by itself, so that nobody
/// comes upon it by chance before it is used.
///
/// # Panics
/// If there is no such port.
pub fn free_address() -> String {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    const PORTS: std::ops::Range<usize> = 10_000..32_000;
    // Other processes of the same test run begin somewhere else.
    let begin = usize::try_from(std::process::id()).unwrap_or_default() * 97;
    for _ in PORTS {
        let step = TAKEN.fetch_add(1, Ordering::Relaxed);
        let address = format!("127.0.0.1:{}", PORTS.start + (begin + step) % PORTS.len());
        if std::net::TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
    panic!("every port is taken")
}

/// How long something that has to happen may take: far longer than it does, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until something holds that no event tells of.
///
/// # Panics
/// If it does not come to hold.
pub async fn eventually(what: &str, holds: impl FnMut() -> bool) {
    until(what, PATIENCE, holds).await;
}

/// Waits until something holds that has a time to do so.
///
/// # Panics
/// If it does not within `patience`.
pub async fn until(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Memory of this process that is in use, in bytes; `None` where the system does not say.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Counts handlers: how many have begun, how many are at work. Cheap to clone; all clones are one gauge.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
}

/// A handler at work: held by it, dropped with it.
#[derive(Debug)]
pub struct AtWork(Gauge);

impl Gauge {
    /// A handler begins.
    pub fn begin(&self) -> AtWork {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(running, Ordering::SeqCst);
        AtWork(self.clone())
    }

    /// How many have begun.
    pub fn begun(&self) -> usize {
        self.0.begun.load(Ordering::SeqCst)
    }

    /// How many are at work.
    pub fn running(&self) -> usize {
        self.0.running.load(Ordering::SeqCst)
    }

    /// The most that were at work at once.
    pub fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A node that can be killed: it runs in a runtime of its own, which ends without a word to anybody.
#[derive(Debug)]
pub struct Victim {
    runtime: Option<tokio::runtime::Runtime>,
    node: Option<Node>,
}

impl Victim {
    /// Starts the node.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(builder: NodeBuilder) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let node =
            runtime.spawn(builder.start()).await.expect("starting does not panic").expect("the node starts");
        Self { runtime: Some(runtime), node: Some(node) }
    }

    /// The node.
    ///
    /// # Panics
    /// Never: it lives until [`kill`](Self::kill).
    pub fn node(&self) -> &Node {
        self.node.as_ref().expect("a victim lives until it is killed")
    }

    /// As `kill -9`: its sockets close, and it says nothing.
    pub fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        drop(self.node.take());
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A capability `demo.sleep` that never ends; the gauge sees it come and go.
///
/// # Panics
/// Never: the name is one.
pub fn sleeper(gauge: &Gauge) -> impl Capability + use<> {
    let gauge = gauge.clone();
    handler("demo.sleep", move |(): (), _context: Context| {
        let at_work = gauge.begin();
        async move {
            let _at_work = at_work;
            std::future::pending::<Result<(), Failure>>().await
        }
    })
    .expect("the name is one")
}

/// What has not ended by then hangs.
const NEVER: Duration = Duration::from_secs(25);

/// The one ending of a call.
///
/// # Errors
/// The call's own.
///
/// # Panics
/// If it hangs.
pub async fn ending(call: Call<Value>) -> Result<Value, CallError> {
    tokio::time::timeout(NEVER, call.into_future()).await.expect("a call ends")
}

/// Two doors: one that a handler opens when it is at work, one that it waits before.
#[derive(Debug)]
pub struct Gate {
    entered: Semaphore,
    leave: Semaphore,
}

impl Gate {
    /// Both doors closed.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { entered: Semaphore::new(0), leave: Semaphore::new(0) })
    }

    /// A handler is at work, and waits until it may go on.
    ///
    /// # Panics
    /// Never: no door is ever locked.
    pub async fn pass(&self) {
        self.entered.add_permits(1);
        self.leave.acquire().await.expect("the gate stays").forget();
    }

    /// Waits until a handler is at work.
    ///
    /// # Panics
    /// Never: no door is ever locked.
    pub async fn someone_entered(&self) {
        self.entered.acquire().await.expect("the gate stays").forget();
    }

    /// Lets this many handlers go on.
    pub fn let_go(&self, count: usize) {
        self.leave.add_permits(count);
    }
}

/// The Rust files below a folder, in order.
///
/// # Panics
/// If it cannot be read.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in folder.read_dir().into_iter().flatten() {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
