//! What a worker leaves of its viewers for the admin listener's thread to take: which titles the bytes went to, and what players told.
//!
//! Behind locks that the worker takes once per response and once a second, and that the other thread takes once a second.

use crate::busiest::{Busiest, Share};
use catalog::KnownTitles;
use qoe::Report;
use std::sync::{Arc, Mutex};

/// One worker's.
#[derive(Debug, Default)]
pub struct Audience {
    busiest: Mutex<Busiest>,
    reports: Mutex<Vec<Report>>,
}

impl Audience {
    /// Counts a response's bytes for its title; `path` is that of its file. Once per response.
    pub fn count_title(&self, path: &[u8], bytes: u64) {
        self.busiest.lock().expect("no holder of this lock can panic").note(path, bytes);
    }

    /// The titles since the last time with their bytes, and the folders that were found to be titles; see [`Busiest::take`].
    pub fn take_busiest(&self, known: &Arc<KnownTitles>) -> (Vec<Share>, Vec<Box<[u8]>>) {
        self.busiest.lock().expect("no holder of this lock can panic").take(known)
    }

    /// Hands over what players told, once a second. What was not taken since the last time stays, and nothing is added to it.
    pub fn hand_over(&self, reports: &mut Vec<Report>) {
        let mut waiting = self.reports.lock().expect("no holder of this lock can panic");
        if waiting.is_empty() {
            std::mem::swap(&mut *waiting, reports);
        }
    }

    /// Takes what was handed over.
    pub fn take_reports(&self) -> Vec<Report> {
        std::mem::take(&mut *self.reports.lock().expect("no holder of this lock can panic"))
    }
}
