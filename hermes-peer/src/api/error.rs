//! Errors as users meet them.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::InvalidName;
use hermes_peer_proto::wire::NodeId;

use crate::config::ConfigError;
use crate::discovery::local::LocalError;
use crate::mesh::providers::RegisterError;
use crate::transport::authority::error::AuthorityError;
use crate::transport::endpoint::InvalidEndpoint;
use crate::transport::reload::LoadError;
use crate::transport::tcp::ListenError;
use crate::transport::tls::error::TlsError;

/// How a call, a publication or a subscription failed.
///
/// [`code`](Self::code) says what kind of failure it was, the text says what failed, where, whose fault it was and what
/// to do, and [`details`](Self::details) says it for programs.
#[derive(Clone)]
pub struct CallError {
    fault: Box<Fault>,
    details: Option<Value>,
    is_remote: bool,
}

impl CallError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Fault::new(code, message).into()
    }

    /// What kind of failure.
    pub fn code(&self) -> ErrorCode {
        self.fault.code
    }

    /// What failed, where, whose fault, what to do.
    pub fn message(&self) -> &str {
        &self.fault.message
    }

    /// For programs; of `INVALID_INPUT` the list of [`Violation`](crate::Violation)s.
    pub fn details(&self) -> Option<&Value> {
        self.details.as_ref()
    }

    /// Whether the same call may end otherwise when it is made again later.
    pub fn is_retryable(&self) -> bool {
        self.fault.code.is_retryable()
    }

    /// When to try again, where the provider said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.fault.retry_after()
    }

    /// Whether the handler may have run. If not, repeating the call is safe.
    pub fn may_have_run(&self) -> bool {
        self.fault.may_have_run || self.is_remote
    }

    /// The node where it happened; `None` if it was this one.
    pub fn node(&self) -> Option<&NodeId> {
        self.fault.node.as_ref()
    }

    /// The error as a handler passes it on to its own caller: the same code and words.
    pub fn into_failure(self) -> Failure {
        Failure { fault: self.fault }
    }
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        let details = serde_json::from_str(&fault.details).ok();
        let never_ran = matches!(
            fault.code,
            ErrorCode::InvalidInput
                | ErrorCode::PermissionDenied
                | ErrorCode::NotFound
                | ErrorCode::LoopDetected
                | ErrorCode::Overloaded
                | ErrorCode::Unavailable
        );
        let is_remote = fault.node.is_some() && !never_ran;
        Self { fault: Box::new(fault), details, is_remote }
    }
}

impl From<InvalidName> for CallError {
    fn from(error: InvalidName) -> Self {
        Self::new(ErrorCode::InvalidInput, error.to_string())
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.fault.code, self.fault.message)?;
        match &self.fault.node {
            Some(node) if !self.fault.message.contains(node.as_str()) => write!(f, " (at {node})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError")
            .field("code", &self.fault.code)
            .field("message", &self.fault.message)
            .field("node", &self.fault.node)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for CallError {}

/// How a handler says that it failed.
///
/// What a handler says itself with [`Failure::new`] is for the caller to read. Any other error turned into a `Failure` by
/// `?` is not: its text goes to this node's log under an incident number, and the caller gets the number.
pub struct Failure {
    fault: Box<Fault>,
}

impl Failure {
    /// `HANDLER_FAILED` with a sentence for the caller.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_code(ErrorCode::HandlerFailed, message)
    }

    /// Another code, where one fits better: `INVALID_INPUT`, `NOT_FOUND`, `RATE_LIMITED`, …
    pub fn with_code(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { fault: Box::new(Fault::new(code, message)) }
    }

    /// Adds details for programs. What is no JSON (a map with keys that are no strings) is left out.
    #[must_use]
    pub fn details(mut self, details: &impl Serialize) -> Self {
        self.fault.details = serde_json::to_string(details).unwrap_or_default();
        self
    }

    /// Says when the call is worth repeating.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.fault.retry_after_ms = u64::try_from(delay.as_millis()).ok();
        self
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.fault.code
    }

    /// The sentence that the caller reads.
    pub fn message(&self) -> &str {
        &self.fault.message
    }

    pub(crate) fn of_fault(fault: Fault) -> Self {
        Self { fault: Box::new(fault) }
    }

    pub(crate) fn into_fault(self) -> Fault {
        *self.fault
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        // An error of a call made by the handler is meant for callers already, and keeps its code.
        let error: Box<dyn std::error::Error> = Box::new(error);
        let error = match error.downcast::<CallError>() {
            Ok(call) => return call.into_failure(),
            Err(error) => error,
        };
        let incident = uuid::Uuid::now_v7().simple();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        tracing::error!(%incident, error = text, "a handler failed");
        Self::new(format!("the handler failed; its node's log says why under incident {incident}"))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("code", &self.fault.code)
            .field("message", &self.fault.message)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.fault.code, self.fault.message)
    }
}

/// Why a node does not start. Nothing was left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A name is not what it should be.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An endpoint is not what it should be.
    #[error(transparent)]
    Endpoint(#[from] InvalidEndpoint),
    /// A setting is not what it should be.
    #[error("`{name}`: {reason}")]
    Setting {
        /// Which setting.
        name: &'static str,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// The configuration file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A capability cannot be provided.
    #[error(transparent)]
    Capability(#[from] RegisterError),
    /// The file says that a capability is provided here, and nothing provides it.
    #[error(
        "`capabilities` lists `{name}`, and this node has neither a handler nor a program for it: register one, or take \
         it off the list"
    )]
    Missing {
        /// The capability.
        name: hermes_peer_proto::wire::CapabilityName,
    },
    /// A program that is a capability cannot be run.
    #[error(transparent)]
    Program(#[from] crate::mesh::program::ProgramError),
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Beyond loopback `auth` is required.
    #[error(
        "a node that listens on {address} is reachable from other machines and needs `auth`: give it certificates \
         (`hermes-peer certs init`, mode mtls) or a shared token (mode token), or let it listen on 127.0.0.1"
    )]
    AuthRequired {
        /// Where it would listen.
        address: std::net::SocketAddr,
    },
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Certificates(#[from] LoadError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The certificate is for another agent.
    #[error(
        "the certificate is for {found}, the node is to be {expected}: issue one for {expected}, or change `agent`"
    )]
    OtherAgent {
        /// The node's agent.
        expected: hermes_peer_proto::wire::AgentUri,
        /// The certificate's.
        found: hermes_peer_proto::wire::AgentUri,
    },
    /// The user's own development CA cannot be used.
    #[error(
        "without `auth` a node takes a certificate from your own development CA, which cannot be used: {0}"
    )]
    DevelopmentCa(#[from] AuthorityError),
    /// The folder in which nodes on this machine find each other.
    #[error(transparent)]
    Local(#[from] LocalError),
}
