//! How a call ends when it does not end in a result, and what is kept in mind of it.

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::NodeId;
use hermes_peer_proto::wire::Payload;

use crate::link::StreamLost;
use crate::mesh::call::Exchange;
use crate::mesh::call::Route;
use crate::mesh::call::Verdict;
use crate::mesh::call::ended_already;
use crate::observe::MessageKind;

/// What a caller reads when the deadline strikes a stream of items.
pub(super) const STILL_ITEMS: &str = "the deadline struck while items still came";

impl Exchange {
    pub(super) fn failed(&mut self, body: &[u8]) -> Fault {
        let mut fault = Fault::decode(body)
            .unwrap_or_else(|error| Fault::new(ErrorCode::InvalidFrame, format!("the answer's {error}")));
        if let Route::Remote(remote) = &self.route {
            fault.node.get_or_insert_with(|| remote.peer.node.clone());
        }
        self.observe(MessageKind::Error, body.len(), Some(fault.code), Vec::new());
        let is_providers_fault = matches!(
            fault.code,
            ErrorCode::Internal | ErrorCode::HandlerPanicked | ErrorCode::Overloaded | ErrorCode::Unavailable
        );
        self.conclude(!is_providers_fault);
        fault
    }

    pub(super) fn lost(&mut self, lost: &StreamLost) -> Verdict {
        let Route::Remote(remote) = &self.route else { return Verdict::Part(Err(ended_already())) };
        let (node, info) = (remote.peer.node.clone(), remote.info.clone());
        let may_have_run = matches!(lost, StreamLost::LinkEnded { may_have_run: true, .. });
        if *lost == StreamLost::NotTaken {
            // A provider that is shut down as it should be has not failed.
            remote.stream.conclude();
            remote.peer.score.forget();
            self.is_over = true;
            self.was_not_taken(&node);
        } else {
            self.conclude(false);
        }
        let is_repeatable = !may_have_run || info.facts.idempotent || info.facts.read_only;
        if !self.is_committed && is_repeatable {
            return Verdict::SendElsewhere;
        }
        let why = match lost {
            StreamLost::NotTaken => "it takes no new calls".to_owned(),
            StreamLost::LinkEnded { why, .. } => why.clone(),
        };
        let message = format!("the link to {node} ended before the answer: {why}");
        let mut fault = Fault::new(ErrorCode::Unavailable, message);
        fault.may_have_run = may_have_run;
        fault.node = Some(node);
        Verdict::Part(Err(fault))
    }

    /// A link that did not take the call says nothing about the peer, which may have another one the next moment.
    pub(super) fn was_not_taken(&mut self, node: &NodeId) {
        self.tried.retain(|tried| tried != node);
    }

    /// The rest of the answer is of no use.
    pub(super) fn give_up(&mut self) {
        if let Route::Remote(remote) = &self.route {
            remote.stream.cancel(ErrorCode::Cancelled);
            remote.peer.score.forget();
        }
        self.is_over = true;
    }

    /// Bookkeeping for a remote call that is over.
    pub(super) fn conclude(&mut self, is_good: bool) {
        let Route::Remote(remote) = &self.route else { return };
        remote.stream.conclude();
        remote.peer.score.finish(is_good.then(|| remote.started.elapsed()));
        self.is_over = true;
    }

    pub(super) fn expire(&mut self) -> Fault {
        let mut fault =
            Fault::new(ErrorCode::DeadlineExceeded, "the deadline struck while no provider was found");
        if let Route::Remote(remote) = &self.route {
            remote.stream.cancel(ErrorCode::DeadlineExceeded);
            remote.peer.score.finish(None);
            fault.message = format!("the deadline struck while {} was at work", remote.peer.node);
            fault.node = Some(remote.peer.node.clone());
            fault.may_have_run = true;
            self.is_over = true;
            self.observe(MessageKind::Error, 0, Some(ErrorCode::DeadlineExceeded), Vec::new());
        } else if let Route::LocalItems(_) = &self.route {
            STILL_ITEMS.clone_into(&mut fault.message);
            fault.may_have_run = true;
            self.is_over = true;
        }
        fault
    }
}
