//! What can be typed. The doc comments are the help.

mod mesh;
mod value;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use clap::Args as Group;
use clap::Parser;
use clap::Subcommand;
use clap_complete::Shell;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::NodeId;

use crate::exit::Exit;

use value::validity;

pub(crate) use mesh::Call;
pub(crate) use mesh::MeshCommand;
pub(crate) use mesh::Serve;

/// The command's name, wherever its file lies and whatever it is called there.
pub(crate) const COMMAND: &str = "hermes-peer";

/// Runs, calls and looks at agent processes in a Hermes mesh.
///
/// A folder to begin with: `hermes-peer init demo`.
#[derive(Debug, Parser)]
#[command(name = COMMAND, version, max_term_width = 100, after_help = Exit::help())]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every verb takes.
#[derive(Clone, Debug, Default, Group)]
#[command(next_help_heading = "Options of every verb")]
pub(crate) struct Global {
    /// The configuration file. Without this it is ./peers.yaml, where there is one.
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Prints the result as JSON, for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Logs more to stderr: once, twice, three times. HERMES_LOG and RUST_LOG take filters such as `hermes_peer=trace`.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Makes a folder that works: configuration, certificates, a first agent.
    ///
    /// The folder gets peers.yaml, a development authority with a certificate in certs/, and echo.sh, the capability
    /// `demo.echo`. What is there already is never overwritten.
    #[command(after_help = Exit::help())]
    Init {
        /// The folder; it is made if it is not there.
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    #[command(flatten)]
    Mesh(MeshCommand),
    /// Says what a start with a configuration file would refuse, and where, and what helps.
    ///
    /// Looks at the file, and at what it names: certificates, tokens, programs, schemas, the address to listen on. Ends
    /// with 0 if a start would go ahead, also where there are warnings, else with 2.
    #[command(after_help = Exit::help())]
    Check {
        /// The file, as with --config.
        file: Option<PathBuf>,
    },
    /// Makes, renews, revokes and shows certificates.
    #[command(after_help = with_codes(CERTS_EXAMPLES))]
    Certs {
        #[command(subcommand)]
        verb: CertsVerb,
    },
    /// Looks into frames of the wire protocol.
    #[command(after_help = Exit::help())]
    Frame(Frame),
    /// Prints completions for a shell.
    ///
    /// For bash, for example: `source <(hermes-peer completions bash)`.
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// Prints the man page, or writes one page per verb.
    #[command(hide = true)]
    Man {
        /// Folder that gets one page per verb.
        dir: Option<PathBuf>,
    },
}

const CERTS_EXAMPLES: &str = "\
Examples:
  hermes-peer certs init
  hermes-peer certs issue --agent agent://default/support/nlu --node nlu-agent-01
  hermes-peer certs show
  hermes-peer certs renew certs/nlu-agent-01.pem
  hermes-peer certs revoke certs/nlu-agent-01.pem";

/// Examples and exit codes, for the end of a verb's help.
fn with_codes(examples: &str) -> String {
    format!("{examples}\n\n{}", Exit::help())
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertsVerb {
    /// Makes an authority: its certificate, its key, an empty revocation list.
    ///
    /// Its key signs every certificate of the mesh. Keep it on one machine; nodes need the certificate and the list only.
    Init {
        /// The folder; it is made if it is not there.
        #[arg(default_value = DEFAULT_FOLDER)]
        dir: PathBuf,
    },
    /// Issues a certificate for a node, and its key, as NODE.pem and NODE.key.
    ///
    /// Valid from 5 minutes ago, so that a machine whose clock is a little behind takes it at once.
    Issue(Issue),
    /// Replaces a certificate and its key by new ones for the same agent and node.
    ///
    /// A node that runs takes them up by itself. The old certificate stays valid until it expires or is revoked.
    Renew(Renew),
    /// Revokes a certificate: nodes that have the list close its links within a minute.
    Revoke(Revoke),
    /// Shows certificates: whose, their serial numbers, how long they are valid, whether they are revoked.
    Show {
        /// Certificate files. Without any, all of the authority's folder.
        files: Vec<PathBuf>,
        #[command(flatten)]
        authority: AuthorityFolder,
    },
}

/// Where certificates are kept unless something else is said: what `init` makes and configurations name.
const DEFAULT_FOLDER: &str = "certs";

#[derive(Debug, Group)]
pub(crate) struct AuthorityFolder {
    /// Folder of the authority, as `certs init` made it.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_FOLDER)]
    pub(crate) ca: PathBuf,
}

#[derive(Debug, Group)]
pub(crate) struct Issue {
    /// The agent that the node serves: agent://TENANT/SPACE/NAME.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: AgentUri,
    /// The node's name, unique in the mesh, such as nlu-agent-01.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: NodeId,
    #[command(flatten)]
    pub(crate) authority: AuthorityFolder,
    /// Folder for the files. Without this, the authority's.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) validity: Validity,
}

#[derive(Debug, Group)]
pub(crate) struct Validity {
    /// How long it is valid, such as 12h or 90d; at most 825d, and never longer than the authority.
    #[arg(long = "valid", value_name = "DURATION", default_value = "90d", value_parser = validity)]
    pub(crate) duration: Duration,
}

#[derive(Debug, Group)]
pub(crate) struct Renew {
    /// The certificate's file.
    pub(crate) file: PathBuf,
    /// The file of its key. Without this, the certificate's with `.key` at its end.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) authority: AuthorityFolder,
    #[command(flatten)]
    pub(crate) validity: Validity,
}

#[derive(Debug, Group)]
pub(crate) struct Revoke {
    /// The certificate's file, or its serial number as `certs show` prints it.
    #[arg(value_name = "FILE|SERIAL")]
    pub(crate) certificate: String,
    #[command(flatten)]
    pub(crate) authority: AuthorityFolder,
}

#[derive(Debug, Group)]
pub(crate) struct Frame {
    #[command(subcommand)]
    pub(crate) verb: FrameVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FrameVerb {
    /// Shows every field of frames: offset, bytes, value, meaning.
    ///
    /// Takes frames of one direction, in the order in which they were sent, so that messages in several frames are
    /// recognised. At the first byte that is wrong it says where and what was expected there, and ends with code 2. With
    /// --json, one object per frame and line.
    Decode(Decode),
}

#[derive(Debug, Group)]
pub(crate) struct Decode {
    /// Where the frames are; `-` is stdin.
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Takes the input as hex: digits in pairs, also with `0x`, spaces, commas and colons between them; what follows `#`
    /// on a line is a comment. Without this and --binary, the input's own bytes decide.
    #[arg(long, conflicts_with = "binary")]
    pub(crate) hex: bool,
    /// Takes the input as the bytes themselves.
    #[arg(long)]
    pub(crate) binary: bool,
}
