//! Why a file did not become a title.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use catalog::CatalogError;

use crate::confined::Bound;
use crate::mp4::ENTRIES_MAX;

/// Why a file did not become a title. The message says what to do. After any of these, no part of the title is visible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// There is no ffmpeg, or no ffprobe, on the PATH.
    #[error("{0} is not installed: install it (apt install ffmpeg)")]
    ToolMissing(&'static str),
    /// The path is a folder, a named pipe, a socket or a device.
    #[error("cannot take {path}: it is a {kind}, not a file")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of file, for the message.
        kind: &'static str,
    },
    /// ffmpeg exceeded a limit and was ended.
    #[error("making {making} took {bound}")]
    Passed {
        /// The part that was being made.
        making: String,
        /// The limit.
        bound: Bound,
    },
    /// It is not a media file, or is broken from the start; with ffprobe's reason.
    #[error("this is not a video that ffmpeg can read: {0}")]
    NotMedia(String),
    /// The picture for the poster cannot be used.
    #[error(
        "cannot use {path} as the poster: {why}; give a picture that ffmpeg can read, such as a JPEG, PNG or WebP"
    )]
    PosterUnusable {
        /// The picture.
        path: PathBuf,
        /// The reason that ffprobe or ffmpeg gave.
        why: String,
    },
    /// It has neither picture nor sound.
    #[error("it has neither picture nor sound")]
    NothingToPlay,
    /// The container lists a sound, but no frame of it was found.
    #[error(
        "its sound was not found: {0}; if it plays elsewhere, try a newer ffmpeg, or make a file without sound \
         (ffmpeg -i FILE -map 0:v -c copy NEW.mkv)"
    )]
    NoSound(String),
    /// It is shorter than stated.
    #[error(
        "it is cut short: it should play {says_seconds:.1} s, but it ends after {has_seconds:.1} s; get the whole \
         file, or make a file of the part that is there (ffmpeg -i FILE -c copy NEW.mkv)"
    )]
    CutShort {
        /// The stated playing time.
        says_seconds: f64,
        /// The actual playing time.
        has_seconds: f64,
    },
    /// No track fits the request to burn subtitles in.
    #[error("nothing fits --burn-in {wanted}: {why}")]
    NothingToBurnIn {
        /// The request.
        wanted: String,
        /// Which tracks there are, and what to do.
        why: String,
    },
    /// Nothing says which pictures of a track are forced.
    #[error(
        "subtitles {0} don't mark single pictures as forced: leave \":forced\" out of --burn-in"
    )]
    NoForcedPictures(String),
    /// `--copy` of a picture with subtitles burnt in.
    #[error("subtitles can only be burnt into a picture that is encoded: leave --copy out")]
    CannotCopyBurnt,
    /// Its index would be longer than the format allows.
    #[error(fmt = write_too_many_segments)]
    TooManySegments {
        /// How many segments it would have.
        segments: u64,
        /// The segment length in seconds.
        wanted: f64,
        /// The shortest length that does, if there is one.
        enough: Option<f64>,
    },
    /// `--copy` of a codec that browsers do not play from CMAF.
    #[error(
        "--copy packages H.264, HEVC, AV1 and VP9, and this is {0}: encode it (leave --copy out)"
    )]
    CannotCopy(String),
    /// `--copy` of a picture that begins this many seconds after its sound.
    #[error(
        "its picture begins {0:.1} s after its sound, which --copy cannot correct: encode it (leave --copy out)"
    )]
    CannotCopyLate(f64),
    /// `--copy` of a clip whose first key frame comes this many seconds before its start, and is hidden by its edit list.
    #[error(
        "it begins in the middle of a group of pictures ({0:.1} s of it are hidden), and a copy would have no picture at \
         first: encode it (leave --copy out)"
    )]
    CannotCopyClip(f64),
    /// The picture is Dolby Vision of this profile, without a layer that other decoders show in the right colours.
    #[error(
        "its picture is Dolby Vision profile {0}, which has the right colours only in Dolby's decoders: export the film as HDR10 or SDR first"
    )]
    DolbyVisionOnly(u32),
    /// `--hdr` of a picture whose colours ffmpeg can't convert without this filter.
    #[error(
        "its colours are not those of BT.2020, and this ffmpeg cannot convert them for --hdr: install one that has the zscale filter \
         (built with libzimg), or leave --hdr out"
    )]
    HdrNeedsZscale,
    /// ffmpeg failed.
    #[error("ffmpeg failed at {making}: {said}")]
    FfmpegFailed {
        /// The part that was being made.
        making: String,
        /// The beginning of ffmpeg's message.
        said: String,
    },
    /// ffmpeg made a file that cannot be served.
    #[error("ffmpeg made {making} that cannot be served ({why}); try a newer ffmpeg")]
    Unusable {
        /// The part that was being made.
        making: String,
        /// The problem.
        why: String,
    },
    /// The library's disk has no room.
    #[error(fmt = write_disk_full)]
    DiskFull {
        /// The library.
        library: PathBuf,
        /// The least space needed and the space free, if this was foreseen.
        bytes: Option<(u64, u64)>,
    },
    /// Another process is working on the same title.
    #[error(
        "another fullbore is working on the title {0:?}: wait for it to finish, or choose another --title"
    )]
    Busy(String),
    /// A folder with the title's name exists, and ingest did not make it.
    #[error(
        "{0} exists and was not made by ingest (or its title.json is damaged), so ingest does not replace it: \
         remove it, or choose another --title"
    )]
    Foreign(PathBuf),
    /// The title is in another folder of the library than requested.
    #[error(
        "the title is already at {0}, and a title is replaced where it is: leave --into out, or remove the title first"
    )]
    Elsewhere(PathBuf),
    /// A copy made by `fullbore library promote` is in the title's place.
    #[error(
        "{0} is a copy that `fullbore library promote` made: name the library's other folders with --library, or remove the copy \
         first"
    )]
    Copy(PathBuf),
    /// A file of subtitles contains none.
    #[error("no subtitles in {0}: give a file of SubRip, WebVTT or SubStation Alpha, in UTF-8")]
    NoSubtitles(PathBuf),
    /// A signal interrupted it.
    #[error("interrupted; finished parts are kept, and the same command continues from there")]
    Interrupted,
    /// A file or folder could not be used.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The attempted action, as a verb: "make the folder".
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl IngestError {
    fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { library: path, bytes: None }
            }
            _ => Self::Io { what, path, source },
        }
    }
}

