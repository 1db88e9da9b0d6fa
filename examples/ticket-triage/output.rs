//! What people see: a ticket and all that happens to it.

use std::fmt::Display;
use std::io;
use std::io::Write;

use anstyle::AnsiColor;
use anstyle::Style;
use hermes_peer::MessageKind;
use hermes_peer::SlotName;

use crate::coordinator::Found;
use crate::coordinator::Progress;
use crate::coordinator::Report;
use crate::model::Ticket;
use crate::model::Understanding;
use crate::score::Score;
use crate::timeline::Entry;

const HEAD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const SLOT: Style = AnsiColor::Cyan.on_default();

/// Items of one stream that are shown one by one at its beginning; of a longer one then only the last.
const FIRST_ITEMS: usize = 5;

/// Writes for people. Colours are written always: a stream that is no terminal drops them.
#[derive(Debug)]
pub(crate) struct Screen<W> {
    out: W,
    /// Whether every line of a timeline is shown.
    is_full: bool,
    stage: Stage,
    /// Whether a line of the suggestion has begun.
    is_line_begun: bool,
}

/// What was written last of the ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Ticket,
    Passages(usize),
    Suggestion,
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W, is_full: bool) -> Self {
        Self { out, is_full, stage: Stage::Ticket, is_line_begun: false }
    }

    /// A ticket as it arrives.
    pub(crate) fn ticket(&mut self, ticket: &Ticket) -> io::Result<()> {
        self.stage = Stage::Ticket;
        writeln!(self.out, "\n{HEAD}{}{HEAD:#}  \"{}\"", clean(&ticket.id), clean(ticket.text.trim()))?;
        self.out.flush()
    }

    /// What has become known of it.
    pub(crate) fn progress(&mut self, progress: &Progress) -> io::Result<()> {
        match progress {
            Progress::Understood(understanding) => self.understood(understanding)?,
            Progress::Found(found) => self.found(found)?,
            Progress::Token(token) => {
                if self.stage != Stage::Suggestion {
                    self.stage = Stage::Suggestion;
                    writeln!(self.out, "\n{HEAD}suggestion{HEAD:#}")?;
                    self.is_line_begun = false;
                }
                self.piece(&clean(&token.text))?;
            }
        }
        self.out.flush()
    }

    fn understood(&mut self, understanding: &Understanding) -> io::Result<()> {
        let Understanding { intent, confidence, entities } = understanding;
        let percent = confidence * 100.0;
        writeln!(
            self.out,
            "\n{HEAD}intent{HEAD:#}      {GOOD}{intent}{GOOD:#}  {FAINT}{percent:.0} % sure{FAINT:#}"
        )?;
        let named = entities.iter().map(|entity| format!("{} {}", entity.kind, clean(&entity.value)));
        let named: Vec<String> = named.collect();
        let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
        writeln!(self.out, "{HEAD}entities{HEAD:#}    {named}")
    }

    fn found(&mut self, found: &Found) -> io::Result<()> {
        let rank = if let Stage::Passages(count) = self.stage { count + 1 } else { 1 };
        if rank == 1 {
            writeln!(self.out, "\n{HEAD}passages{HEAD:#}    {FAINT}score  at ms{FAINT:#}")?;
        }
        self.stage = Stage::Passages(rank);
        let Found { id, title, score, at_ms } = found;
        writeln!(
            self.out,
            "  {rank:>8}  {score:>5.1}  {at_ms:>5.1}  {} {FAINT}({}){FAINT:#}",
            clean(title),
            clean(id)
        )
    }

    /// A piece of the suggestion; lines that say something are indented.
    fn piece(&mut self, text: &str) -> io::Result<()> {
        for part in text.split_inclusive('\n') {
            if !self.is_line_begun && part != "\n" {
                write!(self.out, "  ")?;
            }
            write!(self.out, "{part}")?;
            self.is_line_begun = !part.ends_with('\n');
        }
        Ok(())
    }

    /// The end of a ticket: why it failed if it did, and its timeline.
    pub(crate) fn report(&mut self, report: &Report) -> io::Result<()> {
        if self.stage == Stage::Suggestion {
            writeln!(self.out)?;
        }
        if let Some(problem) = &report.error {
            writeln!(self.out, "\n{BAD}failed{BAD:#}  {}", clean(&problem.message))?;
        }
        if let Some(session) = report.session {
            writeln!(
                self.out,
                "\n{HEAD}timeline{HEAD:#}    {FAINT}session {session}, {} messages{FAINT:#}",
                report.timeline.len()
            )?;
            self.timeline(&report.timeline)?;
        }
        self.out.flush()
    }

    fn timeline(&mut self, entries: &[Entry]) -> io::Result<()> {
        let width =
            |of: fn(&Entry) -> usize, least: usize| entries.iter().map(of).max().unwrap_or(0).max(least);
        let widths = Widths {
            route: width(|entry| route(entry).chars().count(), 0),
            capability: width(|entry| text(entry.capability.as_ref()).len(), 10),
        };
        let Widths { route, capability } = widths;
        writeln!(
            self.out,
            "  {FAINT}{:>8}  {:<route$}  {:<8}  {:<capability$}  {:>8}  slots{FAINT:#}",
            "at ms", "from → to", "type", "capability", "took ms"
        )?;
        for stream in entries.chunk_by(is_same_stream) {
            let hidden = if self.is_full { 0 } else { stream.len().saturating_sub(FIRST_ITEMS + 1) };
            let (first, rest) = stream.split_at(if hidden > 1 { FIRST_ITEMS } else { stream.len() });
            for entry in first {
                self.entry(entry, &widths)?;
            }
            if let Some((last, more)) = rest.split_last() {
                writeln!(
                    self.out,
                    "  {FAINT}{:>8}  {:<route$}  {} more items{FAINT:#}",
                    "⋮",
                    "",
                    more.len()
                )?;
                self.entry(last, &widths)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, widths: &Widths) -> io::Result<()> {
        let Widths { route: route_width, capability: capability_width } = *widths;
        let style = if entry.code.is_some() { BAD } else { Style::new() };
        let took = entry.took_ms.map(|took| format!("{took:.1}")).unwrap_or_default();
        let line = format!(
            "  {:>8.1}  {:<route_width$}  {style}{:<8}{style:#}  {:<capability_width$}  {took:>8}  {}",
            entry.at_ms,
            route(entry),
            entry.kind.to_string(),
            text(entry.capability.as_ref()),
            notes(entry)
        );
        writeln!(self.out, "{}", line.trim_end())
    }

    /// Figures with how they were got.
    pub(crate) fn score(&mut self, score: &Score) -> io::Result<()> {
        let figures = [
            ("intent accuracy", &score.intent_accuracy),
            ("recall at 5", &score.recall_at_5),
            ("possible recall", &score.recall_at_5_possible),
            ("hit at 5", &score.hit_at_5),
        ];
        for (name, figure) in figures {
            writeln!(self.out, "{HEAD}{name:<16}{HEAD:#}{GOOD}{:.3}{GOOD:#}  {}", figure.value, figure.how)?;
        }
        writeln!(self.out, "{FAINT}Measured on {}.{FAINT:#}", score.source)?;
        self.out.flush()
    }
}

struct Widths {
    route: usize,
    capability: usize,
}

fn is_same_stream(one: &Entry, next: &Entry) -> bool {
    let is_item = |entry: &Entry| entry.kind == MessageKind::Item;
    is_item(one) && is_item(next) && one.from == next.from && one.capability == next.capability
}

fn route(entry: &Entry) -> String {
    format!("{} → {}", entry.from, entry.to)
}

fn text(value: Option<&impl Display>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

fn notes(entry: &Entry) -> String {
    let list = |verb: &str, slots: &[SlotName]| {
        let names: Vec<String> = slots.iter().map(|slot| format!("{SLOT}{slot}{SLOT:#}")).collect();
        (!names.is_empty()).then(|| format!("{verb} {}", names.join(", ")))
    };
    let code = entry.code.map(|code| format!("{BAD}{code}{BAD:#}"));
    let notes = [list("reads", &entry.slots_read), list("writes", &entry.slots_written), code];
    notes.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Text from elsewhere without what would move the cursor or colour the screen.
fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() && letter != '\n' { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Token;

    fn item(at_ms: f64) -> Entry {
        Entry {
            at_ms,
            from: "generator-agent-01".parse().unwrap(),
            to: "coordinator-agent-01".parse().unwrap(),
            kind: MessageKind::Item,
            capability: Some("content.generate".parse().unwrap()),
            took_ms: Some(1.0),
            slots_read: Vec::new(),
            slots_written: Vec::new(),
            code: None,
        }
    }

    fn shown(show: impl FnOnce(&mut Screen<&mut Vec<u8>>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        show(&mut Screen::new(&mut out, false)).unwrap();
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
    }

    #[test]
    fn a_long_stream_is_shortened_and_none_of_its_items_is_lost_from_the_count() {
        let entries: Vec<Entry> = (0..100).map(|number| item(f64::from(number))).collect();
        let text = shown(|screen| screen.timeline(&entries));
        assert!(text.contains("94 more items"), "{text}");
        assert_eq!(text.matches("content.generate").count(), 6, "{text}");
        let text = shown(|screen| screen.timeline(&entries[..7]));
        assert_eq!(text.matches("content.generate").count(), 7, "one hidden line saves nothing: {text}");
    }

    #[test]
    fn nothing_that_a_model_or_a_customer_writes_moves_the_cursor() {
        let token = Token { text: "one\n\n\u{1b}[2Jtwo".to_owned() };
        let text = shown(|screen| screen.progress(&Progress::Token(token)));
        assert_eq!(text, "\nsuggestion\n  one\n\n   [2Jtwo");
    }
}
