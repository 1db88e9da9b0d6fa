//! What can be typed. The doc comments are the help.

use std::path::PathBuf;

use clap::Args as Group;
use clap::Parser;
use clap::Subcommand;
use clap_complete::Shell;

use crate::exit::Exit;

/// The command's name, wherever its file lies and whatever it is called there.
pub(crate) const COMMAND: &str = "hermes-peer";

/// Runs, calls and looks at agent processes in a Hermes mesh.
#[derive(Debug, Parser)]
#[command(name = COMMAND, version, max_term_width = 100, after_help = Exit::help())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
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
    /// recognised. At the first byte that is wrong it says where and what was expected there, and ends with code 2.
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
    /// Prints one JSON object per frame and line.
    #[arg(long)]
    pub(crate) json: bool,
}
