//! What lies in a title's hidden folder.

use std::path::Path;

use catalog::Record;
use fleet::{Digest, PublishedTitle};

use super::arrival::ARRIVING;
use super::block_map::Why;

/// A title out of the server's sight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hidden {
    /// Why it came there.
    pub(super) why: Why,
    /// Which version it is; `None` if its record cannot be read.
    version: Option<Digest>,
}

impl Hidden {
    /// What lies in the folder `workshop`.
    pub(super) fn find(workshop: &Path) -> Self {
        let record = Record::read(&workshop.join(ARRIVING)).ok();
        let version = record.and_then(|record| record.sha256.parse().ok());
        Self { why: Why::of(workshop), version }
    }

    /// Whether `wanted` is missing like a title of which nothing is there, so that it waits for its window and its turn: a part of it is missing, or
    /// what may be damaged is another version, of which hardly a block would be of use.
    pub(super) fn is_missing(&self, wanted: &PublishedTitle) -> bool {
        let is_other = self.version.is_some_and(|version| version != wanted.version);
        self.why == Why::Fill || is_other
    }
}
