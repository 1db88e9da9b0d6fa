//! What travels between the agents. The doc comments here are the descriptions in the JSON Schemas that
//! `hermes-peer caps` shows.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// A customer's message as it reached the support desk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Ticket {
    /// Names the ticket in everything that is shown about it.
    pub(crate) id: String,
    /// The customer's own words.
    pub(crate) text: String,
}

/// What the language agent made of a ticket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Understanding {
    /// What the customer wants, as a label: `card_arrival`, `lost_or_stolen_card`.
    pub(crate) intent: String,
    /// Probability of the intent among all known ones, between 0 and 1.
    pub(crate) confidence: f32,
    /// What the ticket names, in the order of the text.
    pub(crate) entities: Vec<Entity>,
}

/// Something that a ticket names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Entity {
    /// What sort of thing it is.
    pub(crate) kind: EntityKind,
    /// The thing as the customer wrote it.
    pub(crate) value: String,
}

/// The sorts of things that a support engineer looks for in a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EntityKind {
    /// A sum of money with its currency: `£20`, `50 euros`.
    Amount,
    /// A currency named without a sum: `USD`, `euros`.
    Currency,
    /// A day or a span of time: `yesterday`, `3 March`, `two weeks`.
    Date,
    /// A sort of card: `debit card`, `virtual card`, `Visa`.
    Card,
    /// A country or region: `Spain`, `the US`.
    Country,
    /// A shop or person that money went to or came from: `Amazon`.
    Merchant,
    /// A word that says what went wrong: `declined`, `charged twice`.
    Problem,
    /// An electronic mail address.
    Email,
    /// A telephone number.
    Phone,
}

impl fmt::Display for EntityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amount => "amount",
            Self::Currency => "currency",
            Self::Date => "date",
            Self::Card => "card",
            Self::Country => "country",
            Self::Merchant => "merchant",
            Self::Problem => "problem",
            Self::Email => "email",
            Self::Phone => "phone",
        })
    }
}

/// What to look for in the knowledge base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Question {
    /// The question in plain words: for a ticket, its text.
    pub(crate) text: String,
    /// How many passages to send at most, each from another article.
    #[serde(default = "Question::default_limit")]
    #[schemars(range(min = 1, max = 50))]
    pub(crate) limit: u32,
}

impl Question {
    /// A question with the usual number of passages.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), limit: Self::default_limit() }
    }

    /// As many as a support engineer reads before he searches himself.
    fn default_limit() -> u32 {
        5
    }
}

/// A part of a knowledge base article that speaks to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Passage {
    /// The article that it comes from.
    pub(crate) id: String,
    /// Title of that article.
    pub(crate) title: String,
    /// The lines of the article around what matched.
    pub(crate) text: String,
    /// How well it matches (BM25): comparable within one answer only.
    pub(crate) score: f32,
}

/// The slot `intent` of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Intent {
    /// What the customer wants, as a label.
    pub(crate) label: String,
    /// Its probability, between 0 and 1.
    pub(crate) confidence: f32,
}

/// What the generator is given; what the ticket is about stands in the session's slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Brief {
    /// The ticket to answer.
    pub(crate) ticket: Ticket,
    /// What the knowledge base has on it, best first.
    pub(crate) passages: Vec<Passage>,
}

/// What the generator composes a suggestion from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// The ticket to answer.
    pub(crate) ticket: Ticket,
    /// What the language agent made of it.
    pub(crate) understanding: Understanding,
    /// What the knowledge base has on it, best first.
    pub(crate) passages: Vec<Passage>,
}

/// A piece of a suggestion on its way; all pieces in order are the whole text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Token {
    /// A word with the white space before it.
    pub(crate) text: String,
}

/// What a support engineer could do about a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Suggestion {
    /// The advice in plain text; `[1]` points to the first article cited.
    pub(crate) text: String,
    /// Articles that the advice rests on: `cites[0]` is what the text calls `[1]`.
    pub(crate) cites: Vec<String>,
}
