//! The command's own node: a peer like every other, that asks.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hermes_peer::Auth;
use hermes_peer::CallError;
use hermes_peer::Node;
use hermes_peer::NodeId;
use hermes_peer::ReplyPart;
use hermes_peer::StartError;
use hermes_peer::config::Config;
use hermes_peer_proto::wire::Target;

use crate::exit::Failure;
use crate::identity::Proof;
use crate::identity::command_identity;

use super::Surroundings;

/// How long peers are waited for that answer neither yes nor no: a machine that is off takes all of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// How long a call waits for peers of the file that may be coming up. A person waits too: not as long as an agent does,
/// and long enough for the second dial at a node that is started at the same moment.
pub(super) const PROVIDER_WAIT: Duration = Duration::from_secs(2);
/// What work in hand of the command's own node has when it ends: others may be reading from it.
const DRAIN: Duration = Duration::from_secs(1);

/// How the node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Dials whom it needs, when it needs them.
    Asks,
    /// Stays linked with everybody.
    Watches,
    /// And is found on this machine by others, which are not found themselves: `pub` next to `sub`.
    Listens,
}

/// Starts the command's node.
pub(super) async fn start(manner: Manner, around: &Surroundings) -> Result<Node, Failure> {
    let default = Config::default();
    let given = around.file.as_ref().map_or(&default, |file| &file.config);
    let identity = command_identity(given)?;
    let mut config = given.clone();
    config.node_id = Some(identity.node);
    config.agent = Some(identity.agent);
    // It offers nothing and has its own proof. Rules of the file are about the file's node.
    config.programs.clear();
    config.capabilities.clear();
    config.advertise.clear();
    config.auth = None;
    config.policy = None;
    let mut builder = Node::from_config(&config).map_err(refused)?.drain_timeout(DRAIN);
    builder = match manner {
        Manner::Asks => builder.without_listening().lazy(),
        Manner::Watches => builder.without_listening(),
        Manner::Listens => builder.listen("127.0.0.1:0"),
    };
    builder = match identity.proof {
        Proof::Issued { folder } => builder.development_ca(folder),
        Proof::Files(files) => builder.auth(Auth::Mtls(files)),
        Proof::Tokens(tokens) => builder.auth(Auth::Token(tokens)),
        Proof::Development => builder,
    };
    if let (Some(node), Some(endpoint)) = (&given.node_id, own_endpoint(given)) {
        builder = builder.peer(node.as_str(), &endpoint);
    }
    builder.start().await.map_err(refused)
}

/// What a start that is refused says.
pub(super) fn refused(error: StartError) -> Failure {
    Failure::usage(error.to_string())
}

/// Where the file's own node is dialled; `None` where it takes a free port, and only the machine's folder knows which.
fn own_endpoint(config: &Config) -> Option<String> {
    if let Some(advertised) = config.advertise.first() {
        return Some(advertised.clone());
    }
    let ip = match config.listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    (config.listen.port() != 0).then(|| SocketAddr::new(ip, config.listen.port()).to_string())
}

/// Asks a built-in capability: who answered, and what.
pub(super) async fn ask(
    node: &Node,
    capability: &str,
    input: String,
    to: Option<&Target>,
) -> Result<(Option<NodeId>, Bytes), CallError> {
    let mut call = node.call_json::<()>(capability, input).wait_for_provider(PROVIDER_WAIT);
    if let Some(target) = to {
        call = call.to(name(target));
    }
    let mut parts = call.parts().await?;
    let by = parts.node().cloned();
    match parts.next().await.transpose()? {
        Some(ReplyPart::End(Some(body))) => Ok((by, body.bytes)),
        _ => Ok((by, Bytes::from_static(b"null"))),
    }
}

/// A target as it is typed.
pub(super) fn name(target: &Target) -> &str {
    match target {
        Target::Agent(agent) => agent.as_str(),
        Target::Node(node) => node.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_files_own_node_is_dialled_where_it_can_be_reached() {
        let at = |text: &str| {
            let text =
                format!("node_id: n-01\nauth: {{ mode: token, token: abcdefgh12345678abcdefgh }}\n{text}");
            own_endpoint(&Config::parse(&text, "peers.yaml", Path::new("."), &|_| None).unwrap())
        };
        assert_eq!(at("listen: 0.0.0.0:7501").as_deref(), Some("127.0.0.1:7501"));
        assert_eq!(at("listen: \"[::]:7501\"").as_deref(), Some("[::1]:7501"));
        assert_eq!(at("listen: 192.0.2.1:7501").as_deref(), Some("192.0.2.1:7501"));
        assert_eq!(
            at("listen: 0.0.0.0:7501\nadvertise: \"nat.example:99\"").as_deref(),
            Some("nat.example:99")
        );
        assert_eq!(at("listen: 127.0.0.1:0"), None);
    }
}
