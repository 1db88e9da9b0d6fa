//! Slots: named, versioned JSON values of a session, at its owner and as they travel.
//!
//! Every write names the version that it was based on, of whichever merge kind it is. If the slot has moved on since,
//! the write is a conflict and nothing changes: an `append` could be joined to a later list, but its author has not
//! seen that list, and whoever wants it all the same reads again and writes again.

use std::collections::HashMap;

use hermes_peer_proto::wire::ErrorCode;
use hermes_peer_proto::wire::Fault;
use hermes_peer_proto::wire::Merge;
use hermes_peer_proto::wire::SessionId;
use hermes_peer_proto::wire::SlotName;
use hermes_peer_proto::wire::SlotValue;
use serde_json::Map;
use serde_json::Value;

/// Why a slot was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SlotRefused {
    /// The slot has changed since the version that the write was based on.
    #[error(
        "slot `{slot}` is at version {current}, the write was based on {based_on}: read it again and repeat the write"
    )]
    Conflict {
        /// Which slot.
        slot: SlotName,
        /// The version that the writer knew.
        based_on: u64,
        /// The version that it has.
        current: u64,
    },
    /// The capability has not declared that it uses the slot this way.
    #[error(
        "slot `{slot}` is not among those that the capability {verb}: add it to `{verb}` where it is registered"
    )]
    NotDeclared {
        /// Which slot.
        slot: SlotName,
        /// `reads` or `writes`.
        verb: &'static str,
    },
    /// An `append` to a value that is no list.
    #[error("slot `{slot}` holds {held}, and only a list can be appended to")]
    NotAList {
        /// Which slot.
        slot: SlotName,
        /// What kind of JSON value it holds.
        held: &'static str,
    },
    /// A value that is no JSON text.
    #[error("the value for slot `{slot}` is no JSON: {reason}")]
    NotJson {
        /// Which slot.
        slot: SlotName,
        /// What is wrong, and where.
        reason: String,
    },
    /// The value would be nested too deep.
    #[error("slot `{slot}` would be nested more than 128 levels deep")]
    TooDeep {
        /// Which slot.
        slot: SlotName,
    },
    /// The session would hold too many bytes.
    #[error("the session's slots would take {bytes} bytes, and {limit} are allowed")]
    TooLarge {
        /// What they would take.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The session would hold too many slots.
    #[error("the session would have {count} slots, and {limit} are allowed")]
    TooMany {
        /// How many there would be.
        count: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The session has ended.
    #[error("session {session} has ended: open a new one")]
    SessionGone {
        /// Which session.
        session: SessionId,
    },
}

impl SlotRefused {
    /// The error as the other side gets it.
    pub(crate) fn into_fault(self) -> Fault {
        Fault::new(self.code(), self.to_string())
    }

    /// The code that the other side sees.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Conflict { .. } => ErrorCode::SlotConflict,
            Self::NotDeclared { .. } => ErrorCode::PermissionDenied,
            Self::NotAList { .. } | Self::NotJson { .. } | Self::TooDeep { .. } => ErrorCode::InvalidInput,
            Self::TooLarge { .. } | Self::TooMany { .. } => ErrorCode::TooLarge,
            Self::SessionGone { .. } => ErrorCode::SessionExpired,
        }
    }
}

/// A slot: its value and how often it was written.
///
/// The value is kept as JSON text, so that what it takes in memory is what is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotState {
    version: u64,
    text: String,
}

impl SlotState {
    /// How often the slot was written; 0 is a slot that is not there.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The value as JSON text; `None` if the slot was never written.
    pub(crate) fn text(&self) -> Option<&str> {
        (self.version > 0).then_some(&*self.text)
    }

    /// Bytes of the value's text.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Joins a write to the value and returns the version that this makes.
    ///
    /// `replace` sets the value. `append` adds it to the list as one element, whatever it is, and begins a list where
    /// there is no value. `merge` applies it as a merge patch (RFC 7396), to an empty object where there is no value.
    ///
    /// # Errors
    /// [`SlotRefused`] if the write is based on another version, is no JSON, appends to no list, or nests too deep. The
    /// slot is then as it was.
    pub(crate) fn apply(&mut self, write: &SlotValue) -> Result<u64, SlotRefused> {
        if write.version != self.version {
            return Err(SlotRefused::Conflict {
                slot: write.name.clone(),
                based_on: write.version,
                current: self.version,
            });
        }
        let given = read(&write.name, &write.value)?;
        let text = match write.merge {
            Merge::Replace => write.value.clone(),
            Merge::Append => {
                // One level deeper than the value given: what could not be read again must not be written.
                read(&write.name, &format!("[{}]", write.value))
                    .map_err(|_| SlotRefused::TooDeep { slot: write.name.clone() })?;
                self.appended(&write.name, given)?.to_string()
            }
            Merge::Merge => {
                let mut value = self.value(&write.name)?.unwrap_or(Value::Null);
                merge_patch(&mut value, given);
                value.to_string()
            }
        };
        self.text = text;
        self.version += 1;
        Ok(self.version)
    }

    fn appended(&self, slot: &SlotName, given: Value) -> Result<Value, SlotRefused> {
        match self.value(slot)? {
            None => Ok(Value::Array(vec![given])),
            Some(Value::Array(mut list)) => {
                list.push(given);
                Ok(Value::Array(list))
            }
            Some(other) => Err(SlotRefused::NotAList { slot: slot.clone(), held: kind(&other) }),
        }
    }

