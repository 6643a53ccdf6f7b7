//! `fullbore ingest`: turns video files into titles.

mod watching;

use crate::bad_value::BadValue;
use crate::say_line;
use catalog::{FoldersError, NameError, TitleName, check_folders};
use clap::{Args, ValueEnum, value_parser};
use ingest::ingest::{
    AudioCodec, Bounds, BurnIn, Channels, HdrCodec, IngestError, Ingested, Options, Outcome,
    SideSubtitles, Speed, Stop, TextPurpose, VideoCodec, folder_for, ingest, lacking, on_terminal,
};
use ingest::{Ladder, LadderError, is_language};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use watching::WatchArgs;

/// Turn video files into titles: several sizes, HLS and DASH
///
/// Each FILE becomes the title DIR/NAME, with an HLS and a DASH manifest over the same files. A title appears whole or not
/// at all. If you interrupt the command, run it again to continue. An existing title is replaced; its current viewers keep
/// watching the old version. Needs ffmpeg and ffprobe. They run in a sandbox: they can read FILE and write the title, nothing else.
#[derive(Args)]
#[command(after_help = "Examples:\n  fullbore ingest film.mkv --library /srv/video\n  \
    fullbore ingest film.mp4 --library /srv/video --subtitle en=film.en.srt --subtitle de=film.de.srt\n  \
    fullbore ingest film.mp4 --library /srv/video --copy\n  \
    fullbore ingest *.mov --library /srv/video --video-codec hevc --speed best\n  \
    fullbore ingest film.mkv --library /srv/video --hdr\n  \
    fullbore ingest film.mkv --library /disk0 --library /disk1\n  \
    fullbore ingest --watch /srv/incoming --library /srv/video\n\n\
    A ladder file says which sizes are made (heights of the shorter side; kbps for H.264 at up to 30 frames a second):\n  \
    rungs = [{ height = 360, kbps = 800 }, { height = 720, kbps = 3000 }]")]
pub(crate) struct Ingest {
    /// Video (or audio) files: MP4, Matroska, WebM, MPEG-TS, AVI and more (docs/library.md lists them)
    #[arg(required_unless_present = "watch")]
    file: Vec<PathBuf>,
    #[command(flatten)]
    watch: WatchArgs,
    /// Library to put the titles into; repeat it if the library has several folders, one for each disk
    #[arg(long, value_name = "DIR", required = true)]
    library: Vec<PathBuf>,
    /// Folder of the library for new titles [default: the one with the most free space]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Name of the title, for a single FILE [default: the file's name without its extension]
    #[arg(long, value_name = "NAME")]
    title: Option<String>,
    /// Series that the titles belong to: a fleet forecasts each new title's demand from earlier titles of its series
    #[arg(long, value_name = "NAME", value_parser = TitleName::new)]
    series: Option<TitleName>,
    /// Sizes and bit rates, a TOML or JSON file [default: chosen by the source's size, 240 to 2160]
    #[arg(long, value_name = "FILE")]
    ladder: Option<PathBuf>,
    /// Video codec
    #[arg(long, value_enum, default_value_t = VideoArg::H264)]
    video_codec: VideoArg,
    /// Keep high dynamic range (PQ, HLG), too: make all sizes again in 10 bits, next to those in standard range
    #[arg(long, conflicts_with_all = ["copy", "burn_in"])]
    hdr: bool,
    /// Video codec of the sizes that --hdr adds
    #[arg(long, value_enum, default_value_t = HdrArg::Hevc, requires = "hdr")]
    hdr_codec: HdrArg,
    /// Audio codec
    #[arg(long, value_enum, default_value_t = AudioArg::Aac)]
    audio_codec: AudioArg,
    /// Audio channels to keep
    #[arg(long, value_enum, default_value_t = ChannelsArg::Both)]
    audio_channels: ChannelsArg,
    /// Encoder speed against picture quality
    #[arg(long, value_enum, default_value_t = SpeedArg::Balanced)]
    speed: SpeedArg,
    /// Keep the video as it is, in one size; keep the audio too if players can play it
    #[arg(long, conflicts_with_all = ["ladder", "video_codec", "speed"])]
    copy: bool,
    /// Length of a segment and distance between key frames in seconds, 0.5 to 20
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0)]
    segment_seconds: f64,
    /// Subtitle file (SubRip, WebVTT or SubStation Alpha), for a single FILE; can be repeated. LANG:forced=FILE marks forced
    /// subtitles, LANG:sdh=FILE those for the hard of hearing
    #[arg(long, value_name = "LANG=FILE", value_parser = subtitle)]
    subtitle: Vec<SideSubtitles>,
    /// Subtitles to burn into the picture, for tracks that are pictures (PGS, VobSub, DVB): the number of the stream or its
    /// language; with ":forced", only forced ones
    #[arg(long, value_name = "TRACK", value_parser = burn_in, conflicts_with = "copy")]
    burn_in: Option<BurnIn>,
    /// Picture for the poster (JPEG, PNG, WebP or any other that ffmpeg reads), for a single FILE [default: a frame of a film, the cover of sound]
    #[arg(long, value_name = "FILE")]
    poster: Option<PathBuf>,
    /// Use the cover in a film's file as its poster, if there is one
    #[arg(long, conflicts_with = "poster")]
    cover: bool,
    /// Replace the title if it already exists, even if nothing has changed
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    bounds: BoundArgs,
}

