//! What could the support engineer do? A suggestion put together from lines of the passages, each with the
//! article that says so. Nothing is made up: where the articles say nothing, so does the suggestion.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashSet;

use crate::markdown;
use crate::model::Passage;
use crate::model::Request;
use crate::model::Suggestion;
use crate::model::Token;
use crate::model::Understanding;
use crate::text;

/// Most lines under one headline: more is the article again.
const LINES: usize = 5;
/// Articles named where none answers: the first few matched by more than chance.
const NEAREST: usize = 2;
/// Below this probability the intent is shown as a guess.
const SURE: f32 = 0.5;
/// Articles and lines with less than this share of the best one's weight are left out: they match by chance.
const STRONG: f32 = 0.6;
/// Longest quotation of the ticket, in bytes: the engineer has the ticket itself beside it.
const QUOTE: usize = 200;
/// Longest line that is taken over, in bytes; longer ones are prose to read in the article.
const LINE: usize = 320;

/// Composes the suggestion for a ticket.
pub(crate) fn compose(request: &Request) -> Suggestion {
    let mut draft = Draft::default();
    draft.opening(request);
    let asked = asked(request);
    let lines = useful_lines(request, &asked);
    let steps = best_procedure(&lines, &asked);
    let is_step = |line: &Line<'_>| steps.iter().any(|step| step.says == line.says);
    let best = lines.iter().map(|line| line.relevance).fold(f32::MIN_POSITIVE, f32::max);
    let least = STRONG * best;
    let rest: Vec<&Line<'_>> =
        lines.iter().filter(|line| line.relevance >= least && !is_step(line)).collect();
    let checks = strongest(rest.iter().filter(|line| line.sort == Sort::Check).copied());
    let facts = strongest(rest.iter().filter(|line| line.sort == Sort::Fact).copied());
    draft.list("Check first", &checks, false);
    draft.list("Steps", &steps, true);
    draft.list("Good to know", &facts, false);
    draft.ending(request)
}

/// The text cut into pieces for a stream; joined again they are the text.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(|letter: char| !letter.is_whitespace()).unwrap_or(rest.len());
        let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |length| word + length);
        let (token, after) = rest.split_at(end);
        rest = after;
        (!token.is_empty()).then(|| Token { text: token.to_owned() })
    })
}

/// A line of a passage that an engineer can use.
#[derive(Debug)]
struct Line<'a> {
    passage: &'a Passage,
    /// The heading above it, empty if there is none.
    heading: &'a str,
    says: &'a str,
    /// Its place in a numbered list.
    number: Option<u32>,
    sort: Sort,
    /// How much of the ticket it speaks to: rare words count more.
    relevance: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Something to make sure of before anything is done.
    Check,
    /// Something to do.
    Step,
    /// Anything else that is true.
    Fact,
}

impl Sort {
    fn of(says: &str, number: Option<u32>) -> Self {
        let first = says.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or("").to_lowercase();
        if CHECKING.contains(&first.as_str()) || says.contains(" must ") {
            Self::Check
        } else if number.is_some() || DOING.contains(&first.as_str()) {
            Self::Step
        } else {
            Self::Fact
        }
    }
}

/// Verbs that begin a check.
const CHECKING: [&str; 8] = ["verify", "confirm", "check", "ensure", "review", "identify", "examine", "find"];
/// Verbs that begin a step.
const DOING: [&str; 36] = [
    "ask", "use", "tell", "inform", "explain", "offer", "open", "select", "choose", "go", "tap", "enter",
    "log", "contact", "call", "submit", "send", "order", "freeze", "unlock", "apply", "request", "provide",
    "follow", "note", "record", "process", "retrieve", "look", "navigate", "file", "transfer", "wait", "try",
    "set", "update",
];

fn useful_lines<'a>(request: &'a Request, asked: &BTreeSet<String>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let mut said = HashSet::new();
    let passages = &request.passages;
    let best = passages.iter().map(|passage| passage.score).fold(0.0, f32::max);
    for passage in passages.iter().filter(|passage| passage.score >= STRONG * best) {
        let mut heading = "";
        for line in passage.text.lines() {
            if line.ends_with(':') && markdown::item(line).is_none() {
                heading = line;
            }
            let (says, number) = markdown::item(line).unwrap_or((line, None));
            // Headings, questions, rows of tables, quoted scripts and gaps in a template are no advice by themselves.
            let is_advice = !says.ends_with([':', '?', '…'])
                && ![" | ", "not available]"].iter().any(|mark| says.contains(mark))
                && says.starts_with(char::is_alphanumeric);
            if is_advice && says.len() <= LINE && said.insert(says) {
                lines.push(Line {
                    passage,
                    heading,
                    says,
                    number,
                    sort: Sort::of(says, number),
                    relevance: 0.0,
                });
            }
        }
    }
    rate(&mut lines, asked);
    lines
}

