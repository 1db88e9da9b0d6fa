//! How the command ends.

use std::fmt;
use std::io;
use std::process::ExitCode;

use anstyle::AnsiColor;
use anstyle::Style;

/// The exit codes, the same for every verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Whole = 0,
    Other = 1,
    Usage = 2,
    Unreachable = 3,
    Remote = 4,
    Deadline = 5,
    Interrupted = 130,
}

impl Exit {
    const ALL: [Self; 7] = [
        Self::Whole,
        Self::Other,
        Self::Usage,
        Self::Unreachable,
        Self::Remote,
        Self::Deadline,
        Self::Interrupted,
    ];

    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// What it says, as in the help.
    const fn sentence(self) -> &'static str {
        match self {
            Self::Whole => "the result is whole and written",
            Self::Other => "anything else, such as output that cannot be written",
            Self::Usage => "wrong usage, configuration or input",
            Self::Unreachable => "nobody can be reached",
            Self::Remote => "the other side answered with an error",
            Self::Deadline => "the deadline is over",
            Self::Interrupted => "interrupted",
        }
    }

    /// The codes, for the end of the help.
    pub(crate) fn help() -> String {
        let lines = Self::ALL.map(|exit| format!("  {:>3}  {}", exit.code(), exit.sentence()));
        format!("Exit codes:\n{}", lines.join("\n"))
    }
}

/// Why the command did not get to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to be told on stderr.
    Told { exit: Exit, message: String },
    /// The reader of stdout has seen enough and left: no failure of ours.
    ReaderLeft,
}

impl Failure {
    /// The user's to mend: arguments, configuration, input.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Told { exit: Exit::Usage, message: message.into() }
    }

    /// The result cannot be written.
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ReaderLeft
        } else {
            Self::Told { exit: Exit::Other, message: format!("cannot write the output: {error}") }
        }
    }
}

/// Tells what went wrong, and gives the code to end with.
pub(crate) fn report(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Err(Failure::Told { exit, message }) => {
            let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
            tell(format_args!("{red}error:{red:#} {message}"));
            ExitCode::from(exit.code())
        }
    }
}

/// Prints clap's own answer: help and version to stdout, what is wrong with the arguments to stderr.
pub(crate) fn answer(answer: &clap::Error) -> ExitCode {
    let printed = answer.print();
    if answer.use_stderr() {
        ExitCode::from(Exit::Usage.code())
    } else {
        report(printed.map_err(Failure::output))
    }
}

/// One line to stderr, coloured where that is a terminal. Where stderr is gone, nobody is left to be told.
pub(crate) fn tell(line: impl fmt::Display) {
    use io::Write;
    drop(writeln!(anstream::stderr().lock(), "{line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_code_once() {
        let help = Exit::help();
        for code in ["  0  ", "  1  ", "  2  ", "  3  ", "  4  ", "  5  ", "130  "] {
            assert_eq!(help.matches(code).count(), 1, "{code}");
        }
    }

    #[test]
    fn a_reader_who_leaves_is_no_failure() {
        assert!(matches!(Failure::output(io::ErrorKind::BrokenPipe.into()), Failure::ReaderLeft));
        assert!(matches!(
            Failure::output(io::ErrorKind::StorageFull.into()),
            Failure::Told { exit: Exit::Other, .. }
        ));
    }
}
