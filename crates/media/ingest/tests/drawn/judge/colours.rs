//! Every size has the colour of the source.

use super::{Faults, Kind};
use crate::draw::Film;
use crate::measure::{rgb, with_bt709_primaries};
use crate::source::Source;
use crate::title::{Colours, Title};

/// Encoders and rounding, per channel of 0 to 255. A wrong matrix makes 25 and more.
const COLOUR_DISTANCE: f64 = 14.0;

/// Every size has all tags of colour, and with them the patch has the colour that was drawn.
pub(super) fn of(film: &Film, source: &Source, title: &Title, faults: &mut Faults) {
    let Some(picture) = &source.picture else { return };
    for (index, (colours, seen)) in title.colours.iter().zip(&title.by_hls.seen).enumerate() {
        // With the ladder of these tests, an encoded picture of these sizes has two.
        let is_copied = film.options.copy
            && title.record.video.len() == 1
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
        let got = with_bt709_primaries(got, &colours.primaries);
        let wanted = with_bt709_primaries(picture.patch.map(f64::from), &picture.primaries);
        let far =
            got.iter().zip(wanted).any(|(got, wanted)| (got - wanted).abs() > COLOUR_DISTANCE);
        if far {
            faults.add(
                Kind::Colour,
                format!("size {index} shows {got:.0?} instead of {wanted:.0?} ({colours:?})",),
            );
        }
    }
}

/// A high dynamic range is mapped to the range of ordinary screens, which a note says, or kept and declared.
fn wide(transfer: Option<&str>, title: &Title, colours: &Colours, faults: &mut Faults) {
    if Some(colours.transfer.as_str()) == transfer {
        let wanted = if transfer == Some("smpte2084") { "PQ" } else { "HLG" };
        let ranges: Vec<_> = title.hls.pictures.iter().map(|one| one.range.as_deref()).collect();
        let of_key_frames = title.hls.key_frame_ranges.iter().map(Option::as_deref);
        if ranges.iter().copied().chain(of_key_frames).any(|range| range != Some(wanted)) {
            let all = (ranges, &title.hls.key_frame_ranges);
            faults.add(Kind::Colour, format!("it is {wanted}, and VIDEO-RANGE is {all:?}"));
        }
        // The numbers of BT.2020, of the transfer, and of BT.2020 (ISO/IEC 23091-2).
        let numbers = [9, if wanted == "PQ" { 16 } else { 18 }, 9];
        if title.dash.pictures.iter().any(|one| one.cicp != Some(numbers)) {
            let all: Vec<_> = title.dash.pictures.iter().map(|one| one.cicp).collect();
            faults.add(Kind::Colour, format!("DASH says {all:?} instead of {numbers:?}"));
        }
    } else if !title.notes.iter().any(|note| note.contains("dynamic range")) {
        let notes = &title.notes;
        faults
            .add(Kind::Colour, format!("the dynamic range was changed without a note: {notes:?}"));
    }
}
