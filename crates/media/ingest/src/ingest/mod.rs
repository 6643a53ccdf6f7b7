//! Makes a title from a video file: CMAF in several sizes, with an HLS and a DASH manifest over the same files.
//!
//! ffmpeg decodes, encodes and writes one fragmented file per rendition, with an index at its front. This module writes the manifests from
//! those indexes, because ffmpeg's own muxers list every fragment twice, support one language per playlist, and write a DASH manifest that
//! ffmpeg's own player complains about. So both manifests describe the same bytes, and each file is checked in the process.
//!
//! Invariants: a title is not visible in the library until it is complete (`publish.rs`); one process at a time works on a title
//! (`work.rs`); a finished rendition is not encoded again, unless the source or a setting that affects its bytes has changed (`Job::key`).
//!
//! Read first: [`ingest`], then `jobs.rs`, which decides what is encoded and how.

mod burn_in;
mod chapters;
mod clock;
mod dash;
mod encode;
mod error;
mod ffmpeg;
mod finish;
mod folder;
mod forms;
mod hdr;
mod hls;
mod jobs;
mod made;
mod options;
mod pictures;
mod poster;
mod progress;
mod publish;
mod segment_count;
mod sound_jobs;
mod stop;
mod subtitles;
mod track_name;
mod work;

pub use crate::confined::{Bound, Bounds, lacking};
pub use burn_in::{BurnIn, BurnInTrack};
pub(crate) use error::Attempt;
pub use error::IngestError;
pub(crate) use ffmpeg::{Run, RunLimits};
pub use folder::folder_for;
pub(crate) use jobs::words;
pub use options::{
    AudioCodec, Channels, HdrCodec, Options, SideSubtitles, Speed, TextPurpose, VideoCodec,
};
pub use progress::{EncodingPace, Progress, on_terminal};
pub use stop::Stop;
pub use subtitles::subtitles_as_webvtt;

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use catalog::{Record, TitleName, sha256};

use crate::captions::Captions;
use crate::ffprobe::ProbeError;
use crate::hdr_metadata::HdrMetadata;
use crate::probe::probe;
use crate::source::{Audio, DolbyVision, Source};
use crate::{film, first_frame, first_frames};
use jobs::Tools;
use work::Work;

/// Part of every key. Increment it when the same source and options give another result.
const FORM: &str = "2";

/// A copied picture may begin this much after its sound: players bridge such a gap.
const COPIED_LATE_SECONDS: f64 = 0.5;

/// A title that is in the library.
#[derive(Clone, Debug)]
pub struct Ingested {
    /// Its folder.
    pub folder: PathBuf,
    /// Its record.
    pub record: Record,
    /// How it got there.
    pub outcome: Outcome,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
}

/// How a title got into the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is new.
    Made,
    /// It replaced a title of the same name, from another source or with other options.
    Replaced,
    /// It existed already, from the same file with the same options; nothing was done.
    Kept,
}

/// The data of an ingest.
struct Ingest<'a> {
    file: &'a Path,
    /// The same file, open.
    film: File,
    /// The additional files of subtitles, open, in the order of the options.
    side: Vec<subtitles::Side>,
    /// The poster of the options' choice.
    poster: Option<poster::Chosen>,
    library: &'a Path,
    title: &'a TitleName,
    options: &'a Options,
    stop: &'a Stop,
    source: Source,
    tools: Tools,
    /// Identifies the file in its current state.
    identity: String,
}

/// Makes the title `title` from the video file `file` in the folder `library`, which is created if its parent exists. If the library has the title
/// under an equivalent name ([`TitleName::in_folder`]), that one is replaced; a new title gets the composed name.
///
/// This takes as long as encoding does. It reports to `progress`, and `stop` ends it. The title becomes visible in `library` only when it
/// is complete.
///
/// # Errors
/// [`IngestError`]; finished renditions stay in a hidden folder of the library for another attempt.
pub fn ingest(
    file: &Path,
    library: &Path,
    title: &TitleName,
    options: &Options,
    stop: &Stop,
    mut progress: impl FnMut(Progress),
) -> Result<Ingested, IngestError> {
    let title = &name_in(library, title)?;
    publish::refuse_copy(&library.join(title.as_str()))?;
    let film = film::open(file)?;
    let side: Result<_, _> = options.subtitles.iter().map(subtitles::open).collect();
    let identity = identity(file, &film)?;
    let source = probed(&film, options, stop)?;
    let (side, poster) = (side?, poster::Chosen::open(options, stop)?);
    if !library.is_dir() {
        fs::create_dir(library).attempt("make the folder", library)?;
    }
    let tools = Tools::ask(&source, options);
    hdr::check(&source, options, tools)?;
    let ingest =
        Ingest { file, film, side, poster, library, title, options, stop, source, tools, identity };
    if let Some(kept) = ingest.kept()? {
        return Ok(kept);
    }
    let work = Work::lock(library, title)?;
    let made = ingest.make(&work, &mut progress);
    match made {
        Ok(made) => {
            // The title is in place. The next ingest of it removes what could not be removed now.
            let _ = work.remove();
            Ok(made)
        }
        Err(error) => {
            match error {
                // A film that exceeds a limit leaves nothing behind, not even its finished parts.
                IngestError::Passed { .. } => drop(work.remove()),
                _ => work.leave(),
            }
            Err(ingest.told(error))
        }
    }
}

