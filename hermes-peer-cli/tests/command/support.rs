//! The command in a folder of its own.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

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
        // Each folder is a world of its own: its own development authority, its own list of running nodes.
        command.env("HERMES_PEER_HOME", self.path(".home")).env("HERMES_PEER_RUNTIME", self.path(".run"));
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

    /// A node that runs until it is told to end: it has said that it is up.
    pub(crate) fn host(&self, args: &[&str]) -> Hosted {
        let log = File::create(self.path(&format!("log-{}", self.count()))).unwrap();
        let mut command = self.command(&["--json"]);
        let mut child =
            command.args(args).stdout(Stdio::piped()).stderr(log).stdin(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{args:?} is not up: {}", self.logs()));
        Hosted { child, told }
    }

    /// A program of the folder's own as a capability.
    pub(crate) fn serve(&self, capability: &str, options: &[&str], script: &str) -> Hosted {
        let program = ["--", "sh", "-c", script];
        self.host(&[&["serve", "--capability", capability], options, &program[..]].concat())
    }

    /// All that hosted nodes have logged.
    pub(crate) fn logs(&self) -> String {
        (0..self.count()).map(|index| self.read(&format!("log-{index}"))).collect()
    }

    fn count(&self) -> usize {
        (0..).find(|index| !self.path(&format!("log-{index}")).exists()).unwrap()
    }

    /// Waits until something is so, and says what was not if it never is.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}: never; {}", self.logs());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What a run that has to be refused says, having printed nothing.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {}", ended.err);
        ended.err
    }
}

/// A node that runs. It is killed when the test is over.
pub(crate) struct Hosted {
    pub(crate) child: Child,
    /// What it said when it was up.
    pub(crate) told: Value,
}

impl Hosted {
    pub(crate) fn node(&self) -> &str {
        self.told["node_id"].as_str().unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for its end.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        let _over = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Sends a signal, such as `INT`.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success());
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
