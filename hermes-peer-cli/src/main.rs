//! The command `hermes-peer`.

mod args;
mod certs;
mod check;
mod config;
mod exit;
mod frame;
mod identity;
mod init;
mod input;
mod log;
mod mesh;
mod outcome;
mod output;

use std::io;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::Parser;

use args::Args;
use args::Verb;
use exit::Failure;
use output::Output;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(answer) => return exit::answer(&answer),
    };
    let mut out = Output::stdout();
    let result = run(&args, &mut out);
    // What was printed before a failure is printed first.
    exit::report(out.flush().and(result))
}

fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let global = &args.global;
    // Their log is as the configuration says.
    if let Verb::Mesh(command) = &args.verb {
        return mesh::run(command, global, out);
    }
    log::start(global.verbose, log::quiet())?;
    tracing::debug!(version = env!("CARGO_PKG_VERSION"), "{} starts", args::COMMAND);
    match &args.verb {
        Verb::Init { dir } => init::run(dir, global.json, out),
        Verb::Check { file } => check::run(file.as_deref(), global, out),
        Verb::Certs { verb } => certs::run(verb, global.json, out),
        Verb::Mesh(command) => mesh::run(command, global, out),
        Verb::Frame(frame) => frame::run(frame, global.json, out),
        Verb::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), args::COMMAND, &mut text);
            out.bytes(&text)
        }
        Verb::Man { dir: None } => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut page).map_err(Failure::output)?;
            out.bytes(&page)
        }
        Verb::Man { dir: Some(dir) } => {
            let refused = |error: io::Error| {
                Failure::usage(format!("cannot write man pages to {}: {error}", dir.display()))
            };
            clap_mangen::generate_to(Args::command(), dir).map_err(refused)
        }
    }
}
