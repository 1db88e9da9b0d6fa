//! What every node provides by itself, under policy like everything else. The command shows what these say.

use std::sync::Arc;
use std::sync::Weak;

use serde::Deserialize;
use serde::Serialize;
use tokio::time::Instant;

use hermes_peer_proto::wire::Access;
use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::SessionId;

use crate::mesh::Mesh;
use crate::mesh::admission::HandlerLimits;
use crate::mesh::dispatch::Registered;
use crate::mesh::handler::Answer;
use crate::mesh::handler::AnswerFuture;
use crate::mesh::handler::Body;
use crate::mesh::handler::Handler;
use crate::mesh::handler::Incoming;
use crate::mesh::metrics::Metrics;

/// One built-in capability.
struct BuiltIn {
    mesh: Weak<Mesh>,
    info: CapabilityInfo,
    answer: fn(&Mesh, &Body) -> Result<Body, Fault>,
}

impl Handler for BuiltIn {
    fn info(&self) -> CapabilityInfo {
        self.info.clone()
    }

    fn limits(&self) -> HandlerLimits {
        HandlerLimits::default()
    }

    fn call(&self, incoming: Incoming) -> AnswerFuture {
        let (mesh, answer) = (self.mesh.clone(), self.answer);
        Box::pin(async move {
            let mesh =
                mesh.upgrade().ok_or_else(|| Fault::new(ErrorCode::Unavailable, "the node is gone"))?;
            answer(&mesh, &incoming.body).map(Answer::Value)
        })
    }
}

/// Input of `hermes.journal`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalQuery {
    #[serde(default)]
    session: Option<SessionId>,
}

impl Mesh {
    /// Provides what every node does.
    pub(crate) fn insert_built_ins(self: &Arc<Self>) {
        let anything = r#"{"type":["object","null"]}"#;
        let journal = r#"{"type":["object","null"],"properties":{"session":{"type":["string","null"]}},"additionalProperties":false}"#;
        self.insert_built_in(
            "hermes.node",
            Access::Public,
            anything,
            "This node: who it is and since when.",
            |mesh, _| {
                #[derive(Serialize)]
                struct NodeFacts<'a> {
                    node_id: &'a str,
                    agent: &'a str,
                    epoch: u64,
                    version: &'static str,
                    load: u8,
                    metrics: Metrics,
                }
                json(&NodeFacts {
                    node_id: mesh.node.as_str(),
                    agent: mesh.agent.as_str(),
                    epoch: mesh.epoch.0,
                    version: env!("CARGO_PKG_VERSION"),
                    load: mesh.load(),
                    metrics: mesh.metrics(),
                })
            },
        );
        self.insert_built_in(
            "hermes.peers",
            Access::Public,
            anything,
            "The peers that this node knows, and how it knows them.",
            |mesh, _| {
                let now = Instant::now();
                json(&mesh.peers.all().iter().map(|peer| peer.view(now)).collect::<Vec<_>>())
            },
        );
        self.insert_built_in(
            "hermes.journal",
            Access::Restricted,
            journal,
            "What happened on this node, of one session or all that is kept.",
            |mesh, body| {
                let query = if body.bytes.as_ref() == b"null" {
                    JournalQuery { session: None }
                } else {
                    serde_json::from_slice(&body.bytes)
                        .map_err(|error| Fault::new(ErrorCode::InvalidInput, error.to_string()))?
                };
                match query.session {
                    Some(session) => json(&mesh.observer.of_session(session)),
                    None => json(&mesh.observer.all()),
                }
            },
        );
    }

    fn insert_built_in(
        self: &Arc<Self>,
        name: &str,
        access: Access,
        input: &str,
        description: &str,
        answer: fn(&Self, &Body) -> Result<Body, Fault>,
    ) {
        let mut info = CapabilityInfo::new(name.parse().expect("the built-in names are good"));
        info.description = description.to_owned();
        info.input_schema = input.to_owned();
        info.facts.read_only = true;
        info.facts.idempotent = true;
        info.access = access;
        let handler = BuiltIn { mesh: Arc::downgrade(self), info, answer };
        let registered = Registered::new(Arc::new(handler), HandlerLimits::default())
            .expect("the built-in schemas are good");
        self.insert_handler(Arc::new(registered)).expect("built-ins come first, each once");
    }
}

fn json(value: &impl Serialize) -> Result<Body, Fault> {
    serde_json::to_vec(value)
        .map(Body::json)
        .map_err(|error| Fault::new(ErrorCode::Internal, format!("the answer is no JSON: {error}")))
}
