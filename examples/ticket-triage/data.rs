//! Where tickets and articles come from: the data sets beside the repository, or else the small set in `data/`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::model::Ticket;
use crate::nlu::Example;
use crate::retrieval::Document;

/// Of the repository's own tickets, one in so many is kept for the test; every intent has four in a row.
const TEST_SHARE: usize = 4;
/// Tickets up to this many bytes are shown before longer ones: two lines on a screen.
const SHOWN: usize = 180;
/// More tickets than this in a file are a mistake, and each of them becomes a session.
const MOST_TICKETS: usize = 10_000;

/// A set of tickets with their intents, and a knowledge base with questions to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Data {
    /// Banking77 and the bank knowledge base, in a folder beside the repository.
    Shared(PathBuf),
    /// The few lines that the repository ships.
    Own,
}

/// A situation of a customer, with the articles that help him.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Situation {
    /// Told in the words of the data set.
    pub(crate) situation: String,
    /// Ids of all articles that an answer needs.
    pub(crate) required_documents: Vec<String>,
}

/// Which tickets to triage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tickets {
    /// So many from the test half, of different intents as far as there are.
    First(usize),
    /// All from a file, one on each line: plain text, or JSON with `text` and perhaps `id`.
    File(PathBuf),
}

impl FromStr for Tickets {
    type Err = std::convert::Infallible;

    /// A number is a count, all else is the name of a file.
    fn from_str(given: &str) -> Result<Self, Self::Err> {
        Ok(given.parse().map_or_else(|_| Self::File(given.into()), Self::First))
    }
}

impl Data {
    /// The shared data if both sets are there, else the repository's own.
    pub(crate) fn locate() -> Self {
        let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
        let has = |folder: &str| shared.join(folder).is_dir();
        if has("banking77") && has("bank-knowledge") { Self::Shared(shared) } else { Self::Own }
    }

    /// What to tell readers of any figure about its source.
    pub(crate) fn source(&self) -> &'static str {
        match self {
            Self::Shared(_) => {
                "Banking77 (Casanueva et al., Efficient Intent Detection with Dual Sentence Encoders, 2020, CC BY 4.0) \
                 and the banking knowledge base of tau2-bench (Sierra Research, MIT)"
            }
            Self::Own => "the repository's own small set of tickets and articles",
        }
    }

    /// Tickets to learn intents from.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or a line is not what it should be; so for all below.
    pub(crate) fn training(&self) -> Result<Vec<Example>, DataError> {
        match self {
            Self::Shared(folder) => read_csv(&folder.join("banking77/train.csv")),
            Self::Own => own_tickets(|place| place % TEST_SHARE != 0),
        }
    }

    /// Tickets that training has not seen.
    pub(crate) fn test(&self) -> Result<Vec<Example>, DataError> {
        match self {
            Self::Shared(folder) => read_csv(&folder.join("banking77/test.csv")),
            Self::Own => own_tickets(|place| place % TEST_SHARE == 0),
        }
    }

    /// The articles of the knowledge base.
    pub(crate) fn documents(&self) -> Result<Vec<Document>, DataError> {
        self.lines("documents.jsonl", include_str!("data/documents.jsonl"))
    }

    /// Situations with the articles that each needs.
    pub(crate) fn situations(&self) -> Result<Vec<Situation>, DataError> {
        self.lines("questions.jsonl", include_str!("data/questions.jsonl"))
    }

    /// The tickets chosen.
    pub(crate) fn tickets(&self, which: &Tickets) -> Result<Vec<Ticket>, DataError> {
        match which {
            Tickets::First(count) => Ok(varied(&self.test()?, *count)),
            Tickets::File(file) => read_tickets(file),
        }
    }

    fn lines<T: DeserializeOwned>(&self, name: &str, own: &str) -> Result<Vec<T>, DataError> {
        match self {
            Self::Shared(folder) => {
                let file = folder.join("bank-knowledge").join(name);
                json_lines(&file, &read(&file)?)
            }
            Self::Own => json_lines(Path::new(name), own),
        }
    }
}

