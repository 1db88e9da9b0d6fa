//! The log: stderr and nothing else, so that stdout has the result alone.

use std::io;

use anstream::AutoStream;
use anstream::ColorChoice;
use hermes_peer::config::LogConfig;
use hermes_peer::config::LogFormat;
use hermes_peer::config::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// Variables that take a filter such as `warn,hermes_peer=trace`; the first that is set and not empty counts.
const VARIABLES: [&str; 2] = ["HERMES_LOG", "RUST_LOG"];

/// For verbs that do one thing and end: what they have to say is their result.
pub(crate) fn quiet() -> LogConfig {
    let mut config = LogConfig::default();
    config.level = LogLevel::Warn;
    config
}

/// Starts the log of this process. `-v` counts before the environment, and that before `config`.
pub(crate) fn start(verbose: u8, config: LogConfig) -> Result<(), Failure> {
    let filter = filter(verbose, config.level, |name| std::env::var(name).ok())?;
    let stderr = io::stderr();
    let is_coloured = AutoStream::choice(&stderr) != ColorChoice::Never;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(is_coloured)
        // It would be told on stderr, which is what failed.
        .log_internal_errors(false);
    let started = match config.format {
        LogFormat::Json => builder.json().with_ansi(false).try_init(),
        _ => builder.with_target(false).try_init(),
    };
    started.map_err(|error| Failure::usage(format!("the log cannot be started: {error}")))
}

fn filter(
    verbose: u8,
    level: LogLevel,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<EnvFilter, Failure> {
    let set =
        VARIABLES.iter().find_map(|name| Some((name, variable(name).filter(|value| !value.is_empty())?)));
    if let (0, Some((name, value))) = (verbose, set) {
        return EnvFilter::try_new(&value).map_err(|error| {
            Failure::usage(format!(
                "the environment variable {name} is no filter: {error}; write a level, or levels of modules: `warn,hermes_peer=debug`"
            ))
        });
    }
    let level = raised(level, verbose);
    // Libraries below log for their own developers; they are heard at the very end of the scale.
    let others = if level == LevelFilter::TRACE { LevelFilter::DEBUG } else { level.min(LevelFilter::WARN) };
    let directives = format!("{others},hermes_peer={level},hermes_peer_proto={level}");
    EnvFilter::try_new(directives)
        .map_err(|error| Failure::usage(format!("the log cannot be started: {error}")))
}

fn raised(level: LogLevel, steps: u8) -> LevelFilter {
    const SCALE: [LevelFilter; 6] = [
        LevelFilter::OFF,
        LevelFilter::ERROR,
        LevelFilter::WARN,
        LevelFilter::INFO,
        LevelFilter::DEBUG,
        LevelFilter::TRACE,
    ];
    let at = match level {
        LogLevel::Off => 0,
        LogLevel::Error => 1,
        LogLevel::Warn => 2,
        LogLevel::Info => 3,
        LogLevel::Debug => 4,
        _ => 5,
    };
    SCALE[(at + usize::from(steps)).min(SCALE.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(verbose: u8, level: LogLevel, variables: &[(&str, &str)]) -> Result<String, Failure> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        filter(verbose, level, variable).map(|filter| filter.to_string())
    }

    #[test]
    fn the_command_line_counts_before_the_environment_and_that_before_the_file() {
        let both = [("RUST_LOG", "info"), ("HERMES_LOG", "trace")];
        assert_eq!(shown(0, LogLevel::Warn, &both).unwrap(), "trace");
        assert_eq!(shown(0, LogLevel::Warn, &both[..1]).unwrap(), "info");
        let directives = |text: &str| {
            let mut parts: Vec<_> = text.split(',').map(str::to_owned).collect();
            parts.sort();
            parts.join(",")
        };
        let own = |verbose, level, variables: &[(&str, &str)]| {
            directives(&shown(verbose, level, variables).unwrap())
        };
        assert_eq!(own(1, LogLevel::Warn, &both), "hermes_peer=info,hermes_peer_proto=info,warn");
        assert_eq!(
            own(0, LogLevel::Info, &[("HERMES_LOG", "")]),
            "hermes_peer=info,hermes_peer_proto=info,warn"
        );
        assert_eq!(own(0, LogLevel::Off, &[]), "hermes_peer=off,hermes_peer_proto=off,off");
        assert_eq!(own(9, LogLevel::Info, &[]), "debug,hermes_peer=trace,hermes_peer_proto=trace");
    }

    #[test]
    fn a_filter_that_is_none_is_refused_by_the_name_of_its_variable() {
        let refused = shown(0, LogLevel::Info, &[("RUST_LOG", "hermes_peer=loud")]);
        let Err(Failure::Told { message, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(message.starts_with("the environment variable RUST_LOG is no filter"), "{message}");
    }
}
