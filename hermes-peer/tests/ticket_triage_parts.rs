//! The unit tests that stand in the parts of the example `ticket-triage`: cargo builds an example together with the tests,
//! and runs none that are in it.
#![expect(dead_code, reason = "the parts are whole only in the example")]

#[path = "../../examples/ticket-triage/completion.rs"]
mod completion;
#[path = "../../examples/ticket-triage/coordinator.rs"]
mod coordinator;
#[path = "../../examples/ticket-triage/data.rs"]
mod data;
#[path = "../../examples/ticket-triage/entities.rs"]
mod entities;
#[path = "../../examples/ticket-triage/generator.rs"]
mod generator;
#[path = "../../examples/ticket-triage/markdown.rs"]
mod markdown;
#[path = "../../examples/ticket-triage/model.rs"]
mod model;
#[path = "../../examples/ticket-triage/nlu.rs"]
mod nlu;
#[path = "../../examples/ticket-triage/output.rs"]
mod output;
#[path = "../../examples/ticket-triage/remote_model.rs"]
mod remote_model;
#[path = "../../examples/ticket-triage/retrieval.rs"]
mod retrieval;
#[path = "../../examples/ticket-triage/score.rs"]
mod score;
#[path = "../../examples/ticket-triage/text.rs"]
mod text;
#[path = "../../examples/ticket-triage/timeline.rs"]
mod timeline;
