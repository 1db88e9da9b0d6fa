//! Who the command is when it takes part in the mesh.
//!
//! The command is a node of its own, also where it stands in the folder of another: it takes neither that node's name
//! nor, where it can help it, its certificate. What it is follows from the configuration:
//!
//! | `auth` | agent | proves it by |
//! | --- | --- | --- |
//! | `mtls`, and the authority's key `ca.key` lies readable beside `ca` (a development folder) | `cli` in the tenant and space of the file's agent | a certificate that the authority issues to this process; its key is in no file |
//! | `mtls` otherwise | the one of the file's certificate | the file's certificate and key |
//! | `token` | `cli` in the tenant and space of the file's agent | the tokens |
//! | none | the same | the user's own development authority |
//!
//! The node's name is made up anew for each run, so that any number of commands run at once.

use std::fmt;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::path::Path;
use std::path::PathBuf;

use hermes_peer::certificates::Authority;
use hermes_peer::certificates::CertificateFacts;
use hermes_peer::certificates::TlsFiles;
use hermes_peer::config::AuthConfig;
use hermes_peer::config::Config;
use hermes_peer_proto::security::TokenSet;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::NodeId;

use crate::exit::Failure;

/// Tenant and space where no file gives an agent.
const DEFAULT_PLACE: (&str, &str) = ("default", "local");
/// Longest part of another node's name within a name made up, so that the whole stays under the 63 bytes of one.
const MAX_BORROWED: usize = 48;

/// Who the command is.
#[derive(Debug)]
pub(crate) struct CommandIdentity {
    /// Whom it acts for.
    pub(crate) agent: AgentUri,
    /// Its own name, made up.
    pub(crate) node: NodeId,
    /// How it proves that.
    pub(crate) proof: Proof,
}

/// How the command proves who it is.
pub(crate) enum Proof {
    /// A certificate that the authority in this folder issues to this process; also the user's own authority is such a
    /// one.
    Issued {
        /// The authority's folder.
        folder: PathBuf,
    },
    /// The certificate that the configuration names.
    Files(TlsFiles),
    /// The tokens that the configuration has.
    Tokens(TokenSet),
    /// A certificate of the user's own development authority.
    Development,
}

/// Decides who the command is; see the module.
///
/// # Errors
///
/// If the configuration's own certificate has to be used and cannot be read.
pub(crate) fn command_identity(config: &Config) -> Result<CommandIdentity, Failure> {
    match &config.auth {
        Some(AuthConfig::Mtls { ca, cert, key, crl, .. }) => {
            let files = TlsFiles::new(ca.clone(), cert.clone(), key.clone(), crl.clone());
            match beside(ca) {
                Some(folder) => issued(folder, config, &files),
                None => own(config, files),
            }
        }
        Some(AuthConfig::Token { tokens, .. }) => Ok(CommandIdentity {
            agent: command_agent(config.agent.as_ref())?,
            node: made_up("cli")?,
            proof: Proof::Tokens(tokens.clone()),
        }),
        _ => Ok(CommandIdentity {
            agent: command_agent(config.agent.as_ref())?,
            node: made_up("cli")?,
            proof: Proof::Development,
        }),
    }
}

/// The folder of this authority, where its key is at hand: one that Hermes made, which nobody else can enter.
fn beside(ca: &Path) -> Option<PathBuf> {
    let authority = Authority::open(ca.parent()?).ok()?;
    (authority.ca_path() == *ca && is_private(ca.parent()?)).then(|| authority.folder().to_owned())
}

#[cfg(unix)]
fn is_private(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    folder.metadata().is_ok_and(|facts| facts.permissions().mode() & 0o077 == 0)
}

/// Access lists of other systems are not read.
#[cfg(not(unix))]
fn is_private(_: &Path) -> bool {
    true
}

fn issued(folder: PathBuf, config: &Config, files: &TlsFiles) -> Result<CommandIdentity, Failure> {
    let of_file = || CertificateFacts::load(&files.cert).ok().and_then(|facts| facts.agent);
    let agent = command_agent(config.agent.clone().or_else(of_file).as_ref())?;
    Ok(CommandIdentity { agent, node: made_up("cli")?, proof: Proof::Issued { folder } })
}

fn own(config: &Config, files: TlsFiles) -> Result<CommandIdentity, Failure> {
    let facts = CertificateFacts::load(&files.cert).map_err(|error| Failure::usage(error.to_string()))?;
    let agent = facts.agent.ok_or_else(|| {
        Failure::usage(format!(
            "{} names no agent; issue one with `hermes-peer certs issue`",
            files.cert.display()
        ))
    })?;
    let borrowed: String =
        config.node_id.as_ref().map_or("node", |node| node.as_str()).chars().take(MAX_BORROWED).collect();
    Ok(CommandIdentity { agent, node: made_up(&format!("{borrowed}-cli"))?, proof: Proof::Files(files) })
}

/// The agent `cli` next to the file's.
fn command_agent(beside: Option<&AgentUri>) -> Result<AgentUri, Failure> {
    let (tenant, space) = beside.map_or(DEFAULT_PLACE, |agent| (agent.tenant(), agent.space()));
    format!("agent://{tenant}/{space}/cli")
        .parse()
        .map_err(|error| Failure::usage(format!("the command cannot name itself: {error}")))
}

