//! Ranges of protocol versions.

use std::fmt;

use crate::wire::VERSION_MAX;
use crate::wire::VERSION_MIN;

/// The protocol versions that a node speaks: the lowest is at least 1 and not above the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    min: u8,
    max: u8,
}

impl VersionRange {
    /// From the lowest to the highest; none if that is no range.
    pub fn new(min: u8, max: u8) -> Option<Self> {
        (1..=max).contains(&min).then_some(Self { min, max })
    }

    /// The lowest version.
    pub fn min(self) -> u8 {
        self.min
    }

    /// The highest version.
    pub fn max(self) -> u8 {
        self.max
    }

    /// The version that two nodes with these ranges speak: the lower of the two highest, if both speak it.
    pub fn choose(self, theirs: Self) -> Option<u8> {
        let chosen = self.max.min(theirs.max);
        (chosen >= self.min && chosen >= theirs.min).then_some(chosen)
    }
}

/// All versions that this library speaks.
impl Default for VersionRange {
    fn default() -> Self {
        Self {
            min: VERSION_MIN,
            max: VERSION_MAX,
        }
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_the_two_highest_is_chosen_if_both_speak_it() {
        // FC-027
        let ours = VersionRange::default();
        let with = |min, max| VersionRange::new(min, max).and_then(|theirs| ours.choose(theirs));
        for (min, max, chosen) in [
            (1, 1, Some(1)),
            (1, 2, Some(2)),
            (2, 9, Some(2)),
            (1, 255, Some(2)),
            (3, 9, None),
            (2, 2, Some(2)),
        ] {
            assert_eq!(with(min, max), chosen, "{min} to {max}");
        }
        for (min, max) in [(0, 0), (2, 1), (0, 2), (255, 254)] {
            assert_eq!(VersionRange::new(min, max), None, "{min} to {max}");
        }
    }
}
