//! `hermes-peer frame decode`: what each byte of a frame says.

mod input;
mod message;
mod payload;
mod walk;

#[cfg(test)]
mod tests;

use hermes_peer_proto::wire::Flags;
use hermes_peer_proto::wire::HEADER_LEN;
use hermes_peer_proto::wire::Header;
use hermes_peer_proto::wire::MAGIC;
use hermes_peer_proto::wire::Side;
use hermes_peer_proto::wire::StreamId;
use hermes_peer_proto::wire::VERSION_MAX;
use hermes_peer_proto::wire::VERSION_MIN;
use hermes_peer_proto::wire::WireError;
use serde_json::Value;
use serde_json::json;

use crate::args::Frame;
use crate::args::FrameVerb;
use crate::exit::Failure;
use crate::exit::tell;
use crate::output::Column;
use crate::output::Output;
use crate::output::Paint;
use crate::output::Table;
use crate::output::printable;

use message::Messages;
use message::Source;
use walk::Field;
use walk::Origin;
use walk::Walk;
use walk::Wrong;

/// Longest value shown in text, in characters. `--json` has all of it.
const MAX_SHOWN: usize = 400;
/// Bytes shown before and after the one that is wrong.
const AROUND: usize = 8;

/// Runs the verb.
pub(crate) fn run(args: &Frame, is_json: bool, out: &mut Output) -> Result<(), Failure> {
    let FrameVerb::Decode(args) = &args.verb;
    decode(&input::read(args)?, is_json, out)
}

fn decode(bytes: &[u8], is_json: bool, out: &mut Output) -> Result<(), Failure> {
    let mut messages = Messages::default();
    let (mut at, mut number) = (0, 0);
    while at < bytes.len() {
        number += 1;
        let frame = Decoded::new(number, bytes, at, &mut messages);
        if is_json {
            out.json(&frame.json())?
        } else {
            frame.print(out)?
        }
        if let Some(wrong) = frame.wrong {
            let context = around(bytes, wrong.offset);
            return Err(Failure::usage(format!("{wrong}\n  {context}")));
        }
        at = frame.end;
    }
    out.flush()?;
    messages.unfinished().for_each(|note| tell(format_args!("note: {note}")));
    Ok(())
}

/// A frame as far as it can be read.
#[derive(Debug)]
struct Decoded {
    number: usize,
    offset: usize,
    header: Option<Header>,
    fields: Vec<Field>,
    wrong: Option<Wrong>,
    /// Where the next frame begins.
    end: usize,
}

impl Decoded {
    fn new(number: usize, bytes: &[u8], offset: usize, messages: &mut Messages) -> Self {
        let mut frame =
            Self { number, offset, header: None, fields: Vec::new(), wrong: None, end: bytes.len() };
        frame.wrong = frame.read(bytes, messages).err();
        frame
    }

    fn read(&mut self, bytes: &[u8], messages: &mut Messages) -> Result<(), Wrong> {
        let (header, fields) =
            (header(&bytes[self.offset..], self.offset, &mut self.fields)?, &mut self.fields);
        self.header = Some(header);
        let start = self.offset + HEADER_LEN;
        let left = bytes.len() - start;
        let Some(payload) = bytes[start..].get(..header.payload_len as usize) else {
            let why = format!("it announces {} bytes, and {left} follow", header.payload_len);
            return Err(Wrong { offset: start - 4, field: "payload_length".to_owned(), why });
        };
        self.end = start + payload.len();
        let origins = [Origin { at: 0, offset: start }];
        if header.flags.contains(Flags::CONTROL) {
            return payload::walk(header.message_type, Walk::new(payload, &origins, "", fields));
        }
        let source = Source {
            message_type: header.message_type,
            stream: header.stream,
            frame: self.number,
            offset: start,
        };
        messages.walk(source, payload, fields)?;
        match messages.unfinished_on(source) {
            Some(lack) if header.flags.contains(Flags::FIN) => {
                let why = format!("the sender's half of the stream ends (FIN), and {lack}");
                Err(Wrong { offset: self.end, field: "message".to_owned(), why })
            }
            _ => Ok(()),
        }
    }

    fn title(&self) -> String {
        let place = format!("frame {} at byte {}", self.number, self.offset);
        let Some(header) = self.header else {
            return place;
        };
        let flags: Vec<_> = header.flags.names().collect();
        let (name, stream, len) = (header.message_type.name(), header.stream, header.payload_len);
        format!("{place}: {name} {}, stream {stream}, {len} bytes", flags.join(" "))
    }