/// The name that `title` has in the folder `library`, or will have there.
fn name_in(library: &Path, title: &TitleName) -> Result<TitleName, IngestError> {
    let found = match title.in_folder(library) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => found.attempt("look for the title in", library)?,
    };
    Ok(found.unwrap_or_else(|| title.composed()))
}

/// Identifies a file and its current state.
fn identity(file: &Path, film: &File) -> Result<String, IngestError> {
    let path = file.canonicalize().attempt("open", file)?;
    let metadata = film.metadata().attempt("look at", file)?;
    let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
    let numbers = format!("{} {} {seconds}.{nanoseconds}", metadata.ino(), metadata.len());
    Ok(sha256::of_parts([path.as_os_str().as_encoded_bytes(), numbers.as_bytes()]))
}

fn probed(film: &File, options: &Options, stop: &Stop) -> Result<Source, IngestError> {
    let mut source = probe(film, &options.bounds, stop).map_err(probe_failed)?;
    if source.video.is_none() && source.audio.is_empty() {
        return Err(IngestError::NothingToPlay);
    }
    if let Some(lost) = source.lost_sound() {
        return Err(IngestError::NoSound(lost.to_owned()));
    }
    let dolby_vision = source.video.as_ref().and_then(|video| video.dolby_vision);
    if let Some(DolbyVision { profile, is_compatible: false }) = dolby_vision {
        return Err(IngestError::DolbyVisionOnly(profile));
    }
    if let Some(wanted) = &options.burn_in {
        if options.copy {
            return Err(IngestError::CannotCopyBurnt);
        }
        source.burnt = Some(wanted.choose(&source)?);
    }
    find_frame_data(&mut source, film, options, stop)?;
    if options.copy {
        check_copied_codec(&source)?;
    }
    find_first_frames(&mut source, film, options, stop)?;
    if options.copy {
        check_copied_start(&source)?;
    }
    segment_count::check(&source, options)?;
    Ok(source)
}

/// Some encoders of captions skip frames without any.
const CAPTION_PACKETS: u32 = 60;

/// Looks for metadata in frames that encoding drops, unless it gets it from here, or a note says so. A copy keeps it.
fn find_frame_data(
    source: &mut Source,
    film: &File,
    options: &Options,
    stop: &Stop,
) -> Result<(), IngestError> {
    let Some(video) = source.video.as_ref().filter(|_| !options.copy) else { return Ok(()) };
    let (index, is_hdr) = (video.index, video.colours.is_hdr());
    let frames = |packets| {
        let first = (index, packets);
        first_frames::show(film, source, first, &options.bounds, stop).map_err(probe_failed)
    };
    let hdr = match is_hdr {
        true => HdrMetadata::of_frames(&frames(1)?),
        false => HdrMetadata::default(),
    };
    let loses_captions =
        !options.video_codec.keeps_captions() && Captions::may_be_in(&frames(CAPTION_PACKETS)?);
    if let Some(video) = &mut source.video {
        video.hdr = video.hdr.or(hdr);
        video.loses_captions = loses_captions;
    }
    Ok(())
}

/// Finds the starts of the streams that are copied.
fn find_first_frames(
    source: &mut Source,
    film: &File,
    options: &Options,
    stop: &Stop,
) -> Result<(), IngestError> {
    let find = |index| {
        first_frame::seconds(film, source, index, &options.bounds, stop).map_err(probe_failed)
    };
    let video = source.video.as_ref().filter(|_| options.copy);
    let video = video.map_or(Ok(None), |video| find(video.index))?;
    let of_sound = |audio: &Audio| match sound_jobs::is_copied(audio, options) {
        true => find(audio.index),
        false => Ok(None),
    };
    let audio = source.audio.iter().map(of_sound).collect::<Result<Vec<_>, _>>()?;
    if let Some(one) = &mut source.video {
        one.copy_begins_seconds = video;
    }
    for (one, seconds) in source.audio.iter_mut().zip(audio) {
        one.copy_begins_seconds = seconds;
    }
    Ok(())
}

fn check_copied_codec(source: &Source) -> Result<(), IngestError> {
    match &source.video {
        Some(video) if !["h264", "hevc", "av1", "vp9"].contains(&video.codec.as_str()) => {
            Err(IngestError::CannotCopy(video.codec.clone()))
        }
        _ => Ok(()),
    }
}

