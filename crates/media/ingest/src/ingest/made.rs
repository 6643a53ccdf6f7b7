//! The results of encoding a source, in the form that manifests need.

use std::path::{Path, PathBuf};

use crate::captions::Captions;
use crate::frame_rate::FrameRate;
use crate::layout::Layout;
use crate::mp4::Track;
use crate::role::Role;

/// The parts of a title that its manifests describe. Its files are in one folder.
#[derive(Default)]
pub(super) struct Made {
    /// Smallest first; those of high dynamic range after the others.
    pub(super) video: Vec<Picture>,
    /// In the source's order. Exactly one is the default.
    pub(super) audio: Vec<Sound>,
    pub(super) subtitles: Vec<Subtitles>,
    /// Whether there is a poster.
    pub(super) has_poster: bool,
    /// The sheets of thumbnails, if there is a picture.
    pub(super) tiles: Option<Tiles>,
    /// Whether there is a file of chapters.
    pub(super) has_chapters: bool,
    /// In the pictures, the same in every size.
    pub(super) captions: Captions,
    /// Parts of the source that could not be made, as messages.
    pub(super) left_out: Vec<String>,
}

pub(super) struct Picture {
    pub(super) file: String,
    /// Where the file is until the title is moved into its place.
    pub(super) place: PathBuf,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) frame_rate: FrameRate,
    pub(super) track: Track,
}

pub(super) struct Sound {
    pub(super) file: String,
    /// Where the file is until the title is moved into its place.
    pub(super) place: PathBuf,
    pub(super) language: Option<String>,
    /// Unique among the sounds.
    pub(super) name: String,
    pub(super) roles: Vec<Role>,
    pub(super) is_default: bool,
    pub(super) layout: Layout,
    pub(super) track: Track,
}

pub(super) struct Subtitles {
    pub(super) file: String,
    pub(super) language: Option<String>,
    /// Unique among the subtitles.
    pub(super) name: String,
    pub(super) roles: Vec<Role>,
}

/// The sheets of thumbnails, all alike.
pub(super) struct Tiles {
    /// Their names, with `$Number$` for the number of a sheet, from 1.
    pub(super) files: String,
    /// The size of a sheet.
    pub(super) width: u32,
    pub(super) height: u32,
    /// A sheet has this many thumbnails in a row, and as many rows.
    pub(super) per_row: u32,
    /// How much of the film a sheet shows.
    pub(super) seconds: f64,
    /// The rate of the largest sheet.
    pub(super) bits_per_second: u64,
}

impl Subtitles {
    pub(super) fn is_forced(&self) -> bool {
        self.roles.contains(&Role::Forced)
    }
}

impl Made {
    /// Its pictures by their dynamic range: players don't switch between ladders while they play.
    pub(super) fn ladders(&self) -> impl Iterator<Item = &[Picture]> {
        self.video.chunk_by(|one, next| one.track.range() == next.track.range())
    }

    /// The ladder that everything plays, if there are several.
    pub(super) fn main_ladder(&self) -> &[Picture] {
        self.ladders().next().unwrap_or_default()
    }

    /// The title's playing time: until its last picture or sound ends.
    pub(super) fn seconds(&self) -> f64 {
        self.tracks().map(|(_, track)| track.ends_seconds()).fold(0.0, f64::max)
    }

    /// The longest segment of any picture or sound.
    pub(super) fn longest_seconds(&self) -> f64 {
        self.tracks().map(|(_, track)| track.longest_seconds()).fold(0.0, f64::max)
    }

    /// The target duration of HLS: that of the longest segment, rounded (RFC 8216 section 4.3.3.1), and not zero. It has to be the same for
    /// all pictures and sounds (section 6.2.4), so it comes from the longest segment of the whole title.
    pub(super) fn target_seconds(&self) -> u32 {
        self.longest_seconds().round().max(1.0) as u32
    }

    /// Every track file, by name.
    pub(super) fn tracks(&self) -> impl Iterator<Item = (&str, &Track)> {
        let video = self.video.iter().map(|one| (one.file.as_str(), &one.track));
        video.chain(self.audio.iter().map(|one| (one.file.as_str(), &one.track)))
    }

    /// Every track file, by name, and where it is.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, &Path)> {
        let video = self.video.iter().map(|one| (one.file.as_str(), one.place.as_path()));
        video.chain(self.audio.iter().map(|one| (one.file.as_str(), one.place.as_path())))
    }
}

/// A file's name with another extension.
pub(super) fn beside(file: &str, extension: &str) -> String {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    format!("{stem}.{extension}")
}
