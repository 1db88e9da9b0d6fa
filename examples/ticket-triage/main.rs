//! Three agents triage support tickets: each is a process, and they call each other directly, over mutual TLS.
//!
//! ```text
//! cargo run --example ticket-triage                      three tickets, with all that happens
//! cargo run --example ticket-triage -- --tickets 10      more of them, or a file of your own
//! cargo run --example ticket-triage -- --json            for programs
//! cargo run --example ticket-triage -- --serve           POST /tickets
//! cargo run --example ticket-triage -- --score           how good it is, and how that was measured
//! ```
//!
//! You should see four processes start, the coordinator first. Then, for each ticket: what the customer wants, as the language
//! agent understood it; the passages of the knowledge base as they come in; the suggestion word by word; and every message of
//! the session with its time and the slots that travelled with it.
//!
//! Read on in `agents.rs` (what the agents can do) and `coordinator.rs` (who calls whom); `processes.rs` has the rest that a
//! mesh of processes needs: certificates and a `peers.yaml` for each.

mod agents;
mod args;
mod completion;
mod coordinator;
mod data;
mod entities;
mod generator;
mod http;
mod markdown;
mod model;
mod nlu;
mod output;
mod processes;
mod remote_model;
mod retrieval;
mod score;
mod text;
mod timeline;

use std::fmt::Display;
use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::config::Config;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

use crate::agents::Writer;
use crate::args::Args;
use crate::args::Role;
use crate::coordinator::BEHIND;
use crate::coordinator::Coordinator;
use crate::coordinator::Report;
use crate::data::Data;
use crate::model::Ticket;
use crate::nlu::Nlu;
use crate::output::Screen;
use crate::processes::Fleet;
use crate::remote_model::RemoteModel;
use crate::retrieval::Index;

/// A ticket failed.
const FAILED: u8 = 1;
/// What shells expect of a program that was interrupted.
const INTERRUPTED: u8 = 130;

/// Why the program ends before its work is done.
#[derive(Debug, thiserror::Error)]
enum Stop {
    /// What was asked for cannot be done.
    #[error("{0}")]
    Usage(String),
    /// An agent is not there.
    #[error("{0}")]
    Unreachable(String),
    /// Something is wrong on this machine.
    #[error("{0}")]
    Failed(String),
    /// Nothing can be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Stop {
    fn usage(error: impl Display) -> Self {
        Self::Usage(error.to_string())
    }

    fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }

    fn exit_code(&self) -> u8 {
        match self {
            // Whoever reads has had enough, as `head` has after ten lines.
            Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Failed(_) | Self::Io(_) => FAILED,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = EnvFilter::from_default_env();
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    }
    match run(&args).await {
        Ok(code) => ExitCode::from(code),
        Err(stop) => {
            let code = stop.exit_code();
            if code != 0 {
                eprintln!("error: {stop}");
            }
            ExitCode::from(code)
        }
    }
}

async fn run(args: &Args) -> Result<u8, Stop> {
    if let (Some(role), Some(config)) = (args.role, &args.config) {
        processes::end_with_parent();
        return serve_role(role, config, args).await;
    }
    if args.score {
        return measure(args);
    }
    // What is wrong with the tickets or the endpoint is said before anything is started.
    args.data().tickets(&args.tickets()).map_err(Stop::usage)?;
    writer(args)?;
    let mut fleet = Fleet::start()?;
    tokio::select! {
        biased;
        () = interrupted() => Ok(if args.serve.is_some() { 0 } else { INTERRUPTED }),
        ended = fleet.run() => {
            // Without a code it was killed, most often by the Ctrl-C that is about to reach this process as well.
            Ok(ended?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(INTERRUPTED))
        }
    }
}

/// Ready when somebody wants the program to end.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::SignalKind;
        use tokio::signal::unix::signal;

        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    let _either_way = tokio::signal::ctrl_c().await;
}

