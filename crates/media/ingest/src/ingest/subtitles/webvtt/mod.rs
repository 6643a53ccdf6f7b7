//! WebVTT (W3C): files as a title has them. [`read`](Document::read) takes sources of this format as they are, as far as they are valid;
//! cues of other formats come through [`Document::of`]. [`Document::write`] gives the text, which every strict reader takes.
//!
//! Invariants of what is written: no empty line and no `-->` in a cue or block, every cue has a length, cues are in order.

mod payload;
mod read;
mod settings;
mod write;

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// STYLE and REGION blocks, without their last line end.
    pub(super) head: Vec<String>,
    pub(super) cues: Vec<Cue>,
    /// How many cues and blocks of the source were invalid.
    pub(super) dropped: usize,
}

/// A cue with its text as it is in the file, with tags and character references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cue {
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
    /// Empty for none.
    pub(super) id: String,
    /// Empty for the default place.
    pub(super) settings: String,
    pub(super) payload: String,
}

impl Document {
    /// Puts cues in the order of their starts.
    pub(super) fn sort(&mut self) {
        self.cues.sort_by_key(|cue| cue.start_ms);
    }
}

#[cfg(test)]
mod tests;
