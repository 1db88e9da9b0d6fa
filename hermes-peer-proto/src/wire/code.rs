//! The outcome codes, in one table.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;

macro_rules! codes {
    ($($number:literal $variant:ident $name:literal $retryable:literal $sentence:literal)*) => {
        /// How an exchange ended when it did not end in a result. Stable on the wire and in every language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = $sentence] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The number that stands for this code on the wire.
            pub const fn number(self) -> u8 {
                match self { $(Self::$variant => $number),* }
            }

            /// The code's name, as in logs, JSON and the other languages.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Whether the same call can be sent again with a hope of another outcome. A call that may have run and
            /// has no idempotency key is not sent again by Hermes all the same.
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retryable),* }
            }

            /// What the code means, for people.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence),* }
            }

            /// The code with this number, if there is one.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }
        }

        impl FromStr for ErrorCode {
            type Err = UnknownCode;

            fn from_str(name: &str) -> Result<Self, UnknownCode> {
                match name { $($name => Ok(Self::$variant),)* _ => Err(UnknownCode { name: name.to_owned() }) }
            }
        }
    };
}

codes! {
    1 InvalidFrame "INVALID_FRAME" false "bytes on the link are not what the protocol says"
    2 VersionUnsupported "VERSION_UNSUPPORTED" false "the two sides speak no protocol version in common"
    3 Unauthenticated "UNAUTHENTICATED" false "the peer could not prove who it is"
    4 PermissionDenied "PERMISSION_DENIED" false "a policy rule does not allow this"
    5 NotFound "NOT_FOUND" false "nobody provides this capability"
    6 InvalidInput "INVALID_INPUT" false "the input does not fit the capability's schema"
    7 InvalidOutput "INVALID_OUTPUT" false "the handler's result does not fit the capability's schema"
    8 DeadlineExceeded "DEADLINE_EXCEEDED" false "the time given for the call is over"
    9 Cancelled "CANCELLED" false "the caller no longer wants the answer"
    10 Overloaded "OVERLOADED" true "a limit on running or waiting work is reached"
    11 RateLimited "RATE_LIMITED" true "too many in too short a time"
    12 Unavailable "UNAVAILABLE" true "no provider can be reached now"
    13 OutcomeUnknown "OUTCOME_UNKNOWN" false "the call may have run, and its result cannot be known"
    14 SessionExpired "SESSION_EXPIRED" false "the session has ended: open a new one"
    15 SlotConflict "SLOT_CONFLICT" false "the slot has changed since the version that the write was based on"
    16 TooLarge "TOO_LARGE" false "a size limit is passed"
    17 LoopDetected "LOOP_DETECTED" false "the call comes back to a capability that stands in its own path"
    18 Expired "EXPIRED" false "the message's own expiry has passed"
    19 HandlerFailed "HANDLER_FAILED" false "the handler answered with an error"
    20 HandlerPanicked "HANDLER_PANICKED" false "the handler panicked"
    21 Internal "INTERNAL" false "a fault in Hermes itself: please report it"
}

/// A name that is no code's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no error code")]
pub struct UnknownCode {
    name: String,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name in formats that people read, a number on the wire.
impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(self.name())
        } else {
            serializer.serialize_u8(self.number())
        }
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let name = String::deserialize(deserializer)?;
            name.parse().map_err(serde::de::Error::custom)
        } else {
            let number = u8::deserialize(deserializer)?;
            // A code of a later version still ends the call; what it means for a retry is then unknown.
            Ok(Self::from_number(number).unwrap_or(Self::Internal))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_code() {
        for (index, code) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(usize::from(code.number()), index + 1, "numbers are dense, so none is used twice");
            assert_eq!(ErrorCode::from_number(code.number()), Some(*code));
            assert_eq!(code.name().parse(), Ok(*code));
        }
    }
}
