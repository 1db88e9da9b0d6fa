//! What does the customer want? A linear classifier, trained on labelled tickets when the agent starts.
//!
//! A ticket becomes a bag of features (words, pairs of words, groups of four letters), hashed into a fixed
//! number of buckets and weighted by how rare they are; multinomial logistic regression, trained by
//! stochastic gradient descent, turns them into a probability for each intent. Passes and rate were settled on a
//! fifth of the training half that was held out.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::entities;
use crate::model::Understanding;
use crate::text;

/// Features share this many buckets: ten thousand short tickets fill a third of them, so few collide.
const BUCKETS: usize = 1 << 16;
/// Passes over the training tickets; a third gains nothing on tickets held out.
const PASSES: u8 = 2;
/// Step of the first pass; later ones take smaller steps, in a straight line down to none.
const RATE: f32 = 3.0;
/// Wrongs smaller than this are not corrected: 96 in 100 are as small, and it saves most of the work.
const CLEAR: f32 = 0.02;
/// A ticket understood this well is not asked again in later passes.
const LEARNED: f32 = 0.1;
/// Letters in a group.
const GROUP: usize = 4;

/// A ticket whose intent is known.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Example {
    /// The customer's words.
    pub(crate) text: String,
    /// What a person said that the customer wants.
    pub(crate) intent: String,
}

/// Understands tickets: the intent as learned, the entities by rule.
#[derive(Debug)]
pub(crate) struct Nlu {
    intents: Vec<String>,
    /// How much a feature says, by bucket; zero for what training saw less than twice.
    rarity: Vec<f32>,
    /// A row of weights for each bucket, one weight for each intent.
    weights: Vec<f32>,
}

impl Nlu {
    /// Learns the intents from examples. The same examples in the same order give the same weights.
    pub(crate) fn train(examples: &[Example]) -> Self {
        let intents: BTreeSet<&str> = examples.iter().map(|example| example.intent.as_str()).collect();
        let intents: Vec<String> = intents.into_iter().map(str::to_owned).collect();
        let bags: Vec<Vec<usize>> = examples.iter().map(|example| buckets(&example.text)).collect();
        let weights = vec![0.0; BUCKETS * intents.len()];
        let mut nlu = Self { rarity: rarity(&bags), intents, weights };

        let mut lessons: Vec<(Vec<Feature>, usize)> = Vec::with_capacity(examples.len());
        for (example, bag) in examples.iter().zip(&bags) {
            let right = nlu.intents.partition_point(|intent| *intent < example.intent);
            lessons.push((nlu.weigh(bag), right));
        }
        shuffle(&mut lessons);
        for pass in 0..PASSES {
            let rate = RATE * (1.0 - f32::from(pass) / f32::from(PASSES));
            lessons.retain(|(features, right)| nlu.learn(features, *right, rate) > LEARNED);
        }
        nlu
    }

    /// The intent and entities of a ticket.
    pub(crate) fn understand(&self, ticket: &str) -> Understanding {
        let (intent, confidence) = self.intent(ticket);
        Understanding { intent: intent.to_owned(), confidence, entities: entities::find(ticket) }
    }

    /// The likeliest intent and its probability; an `Nlu` without examples knows only the empty intent.
    pub(crate) fn intent(&self, ticket: &str) -> (&str, f32) {
        let chances = self.chances(&self.weigh(&buckets(ticket)));
        let best = chances.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map_or(("", 0.0), |(intent, chance)| (&self.intents[intent], *chance))
    }

    /// Moves the weights of `features` towards the right intent and away from those that looked right. Returns
    /// how much was missing to be sure of the right one.
    fn learn(&mut self, features: &[Feature], right: usize, rate: f32) -> f32 {
        let mut wrongs = self.chances(features);
        wrongs[right] -= 1.0;
        let missing = -wrongs[right];
        let steps: Vec<(usize, f32)> = wrongs
            .iter()
            .enumerate()
            .filter(|(_, wrong)| wrong.abs() > CLEAR)
            .map(|(intent, wrong)| (intent, rate * wrong))
            .collect();
        for feature in features {
            let row = &mut self.weights[feature.bucket * self.intents.len()..];
            for (intent, step) in &steps {
                row[*intent] -= step * feature.value;
            }
        }
        missing
    }

