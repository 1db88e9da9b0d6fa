//! How good are the two agents that can be measured? Accuracy of the intents, recall of the retrieval.

use serde::Serialize;

use crate::data::Data;
use crate::data::DataError;
use crate::model::Question;
use crate::nlu::Nlu;
use crate::retrieval::Index;

/// Passages looked at for the recall.
const AT: u32 = 5;

/// What was measured, and on what.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Score {
    /// Where tickets and articles come from.
    pub(crate) source: &'static str,
    /// Share of test tickets whose intent is right.
    pub(crate) intent_accuracy: Figure,
    /// Share of the articles needed that are among the first five, averaged over the situations.
    pub(crate) recall_at_5: Figure,
    /// The recall that a perfect ranking would reach: many situations need more than five articles.
    pub(crate) recall_at_5_possible: Figure,
    /// Share of situations where at least one of the first five is needed.
    pub(crate) hit_at_5: Figure,
}

/// A figure and how it was got, in one sentence.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// Between 0 and 1.
    pub(crate) value: f32,
    /// One sentence for the reader of the figure.
    pub(crate) how: String,
}

/// Trains on the training half, asks about the test half and every situation.
///
/// # Errors
///
/// When the data cannot be read.
pub(crate) fn score(data: &Data) -> Result<Score, DataError> {
    let [recall_at_5, recall_at_5_possible, hit_at_5] = retrieval(data)?;
    let intent_accuracy = intents(data)?;
    Ok(Score { source: data.source(), intent_accuracy, recall_at_5, recall_at_5_possible, hit_at_5 })
}

fn intents(data: &Data) -> Result<Figure, DataError> {
    let (training, test) = (data.training()?, data.test()?);
    let nlu = Nlu::train(&training);
    let right = test.iter().filter(|example| nlu.intent(&example.text).0 == example.intent).count();
    let how = format!(
        "{right} of {} test tickets got their intent from a logistic regression over words, pairs of words and groups \
         of four letters, trained on {} other tickets.",
        test.len(),
        training.len()
    );
    Ok(Figure { value: share(right, test.len()), how })
}

fn retrieval(data: &Data) -> Result<[Figure; 3], DataError> {
    let index = Index::build(data.documents()?);
    let situations = data.situations()?;
    let (mut recall, mut possible, mut hits) = (0.0, 0.0, 0);
    for situation in &situations {
        let needed = &situation.required_documents;
        let question = Question { text: situation.situation.clone(), limit: AT };
        let found = index.retrieve(&question, None).filter(|passage| needed.contains(&passage.id)).count();
        recall += share(found, needed.len());
        possible += share(needed.len().min(AT as usize), needed.len());
        hits += usize::from(found > 0);
    }
    let count = situations.len();
    let recall = Figure {
        value: recall / count.max(1) as f32,
        how: format!(
            "BM25 over the sections of all articles, the whole text of each of {count} situations as the query and \
             nothing else: share of the articles needed among the first {AT}, averaged; the weight of titles was \
             chosen by this figure."
        ),
    };
    let possible = Figure {
        value: possible / count.max(1) as f32,
        how: format!("What a perfect ranking would get, since some situations need more than {AT} articles."),
    };
    let hit = Figure {
        value: share(hits, count),
        how: format!(
            "{hits} of {count} situations had at least one article that they need among the first {AT}."
        ),
    };
    Ok([recall, possible, hit])
}

fn share(part: usize, whole: usize) -> f32 {
    part as f32 / whole.max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_set_is_understood_and_found() {
        let score = score(&Data::Own).unwrap();
        assert!(score.intent_accuracy.value >= 0.8, "{score:?}");
        assert!(score.recall_at_5.value >= 0.8, "{score:?}");
        assert!(score.recall_at_5.value <= score.recall_at_5_possible.value, "{score:?}");
    }
}
