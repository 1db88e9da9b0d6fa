//! Starts the four agents as processes of their own, and starts again what ends.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use clap::ValueEnum;
use hermes_peer::AgentUri;
use hermes_peer::NodeId;
use hermes_peer::certificates::Authority;
use tempfile::TempDir;
use tokio::process::Child;
use tokio::process::ChildStdin;
use tokio::process::Command;

use crate::Stop;
use crate::args::Role;

/// The certificates are for one run.
const VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);
/// An agent that ends sooner has not worked at all.
const SHORT: Duration = Duration::from_secs(2);
/// So many short lives in a row and it is not started again.
const SHORT_LIVES: u32 = 3;

impl Role {
    /// The order of the start: who calls comes first, who is called later.
    const ALL: [Self; 4] = [Self::Coordinator, Self::Nlu, Self::Retrieval, Self::Generator];

    fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Nlu => "nlu",
            Self::Retrieval => "retrieval",
            Self::Generator => "generator",
        }
    }

    fn capability(self) -> Option<&'static str> {
        match self {
            Self::Coordinator => None,
            Self::Nlu => Some("intent.detect"),
            Self::Retrieval => Some("knowledge.retrieve"),
            Self::Generator => Some("content.generate"),
        }
    }

    fn node(self) -> String {
        format!("{}-agent-01", self.name())
    }

    fn agent(self) -> String {
        format!("agent://default/support/{}", self.name())
    }
}

/// The four agents. Dropping it ends them and removes their certificates.
#[derive(Debug)]
pub(crate) struct Fleet {
    members: Vec<Member>,
    /// Declared last: the folder goes when the processes have gone.
    _folder: TempDir,
}

#[derive(Debug)]
struct Member {
    role: Role,
    config: PathBuf,
    child: Child,
    /// Open as long as this process lives; `Child::wait` would close it.
    leash: Option<ChildStdin>,
    started: Instant,
    short_lives: u32,
}

impl Fleet {
    /// Makes certificates and configurations, and starts everybody, the coordinator first.
    ///
    /// # Errors
    ///
    /// When a file cannot be written or a process cannot be started.
    pub(crate) fn start() -> Result<Self, Stop> {
        let folder = TempDir::with_prefix("ticket-triage-")?;
        let authority = Authority::create(&folder.path().join("ca")).map_err(Stop::failed)?;
        let addresses = free_addresses()?;
        let mut members = Vec::new();
        for role in Role::ALL {
            let config = write_config(role, folder.path(), &authority, &addresses)?;
            let mut child = spawn(role, &config)?;
            let process = child.id().unwrap_or_default();
            let address = addresses[role as usize];
            eprintln!("started {:<21} {:<38} {address}  process {process}", role.node(), role.agent());
            let leash = child.stdin.take();
            members.push(Member { role, config, child, leash, started: Instant::now(), short_lives: 0 });
        }
        Ok(Self { members, _folder: folder })
    }

    /// Waits for the coordinator to end, and starts every other agent again that ends meanwhile.
    ///
    /// # Errors
    ///
    /// When an agent does not stay up.
    pub(crate) async fn run(&mut self) -> Result<ExitStatus, Stop> {
        loop {
            let (status, index) = {
                let ends = self.members.iter_mut().map(|member| Box::pin(member.child.wait()));
                let (status, index, _others) = futures_util::future::select_all(ends).await;
                (status?, index)
            };
            let member = &mut self.members[index];
            if member.role == Role::Coordinator {
                return Ok(status);
            }
            member.start_again(status)?;
        }
    }
}

impl Member {
    fn start_again(&mut self, status: ExitStatus) -> Result<(), Stop> {
        let node = self.role.node();
        self.short_lives = if self.started.elapsed() < SHORT { self.short_lives + 1 } else { 0 };
        if self.short_lives == SHORT_LIVES {
            let message = format!("{node} does not stay up ({status}): RUST_LOG=info may show more");
            return Err(Stop::Unreachable(message));
        }
        self.child = spawn(self.role, &self.config)?;
        self.leash = self.child.stdin.take();
        self.started = Instant::now();
        let process = self.child.id().unwrap_or_default();
        eprintln!("{node} has ended ({status}); started again, process {process}");
        Ok(())
    }
}

/// This program once more, with the arguments of this run and a role. Its standard input is a pipe that nobody writes
/// to: it ends when this process ends, however that happens.
fn spawn(role: Role, config: &Path) -> io::Result<Child> {
    let role_name = role.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .args(["--role", &role_name, "--config"])
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(if role == Role::Coordinator { Stdio::inherit() } else { Stdio::null() })
        .kill_on_drop(true)
        .spawn()
}

/// Ends this process when the one that started it has gone.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        let _at_its_end = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    });
}

/// An address for each role. Between this and the start another program may take one: then that agent says so and ends.
fn free_addresses() -> io::Result<Vec<SocketAddr>> {
    let listeners: Vec<TcpListener> =
        Role::ALL.iter().map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<_>>()?;
    listeners.iter().map(TcpListener::local_addr).collect()
}

/// Writes a folder for the agent: its certificate, its key, and `peers.yaml`.
fn write_config(
    role: Role,
    folder: &Path,
    authority: &Authority,
    addresses: &[SocketAddr],
) -> Result<PathBuf, Stop> {
    let own = folder.join(role.name());
    fs::create_dir(&own)?;
    let (agent, node): (AgentUri, NodeId) =
        (role.agent().parse().map_err(Stop::failed)?, role.node().parse().map_err(Stop::failed)?);
    let issued = authority.issue(&agent, &node, VALIDITY).map_err(Stop::failed)?;
    issued.save(&own.join("cert.pem"), &own.join("key.pem")).map_err(Stop::failed)?;

    let listen = addresses[role as usize];
    let mut text = format!("node_id: {node}\nagent: {agent}\nlisten: {listen}\n");
    if let Some(capability) = role.capability() {
        text += &format!("capabilities: [{capability}]\n");
    }
    text += "auth:\n  mode: mtls\n  ca: ../ca/ca.pem\n  cert: cert.pem\n  key: key.pem\n";
    text += "discovery:\n  local: off\npeers:\n";
    for peer in Role::ALL.into_iter().filter(|peer| is_linked(role, *peer)) {
        let (node, agent, endpoint) = (peer.node(), peer.agent(), addresses[peer as usize]);
        text += &format!("  - node_id: {node}\n    agent: {agent}\n    endpoint: {endpoint}\n");
        if let Some(capability) = peer.capability() {
            text += &format!("    capabilities: [{capability}]\n");
        }
    }
    let file = own.join("peers.yaml");
    fs::write(&file, text)?;
    Ok(file)
}

/// The coordinator talks to everybody, the others to it: whoever comes up last dials.
fn is_linked(one: Role, other: Role) -> bool {
    one != other && (one == Role::Coordinator || other == Role::Coordinator)
}
