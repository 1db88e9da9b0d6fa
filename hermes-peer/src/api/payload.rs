//! From Rust values to bodies and back.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use hermes_peer_proto::wire::ContentType;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;

use crate::api::error::Failure;
use crate::api::items::Items;
use crate::mesh::handler::Answer;
use crate::mesh::handler::Body;
use crate::schema::schema_of;

/// A value as JSON.
pub(crate) fn encode(value: &(impl Serialize + ?Sized), code: ErrorCode) -> Result<Body, Fault> {
    serde_json::to_vec(value)
        .map(Body::json)
        .map_err(|error| Fault::new(code, format!("the value cannot be written as JSON: {error}")))
}

/// A JSON body as a value.
pub(crate) fn decode<T: DeserializeOwned>(body: &Body, code: ErrorCode) -> Result<T, Fault> {
    if body.content_type != ContentType::Json {
        return Err(Fault::new(code, format!("expected JSON, got {:?}", body.content_type)));
    }
    // Read twice where it matters: `parse` refuses what JSON leaves open, such as doubled keys.
    let mut value = crate::schema::parse(&body.bytes).map_err(|error| Fault::new(code, error.to_string()))?;
    crate::schema::spell_integers_plainly(&mut value);
    from_value(&value, code)
}

/// A parsed JSON body as a value; the error names the place.
pub(crate) fn from_value<T: DeserializeOwned>(value: &Value, code: ErrorCode) -> Result<T, Fault> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { "the value".to_owned() } else { format!("`{path}`") };
        Fault::new(code, format!("{place}: {}", error.inner()))
    })
}

/// A type's JSON Schema as text, as it is advertised.
pub(crate) fn schema_text<T: JsonSchema>() -> String {
    schema_of::<T>().to_string()
}

/// What a handler may return: a value, or [`Items`] for a stream of values.
///
/// Implemented for every type that is `Serialize` and `JsonSchema`, for `Items` of such, and for [`Bytes`], which travel
/// as they are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a capability's result",
    note = "derive `serde::Serialize` and `schemars::JsonSchema` for it, or return `Items<T>` for a stream"
)]
pub trait Output: Send + 'static {
    /// Whether the result is a stream.
    const STREAMS: bool;

    /// JSON Schema of the result, or of each item.
    fn schema() -> String;

    /// The result as it goes to the caller.
    ///
    /// # Errors
    /// `INVALID_OUTPUT` if it cannot be written as JSON.
    fn into_reply(self) -> Result<Reply, Failure>;
}

/// How a handler answered.
pub struct Reply(pub(crate) Answer);

impl Reply {
    /// A result that is bytes already.
    pub fn body(body: Body) -> Self {
        Self(Answer::Value(body))
    }

    /// A stream of results that are bytes already.
    pub fn items(items: Items<Body>) -> Self {
        Self(Answer::Stream(items.into_bodies(Ok)))
    }

    /// A question to the caller: `question` in words, the JSON Schema of the answer, and an opaque `state` that comes
    /// back with it.
    pub fn needs_input(question: &str, schema: &Value, state: &str) -> Self {
        let body = serde_json::json!({ "question": question, "schema": schema, "state": state });
        Self(Answer::NeedsInput(Body::json(body.to_string())))
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Answer::Value(_) => "Reply::Value",
            Answer::Stream(_) => "Reply::Stream",
            Answer::NeedsInput(_) => "Reply::NeedsInput",
        })
    }
}

impl<T: Serialize + JsonSchema + Send + 'static> Output for T {
    const STREAMS: bool = false;

    fn schema() -> String {
        schema_text::<T>()
    }

    fn into_reply(self) -> Result<Reply, Failure> {
        encode(&self, ErrorCode::InvalidOutput)
            .map(|body| Reply(Answer::Value(body)))
            .map_err(Failure::of_fault)
    }
}

impl<T: Serialize + JsonSchema + Send + 'static> Output for Items<T> {
    const STREAMS: bool = true;

    fn schema() -> String {
        schema_text::<T>()
    }

    fn into_reply(self) -> Result<Reply, Failure> {
        Ok(Reply(Answer::Stream(self.into_bodies(|item| encode(&item, ErrorCode::InvalidOutput)))))
    }
}

/// A result of bytes without a meaning for Hermes, such as an image: they travel as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is its bytes")]
pub struct Raw(pub Bytes);

impl Output for Raw {
    const STREAMS: bool = false;

    fn schema() -> String {
        String::new()
    }

    fn into_reply(self) -> Result<Reply, Failure> {
        Ok(Reply(Answer::Value(Body::raw(self.0))))
    }
}
