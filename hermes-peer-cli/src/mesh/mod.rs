//! Verbs that take part in the mesh: each runs as a node of its own.

mod call;
mod caps;
mod events;
mod failed;
mod hosting;
mod journal;
mod node;
mod peers;
mod serve;
mod signals;
mod up;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use hermes_peer::config::Config;
use hermes_peer::config::LogConfig;
use hermes_peer::config::LogLevel;

use crate::args::COMMAND;
use crate::args::Global;
use crate::args::MeshCommand;
use crate::config;
use crate::exit::Exit;
use crate::exit::Failure;
use crate::log;
use crate::output::Output;

/// What is left to threads that still work for a node when it has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What a verb finds around it.
struct Surroundings {
    file: Option<File>,
    is_json: bool,
}

/// A configuration file as it was read.
struct File {
    path: PathBuf,
    config: Config,
    /// It was named on the command line.
    is_named: bool,
}

/// Runs a verb.
pub(crate) fn run(command: &MeshCommand, global: &Global, out: &mut Output) -> Result<(), Failure> {
    let path = match command {
        MeshCommand::Up => Some(config::need(global)?),
        _ => config::find(global),
    };
    let file = match path {
        Some(path) => {
            let config = Config::load(&path).map_err(|error| Failure::usage(error.to_string()))?;
            Some(File { path, config, is_named: global.config.is_some() })
        }
        None => None,
    };
    log::start(global.verbose, log_config(command, file.as_ref()))?;
    tracing::debug!(version = env!("CARGO_PKG_VERSION"), "{COMMAND} starts");
    let around = Surroundings { file, is_json: global.json };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        Failure::Told { exit: Exit::Other, message: format!("the runtime cannot be started: {error}") }
    })?;
    let result = runtime.block_on(dispatch(command, &around, out));
    runtime.shutdown_timeout(LAST_WORDS);
    result
}

async fn dispatch(command: &MeshCommand, around: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    match command {
        MeshCommand::Call(call) => call::run(call, around, out).await,
        MeshCommand::Serve(serve) => serve::run(serve, around, out).await,
        MeshCommand::Up => up::run(around, out).await,
        MeshCommand::Peers { to, watch } => peers::run(to.as_ref(), watch.watch, around, out).await,
        MeshCommand::Caps { name, watch } => caps::run(name.as_ref(), watch.watch, around, out).await,
        MeshCommand::Pub { topic, body } => events::publish(topic, &body.body, around, out).await,
        MeshCommand::Sub { pattern, group, count } => {
            events::subscribe(pattern, group.as_deref(), *count, around, out).await
        }
        MeshCommand::Journal { to, session, watch } => {
            journal::run(to.as_ref(), *session, watch.watch, around, out).await
        }
    }
}

/// A node that runs logs as its file says; a verb that asks something and ends has its result to say.
fn log_config(command: &MeshCommand, file: Option<&File>) -> LogConfig {
    let own = file.map(|file| file.config.log).unwrap_or_default();
    match command {
        MeshCommand::Up | MeshCommand::Serve(_) => own,
        _ => {
            // Peers that cannot be reached are part of the answer where it depends on them, and nobody's business elsewhere.
            let mut config = log::quiet();
            config.level = LogLevel::Error;
            config.format = own.format;
            config
        }
    }
}
