//! Which parts of the knowledge base speak to a ticket? BM25 over the sections of its articles.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;

use serde::Deserialize;

use crate::markdown;
use crate::model::EntityKind;
use crate::model::Passage;
use crate::model::Question;
use crate::model::Understanding;
use crate::text;

/// How fast the second and third mention of a word stop to count; the textbook value.
const K1: f32 = 1.2;
/// How much a long section has to make up for its length; the textbook value.
const B: f32 = 0.75;
/// A word of the title counts like this many in the section: titles name the product and the problem.
const TITLE_WEIGHT: f32 = 3.0;
/// What the classifier and the rules add counts less than what the customer wrote.
const EXPANSION_WEIGHT: f32 = 0.5;
/// Longest excerpt, in bytes: what a person takes in at a glance.
const EXCERPT: usize = 700;

/// An article of the knowledge base.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Document {
    /// Names the article in answers.
    pub id: String,
    /// What it is about, in one line.
    pub title: String,
    /// The article, in Markdown.
    pub content: String,
}

/// The knowledge base, cut into sections and ready to be searched.
#[derive(Debug)]
pub struct Index {
    documents: Vec<Document>,
    sections: Vec<Section>,
    /// For each word, the sections that have it and how often.
    postings: HashMap<String, Vec<(usize, f32)>>,
    mean_length: f32,
}

/// The part of an article from one heading to the next.
#[derive(Debug)]
struct Section {
    document: usize,
    lines: Vec<String>,
    /// In words, the title's included.
    length: f32,
}

impl Index {
    /// Cuts and counts the documents.
    pub fn build(documents: Vec<Document>) -> Self {
        let mut index = Self { documents: Vec::new(), sections: Vec::new(), postings: HashMap::new(), mean_length: 0.0 };
        for (number, document) in documents.iter().enumerate() {
            for lines in markdown::sections(&document.content) {
                index.add(number, &document.title, lines);
            }
        }
        let total: f32 = index.sections.iter().map(|section| section.length).sum();
        index.mean_length = total / index.sections.len().max(1) as f32;
        index.documents = documents;
        index
    }

    fn add(&mut self, document: usize, title: &str, lines: Vec<String>) {
        let mut counts: HashMap<String, f32> = HashMap::new();
        let body = lines.iter().flat_map(|line| terms(line)).map(|term| (term, 1.0));
        for (term, weight) in terms(title).into_iter().map(|term| (term, TITLE_WEIGHT)).chain(body) {
            *counts.entry(term).or_default() += weight;
        }
        let section = self.sections.len();
        self.sections.push(Section { document, lines, length: counts.values().sum() });
        for (term, count) in counts {
            self.postings.entry(term).or_default().push((section, count));
        }
    }

    /// The best passage of each of the best articles, best first. Excerpts are cut one by one as the iterator
    /// is asked for them, so the first can be sent before the last is ready.
    pub fn retrieve(&self, question: &Question, understanding: Option<&Understanding>) -> impl Iterator<Item = Passage> {
        let query = self.query(question, understanding);
        let mut scores = vec![0.0_f32; self.sections.len()];
        for (term, weight) in &query {
            for (section, count) in &self.postings[term] {
                let length = 1.0 - B + B * self.sections[*section].length / self.mean_length;
                scores[*section] += weight * count * (K1 + 1.0) / (count + K1 * length);
            }
        }
        let mut ranked: Vec<usize> = (0..scores.len()).filter(|section| scores[*section] > 0.0).collect();
        ranked.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let mut seen = HashSet::new();
        ranked.retain(|section| seen.insert(self.sections[*section].document));
        ranked.truncate(question.limit as usize);
        ranked.into_iter().map(move |section| self.passage(section, scores[section], &query))
    }

    /// The words to look for, each with its weight: rarity in the knowledge base times importance in the ticket.
    fn query(&self, question: &Question, understanding: Option<&Understanding>) -> BTreeMap<String, f32> {
        let mut query: BTreeMap<String, f32> = BTreeMap::new();
        for term in terms(&question.text) {
            *query.entry(term).or_default() += 1.0;
        }
        if let Some(understanding) = understanding {
            expand(&mut query, understanding);
        }
        query.retain(|term, _| self.postings.contains_key(term));
        for (term, weight) in &mut query {
            *weight *= self.rarity(term);
        }
        query
    }

    /// Inverse document frequency as BM25 defines it.
    fn rarity(&self, term: &str) -> f32 {
        let having = self.postings.get(term).map_or(0, Vec::len) as f32;
        (1.0 + (self.sections.len() as f32 - having + 0.5) / (having + 0.5)).ln()
    }

    fn passage(&self, section: usize, score: f32, query: &BTreeMap<String, f32>) -> Passage {
        let Section { document, lines, .. } = &self.sections[section];
        let Document { id, title, .. } = &self.documents[*document];
        Passage { id: id.clone(), title: title.clone(), text: excerpt(lines, query), score }
    }
}

/// Adds words that the ticket may lack and the articles use, and takes away what no article is about.
fn expand(query: &mut BTreeMap<String, f32>, understanding: &Understanding) {
    for entity in &understanding.entities {
        match entity.kind {
            // The customer's own affairs: `two weeks` would find every article that counts in weeks.
            EntityKind::Amount
            | EntityKind::Date
            | EntityKind::Merchant
            | EntityKind::Email
            | EntityKind::Phone => query.retain(|term, _| !terms(&entity.value).contains(term)),
            EntityKind::Card | EntityKind::Problem | EntityKind::Currency | EntityKind::Country => {
                add(query, &entity.value, EXPANSION_WEIGHT);
            }
        }
    }
    add(query, &understanding.intent.replace('_', " "), EXPANSION_WEIGHT * understanding.confidence);
}

