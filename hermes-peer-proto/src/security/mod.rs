//! Floor 1: who is who, what proves it, and who may do what. No I/O, no clock.
//!
//! ```text
//!  certificate ─┐
//!  token ───────┼─> proof over the transcript ─> Identity ─> Policy::decide ─> Decision
//!  TLS exporter ┘
//! ```
//!
//! An [`Identity`] of a peer comes out of a completed handshake and from nowhere else, so nothing that holds one asks again
//! whether it is true. Nothing here prints a secret, whichever way it is formatted.

mod identity;
mod pattern;
mod policy;
mod proof;
mod secret;
mod token;
mod transcript;

pub use identity::{Identity, IdentityError, agent_of_certificate};
pub use pattern::{AgentPattern, InvalidPattern, Pattern};
pub use policy::{Action, Caller, DecidedBy, Decision, Effect, Policy, Rule, Verb};
pub(crate) use proof::Prover;
pub use proof::{CertificateKey, Credentials, KeyError};
pub use secret::{LinkSecret, Secret};
pub use token::{MAX_TOKEN_LEN, MAX_TOKENS, MIN_TOKEN_LEN, Token, TokenError, TokenSet};
pub use transcript::{ChannelBinding, EXPORTER_LABEL};
pub(crate) use transcript::{Label, Transcript, derive_link_secret, is_resume_proof, resume_proof};
