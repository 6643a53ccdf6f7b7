//! Every size has the colour of the source.

use super::{Faults, Kind};
use crate::draw::Film;
use crate::measure::{rgb, with_bt709_primaries};
use crate::source::{Source, SourcePicture};
use crate::title::{Cicp, Colours, Title};

/// Encoders and rounding, per channel of 0 to 255. A wrong matrix makes 25 and more.
const COLOUR_DISTANCE: f64 = 14.0;

/// Of 1023: a patch that is kept is encoded, not converted.
const KEPT_DISTANCE: f64 = 10.0;

/// Every size has all tags of colour, and with them the patch has the colour that was drawn.
pub(super) fn of(film: &Film, source: &Source, title: &Title, faults: &mut Faults) {
    let Some(picture) = &source.picture else { return };
    if picture.wide.is_some() {
        ladders(film, picture, title, faults);
    }
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
            wide(picture, title, (index, colours), faults);
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
fn wide(
    picture: &SourcePicture,
    title: &Title,
    (index, colours): (usize, &Colours),
    faults: &mut Faults,
) {
    let is_kept = Some(colours.transfer.as_str()) == picture.wide;
    if !is_kept && !title.notes.iter().any(|note| note.contains("dynamic range")) {
        let notes = &title.notes;
        faults
            .add(Kind::Colour, format!("the dynamic range was changed without a note: {notes:?}"));
    }
    // The numbers of BT.2020, of the transfer, and of BT.2020 (ISO/IEC 23091-2).
    let (wanted, numbers) = match picture.wide.filter(|_| is_kept) {
        Some("smpte2084") => ("PQ", Some([9, 16, 9])),
        Some(_) => ("HLG", Some([9, 18, 9])),
        None => ("SDR", None),
    };
    let of_size = title.hls.pictures.get(index).and_then(|one| one.range.as_deref());
    let of_key_frames = title.hls.key_frame_ranges.get(index).and_then(Option::as_deref);
    for (what, range) in [("size", of_size), ("key frames of size", of_key_frames)] {
        if range.unwrap_or("SDR") != wanted {
            faults.add(
                Kind::Colour,
                format!("{what} {index} has VIDEO-RANGE {range:?} instead of {wanted}"),
            );
        }
    }
    // Players that don't evaluate colours have to leave it out only if there is something else to play.
    let is_essential = is_kept && title.colours.iter().any(|one| one.transfer != colours.transfer);
    let wanted = numbers.map(|numbers| Cicp { numbers, is_essential });
    let stated = title.dash.pictures.get(index).and_then(|one| one.cicp);
    if stated != wanted {
        faults.add(
            Kind::Colour,
            format!("DASH says {stated:?} of size {index} instead of {wanted:?}"),
        );
    }
    let seen = title.by_hls.seen.get(index).map_or([0.0; 3], |seen| seen.patch);
    let is_same = seen.iter().zip(picture.seen.patch).all(|(a, b)| (a - b).abs() <= KEPT_DISTANCE);
    if is_kept && !is_same {
        let was = picture.seen.patch;
        faults.add(Kind::Colour, format!("size {index} has {seen:.0?} instead of {was:.0?}"));
    }
}

/// If it was asked for, every size is there in the source's range, too.
fn ladders(film: &Film, picture: &SourcePicture, title: &Title, faults: &mut Faults) {
    let is_kept = |colours: &&Colours| Some(colours.transfer.as_str()) == picture.wide;
    let kept: Vec<_> = title.colours.iter().filter(is_kept).map(|one| one.height).collect();
    let others: Vec<_> =
        title.colours.iter().filter(|one| !is_kept(one)).map(|one| one.height).collect();
    let is_right = match (film.options.hdr, others.is_empty()) {
        (_, true) => film.options.copy,
        (true, false) => kept == others,
        (false, false) => kept.is_empty(),
    };
    if !is_right {
        faults.add(
            Kind::Missing,
            format!("sizes of {:?}: {kept:?} next to {others:?}", picture.wide),
        );
    }
}
