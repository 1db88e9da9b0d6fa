//! Takes a ticket through the three agents, in one session.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use hermes_peer::CallError;
use hermes_peer::ErrorCode;
use hermes_peer::Node;
use hermes_peer::Session;
use hermes_peer::SessionId;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::model::Brief;
use crate::model::Entity;
use crate::model::Passage;
use crate::model::Question;
use crate::model::Ticket;
use crate::model::Token;
use crate::model::Understanding;
use crate::timeline;
use crate::timeline::Entry;

/// Until the agents are there: in a debug build training takes ten seconds, on a busy machine several times that.
const START: Duration = Duration::from_secs(120);
/// How long a ticket waits for an agent that has gone: it is started again, and has to be trained again.
const RETURN: Duration = Duration::from_secs(30);
/// A language model writes slowly; all else is done in the default time.
const WRITING: Duration = Duration::from_secs(120);
/// Steps that a watcher may be behind; then the ticket waits for it.
pub(crate) const BEHIND: usize = 64;

/// The agent that the tickets come to.
#[derive(Debug, Clone)]
pub(crate) struct Coordinator {
    node: Node,
}

/// Something that has become known about a ticket.
#[derive(Debug)]
pub(crate) enum Progress {
    /// What it is about.
    Understood(Understanding),
    /// A passage, best first.
    Found(Found),
    /// The next piece of the suggestion.
    Token(Token),
}

/// A passage as it is shown.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Found {
    /// The article.
    pub(crate) id: String,
    /// Its title.
    pub(crate) title: String,
    /// How well it matches.
    pub(crate) score: f32,
    /// When it came, in milliseconds since the session began.
    pub(crate) at_ms: f64,
}

/// All that came of a ticket.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) ticket: Ticket,
    pub(crate) session: Option<SessionId>,
    pub(crate) intent: Option<String>,
    pub(crate) entities: Vec<Entity>,
    pub(crate) passages: Vec<Found>,
    pub(crate) suggestion: String,
    pub(crate) tokens: usize,
    pub(crate) timeline: Vec<Entry>,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Problem>,
}

/// Why a ticket was not finished.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Problem {
    /// What kind of failure.
    pub(crate) code: ErrorCode,
    /// What failed, where, and why.
    pub(crate) message: String,
}

impl Coordinator {
    pub(crate) fn new(node: Node) -> Self {
        Self { node }
    }

    /// Waits until all three agents are there.
    ///
    /// # Errors
    ///
    /// When one does not come.
    pub(crate) async fn wait_for_agents(&self) -> Result<(), CallError> {
        for capability in ["intent.detect", "knowledge.retrieve", "content.generate"] {
            self.node.wait_for(capability, START).await?;
        }
        Ok(())
    }

    /// Tells the other agents that this one goes.
    pub(crate) async fn leave(self) {
        self.node.shutdown().await;
    }

    /// Takes a ticket through all agents. Whoever watches gets each step as it happens; dropping the future ends the work
    /// at the agents too.
    pub(crate) async fn triage(&self, ticket: Ticket, watcher: mpsc::Sender<Progress>) -> Report {
        let mut report = Report {
            ticket,
            session: None,
            intent: None,
            entities: Vec::new(),
            passages: Vec::new(),
            suggestion: String::new(),
            tokens: 0,
            timeline: Vec::new(),
            error: None,
        };
        let (begin, clock) = (SystemTime::now(), Instant::now());
        let session = match self.node.open_session() {
            Ok(session) => session,
            Err(error) => {
                report.error = Some(Problem::of("opening a session", &error));
                return report;
            }
        };
        report.session = Some(session.id());
        let ended = Work { node: &self.node, session: &session, clock, watcher }.run(&mut report).await;
        report.error = ended.err();
        report.timeline = timeline::entries(self.node.id(), begin, &self.node.timeline(session.id()));
        session.close();
        report
    }
}

impl Problem {
    fn of(step: &str, error: &CallError) -> Self {
        Self { code: error.code(), message: format!("{step} failed: {error}") }
    }
}

/// A ticket on its way.
struct Work<'a> {
    node: &'a Node,
    session: &'a Session,
    clock: Instant,
    watcher: mpsc::Sender<Progress>,
}

impl Work<'_> {
    async fn run(&self, report: &mut Report) -> Result<(), Problem> {
        let failed = |error: CallError| Problem::of("intent.detect", &error);
        let understood = self.detect(&report.ticket).await.map_err(failed)?;
        report.intent = Some(understood.intent.clone());
        report.entities.clone_from(&understood.entities);
        self.tell(Progress::Understood(understood)).await;

        let failed = |error: CallError| Problem::of("knowledge.retrieve", &error);
        let passages = self.retrieve(report).await.map_err(failed)?;
        let failed = |error: CallError| Problem::of("content.generate", &error);
        self.generate(report, passages).await.map_err(failed)
    }

    async fn detect(&self, ticket: &Ticket) -> Result<Understanding, CallError> {
        self.node.call("intent.detect", ticket).session(self.session).wait_for_provider(RETURN).await
    }

    async fn retrieve(&self, report: &mut Report) -> Result<Vec<Passage>, CallError> {
        let question = Question::new(&report.ticket.text);
        let call = self.node.call("knowledge.retrieve", &question).session(self.session);
        let mut arriving = call.wait_for_provider(RETURN).stream::<Passage>().await?;
        let mut passages = Vec::new();
        while let Some(passage) = arriving.next().await {
            let passage = passage?;
            let found = Found {
                id: passage.id.clone(),
                title: passage.title.clone(),
                score: passage.score,
                at_ms: timeline::millis(self.clock.elapsed().as_secs_f64()),
            };
            report.passages.push(found.clone());
            passages.push(passage);
            self.tell(Progress::Found(found)).await;
        }
        Ok(passages)
    }

    async fn generate(&self, report: &mut Report, passages: Vec<Passage>) -> Result<(), CallError> {
        let brief = Brief { ticket: report.ticket.clone(), passages };
        let call = self.node.call("content.generate", &brief).session(self.session);
        let mut tokens = call.wait_for_provider(RETURN).timeout(WRITING).stream::<Token>().await?;
        while let Some(token) = tokens.next().await {
            let token = token?;
            report.suggestion += &token.text;
            report.tokens += 1;
            self.tell(Progress::Token(token)).await;
        }
        Ok(())
    }

    /// The work goes on when nobody watches.
    async fn tell(&self, progress: Progress) {
        let _nobody_watches = self.watcher.send(progress).await;
    }
}
