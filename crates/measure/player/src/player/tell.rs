//! Reports about the viewer in requests to the server (CMCD), and what is still to be reported.
//!
//! The server counts a stall once for each `bs`, and takes the length from `bsd`. So both go only with the pictures' requests, or with the
//! sound's if there are no pictures. The start delay goes with the first request for media after the start, of either kind.

use super::Player;
use super::open::Open;
use crate::cmcd::{Cmcd, CmcdObject};
use crate::event::PlayerEvent;
use crate::presentation::{Format, TrackKind};
use crate::request::RequestKind;
use std::time::Duration;

/// Facts that no request has reported yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Untold {
    /// The buffer ran empty.
    pub(super) is_starved: bool,
    /// A stall ended after this time.
    pub(super) starved_for: Option<Duration>,
    /// Playback began after this time.
    pub(super) start_delay: Option<Duration>,
}

impl Player {
    /// The report in a request, if the session sends any.
    pub(super) fn cmcd(&mut self, open: &Open) -> Option<Box<Cmcd>> {
        let session = self.options.cmcd.clone()?;
        let t = usize::from(open.track);
        let object = match open.kind {
            RequestKind::Steering => return None,
            RequestKind::Manifest | RequestKind::Playlist => CmcdObject::Manifest,
            RequestKind::Start => CmcdObject::Start,
            RequestKind::Index | RequestKind::Probe => CmcdObject::Other,
            RequestKind::Media => self.media_object(t),
        };
        let mut cmcd = Cmcd::new(session, object);
        if let Some(presentation) = &self.presentation {
            cmcd.format = Some(if presentation.format == Format::Hls { 'h' } else { 'd' });
            let is_live = self.tracks.first().is_some_and(super::track::Track::is_live);
            cmcd.is_live = Some(is_live || presentation.reload_after.is_some());
        }
        if open.kind == RequestKind::Probe {
            return Some(Box::new(cmcd));
        }
        cmcd.is_urgent = self.playback.wait().is_some();
        if open.kind == RequestKind::Media {
            self.tell_media(&mut cmcd, open);
        }
        Some(Box::new(cmcd))
    }

    fn media_object(&self, t: usize) -> CmcdObject {
        match self.tracks[t].kind {
            TrackKind::Sound => CmcdObject::Sound,
            TrackKind::Pictures if self.tracks.len() == 1 => CmcdObject::Muxed,
            TrackKind::Pictures => CmcdObject::Pictures,
        }
    }

    fn tell_media(&mut self, cmcd: &mut Cmcd, open: &Open) {
        let t = usize::from(open.track);
        let track = &self.tracks[t];
        cmcd.duration = Some(open.duration);
        cmcd.bits_per_second = Some(track.rate(usize::from(open.rendition)));
        cmcd.top_bits_per_second = Some(track.top_rate());
        cmcd.buffered = Some(self.playback.ahead(t, self.now));
        cmcd.measured = self.measured(usize::from(open.pathway));
        if !cmcd.is_urgent {
            cmcd.start_delay = self.untold.start_delay.take();
        }
        if t == 0 {
            cmcd.is_starved = std::mem::take(&mut self.untold.is_starved);
            cmcd.starved_for = self.untold.starved_for.take();
        }
    }

    /// The next segment has another bit rate.
    pub(super) fn tell_switch(&mut self, t: usize, from: usize, to: usize) {
        if t == 0 {
            self.tally.switched();
        }
        let track = self.tracks[t].index;
        self.events.push_back(PlayerEvent::Switched { track, from, to });
    }
}
