//! The example as a child process, and just enough HTTP to talk to it.

use std::io::BufRead;
use std::io::BufReader;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Far more than anything here takes; what hangs is cut off and fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// A call that is given up ends within this time at the last agent; by itself it would last two minutes.
const SOON: Duration = Duration::from_secs(20);

/// Where cargo puts the examples of the profile that this test was built with.
fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("ticket-triage{}", std::env::consts::EXE_SUFFIX);
    let example = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(
        example.exists(),
        "{} is missing: `cargo test` builds it, `cargo build --examples` does too",
        example.display()
    );
    example
}

/// The example with the repository's own data.
pub fn triage(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("--small").args(args).stdin(Stdio::null());
    command.env_remove("RUST_LOG").env_remove("OPENAI_API_KEY").env_remove("OPENAI_MODEL");
    command
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Output {
    triage(args).output().unwrap()
}

/// What it printed, one JSON value a line.
pub fn objects(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The example as a server. Dropping it ends it.
pub struct Server {
    child: Child,
    lines: mpsc::Receiver<String>,
    pub address: String,
    processes: Vec<(String, u32)>,
    /// For what a process that is killed leaves behind.
    _folder: TempDir,
}

impl Server {
    pub fn start(args: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = triage(&["--serve", "127.0.0.1:0"]);
        command.env("TMPDIR", folder.path());
        let mut child = command.args(args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::sync_channel(1_000);
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut server =
            Self { child, lines, address: String::new(), processes: Vec::new(), _folder: folder };
        let serving = server.wait_for_line("serving http://");
        server.address = serving.split(['/', ' ']).nth(3).unwrap().to_owned();
        server
    }

    /// The next line with `text` in it.
    pub fn wait_for_line(&mut self, text: &str) -> String {
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line with `{text}` came"));
            if let Some((before, process)) = line.rsplit_once("process ") {
                let node = before.trim_start_matches("started ").split(' ').next().unwrap();
                self.processes.push((node.to_owned(), process.parse().unwrap()));
            }
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The process that runs the node now.
    pub fn process(&self, node: &str) -> u32 {
        self.processes.iter().rfind(|(name, _)| name == node).unwrap().1
    }

    /// All that were started.
    pub fn processes(&self) -> Vec<u32> {
        self.processes.iter().map(|(_, process)| *process).collect()
    }

    /// The process that started the others.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn post(&self, headers: &str, body: &str) -> (u16, Value) {
        self.ask("POST /tickets", headers, body)
    }

    /// The status and the body of an answer.
    pub fn ask(&self, what: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut answer = String::new();
        self.send(what, headers, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }

    /// The events of a ticket.
    pub fn events(&self, ticket: &str) -> Events {
        let stream = self.send("POST /tickets", "Accept: text/event-stream\r\n", ticket);
        Events { lines: BufReader::new(stream) }
    }

    fn send(&self, what: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let head = format!(
            "{what} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that has refused the head need not read the rest.
        let _refused = stream.write_all(body.as_bytes());
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Server-sent events; dropping them hangs up.
pub struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    /// The next event's name and data.
    pub fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(text) = line.strip_prefix("event: ") {
                text.trim().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _gone = self.lines.get_ref().shutdown(Shutdown::Both);
    }
}

/// A chat-completions endpoint that gives one answer, word by word, to one request; then, if it `lingers`, it says nothing
/// more until the other side hangs up.
pub struct Model {
    pub url: String,
    request: thread::JoinHandle<String>,
}

impl Model {
    pub fn answering(status: &'static str, body: String, lingers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let request = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let request = read_request(&mut stream);
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{body}"
            )
            .unwrap();
            if lingers {
                stream.set_read_timeout(Some(SOON)).unwrap();
                match stream.read(&mut [0]) {
                    Ok(count) => assert_eq!(count, 0, "the other side says no more"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it has not hung up"),
                }
            }
            request
        });
        Self { url, request }
    }

    /// What was asked, once the answer is given.
    pub fn request(self) -> String {
        self.request.join().unwrap()
    }
}

/// The head and the body, whose length the head tells.
fn read_request(stream: &mut TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut request, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let lower = line.to_ascii_lowercase();
        if let Some(number) = lower.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        request += &line;
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request + std::str::from_utf8(&body).unwrap()
}

/// Waits until a process has gone.
#[cfg(unix)]
pub fn wait_until_gone(process: u32) {
    let begin = std::time::Instant::now();
    while signal(process, "-0") {
        assert!(begin.elapsed() < PATIENCE, "process {process} lives on");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal; false if there is no such process any more.
#[cfg(unix)]
pub fn signal(process: u32, which: &str) -> bool {
    let status = Command::new("kill").args([which, &process.to_string()]).stderr(Stdio::null()).status();
    status.unwrap().success()
}
