//! Subtitles as WebVTT, from streams of the source and from separate files.
//!
//! ffmpeg takes streams out of the source, but it does not convert them: its writer of WebVTT leaves `<` and `&` as they are, puts empty
//! lines into cues, and drops positions and colours. So each format is read here ([`srt`], [`ass`], [`mov_text`], [`webvtt`]) into cues
//! ([`cue`]), from which `webvtt` writes the file. Only captions of CEA-608 are decoded by ffmpeg, to ASS.
//!
//! Read first: [`cue`], then [`write`].

mod ass;
mod ass_tags;
mod colour;
mod cue;
mod matroska;
mod mov_text;
mod packets;
mod srt;
mod text;
mod webvtt;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Ingest;
use super::error::{Attempt, IngestError};
use super::ffmpeg::{Run, RunLimits};
use super::jobs::words;
use super::made::{Made, Subtitles};
use super::options::{SideSubtitles, TextPurpose};
use crate::language;
use crate::role::Medium;
use crate::source::{Label, Text};
use crate::text_kind::{self, TextKind};
use packets::{Packet, Packets};
use text::{NotUnicode, decode};
use webvtt::Document;

/// The largest file of subtitles. A script with much typesetting has some 30 MB.
const FILE_BYTES_MAX: usize = 32 << 20;
/// The name of captions while they are decoded.
const DECODED: &str = "captions.ass";

/// Writes the subtitles of the source, then those of additional files, into `folder`, and adds them to `made`. Empty streams are left out,
/// and so are those that cannot be read (often because they are not UTF-8): the film is worth having without them.
pub(super) fn write(
    ingest: &Ingest<'_>,
    folder: &Path,
    limits: &RunLimits<'_>,
    made: &mut Made,
) -> Result<(), IngestError> {
    for text in &ingest.source.text {
        let what = format!("subtitle stream {}", text.index);
        match of_stream(ingest, text, folder, limits) {
            Ok(document) => {
                let one = named(&made.subtitles, &text.label);
                add(made, one, &document, &what, folder)?;
            }
            Err(Unread::Kind) => {
                made.left_out.push(text_kind::left_out(text.index, text_kind::UNNAMED))
            }
            Err(Unread::Text(why)) => made.left_out.push(format!("{what} ({why})")),
            Err(Unread::Ffmpeg(IngestError::FfmpegFailed { said, .. })) => {
                made.left_out.push(format!("{what} ({said})"));
            }
            Err(Unread::Ffmpeg(error)) => return Err(error),
        }
    }
    for (side, file) in ingest.options.subtitles.iter().zip(&ingest.side) {
        let roles = side.purpose.map(TextPurpose::role).into_iter().collect();
        let language = language::bcp47(&side.language);
        let one = named(&made.subtitles, &Label { language, roles, ..Label::default() });
        let path = side.path.display().to_string();
        let what = crate::shown(&path);
        match of_file(file, side)? {
            Ok(document) => add(made, one, &document, &what, folder)?,
            Err(why) => made.left_out.push(format!("{what} ({why})")),
        }
    }
    Ok(())
}