// Ingest gives up on a FILE that exceeds one of these limits.
#[derive(Args)]
#[command(next_help_heading = "Limits for each FILE")]
struct BoundArgs {
    /// Time limit for examining the file
    #[arg(long, value_name = "SECONDS", default_value_t = Bounds::default().probe_seconds_max)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    probe_seconds_max: u64,
    /// Time limit for encoding one part of the title: one size of the video, or one audio track
    #[arg(long, value_name = "SECONDS", default_value_t = Bounds::default().run_seconds_max)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    run_seconds_max: u64,
    /// Memory limit for ffmpeg [default: half of the machine's memory, 8000 at most]
    #[arg(long, value_name = "MB", value_parser = value_parser!(u64).range(1..))]
    memory_mb_max: Option<u64>,
    /// Size limit of the title [default: 20 times the size of FILE plus 256 MB]
    #[arg(long, value_name = "MB", value_parser = value_parser!(u64).range(1..))]
    output_mb_max: Option<u64>,
}

impl BoundArgs {
    fn bounds(&self) -> Bounds {
        let bytes = |megabytes: u64| megabytes.saturating_mul(1_000_000);
        Bounds {
            probe_seconds_max: self.probe_seconds_max,
            run_seconds_max: self.run_seconds_max,
            memory_bytes_max: self.memory_mb_max.map_or(Bounds::default().memory_bytes_max, bytes),
            output_bytes_max: self.output_mb_max.map(bytes),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum VideoArg {
    /// Plays everywhere
    H264,
    /// About 35% smaller; not every browser plays it
    Hevc,
    /// About 50% smaller; slow to encode, and older devices do not play it
    Av1,
}

#[derive(Clone, Copy, ValueEnum)]
enum HdrArg {
    /// What screens and players of HDR have in common
    Hevc,
    /// Smaller; older devices do not play it
    Av1,
}

#[derive(Clone, Copy, ValueEnum)]
enum AudioArg {
    /// Plays everywhere
    Aac,
    /// Better at the same size; older Apple devices do not play it
    Opus,
}

#[derive(Clone, Copy, ValueEnum)]
enum ChannelsArg {
    /// Stereo, and next to it surround if the source has it: AC-3 and E-AC-3 as they are, others in E-AC-3 with up to 5.1
    Both,
    /// Stereo at most; more channels are mixed down
    Stereo,
    /// All channels of the source, in AAC up to 5.1 or in Opus up to 7.1, and no stereo
    Source,
}

#[derive(Clone, Copy, ValueEnum)]
enum SpeedArg {
    /// Fastest, for trying things out
    Fastest,
    /// Fast
    Fast,
    /// Good for most uses
    Balanced,
    /// Best picture, for titles that are watched often
    Best,
}

fn subtitle(text: &str) -> Result<SideSubtitles, BadValue> {
    let (track, path) = text
        .split_once('=')
        .filter(|(track, path)| !track.is_empty() && !path.is_empty())
        .ok_or_else(|| BadValue::new(text, "LANG=FILE, such as en=film.en.srt"))?;
    let (language, purpose) = match track.split_once(':') {
        Some((language, word)) => (language, Some(purpose(word)?)),
        None => (track, None),
    };
    if !is_language(language) {
        let wanted = "a language (a tag of BCP 47): write one such as en or pt-BR before the =, or und if it is not known";
        return Err(BadValue::new(language, wanted));
    }
    let (language, path) = (language.to_owned(), path.into());
    Ok(SideSubtitles { language, purpose, path, is_optional: false })
}

fn purpose(word: &str) -> Result<TextPurpose, BadValue> {
    let wanted = "a purpose of subtitles: write forced or sdh, such as en:forced=film.srt";
    TextPurpose::parse(word).ok_or_else(|| BadValue::new(word, wanted))
}

fn burn_in(text: &str) -> Result<BurnIn, BadValue> {
    let wanted = "a track of subtitles: its number, such as 3, or its language, such as en; for forced subtitles, add :forced";
    BurnIn::parse(text).ok_or_else(|| BadValue::new(text, wanted))
}

impl Ingest {
    /// Ingests the files one by one.
    pub(crate) fn run(self) -> ExitCode {
        let (options, titles) =
            match self.options().and_then(|options| Ok((options, self.titles()?))) {
                Ok(checked) => checked,
                Err(what) => {
                    crate::tell(&what.to_string());
                    return ExitCode::from(2);
                }
            };
        let stop = Stop::default();
        if let Err(error) = stop_when_signalled(stop.clone()) {
            crate::tell(&format!("cannot handle signals: {error}"));
            return ExitCode::FAILURE;
        }
        if let Some(what) = lacking() {
            crate::tell(&format!("note: {what}"));
        }
        if let Some(folder) = self.watch.watch.clone() {
            return self.watch(folder, options, &stop);
        }
        let mut has_failed = false;
        for (file, title) in self.file.iter().zip(&titles) {
            let shown = on_terminal(title.as_str(), true);
            let into = self.into.as_deref();
            let ingested = folder_for(title, &self.library, into)
                .and_then(|library| ingest(file, &library, title, &options, &stop, shown));
            match ingested {
                Ok(ingested) => tell(&ingested),
                Err(error) => {
                    crate::tell(&format!("{}: {error}", file.display()));
                    has_failed = true;
                    // The next file would fail in the same way.
                    if matches!(error, IngestError::Interrupted | IngestError::ToolMissing(_)) {
                        break;
                    }
                }
            }
        }
        if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn options(&self) -> Result<Options, UsageError> {
        if !(0.5..=20.0).contains(&self.segment_seconds) {
            return Err(UsageError::SegmentSeconds);
        }
        if self.file.len() > 1
            && (self.title.is_some() || self.poster.is_some() || !self.subtitle.is_empty())
        {
            return Err(UsageError::SeveralFiles);
        }
        check_folders(&self.library).map_err(UsageError::Folders)?;
        if self.into.as_ref().is_some_and(|into| !self.library.contains(into)) {
            return Err(UsageError::IntoElsewhere);
        }
        let ladder = self.ladder.as_deref().map_or_else(|| Ok(Ladder::default()), Ladder::read);
        Ok(Options {
            ladder: ladder.map_err(UsageError::Ladder)?,
            video_codec: match self.video_codec {
                VideoArg::H264 => VideoCodec::H264,
                VideoArg::Hevc => VideoCodec::Hevc,
                VideoArg::Av1 => VideoCodec::Av1,
            },
            hdr: self.hdr.then_some(match self.hdr_codec {
                HdrArg::Hevc => HdrCodec::Hevc,
                HdrArg::Av1 => HdrCodec::Av1,
            }),
            audio_codec: match self.audio_codec {
                AudioArg::Aac => AudioCodec::Aac,
                AudioArg::Opus => AudioCodec::Opus,
            },
            channels: match self.audio_channels {
                ChannelsArg::Both => Channels::Both,
                ChannelsArg::Stereo => Channels::Stereo,
                ChannelsArg::Source => Channels::Source,
            },
            speed: match self.speed {
                SpeedArg::Fastest => Speed::Fastest,
                SpeedArg::Fast => Speed::Fast,
                SpeedArg::Balanced => Speed::Balanced,
                SpeedArg::Best => Speed::Best,
            },
            copy: self.copy,
            segment_seconds: self.segment_seconds,
            subtitles: self.subtitle.clone(),
            burn_in: self.burn_in.clone(),
            poster: self.poster.clone(),
            cover: self.cover,
            series: self.series.clone(),
            again: self.again,
            bounds: self.bounds.bounds(),
        })
    }

    /// A title name for each file, all different.
    fn titles(&self) -> Result<Vec<TitleName>, UsageError> {
        let mut seen = HashSet::new();
        let mut titles = Vec::new();
        for file in &self.file {
            let name =
                self.title.as_deref().map_or_else(|| TitleName::of_file(file), TitleName::new);
            let name = name.map_err(UsageError::Title)?;
            if !seen.insert(name.clone()) {
                return Err(UsageError::TitleTwice(name));
            }
            titles.push(name);
        }
        Ok(titles)
    }
}

/// Options that are invalid together or alone.
#[derive(Debug, thiserror::Error)]
enum UsageError {
    /// The segment length is out of bounds.
    #[error("--segment-seconds must be between 0.5 and 20")]
    SegmentSeconds,
    /// An option for a single file was given with several.
    #[error("--title, --poster and --subtitle are for a single FILE")]
    SeveralFiles,
    /// The library's folders cannot be served together.
    #[error(transparent)]
    Folders(FoldersError),
    /// The folder for new titles is not one of the library's.
    #[error("--into must be one of the folders that --library names")]
    IntoElsewhere,
    /// The ladder cannot be used.
    #[error(transparent)]
    Ladder(LadderError),
    /// A title cannot have such a name.
    #[error(transparent)]
    Title(NameError),
    /// Two files would become one title.
    #[error("two files would become the title {:?}: ingest them one by one, with --title", .0.as_str())]
    TitleTwice(TitleName),
}

/// From here on, termination signals stop the ingest cleanly.
fn stop_when_signalled(stop: Stop) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stop.stop();
        }
    });
    Ok(())
}

