//! Who may do what: pure data and one question.

use std::fmt;

use super::pattern::AgentPattern;
use super::pattern::Pattern;
use crate::wire::Access;
use crate::wire::AgentUri;
use crate::wire::CapabilityName;
use crate::wire::NodeId;
use crate::wire::SlotName;
use crate::wire::Topic;
use crate::wire::TopicPattern;

/// What a rule says to what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a rule allows or denies")]
pub enum Effect {
    /// It may be done, unless another rule denies it.
    Allow,
    /// It may not, whatever other rules say.
    Deny,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Calling capabilities that are public or restricted.
    Call,
    /// Publishing events on topics.
    Publish,
    /// Receiving events of topics.
    Subscribe,
    /// Reading slots of sessions.
    ReadSlot,
    /// Writing slots of sessions.
    WriteSlot,
    /// Calling capabilities whose access is `admin`.
    Admin,
}

/// One rule: this may, or may not, be done with these by those. A rule without names or without agents is about nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "configuration fills it")]
pub struct Rule {
    /// Whether it allows or denies.
    pub effect: Effect,
    /// What is done.
    pub verb: Verb,
    /// With which capabilities, topics or slots.
    pub names: Vec<Pattern>,
    /// By whom.
    pub from: Vec<AgentPattern>,
}

/// Who wants to do something, as the handshake proved it.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "all that decisions may look at")]
pub struct Caller<'a> {
    /// The logical identity.
    pub agent: &'a AgentUri,
    /// The process.
    pub node: &'a NodeId,
    /// Whether its certificate comes from the development CA of the user that this process runs as.
    pub is_same_user: bool,
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Action<'a> {
    /// Call a capability of this node.
    Call {
        /// Which.
        capability: &'a CapabilityName,
        /// The access that it declares.
        access: Access,
    },
    /// Publish an event to this node.
    Publish {
        /// On which topic.
        topic: &'a Topic,
    },
    /// Receive events of this node.
    Subscribe {
        /// Of which topics.
        pattern: &'a TopicPattern,
    },
    /// Read a slot of a session that this node owns.
    ReadSlot {
        /// Which.
        slot: &'a SlotName,
    },
    /// Write a slot of a session that this node owns.
    WriteSlot {
        /// Which.
        slot: &'a SlotName,
    },
}

/// The answer, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer and its ground")]
pub struct Decision {
    /// Whether it may be done.
    pub allowed: bool,
    /// Which rule decided.
    pub rule: DecidedBy,
}

/// What a decision rests on. Prints as a piece of a sentence, for logs and for the one who was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The rule of the configuration with this number, counted from 1.
    Rule(usize),
    /// There are rules, and none of them is about this.
    NoRule,
    /// There is no policy, and this is what holds then.
    Default(&'static str),
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(number) => write!(f, "policy rule {number}"),
            Self::NoRule => f.write_str("policy: no rule allows it"),
            Self::Default(sentence) => write!(f, "default: {sentence}"),
        }
    }
}

const SAME_USER: &str = "processes of one user may do everything with each other";
const SAME_TENANT: &str =
    "the same tenant may call public capabilities, publish, subscribe and share declared slots";
const NEEDS_RULE: &str = "a restricted or admin capability needs a policy rule";
const OTHER_TENANT: &str = "another tenant may do nothing without a policy rule";

/// Who may do what on this node.
///
/// Without rules the same tenant may call public capabilities, publish, subscribe and use the slots that a capability
/// declares, processes of the same user may do everything, and nobody else anything. With rules, even with an empty list
/// of them, only what a rule allows is allowed, and a rule that denies wins over those that allow.
#[derive(Clone, Debug)]
pub struct Policy {
    tenant: String,
    rules: Option<Vec<Rule>>,
}

impl Policy {
    /// What holds where no policy is written.
    pub fn without_rules(own: &AgentUri) -> Self {
        Self {
            tenant: own.tenant().to_owned(),
            rules: None,
        }
    }

    /// A written policy.
    pub fn with_rules(own: &AgentUri, rules: Vec<Rule>) -> Self {
        Self {
            tenant: own.tenant().to_owned(),
            rules: Some(rules),
        }
    }

    /// Whether this caller may do this.
    pub fn decide(&self, who: &Caller<'_>, action: Action<'_>) -> Decision {
        match &self.rules {
            Some(rules) => decide_by_rules(rules, who, action),
            None => self.decide_by_default(who, action),
        }
    }

    fn decide_by_default(&self, who: &Caller<'_>, action: Action<'_>) -> Decision {
        let is_open = match action {
            Action::Call { access, .. } => access == Access::Public,
            _ => true,
        };
        let (allowed, sentence) = if who.is_same_user {
            (true, SAME_USER)
        } else if who.agent.tenant() != self.tenant {
            (false, OTHER_TENANT)
        } else if is_open {
            (true, SAME_TENANT)
        } else {
            (false, NEEDS_RULE)
        };
        Decision {
            allowed,
            rule: DecidedBy::Default(sentence),
        }
    }
}

fn decide_by_rules(rules: &[Rule], who: &Caller<'_>, action: Action<'_>) -> Decision {
    let first = |effect: Effect| {
        rules
            .iter()
            .position(|rule| rule.effect == effect && rule.is_about(who, action))
            .map(|index| index + 1)
    };
    let denied = first(Effect::Deny).map(|number| (false, DecidedBy::Rule(number)));
    let allowed = || first(Effect::Allow).map(|number| (true, DecidedBy::Rule(number)));
    let (allowed, rule) = denied.or_else(allowed).unwrap_or((false, DecidedBy::NoRule));
    Decision { allowed, rule }
}

impl Rule {
    fn is_about(&self, who: &Caller<'_>, action: Action<'_>) -> bool {
        self.from.iter().any(|pattern| pattern.covers(who.agent))
            && self.concerns(action)
            && self.names.iter().any(|pattern| self.names_it(pattern, action))
    }

    fn concerns(&self, action: Action<'_>) -> bool {
        match (self.verb, action) {
            // Whoever may not call may not call admin capabilities either; the right to call does not reach that far.
            (
                Verb::Call,
                Action::Call {
                    access: Access::Admin,
                    ..
                },
            ) => self.effect == Effect::Deny,
            (Verb::Admin, Action::Call { access, .. }) => access == Access::Admin,
            (Verb::Call, Action::Call { .. })
            | (Verb::Publish, Action::Publish { .. })
            | (Verb::Subscribe, Action::Subscribe { .. })
            | (Verb::ReadSlot, Action::ReadSlot { .. })
            | (Verb::WriteSlot, Action::WriteSlot { .. }) => true,
            _ => false,
        }
    }

    fn names_it(&self, pattern: &Pattern, action: Action<'_>) -> bool {
        match action {
            Action::Call { capability, .. } => pattern.covers(capability.as_str()),
            Action::Publish { topic } => pattern.covers(topic.as_str()),
            Action::ReadSlot { slot } | Action::WriteSlot { slot } => pattern.covers(slot.as_str()),
            // A subscription is allowed as a whole, so all of it must be allowed and none of it denied.
            Action::Subscribe { pattern: wanted } => match self.effect {
                Effect::Allow => pattern.covers_all_of(wanted),
                Effect::Deny => pattern.overlaps(wanted),
            },
        }
    }
}

#[cfg(test)]
mod tests;
