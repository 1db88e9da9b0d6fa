//! What a call that failed says, and how the command then ends.

use std::fmt::Write as _;

use hermes_peer::CallError;
use hermes_peer::ErrorCode;
use hermes_peer::Node;
use hermes_peer::Violation;
use serde_json::Value;
use serde_json::json;

use crate::exit::Exit;
use crate::exit::Failure;
use crate::output::printable;

/// Violations that are shown; `--json` has them all.
const MAX_VIOLATIONS: usize = 20;

/// The failure of a call of `capability`.
pub(super) fn failure(error: &CallError, capability: &str, node: &Node) -> Failure {
    let mut message = printable(&error.to_string());
    let violations: Vec<Violation> =
        error.details().and_then(|details| serde_json::from_value(details.clone()).ok()).unwrap_or_default();
    for violation in violations.iter().take(MAX_VIOLATIONS) {
        let pointer = if violation.pointer.is_empty() { "(the whole)" } else { &violation.pointer };
        let line = format!("{pointer}: {} ({})", violation.message, violation.rule);
        let _infallible = write!(message, "\n  {}", printable(&line));
    }
    if violations.len() > MAX_VIOLATIONS {
        let _infallible = write!(message, "\n  and {} more", violations.len() - MAX_VIOLATIONS);
    }
    if let (true, Some(details)) = (violations.is_empty(), error.details()) {
        let _infallible = write!(message, "\n  {}", printable(&details.to_string()));
    }
    if let Some(hint) = hint(error, capability, node) {
        let _infallible = write!(message, "\n  {hint}");
    }
    Failure::Told { exit: exit(error.code(), error.node().is_some()), message }
}

/// How the command ends.
fn exit(code: ErrorCode, is_remote: bool) -> Exit {
    match code {
        ErrorCode::DeadlineExceeded => Exit::Deadline,
        // Nobody there, or the link lost before the answer, or a provider that is leaving: all of it may pass.
        ErrorCode::Unavailable | ErrorCode::OutcomeUnknown => Exit::Unreachable,
        _ if is_remote => Exit::Remote,
        // Others are there, and none of them provides it; or what they sent cannot be read.
        ErrorCode::NotFound | ErrorCode::InvalidOutput | ErrorCode::InvalidFrame => Exit::Remote,
        ErrorCode::InvalidInput | ErrorCode::TooLarge | ErrorCode::PermissionDenied => Exit::Usage,
        _ => Exit::Other,
    }
}

fn hint(error: &CallError, capability: &str, node: &Node) -> Option<String> {
    let hint = match error.code() {
        ErrorCode::Unavailable if node.peers().is_empty() => format!(
            "start a provider, such as `hermes-peer serve --capability {capability} -- PROGRAM`; one on another machine \
             stands under `peers` in the configuration"
        ),
        ErrorCode::Unavailable if error.node().is_none() => {
            "`hermes-peer peers` shows who is there; `hermes-peer up` starts \
             the node of a configuration"
                .to_owned()
        }
        ErrorCode::Unavailable if error.may_have_run() => "the call may have run".to_owned(),
        ErrorCode::NotFound => "`hermes-peer caps` shows what can be called".to_owned(),
        ErrorCode::InvalidInput if error.node().is_some() => {
            format!("`hermes-peer caps {capability}` shows the schema")
        }
        ErrorCode::DeadlineExceeded => "--timeout gives it more time".to_owned(),
        ErrorCode::PermissionDenied => format!(
            "a rule in the configuration of {} allows it: `policy: [{{ allow: call, capabilities: [\"{capability}\"], from: \
             [\"{}\"] }}]`; with rules, only what they allow is allowed",
            error.node().map_or("that node", |node| node.as_str()),
            node.agent()
        ),
        _ => match error.retry_after() {
            Some(delay) => format!("try again in {delay:?}"),
            None => return None,
        },
    };
    Some(hint)
}

/// The error for programs.
pub(super) fn json(error: &CallError) -> Value {
    json!({ "error": {
        "code": error.code().name(),
        "message": error.message(),
        "details": error.details(),
        "retryable": error.is_retryable(),
        "retry_after_ms": error.retry_after().map(|delay| delay.as_millis() as u64),
        "node": error.node().map(|node| node.as_str()),
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_says_who_has_to_do_something() {
        // FC-080
        for (code, is_remote, expected) in [
            (ErrorCode::DeadlineExceeded, true, Exit::Deadline),
            (ErrorCode::DeadlineExceeded, false, Exit::Deadline),
            (ErrorCode::Unavailable, false, Exit::Unreachable),
            (ErrorCode::Unavailable, true, Exit::Unreachable),
            (ErrorCode::NotFound, false, Exit::Remote),
            (ErrorCode::NotFound, true, Exit::Remote),
            (ErrorCode::InvalidInput, true, Exit::Remote),
            (ErrorCode::InvalidInput, false, Exit::Usage),
            (ErrorCode::HandlerFailed, true, Exit::Remote),
            (ErrorCode::PermissionDenied, true, Exit::Remote),
            (ErrorCode::Overloaded, false, Exit::Other),
        ] {
            assert_eq!(exit(code, is_remote), expected, "{code} {is_remote}");
        }
    }
}
