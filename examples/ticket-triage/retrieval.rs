//! Which parts of the knowledge base speak to a ticket? BM25 over the sections of its articles.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::ops::Range;

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
/// What a title adds when the query covers it; it then tells apart articles that share their sections' words.
const TITLE_WEIGHT: f32 = 2.0;
/// What the classifier and the rules add counts less than what the customer wrote.
const EXPANSION_WEIGHT: f32 = 0.5;
/// Longest excerpt, in bytes: what a person reads without scrolling.
const EXCERPT: usize = 900;
/// What customers say and articles never do, with what articles say instead.
const SYNONYMS: [(&str, &str); 10] = [
    ("top", "deposit fund"),
    ("cheque", "check deposit"),
    ("recognised", "recognize unauthorized"),
    ("twice", "duplicate"),
    ("passcode", "password"),
    ("beneficiary", "recipient"),
    ("terminate", "close account"),
    ("disposable", "virtual"),
    ("apple", "digital wallet"),
    ("google", "digital wallet"),
];

/// An article of the knowledge base.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Document {
    /// Names the article in answers.
    pub(crate) id: String,
    /// What it is about, in one line.
    pub(crate) title: String,
    /// The article, in Markdown.
    pub(crate) content: String,
}

/// The knowledge base, cut into sections and ready to be searched.
#[derive(Debug)]
pub(crate) struct Index {
    articles: Vec<Article>,
    sections: Vec<Section>,
    /// For each word, the sections that have it and how often.
    postings: HashMap<String, Vec<(usize, f32)>>,
    mean_length: f32,
}

/// A document without its Markdown.
#[derive(Debug)]
struct Article {
    id: String,
    title: String,
    /// The title's words that count.
    topic: BTreeSet<String>,
    /// Length of the title as a vector of word rarities.
    breadth: f32,
    lines: Vec<String>,
}

impl Article {
    /// The weight of the title's words in the query, less for a title that has much else to say.
    fn title_covered(&self, query: &BTreeMap<String, f32>) -> f32 {
        let covered: f32 = self.topic.iter().filter_map(|term| query.get(term)).sum();
        if covered > 0.0 { covered / self.breadth } else { 0.0 }
    }
}

/// The part of an article from one heading to the next.
#[derive(Debug)]
struct Section {
    article: usize,
    lines: Range<usize>,
    /// In words, the title's included.
    length: f32,
}

impl Index {
    /// Cuts the documents into sections and counts their words.
    pub(crate) fn build(documents: Vec<Document>) -> Self {
        let mut index =
            Self { articles: Vec::new(), sections: Vec::new(), postings: HashMap::new(), mean_length: 0.0 };
        for Document { id, title, content } in documents {
            let mut lines = Vec::new();
            for section in markdown::sections(&content) {
                index.add(&title, &section, lines.len());
                lines.extend(section);
            }
            let topic = text::terms(&title).into_iter().collect();
            index.articles.push(Article { id, title, topic, breadth: 0.0, lines });
        }
        let total: f32 = index.sections.iter().map(|section| section.length).sum();
        index.mean_length = total / index.sections.len().max(1) as f32;
        // Rarities are known only now that every section is counted.
        for article in 0..index.articles.len() {
            let squares = index.articles[article].topic.iter().map(|term| index.rarity(term).powi(2));
            index.articles[article].breadth = squares.sum::<f32>().sqrt();
        }
        index
    }

    /// Adds a section of the article that comes next, where its lines begin at `start`.
    fn add(&mut self, title: &str, lines: &[String], start: usize) {
        let mut counts: HashMap<String, f32> = HashMap::new();
        for term in lines.iter().flat_map(|line| text::terms(line)).chain(text::terms(title)) {
            *counts.entry(term).or_default() += 1.0;
        }
        let length = counts.values().sum();
        let lines = start..start + lines.len();
        for (term, count) in counts {
            self.postings.entry(term).or_default().push((self.sections.len(), count));
        }
        self.sections.push(Section { article: self.articles.len(), lines, length });
    }

    /// The best passage of each of the best articles, best first. Excerpts are cut one by one as the iterator
    /// is asked for them, so the first can be sent before the last is ready.
    pub(crate) fn retrieve(
        &self,
        question: &Question,
        understanding: Option<&Understanding>,
    ) -> impl Iterator<Item = Passage> {
        let query = self.query(question, understanding);
        let mut scores = vec![0.0_f32; self.sections.len()];
        for (term, weight) in &query {
            for (section, count) in &self.postings[term] {
                let length = 1.0 - B + B * self.sections[*section].length / self.mean_length;
                scores[*section] += weight * count * (K1 + 1.0) / (count + K1 * length);
            }
        }
        let titles: Vec<f32> = self.articles.iter().map(|article| article.title_covered(&query)).collect();
        for (section, score) in self.sections.iter().zip(&mut scores).filter(|(_, score)| **score > 0.0) {
            *score += TITLE_WEIGHT * titles[section.article];
        }
        let mut ranked: Vec<usize> = (0..scores.len()).filter(|section| scores[*section] > 0.0).collect();
        ranked.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let mut seen = HashSet::new();
        ranked.retain(|section| seen.insert(self.sections[*section].article));
        ranked.truncate(question.limit as usize);
        ranked.into_iter().map(move |section| self.passage(section, scores[section], &query))
    }

