//! `hermes-peer call`: one call, and its result on stdout.

use std::time::Instant;

use hermes_peer::Body;
use hermes_peer::CallError;
use hermes_peer::ContentType;
use hermes_peer::Node;
use hermes_peer::NodeId;
use hermes_peer::Parts;
use hermes_peer::ReplyPart;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::Call;
use crate::exit::Exit;
use crate::exit::Failure;
use crate::output::Output;
use crate::output::printable_json;

use super::Surroundings;
use super::failed;
use super::node;
use super::node::Manner;
use super::node::PROVIDER_WAIT;
use super::signals::interruptible;

/// Most bytes that the items of a stream may have together where one object is printed of them.
const MAX_COLLECTED: usize = 256 << 20;

/// Runs the verb.
pub(super) async fn run(call: &Call, around: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    let body = call.body.body.read()?;
    let node = node::start(Manner::Asks, around).await?;
    interruptible(node.clone(), answered(call, body, &node, around.is_json, out)).await
}

async fn answered(
    call: &Call,
    body: String,
    node: &Node,
    is_json: bool,
    out: &mut Output,
) -> Result<(), Failure> {
    let began = Instant::now();
    let form = match (is_json, call.stream) {
        (true, true) => Form::JsonLines,
        (true, false) => Form::JsonWhole,
        (false, true) => Form::Lines,
        (false, false) => Form::Plain,
    };
    let printed = Printer { form, began, items: Vec::new(), bytes: 0, count: 0, by: None, out };
    let name = call.capability.as_str();
    match printed.print(begin(call, body, node).await).await {
        Ok(()) => Ok(()),
        Err(Stopped::Output(failure)) => Err(failure),
        Err(Stopped::Call(error)) => {
            if is_json {
                out.json(&failed::json(&error))?;
            }
            Err(failed::failure(&error, name, node))
        }
        Err(Stopped::NeedsInput) => Err(Failure::Told {
            exit: Exit::Remote,
            message: "the capability needs more input before it answers; its `question` and the `schema` of the answer are \
                      on stdout, and a new call with the answer carries its `state` along"
                .to_owned(),
        }),
    }
}

async fn begin(call: &Call, body: String, node: &Node) -> Result<Parts, CallError> {
    let mut order = node.call_json::<()>(call.capability.as_str(), body).wait_for_provider(PROVIDER_WAIT);
    if let Some(target) = &call.to {
        order = order.to(node::name(target));
    }
    if let Some(timeout) = call.timeout {
        order = order.timeout(timeout);
    }
    if let Some(key) = &call.key {
        order = order.idempotency_key(key);
    }
    if let Some(priority) = call.priority {
        order = order.priority(priority);
    }
    if let Some(id) = call.session {
        order = order.session(&node.open_session_with(id)?);
    }
    order.parts().await
}

/// Why the printing ended before the answer did.
enum Stopped {
    Call(CallError),
    Output(Failure),
    NeedsInput,
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Output(failure)
    }
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As it is; laid out for a terminal.
    Plain,
    /// Each part on a line of its own.
    Lines,
    /// One object at the end.
    JsonWhole,
    /// One object for each part.
    JsonLines,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    content: Content,
    node: Option<&'a str>,
    took_ms: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Result(Box<RawValue>),
    /// Bytes that are no JSON.
    ResultHex(String),
    Items(Vec<Box<RawValue>>),
    NeedsInput(Box<RawValue>),
    Item(Box<RawValue>),
    ItemHex(String),
    /// How many items there were.
    End(u64),
}

/// Prints an answer as it comes.
struct Printer<'a> {
    form: Form,
    began: Instant,
    /// Of a stream, where one object is printed of them.
    items: Vec<Box<RawValue>>,
    bytes: usize,
    count: u64,
    by: Option<NodeId>,
    out: &'a mut Output,
}