/// Refuses additional files without subtitles, before hours go into encoding.
pub(super) fn check(ingest: &Ingest<'_>) -> Result<(), IngestError> {
    let mut sides = ingest.options.subtitles.iter().zip(&ingest.side);
    sides.try_for_each(|(side, file)| of_file(file, side).map(drop))
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

/// Writes a document's file, unless it has no cues, and notes on what is left out.
fn add(
    made: &mut Made,
    one: Subtitles,
    document: &Document,
    what: &str,
    folder: &Path,
) -> Result<(), IngestError> {
    if document.dropped > 0 {
        let count = document.dropped;
        made.left_out.push(format!("{count} invalid or oversized parts of {what}"));
    }
    if document.cues.is_empty() {
        if document.dropped == 0 {
            made.left_out.push(format!("{what} (it is empty)"));
        }
        return Ok(());
    }
    let path = folder.join(&one.file);
    fs::write(&path, document.write()).attempt("write", &path)?;
    made.subtitles.push(one);
    Ok(())
}

/// Why a stream cannot be read.
enum Unread {
    /// It is of an unknown kind.
    Kind,
    Text(NotUnicode),
    Ffmpeg(IngestError),
}

impl From<NotUnicode> for Unread {
    fn from(error: NotUnicode) -> Self {
        Self::Text(error)
    }
}

impl From<IngestError> for Unread {
    fn from(error: IngestError) -> Self {
        Self::Ffmpeg(error)
    }
}

fn of_stream(
    ingest: &Ingest<'_>,
    text: &Text,
    folder: &Path,
    limits: &RunLimits<'_>,
) -> Result<Document, Unread> {
    match text.kind {
        TextKind::Captions => Ok(decoded(ingest, text.index, folder, limits)?),
        kind => {
            let mut stream = packets::read(ingest, text.index, limits)?;
            if kind == TextKind::Unnamed {
                stream.packets.iter_mut().for_each(|one| matroska::complete(&ingest.film, one));
            }
            of_packets(kind, &stream, ingest.source.begins_seconds)
        }
    }
}

/// Captions of CEA-608, which only ffmpeg can decode: to a script, and that to cues.
fn decoded(
    ingest: &Ingest<'_>,
    stream: u32,
    folder: &Path,
    limits: &RunLimits<'_>,
) -> Result<Document, Unread> {
    let mut arguments = ingest.source.input();
    let rest = format!("-map 0:{stream} -map_metadata -1 -c:s ass -f ass {DECODED}");
    arguments.extend(words(&rest));
    let film = Some(&ingest.film);
    let run = Run { making: "subtitles", film, folder, arguments: &arguments };
    let ran = run.run(limits, |_| {});
    let path = folder.join(DECODED);
    let script = read_file(&path);
    // The script does not become part of the title.
    match fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.attempt("remove", &path)?,
    }
    ran?;
    Ok(Document::of(ass::cues(&decode(&script.attempt("read", &path)?)?)))
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    bytes_of(&File::open(path)?)
}

/// The bytes of an open file, from its beginning.
fn bytes_of(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; short(file)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The length of a file that is short enough.
fn short(file: &File) -> io::Result<usize> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    match length <= FILE_BYTES_MAX {
        true => Ok(length),
        false => Err(io::Error::other("it is too long for a file of subtitles")),
    }
}

/// An open file of subtitles, or why an optional one is left out.
pub(super) type Side = Result<File, String>;

/// Opens a separate file of subtitles.
///
/// # Errors
/// If it cannot be opened, and is not optional.
pub(super) fn open(side: &SideSubtitles) -> Result<Side, IngestError> {
    match crate::film::open(&side.path) {
        Err(error) if side.is_optional => Ok(Err(error.to_string())),
        // Before all of it is read for the title's key.
        Ok(file) if side.is_optional => {
            Ok(short(&file).map(|_| file).map_err(|error| error.to_string()))
        }
        opened => opened.map(Ok),
    }
}

/// The subtitles of a separate file: WebVTT, a script of SubStation Alpha, or SubRip. If it is optional and has none, why.
fn of_file(file: &Side, side: &SideSubtitles) -> Result<Result<Document, String>, IngestError> {
    let file = match file {
        Ok(file) => file,
        Err(why) => return Ok(Err(why.clone())),
    };
    let bytes = match bytes_of(file) {
        Err(error) if side.is_optional => return Ok(Err(error.to_string())),
        read => read.attempt("read", &side.path)?,
    };
    let document = document(&bytes);
    match document {
        Err(_) if !side.is_optional => Err(IngestError::NoSubtitles(side.path.clone())),
        read => Ok(read),
    }
}

/// The subtitles in the bytes of a file, or why there are none.
fn document(bytes: &[u8]) -> Result<Document, String> {
    let text = decode(bytes).map_err(|error| error.to_string())?;
    let document = if Document::is_webvtt(&text) {
        Document::read(&text)
    } else if ass::is_script(&text) {
        Document::of(ass::cues(&text))
    } else {
        Document::of(srt::cues(&text))
    };
    if document.cues.is_empty() { Err("no subtitles in it".to_owned()) } else { Ok(document) }
}

