//! Turns encoded renditions into a title: pictures, subtitles, manifests, checksums; then puts it in its place.

use std::fs;
use std::path::Path;

use catalog::{
    AudioRecord, BurntInRecord, FileRecord, Record, SourceRecord, SubtitleRecord, TitleName,
    VideoRecord, sha256, version_name,
};

use super::error::{Attempt, IngestError};
use super::made::{Made, Sound, beside};
use super::progress::Progress;
use super::publish::{now, publish, write};
use super::work::{MADE, Work};
use super::{
    Ingest, Ingested, Outcome, RunLimits, chapters, dash, forms, hls, jobs, pictures, sound_jobs,
    subtitles,
};
use crate::bitmap_subtitles::BitmapSubtitles;
use crate::captions::Captions;
use crate::colour::Colours;
use crate::formats::FAR_BYTES;
use crate::role::Role;
use crate::source::{Audio, Burnt, DolbyVision, Video};
use crate::unplayable;

const HLS: &str = "master.m3u8";
const DASH: &str = "manifest.mpd";
/// The name of a version's folder until its real name is known.
const UNNAMED: &str = "version";

impl Ingest<'_> {
    /// Makes the title in `work` and puts it in its place.
    pub(super) fn make(
        &self,
        work: &Work,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Ingested, IngestError> {
        subtitles::check(self)?;
        let jobs = jobs::jobs(&self.source, self.options, self.tools);
        let place = work.empty_folder(MADE)?;
        let version = work.empty_folder(&format!("{MADE}/{UNNAMED}"))?;
        self.make_chosen_poster(&version, &self.limits(work)?)?;
        let mut complaint = None;
        let mut made = self.encode(work, jobs, progress, &mut complaint)?;
        progress(Progress::Finishing);
        self.add_the_rest(&mut made, &version, &self.limits(work)?)?;
        self.make_forms(&version)?;
        let mut files = self.sums(&made, &version)?;
        let folder = self.version_name(&files);
        for file in &mut files {
            file.path = format!("{folder}/{}", file.path);
        }
        let mut forms = Vec::new();
        for (name, text) in
            [(HLS, hls::master(&made, &folder)), (DASH, dash::manifest(&made, &folder))]
        {
            write(&place.join(name), text.as_bytes())?;
            files.push(sum(&place.join(name), name)?);
            for suffix in forms::make(&place.join(name), self.stop)? {
                let name = format!("{name}{suffix}");
                forms.push(sum(&place.join(&name), &name)?);
            }
        }
        let record = self.record(&made, &folder, (files, forms))?;
        if self.stop.is_stopped() {
            return Err(IngestError::Interrupted);
        }
        // From here on nothing takes long. Renditions leave the work folder last, so that an earlier failure leaves them there.
        for (file, from) in made.places() {
            fs::rename(from, version.join(file)).attempt("put in place", from)?;
        }
        let named = place.join(&folder);
        fs::rename(&version, &named).attempt("put in place", &named)?;
        let title = self.library.join(self.title.as_str());
        let outcome = if title.exists() { Outcome::Replaced } else { Outcome::Made };
        let record = publish(&place, &title, record)?;
        Ok(Ingested { folder: title, record, outcome, notes: self.notes(&made, complaint) })
    }

    /// Writes everything except the renditions into the version's folder.
    fn add_the_rest(
        &self,
        made: &mut Made,
        version: &Path,
        limits: &RunLimits<'_>,
    ) -> Result<(), IngestError> {
        subtitles::write(self, version, limits, made)?;
        if let Some(picture) = made.video.first() {
            made.captions = Captions::read(&picture.place).attempt("read", &picture.place)?;
        }
        let stored = match &self.source.video {
            Some(video) if self.options.copy => video.colours.clone(),
            _ => Colours::target(),
        };
        let colours = pictures::Reading { stored, has_zscale: self.tools.has_zscale };
        self.make_poster(made, &colours, version, limits)?;
        if made.has_poster {
            made.poster_widths = pictures::smaller_posters(version, limits)?;
        }
        made.tiles = pictures::thumbnails(made, &colours, version, limits)?;
        chapters::write(&self.source.chapters, version, made)?;
        for playlist in hls::media(made) {
            let path = version.join(&playlist.file);
            fs::write(&path, playlist.text).attempt("write", &path)?;
        }
        Ok(())
    }

    /// The record of every file of the version, wherever it is now, sorted by name.
    fn sums(&self, made: &Made, version: &Path) -> Result<Vec<FileRecord>, IngestError> {
        let mut files = Vec::new();
        for (name, place) in made.places() {
            if self.stop.is_stopped() {
                return Err(IngestError::Interrupted);
            }
            files.push(sum(place, name)?);
        }
        for entry in fs::read_dir(version).attempt("list", version)? {
            let path = entry.attempt("list", version)?.path();
            super::publish::sync(&path)?;
            // All these names are ours.
            files.push(sum(&path, &path.file_name().unwrap_or_default().to_string_lossy())?);
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// A name derived from the version's content, which no folder of the title has yet.
    fn version_name(&self, files: &[FileRecord]) -> String {
        let parts = files.iter().flat_map(|file| [file.path.as_bytes(), file.sha256.as_bytes()]);
        let name = version_name(&sha256::of_parts(parts));
        let title = self.library.join(self.title.as_str());
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        names.find(|name| !title.join(name).exists()).unwrap_or(name)
    }

    fn record(
        &self,
        made: &Made,
        folder: &str,
        (files, manifest_forms): (Vec<FileRecord>, Vec<FileRecord>),
    ) -> Result<Record, IngestError> {
        let (version, kind) = Record::form();
        let source = SourceRecord {
            name: self.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: self.film.metadata().attempt("look at", self.file)?.len(),
            key: self.key()?,
        };
        let path = |name: &str| format!("{folder}/{name}");
        Ok(Record {
            version,
            kind,
            title: self.title.to_string(),
            series: self.options.series.as_ref().map(TitleName::to_string),
            duration_seconds: (made.seconds() * 1000.0).round() / 1000.0,
            ingested_unix_seconds: now(),
            source,
            folder: folder.to_owned(),
            hls: HLS.to_owned(),
            dash: DASH.to_owned(),
            video: video(made, folder),
            audio: audio(made, folder),
            subtitles: subtitle_records(made, folder),
            poster: made.has_poster.then(|| path(pictures::POSTER)),
            poster_widths: made.poster_widths.clone(),
            thumbnails: made.tiles.is_some().then(|| path(pictures::THUMBNAILS)),
            burnt_in: self.source.burnt.as_ref().map(burnt_in),
            chapters: made.has_chapters.then(|| path(chapters::CHAPTERS)),
            files,
            manifest_forms,
            replaced: Vec::new(),
            sha256: String::new(),
        })
    }

    /// Notes on changes that ingest made without being asked, and on omissions.
    fn notes(&self, made: &Made, complaint: Option<String>) -> Vec<String> {
        let burnt = self.source.burnt.as_ref().map(|one| one.stream.index);
        let bitmaps = self.source.bitmaps.iter().filter(|one| Some(one.index) != burnt);
        let bitmaps: Vec<_> = bitmaps.map(BitmapSubtitles::left_out).collect();
        let unplayable = unplayable::left_out(&self.source.unplayable);
        let left_out = self.source.left_out.iter().chain(&bitmaps).chain(&made.left_out);
        let left_out = left_out.chain(&unplayable);
        let mut notes: Vec<_> = left_out.map(|one| format!("left out: {one}")).collect();
        if let Some(video) = &self.source.video {
            let has_hdr = made.ladders().count() > 1;
            notes.extend(colour_notes(video, self.options.copy, has_hdr, self.tools.has_zscale));
            if video.loses_captions && made.captions.is_empty() {
                notes.push(
                    "left out: captions in its picture (CEA-608, CEA-708), which the encoder drops: --video-codec h264 and --copy keep them"
                        .into(),
                );
            }
            notes.extend(self.hdr_note());
        }
        notes.extend(self.silence_note());
        for (index, source) in self.source.audio.iter().enumerate() {
            let versions = made.audio.iter().filter(|one| one.index == index);
            // The best version says what became of the sound.
            if let Some(best) = versions.max_by_key(|one| (one.is_other, one.layout.channels())) {
                notes.extend(self.sound_notes(best, source));
            }
        }
        notes.extend(complaint.map(|said| format!("the file has faults; ffmpeg reports: {said}")));
        notes
    }

    /// A note on a film without sound, if its sound may begin later than ingest has looked: it would be silent by mistake.
    fn silence_note(&self) -> Option<String> {
        if self.source.lists_streams || !self.source.audio.is_empty() {
            return None;
        }
        let is_longer = self.film.metadata().is_ok_and(|film| film.len() > FAR_BYTES);
        let part = is_longer.then(|| format!("its first {} MiB", FAR_BYTES >> 20));
        let part = part.unwrap_or_else(|| "it".to_owned());
        Some(format!("no sound was found in {part}, so the title is silent"))
    }

    /// Notes on what happened to a sound.
    fn sound_notes(&self, sound: &Sound, source: &Audio) -> Vec<String> {
        let mut notes = Vec::new();
        let name = &sound.name;
        let (from, to) = (source.channels, sound.layout.channels());
        if to < from {
            notes.push(format!("{name}: {from} channels were mixed down to {to}"));
        } else if to > 2 && !sound.layout.has_all_of(source) {
            let (from, to) = (sound_jobs::layout_name(source), sound.layout.name);
            notes.push(format!("{name}: {from} was mixed down to {to}"));
        } else if to > from {
            let (from, to) = (sound_jobs::layout_name(source), sound.layout.name);
            notes.push(format!(
                "{name}: {from} became {to}, the nearest arrangement of {}",
                sound.track.codec
            ));
        }
        if sound.fills_gaps {
            let codec = &source.codec;
            notes.push(format!(
                "{name}: its surround ({codec}) has long gaps: re-encoded in eac3, with silence in them"
            ));
        }
        let why = sound_jobs::why_encoded(source, self.options);
        notes.extend(why.map(|why| format!("{name}: re-encoded, {why}")));
        if sound_jobs::lacks_surround(source, self.options, self.tools) {
            let left_out = if to > 2 { "left out of HLS" } else { "left out" };
            notes.push(format!(
                "{name}: its surround was {left_out}, because this ffmpeg has no eac3 encoder; install one that has it and ingest the film again"
            ));
        }
        notes
    }
}

/// Notes on what happened to the colours of a picture.
fn colour_notes(video: &Video, is_copied: bool, has_hdr: bool, has_zscale: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let is_hdr = video.colours.is_hdr();
    match (is_copied, has_zscale) {
        (false, true) if has_hdr => notes.push(
            "its high dynamic range was kept in separate sizes, and mapped to standard range in the others".into(),
        ),
        (false, true) if is_hdr => {
            notes.push("its high dynamic range was mapped to standard range".into());
        }
        (false, false) if is_hdr => notes.push(
            "its high dynamic range was cut to standard range, so colours are pale: this ffmpeg has no zscale filter; install one that \
             has it (built with libzimg) and ingest the film again"
                .into(),
        ),
        _ => {}
    }
    if let Some(DolbyVision { profile, .. }) = video.dolby_vision {
        notes.push(match is_copied {
            true => format!(
                "its Dolby Vision metadata (profile {profile}) is not declared: players show the compatible base layer"
            ),
            false => format!(
                "left out: its Dolby Vision metadata (profile {profile}); the compatible base layer was encoded"
            ),
        });
    }
    if video.hdr.has_hdr10_plus {
        notes.push("left out: its HDR10+ metadata, which the encoders don't take".into());
    }
    if let Some(tag) = video.colours.unsupported().filter(|_| !is_copied) {
        notes.push(format!(
            "its colours may be wrong: they are tagged {tag}, which ingest can't convert"
        ));
    }
    notes
}

fn sum(path: &Path, name: &str) -> Result<FileRecord, IngestError> {
    FileRecord::of_file(path, name).attempt("read", path)
}

fn video(made: &Made, folder: &str) -> Vec<VideoRecord> {
    let target = made.target_seconds();
    let record = |one: &super::made::Picture| VideoRecord {
        file: format!("{folder}/{}", one.file),
        playlist: format!("{folder}/{}", beside(&one.file, "m3u8")),
        codec: one.track.codec.clone(),
        width: one.width,
        height: one.height,
        frames_per_second: (one.frame_rate.per_second() * 1000.0).round() / 1000.0,
        bits_per_second: one.track.bits_per_second(),
        bits_per_second_max: one.track.bits_per_second_max(target),
        bytes: one.track.bytes,
        segments: one.track.segments.len(),
        range: one.track.range().word().map(str::to_owned),
    };
    made.video.iter().map(record).collect()
}

fn audio(made: &Made, folder: &str) -> Vec<AudioRecord> {
    let target = made.target_seconds();
    let version_of = |one: &Sound| {
        let basic = made.basic_sounds().find(|basic| one.is_other && basic.index == one.index);
        basic.map(|basic| format!("{folder}/{}", basic.file))
    };
    let record = |one: &Sound| AudioRecord {
        file: format!("{folder}/{}", one.file),
        playlist: format!("{folder}/{}", beside(&one.file, "m3u8")),
        codec: one.track.codec.clone(),
        language: one.language.clone(),
        name: one.label.clone(),
        roles: words_of(&one.roles),
        is_default: one.is_default && !one.is_other,
        version_of: version_of(one),
        channels: one.layout.channels(),
        bits_per_second: one.track.bits_per_second(),
        bits_per_second_max: one.track.bits_per_second_max(target),
        bytes: one.track.bytes,
        segments: one.track.segments.len(),
    };
    made.audio.iter().map(record).collect()
}

fn burnt_in(burnt: &Burnt) -> BurntInRecord {
    BurntInRecord {
        stream: burnt.stream.index,
        codec: burnt.stream.codec.clone(),
        language: burnt.stream.label.language.clone(),
        is_forced: burnt.is_forced_only,
    }
}

fn words_of(roles: &[Role]) -> Vec<String> {
    roles.iter().map(|role| role.word().to_owned()).collect()
}

fn subtitle_records(made: &Made, folder: &str) -> Vec<SubtitleRecord> {
    let record = |one: &super::made::Subtitles| SubtitleRecord {
        file: format!("{folder}/{}", one.file),
        language: one.language.clone(),
        name: one.name.clone(),
        is_forced: one.is_forced(),
        roles: words_of(&one.roles),
    };
    made.subtitles.iter().map(record).collect()
}