/// A name that no other run has.
fn made_up(stem: &str) -> Result<NodeId, Failure> {
    let random = RandomState::new().hash_one(std::process::id()) as u32;
    format!("{stem}-{random:08x}")
        .parse()
        .map_err(|error| Failure::usage(format!("the command cannot name itself: {error}")))
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Issued { .. } => "Issued",
            Self::Files(_) => "Files",
            Self::Tokens(_) => "Tokens",
            Self::Development => "Development",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        /// An authority, and a node's certificate beside it.
        fn new() -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            folder.open_to(0o700);
            let agent = "agent://acme/support/nlu".parse().unwrap();
            let node = "nlu-01".parse().unwrap();
            let pem = Authority::create(folder.0.path()).unwrap().issue(
                &agent,
                &node,
                hermes_peer::certificates::DEFAULT_VALIDITY,
            );
            let at = |name| folder.0.path().join(name);
            pem.unwrap().save(&at("nlu-01.pem"), &at("nlu-01.key")).unwrap();
            folder
        }

        #[cfg(unix)]
        fn open_to(&self, mode: u32) {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(self.0.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        }

        #[cfg(not(unix))]
        fn open_to(&self, _: u32) {}

        fn identity(&self, more: &str) -> CommandIdentity {
            let text = format!("node_id: nlu-01\n{more}");
            let config = Config::parse(&text, "peers.yaml", self.0.path(), &|_| None).unwrap();
            command_identity(&config).unwrap()
        }
    }

    const MTLS: &str = "auth: { mode: mtls, ca: ca.pem, crl: ca.crl.pem, cert: nlu-01.pem, key: nlu-01.key }";

    #[test]
    fn with_the_authority_at_hand_the_command_is_an_agent_of_its_own() {
        let folder = Folder::new();
        for more in [MTLS.to_owned(), format!("agent: agent://acme/support/nlu\n{MTLS}")] {
            let identity = folder.identity(&more);
            assert_eq!(identity.agent.as_str(), "agent://acme/support/cli");
            assert!(identity.node.as_str().starts_with("cli-"), "{}", identity.node);
            let Proof::Issued { folder: issuing } = &identity.proof else {
                panic!("{identity:?}");
            };
            assert_eq!(issuing, folder.0.path());
        }
    }

    #[cfg(unix)]
    #[test]
    fn an_authority_that_others_can_read_vouches_for_nobody() {
        let folder = Folder::new();
        folder.open_to(0o755);
        let identity = folder.identity(MTLS);
        assert!(matches!(identity.proof, Proof::Files(_)), "{identity:?}");
    }

    #[test]
    fn without_the_authoritys_key_the_command_borrows_the_certificate_and_never_the_name() {
        let folder = Folder::new();
        std::fs::remove_file(folder.0.path().join("ca.key")).unwrap();
        let identity = folder.identity(MTLS);
        assert_eq!(identity.agent.as_str(), "agent://acme/support/nlu");
        assert!(identity.node.as_str().starts_with("nlu-01-cli-"), "{}", identity.node);
        let Proof::Files(files) = &identity.proof else {
            panic!("{identity:?}");
        };
        assert_eq!(files.cert, folder.0.path().join("nlu-01.pem"));
    }

    #[test]
    fn an_authority_of_another_file_is_not_used() {
        let folder = Folder::new();
        let path = |name: &str| folder.0.path().join(name);
        std::fs::copy(path("ca.pem"), path("bundle.pem")).unwrap();
        let identity = folder.identity(&MTLS.replace("ca: ca.pem", "ca: bundle.pem"));
        assert!(matches!(identity.proof, Proof::Files(_)), "{identity:?}");
    }

    #[test]
    fn tokens_and_the_users_own_authority_give_the_same_agent() {
        let folder = Folder::new();
        let token = "auth: { mode: token, token: abcdefgh12345678abcdefgh }";
        let identity = folder.identity(token);
        assert_eq!(identity.agent.as_str(), "agent://default/local/cli");
        let Proof::Tokens(tokens) = &identity.proof else {
            panic!("{identity:?}");
        };
        assert!(!format!("{tokens:?}").contains("abcdefgh"));
        let identity = folder.identity("agent: agent://acme/support/nlu");
        assert_eq!(identity.agent.as_str(), "agent://acme/support/cli");
        assert!(matches!(identity.proof, Proof::Development), "{identity:?}");
    }

    #[test]
    fn two_runs_have_two_names_and_the_longest_name_still_gives_one() {
        assert_ne!(made_up("cli").unwrap(), made_up("cli").unwrap());
        let folder = Folder::new();
        std::fs::remove_file(folder.0.path().join("ca.key")).unwrap();
        let text = format!("node_id: {}\n{MTLS}", "a".repeat(63));
        let config = Config::parse(&text, "peers.yaml", folder.0.path(), &|_| None).unwrap();
        assert_eq!(command_identity(&config).unwrap().node.as_str().len(), MAX_BORROWED + 13);
    }
}
