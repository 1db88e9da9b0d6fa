//! Bodies against their schemas, both ways.

use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value;
use tokio::time::Instant;

use hermes_peer_proto::wire::ContentType;
use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;

use crate::mesh::dispatch::Registered;
use crate::mesh::handler::Answer;
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

/// The handler's answer, checked; of a stream each item as it comes, until the deadline.
pub(crate) fn check_output(
    answer: Answer,
    registered: &Arc<Registered>,
    deadline: Instant,
) -> Result<Answer, Fault> {
    let what = format!("the result of `{}`", registered.info.name);
    Ok(match answer {
        Answer::Value(body) => {
            check_json(&body, registered.output.as_ref(), &what, ErrorCode::InvalidOutput)?;
            Answer::Value(body)
        }
        Answer::NeedsInput(body) => Answer::NeedsInput(body),
        Answer::Stream(items) => {
            let registered = registered.clone();
            let checked = items.map(move |item| {
                let body = item?;
                check_json(&body, registered.output.as_ref(), &what, ErrorCode::InvalidOutput)?;
                Ok(body)
            });
            let over = futures_util::stream::once(async move {
                tokio::time::sleep_until(deadline).await;
                Err(Fault::new(ErrorCode::DeadlineExceeded, "the deadline struck while items still came"))
            });
            Answer::Stream(until_deadline(checked.boxed(), over.boxed()))
        }
    })
}

/// The items, cut off by `over` when that comes first.
fn until_deadline(
    mut items: BoxStream<'static, Result<Body, Fault>>,
    mut over: BoxStream<'static, Result<Body, Fault>>,
) -> BoxStream<'static, Result<Body, Fault>> {
    let mut is_over = false;
    futures_util::stream::poll_fn(move |cx| {
        if is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(item) = items.poll_next_unpin(cx) {
            return Poll::Ready(item);
        }
        let late = std::task::ready!(over.poll_next_unpin(cx));
        is_over = true;
        Poll::Ready(late)
    })
    .boxed()
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
