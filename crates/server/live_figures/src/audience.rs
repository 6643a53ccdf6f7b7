//! A worker's data about its viewers for the admin listener's thread: bytes by title, and players' reports.
//!
//! All of it is behind locks. The worker takes one once per response and the others once a second; the admin thread takes each once a second.

use crate::busiest::{Busiest, TitleShare};
use catalog::KnownTitles;
use qoe::{Collector, Delivery, QoeEvent, QoeReport};
use std::sync::{Arc, Mutex};

/// One worker's audience.
#[derive(Debug, Default)]
pub struct Audience {
    busiest: Mutex<Busiest>,
    reports: Mutex<Vec<QoeReport>>,
    deliveries: Mutex<Vec<Delivery>>,
    events: Mutex<Vec<QoeEvent>>,
}

impl Audience {
    /// Counts a response's bytes for its title, once per response; `path` is the path of its file, and `is_start` means that it begins with the
    /// file's first byte.
    pub fn count_title(&self, path: &[u8], bytes: u64, is_start: bool) {
        let mut busiest = self.busiest.lock().expect("no holder of this lock can panic");
        busiest.note(path, bytes, is_start);
    }

    /// The titles since the last call with their bytes, and the folders found to be titles; see [`Busiest::take`].
    pub fn take_busiest(&self, known: &Arc<KnownTitles>) -> (Vec<TitleShare>, Vec<Box<[u8]>>) {
        self.busiest.lock().expect("no holder of this lock can panic").take(known)
    }

    /// Hands over players' reports, once a second. If the last ones have not been taken yet, they stay, and nothing is added to them.
    pub fn hand_over(&self, reports: &mut Vec<QoeReport>) {
        let mut waiting = self.reports.lock().expect("no holder of this lock can panic");
        if waiting.is_empty() {
            std::mem::swap(&mut *waiting, reports);
        }
    }

    /// Hands over the bytes delivered to sessions, in the same way.
    pub fn hand_over_deliveries(&self, deliveries: &mut Vec<Delivery>) {
        let mut waiting = self.deliveries.lock().expect("no holder of this lock can panic");
        if waiting.is_empty() {
            std::mem::swap(&mut *waiting, deliveries);
        }
    }

    /// Hands over the events that players posted, in the same way.
    pub fn hand_over_events(&self, events: &mut Vec<QoeEvent>) {
        let mut waiting = self.events.lock().expect("no holder of this lock can panic");
        if waiting.is_empty() {
            std::mem::swap(&mut *waiting, events);
        }
    }

    /// Passes all that was handed over to the collector.
    pub fn give_to(&self, collector: &mut Collector) {
        collector.take(self.take_reports());
        collector.take_deliveries(self.take_deliveries());
        collector.take_events(self.take_events());
    }

    /// Takes the events that were handed over.
    pub fn take_events(&self) -> Vec<QoeEvent> {
        std::mem::take(&mut *self.events.lock().expect("no holder of this lock can panic"))
    }

    /// Takes the deliveries that were handed over.
    pub fn take_deliveries(&self) -> Vec<Delivery> {
        std::mem::take(&mut *self.deliveries.lock().expect("no holder of this lock can panic"))
    }

    /// Takes the reports that were handed over.
    pub fn take_reports(&self) -> Vec<QoeReport> {
        std::mem::take(&mut *self.reports.lock().expect("no holder of this lock can panic"))
    }
}