    fn print(&self, out: &mut Output) -> Result<(), Failure> {
        if self.number > 1 {
            out.line("")?;
        }
        let title = out.style().paint(Paint::Title, &self.title());
        out.line(title)?;
        let column = |paint, is_right| Column { paint, is_right };
        let mut table = Table::new(&[
            column(Paint::Aside, true),
            column(Paint::Plain, false),
            column(Paint::Name, false),
            column(Paint::Value, false),
            column(Paint::Aside, false),
        ]);
        for field in &self.fields {
            let mut head: Vec<_> = field.head.iter().map(|byte| format!("{byte:02x}")).collect();
            if field.len > head.len() {
                head.push("…".to_owned());
            }
            let value = shown(&field.value);
            table.row([
                field.offset.to_string(),
                head.join(" "),
                field.name.clone(),
                value,
                field.meaning.clone(),
            ]);
        }
        out.table(&table)
    }

    fn json(&self) -> Value {
        let fields: Vec<_> = self.fields.iter().map(field_json).collect();
        let mut frame = json!({
            "frame": self.number,
            "offset": self.offset,
            "type": self.header.map(|header| header.message_type.name()),
            "fields": fields,
        });
        if let Some(wrong) = &self.wrong {
            frame["error"] = json!({ "offset": wrong.offset, "field": wrong.field, "message": wrong.why });
        }
        frame
    }
}

fn field_json(field: &Field) -> Value {
    json!({
        "name": field.name,
        "offset": field.offset,
        "length": field.len,
        "value": field.value,
        "meaning": field.meaning,
    })
}

/// The fifteen bytes of a header. What is wrong with them is said at the byte, behind the fields that are right.
fn header(bytes: &[u8], offset: usize, fields: &mut Vec<Field>) -> Result<Header, Wrong> {
    let wrong =
        |at: usize, field: &str, why: String| Wrong { offset: offset + at, field: field.to_owned(), why };
    if let Some(at) = bytes.iter().zip(MAGIC).position(|(got, expected)| *got != expected) {
        let why = format!(
            "expected {:02x}, got {:02x}: frames begin with 48 52 4d 53 (\"HRMS\")",
            MAGIC[at], bytes[at]
        );
        return Err(wrong(at, "magic", why));
    }
    let Some(raw) = bytes.first_chunk::<HEADER_LEN>() else {
        let why = format!("expected {HEADER_LEN} bytes, and the input ends after {}", bytes.len());
        return Err(wrong(bytes.len(), "header", why));
    };
    let mut note = |name: &str, at: usize, len: usize, value: Value, meaning: String| {
        let head = raw[at..at + len].to_vec();
        fields.push(Field { name: name.to_owned(), offset: offset + at, len, head, value, meaning });
    };
    note("magic", 0, 4, "HRMS".into(), String::new());
    let version = raw[4];
    if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
        let why = format!("expected a protocol version from {VERSION_MIN} to {VERSION_MAX}, got {version}");
        return Err(wrong(4, "version", why));
    }
    note("version", 4, 1, version.into(), "protocol version spoken".to_owned());
    let header = Header::parse(raw).map_err(|error| match error {
        WireError::UnknownType { .. } => wrong(6, "message_type", error.to_string()),
        _ => wrong(5, "flags", error.to_string()),
    })?;
    let flags: Vec<_> = header.flags.names().collect();
    let kind = if header.flags.contains(Flags::CONTROL) { "a control frame" } else { "a data frame" };
    note("flags", 5, 1, flags.join(" ").into(), format!("{:#010b}, {kind}", header.flags.bits()));
    note(
        "message_type",
        6,
        1,
        header.message_type.name().into(),
        format!("type {}", header.message_type.number()),
    );
    let opener = match StreamId(header.stream).opener() {
        None => "the link itself",
        Some(Side::Initiator) => "opened by the initiator",
        Some(Side::Acceptor) => "opened by the acceptor",
    };
    note("stream", 7, 4, header.stream.into(), opener.to_owned());
    note("payload_length", 11, 4, header.payload_len.into(), "bytes that follow".to_owned());
    Ok(header)
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}… (--json shows all)", printable(&text[..end])),
        None => printable(&text),
    }
}

/// The byte at `offset` in brackets, amid its neighbours.
fn around(bytes: &[u8], offset: usize) -> String {
    let from = offset.saturating_sub(AROUND).min(bytes.len());
    let to = (offset + AROUND + 1).min(bytes.len());
    let mut words: Vec<_> = bytes[from..to].iter().map(|byte| format!("{byte:02x}")).collect();
    match words.get_mut(offset - from) {
        Some(word) => *word = format!("[{word}]"),
        None => words.push("[end of input]".to_owned()),
    }
    let (before, after) = (if from > 0 { "… " } else { "" }, if to < bytes.len() { " …" } else { "" });
    format!("{before}{}{after}", words.join(" "))
}