    fn value(&self, slot: &SlotName) -> Result<Option<Value>, SlotRefused> {
        self.text().map(|text| read(slot, text)).transpose()
    }

    fn travelling(&self, name: &SlotName) -> Option<SlotValue> {
        self.text().map(|text| SlotValue {
            name: name.clone(),
            version: self.version,
            merge: Merge::Replace,
            value: text.to_owned(),
        })
    }
}

/// A session's slots as a handler sees them: the values that travelled with the request, and what it wrote since.
///
/// Owned by one request's context and gone with it. What is written here is seen here at once; the session's owner
/// learns of it from [`take_writes`](Self::take_writes), which ride on the answer or on a streamed item.
#[derive(Debug, Default)]
pub(crate) struct SlotView {
    slots: HashMap<SlotName, SlotState>,
    reads: Vec<SlotName>,
    writes: Vec<SlotName>,
    written: Vec<SlotValue>,
}

impl SlotView {
    /// The view of a capability that declares `reads` and `writes`, from the values that travelled with the request.
    /// Values of slots that are not declared are left out.
    pub(crate) fn new(values: Vec<SlotValue>, reads: &[SlotName], writes: &[SlotName]) -> Self {
        let mut view = Self { reads: reads.to_vec(), writes: writes.to_vec(), ..Self::default() };
        for SlotValue { name, version, value, .. } in values {
            if view.reads.contains(&name) || view.writes.contains(&name) {
                view.slots.insert(name, SlotState { version, text: value });
            }
        }
        view
    }

    /// A slot's value as JSON text; `None` if it was never written.
    ///
    /// # Errors
    /// [`SlotRefused::NotDeclared`] if the capability neither reads nor writes this slot: a mistyped name is no empty
    /// slot.
    pub(crate) fn text(&self, name: &SlotName) -> Result<Option<&str>, SlotRefused> {
        if !self.reads.contains(name) && !self.writes.contains(name) {
            return Err(SlotRefused::NotDeclared { slot: name.clone(), verb: "reads" });
        }
        Ok(self.slots.get(name).and_then(SlotState::text))
    }

    /// Writes a JSON text to a slot, based on the version seen here, and returns the version that this makes.
    ///
    /// # Errors
    /// [`SlotRefused::NotDeclared`] if the capability does not declare that it writes the slot; otherwise as for a write
    /// at the owner. Whether somebody else wrote the slot meanwhile only the owner knows: that conflict ends the call.
    pub(crate) fn set(&mut self, name: &SlotName, value: String, merge: Merge) -> Result<u64, SlotRefused> {
        let version = self.slots.get(name).map_or(0, SlotState::version);
        self.write(SlotValue { name: name.clone(), version, merge, value })
    }

    /// Takes over what a nested call wrote: seen here from now on, and handed on with this request's own writes.
    ///
    /// # Errors
    /// [`SlotRefused`] at the first write that this capability does not declare, or that meets a slot written here since
    /// the nested call began. The writes before it are kept.
    pub(crate) fn absorb(&mut self, writes: Vec<SlotValue>) -> Result<(), SlotRefused> {
        writes.into_iter().try_for_each(|write| self.write(write).map(drop))
    }

    /// The writes since the last time, in order; each is based on what the one before it made.
    pub(crate) fn take_writes(&mut self) -> Vec<SlotValue> {
        std::mem::take(&mut self.written)
    }

    /// The values that travel with a nested request to a capability that declares `names`.
    pub(crate) fn values<'a>(&self, names: impl IntoIterator<Item = &'a SlotName>) -> Vec<SlotValue> {
        travelling(&self.slots, names)
    }

    fn write(&mut self, write: SlotValue) -> Result<u64, SlotRefused> {
        check_declared(&write.name, &self.writes)?;
        let version = match self.slots.get_mut(&write.name) {
            Some(slot) => slot.apply(&write)?,
            None => {
                let mut slot = SlotState::default();
                let version = slot.apply(&write)?;
                self.slots.insert(write.name.clone(), slot);
                version
            }
        };
        self.written.push(write);
        Ok(version)
    }
}

/// Whether a capability that declares `writes` may write the slot.
///
/// # Errors
/// [`SlotRefused::NotDeclared`] if not.
pub(crate) fn check_declared(slot: &SlotName, writes: &[SlotName]) -> Result<(), SlotRefused> {
    if writes.contains(slot) {
        return Ok(());
    }
    Err(SlotRefused::NotDeclared { slot: slot.clone(), verb: "writes" })
}

/// Those of the named slots that have a value, each once, as they travel.
pub(crate) fn travelling<'a>(
    slots: &HashMap<SlotName, SlotState>,
    names: impl IntoIterator<Item = &'a SlotName>,
) -> Vec<SlotValue> {
    let mut values: Vec<SlotValue> = Vec::new();
    for name in names {
        if values.iter().all(|value| value.name != *name) {
            values.extend(slots.get(name).and_then(|slot| slot.travelling(name)));
        }
    }
    values
}

fn read(slot: &SlotName, text: &str) -> Result<Value, SlotRefused> {
    serde_json::from_str(text)
        .map_err(|error| SlotRefused::NotJson { slot: slot.clone(), reason: error.to_string() })
}

/// RFC 7396, section 2.
fn merge_patch(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(&key);
        } else {
            merge_patch(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