    /// The probability of each intent.
    fn chances(&self, features: &[Feature]) -> Vec<f32> {
        let width = self.intents.len();
        let mut scores = vec![0.0; width];
        for feature in features {
            let row = &self.weights[feature.bucket * width..][..width];
            for (score, &weight) in scores.iter_mut().zip(row) {
                *score += feature.value * weight;
            }
        }
        softmax(&mut scores);
        scores
    }

    /// Features by rarity, scaled so that long and short tickets weigh the same.
    fn weigh(&self, bag: &[usize]) -> Vec<Feature> {
        let known = bag.iter().map(|&bucket| Feature { bucket, value: self.rarity[bucket] });
        let mut features: Vec<Feature> = known.filter(|feature| feature.value > 0.0).collect();
        let length = features.iter().map(|feature| feature.value * feature.value).sum::<f32>().sqrt();
        for feature in &mut features {
            feature.value /= length;
        }
        features
    }
}

/// One feature of a ticket.
#[derive(Debug)]
struct Feature {
    bucket: usize,
    value: f32,
}

/// The buckets of all features of a text, each once.
fn buckets(text: &str) -> Vec<usize> {
    let mut buckets = Vec::new();
    let mut before = String::new();
    for word in text::words(text) {
        buckets.push(bucket(&[word.as_str()]));
        buckets.push(bucket(&[before.as_str(), &word]));
        let fenced = format!("^{word}$");
        buckets.extend(fenced.as_bytes().windows(GROUP).map(|group| bucket(&[b"*".as_slice(), group])));
        before = word;
    }
    buckets.push(bucket(&[before.as_str(), "$"]));
    buckets.sort_unstable();
    buckets.dedup();
    buckets
}

/// Where a feature lives: FNV-1a over its parts and the seams between them.
fn bucket<P: AsRef<[u8]>>(parts: &[P]) -> usize {
    const PRIME: u32 = 16_777_619;
    let mut hash: u32 = 0x811c_9dc5;
    for part in parts {
        for byte in part.as_ref() {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(PRIME);
        }
        hash = (hash ^ 0xff).wrapping_mul(PRIME);
    }
    // The upper half is the better mixed one.
    (hash ^ (hash >> 16)) as usize % BUCKETS
}

/// Inverse document frequency by bucket.
fn rarity(bags: &[Vec<usize>]) -> Vec<f32> {
    let mut seen = vec![0.0_f32; BUCKETS];
    for bucket in bags.iter().flatten() {
        seen[*bucket] += 1.0;
    }
    let all = bags.len() as f32 + 1.0;
    // What occurs once cannot be told from chance.
    seen.into_iter().map(|count| if count < 2.0 { 0.0 } else { (all / count).ln() }).collect()
}

/// Scores become probabilities that sum to one.
fn softmax(scores: &mut [f32]) {
    // The largest exponent becomes zero, so none can overflow.
    let top = scores.iter().copied().fold(f32::MIN, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - top).exp();
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}

/// The training file is sorted by intent; learning needs them mixed, in an order that is the same every time.
fn shuffle<T>(items: &mut [T]) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..items.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        items.swap(last, (random % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Example> {
        let pairs = [
            ("my card has not arrived yet", "card_arrival"),
            ("when will my new card arrive", "card_arrival"),
            ("i am still waiting for the card", "card_arrival"),
            ("the machine kept my card", "card_swallowed"),
            ("the atm swallowed my card", "card_swallowed"),
            ("a cash machine kept my card and gave nothing", "card_swallowed"),
        ];
        pairs.map(|(text, intent)| Example { text: text.to_owned(), intent: intent.to_owned() }).into()
    }

    #[test]
    fn a_ticket_in_new_words_gets_the_nearest_intent() {
        let nlu = Nlu::train(&examples());
        assert_eq!(nlu.intent("why did the ATM keep my card?").0, "card_swallowed");
        let (intent, confidence) = nlu.intent("Still waiting: has it arrived?");
        assert_eq!(intent, "card_arrival");
        assert!((0.5..=1.0).contains(&confidence), "{confidence}");
    }

    #[test]
    fn the_order_of_training_does_not_depend_on_luck() {
        let (a, b) = (Nlu::train(&examples()), Nlu::train(&examples()));
        assert_eq!(a.weights, b.weights);
    }

    #[test]
    fn text_without_a_known_word_gets_an_unsure_answer() {
        let (_, confidence) = Nlu::train(&examples()).intent("?!");
        assert!((confidence - 0.5).abs() < 1e-6, "two intents, nothing to tell them apart: {confidence}");
    }
}
