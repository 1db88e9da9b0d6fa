//! Two connections between the same two nodes: which one lives.
//!
//! Decided from what both sides know of both connections, never from when something happened, so both sides come to the
//! same answer. To be asked only when both are authenticated: otherwise a stranger could put an end to a healthy link.

use crate::wire::Epoch;
use crate::wire::NodeId;

/// One of the two connections, as its handshake described it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "all facts that the rule looks at")]
pub struct Contender<'a> {
    /// Who dialled it.
    pub initiator: &'a NodeId,
    /// That node's start.
    pub initiator_epoch: Epoch,
    /// Who accepted it.
    pub acceptor: &'a NodeId,
    /// That node's start.
    pub acceptor_epoch: Epoch,
    /// If the connection goes on with a link: how many connections that link had had before. Both sides know, because each
    /// connection renews the link's secret and the resume proof is made with one of them.
    pub resumes: Option<u32>,
}

/// Which of two connections lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "one of two")]
pub enum Survivor {
    /// The one that was there.
    Standing,
    /// The one that has just been authenticated.
    Newcomer,
}

/// Which of two authenticated connections between the same two nodes lives:
///
/// 1. the one with the newer epoch of either node: the other one's process is gone;
/// 2. the one that resumes a later state of the link;
/// 3. of two by the same dialler the newcomer: who dials again knows that its old connection is gone;
/// 4. of two that crossed, the one that resumes a link, and
/// 5. else the one dialled by the greater node id.
pub fn survivor(standing: &Contender<'_>, newcomer: &Contender<'_>) -> Survivor {
    let by_epoch = epochs(newcomer).cmp(&epochs(standing));
    let by_state = match (newcomer.resumes, standing.resumes) {
        (Some(new), Some(old)) => new.cmp(&old),
        _ => std::cmp::Ordering::Equal,
    };
    let is_newcomer = by_epoch.then(by_state).then_with(|| {
        if newcomer.initiator == standing.initiator {
            std::cmp::Ordering::Greater
        } else {
            let by_resume = newcomer.resumes.is_some().cmp(&standing.resumes.is_some());
            by_resume.then(newcomer.initiator.cmp(standing.initiator))
        }
    });
    if is_newcomer.is_gt() {
        Survivor::Newcomer
    } else {
        Survivor::Standing
    }
}

/// The epochs of the two nodes, in the same order whoever dialled.
fn epochs(contender: &Contender<'_>) -> (Epoch, Epoch) {
    if contender.initiator < contender.acceptor {
        (contender.initiator_epoch, contender.acceptor_epoch)
    } else {
        (contender.acceptor_epoch, contender.initiator_epoch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes() -> [NodeId; 2] {
        ["a-01", "b-01"].map(|name| name.parse().unwrap())
    }

    /// A connection dialled by the first node or the second, whose starts are given in the order of their names.
    fn dialled(nodes: &[NodeId; 2], by: usize, starts: [u64; 2], resumes: Option<u32>) -> Contender<'_> {
        Contender {
            initiator: &nodes[by],
            initiator_epoch: Epoch(starts[by]),
            acceptor: &nodes[1 - by],
            acceptor_epoch: Epoch(starts[1 - by]),
            resumes,
        }
    }

    #[test]
    fn each_rule_decides_where_those_before_it_do_not() {
        let nodes = nodes();
        let dial = |by, starts, resumes| dialled(&nodes, by, starts, resumes);
        for (standing, newcomer, expected) in [
            // FC-029: a restarted peer replaces its ghost, whoever dials and whatever the ghost resumed.
            (
                dial(1, [1, 1], Some(7)),
                dial(0, [2, 1], None),
                Survivor::Newcomer,
            ),
            (
                dial(1, [1, 1], Some(7)),
                dial(0, [1, 2], None),
                Survivor::Newcomer,
            ),
            (dial(0, [1, 2], None), dial(1, [1, 1], None), Survivor::Standing),
            // Whoever resumes knows that the old connection is gone, even if that one had resumed as well.
            (
                dial(1, [1, 1], None),
                dial(0, [1, 1], Some(1)),
                Survivor::Newcomer,
            ),
            (
                dial(1, [1, 1], Some(1)),
                dial(0, [1, 1], Some(2)),
                Survivor::Newcomer,
            ),
            (
                dial(0, [1, 1], Some(2)),
                dial(0, [1, 1], Some(1)),
                Survivor::Standing,
            ),
            // The same dialler again.
            (dial(0, [1, 1], None), dial(0, [1, 1], None), Survivor::Newcomer),
            (
                dial(0, [1, 1], Some(1)),
                dial(0, [1, 1], None),
                Survivor::Newcomer,
            ),
            // Crossed dials.
            (dial(1, [1, 1], None), dial(0, [1, 1], None), Survivor::Standing),
            (dial(0, [1, 1], None), dial(1, [1, 1], None), Survivor::Newcomer),
            (
                dial(0, [1, 1], Some(1)),
                dial(1, [1, 1], Some(1)),
                Survivor::Newcomer,
            ),
            (
                dial(0, [1, 1], Some(1)),
                dial(1, [1, 1], None),
                Survivor::Standing,
            ),
        ] {
            assert_eq!(
                survivor(&standing, &newcomer),
                expected,
                "{standing:?} {newcomer:?}"
            );
        }
    }

    proptest! {
        /// Crossed dials are authenticated in one order here and in the other one there.
        #[test]
        fn both_sides_keep_the_same_of_two_crossed_connections(
            first in (0u64..3, 0u64..3, prop::option::of(0u32..3)),
            second in (0u64..3, 0u64..3, prop::option::of(0u32..3)),
        ) {
            let nodes = nodes();
            let one = dialled(&nodes, 0, [first.0, first.1], first.2);
            let two = dialled(&nodes, 1, [second.0, second.1], second.2);
            let here = if survivor(&one, &two) == Survivor::Newcomer { two } else { one };
            let there = if survivor(&two, &one) == Survivor::Newcomer { one } else { two };
            prop_assert_eq!(here, there);
        }
    }
}
