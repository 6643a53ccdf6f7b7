//! Encodes the missing renditions, and checks the results.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{Attempt, IngestError};
use super::ffmpeg::{Report, Run};
use super::jobs::{Job, Kind};
use super::made::{Made, Picture, Sound};
use super::progress::{EncodingPace, Meter, Progress};
use super::publish::sync;
use super::work::{FINISHED, Work};
use super::{Ingest, track_name};
use crate::mp4::{Mp4Error, Track, join_short_end, set_static_metadata};
use crate::role::{Medium, Role};
use crate::source::Label;

/// A film may be shorter than stated by this much, or by this share: containers round, and the last frame may end early or late.
const SHORT_SECONDS: f64 = 1.0;
const SHORT_PART: f64 = 0.01;
/// Below a rung's bound quality is constant, so most films take about this share of the bound.
const USUAL_PART: f64 = 0.5;
/// A copy of a sound must not have segments longer than this many times the usual: players buffer a title's longest segment.
const COPIED_SEGMENTS_MAX: f64 = 2.0;
/// The name of a rendition while it is encoded.
const UNFINISHED: &str = "part";

impl Ingest<'_> {
    /// Encodes every job that has no finished file in `work` yet. `complaint` is ffmpeg's first message.
    pub(super) fn encode(
        &self,
        work: &Work,
        jobs: Vec<Job>,
        progress: &mut impl FnMut(Progress),
        complaint: &mut Option<String>,
    ) -> Result<Made, IngestError> {
        let place_of = |job: &Job| work.path().join(format!("{}{FINISHED}", self.key_of(job)));
        let places: Vec<_> = jobs.iter().map(place_of).collect();
        let instead = jobs.iter().filter_map(|job| job.instead.as_deref());
        let known: Vec<_> = instead.map(place_of).chain(places.iter().cloned()).collect();
        let wanted =
            |name: &str| known.iter().any(|place| place.file_name() == Some(name.as_ref()));
        work.keep_only(wanted)?;
        let to_do: Vec<&Job> = jobs
            .iter()
            .zip(&places)
            .filter(|(_, place)| !place.exists())
            .map(|(job, _)| job)
            .collect();
        self.room_for(&to_do)?;
        let seconds = self.source.seconds.unwrap_or(1.0);
        let mut meter = Meter::new(to_do.iter().map(|job| job.weight).sum::<f64>() * seconds);
        let mut made = Made::default();
        let of = jobs.len();
        for (index, (job, place)) in jobs.into_iter().zip(places).enumerate() {
            let mut make = |job: &Job, place: &Path| {
                let numbers = (index + 1, of);
                let said = self.make_part(work, (job, place), numbers, &mut meter, progress)?;
                *complaint = complaint.take().or(said);
                Ok::<(), IngestError>(())
            };
            make(&job, &place)?;
            match &job.instead {
                Some(instead) if self.is_coarse(&place, &job.making)? => {
                    let place = place_of(instead);
                    make(instead, &place)?;
                    made.add(Job::clone(instead), place)?;
                }
                _ => made.add(job, place)?,
            }
        }
        self.judge(&made)?;
        made.choose_default();
        Ok(made)
    }

    /// Encodes a job, unless its file is at `place` already. Returns ffmpeg's first message.
    fn make_part(
        &self,
        work: &Work,
        (job, place): (&Job, &Path),
        (number, of): (usize, usize),
        meter: &mut Meter,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Option<String>, IngestError> {
        let part = job.making.clone();
        if place.exists() {
            progress(Progress::Kept { part });
            return Ok(None);
        }
        progress(Progress::Making { part, number, of });
        let mut pace = EncodingPace::default();
        let heard = |report: Report| {
            pace = report.pace;
            progress(meter.at(report.seconds * job.weight, pace));
        };
        let said = self.encode_one(work, job, place, heard)?;
        meter.finish(job.weight * self.source.seconds.unwrap_or(1.0));
        progress(meter.made(&job.making, pace));
        Ok(said)
    }

    /// Whether a copied sound has a segment that is too long, because of a gap.
    fn is_coarse(&self, place: &Path, making: &str) -> Result<bool, IngestError> {
        let longest_max = self.options.segment_seconds * COPIED_SEGMENTS_MAX;
        Ok(read(place, making)?.longest_seconds() > longest_max)
    }

    fn encode_one(
        &self,
        work: &Work,
        job: &Job,
        place: &Path,
        heard: impl FnMut(Report),
    ) -> Result<Option<String>, IngestError> {
        let unfinished = place.with_extension(UNFINISHED);
        let mut arguments = job.arguments.clone();
        arguments.push(as_output(&unfinished));
        let (making, film, folder) = (&job.making, Some(&self.film), work.path());
        let run = Run { making, film, folder, arguments: &arguments };
        let said = run.run(&self.limits(work)?, heard)?;
        let unusable = |error: Mp4Error| IngestError::Unusable {
            making: job.making.clone(),
            why: error.to_string(),
        };
        if let Some(metadata) = &job.metadata {
            set_static_metadata(&unfinished, metadata).map_err(unusable)?;
        }
        join_short_end(&unfinished).map_err(unusable)?;
        let track = read(&unfinished, &job.making)?;
        check_range(job, &track)?;
        whole(track.seconds(), self.told_seconds(job.says_seconds))?;
        sync(&unfinished)?;
        fs::rename(&unfinished, place).attempt("put in place", place)?;
        Ok(said)
    }

    /// Checks that there is room for the renditions, as far as that can be foreseen.
    fn room_for(&self, jobs: &[&Job]) -> Result<(), IngestError> {
        let Some(seconds) = self.source.seconds else { return Ok(()) };
        let rates: u64 = jobs.iter().filter_map(|job| job.bits_per_second).sum();
        let mut needed = (rates as f64 / 8.0 * seconds * USUAL_PART) as u64;
        if jobs.iter().any(|job| job.bits_per_second.is_none()) {
            needed += self.film.metadata().attempt("look at", self.file)?.len();
        }
        let disk = rustix::fs::statvfs(self.library).map_err(Into::into);
        let disk = disk.attempt("look at the disk of", self.library)?;
        let free = disk.f_bavail * disk.f_frsize;
        if needed > free {
            let library = self.library.to_path_buf();
            return Err(IngestError::DiskFull { library, bytes: Some((needed, free)) });
        }
        Ok(())
    }

    /// The stated playing time of a stream, if the container's statements are reliable.
    fn told_seconds(&self, seconds: Option<f64>) -> Option<f64> {
        seconds.filter(|_| self.source.stated_seconds.is_some())
    }

    /// Checks that need several renditions.
    fn judge(&self, made: &Made) -> Result<(), IngestError> {
        whole(made.seconds(), self.source.stated_seconds)?;
        let times = |picture: &Picture| {
            let ticks: Vec<_> = picture.track.segments.iter().map(|one| one.ticks).collect();
            (picture.track.timescale, ticks)
        };
        let first = made.video.first().map(times);
        if made.video.iter().any(|picture| Some(times(picture)) != first) {
            let why = "their key frames do not line up".into();
            return Err(IngestError::Unusable { making: "sizes of the picture".into(), why });
        }
        Ok(())
    }
}

