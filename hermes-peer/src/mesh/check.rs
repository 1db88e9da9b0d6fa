//! Bodies against their schemas, both ways.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value;

use hermes_peer_proto::wire::ContentType;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;

use crate::mesh::dispatch::Registered;
use crate::mesh::handler::Body;
use crate::schema::Compiled;
use crate::schema::Violation;
use crate::schema::parse;
use crate::schema::spell_integers_plainly;

/// The input as JSON, if it is, and checked.
pub(crate) fn check_input(body: &Body, registered: &Registered) -> Result<Option<Value>, Fault> {
    let what = format!("the input of `{}`", registered.info.name);
    check_json(body, registered.input.as_ref(), &what, ErrorCode::InvalidInput)
}

pub(crate) fn check_items(
    items: BoxStream<'static, Result<Body, Fault>>,
    registered: Arc<Registered>,
) -> BoxStream<'static, Result<Body, Fault>> {
    items
        .map(move |item| {
            let body = item?;
            let what = format!("an input item of `{}`", registered.info.name);
            check_json(&body, registered.item.as_ref(), &what, ErrorCode::InvalidInput)?;
            Ok(body)
        })
        .boxed()
}

/// What a handler gave: the result, or one item of it.
pub(crate) fn check_result(body: &Body, registered: &Registered) -> Result<(), Fault> {
    let what = format!("the result of `{}`", registered.info.name);
    check_json(body, registered.output.as_ref(), &what, ErrorCode::InvalidOutput).map(drop)
}

fn check_json(
    body: &Body,
    schema: Option<&Compiled>,
    what: &str,
    code: ErrorCode,
) -> Result<Option<Value>, Fault> {
    if body.content_type != ContentType::Json {
        if schema.is_none() {
            return Ok(None);
        }
        let message =
            format!("{what} has to be JSON, as its schema is for that, and is {:?}", body.content_type);
        return Err(Fault::new(code, message));
    }
    let mut value =
        parse(&body.bytes).map_err(|refused| Fault::new(code, format!("{what} is no JSON: {refused}")))?;
    if let Some(schema) = schema {
        schema.check(&value).map_err(|violations| violated(&violations, what, code))?;
        spell_integers_plainly(&mut value);
    }
    Ok(Some(value))
}

fn violated(violations: &[Violation], what: &str, code: ErrorCode) -> Fault {
    let all: Vec<_> = violations.iter().map(ToString::to_string).collect();
    let mut fault = Fault::new(code, format!("{what} does not fit its schema: {}", all.join("; ")));
    fault.details = serde_json::to_string(violations).unwrap_or_default();
    fault
}
