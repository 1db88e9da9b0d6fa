//! `hermes-peer init`: a folder that works.

use std::fs;
use std::io;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::path::Path;

use hermes_peer::certificates::Authority;
use hermes_peer::certificates::DEFAULT_VALIDITY;
use hermes_peer_proto::wire::AgentUri;
use hermes_peer_proto::wire::NodeId;

use crate::certs;
use crate::config::DEFAULT_FILE;
use crate::exit::Exit;
use crate::exit::Failure;
use crate::outcome::Outcome;
use crate::output::Output;

/// The ports that nodes use by convention.
const PORTS: std::ops::RangeInclusive<u16> = 7500..=7599;
/// Longest name taken from the folder's, so that what is derived from it stays a name.
const MAX_NAME: usize = 40;

const PROGRAM: &str = "\
#!/bin/sh
# A capability: the input comes as JSON on stdin, the result goes as JSON to stdout, stderr goes to the log.
exec cat
";

const IGNORED: &str = "\
# Keys are never committed.
*
!.gitignore
";

/// Runs the verb.
pub(crate) fn run(dir: &Path, is_json: bool, out: &mut Output) -> Result<(), Failure> {
    let certs = dir.join("certs");
    let config = dir.join(DEFAULT_FILE);
    let program = dir.join("echo.sh");
    let ignore = certs.join(".gitignore");
    let node: NodeId = parsed("echo-01")?;
    let [cert, key] = ["pem", "key"].map(|end| certs.join(format!("{node}.{end}")));
    let authority = ["ca.pem", "ca.key", "ca.crl.pem"].map(|name| certs.join(name));
    let all = [&config, &program, &ignore, &cert, &key].into_iter().chain(&authority);
    if let Some(there) = all.into_iter().find(|path| path.exists()) {
        return Err(Failure::usage(format!(
            "{} is there already, and nothing is overwritten; name another folder: `hermes-peer init DIR`",
            there.display()
        )));
    }
    let agent: AgentUri = parsed(&format!("agent://default/{}/echo", name(dir)))?;

    let authority = Authority::create(&certs).map_err(certs::refused)?;
    create(&ignore, IGNORED, 0o644)?;
    let issued = authority.issue(&agent, &node, DEFAULT_VALIDITY).map_err(certs::refused)?;
    issued.save(&cert, &key).map_err(certs::refused)?;
    create(&program, PROGRAM, 0o755)?;
    create(&config, &configuration(&agent, &node, free_port()), 0o644)?;

    let enter = if dir == Path::new(".") { String::new() } else { format!("cd {} && ", dir.display()) };
    Outcome::new(format!("made a node in {}", dir.display()))
        .file(&config, format!("configuration of {node}, {agent}"))
        .file(&program, "its capability demo.echo: any program that reads and writes JSON")
        .file(&certs, "a development authority and the node's certificate, valid for 90 days")
        .next("try it in two terminals:")
        .next(format!("  {enter}hermes-peer up"))
        .next(format!("  {enter}hermes-peer call demo.echo '{{\"hello\":\"mesh\"}}'"))
        .print(is_json, out)
}

fn configuration(agent: &AgentUri, node: &NodeId, port: u16) -> String {
    let lines = [
        (format!("node_id: {node}"), "this process, unique in the mesh".to_owned()),
        (format!("agent: {agent}"), "whom it serves; the certificate says the same".to_owned()),
        (
            format!("listen: 127.0.0.1:{port}"),
            format!("this machine only; 0.0.0.0:{port} is every interface"),
        ),
        ("programs:".to_owned(), "each is a capability: JSON on stdin, JSON on stdout".to_owned()),
    ];
    let widest = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    let [node_id, agent, listen, programs] =
        lines.map(|(line, meaning)| format!("{line:widest$}  # {meaning}"));
    format!(
        "\
# A node of a Hermes mesh. `hermes-peer check` says what is wrong with this file, `hermes-peer up` runs it.
{node_id}
{agent}
{listen}
auth: {{ mode: mtls, ca: certs/ca.pem, crl: certs/ca.crl.pem, cert: certs/{node}.pem, key: certs/{node}.key }}
{programs}
  - capability: demo.echo
    command: [./echo.sh]
    description: Gives back what it gets.
# Nodes on other machines; those of this user on this machine are found without.
#peers:
#  - {{ node_id: other-01, endpoint: \"192.168.1.21:7501\" }}
"
    )
}

/// A name for the mesh made of the folder's.
fn name(dir: &Path) -> String {
    let whole = dir.canonicalize().or_else(|_| std::path::absolute(dir));
    let last = whole
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().to_lowercase()))
        .unwrap_or_default();
    let plain: String = last
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .take(MAX_NAME)
        .collect();
    match plain.trim_matches('-') {
        "" => "demo".to_owned(),
        name => name.to_owned(),
    }
}

/// A port that nobody listens on now; 0, which is any free one at start, if there is none.
fn free_port() -> u16 {
    PORTS.into_iter().find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).unwrap_or(0)
}

fn create(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let written = || -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        options.open(path)?.write_all(text.as_bytes())
    };
    #[cfg(not(unix))]
    let _ = mode;
    written().map_err(|error| Failure::Told {
        exit: Exit::Other,
        message: format!("cannot write {}: {error}", path.display()),
    })
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error| Failure::usage(format!("no name can be made of the folder's: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_gives_a_name_that_the_mesh_takes() {
        let root = tempfile::tempdir().unwrap();
        for (folder, expected) in [
            ("Support Desk", "support-desk"),
            ("知識", "demo"),
            ("..x..", "x"),
            (&"a".repeat(200), &"a".repeat(MAX_NAME)),
        ] {
            let name = name(&root.path().join(folder));
            assert_eq!(name, expected);
            assert!(format!("agent://default/{name}/echo").parse::<AgentUri>().is_ok());
        }
        assert_eq!(name(Path::new("/")), "demo");
    }
}