fn own_tickets(wanted: impl Fn(usize) -> bool) -> Result<Vec<Example>, DataError> {
    let all: Vec<Example> = json_lines(Path::new("tickets.jsonl"), include_str!("data/tickets.jsonl"))?;
    Ok(all.into_iter().enumerate().filter(|(place, _)| wanted(*place)).map(|(_, example)| example).collect())
}

/// One ticket of each intent, then a second of each, and so on; of each intent the one that says most comes
/// first. The choice is the same every time.
fn varied(examples: &[Example], count: usize) -> Vec<Ticket> {
    let mut by_length: Vec<(usize, &Example)> = examples.iter().enumerate().collect();
    by_length.sort_by_key(|(_, example)| Reverse(Some(example.text.len()).filter(|length| *length <= SHOWN)));
    let mut used = HashMap::<&str, usize>::new();
    let mut rounds: Vec<(usize, usize, &Example)> = Vec::with_capacity(examples.len());
    for (place, example) in by_length {
        let round = used.entry(&example.intent).or_default();
        // Intents that are neighbours in the file are of one kind; the multiplication scatters them (Knuth).
        rounds.push((*round, place.wrapping_mul(2_654_435_761) % 4_294_967_296, example));
        *round += 1;
    }
    rounds.sort_by_key(|(round, scattered, _)| (*round, *scattered));
    let chosen = rounds.into_iter().take(count).map(|(_, _, example)| example.text.clone());
    (1..).zip(chosen).map(|(number, text)| Ticket { id: format!("ticket-{number:02}"), text }).collect()
}

fn read_tickets(file: &Path) -> Result<Vec<Ticket>, DataError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        id: Option<String>,
        text: String,
    }
    let mut tickets = Vec::new();
    for (place, line) in (1..).zip(read(file)?.lines()) {
        let wrong = |what: String| DataError { file: file.into(), line: Some(place), what };
        let written = match line.trim() {
            "" => continue,
            json if json.starts_with('{') => serde_json::from_str(json).map_err(|e| wrong(e.to_string()))?,
            plain => Written { id: None, text: plain.to_owned() },
        };
        if written.text.trim().is_empty() {
            return Err(wrong("the text of this ticket is empty: write what the customer says".into()));
        }
        if tickets.len() == MOST_TICKETS {
            return Err(wrong(format!("more than {MOST_TICKETS} tickets: split the file")));
        }
        let id = written.id.unwrap_or_else(|| format!("ticket-{:02}", tickets.len() + 1));
        tickets.push(Ticket { id, text: written.text });
    }
    if tickets.is_empty() {
        let what = "no ticket in it: write one on each line".to_owned();
        return Err(DataError { file: file.into(), line: None, what });
    }
    Ok(tickets)
}

fn read(file: &Path) -> Result<String, DataError> {
    fs::read_to_string(file).map_err(|error| DataError {
        file: file.into(),
        line: None,
        what: error.to_string(),
    })
}

fn json_lines<T: DeserializeOwned>(file: &Path, text: &str) -> Result<Vec<T>, DataError> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let parse = |(place, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| DataError {
            file: file.into(),
            line: Some(place),
            what: error.to_string(),
        })
    };
    lines.map(parse).collect()
}

fn read_csv(file: &Path) -> Result<Vec<Example>, DataError> {
    let mut examples = Vec::new();
    // The first row names the columns.
    for (place, row) in rows(&read(file)?).into_iter().skip(1) {
        let wrong = |row: Vec<String>| DataError {
            file: file.into(),
            line: Some(place),
            what: format!("{} fields in this row instead of 2, text and category", row.len()),
        };
        let [text, intent] = <[String; 2]>::try_from(row).map_err(wrong)?;
        examples.push(Example { text: text.trim().to_owned(), intent });
    }
    Ok(examples)
}

