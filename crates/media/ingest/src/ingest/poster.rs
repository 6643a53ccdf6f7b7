//! Chooses the poster: a picture of the user's choice, a cover that comes with the source, or a frame of the film.
//!
//! A title of sound has its cover. A film has one of its frames, unless its cover is asked for: covers of films are often upright, as
//! printed on a case, and pages show posters in the film's shape.
//!
//! A picture is hostile input as a film is, so ffmpeg reads it under the same limits.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

use catalog::sha256;

use super::error::IngestError;
use super::made::Made;
use super::options::Options;
use super::pictures::{Reading, Still, poster_of_film, poster_of_still};
use super::{Attempt, Ingest, RunLimits, ffmpeg};
use crate::confined::{Bound, Fault};
use crate::ffprobe::ProbeError;
use crate::probe::probe_picture;
use crate::source::Video;
use crate::{film, formats};

/// A poster of the user's choice.
pub(super) struct Chosen {
    file: File,
    picture: Video,
}

impl Chosen {
    /// Opens and examines the picture that the options name. Its faults are found before anything is encoded.
    pub(super) fn open(options: &Options, stop: &super::Stop) -> Result<Option<Self>, IngestError> {
        let Some(path) = &options.poster else { return Ok(None) };
        let file = film::open(path)?;
        let picture = probe_picture(&file, &options.bounds, stop).map_err(|error| match error {
            ProbeError::Unreadable(why) => cannot_use(path, why),
            ProbeError::Fault(Fault::Passed(bound)) => {
                cannot_use(path, format!("examining it took {bound}"))
            }
            ProbeError::Fault(fault) => ffmpeg::told(fault, "the poster"),
        })?;
        let picture = picture.ok_or_else(|| cannot_use(path, "it has no picture".to_owned()))?;
        Ok(Some(Self { file, picture }))
    }

    fn sha256(&self) -> io::Result<String> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        Ok(sha256::of_open_file(&file)?.whole)
    }
}

impl Ingest<'_> {
    /// The cover, if it becomes the poster.
    fn cover(&self) -> Option<&Video> {
        let is_wanted =
            self.poster.is_none() && (self.options.cover || self.source.video.is_none());
        self.source.cover.as_ref().filter(|_| is_wanted)
    }

    /// The parts of the title's key that say what its poster is made of. None for a frame of the film.
    pub(super) fn poster_key(&self) -> Result<Vec<String>, IngestError> {
        if let Some(chosen) = &self.poster {
            let path = self.options.poster.as_deref().unwrap_or(Path::new(""));
            return Ok(vec!["poster".to_owned(), chosen.sha256().attempt("read", path)?]);
        }
        Ok(self.cover().map(|cover| format!("cover {}", cover.index)).into_iter().collect())
    }

    /// Makes the poster of the options' choice in `folder`. This comes before encoding, because a picture may look well and be damaged.
    pub(super) fn make_chosen_poster(
        &self,
        folder: &Path,
        limits: &RunLimits<'_>,
    ) -> Result<(), IngestError> {
        let (Some(Chosen { file, picture }), Some(path)) = (&self.poster, &self.options.poster)
        else {
            return Ok(());
        };
        let still = still(file, formats::picture(), picture);
        poster_of_still("the poster", still, folder, limits).map_err(|error| match error {
            IngestError::FfmpegFailed { said: why, .. } | IngestError::Unusable { why, .. } => {
                cannot_use(path, why)
            }
            // A limit of the film's would remove its finished parts.
            IngestError::Passed { bound, .. } if !matches!(bound, Bound::OutputBytes(_)) => {
                cannot_use(path, format!("decoding it took {bound}"))
            }
            error => error,
        })
    }

    /// Makes the poster in `folder`, unless it is there already. `film` says how to read the renditions.
    pub(super) fn make_poster(
        &self,
        made: &mut Made,
        film: &Reading,
        folder: &Path,
        limits: &RunLimits<'_>,
    ) -> Result<(), IngestError> {
        if self.poster.is_some() {
            made.has_poster = true;
            return Ok(());
        }
        if let Some(cover) = self.cover() {
            let cover_still = still(&self.film, self.source.input(), cover);
            match poster_of_still("the cover", cover_still, folder, limits) {
                Ok(()) => {
                    made.has_poster = true;
                    return Ok(());
                }
                // A damaged cover costs the poster, not the title.
                Err(IngestError::FfmpegFailed { said, .. }) => {
                    made.left_out.push(format!("its cover ({}: {said})", cover.codec));
                }
                Err(IngestError::Unusable { why, .. }) => {
                    made.left_out.push(format!("its cover ({}: {why})", cover.codec));
                }
                Err(IngestError::Passed { bound, .. })
                    if !matches!(bound, Bound::OutputBytes(_)) =>
                {
                    made.left_out.push(format!("its cover ({}: it took {bound})", cover.codec));
                }
                Err(error) => return Err(error),
            }
        }
        poster_of_film(made, film, folder, limits)?;
        made.has_poster = !made.video.is_empty();
        Ok(())
    }
}

fn cannot_use(path: &Path, why: String) -> IngestError {
    IngestError::PosterUnusable { path: path.to_owned(), why }
}

fn still<'a>(file: &'a File, input: Vec<std::ffi::OsString>, picture: &'a Video) -> Still<'a> {
    // Asked only if it matters, as for films.
    let has_zscale = picture.colours.is_hdr() && ffmpeg::has("-filters", "zscale");
    Still { file, input, picture, has_zscale }
}
