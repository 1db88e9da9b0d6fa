//! The command in a folder of its own.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use serde_json::Value;

/// A fresh folder in which the command runs.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The command with these arguments, not run yet, and without what the tests' own surroundings would change.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes-peer"));
        command.args(args).current_dir(self.0.path());
        for variable in ["RUST_LOG", "HERMES_LOG", "NO_COLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().unwrap())
    }

    /// What a run that has to succeed prints.
    pub(crate) fn good(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {}", ended.out);
        ended.out
    }

    /// What a run that has to succeed prints, as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.good(args)).unwrap()
    }

    /// What a run that has to be refused says, having printed nothing.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {}", ended.err);
        ended.err
    }
}

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// The rights of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