/// What a title has of a separate file of subtitles with these bytes, as WebVTT; `None` if it has none.
pub fn subtitles_as_webvtt(file: &[u8]) -> Option<String> {
    document(file).ok().map(|document| document.write())
}

/// The subtitles of a stream. The title's clock begins where the file's does.
fn of_packets(kind: TextKind, stream: &Packets, begins_seconds: f64) -> Result<Document, Unread> {
    let times = |packet: &Packet| {
        let ms = |seconds: f64| (seconds.max(0.0) * 1000.0).round() as u64;
        let start_seconds = packet.start_seconds - begins_seconds;
        (ms(start_seconds), ms(start_seconds + packet.seconds))
    };
    let header = || decode(&stream.header);
    let timed = stream.packets.iter().map(|packet| (times(packet), packet));
    let mut cues = Vec::new();
    match kind {
        TextKind::WebVtt => return Ok(webvtt_packets(&header()?, timed)?),
        TextKind::Unnamed if header().is_ok_and(|header| Document::is_webvtt(&header)) => {
            return Ok(webvtt_packets(&header()?, timed)?);
        }
        TextKind::Unnamed => return Err(Unread::Kind),
        TextKind::Ass => {
            let script = ass::Script::read(&header()?);
            for ((start, end), packet) in timed {
                cues.extend(script.packet(start, end, &decode(&packet.data)?));
            }
        }
        TextKind::MovText => {
            let own = mov_text::default_look(&stream.header);
            for ((start, end), packet) in timed {
                cues.extend(mov_text::cue(start, end, &packet.data, own)?);
            }
        }
        TextKind::SubRip | TextKind::Captions => {
            for ((start, end), packet) in timed {
                cues.extend(srt::cue(start, end, &decode(&packet.data)?));
            }
        }
    }
    Ok(Document::of(cues))
}

/// WebVTT in packets: a header without cues, and the parts of each cue.
fn webvtt_packets<'p>(
    header: &str,
    timed: impl Iterator<Item = ((u64, u64), &'p Packet)>,
) -> Result<Document, NotUnicode> {
    let mut document = match Document::is_webvtt(header) {
        true => Document::read(header),
        false => Document::default(),
    };
    for ((start, end), packet) in timed {
        let (id, settings) = (decode(&packet.id)?, decode(&packet.settings)?);
        let cue = webvtt::Cue::new(start, end, &id, &settings, &decode(&packet.data)?);
        match cue {
            Some(cue) if document.cues.len() < cue::CUES_MAX => document.cues.push(cue),
            _ => document.dropped += 1,
        }
    }
    document.sort();
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(header: &str, data: &str) -> Packets {
        let packet =
            Packet { start_seconds: 11.0, seconds: 1.5, data: data.into(), ..Packet::default() };
        Packets { header: header.into(), packets: vec![packet] }
    }

    fn written(kind: TextKind, header: &str, data: &str) -> Option<String> {
        of_packets(kind, &stream(header, data), 10.0).ok().map(|document| document.write())
    }

    #[test]
    fn a_codec_without_a_name_is_webvtt_if_its_header_says_so() {
        let header = "WEBVTT\n\nSTYLE\n::cue(.y){color:yellow}\n";
        let expected = format!("{header}\n00:01.000 --> 00:02.500\n<c.y>a</c> &amp; b\n");
        let text = "<c.y>a</c> & b";
        assert_eq!(written(TextKind::Unnamed, header, text), Some(expected));
        assert_eq!(written(TextKind::Unnamed, "", text), None);
        assert_eq!(written(TextKind::Unnamed, "\u{0}head", text), None);
    }

    #[test]
    fn packets_begin_where_the_film_does() {
        let expected = "WEBVTT\n\n00:01.000 --> 00:02.500\na &lt;3\n";
        assert_eq!(written(TextKind::SubRip, "", "a <3\n").as_deref(), Some(expected));
        let event = "0,0,Default,,0,0,0,,a <3";
        assert_eq!(written(TextKind::Ass, "", event).as_deref(), Some(expected));
    }
}