/// Weighs each line by the words that it shares with the ticket and its intent; one alone is chance.
fn rate(lines: &mut [Line<'_>], asked: &BTreeSet<String>) {
    let shared: Vec<Vec<String>> =
        lines.iter().map(|line| stems(line.says).intersection(asked).cloned().collect()).collect();
    let mut having: BTreeMap<&str, f32> = BTreeMap::new();
    for stem in shared.iter().flatten() {
        *having.entry(stem).or_default() += 1.0;
    }
    let all = lines.len() as f32 + 1.0;
    for (line, stems) in lines.iter_mut().zip(&shared).filter(|(_, stems)| stems.len() > 1) {
        line.relevance = stems.iter().map(|stem| (all / having[stem.as_str()]).ln()).sum();
    }
}

/// The words that count of a ticket and its intent.
fn asked(request: &Request) -> BTreeSet<String> {
    stems(&format!("{} {}", request.ticket.text, phrase(&request.understanding.intent)))
}

/// Sorted, so that sums over them come out the same every time.
fn stems(text: &str) -> BTreeSet<String> {
    text::terms(text).into_iter().collect()
}

/// What to do comes whole from one section, in its order: half of one procedure and half of another is none. It
/// is the section whose headings have most of what was asked; of equals the one that was found first.
fn best_procedure<'a>(lines: &'a [Line<'a>], asked: &BTreeSet<String>) -> Vec<&'a Line<'a>> {
    let sections = lines.chunk_by(|a, b| a.passage.id == b.passage.id && a.heading == b.heading);
    let procedures = sections.map(|section| {
        let Line { passage, heading, .. } = &section[0];
        let fit = stems(&format!("{} {heading}", passage.title)).intersection(asked).count();
        // One word in common may be chance, except in the article that was found first.
        let fits = fit > 1 || (fit == 1 && passage.id == lines[0].passage.id);
        (fit, if fits { procedure(section) } else { Vec::new() })
    });
    let usable: Vec<_> = procedures.filter(|(_, steps)| steps.len() > 1).collect();
    usable.into_iter().rev().max_by_key(|(fit, _)| *fit).map(|(_, steps)| steps).unwrap_or_default()
}

/// The first numbered list of a section, or else what reads like steps.
fn procedure<'a>(lines: &'a [Line<'a>]) -> Vec<&'a Line<'a>> {
    let mut list: Vec<&Line<'_>> = Vec::new();
    // A list of conditions is no procedure.
    let is_numbered = |line: &&Line<'_>| line.number.is_some() && !line.says.contains(" must ");
    for line in lines.iter().filter(is_numbered) {
        let continues = list.last().is_none_or(|last| last.number < line.number);
        if continues {
            list.push(line);
        } else if list.len() > 1 {
            break;
        }
    }
    if list.len() < 2 {
        list = lines.iter().filter(|line| line.sort == Sort::Step).collect();
    }
    list.truncate(LINES);
    list
}

/// The most relevant lines, best first.
fn strongest<'a>(lines: impl Iterator<Item = &'a Line<'a>>) -> Vec<&'a Line<'a>> {
    let mut lines: Vec<&Line<'_>> = lines.collect();
    lines.sort_by(|a, b| b.relevance.total_cmp(&a.relevance));
    lines.truncate(LINES - 2);
    lines
}

/// The suggestion so far.
#[derive(Debug, Default)]
struct Draft {
    text: String,
    cites: Vec<String>,
}

impl Draft {
    fn opening(&mut self, request: &Request) {
        let Understanding { intent, confidence, entities } = &request.understanding;
        let (about, percent) = (phrase(intent), confidence * 100.0);
        self.text += &if *confidence < SURE {
            format!(
                "The customer may be writing about \"{about}\" ({percent:.0} % sure; read the ticket before you act)"
            )
        } else {
            format!("The customer writes about \"{about}\" ({percent:.0} % sure)")
        };
        self.text += &format!(": {}\n", quote(&request.ticket.text));
        if !entities.is_empty() {
            let named: Vec<String> =
                entities.iter().map(|entity| format!("{} {}", entity.kind, entity.value)).collect();
            self.text += &format!("Named in the ticket: {}.\n", named.join(", "));
        }
    }

