//! Subtitles as WebVTT, from streams of the source and from separate files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::Ingest;
use super::error::{Attempt, IngestError};
use super::ffmpeg::{Run, RunLimits};
use super::jobs::words;
use super::made::{Made, Subtitles};
use crate::probe::Label;
use crate::role::Medium;
use crate::{formats, language};

/// Writes the subtitles of the source, then those of additional files, into `folder`, and adds them to `made`. Empty streams are left out,
/// and so are those that ffmpeg cannot read (often because they are not UTF-8): the film is worth having without them.
pub(super) fn write(
    ingest: &Ingest<'_>,
    folder: &Path,
    limits: &RunLimits<'_>,
    made: &mut Made,
) -> Result<(), IngestError> {
    let all = &mut made.subtitles;
    let target = Target { folder, limits };
    for text in &ingest.source.text {
        let one = named(all, &text.label);
        match target.convert(&ingest.film, formats::film(), text.index, &one.file) {
            Ok(true) => all.push(one),
            Ok(false) => {}
            Err(IngestError::FfmpegFailed { said, .. }) => {
                made.left_out.push(format!("subtitle stream {} ({said})", text.index));
            }
            Err(error) => return Err(error),
        }
    }
    for (side, file) in ingest.options.subtitles.iter().zip(&ingest.side) {
        let label = Label { language: language::bcp47(&side.language), ..Label::default() };
        let one = named(all, &label);
        target.convert_side(file, &side.path, &one.file)?;
        all.push(one);
    }
    Ok(())
}

/// Refuses additional files without subtitles, before hours go into encoding. Writes the converted files to `folder`.
pub(super) fn check(
    ingest: &Ingest<'_>,
    folder: &Path,
    limits: &RunLimits<'_>,
) -> Result<(), IngestError> {
    let target = Target { folder, limits };
    let mut sides = ingest.options.subtitles.iter().zip(&ingest.side);
    sides.try_for_each(|(side, file)| target.convert_side(file, &side.path, "side.vtt"))
}

fn named(others: &[Subtitles], label: &Label) -> Subtitles {
    let number = others.len() + 1;
    let tag = label.language.as_deref().unwrap_or("und");
    let others = others.iter().map(|one| one.name.as_str());
    let name = super::track_name::distinct(others, Medium::Text, label);
    let file = format!("subtitles-{number}-{tag}.vtt");
    let (language, roles) = (label.language.clone(), label.roles.clone());
    Subtitles { file, language, name, roles }
}

/// The folder for subtitles, and the limits of ffmpeg.
struct Target<'a> {
    folder: &'a Path,
    limits: &'a RunLimits<'a>,
}

impl Target<'_> {
    fn convert_side(&self, film: &File, path: &Path, file: &str) -> Result<(), IngestError> {
        match self.convert(film, formats::subtitles(), 0, file) {
            Ok(true) => Ok(()),
            Ok(false) | Err(IngestError::FfmpegFailed { .. }) => {
                Err(IngestError::NoSubtitles(path.to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Converts one stream; returns whether there was anything to write.
    fn convert(
        &self,
        film: &File,
        mut arguments: Vec<OsString>,
        stream: u32,
        file: &str,
    ) -> Result<bool, IngestError> {
        let rest = format!("-map 0:{stream} -map_metadata -1 -c:s webvtt -f webvtt {file}");
        arguments.extend(words(&rest));
        let folder = self.folder;
        let run = Run { making: "subtitles", film: Some(film), folder, arguments: &arguments };
        let run = run.run(self.limits, |_| {});
        let path = folder.join(file);
        let has_lines = fs::read_to_string(&path).is_ok_and(|text| text.contains("-->"));
        if run.is_ok() && has_lines {
            return Ok(true);
        }
        // The file is missing or incomplete: it does not become part of the title.
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.attempt("remove", &path)?,
        }
        run.map(|_| false)
    }
}
