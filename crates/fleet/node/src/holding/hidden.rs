//! The contents of a title's hidden folder.

use std::path::Path;

use catalog::Record;
use fleet_protocol::{Digest, PublishedTitle};

use super::arrival::ARRIVING;
use super::block_map::Why;

/// A title that the server cannot see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hidden {
    /// Fill or repair.
    pub(super) why: Why,
    /// Its version; `None` if its record cannot be read.
    version: Option<Digest>,
}

impl Hidden {
    /// Reads the contents of the folder `workshop`.
    pub(super) fn find(workshop: &Path) -> Self {
        let record = Record::read(&workshop.join(ARRIVING)).ok();
        let version = record.and_then(|record| record.sha256.parse().ok());
        Self { why: Why::of(workshop), version }
    }

    /// Whether `wanted` counts as missing altogether, and so waits for its window and its turn: it has arrived only in part, or the
    /// possibly damaged title is of another version, so hardly any of its blocks would be of use.
    pub(super) fn is_missing(&self, wanted: &PublishedTitle) -> bool {
        let is_other = self.version.is_some_and(|version| version != wanted.version);
        self.why == Why::Fill || is_other
    }
}
