//! Every size has the colour of the source.

use super::{Faults, Kind};
use crate::measure::rgb;
use crate::source::Source;
use crate::title::{Colours, Title};

/// Encoders and rounding, per channel of 0 to 255. A wrong matrix makes 25 and more.
const COLOUR_DISTANCE: f64 = 14.0;

/// Every size has all tags of colour, and with them the patch has the colour that was drawn.
pub(super) fn of(source: &Source, title: &Title, faults: &mut Faults) {
    let Some(picture) = &source.picture else { return };
    for (index, (colours, seen)) in title.colours.iter().zip(&title.by_hls.seen).enumerate() {
        let is_copied = title.record.video.len() == 1
            && title.notes.is_empty()
            && ["h264", "hevc", "av1"].contains(&picture.codec.as_str());
        let untagged = [&colours.matrix, &colours.primaries, &colours.transfer]
            .iter()
            .any(|tag| tag.is_empty());
        if untagged && !is_copied {
            faults.add(Kind::Colour, format!("size {index} is not tagged: {colours:?}"));
        }
        if picture.wide.is_some() {
            wide(picture.wide, title, colours, faults);
            continue;
        }
        let by_size = if colours.height >= 720 { "bt709" } else { "bt601" };
        let matrix = if colours.matrix.is_empty() { by_size } else { &colours.matrix };
        let scale = f64::from(1 << (colours.bits - 8));
        let got = rgb(seen.patch.map(|value| value / scale), matrix, colours.is_full);
        let far = got
            .iter()
            .zip(picture.patch)
            .any(|(got, wanted)| (got - f64::from(wanted)).abs() > COLOUR_DISTANCE);
        if far {
            faults.add(
                Kind::Colour,
                format!(
                    "size {index} shows {got:.0?} instead of {:?} ({colours:?})",
                    picture.patch
                ),
            );
        }
    }
}

/// A high dynamic range is mapped to the range of ordinary screens, which a note says, or kept and declared.
fn wide(transfer: Option<&str>, title: &Title, colours: &Colours, faults: &mut Faults) {
    if Some(colours.transfer.as_str()) == transfer {
        let wanted = if transfer == Some("smpte2084") { "PQ" } else { "HLG" };
        let ranges: Vec<_> = title.hls.pictures.iter().map(|one| one.range.as_deref()).collect();
        if ranges.iter().any(|range| *range != Some(wanted)) {
            faults.add(Kind::Colour, format!("it is {wanted}, and VIDEO-RANGE is {ranges:?}"));
        }
    } else if !title.notes.iter().any(|note| note.contains("dynamic range")) {
        let notes = &title.notes;
        faults
            .add(Kind::Colour, format!("the dynamic range was changed without a note: {notes:?}"));
    }
}
