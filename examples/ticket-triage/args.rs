//! What can be said on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use clap::ValueEnum;

use crate::data::Data;
use crate::data::Tickets;
use crate::remote_model::ModelUrl;

/// Tickets shown when none are asked for: enough to see that they differ.
const DEFAULT_TICKETS: usize = 3;

/// Three agents triage support tickets, each in a process of its own, over mutual TLS.
#[derive(Debug, Parser)]
#[command(name = "ticket-triage", after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// So many tickets of the test half, or all of a file: one on each line, plain or JSON with `text` and perhaps `id`
    #[arg(long, value_name = "N|FILE")]
    tickets: Option<Tickets>,

    /// Print one JSON object for each ticket and nothing else on stdout
    #[arg(long)]
    pub(crate) json: bool,

    /// Show every line of the timeline; long streams are shortened otherwise
    #[arg(long)]
    pub(crate) full: bool,

    /// Measure intent accuracy and recall at 5, say how, and end
    #[arg(long, conflicts_with_all = ["tickets", "serve"])]
    pub(crate) score: bool,

    /// Have the suggestions written by a model behind an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1
    #[arg(long, value_name = "URL")]
    pub(crate) model: Option<ModelUrl>,

    /// Which model the endpoint is asked for
    #[arg(long, value_name = "NAME", env = "OPENAI_MODEL", default_value = "gpt-4o-mini")]
    pub(crate) model_name: String,

    /// Serve tickets over HTTP until Ctrl-C; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8090")]
    pub(crate) serve: Option<SocketAddr>,

    /// Take the repository's own small set of tickets and articles, whatever else is there
    #[arg(long)]
    small: bool,

    /// What this process is, when the example has started itself
    #[arg(long, hide = true, requires = "config")]
    pub(crate) role: Option<Role>,

    /// Its configuration
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Exit codes: 0 all tickets done, 1 a ticket failed, 2 usage or data, 3 an agent does not stay up, 130 interrupted.
Environment: OPENAI_API_KEY for --model, RUST_LOG for the logs of all processes on stderr, NO_COLOR.";

/// What a process of the example does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Takes tickets and asks the others.
    Coordinator,
    /// Detects intents and entities.
    Nlu,
    /// Finds passages.
    Retrieval,
    /// Writes suggestions.
    Generator,
}

impl Args {
    /// The data that all processes work on.
    pub(crate) fn data(&self) -> Data {
        if self.small { Data::Own } else { Data::locate() }
    }

    /// The tickets to work on before anything else; a server has none by default.
    pub(crate) fn tickets(&self) -> Tickets {
        let default = if self.serve.is_some() { 0 } else { DEFAULT_TICKETS };
        self.tickets.clone().unwrap_or(Tickets::First(default))
    }
}
