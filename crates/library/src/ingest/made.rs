//! What was made of a source, as the manifests name it.

use std::path::{Path, PathBuf};

use crate::mp4::Track;
use crate::probe::FrameRate;

/// Everything of a title that its manifests are about. Files are in one folder.
#[derive(Default)]
pub(super) struct Made {
    /// Smallest first.
    pub(super) video: Vec<Picture>,
    /// As in the source. Of several, exactly one is the default.
    pub(super) audio: Vec<Sound>,
    pub(super) subtitles: Vec<Subtitles>,
    /// What of the source could not be made, each as words for a person.
    pub(super) left_out: Vec<String>,
}

pub(super) struct Picture {
    pub(super) file: String,
    /// Where the file is until the title is put in its place.
    pub(super) place: PathBuf,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) frame_rate: FrameRate,
    pub(super) track: Track,
}

pub(super) struct Sound {
    pub(super) file: String,
    /// Where the file is until the title is put in its place.
    pub(super) place: PathBuf,
    pub(super) language: Option<String>,
    /// Unlike every other sound's.
    pub(super) name: String,
    pub(super) is_default: bool,
    pub(super) channels: u32,
    pub(super) track: Track,
}

pub(super) struct Subtitles {
    pub(super) file: String,
    pub(super) language: Option<String>,
    /// Unlike every other one's.
    pub(super) name: String,
    pub(super) is_forced: bool,
}

impl Made {
    /// How long the title plays: as long as the longest of its pictures and sounds.
    pub(super) fn seconds(&self) -> f64 {
        self.tracks().map(|(_, track)| track.seconds()).fold(0.0, f64::max)
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