fn check_copied_start(source: &Source) -> Result<(), IngestError> {
    let Some(video) = &source.video else { return Ok(()) };
    let begins_seconds = video.copy_begins_seconds.unwrap_or(video.late_seconds);
    if begins_seconds > COPIED_LATE_SECONDS {
        return Err(IngestError::CannotCopyLate(begins_seconds));
    }
    // Players drop frames before zero, and show nothing until the next key frame.
    if begins_seconds < -jobs::AT_ZERO_SECONDS {
        return Err(IngestError::CannotCopyClip(-begins_seconds));
    }
    Ok(())
}

fn probe_failed(error: ProbeError) -> IngestError {
    match error {
        ProbeError::Fault(fault) => ffmpeg::told(fault, "a list of its contents"),
        ProbeError::Unreadable(why) => IngestError::NotMedia(why),
    }
}

impl Tools {
    fn ask(source: &Source, options: &Options) -> Self {
        let is_hdr = source.video.as_ref().is_some_and(|video| video.colours.is_hdr());
        let is_av1 = options.video_codec == VideoCodec::Av1
            || hdr::wanted(source, options) == Some(HdrCodec::Av1);
        let is_surround =
            source.audio.iter().any(|audio| sound_jobs::may_need_eac3(audio, options));
        Self {
            has_zscale: is_hdr && ffmpeg::has("-filters", "zscale"),
            has_svt_av1: is_av1 && ffmpeg::has("-encoders", "libsvtav1"),
            has_eac3: is_surround && ffmpeg::has("-encoders", "eac3"),
        }
    }
}

impl Ingest<'_> {
    /// The title, if it already exists exactly as this ingest would make it.
    fn kept(&self) -> Result<Option<Ingested>, IngestError> {
        let folder = self.library.join(self.title.as_str());
        let Ok(record) = Record::read(&folder) else { return Ok(None) };
        let is_whole = record.files.iter().all(|file| {
            fs::metadata(folder.join(&file.path)).is_ok_and(|found| found.len() == file.bytes)
        });
        if self.options.again || record.source.key != self.key()? || !is_whole {
            return Ok(None);
        }
        let series = self.options.series.as_ref().map(TitleName::as_str);
        let notes = match series.filter(|series| record.series.as_deref() != Some(series)) {
            Some(series) => vec![format!(
                "its record still names {}: publish it with --series {series:?}, or add --again to make it again",
                record.series.as_deref().unwrap_or("no series")
            )],
            None => Vec::new(),
        };
        Ok(Some(Ingested { folder, record, outcome: Outcome::Kept, notes }))
    }

    /// A key that is the same for the same source and the same options.
    fn key(&self) -> Result<String, IngestError> {
        let jobs = jobs::jobs(&self.source, self.options, self.tools);
        let jobs = jobs.iter().flat_map(|job| [Some(job), job.instead.as_deref()]).flatten();
        let mut parts: Vec<_> = jobs.map(|job| self.key_of(job)).collect();
        for (side, file) in self.options.subtitles.iter().zip(&self.side) {
            let sum = |file: &File| {
                let mut file = file.try_clone()?;
                file.rewind()?;
                sha256::of_open_file(&file)
            };
            let text = match file {
                Ok(file) => sum(file).attempt("read", &side.path)?.whole,
                Err(_) => "left out".to_owned(),
            };
            parts.extend([side.language.clone(), text]);
            parts.extend(side.purpose.map(|purpose| purpose.role().word().to_owned()));
        }
        parts.extend(self.poster_key()?);
        Ok(sha256::of_parts(parts.iter().map(String::as_bytes)))
    }

    /// A key that is the same for every attempt at the same rendition.
    fn key_of(&self, job: &jobs::Job) -> String {
        let arguments = job.arguments.iter().map(|word| word.as_encoded_bytes());
        sha256::of_parts([FORM.as_bytes(), self.identity.as_bytes()].into_iter().chain(arguments))
    }

    /// The limits for each run of ffmpeg for the title in `work`.
    fn limits<'w>(&'w self, work: &'w Work) -> Result<RunLimits<'w>, IngestError> {
        let source_bytes = self.film.metadata().attempt("look at", self.file)?.len();
        let bounds = &self.options.bounds;
        let output = (work.path(), bounds.output_bytes(source_bytes));
        Ok(RunLimits { stop: self.stop, bounds, output })
    }

    /// Names the library in an error about a full disk, whichever file hit the limit.
    fn told(&self, error: IngestError) -> IngestError {
        match error {
            IngestError::DiskFull { bytes, .. } => {
                IngestError::DiskFull { library: self.library.to_path_buf(), bytes }
            }
            error => error,
        }
    }
}
