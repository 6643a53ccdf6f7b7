//! The chapters of the source are in the list that players read.

use super::{Faults, Kind};
use crate::source::Source;
use crate::title::Title;

/// Containers round chapters, and the event that they are compared with is a frame.
const CHAPTER_SECONDS: f64 = 0.08;

pub(super) fn of(source: &Source, title: &Title, faults: &mut Faults) {
    let Some(moved) = moved(source, title) else { return };
    // Those that begin before the title are cut or left out: that is a matter of taste.
    let ends = title.record.duration_seconds - CHAPTER_SECONDS;
    let inside = |start: f64| start > CHAPTER_SECONDS && start < ends;
    for one in &source.chapters {
        let start = one.start + moved;
        let is_same =
            |(at, name): &(f64, String)| (at - start).abs() < CHAPTER_SECONDS && *name == one.title;
        if inside(start) && !title.chapters.iter().any(is_same) {
            let found = &title.chapters;
            faults.add(Kind::Chapter, format!("no {:?} at {start:.3}: {found:?}", one.title));
        }
    }
    for (_, name) in &title.chapters {
        if !source.chapters.iter().any(|one| one.title == *name) {
            faults.add(Kind::Chapter, format!("{name:?} is not in the source"));
        }
    }
}

/// How much later than in the source the last event is.
fn moved(source: &Source, title: &Title) -> Option<f64> {
    let last = |times: &[f64]| times.last().copied();
    let (wanted, got) = match &source.picture {
        Some(picture) => (last(&picture.seen.flashes), last(&title.by_hls.seen.first()?.flashes)),
        None => {
            (last(&source.sounds.first()?.heard.beeps), last(&title.by_hls.heard.first()?.beeps))
        }
    };
    Some(got? - wanted?)
}
