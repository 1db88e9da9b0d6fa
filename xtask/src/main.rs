//! What the repository does to itself. `cargo xtask --help` lists it.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Instant;

use anyhow::Context;
use anyhow::bail;

const HELP: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  ci      Runs what CI runs: format, lints, docs, tests, dependencies; stops at the first failure
  help    Prints this
";

/// One check: what it is called, how to run it and what to do when it fails.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: Option<(&'static str, &'static str)>,
    remedy: &'static str,
}

const STEPS: [Step; 4] = [
    Step { name: "format", args: &["fmt", "--all", "--check"], env: None, remedy: "run `cargo fmt --all`" },
    Step {
        name: "lints",
        args: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        env: None,
        remedy: "mend what clippy says; an exception is `#[expect(lint, reason = \"…\")]`",
    },
    Step {
        name: "docs",
        args: &["doc", "--workspace", "--no-deps", "--document-private-items"],
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
        remedy: "mend the doc comments named above",
    },
    Step {
        name: "tests",
        args: &["test", "--workspace"],
        env: None,
        remedy: "run the failed test alone: `cargo test -p PACKAGE NAME`",
    },
];

/// Run where cargo-deny is installed. Advisories are left out: they need a database from the network.
const DENY: Step = Step {
    name: "dependencies",
    args: &["deny", "check", "bans", "licenses", "sources"],
    env: None,
    remedy: "take another crate, or change `deny.toml` and say why",
};

/// Run where `tests/fuzz` exists: its own workspace, whose tests take each target over its corpus and some new inputs.
const FUZZ: Step = Step {
    name: "fuzz smoke",
    args: &["test", "--manifest-path", "tests/fuzz/Cargo.toml"],
    env: None,
    remedy: "the input that failed is printed above; make a unit test of it",
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci(),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn ci() -> anyhow::Result<()> {
    let root = root()?;
    let start = Instant::now();
    for step in &STEPS {
        run(step, &root)?;
    }
    if is_installed("deny") {
        run(&DENY, &root)?;
    } else {
        eprintln!("xtask: dependencies: left out, cargo-deny is not installed (`cargo install cargo-deny`)");
    }
    if root.join("tests/fuzz/Cargo.toml").exists() {
        run(&FUZZ, &root)?;
    }
    eprintln!("xtask: all of it in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn run(step: &Step, root: &Path) -> anyhow::Result<()> {
    eprintln!("xtask: {}: cargo {}", step.name, step.args.join(" "));
    let start = Instant::now();
    let status =
        cargo().args(step.args).envs(step.env).current_dir(root).status().context("cannot run cargo")?;
    let took = start.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{} failed after {took:.1} s: {}", step.name, step.remedy);
    }
    eprintln!("xtask: {}: good, {took:.1} s", step.name);
    Ok(())
}

fn is_installed(subcommand: &str) -> bool {
    cargo()
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The cargo that runs this, so that a toolchain chosen by hand stays chosen.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn root() -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(root.context("xtask stands in a folder of the workspace")?.to_path_buf())
}
