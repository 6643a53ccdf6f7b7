//! Hints to the helper: what viewers may request next, so that it is there when they do.

use super::EdgeLink;
use config::EdgeConfig;
use edge::contract::{AheadHint, AnnouncedObject};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// The most hints that wait for the thread that sends them. Further ones are dropped: viewers' own questions are in the same line.
const UNSENT_MAX: usize = 64;

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct AheadSettings {
    /// Whether what players announce is fetched.
    pub(crate) takes_announced: bool,
    /// How many segments after the requested one are fetched, by its playlist.
    segments: u8,
    /// The same by the numbers in their names.
    numbered: u8,
    waste_percent_max: u8,
}

impl AheadSettings {
    /// Those of a configuration that has passed [`config::Config::check`].
    pub(crate) fn of(config: &EdgeConfig) -> Self {
        Self {
            takes_announced: config.ahead_cmcd,
            segments: config.ahead_segments,
            numbered: config.ahead_numbered,
            waste_percent_max: config.ahead_waste_percent,
        }
    }

    /// Whether segments after the requested one are fetched.
    pub(crate) fn follows(&self) -> bool {
        self.segments > 0 || self.numbered > 0
    }

    /// Whether anything is fetched ahead.
    pub(crate) fn is_on(&self) -> bool {
        self.takes_announced || self.follows()
    }

    /// The hint of a viewer who has requested `path`, after which segments are fetched if it `is_followed`.
    pub(super) fn hint(
        &self,
        client: IpAddr,
        path: String,
        announced: Vec<AnnouncedObject>,
        is_followed: bool,
    ) -> AheadHint {
        let (segments, numbered) =
            if is_followed { (self.segments, self.numbered) } else { (0, 0) };
        let waste_percent_max = self.waste_percent_max;
        AheadHint { client, path, announced, segments, numbered, waste_percent_max }
    }
}

/// Hints on their way, and what became of what was fetched.
#[derive(Default)]
pub(super) struct AheadLink {
    unsent: AtomicUsize,
    fetched_used_wasted: [AtomicU64; 3],
    is_paused: AtomicBool,
}

impl AheadLink {
    /// Adds to the bytes fetched ahead, used and wasted.
    pub(super) fn note(&self, bytes: [u64; 3], is_paused: bool) {
        for (total, bytes) in self.fetched_used_wasted.iter().zip(bytes) {
            total.fetch_add(bytes, Relaxed);
        }
        self.is_paused.store(is_paused, Relaxed);
    }

    /// A hint has left the line.
    pub(super) fn note_sent(&self) {
        self.unsent.fetch_sub(1, Relaxed);
    }

    /// The bytes so far, by what became of them.
    pub(super) fn bytes(&self) -> [(&'static str, u64); 3] {
        let [fetched, used, wasted] = &self.fetched_used_wasted;
        [("fetched", fetched), ("used", used), ("wasted", wasted)]
            .map(|(name, bytes)| (name, bytes.load(Relaxed)))
    }

    /// Whether nothing is fetched ahead, because too much was wasted.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Relaxed)
    }
}

impl EdgeLink {
    /// Sends a hint, unless there is no helper or too many wait.
    pub(super) fn hint(&self, hint: AheadHint) {
        if self.trouble().is_some() {
            return;
        }
        if self.ahead.unsent.fetch_add(1, Relaxed) >= UNSENT_MAX {
            return self.ahead.note_sent();
        }
        self.ask(edge::contract::EdgeAsk::Ahead(Box::new(hint)));
    }

    /// Whether a player's next request would be answered without the helper, as far as a part of a film was announced. Whatever else is known is
    /// there, or is fetched for its own viewers.
    pub(super) fn has_announced(&self, one: &AnnouncedObject) -> bool {
        let now = Instant::now();
        let known = self.table().look(&one.path, now, now);
        match (known, one.bytes()) {
            (None, _) => false,
            (Some(Ok(cached)), Some(bytes)) if one.is_part() => cached.has(bytes),
            _ => true,
        }
    }
}
