//! What tests of whole nodes share.

use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use hermes_peer::Node;
use hermes_peer::NodeBuilder;

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

/// How long something that has to happen may take: far longer than it does, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until something holds that no event tells of.
///
/// # Panics
/// If it does not come to hold.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "does not come about: {what}");
        tokio::time::sleep(LOOK).await;
    }
}
