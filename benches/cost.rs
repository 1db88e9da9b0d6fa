//! What one call and one idle link cost: `cargo bench --bench cost`.
//!
//! Two processes of this program on loopback, mutual TLS, everything on that is on by default: policy, schema, windows,
//! resume. Times are this machine's; compare only what was measured in one run.

use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use hermes_peer::Context;
use hermes_peer::Failure;
use hermes_peer::Node;
use hermes_peer::NodeBuilder;
use hermes_peer::capability;
use serde_json::Value;

/// Calls that are measured at each step, after a tenth as many to warm up.
const CALLS: usize = 20_000;
/// Idle links that are held at once.
const LINKS: usize = 500;
/// Kernel ticks in a second, in which `/proc/PID/stat` counts.
const TICKS: f64 = 100.0;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Gives back what it gets.
#[capability("bench.echo")]
async fn echo(input: Value, _context: Context) -> Result<Value, Failure> {
    Ok(input)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match &arguments[..] {
        [role, folder, count] if role == "serve" => serve(Path::new(folder), count.parse()?).await,
        _ => measure().await,
    }
}

fn node(name: &str, folder: &Path) -> NodeBuilder {
    Node::builder("agent://default/bench/node")
        .node_id(name)
        .development_ca(folder.join("ca"))
        .without_local_discovery()
}

/// Starts nodes, says where they listen, and stays until stdin closes.
async fn serve(folder: &Path, count: usize) -> Outcome<()> {
    let mut running = Vec::new();
    for number in 0..count {
        let started =
            node(&format!("node-{number}"), folder).listen("127.0.0.1:0").capability(echo).start().await?;
        println!("{} {}", started.id(), started.address().ok_or("the node does not listen")?);
        running.push(started);
    }
    let mut end = String::new();
    std::io::stdin().read_line(&mut end)?;
    Ok(())
}

async fn measure() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    calls(folder.path()).await?;
    idle_links(folder.path()).await
}

async fn calls(folder: &Path) -> Outcome<()> {
    let mut provider = Other::start(folder, 1)?;
    let (name, address) = provider.nodes.remove(0);
    let caller = node("caller", folder).peer(&name, &address).start().await?;
    let input: Value = serde_json::json!({ "text": "x".repeat(700), "numbers": (0..60).collect::<Vec<_>>() });
    println!("1 KiB JSON ({} bytes), one link, both ends on this machine", input.to_string().len());
    for in_flight in [1, 10, 50] {
        run_calls(&caller, &input, CALLS / 10, in_flight).await?;
        let (cpu_here, cpu_there) = (cpu("self")?, cpu(&provider.pid())?);
        let began = Instant::now();
        let mut times = run_calls(&caller, &input, CALLS, in_flight).await?;
        let took = began.elapsed();
        times.sort_unstable();
        let percentile = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6;
        println!(
            "  {in_flight:>3} in flight: {:>7.0} calls/s   p50 {:>6.1} µs   p99 {:>7.1} µs   CPU per call {:>5.1} µs caller, {:>5.1} µs provider",
            CALLS as f64 / took.as_secs_f64(),
            percentile(50),
            percentile(99),
            (cpu("self")? - cpu_here) * 1e6 / CALLS as f64,
            (cpu(&provider.pid())? - cpu_there) * 1e6 / CALLS as f64,
        );
    }
    Ok(())
}

/// Makes calls, so many at once, and gives how long each took.
async fn run_calls(caller: &Node, input: &Value, count: usize, in_flight: usize) -> Outcome<Vec<Duration>> {
    let lanes = (0..in_flight).map(|_| {
        let (caller, input) = (caller.clone(), input.clone());
        tokio::spawn(async move {
            let mut times = Vec::with_capacity(count / in_flight);
            for _ in 0..count / in_flight {
                let began = Instant::now();
                let _answer: Value = caller.call("bench.echo", &input).await?;
                times.push(began.elapsed());
            }
            Ok::<_, hermes_peer::CallError>(times)
        })
    });
    let mut times = Vec::with_capacity(count);
    for lane in lanes.collect::<Vec<_>>() {
        times.extend(lane.await??);
    }
    Ok(times)
}

/// One node that dials many: its end of each link, and theirs.
async fn idle_links(folder: &Path) -> Outcome<()> {
    let others = Other::start(folder, LINKS)?;
    let first = node("hub", folder).start().await?;
    let (here, there) = (memory("self")?, memory(&others.pid())?);
    let hub = others.nodes.iter().fold(node("hub-1", folder), |hub, (name, address)| hub.peer(name, address));
    let hub = hub.start().await?;
    while hub.metrics().linked_peers < LINKS {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Buffers are given back when a link rests.
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!(
        "{LINKS} idle links: {:.1} KiB each at the end that dialled, {:.1} KiB at the end that accepted",
        (memory("self")? - here) / LINKS as f64,
        (memory(&others.pid())? - there) / LINKS as f64,
    );
    drop(first);
    Ok(())
}

/// The other process.
struct Other {
    child: Child,
    nodes: Vec<(String, String)>,
}

impl Other {
    fn start(folder: &Path, count: usize) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve".as_ref(), folder.as_os_str(), count.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("the other process has no output")?;
        let mut nodes = Vec::new();
        for line in BufReader::new(output).lines().take(count) {
            let line = line?;
            let (name, address) = line.split_once(' ').ok_or("the other process says something else")?;
            nodes.push((name.to_owned(), address.to_owned()));
        }
        Ok(Self { child, nodes })
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It has nothing to lose, and may be gone already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// CPU seconds that a process has used, user and system.
fn cpu(pid: &str) -> Outcome<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(')').ok_or("an unknown form of /proc/PID/stat")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / TICKS)
}

/// Resident memory of a process, in KiB.
fn memory(pid: &str) -> Outcome<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line =
        status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS in /proc/PID/status")?;
    Ok(line.split_whitespace().nth(1).ok_or("an unknown form of VmRSS")?.parse()?)
}
