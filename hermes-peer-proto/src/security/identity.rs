//! Who a peer is, once it is proven, and what a certificate says about it.

use std::fmt;

use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::wire::AgentUri;
use crate::wire::InvalidName;
use crate::wire::NodeId;

/// What a URI must start with to be taken for an agent. Deliberately short of the second slash: `agent:/x` is a mistake
/// to report, not a foreign URI to pass over.
const AGENT_SCHEME: &str = "agent:";
/// How many of a certificate's URIs an error lists: enough to see the mistake, whatever a stranger puts in.
const LISTED_URIS: usize = 4;

/// A peer whose agent and node were proven by a handshake, or this process itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    agent: AgentUri,
    node: NodeId,
}

impl Identity {
    /// This process, which need not prove to itself who it is. Identities of peers come out of handshakes.
    pub fn of_this_node(agent: AgentUri, node: NodeId) -> Self {
        Self { agent, node }
    }

    pub(crate) fn proven(agent: AgentUri, node: NodeId) -> Self {
        Self { agent, node }
    }

    /// The logical identity.
    pub fn agent(&self) -> &AgentUri {
        &self.agent
    }

    /// The process.
    pub fn node(&self) -> &NodeId {
        &self.node
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.node, self.agent)
    }
}

/// A certificate that names no agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// It is no X.509 certificate of version 3.
    #[error("the certificate cannot be read")]
    Unreadable(#[source] webpki::Error),
    /// No URI among its subject alternative names is an agent.
    #[error(
        "the certificate has no agent:// URI among its subject alternative names (URIs there: {})",
        listed(found)
    )]
    NoAgent {
        /// URIs of other schemes, the first few.
        found: Vec<String>,
    },
    /// More than one is: which is meant would be a guess.
    #[error("the certificate names more than one agent: {}", listed(found))]
    SeveralAgents {
        /// The agents named, the first few.
        found: Vec<String>,
    },
    /// The URI is none that Hermes would write.
    #[error("the certificate's agent is misspelt")]
    BadAgent(#[source] InvalidName),
}

fn listed(uris: &[String]) -> String {
    if uris.is_empty() {
        "none".to_owned()
    } else {
        uris.join(", ")
    }
}

/// The agent that a certificate was issued to: the one `agent://` URI among its subject alternative names. The common name
/// is never looked at, and neither is the certificate's validity: TLS has checked that.
///
/// # Errors
/// [`IdentityError`] if there is not exactly one such URI or it is not spelt as agents are.
pub fn agent_of_certificate(certificate: &CertificateDer<'_>) -> Result<AgentUri, IdentityError> {
    let parsed = EndEntityCert::try_from(certificate).map_err(IdentityError::Unreadable)?;
    let mut agents = parsed.valid_uri_names().filter(|uri| is_agent(uri));
    let Some(agent) = agents.next() else {
        return Err(IdentityError::NoAgent {
            found: first_few(parsed.valid_uri_names()),
        });
    };
    if agents.next().is_some() {
        return Err(IdentityError::SeveralAgents {
            found: first_few(parsed.valid_uri_names().filter(|uri| is_agent(uri))),
        });
    }
    agent.parse().map_err(IdentityError::BadAgent)
}

/// Schemes are compared as RFC 3986 compares them, so that `AGENT://` is reported as misspelt and not passed over.
fn is_agent(uri: &str) -> bool {
    uri.get(..AGENT_SCHEME.len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(AGENT_SCHEME))
}

fn first_few<'a>(uris: impl Iterator<Item = &'a str>) -> Vec<String> {
    let shown = |uri: &str| uri.chars().take(120).flat_map(char::escape_debug).collect();
    uris.take(LISTED_URIS).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::CertificateParams;
    use rcgen::DnType;
    use rcgen::KeyPair;
    use rcgen::SanType;

    use super::*;

    fn certificate(uris: &[&str]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "agent://default/support/from-the-cn");
        params.subject_alt_names = uris
            .iter()
            .map(|uri| SanType::URI((*uri).try_into().unwrap()))
            .collect();
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .der()
            .clone()
    }

    #[test]
    fn the_agent_is_the_one_agent_uri_and_never_the_common_name() {
        // FC-022
        let agent = agent_of_certificate(&certificate(&[
            "https://x.example/",
            "agent://default/support/nlu",
        ]));
        assert_eq!(agent, Ok("agent://default/support/nlu".parse().unwrap()));
        assert_eq!(
            agent_of_certificate(&certificate(&[])),
            Err(IdentityError::NoAgent { found: vec![] })
        );
        assert!(matches!(
            agent_of_certificate(&certificate(&["agent://a/b/c", "agent://a/b/d"])),
            Err(IdentityError::SeveralAgents { found }) if found == ["agent://a/b/c", "agent://a/b/d"]
        ));
        assert!(matches!(
            agent_of_certificate(&CertificateDer::from(vec![0x30, 0])),
            Err(IdentityError::Unreadable(_))
        ));
    }

    #[test]
    fn an_agent_that_is_almost_right_is_refused() {
        // FC-022
        for uri in [
            "agent://default/support/nlu/",
            "agent://default/support/%6elu",
            "agent://default/support/NLU",
            "AGENT://default/support/nlu",
            "agent:/default/support/nlu",
        ] {
            assert!(
                matches!(
                    agent_of_certificate(&certificate(&[uri])),
                    Err(IdentityError::BadAgent(_))
                ),
                "{uri}"
            );
        }
    }
}