fn write_disk_full(
    library: &Path,
    bytes: &Option<(u64, u64)>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let library = library.display();
    match bytes {
        Some((needed, free)) => write!(
            f,
            "the disk of {library} has {} MB free, but this takes some {} MB: make room",
            free / 1_000_000,
            needed.div_ceil(1_000_000)
        ),
        None => write!(
            f,
            "the disk of {library} is full: make room and run the same command again; finished parts are kept"
        ),
    }
}

fn write_too_many_segments(
    segments: &u64,
    wanted: &f64,
    enough: &Option<f64>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "it would have {segments} segments of {wanted} s, and a title can have at most {ENTRIES_MAX}: "
    )?;
    match enough {
        Some(enough) => write!(f, "use --segment-seconds {enough:.1}"),
        None => write!(
            f,
            "cut it into parts (ffmpeg -i FILE -c copy -f segment -segment_time 86400 %d.mkv)"
        ),
    }
}

impl From<CatalogError> for IngestError {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Busy(title) => Self::Busy(title),
            CatalogError::Unknown(path) | CatalogError::Damaged { path, .. } => Self::Foreign(path),
            CatalogError::Io { what, path, source } => Self::io(what, &path, source),
        }
    }
}

/// Adds to an I/O error what was attempted and on which path.
pub(crate) trait Attempt<T> {
    fn attempt(self, what: &'static str, path: &Path) -> Result<T, IngestError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: &'static str, path: &Path) -> Result<T, IngestError> {
        self.map_err(|source| IngestError::io(what, path, source))
    }
}
