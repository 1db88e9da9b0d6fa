//! Giving back: what a reader has taken frees windows and memory.

use std::time::Instant;

use super::machine::Link;
use crate::wire::StreamId;

impl Link {
    /// Gives back to the windows what a stream no longer holds.
    pub(super) fn free(&mut self, stream: StreamId) {
        let window = u64::from(self.settings.announced.stream_window);
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let released = entry.inbound.release();
        let (is_due, gained) = entry.inbound.free(window);
        if is_due && !self.windows_due.contains(&stream) {
            self.windows_due.push(stream);
        }
        self.free_link(gained);
        self.release_assembly(released);
    }

    pub(super) fn free_events(&mut self) {
        let window = u64::from(self.settings.announced.event_window);
        let (is_due, _) = self.events_in.free(window);
        self.is_link_window_due |= is_due;
    }

    pub(super) fn free_link(&mut self, bytes: u64) {
        self.link_freed += bytes;
        self.is_link_window_due |= bytes > 0 && self.link_grant.free(self.link_freed, self.link_received);
    }

    /// Memory for a message longer than a window: set aside whole before the window opens for it, so that messages that
    /// have begun can always be completed and never wait for each other.
    pub(super) fn reserve_assembly(&mut self, stream: StreamId) {
        let window = u64::from(self.settings.announced.stream_window);
        let budget = self.settings.assembly_bytes;
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let Some(bytes) = entry.inbound.wants_reservation(window) else {
            return;
        };
        if self.assembling > 0 && self.assembling + bytes > budget {
            if !self.assembly_queue.contains(&stream) {
                self.assembly_queue.push_back(stream);
            }
            return;
        }
        self.assembling += bytes;
        entry.inbound.reserve(bytes);
        self.free(stream);
    }

    pub(super) fn release_assembly(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.assembling -= bytes;
        for stream in std::mem::take(&mut self.assembly_queue) {
            self.reserve_assembly(stream);
        }
    }

    pub(super) fn renew_window(&mut self, now: Instant, stream: StreamId) -> Option<u64> {
        let round_trip = self.round_trip();
        let entry = self.streams.get_mut(&stream)?;
        Some(entry.inbound.grant().renew(now, round_trip))
    }
}
