//! The three agents that the coordinator asks: what each of them can do.

use std::sync::Arc;

use hermes_peer::Context;
use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Items;
use hermes_peer::capability;

use crate::generator;
use crate::model::Brief;
use crate::model::Entity;
use crate::model::Intent;
use crate::model::Passage;
use crate::model::Question;
use crate::model::Request;
use crate::model::Ticket;
use crate::model::Token;
use crate::model::Understanding;
use crate::nlu::Nlu;
use crate::remote_model::RemoteModel;
use crate::retrieval::Index;

/// Passages that are cut before the caller has taken the first: the next is ready when it asks.
const AHEAD: usize = 1;

/// Who writes the suggestions.
#[derive(Debug)]
pub(crate) enum Writer {
    /// Lines of the passages, put together by rule.
    Extracts,
    /// A language model.
    Model(Box<RemoteModel>),
}

/// Tells what a customer wants and what the ticket names, and notes both in the session.
#[capability("intent.detect", idempotent, writes = ["intent", "entities"])]
pub(crate) async fn detect(ticket: Ticket, context: Context) -> Result<Understanding, Failure> {
    let nlu: Arc<Nlu> = context.state()?;
    let understood = nlu.understand(&ticket.text);
    let intent = Intent { label: understood.intent.clone(), confidence: understood.confidence };
    context.set_slot("intent", &intent)?;
    context.set_slot("entities", &understood.entities)?;
    Ok(understood)
}

/// Finds the passages of the knowledge base that speak to a question, best first. In a session it also looks for what the
/// slots `intent` and `entities` say.
#[capability("knowledge.retrieve", read_only, idempotent, reads = ["intent", "entities"])]
pub(crate) async fn retrieve(question: Question, context: Context) -> Result<Items<Passage>, Failure> {
    let index: Arc<Index> = context.state()?;
    let noted = understanding(&context)?;
    let (sender, passages) = Items::channel(AHEAD);
    tokio::spawn(async move {
        for passage in index.retrieve(&question, noted.as_ref()) {
            if !sender.send(passage).await {
                return;
            }
        }
    });
    Ok(passages)
}

/// Writes a suggestion for the support engineer from passages of the knowledge base, word by word, and cites them. Needs a
/// session in which `intent.detect` has been called.
#[capability("content.generate", read_only, reads = ["intent", "entities"], cost = 3)]
pub(crate) async fn generate(brief: Brief, context: Context) -> Result<Items<Token>, Failure> {
    let Some(understanding) = understanding(&context)? else {
        let message = "the session has no slot `intent`: call `intent.detect` in the same session first";
        return Err(Failure::with_code(ErrorCode::InvalidInput, message));
    };
    let request = Request { ticket: brief.ticket, understanding, passages: brief.passages };
    match &*context.state::<Writer>()? {
        Writer::Extracts => {
            let text = generator::compose(&request).text;
            Ok(Items::from_iter(generator::tokens(&text).collect::<Vec<_>>()))
        }
        Writer::Model(model) => Ok(Items::from_stream(model.suggest(&request))),
    }
}

/// What the session's slots say of the ticket, if the ticket was looked at in it.
fn understanding(context: &Context) -> Result<Option<Understanding>, Failure> {
    let Some(Intent { label, confidence }) = context.slot("intent")? else { return Ok(None) };
    let entities: Vec<Entity> = context.slot("entities")?.unwrap_or_default();
    Ok(Some(Understanding { intent: label, confidence, entities }))
}