/// The rows of a CSV file (RFC 4180), each with the line where it begins. Fields in quotes may hold commas, line
/// breaks, and quotes written twice.
fn rows(csv: &str) -> Vec<(usize, Vec<String>)> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut begin, mut quoted) = (1, 1, false);
    let mut letters = csv.chars().peekable();
    while let Some(letter) = letters.next() {
        line += usize::from(letter == '\n');
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => field.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted && letters.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push((begin, std::mem::take(&mut row)));
                begin = line;
            }
            other => field.push(other),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push((begin, row));
    }
    rows
}

/// A file of tickets or articles that cannot be used.
#[derive(Debug)]
pub(crate) struct DataError {
    file: PathBuf,
    line: Option<usize>,
    what: String,
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what } = self;
        match line {
            Some(line) => write!(f, "{}:{line}: {what}", file.display()),
            None => write!(f, "{}: {what}", file.display()),
        }
    }
}

impl Error for DataError {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn quoted_fields_hold_commas_quotes_and_line_breaks() {
        let csv = "text,category\n\"Well, \"\"why\"\"\nnot?\",a\r\nplain,b";
        assert_eq!(
            rows(csv),
            [
                (1, vec!["text".into(), "category".into()]),
                (2, vec!["Well, \"why\"\nnot?".into(), "a".into()]),
                (4, vec!["plain".into(), "b".to_owned()]),
            ]
        );
    }

    #[test]
    fn the_first_tickets_are_of_different_intents_and_the_same_every_time() {
        let test = Data::Own.test().unwrap();
        let intents: HashSet<&str> = test.iter().map(|example| example.intent.as_str()).collect();
        let tickets = varied(&test, intents.len());
        let of = |ticket: &Ticket| &test.iter().find(|example| example.text == ticket.text).unwrap().intent;
        assert_eq!(tickets.iter().map(of).collect::<HashSet<_>>().len(), intents.len());
        assert_eq!(tickets, varied(&test, intents.len()));
    }

    #[test]
    fn own_questions_ask_for_articles_that_exist_and_every_intent_can_be_learned() {
        let ids: HashSet<String> =
            Data::Own.documents().unwrap().into_iter().map(|document| document.id).collect();
        for Situation { situation, required_documents } in Data::Own.situations().unwrap() {
            assert!(required_documents.iter().all(|id| ids.contains(id)), "{situation}");
        }
        let learned: HashSet<String> = Data::Own.training().unwrap().into_iter().map(|e| e.intent).collect();
        let asked: HashSet<String> = Data::Own.test().unwrap().into_iter().map(|e| e.intent).collect();
        assert_eq!(learned, asked);
    }

    #[test]
    fn a_file_of_tickets_may_mix_text_and_json() {
        let file = std::env::temp_dir().join(format!("hermes-tickets-{}.txt", std::process::id()));
        fs::write(&file, "My card is gone\n\n{\"id\":\"A-7\",\"text\":\"PIN blocked\"}\n").unwrap();
        let tickets = Data::Own.tickets(&Tickets::File(file.clone())).unwrap();
        fs::write(&file, "fine\n{\"texts\":1}\n").unwrap();
        let error = Data::Own.tickets(&Tickets::File(file.clone())).unwrap_err().to_string();
        fs::remove_file(&file).unwrap();
        assert_eq!(tickets[0], Ticket { id: "ticket-01".into(), text: "My card is gone".into() });
        assert_eq!(tickets[1], Ticket { id: "A-7".into(), text: "PIN blocked".into() });
        assert!(error.contains(".txt:2: unknown field `texts`"), "{error}");
    }

    #[test]
    fn a_choice_of_tickets_is_a_number_or_a_file() {
        assert_eq!("3".parse(), Ok(Tickets::First(3)));
        assert_eq!("3.txt".parse(), Ok(Tickets::File("3.txt".into())));
    }
}
