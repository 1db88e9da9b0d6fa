//! What ends a handshake or a link, by whose fault, and under which code.

use super::misbehaviour::PeerMisbehaved;
use super::version::VersionRange;
use crate::security::IdentityError;
use crate::wire::AgentUri;
use crate::wire::AuthKind;
use crate::wire::ErrorCode;
use crate::wire::Fault;
use crate::wire::Frame;
use crate::wire::MessageType;
use crate::wire::NodeId;
use crate::wire::Payload;
use crate::wire::StreamId;
use crate::wire::TokenId;
use crate::wire::WireError;

/// Longest piece of a peer's message that a text of ours repeats, in characters: a line of a log.
const REPEATED: usize = 200;

/// Both sides keep to the protocol, and yet cannot speak with each other as they are set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Incompatible {
    /// No version in common.
    #[error("this side speaks protocol versions {ours}, the peer {theirs}: update the older one")]
    Versions {
        /// What this side speaks.
        ours: VersionRange,
        /// What the peer speaks.
        theirs: VersionRange,
    },
    /// The peer insists on something that this side does not know.
    #[error("the peer's {message} has mandatory field {tag}, which is unknown here: update this side")]
    MandatoryField {
        /// The message that carries it.
        message: &'static str,
        /// The field's tag.
        tag: u16,
    },
    /// The sides are set up to prove themselves differently.
    #[error("this side is set up for auth mode {}, the peer for {}: set both to the same", ours.name(), theirs.name())]
    AuthKind {
        /// What this side is set up for.
        ours: AuthKind,
        /// What the peer is set up for.
        theirs: AuthKind,
    },
}

impl Incompatible {
    /// The code that the peer is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Versions { .. } | Self::MandatoryField { .. } => ErrorCode::VersionUnsupported,
            Self::AuthKind { .. } => ErrorCode::Unauthenticated,
        }
    }
}

/// The peer is not, or has not shown to be, who it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The proof does not hold: another key or token, a changed message, or somebody in between.
    #[error("the peer's proof ({}) does not hold: wrong key, changed messages or somebody in between", kind.name())]
    Proof {
        /// What it was to be made with.
        kind: AuthKind,
    },
    /// None of the peer's tokens is known here.
    #[error("none of the peer's tokens is known here, it tried {}", ids(tried))]
    UnknownTokens {
        /// Their ids.
        tried: Vec<TokenId>,
    },
    /// TLS brought no certificate of the peer.
    #[error("the peer presented no certificate")]
    NoCertificate,
    /// The certificate names no agent.
    #[error("the peer's certificate is refused")]
    Certificate(#[source] IdentityError),
    /// The peer claims to be another agent than its certificate says.
    #[error("the peer says that it is {found}, its certificate is for {expected}")]
    AgentMismatch {
        /// The certificate's agent.
        expected: AgentUri,
        /// The agent in its SYN or SYN_ACK.
        found: AgentUri,
    },
    /// Another agent answers than was dialled.
    #[error("{expected} was dialled, {found} answered")]
    WrongAgent {
        /// Who was dialled.
        expected: AgentUri,
        /// Who answered.
        found: AgentUri,
    },
    /// Another node answers than was dialled.
    #[error("node {expected} was dialled, {found} answered")]
    WrongNode {
        /// Who was dialled.
        expected: NodeId,
        /// Who answered.
        found: NodeId,
    },
    /// The connection leads back to this process.
    #[error("the connection leads back to this node, {node}")]
    SelfConnection {
        /// This node.
        node: NodeId,
    },
    /// Another process uses this node's id.
    #[error("another process uses the node id {node} of this one: give each its own")]
    TwinNode {
        /// The id of both.
        node: NodeId,
    },
}

impl Refused {
    /// The code that the peer is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::SelfConnection { .. } => ErrorCode::LoopDetected,
            _ => ErrorCode::Unauthenticated,
        }
    }
}

/// Why a handshake came to no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer broke the protocol.
    #[error(transparent)]
    Misbehaved(#[from] PeerMisbehaved),
    /// Nobody's fault but the set-up's.
    #[error(transparent)]
    Incompatible(#[from] Incompatible),
    /// The peer is not who it must be.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The peer refuses this side.
    #[error("the peer refused: {} ({})", .0.code, repeated(&.0.message))]
    RefusedByPeer(Fault),
}

impl From<WireError> for HandshakeError {
    fn from(error: WireError) -> Self {
        Self::Misbehaved(error.into())
    }
}

impl HandshakeError {
    /// The outcome's code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Misbehaved(cause) => cause.code(),
            Self::Incompatible(cause) => cause.code(),
            Self::Refused(cause) => cause.code(),
            Self::RefusedByPeer(fault) => fault.code,
        }
    }

    /// Whether the usual back-off is right. Otherwise nothing changes until somebody changes the set-up of either side:
    /// report it, and look again only now and then.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            Self::RefusedByPeer(fault) => fault.code.is_retryable(),
            Self::Misbehaved(_) | Self::Incompatible(_) | Self::Refused(_) => false,
        }
    }

    /// The frame that tells the peer, to be sent before the connection is closed; none if it was the peer who refused. It
    /// says to a stranger what it may know: the code's sentence and, where the peer needs them to mend its set-up, both
    /// version ranges, the unknown field or the ids of its own tokens.
    pub fn refusal(&self) -> Option<Frame> {
        let text = match self {
            Self::RefusedByPeer(_) => return None,
            Self::Incompatible(Incompatible::Versions { ours, theirs }) => {
                format!("versions {ours} are spoken here, {theirs} were offered")
            }
            Self::Incompatible(Incompatible::MandatoryField { message, tag }) => {
                format!("mandatory field {tag} of {message} is unknown here")
            }
            Self::Incompatible(Incompatible::AuthKind { ours, theirs }) => {
                format!("auth mode {} is used here, {} was offered", ours.name(), theirs.name())
            }
            Self::Refused(Refused::UnknownTokens { tried }) => {
                format!("none of the tokens offered is known here: {}", ids(tried))
            }
            _ => self.code().sentence().to_owned(),
        };
        let fault = Fault::new(self.code(), text);
        Some(Frame::control(MessageType::Error, StreamId::LINK, fault.encode()))
    }
}

fn ids(tokens: &[TokenId]) -> String {
    if tokens.is_empty() {
        return "no token".to_owned();
    }
    tokens.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A stranger's text, on one line.
fn repeated(message: &str) -> String {
    message.chars().take(REPEATED).flat_map(char::escape_debug).collect()
}