    /// The words to look for, each with its weight: rarity in the knowledge base times importance in the ticket.
    fn query(&self, question: &Question, understanding: Option<&Understanding>) -> BTreeMap<String, f32> {
        let mut query: BTreeMap<String, f32> = BTreeMap::new();
        for term in text::terms(&question.text) {
            *query.entry(term).or_default() += 1.0;
        }
        if let Some(understanding) = understanding {
            expand(&mut query, understanding);
        }
        for (said, written) in SYNONYMS {
            if let Some(weight) = query.remove(text::stem(said)) {
                add(&mut query, written, weight);
            }
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
        let Section { article, lines: section, .. } = &self.sections[section];
        let Article { id, title, lines, .. } = &self.articles[*article];
        Passage { id: id.clone(), title: title.clone(), text: excerpt(lines, section.clone(), query), score }
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
            | EntityKind::Phone => query.retain(|term, _| !text::terms(&entity.value).contains(term)),
            EntityKind::Card | EntityKind::Problem | EntityKind::Currency | EntityKind::Country => {
                add(query, &entity.value, EXPANSION_WEIGHT);
            }
        }
    }
    add(query, &understanding.intent.replace('_', " "), EXPANSION_WEIGHT * understanding.confidence);
}

fn add(query: &mut BTreeMap<String, f32>, text: &str, weight: f32) {
    for term in text::terms(text) {
        *query.entry(term).or_default() += weight;
    }
}

/// The line of the section that matches best, with as much of the section and then of the article as fits.
fn excerpt(lines: &[String], section: Range<usize>, query: &BTreeMap<String, f32>) -> String {
    let weight = |line: &String| {
        let terms: BTreeSet<String> = text::terms(line).into_iter().collect();
        terms.iter().filter_map(|term| query.get(term)).sum::<f32>()
    };
    let weights = section.clone().map(|line| (line, weight(&lines[line])));
    // Of equals the first: a section tends to open with what matters.
    let best = weights.rev().max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(section.start, |(line, _)| line);
    let within_section = grow(lines, best..best + 1, section);
    let within_article = grow(lines, within_section, 0..lines.len());
    shorten(&lines[within_article].join("\n"))
}

/// Takes in neighbours as long as an excerpt has room, those after first: what explains a line mostly follows it.
fn grow(lines: &[String], mut part: Range<usize>, whole: Range<usize>) -> Range<usize> {
    let mut length: usize = lines[part.clone()].iter().map(|line| line.len() + 1).sum();
    loop {
        let fits = |line: usize| length + lines[line].len() < EXCERPT;
        let line = if part.end < whole.end && fits(part.end) {
            part.end += 1;
            part.end - 1
        } else if part.start > whole.start && fits(part.start - 1) {
            part.start -= 1;
            part.start
        } else {
            return part;
        };
        length += lines[line].len() + 1;
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
                .map(|(id, title, content)| Document {
                    id: id.into(),
                    title: title.into(),
                    content: content.into(),
                })
                .into(),
        )
    }

    fn ids(question: &str, understanding: Option<&Understanding>) -> Vec<String> {
        index().retrieve(&Question::new(question), understanding).map(|passage| passage.id).collect()
    }

    #[test]
    fn an_article_answers_once_with_its_best_section() {
        let index = index();
        let passages: Vec<Passage> =
            index.retrieve(&Question::new("What does a new card cost?"), None).collect();
        assert_eq!(passages.len(), 1, "{passages:?}");
        assert_eq!((passages[0].id.as_str(), passages[0].title.as_str()), ("cards", "Lost cards"));
        assert_eq!(passages[0].text, "Freeze:\nFreeze the card at once.\nReplace:\nA new card costs $10.");
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
        let mut lines: Vec<String> =
            (0..100).map(|number| format!("Line {number} says nothing of note.")).collect();
        lines[60] = "A passport is needed.".into();
        let excerpt = excerpt(&lines, 50..70, &BTreeMap::from([("passport".into(), 1.0)]));
        assert!(excerpt.contains("passport") && excerpt.len() <= EXCERPT, "{excerpt}");
        let long = vec!["пароль ".repeat(300)];
        assert!(super::excerpt(&long, 0..1, &BTreeMap::new()).ends_with("пароль …"));
    }
}
