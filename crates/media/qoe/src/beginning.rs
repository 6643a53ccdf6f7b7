//! Whether a session began at this server. A session that moves to another server keeps its name, and would be counted again there.
//!
//! A player that begins requests with `su`, and its buffer is empty. One that comes from elsewhere in the middle of a film has media in its
//! buffer, or reports that it ran empty (`bs`), or requests media without `su`. A player that moves during its start, or in a stall that it has
//! already reported, can't be told apart from one that begins.

use crate::QoeReport;

/// Whether a session began at this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Nothing shows it yet.
    #[default]
    Unknown,
    /// It requested something with `su`, but no media yet.
    Waits,
    /// It began here.
    Seen,
    /// It began elsewhere, or before this server did.
    Missed,
}

impl Beginning {
    /// Takes a report into account; the first one for media decides.
    pub(crate) fn take(&mut self, report: &QoeReport, is_media: bool) {
        if matches!(self, Self::Seen | Self::Missed) {
            return;
        }
        if !is_media {
            if report.startup {
                *self = Self::Waits;
            }
            return;
        }
        let has_played = report.starved
            || report.starved_ms.is_some()
            || report.buffer_ms.is_some_and(|buffer_ms| buffer_ms > 0);
        *self = match report.startup && !has_played {
            true => Self::Seen,
            false => Self::Missed,
        };
    }

    /// Whether it was seen.
    pub(crate) fn was_seen(self) -> bool {
        matches!(self, Self::Waits | Self::Seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cmcd, ObjectType};

    fn was_seen(requests: &[&str]) -> bool {
        let mut beginning = Beginning::default();
        for text in requests {
            let mut cmcd = Cmcd::default();
            cmcd.read(text.as_bytes());
            let report = QoeReport::new(0, 1, b"a/x.m4s", &cmcd);
            beginning.take(&report, matches!(report.object, ObjectType::Audio | ObjectType::Video));
        }
        beginning.was_seen()
    }

    #[test]
    fn a_session_begins_where_its_player_has_nothing_yet() {
        assert!(was_seen(&["ot=m,su", "ot=i,su", "ot=v,su,bl=0", "ot=v,bl=4000"]));
        assert!(was_seen(&["ot=v,su"]), "without a manifest");
        assert!(was_seen(&["ot=m", "ot=m,su"]), "it left before anything played");
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
        ] {
            assert!(!was_seen(requests), "{requests:?}");
        }
    }
}
