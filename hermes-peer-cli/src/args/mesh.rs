//! Verbs that take part in the mesh.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as Group;
use clap::Subcommand;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::CapabilityName;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::Target;
use hermes_peer_proto::wire::Topic;
use hermes_peer_proto::wire::TopicPattern;

use crate::exit::Exit;
use crate::input::Input;

use super::value::key;
use super::value::memory;
use super::value::target;
use super::value::wait;
use super::with_codes;

/// Verbs that take part in the mesh: each runs as a node of its own.
#[derive(Debug, Subcommand)]
pub(crate) enum MeshCommand {
    /// Calls a capability and prints its result.
    #[command(after_help = with_codes(CALL_EXAMPLES))]
    Call(Call),
    /// Makes a program a capability, and serves it until it is interrupted.
    ///
    /// The program is started for each call. It gets the input as JSON on stdin and answers with JSON on stdout; what it
    /// writes to stderr goes to the log. Ending with another code than 0 is an error that the caller sees.
    #[command(after_help = with_codes(SERVE_EXAMPLES))]
    Serve(Serve),
    /// Runs a node from its configuration file until it is interrupted.
    #[command(after_help = with_codes("Example:\n  hermes-peer up -c peers.yaml"))]
    Up,
    /// Shows the nodes of the mesh: who they are, where, since when, how far away.
    #[command(after_help = Exit::help())]
    Peers(Watch),
    /// Shows what can be called: each capability, who provides it, its schemas.
    #[command(after_help = Exit::help())]
    Caps {
        /// One capability, with its whole schema.
        name: Option<CapabilityName>,
        #[command(flatten)]
        watch: Watch,
    },
    /// Publishes an event.
    #[command(after_help = with_codes("Example:\n  hermes-peer pub ticket.opened '{\"ticket\":17}'"))]
    Pub {
        /// The topic, such as ticket.opened.
        topic: Topic,
        #[command(flatten)]
        body: Body,
    },
    /// Prints events as they come, until it is interrupted.
    #[command(after_help = with_codes("Example:\n  hermes-peer sub 'ticket.**' --json"))]
    Sub {
        /// Which topics: `*` is one word, `**` at the end any rest.
        pattern: TopicPattern,
    },
    /// Shows what a node recorded: every message, every change of a connection.
    #[command(after_help = Exit::help())]
    Journal {
        /// Whose journal: an agent's or a node's.
        #[arg(long, value_name = "AGENT|NODE", value_parser = target)]
        to: Option<Target>,
        /// Only what belongs to this session.
        #[arg(long, value_name = "ID")]
        session: Option<SessionId>,
        #[command(flatten)]
        watch: Watch,
    },
}

const CALL_EXAMPLES: &str = "\
Examples:
  hermes-peer call demo.echo '{\"hello\":\"mesh\"}'
  hermes-peer call knowledge.retrieve @question.json --timeout 5s
  hermes-peer call content.generate --stream --json - < request.json";

const SERVE_EXAMPLES: &str = "\
Examples:
  hermes-peer serve --capability demo.echo -- cat
  hermes-peer serve --capability text.words --schema words.json --stream -- ./words.py --fast";

/// What is sent.
#[derive(Debug, Group)]
pub(crate) struct Body {
    /// JSON; or @FILE for the JSON in a file; or - for the JSON on stdin. Up to 64 MiB.
    ///
    /// Without it `{}` is sent, and stdin is not read.
    #[arg(
        value_name = "JSON|@FILE|-",
        default_value = "{}",
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    pub(crate) body: Input,
}

#[derive(Debug, Group)]
pub(crate) struct Watch {
    /// Stays and prints every change, until it is interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Call {
    /// The capability, such as demo.echo.
    pub(crate) capability: CapabilityName,
    #[command(flatten)]
    pub(crate) body: Body,
    /// Whom to call: an agent, or one node. Without this, whoever provides the capability.
    #[arg(long, value_name = "AGENT|NODE", value_parser = target)]
    pub(crate) to: Option<Target>,
    /// Prints the items of a streaming result as they come, one per line.
    #[arg(long)]
    pub(crate) stream: bool,
    /// Calls within a session, whose slots the capability can read.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<SessionId>,
    /// When the call has to be over, such as 500ms or 5s. Default: the configuration's `limits.call_timeout`, 30s.
    #[arg(long, value_name = "DURATION", value_parser = wait)]
    pub(crate) timeout: Option<Duration>,
    /// Idempotency key: another call with the same key gets this one's result instead of running again.
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Group)]
pub(crate) struct Serve {
    /// What callers name, such as demo.echo.
    #[arg(long, value_name = "NAME")]
    pub(crate) capability: CapabilityName,
    /// JSON file with `input`, `output` and `description`. Without this, anything goes in and out.
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// What the capability does, for people and for models that choose tools.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Takes every line that the program writes as an item of a stream.
    #[arg(long)]
    pub(crate) stream: bool,
    /// When a run of the program is killed.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = wait)]
    pub(crate) timeout: Duration,
    /// Most memory of one run, such as 512MiB. Without this, no limit of its own.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(crate) memory: Option<u64>,
    /// How many runs there are at once.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// The agent that is served. Default: the configuration's `agent`.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<AgentUri>,
    /// The node's name. Default: the configuration's `node_id`, or one made up.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<NodeId>,
    /// Where to listen. Default: the configuration's `listen`, or 127.0.0.1 and a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}
