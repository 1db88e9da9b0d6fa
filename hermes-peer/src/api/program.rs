//! A program as a capability.

use futures_util::StreamExt;

use hermes_peer_proto::wire::CapabilityInfo;
use hermes_peer_proto::wire::Fault;

use crate::api::capability::Capability;
use crate::api::capability::HandlerFuture;
use crate::api::capability::Request;
use crate::api::context::Context;
use crate::api::error::Failure;
use crate::api::payload::Reply;
use crate::mesh::admission::HandlerLimits;
use crate::mesh::handler::Answer;
use crate::mesh::handler::Body;
use crate::mesh::program::Program;
use crate::mesh::program::ProgramError;
use crate::mesh::program::ProgramOutput;

/// Any program as a capability: JSON on stdin; JSON, or JSON lines for a stream, on stdout.
///
/// It is killed with all that it started when its deadline strikes or its caller gives up; its stderr goes to the log.
#[derive(Debug)]
pub struct ProgramCapability {
    program: Program,
    limits: HandlerLimits,
}

impl ProgramCapability {
    /// With the default limits on how many run and wait at once.
    ///
    /// # Errors
    /// [`ProgramError`] if the program is not there or cannot be run.
    pub fn new(program: Program) -> Result<Self, ProgramError> {
        program.check()?;
        Ok(Self { program, limits: HandlerLimits::default() })
    }

    /// How many calls run and wait at once.
    #[must_use]
    pub fn limits(mut self, limits: HandlerLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl Capability for ProgramCapability {
    fn info(&self) -> CapabilityInfo {
        self.program.info().clone()
    }

    fn limits(&self) -> HandlerLimits {
        self.limits
    }

    fn handle(&self, request: Request, context: Context) -> HandlerFuture {
        let program = self.program.clone();
        Box::pin(async move {
            let output = program.run(request.into_bytes(), context.program_call()).await.map_err(failed)?;
            Ok(Reply(match output {
                ProgramOutput::Value(value) => Answer::Value(Body::json(value)),
                ProgramOutput::Lines(lines) => {
                    let items = futures_util::stream::unfold(lines, |mut lines| async move {
                        let line = lines.next().await?;
                        Some((line.map(Body::json).map_err(|error| failed(error).into_fault()), lines))
                    });
                    Answer::Stream(items.boxed())
                }
            }))
        })
    }
}

/// A caller reads how the program ended; what it printed to stderr stays in this node's log.
fn failed(error: ProgramError) -> Failure {
    Failure::of_fault(Fault::new(error.code(), error.to_string()))
}