    fn list(&mut self, headline: &str, lines: &[&Line<'_>], numbered: bool) {
        if lines.is_empty() {
            return;
        }
        self.text += &format!("\n{headline}\n");
        for (number, line) in (1..).zip(lines) {
            let mark = if numbered { format!("{number}.") } else { "-".to_owned() };
            let cite = self.cite(&line.passage.id);
            self.text += &format!("{mark} {} [{cite}]\n", line.says);
        }
    }

    /// The number that an article has in this suggestion.
    fn cite(&mut self, id: &str) -> usize {
        let place = self.cites.iter().position(|other| other == id).unwrap_or_else(|| {
            self.cites.push(id.to_owned());
            self.cites.len() - 1
        });
        place + 1
    }

    fn ending(mut self, request: &Request) -> Suggestion {
        if request.passages.is_empty() {
            self.text += "\nThe knowledge base has nothing to say on this. Ask the customer for details, or pass the \
                          ticket on to a colleague who knows the subject.\n";
        } else if self.cites.is_empty() {
            self.text += "\nNo article answers this directly; these are the nearest. Ask the customer for details \
                          before you rely on them.\n\nSources\n";
            self.cites = request.passages.iter().take(NEAREST).map(|passage| passage.id.clone()).collect();
        } else {
            self.text += "\nSources\n";
        }
        for (number, id) in (1..).zip(&self.cites) {
            let title = request
                .passages
                .iter()
                .find(|passage| passage.id == *id)
                .map_or("", |passage| &passage.title);
            self.text += &format!("[{number}] {title} ({id})\n");
        }
        Suggestion { text: self.text.trim_end().to_owned(), cites: self.cites }
    }
}

/// An intent's label in words: `pin_blocked` is `PIN blocked`.
fn phrase(intent: &str) -> String {
    let words = intent.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let written = words.map(|word| match word.to_lowercase().as_str() {
        short @ ("pin" | "atm") => short.to_uppercase(),
        name @ ("visa" | "mastercard" | "apple" | "google") => {
            format!("{}{}", name[..1].to_uppercase(), &name[1..])
        }
        other => other.to_owned(),
    });
    written.collect::<Vec<_>>().join(" ")
}

/// The ticket's words in quotation marks, on one line.
fn quote(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= QUOTE {
        return format!("\"{line}\"");
    }
    format!("\"{} …\"", line[..line.floor_char_boundary(QUOTE)].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Entity;
    use crate::model::EntityKind;
    use crate::model::Ticket;

    fn passage(id: &str, text: &str) -> Passage {
        Passage { id: id.into(), title: format!("About {id}"), text: text.into(), score: 1.0 }
    }

    fn request(passages: Vec<Passage>) -> Request {
        Request {
            ticket: Ticket { id: "1".into(), text: "My card was stolen yesterday.".into() },
            understanding: Understanding {
                intent: "lost_or_stolen_card".into(),
                confidence: 0.93,
                entities: vec![Entity { kind: EntityKind::Problem, value: "stolen".into() }],
            },
            passages,
        }
    }

    #[test]
    fn a_suggestion_says_what_is_wanted_what_to_check_what_to_do_and_where_it_is_written() {
        let suggestion = compose(&request(vec![
            passage("facts", "Costs:\nA stolen card costs nothing to replace."),
            passage("stolen-card", "Freezing:\n1. Ask when it was seen last\n2. Freeze the card"),
            passage("checks", "- Check that the card is stolen, not mislaid\n- Feed the cat"),
        ]));
        let expected = "\
The customer writes about \"lost or stolen card\" (93 % sure): \"My card was stolen yesterday.\"
Named in the ticket: problem stolen.

Check first
- Check that the card is stolen, not mislaid [1]

Steps
1. Ask when it was seen last [2]
2. Freeze the card [2]

Good to know
- A stolen card costs nothing to replace. [3]

Sources
[1] About checks (checks)
[2] About stolen-card (stolen-card)
[3] About facts (facts)";
        assert_eq!(suggestion.text, expected);
        assert_eq!(suggestion.cites, ["checks", "stolen-card", "facts"]);
    }

    #[test]
    fn without_passages_nothing_is_made_up() {
        let suggestion = compose(&request(Vec::new()));
        assert!(suggestion.text.contains("has nothing to say on this"), "{}", suggestion.text);
        assert_eq!(suggestion.cites, [""; 0]);
    }

    #[test]
    fn articles_that_answer_nothing_are_named_as_the_nearest_only() {
        let suggestion =
            compose(&request(vec![passage("a", "Lunch is at noon."), passage("b", "So is tea.")]));
        assert!(suggestion.text.contains("No article answers this directly"), "{}", suggestion.text);
        assert!(!suggestion.text.contains("Lunch"), "{}", suggestion.text);
        assert_eq!(suggestion.cites, ["a", "b"]);
    }

    #[test]
    fn an_unsure_intent_is_shown_as_a_guess() {
        let mut request = request(Vec::new());
        request.understanding.confidence = 0.3;
        assert!(compose(&request).text.starts_with("The customer may be writing about"));
    }

    #[test]
    fn tokens_joined_are_the_text() {
        let text = " Steps\n1.  Freeze the card [1]\n\n…end \n";
        let tokens: Vec<Token> = tokens(text).collect();
        assert_eq!(tokens.iter().map(|token| token.text.as_str()).collect::<String>(), text);
        assert_eq!(tokens[0].text, " Steps");
        assert_eq!(tokens[2].text, "  Freeze");
    }

    #[test]
    fn labels_become_words() {
        assert_eq!(phrase("reverted_card_payment?"), "reverted card payment");
        assert_eq!(phrase("change_pin"), "change PIN");
    }
}
