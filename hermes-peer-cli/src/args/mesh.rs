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
    ///
    /// The result is written as the provider sent it, to the byte; on a terminal, JSON is laid out. The items of a stream
    /// are printed one per line, as they come.
    ///
    /// Ends with 3 if nobody could be reached (peers of the configuration that do not answer are waited for, 2s at most) or
    /// the provider was lost on the way, with 4 if the answer was an error or nobody provides this, with 5 at the deadline.
    #[command(after_help = with_codes(CALL_EXAMPLES))]
    Call(Call),
    /// Makes a program a capability, and serves it until it is interrupted.
    ///
    /// The program is started for each call. It gets the input as JSON on stdin and answers with JSON on stdout; what it
    /// writes to stderr goes to the log. Ending with another code than 0 is an error that the caller sees.
    ///
    /// SIGINT and SIGTERM let running calls end (30s at most) and end with 0, or with 1 if some had to be cut; a second one
    /// stops at once, with 130.
    #[command(after_help = with_codes(SERVE_EXAMPLES))]
    Serve(Serve),
    /// Runs a node from its configuration file until it is interrupted.
    ///
    /// SIGHUP reads the file again: its peers and its policy are taken over, what needs a restart is named, and a file that
    /// is wrong changes nothing. SIGINT and SIGTERM let running calls end (30s at most) and end with 0, or with 1 if some
    /// had to be cut; a second one stops at once, with 130.
    #[command(after_help = with_codes("Example:\n  hermes-peer up -c peers.yaml"))]
    Up,
    /// Shows the nodes of the mesh: who they are, where, since when, how far away.
    #[command(after_help = Exit::help())]
    Peers {
        /// As this node sees them, instead of the command itself: an agent or a node.
        #[arg(long, value_name = "AGENT|NODE", value_parser = target)]
        to: Option<Target>,
        #[command(flatten)]
        watch: Watch,
    },
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
    ///
    /// Each is one line of JSON: `topic`, `value`, `key`, `hops`. Where some were lost, a line says how many: `lagged`.
    #[command(after_help = with_codes("Example:\n  hermes-peer sub 'ticket.**'"))]
    Sub {
        /// Which topics: `*` is one word, `**` at the end any rest.
        pattern: TopicPattern,
        /// Shares the subscription: each event goes to one of the group's members.
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
        /// Ends after this many events.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
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
    /// Prints one line per item, as they come, and the result of a capability that does not stream on one line too.
    /// With --json, one object per item, and one for the end.
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
    /// Share of the connection, from 0 to 7: 7 goes first. Default: 3.
    #[arg(long, value_name = "0-7", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) priority: Option<u8>,
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
