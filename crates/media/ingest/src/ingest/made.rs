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
    /// The basic versions in the source's order, then the other ones. Exactly one of the source's sounds is the default, with all its
    /// versions.
    pub(super) audio: Vec<Sound>,
    pub(super) subtitles: Vec<Subtitles>,
    /// Whether there is a poster.
    pub(super) has_poster: bool,
    /// The widths in which the poster is there, smallest first, if there are several.
    pub(super) poster_widths: Vec<u32>,
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
    /// Unique among the basic versions. Other versions have the name of theirs.
    pub(super) name: String,
    /// Unique among all versions: the name, with what sets this version apart.
    pub(super) label: String,
    pub(super) roles: Vec<Role>,
    pub(super) is_default: bool,
    /// Which of the source's sounds it is.
    pub(super) index: usize,
    /// Whether it is a version next to the basic one.
    pub(super) is_other: bool,
    /// Whether it is encoded because a copy has long gaps.
    pub(super) fills_gaps: bool,
    pub(super) layout: Layout,
    pub(super) track: Track,
}

/// A codec by its name in playlists (RFC 6381), or what it begins with: our name for groups of sounds in it, and the one that viewers know,
/// unless it is one that everything plays.
const SOUND_CODECS: [(&str, &str, Option<&str>); 5] = [
    ("mp4a", "aac", None),
    ("opus", "opus", None),
    ("ac-3", "ac3", Some("AC-3")),
    ("ec-3", "eac3", Some("E-AC-3")),
    ("fLaC", "flac", Some("FLAC")),
];

impl Sound {
    fn codec(&self) -> (&'static str, Option<&'static str>) {
        let codec = SOUND_CODECS.iter().find(|(begin, ..)| self.track.codec.starts_with(begin));
        codec.map_or(("other", None), |(_, group, shown)| (group, *shown))
    }

    /// The name of its codec among groups of sounds.
    pub(super) fn group(&self) -> &'static str {
        self.codec().0
    }

    /// Whether it is the same sound as `basic`, in `codec`.
    fn is_version(&self, basic: &Self, codec: &str) -> bool {
        self.index == basic.index && self.group() == codec
    }

    /// What sets it apart from other versions: "5.1, AC-3".
    pub(super) fn version(&self) -> String {
        let channels = (self.layout.channels() > 2).then_some(self.layout.name);
        let parts: Vec<_> = channels.into_iter().chain(self.codec().1).collect();
        parts.join(", ")
    }
}

/// Sounds among which a player chooses once it has chosen their codec.
pub(super) struct SoundGroup<'a> {
    pub(super) id: String,
    /// The codec that sets it apart from other groups.
    codec: &'static str,
    /// One version of each of the source's sounds, in order.
    pub(super) members: Vec<&'a Sound>,
}

impl<'a> SoundGroup<'a> {
    /// Its members, those in its own codec first: by the first codec of a variant, hls.js tells which variants have the same sound.
    pub(super) fn by_codec(&self) -> Vec<&'a Sound> {
        let mut members = self.members.clone();
        members.sort_by_key(|one| one.group() != self.codec);
        members
    }
}

/// The codecs of versions that may stand for one in `codec`, best first. Every decoder of E-AC-3 decodes AC-3, too (ATSC A/52 annex E); those
/// of AC-3 don't decode E-AC-3.
fn stand_ins(codec: &'static str) -> Vec<&'static str> {
    if codec == "eac3" { vec![codec, "ac3"] } else { vec![codec] }
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

    /// The basic versions of the sounds.
    pub(super) fn basic_sounds(&self) -> impl Iterator<Item = &Sound> + Clone {
        self.audio.iter().filter(|one| !one.is_other)
    }

    /// The group of all basic sounds, and one for each codec of other versions that no basic sound has. A group has to have all sounds (RFC 8216
    /// section 4.3.4.1.1): one that has no version in this codec is in it with a version that all its players play, which usually is the basic
    /// one.
    ///
    /// Each group has a codec of its own, as Apple's authoring specification has it: players choose a codec once. Between groups of the same
    /// codec, hls.js changes by rate whenever it changes sizes, and drops what it has buffered. So other versions in the codec of basic sounds,
    /// such as copied AAC in 5.1, are in no group: HLS leaves them out, and only DASH has them. Their surround is in HLS as E-AC-3.
    pub(super) fn sound_groups(&self) -> Vec<SoundGroup<'_>> {
        let Some(first) = self.audio.first() else { return Vec::new() };
        let members = self.basic_sounds().collect();
        let mut groups = vec![SoundGroup { id: "audio".into(), codec: first.group(), members }];
        let others = || self.audio.iter().filter(|one| one.is_other);
        let mut known: Vec<_> = self.basic_sounds().map(Sound::group).collect();
        for codec in others().map(Sound::group) {
            if known.contains(&codec) {
                continue;
            }
            known.push(codec);
            let best = |basic| {
                let of = |codec| others().find(|one| one.is_version(basic, codec));
                stand_ins(codec).into_iter().find_map(of).unwrap_or(basic)
            };
            let members = self.basic_sounds().map(best).collect();
            groups.push(SoundGroup { id: format!("audio-{codec}"), codec, members });
        }
        groups
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