fn tell(Ingested { folder, record, outcome, notes, .. }: &Ingested) {
    for note in notes {
        crate::tell(&format!("{}: note: {note}", record.title));
    }
    let what = match outcome {
        Outcome::Made => "made",
        Outcome::Replaced => "replaced",
        Outcome::Kept => "already there",
    };
    let sizes = record.video.iter().map(|video| format!("{}x{}", video.width, video.height));
    let sizes: Vec<_> = sizes.collect();
    let sizes = if sizes.is_empty() { "sound only".to_owned() } else { sizes.join(", ") };
    let bytes: u64 = record.files.iter().map(|file| file.bytes).sum();
    say_line(&format!(
        "{what}: {} ({:.1} s; {sizes}; {:.1} MB)",
        folder.display(),
        record.duration_seconds,
        bytes as f64 / 1e6
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtitles_have_a_language_and_a_file() {
        for (text, language, file) in [
            ("en=film.en.srt", "en", "film.en.srt"),
            ("pt_BR=a=b.srt", "pt_BR", "a=b.srt"),
            ("und=x.srt", "und", "x.srt"),
            ("und=x:forced.srt", "und", "x:forced.srt"),
        ] {
            let read = subtitle(text).unwrap();
            assert_eq!((read.language.as_str(), read.path), (language, PathBuf::from(file)));
            assert_eq!(read.purpose, None, "{text}");
        }
        for (text, purpose) in [
            ("en:forced=x.srt", TextPurpose::Forced),
            ("en:sdh=x.srt", TextPurpose::HardOfHearing),
            ("hi:HI=x.srt", TextPurpose::HardOfHearing),
        ] {
            assert_eq!(subtitle(text).unwrap().purpose, Some(purpose), "{text}");
        }
        for text in ["en:=x.srt", "en:all=x.srt", "en:forced:sdh=x.srt"] {
            let said = subtitle(text).map_err(|error| error.to_string());
            assert!(said.is_err_and(|said| said.contains("write forced or sdh")), "{text}");
        }
        for text in ["", "xx", "=x.srt", "en="] {
            let said = subtitle(text).map_err(|error| error.to_string());
            assert!(said.is_err_and(|said| said.contains("LANG=FILE")), "{text}");
        }
        for text in ["de\"x=s.srt", "d e=s.srt", "x=s.srt", "../../x=s.srt", "en\n=s.srt"] {
            let said = subtitle(text).map_err(|error| error.to_string());
            assert!(said.is_err_and(|said| said.contains("such as en or pt-BR")), "{text}");
        }
    }
}
