//! The coordinator over HTTP: `POST /tickets`, answered when the ticket is done or, for `text/event-stream`, as it happens.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Json;
use axum::response::Response;
use axum::response::Sse;
use axum::response::sse::Event;
use axum::response::sse::KeepAlive;
use axum::routing::post;
use futures_util::Stream;
use hermes_peer::ErrorCode;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::coordinator::BEHIND;
use crate::coordinator::Coordinator;
use crate::coordinator::Problem;
use crate::coordinator::Progress;
use crate::coordinator::Report;
use crate::model::Ticket;

/// Largest body: a ticket of twenty pages.
const LARGEST: usize = 64 << 10;
/// Proxies close a connection that is silent for half a minute or more.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Serves until the process ends.
///
/// # Errors
///
/// When the listener fails.
pub(crate) async fn serve(listener: TcpListener, coordinator: Coordinator) -> std::io::Result<()> {
    let desk = Arc::new(Desk { coordinator, taken: AtomicU64::new(0) });
    let router = Router::new()
        .route("/tickets", post(take))
        .method_not_allowed_fallback(|| async {
            refuse(StatusCode::METHOD_NOT_ALLOWED, "tickets are sent with POST")
        })
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "there is nothing here: POST /tickets") })
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(desk);
    axum::serve(listener, router).await
}

#[derive(Debug)]
struct Desk {
    coordinator: Coordinator,
    /// Tickets so far, to name those that have no id.
    taken: AtomicU64,
}

/// Dropped by hyper when the client has gone, and with it every call that runs for the ticket.
async fn take(
    State(desk): State<Arc<Desk>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(refused) if refused.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, &format!("a ticket has {LARGEST} bytes at most"));
        }
        Err(refused) => return refuse(refused.status(), &refused.body_text()),
    };
    let ticket = match read(&headers, &body, &desk.taken) {
        Ok(ticket) => ticket,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    if names(&headers, header::ACCEPT.as_str(), "text/event-stream") {
        let events = events(desk.coordinator.clone(), ticket);
        return Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    }
    // Nobody watches: the receiver is dropped here.
    let (watcher, _) = mpsc::channel(1);
    answer(&desk.coordinator.triage(ticket, watcher).await)
}

/// Whether a header names this media type.
fn names(headers: &HeaderMap, header: &str, media: &str) -> bool {
    headers.get(header).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(media))
}

/// A ticket from JSON, `{"text": …}` and perhaps `id`, or from plain text.
fn read(headers: &HeaderMap, body: &[u8], taken: &AtomicU64) -> Result<Ticket, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        id: Option<String>,
        text: String,
    }
    let is_json =
        names(headers, header::CONTENT_TYPE.as_str(), "json") || body.trim_ascii_start().starts_with(b"{");
    let written = if is_json {
        serde_json::from_slice(body).map_err(|error| format!("the body is no {{\"text\": …}}: {error}"))?
    } else {
        let text = String::from_utf8(body.to_vec()).map_err(|_| "the body is no UTF-8".to_owned())?;
        Written { id: None, text }
    };
    if written.text.trim().is_empty() {
        return Err("the ticket is empty: write what the customer says".to_owned());
    }
    let id = written.id.unwrap_or_else(|| format!("http-{}", taken.fetch_add(1, Ordering::Relaxed) + 1));
    Ok(Ticket { id, text: written.text })
}

fn answer(report: &Report) -> Response {
    let status = report.error.as_ref().map_or(StatusCode::OK, |problem| status_of(problem.code));
    (status, Json(report)).into_response()
}

/// What a failure at the agents means for an HTTP client.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidInput => StatusCode::BAD_REQUEST,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::Overloaded | ErrorCode::RateLimited => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    let code =
        if status == StatusCode::PAYLOAD_TOO_LARGE { ErrorCode::TooLarge } else { ErrorCode::InvalidInput };
    let code = if status == StatusCode::NOT_FOUND { ErrorCode::NotFound } else { code };
    (status, Json(json!({ "error": Problem { code, message: message.to_owned() } }))).into_response()
}

/// The ticket's story as events; dropping it ends the work.
fn events(coordinator: Coordinator, ticket: Ticket) -> impl Stream<Item = Result<Event, Infallible>> {
    let (watcher, progress) = mpsc::channel(BEHIND);
    let work = AbortOnDropHandle::new(tokio::spawn(async move { coordinator.triage(ticket, watcher).await }));
    futures_util::stream::unfold(Some((progress, work)), |state| async {
        let (mut progress, work) = state?;
        match progress.recv().await {
            Some(step) => Some((Ok(event(&step)), Some((progress, work)))),
            None => Some((Ok(last(work.await.ok())), None)),
        }
    })
}

fn event(step: &Progress) -> Event {
    let named = |name: &str, data: serde_json::Value| Event::default().event(name).data(data.to_string());
    match step {
        Progress::Understood(understanding) => named("intent", json!(understanding)),
        Progress::Found(found) => named("passage", json!(found)),
        Progress::Token(token) => named("token", json!(token)),
    }
}

/// The end of a story; a ticket whose task has panicked has no report.
fn last(report: Option<Report>) -> Event {
    let problem = match report {
        Some(Report { error: None, .. }) => {
            return Event::default().event("result").data(json!(report).to_string());
        }
        Some(Report { error: Some(problem), .. }) => problem,
        None => Problem { code: ErrorCode::Internal, message: "the coordinator has failed".to_owned() },
    };
    Event::default().event("error").data(json!(problem).to_string())
}