impl Printer<'_> {
    async fn print(mut self, begun: Result<Parts, CallError>) -> Result<(), Stopped> {
        let mut parts = begun.map_err(Stopped::Call)?;
        while let Some(part) = parts.next().await {
            self.by = parts.node().cloned();
            match part.map_err(Stopped::Call)? {
                ReplyPart::Item(body) => self.item(&body)?,
                ReplyPart::End(Some(body)) => self.result(&body)?,
                ReplyPart::NeedsInput(body) => {
                    self.question(&body)?;
                    return Err(Stopped::NeedsInput);
                }
                _ => self.end()?,
            }
            // Whoever reads gets each part when it is there.
            self.out.flush()?;
        }
        Ok(())
    }

    fn item(&mut self, body: &Body) -> Result<(), Failure> {
        self.count += 1;
        match self.form {
            Form::Plain | Form::Lines => self.line(body),
            Form::JsonLines => {
                let content = raw(body).map_or_else(|| Content::ItemHex(hex(body)), Content::Item);
                self.object(content)
            }
            Form::JsonWhole => {
                self.bytes += body.bytes.len();
                if self.bytes > MAX_COLLECTED {
                    return Err(Failure::Told {
                        exit: Exit::Other,
                        message: format!(
                            "the items have more than {MAX_COLLECTED} bytes together, too many for one object; --stream prints \
                             one for each"
                        ),
                    });
                }
                let item = match raw(body) {
                    Some(item) => item,
                    None => text(&hex(body))?,
                };
                self.items.push(item);
                Ok(())
            }
        }
    }

    fn result(&mut self, body: &Body) -> Result<(), Failure> {
        match self.form {
            Form::Lines => self.line(body),
            Form::Plain if is_json(body) && self.out.is_terminal() => self.laid_out(body),
            Form::Plain if is_json(body) => self.line_as_it_is(body),
            Form::Plain => self.as_it_is(body),
            Form::JsonWhole | Form::JsonLines => {
                self.object(raw(body).map_or_else(|| Content::ResultHex(hex(body)), Content::Result))
            }
        }
    }

    fn question(&mut self, body: &Body) -> Result<(), Failure> {
        match (self.form, raw(body)) {
            (Form::JsonWhole | Form::JsonLines, Some(question)) => self.object(Content::NeedsInput(question)),
            _ if self.out.is_terminal() => self.laid_out(body),
            _ => self.line(body),
        }?;
        self.out.flush()
    }

    fn end(&mut self) -> Result<(), Failure> {
        match self.form {
            Form::Plain | Form::Lines => Ok(()),
            Form::JsonWhole => {
                let items = std::mem::take(&mut self.items);
                self.object(Content::Items(items))
            }
            Form::JsonLines => self.object(Content::End(self.count)),
        }
    }

    fn object(&mut self, content: Content) -> Result<(), Failure> {
        let took_ms = (self.began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        self.out.json(&Whole { content, node: self.by.as_ref().map(NodeId::as_str), took_ms })
    }

    /// JSON on one line, whatever its sender thought of lines.
    fn line(&mut self, body: &Body) -> Result<(), Failure> {
        if !is_json(body) {
            return self.as_it_is(body);
        }
        let line = one_line(&body.bytes);
        if self.out.is_terminal() {
            return self.out.line(printable_json(&String::from_utf8_lossy(&line)));
        }
        self.out.bytes(&line)?;
        self.out.bytes(b"\n")
    }

    fn line_as_it_is(&mut self, body: &Body) -> Result<(), Failure> {
        self.out.bytes(&body.bytes)?;
        self.out.bytes(b"\n")
    }

    /// Numbers keep their digits and objects their order.
    fn laid_out(&mut self, body: &Body) -> Result<(), Failure> {
        match serde_json::from_slice::<Value>(&body.bytes) {
            Ok(value) => self.out.line(printable_json(&format!("{value:#}"))),
            Err(_) => self.out.line(printable_json(&String::from_utf8_lossy(&body.bytes))),
        }
    }

    fn as_it_is(&mut self, body: &Body) -> Result<(), Failure> {
        if self.out.is_terminal() {
            return Err(Failure::Told {
                exit: Exit::Other,
                message: format!(
                    "the result is {} bytes that are not for a terminal; send them to a file with `> FILE`",
                    body.bytes.len()
                ),
            });
        }
        self.out.bytes(&body.bytes)
    }
}

fn is_json(body: &Body) -> bool {
    body.content_type == ContentType::Json
}

/// The body as a piece of a larger JSON text, on one line and otherwise to the letter.
fn raw(body: &Body) -> Option<Box<RawValue>> {
    let line = String::from_utf8(one_line(&body.bytes)).ok()?;
    is_json(body).then(|| RawValue::from_string(line).ok())?
}

fn text(text: &str) -> Result<Box<RawValue>, Failure> {
    serde_json::value::to_raw_value(text).map_err(|error| Failure::output(error.into()))
}

/// In JSON a line ends between values only: within a text it is written as `\n`.
fn one_line(json: &[u8]) -> Vec<u8> {
    json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

fn hex(body: &Body) -> String {
    body.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
