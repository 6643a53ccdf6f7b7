//! Whether a session began at this server. A session that moves to another server keeps its name, and would be counted again there.
//!
//! A player that begins requests with `su`, and its buffer is empty. One that comes from elsewhere in the middle of a film has media in its
//! buffer, or reports that it ran empty (`bs`), or requests media without `su`. The first request for a picture decides, because players report a
//! stall with it; without pictures, the first one for sound. A session that requests neither is not counted: it may have moved on before its first
//! segment. A player that moves after its first segment and before it plays can't be told apart from one that begins.

use crate::{ObjectType, QoeReport};

/// Whether a session began at this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Nothing shows it yet.
    #[default]
    Unknown,
    /// By its sound, it began here; it has requested no picture yet.
    Heard,
    /// It began here.
    Seen,
    /// It began elsewhere, or before this server did.
    Missed,
}

impl Beginning {
    /// Takes a report into account; the first one for a picture decides.
    pub(crate) fn take(&mut self, report: &QoeReport) {
        let is_picture = report.object == ObjectType::Video;
        let decides = match self {
            Self::Unknown => is_picture || report.object == ObjectType::Audio,
            Self::Heard => is_picture,
            Self::Seen | Self::Missed => false,
        };
        if !decides {
            return;
        }
        let has_run_dry = report.starved || report.starved_ms.is_some();
        let has_buffer = report.buffer_ms.is_some_and(|buffer_ms| buffer_ms > 0);
        // After its sound, a player may have some of it when it requests the first picture.
        let begins = match self {
            Self::Heard => !has_run_dry,
            _ => report.startup && !has_run_dry && !has_buffer,
        };
        *self = match (begins, is_picture) {
            (true, true) => Self::Seen,
            (true, false) => Self::Heard,
            (false, _) => Self::Missed,
        };
    }

    /// Whether it was seen.
    pub(crate) fn was_seen(self) -> bool {
        matches!(self, Self::Heard | Self::Seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cmcd;

    fn was_seen(requests: &[&str]) -> bool {
        let mut beginning = Beginning::default();
        for text in requests {
            let mut cmcd = Cmcd::default();
            cmcd.read(text.as_bytes());
            let report = QoeReport::new(0, 1, b"a/x.m4s", &cmcd);
            beginning.take(&report);
        }
        beginning.was_seen()
    }

    #[test]
    fn a_session_begins_where_its_player_has_nothing_yet() {
        assert!(was_seen(&["ot=m,su", "ot=i,su", "ot=v,su,bl=0", "ot=v,bl=4000"]));
        assert!(was_seen(&["ot=v,su"]), "without a manifest");
        assert!(was_seen(&["ot=m,su", "ot=a,su,bl=0", "ot=v,su,bl=100"]), "sound comes first");
        assert!(was_seen(&["ot=m,su", "ot=a,su,bl=0"]), "sound only");
    }

    #[test]
    fn a_session_that_comes_from_elsewhere_does_not_begin_again() {
        for requests in [
            &["ot=m", "ot=v,bl=9000", "ot=v,su,bl=0"][..],
            &["ot=v,su,bl=2000"],
            &["ot=m,su", "ot=v,su,bl=0,bs"],
            &["ot=m,su", "ot=v,su,bsd=900"],
            &["ot=v"],
            &["ot=m"],
            // It requested a playlist here, and its first segment elsewhere.
            &["ot=m", "ot=m,su"],
            // It moved in a stall.
            &["ot=m,su", "ot=a,su,bl=0", "ot=v,su,bl=0,bs"],
        ] {
            assert!(!was_seen(requests), "{requests:?}");
        }
    }
}