fn add(query: &mut BTreeMap<String, f32>, text: &str, weight: f32) {
    for term in terms(text) {
        *query.entry(term).or_default() += weight;
    }
}

/// The words of a text that carry meaning, each as its stem.
fn terms(text: &str) -> Vec<String> {
    let words = text::words(text);
    words.iter().filter(|word| !text::is_filler(word)).map(|word| text::stem(word).to_owned()).collect()
}

/// The line that matches best and as many of its neighbours as fit, those after it first: what explains a line
/// mostly follows it.
fn excerpt(lines: &[String], query: &BTreeMap<String, f32>) -> String {
    let weight = |line: &String| {
        let terms: HashSet<String> = terms(line).into_iter().collect();
        terms.iter().filter_map(|term| query.get(term)).sum::<f32>()
    };
    let weights: Vec<f32> = lines.iter().map(weight).collect();
    // Of equals the first: a section tends to open with what matters.
    let best = (0..lines.len()).rev().max_by(|a, b| weights[*a].total_cmp(&weights[*b])).unwrap_or(0);
    let (mut from, mut to) = (best, (best + 1).min(lines.len()));
    let mut room = EXCERPT.saturating_sub(lines[from..to].iter().map(String::len).sum());
    loop {
        let next = if to < lines.len() { lines[to].len() } else { usize::MAX };
        let previous = if from > 0 { lines[from - 1].len() } else { usize::MAX };
        if next < room {
            room -= next + 1;
            to += 1;
        } else if previous < room {
            room -= previous + 1;
            from -= 1;
        } else {
            return shorten(&lines[from..to].join("\n"));
        }
    }
}

/// A single line may be longer than an excerpt: it ends after the last whole word that fits.
fn shorten(text: &str) -> String {
    if text.len() <= EXCERPT {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(EXCERPT)];
    format!("{} …", head.rsplit_once(char::is_whitespace).map_or(head, |(words, _)| words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Entity;

    fn index() -> Index {
        let documents = [
            ("cards", "Lost cards", "# Freeze\nFreeze the card at once.\n# Replace\nA new card costs $10."),
            ("transfers", "Transfers abroad", "A transfer abroad takes three days."),
            ("hours", "Opening hours", "We are open from nine to five."),
        ];
        Index::build(
            documents
                .map(|(id, title, content)| Document { id: id.into(), title: title.into(), content: content.into() })
                .into(),
        )
    }

    fn ids(question: &str, understanding: Option<&Understanding>) -> Vec<String> {
        index().retrieve(&Question::new(question), understanding).map(|passage| passage.id).collect()
    }

    #[test]
    fn an_article_answers_once_with_its_best_section() {
        let index = index();
        let passages: Vec<Passage> = index.retrieve(&Question::new("What does a new card cost?"), None).collect();
        assert_eq!(passages.len(), 1, "{passages:?}");
        assert_eq!((passages[0].id.as_str(), passages[0].title.as_str()), ("cards", "Lost cards"));
        assert_eq!(passages[0].text, "Replace:\nA new card costs $10.");
    }

    #[test]
    fn passages_come_best_first_and_no_more_than_asked_for() {
        let index = index();
        let mut question = Question::new("three days to transfer, and the card?");
        let scores: Vec<f32> = index.retrieve(&question, None).map(|passage| passage.score).collect();
        assert!(scores.len() == 2 && scores[0] > scores[1], "{scores:?}");
        question.limit = 1;
        assert_eq!(index.retrieve(&question, None).count(), 1);
    }

    #[test]
    fn intent_and_entities_find_what_the_words_miss() {
        let understanding = Understanding {
            intent: "lost_or_stolen_card".into(),
            confidence: 0.9,
            entities: vec![Entity { kind: EntityKind::Card, value: "debit card".into() }],
        };
        assert_eq!(ids("I cannot find it anywhere", None), [""; 0]);
        assert_eq!(ids("I cannot find it anywhere", Some(&understanding)), ["cards"]);
    }

    #[test]
    fn dates_and_sums_of_the_customer_find_nothing() {
        let entities = vec![Entity { kind: EntityKind::Date, value: "three days".into() }];
        let understanding = Understanding { intent: String::new(), confidence: 0.1, entities };
        assert_eq!(ids("waiting three days", None), ["transfers"]);
        assert_eq!(ids("waiting three days", Some(&understanding)), [""; 0]);
    }

    #[test]
    fn an_empty_knowledge_base_answers_nothing() {
        let index = Index::build(Vec::new());
        assert_eq!(index.retrieve(&Question::new("card"), None).count(), 0);
    }

    #[test]
    fn an_excerpt_holds_the_best_line_and_fits() {
        let mut lines: Vec<String> = (0..100).map(|number| format!("Line {number} says nothing of note.")).collect();
        lines[60] = "A passport is needed.".into();
        let excerpt = excerpt(&lines, &BTreeMap::from([("passport".into(), 1.0)]));
        assert!(excerpt.contains("passport") && excerpt.len() <= EXCERPT, "{excerpt}");
        let long = vec!["пароль ".repeat(300)];
        assert!(super::excerpt(&long, &BTreeMap::new()).ends_with("пароль …"));
    }
}