fn measure(args: &Args) -> Result<u8, Stop> {
    let score = score::score(&args.data()).map_err(Stop::usage)?;
    if args.json {
        writeln!(io::stdout(), "{}", serde_json::to_string(&score).map_err(Stop::failed)?)?;
    } else {
        Screen::new(anstream::stdout(), args.full).score(&score)?;
    }
    Ok(0)
}

/// What a process that the example has started does.
async fn serve_role(role: Role, config: &Path, args: &Args) -> Result<u8, Stop> {
    let config = Config::load(config).map_err(Stop::usage)?;
    let builder = Node::from_config(&config).map_err(Stop::usage)?;
    let data = args.data();
    // An agent joins the mesh when it is able to work: until then callers wait for it.
    let builder = match role {
        Role::Coordinator => return coordinate(builder, &data, args).await,
        Role::Nlu => {
            builder.state(Nlu::train(&data.training().map_err(Stop::usage)?)).capability(agents::detect)
        }
        Role::Retrieval => {
            builder.state(Index::build(data.documents().map_err(Stop::usage)?)).capability(agents::retrieve)
        }
        Role::Generator => builder.state(writer(args)?).capability(agents::generate),
    };
    let _node = builder.start().await.map_err(Stop::failed)?;
    std::future::pending().await
}

fn writer(args: &Args) -> Result<Writer, Stop> {
    let Some(url) = args.model.clone() else { return Ok(Writer::Extracts) };
    let key = std::env::var("OPENAI_API_KEY").ok();
    RemoteModel::new(url, args.model_name.clone(), key)
        .map(|model| Writer::Model(Box::new(model)))
        .map_err(Stop::usage)
}

async fn coordinate(builder: NodeBuilder, data: &Data, args: &Args) -> Result<u8, Stop> {
    let tickets = data.tickets(&args.tickets()).map_err(Stop::usage)?;
    let coordinator = Coordinator::new(builder.start().await.map_err(Stop::failed)?);
    let listener = match args.serve {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    coordinator.wait_for_agents().await.map_err(|error| Stop::Unreachable(error.to_string()))?;
    let mut failures = 0;
    for ticket in tickets {
        let report = if args.json {
            in_json(&coordinator, ticket).await?
        } else {
            shown(&coordinator, ticket, args).await?
        };
        failures += usize::from(report.error.is_some());
    }
    if let Some(listener) = listener {
        let address = listener.local_addr()?;
        eprintln!("serving http://{address}/tickets until Ctrl-C; try\n  {}", curl(address));
        http::serve(listener, coordinator).await?;
    } else {
        coordinator.leave().await;
    }
    Ok(if failures > 0 { FAILED } else { 0 })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Stop> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| {
        Stop::Usage(format!("--serve {address}: {error}; another port, or 0 for a free one, may do"))
    })
}

fn curl(address: SocketAddr) -> String {
    format!("curl -N -H 'Accept: text/event-stream' -d 'My card was stolen' http://{address}/tickets")
}

async fn in_json(coordinator: &Coordinator, ticket: Ticket) -> Result<Report, Stop> {
    // Nobody watches: the receiver is dropped here.
    let (watcher, _) = mpsc::channel(1);
    let report = coordinator.triage(ticket, watcher).await;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&report).map_err(Stop::failed)?)?;
    out.flush()?;
    Ok(report)
}

async fn shown(coordinator: &Coordinator, ticket: Ticket, args: &Args) -> Result<Report, Stop> {
    let mut screen = Screen::new(anstream::stdout(), args.full);
    screen.ticket(&ticket)?;
    let (watcher, mut steps) = mpsc::channel(BEHIND);
    let showing = async {
        while let Some(step) = steps.recv().await {
            screen.progress(&step)?;
        }
        io::Result::Ok(())
    };
    // What cannot be shown is not worked on any further.
    let triage = async { Ok(coordinator.triage(ticket, watcher).await) };
    let (report, ()) = tokio::try_join!(triage, showing)?;
    screen.report(&report)?;
    Ok(report)
}
