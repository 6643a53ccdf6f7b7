//! Subtitles as WebVTT, from streams of the source and from files beside it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::error::{Attempt, IngestError};
use super::ffmpeg::Run;
use super::jobs::words;
use super::made::{Made, Subtitles};
use super::options::SideSubtitles;
use super::stop::Stop;
use crate::language;
use crate::probe::{Label, Source, ffmpeg_input};

/// Writes every subtitle of the source, then every side file's, into `folder`, and adds them to `made`. A stream without a line in it
/// is left out, and so is one that ffmpeg cannot read (not in UTF-8, often): the film is worth having without it.
pub(super) fn write(
    path: &Path,
    source: &Source,
    side: &[SideSubtitles],
    folder: &Path,
    stop: &Stop,
    made: &mut Made,
) -> Result<(), IngestError> {
    let all = &mut made.subtitles;
    for text in &source.text {
        let one = named(all, &text.label, text.is_forced);
        match convert(&input(path, text.index), folder, &one.file, stop) {
            Ok(true) => all.push(one),
            Ok(false) => {}
            Err(IngestError::FfmpegFailed { said, .. }) => {
                made.left_out.push(format!("subtitle stream {} ({said})", text.index));
            }
            Err(error) => return Err(error),
        }
    }
    for file in side {
        let label = Label { language: language::bcp47(&file.language), ..Label::default() };
        let one = named(all, &label, false);
        let none = || IngestError::NoSubtitles(file.path.clone());
        match convert(&input(&file.path, 0), folder, &one.file, stop) {
            Ok(true) => all.push(one),
            Ok(false) | Err(IngestError::FfmpegFailed { .. }) => return Err(none()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn named(others: &[Subtitles], label: &Label, is_forced: bool) -> Subtitles {
    let number = others.len() + 1;
    let tag = label.language.as_deref().unwrap_or("und");
    let name = super::unlike(
        others.iter().map(|one| one.name.as_str()),
        super::name_of(label, "Subtitles"),
    );
    let file = format!("subtitles-{number}-{tag}.vtt");
    Subtitles { file, language: label.language.clone(), name, is_forced }
}

fn input(path: &Path, stream: u32) -> Vec<OsString> {
    let mut arguments = vec!["-i".into(), ffmpeg_input(path)];
    arguments.extend(words(&format!("-map 0:{stream} -map_metadata -1 -c:s webvtt -f webvtt")));
    arguments
}

/// Whether there was anything to write.
fn convert(
    arguments: &[OsString],
    folder: &Path,
    file: &str,
    stop: &Stop,
) -> Result<bool, IngestError> {
    let mut arguments = arguments.to_vec();
    arguments.push(file.into());
    let run = Run { making: "subtitles", folder, arguments: &arguments }.run(stop, |_| {});
    let path = folder.join(file);
    let has_lines = fs::read_to_string(&path).is_ok_and(|text| text.contains("-->"));
    if run.is_ok() && has_lines {
        return Ok(true);
    }
    // Nothing of it, or half of it: it is no part of the title.
    match fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.attempt("remove", &path)?,
    }
    run.map(|_| false)
}
