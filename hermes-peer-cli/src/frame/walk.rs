//! Goes through bytes field by field and writes down what it meets.

use std::fmt;

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::InvalidName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Bytes of a field that are kept to be shown.
const MAX_HEAD: usize = 8;

/// One field as it was met.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// Its way from the frame, such as `capabilities[0].name`.
    pub(super) name: String,
    /// Where it begins, in bytes from the start of the input.
    pub(super) offset: usize,
    /// How many bytes it takes.
    pub(super) len: usize,
    /// The first of its bytes.
    pub(super) head: Vec<u8>,
    pub(super) value: Value,
    pub(super) meaning: String,
}

/// The byte that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wrong {
    /// Where it is, in bytes from the start of the input.
    pub(super) offset: usize,
    /// The field that it belongs to.
    pub(super) field: String,
    /// What was expected.
    pub(super) why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} (0x{:x}): {}: {}", self.offset, self.offset, self.field, self.why)
    }
}

/// Where bytes stand in the input: from this one on, there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) at: usize,
    pub(super) offset: usize,
}

/// A place in a structure's bytes, and the fields met so far.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Of `bytes`, ascending, the first at 0: a structure can be spread over several frames.
    origins: &'a [Origin],
    prefix: String,
    fields: &'a mut Vec<Field>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        bytes: &'a [u8],
        origins: &'a [Origin],
        prefix: &str,
        fields: &'a mut Vec<Field>,
    ) -> Self {
        Self { bytes, at: 0, origins, prefix: prefix.to_owned(), fields }
    }

    /// A value that serde reads, shown as serde shows it.
    pub(super) fn field<T: DeserializeOwned + Serialize>(
        &mut self,
        name: &str,
        meaning: &str,
    ) -> Result<T, Wrong> {
        let show = |value: &T| serde_json::to_value(value).unwrap_or_default();
        self.field_as(name, show, |_| meaning.to_owned())
    }

    /// A value that serde reads, shown and explained by the caller.
    pub(super) fn field_as<T: DeserializeOwned>(
        &mut self,
        name: &str,
        show: impl FnOnce(&T) -> Value,
        explain: impl FnOnce(&T) -> String,
    ) -> Result<T, Wrong> {
        let start = self.at;
        let value: T = self.take(name)?;
        self.note(name, start, show(&value), explain(&value));
        Ok(value)
    }

    /// A name with rules of its own, which the error states.
    pub(super) fn name<T: std::str::FromStr<Err = InvalidName>>(
        &mut self,
        name: &str,
        meaning: &str,
    ) -> Result<(), Wrong> {
        let start = self.at;
        let (text, text_at) = self.take_text(name)?;
        if let Err(error) = text.parse::<T>() {
            return Err(self.wrong(text_at, name, error.to_string()));
        }
        self.note(name, start, text.into(), meaning.to_owned());
        Ok(())
    }

    /// Any text.
    pub(super) fn text(&mut self, name: &str, meaning: &str) -> Result<(), Wrong> {
        let start = self.at;
        let (text, _) = self.take_text(name)?;
        self.note(name, start, text.into(), meaning.to_owned());
        Ok(())
    }

    /// Bytes of a fixed number, shown as hex.
    pub(super) fn fixed(&mut self, name: &str, count: usize, meaning: &str) -> Result<(), Wrong> {
        let start = self.at;
        let bytes = self.take_bytes(name, count)?;
        self.note(name, start, hex(bytes).into(), meaning.to_owned());
        Ok(())
    }

    /// Bytes whose number stands before them, shown as hex.
    pub(super) fn counted(&mut self, name: &str, meaning: &str) -> Result<(), Wrong> {
        let start = self.at;
        let count = self.take_count(name)?;
        let bytes = self.take_bytes(name, count)?;
        self.note(name, start, hex(bytes).into(), meaning.to_owned());
        Ok(())
    }

    /// An outcome code; one of a later version is none of its receiver's business and stays a number.
    pub(super) fn code(&mut self, name: &str) -> Result<(), Wrong> {
        let show = |number: &u8| match ErrorCode::from_number(*number) {
            Some(code) => code.name().into(),
            None => (*number).into(),
        };
        let explain = |number: &u8| {
            let known = ErrorCode::from_number(*number);
            known.map_or("a later version's code, taken as INTERNAL", ErrorCode::sentence).to_owned()
        };
        self.field_as(name, show, explain).map(|_| ())
    }

    /// What is there only if a byte says so.
    pub(super) fn option(
        &mut self,
        name: &str,
        meaning: &str,
        inner: impl FnOnce(&mut Self) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let start = self.at;
        let is_there: bool = self.take(name)?;
        if !is_there {
            self.note(name, start, Value::Null, format!("absent: {meaning}"));
            return Ok(());
        }
        self.note(name, start, "present".into(), meaning.to_owned());
        inner(self)
    }

    /// A number of elements, then the elements.
    pub(super) fn list(
        &mut self,
        name: &str,
        meaning: &str,
        mut element: impl FnMut(&mut Self) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let start = self.at;
        let count = self.take_count(name)?;
        self.note(name, start, count.into(), format!("how many: {meaning}"));
        for index in 0..count {
            self.within(&format!("{name}[{index}]"), &mut element)?;
        }
        Ok(())
    }

    /// Fields of a structure within this one.
    pub(super) fn within(
        &mut self,
        name: &str,
        inner: impl FnOnce(&mut Self) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let outer = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        let result = inner(self);
        self.prefix.truncate(outer);
        result
    }

    /// Nothing may be left over.
    pub(super) fn end(self, what: &str) -> Result<(), Wrong> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            count => Err(self.wrong(self.at, what, format!("it has ended, and {count} bytes follow"))),
        }
    }

    /// An error at the structure's byte `at`.
    pub(super) fn wrong(&self, at: usize, name: &str, why: impl Into<String>) -> Wrong {
        Wrong { offset: offset(self.origins, at), field: format!("{}{name}", self.prefix), why: why.into() }
    }

    /// How far it has come.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn note(&mut self, name: &str, start: usize, value: Value, meaning: String) {
        let bytes = &self.bytes[start..self.at];
        self.fields.push(Field {
            name: format!("{}{name}", self.prefix),
            offset: offset(self.origins, start),
            len: bytes.len(),
            head: bytes[..bytes.len().min(MAX_HEAD)].to_vec(),
            value,
            meaning,
        });
    }

    fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Wrong> {
        match postcard::take_from_bytes(&self.bytes[self.at..]) {
            Ok((value, rest)) => {
                self.at = self.bytes.len() - rest.len();
                Ok(value)
            }
            Err(postcard::Error::DeserializeUnexpectedEnd) => Err(self.too_short(name)),
            Err(error) => Err(self.wrong(self.at, name, reason(error))),
        }
    }

    fn take_text(&mut self, name: &str) -> Result<(String, usize), Wrong> {
        let count = self.take_count(name)?;
        let text_at = self.at;
        let bytes = self.take_bytes(name, count)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok((text.to_owned(), text_at)),
            Err(error) => Err(self.wrong(text_at + error.valid_up_to(), name, "expected UTF-8")),
        }
    }

    fn take_count(&mut self, name: &str) -> Result<usize, Wrong> {
        let start = self.at;
        let count: u64 = self.take(name)?;
        let left = self.bytes.len() - self.at;
        // Whatever is counted takes a byte at least.
        usize::try_from(count).ok().filter(|count| *count <= left).ok_or_else(|| {
            self.wrong(
                start,
                name,
                format!("it announces {count} bytes or elements where {left} bytes are left"),
            )
        })
    }

    fn take_bytes(&mut self, name: &str, count: usize) -> Result<&'a [u8], Wrong> {
        let Some(bytes) = self.bytes[self.at..].get(..count) else {
            return Err(self.too_short(name));
        };
        self.at += count;
        Ok(bytes)
    }

    fn too_short(&self, name: &str) -> Wrong {
        let begins = offset(self.origins, self.at);
        self.wrong(
            self.bytes.len(),
            name,
            format!("more bytes expected: it begins at byte {begins} and is cut here"),
        )
    }
}

/// Where a structure's byte `at` stands in the input.
pub(super) fn offset(origins: &[Origin], at: usize) -> usize {
    let origin = origins.iter().rfind(|origin| origin.at <= at);
    origin.map_or(at, |origin| origin.offset + at - origin.at)
}

/// Two digits per byte, nothing between.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn reason(error: postcard::Error) -> &'static str {
    match error {
        postcard::Error::DeserializeBadVarint => "expected a number, and it is too long for its kind",
        postcard::Error::DeserializeBadUtf8 => "expected UTF-8",
        postcard::Error::DeserializeBadBool => "expected 0 (no, absent) or 1 (yes, present)",
        postcard::Error::DeserializeBadOption => "expected 0 (absent) or 1 (present)",
        postcard::Error::DeserializeBadEnum => "expected the number of a variant",
        _ => "it has a value that is not allowed",
    }
}