/// A path in ffmpeg's form for files. Without the prefix, ffmpeg would read `a:b` as a protocol, and `-a` as an option. The path is
/// absolute, because ffmpeg runs in a different folder.
fn as_output(path: &Path) -> OsString {
    let mut output = OsString::from("file:");
    // The current folder is unknown if it was removed, but then no relative path can be opened anyway.
    output.push(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    output
}

fn read(place: &Path, making: &str) -> Result<Track, IngestError> {
    Track::read(place).map_err(|error| IngestError::Unusable {
        making: making.to_owned(),
        why: error.to_string(),
    })
}

/// Refuses a picture whose file doesn't state the dynamic range in which it was encoded: manifests go by what files say.
fn check_range(job: &Job, track: &Track) -> Result<(), IngestError> {
    match job.range {
        Some(range) if track.range() != range => Err(IngestError::Unusable {
            making: job.making.clone(),
            why: "it does not state its dynamic range".into(),
        }),
        _ => Ok(()),
    }
}

/// Refuses a file that is much shorter than stated.
fn whole(has_seconds: f64, says_seconds: Option<f64>) -> Result<(), IngestError> {
    match says_seconds {
        Some(says) if has_seconds < says - (says * SHORT_PART).max(SHORT_SECONDS) => {
            Err(IngestError::CutShort { says_seconds: says, has_seconds })
        }
        _ => Ok(()),
    }
}

impl Made {
    fn add(&mut self, job: Job, place: PathBuf) -> Result<(), IngestError> {
        let track = read(&place, &job.making)?;
        match job.kind {
            Kind::Video { width, height, frame_rate } => {
                self.video.push(Picture {
                    file: job.file,
                    place,
                    width,
                    height,
                    frame_rate,
                    track,
                });
            }
            Kind::Audio { label, layout, index, is_other, fills_gaps } => {
                let basic = self.basic_sounds().find(|one| is_other && one.index == index);
                let name = basic.map(|basic| basic.name.clone()).unwrap_or_else(|| {
                    let others = self.basic_sounds().map(|one| one.name.as_str());
                    track_name::distinct(others, Medium::Sound, &label)
                });
                let Label { language, is_default, roles, .. } = label;
                let mut sound = Sound {
                    file: job.file,
                    place,
                    language,
                    label: name.clone(),
                    name,
                    roles,
                    is_default,
                    index,
                    is_other,
                    fills_gaps,
                    layout,
                    track,
                };
                if is_other {
                    let others = self.audio.iter().map(|one| one.label.as_str());
                    sound.label = track_name::of_version(others, &sound.name, &sound.version());
                }
                self.audio.push(sound);
            }
        }
        Ok(())
    }

    /// Makes exactly one sound the default, with all its versions: the first that the source marks as default, else the first. Commentary is
    /// not the default, and neither is sound for people with impairments, unless there is nothing else.
    fn choose_default(&mut self) {
        let rank = |one: &Sound| (special(one), !one.is_default);
        let ranks = self.basic_sounds().map(|one| (rank(one), one.index));
        let chosen = ranks.min().map(|(_, index)| index);
        for one in &mut self.audio {
            one.is_default = Some(one.index) == chosen;
        }
    }
}

/// How far a sound is from what most viewers want.
fn special(sound: &Sound) -> u8 {
    let has = |role| sound.roles.contains(&role);
    if has(Role::Commentary) {
        2
    } else {
        u8::from([Role::AudioDescription, Role::HardOfHearing, Role::Karaoke].into_iter().any(has))
    }
}
