//! A film drawn by seed: its description, from which `make.rs` makes it.

use std::fmt::{self, Display, Formatter};

use fullbore_tests::{Random, mix};

use crate::containers::{CONTAINERS, Container, sound_encoder};

/// A film, described. All times are seconds on the clock of the film before anything is cut off or moved.
#[derive(Clone, Debug)]
pub(crate) struct Film {
    pub(crate) seed: u64,
    pub(crate) container: &'static Container,
    pub(crate) seconds: f64,
    /// When a flash and a beep begin. The distances all differ, so that no shift maps one onto another.
    pub(crate) events: Vec<f64>,
    /// Added to all timestamps.
    pub(crate) start_seconds: f64,
    pub(crate) picture: Option<Picture>,
    pub(crate) decoy: Decoy,
    pub(crate) sounds: Vec<Sound>,
    pub(crate) texts: Vec<Text>,
    pub(crate) cut: Cut,
    /// Tags with quotes, line breaks and changes of direction, and an attachment.
    pub(crate) has_odd_tags: bool,
    pub(crate) has_chapters: bool,
    pub(crate) options: Asked,
}

#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) codec: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Frames per second, as ffmpeg writes it.
    pub(crate) rate: &'static str,
    pub(crate) is_variable: bool,
    pub(crate) group_frames: u32,
    pub(crate) b_frames: u32,
    pub(crate) is_open: bool,
    pub(crate) is_interlaced: bool,
    pub(crate) rotation: u32,
    /// Width of a pixel, compared with its height.
    pub(crate) pixel: &'static str,
    /// Of the patch in the middle: red, green, blue.
    pub(crate) patch: [u8; 3],
    /// The tags of colour; `None`: untagged, and BT.601 or BT.709 by its size.
    pub(crate) colour: Option<&'static str>,
    /// The transfer of a high dynamic range, by ffmpeg's name.
    pub(crate) wide: Option<&'static str>,
    pub(crate) late_seconds: f64,
    /// How much earlier than the film it ends.
    pub(crate) early_seconds: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Sound {
    pub(crate) codec: &'static str,
    pub(crate) layout: &'static str,
    pub(crate) sample_rate: u32,
    pub(crate) language: Option<&'static str>,
    pub(crate) role: Option<&'static str>,
    pub(crate) title: Option<&'static str>,
    pub(crate) late_seconds: f64,
    pub(crate) early_seconds: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) codec: &'static str,
    pub(crate) language: Option<&'static str>,
    pub(crate) role: Option<&'static str>,
    pub(crate) title: Option<&'static str>,
    pub(crate) cues: Vec<Cue>,
}

/// A line of a film, for `seconds` from `start`.
#[derive(Clone, Debug)]
pub(crate) struct Cue {
    pub(crate) start: f64,
    pub(crate) seconds: f64,
    /// An index into [`crate::lines::LINES`].
    pub(crate) line: usize,
}

/// A second picture that is not the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoy {
    None,
    /// A single frame in front of the film, without a flag.
    Still,
    /// Another picture of the same length behind it.
    Angle,
}

/// What happened to the film after it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cut {
    Whole,
    /// A copy that begins at this time, in the middle of a group of pictures.
    Trimmed(f64),
    /// The file's first bytes are missing: this part, as when a recording begins.
    Headless(f64),
    /// It was made in two pieces that are joined at this time, and the second one's clock is ahead by this many seconds.
    Joined(f64, f64),
}

/// The options of ingest that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) copy: bool,
    pub(crate) keeps_channels: bool,
    pub(crate) opus: bool,
    pub(crate) hevc: bool,
    /// Keep a high dynamic range next to the standard one.
    pub(crate) hdr: bool,
}

/// How long a flash and a beep last.
pub(crate) const EVENT_SECONDS: f64 = 0.2;
/// The beep of the sound with this index, in hertz: tells sounds apart.
pub(crate) fn hertz(sound: usize) -> u32 {
    500 + 400 * sound as u32
}

const RATES: [&str; 10] =
    ["25", "25", "24000/1001", "30000/1001", "24", "30", "50", "60000/1001", "60", "25"];
const SIZES: [(u32, u32); 8] =
    [(160, 90), (160, 90), (160, 90), (176, 144), (90, 160), (162, 94), (128, 128), (200, 86)];
/// The pixel of a large picture is interpreted by other rules.
const LARGE: (u32, u32) = (1280, 720);
const PIXELS: [&str; 6] = ["1/1", "1/1", "1/1", "1/1", "16/11", "64/45"];
/// Dark enough to tell a flash from it, and far from grey, so that a wrong matrix shows.
const PATCHES: [[u8; 3]; 6] =
    [[0, 192, 0], [192, 0, 0], [0, 64, 192], [176, 80, 0], [128, 0, 160], [0, 160, 128]];
const COLOURS: [Option<&str>; 6] =
    [None, None, Some("bt709"), Some("bt709"), Some("smpte170m"), Some("bt470bg")];
const LANGUAGES: [Option<&str>; 18] = [
    None,
    Some("eng"),
    Some("ger"),
    Some("deu"),
    Some("fre"),
    Some("jpn"),
    Some("tam"),
    Some("may"),
    Some("baq"),
    Some("nob"),
    Some("ben"),
    Some("tel"),
    Some("mac"),
    Some("gsw"),
    Some("und"),
    Some("chi"),
    Some("slo"),
    Some("eng"),
];
const SOUND_ROLES: [&str; 4] = ["comment", "visual_impaired", "dub", "original"];
const TEXT_ROLES: [&str; 3] = ["hearing_impaired", "forced", "comment"];
const TITLES: [&str; 6] = [
    "Director's cut",
    "a, \"b\" <c> & d",
    "\u{5e2}\u{5d1}\u{5e8}\u{5d9}\u{5ea}",
    "x=1;y='2'",
    " ",
    "\u{1f3ac} 100% #1",
];

impl Film {
    pub(crate) fn draw(seed: u64) -> Self {
        let random = &mut Random::new(mix(seed));
        let container = *random.pick(&CONTAINERS);
        let seconds = random.seconds(6.0, 10.0);
        let has_picture = !random.one_in(16) || container.extension == "vob";
        let picture = has_picture.then(|| Picture::draw(container, random));
        let sound_count = match random.below(8) {
            0 if picture.is_some() => 0,
            0..=3 => 1,
            4 | 5 => 2,
            _ => 3 + random.below(2) as usize,
        };
        let sound_count = sound_count.min(container.sounds_max);
        let sounds: Vec<_> = (0..sound_count).map(|_| Sound::draw(container, random)).collect();
        let mut film = Self {
            seed,
            container,
            seconds,
            events: events(seconds, random),
            start_seconds: start(container, random),
            picture,
            decoy: Decoy::None,
            sounds,
            texts: Vec::new(),
            cut: Cut::Whole,
            has_odd_tags: random.one_in(4),
            has_chapters: random.one_in(4),
            options: Asked {
                copy: random.one_in(3),
                keeps_channels: random.one_in(3),
                opus: random.one_in(4),
                hevc: random.one_in(16),
                hdr: false,
            },
        };
        film.draw_texts(random);
        film.draw_decoy(random);
        film.draw_lateness(random);
        film.draw_cut(random);
        film.draw_rarities();
        film.options.copy &= film
            .picture
            .as_ref()
            .is_none_or(|picture| ["h264", "hevc", "av1"].contains(&picture.codec));
        film
    }

    fn draw_texts(&mut self, random: &mut Random) {
        if self.container.texts.is_empty() || self.picture.is_none() || random.one_in(2) {
            return;
        }
        for _ in 0..1 + random.below(3) {
            let text = Text::draw(self.container, self.seconds, random);
            self.texts.push(text);
        }
    }

    fn draw_decoy(&mut self, random: &mut Random) {
        let takes = ["mkv", "mp4", "mov"].contains(&self.container.extension);
        if takes && self.picture.is_some() && random.one_in(8) {
            self.decoy = *random.pick(&[Decoy::Still, Decoy::Angle]);
        }
    }

    /// What would be too rare among a hundred films. Its random numbers are its own, so that other films stay as their seeds made them.
    fn draw_rarities(&mut self) {
        let random = &mut Random::new(mix(!self.seed));
        let Some(picture) = self.picture.as_mut() else { return };
        if picture.codec == "hevc" && picture.wide.is_none() && random.one_in(2) {
            picture.wide = Some(*random.pick(&["smpte2084", "arib-std-b67"]));
        }
        let begins_elsewhere = picture.late_seconds > 0.0 || matches!(self.cut, Cut::Trimmed(_));
        self.options.copy |= begins_elsewhere && random.one_in(2);
        if picture.late_seconds > 0.0 && random.one_in(2) {
            // The picture ends last, so the title ends with what began late.
            self.sounds.iter_mut().for_each(|sound| sound.early_seconds = 1.0);
        }
        let is_broadcast = self.container.muxer.starts_with("mpegts") && self.cut == Cut::Whole;
        let is_early = picture.early_seconds == 0.0 && picture.late_seconds == 0.0;
        if is_broadcast && is_early && random.one_in(6) {
            // Later than ffmpeg looks for streams by default, which is 5 s.
            self.seconds = 12.0;
            self.events = events(self.seconds, random);
            for sound in &mut self.sounds {
                (sound.late_seconds, sound.early_seconds) = (random.seconds(5.5, 7.0), 0.0);
            }
        }
        self.options.hdr = picture.wide.is_some() && !random.one_in(4);
    }

    /// Streams that begin later or end earlier than others; something is always there from the beginning to the end.
    fn draw_lateness(&mut self, random: &mut Random) {
        if !self.container.has_starts || self.picture.is_none() {
            return;
        }
        let late = random.below(4);
        for sound in self.sounds.iter_mut().filter(|_| late == 0) {
            sound.late_seconds = random.seconds(0.1, 3.0);
        }
        if random.one_in(6) {
            self.sounds.iter_mut().for_each(|sound| sound.early_seconds = random.seconds(0.1, 1.5));
        } else if let Some(picture) = self.picture.as_mut().filter(|_| late == 1) {
            picture.late_seconds =
                if self.sounds.is_empty() { 0.0 } else { random.seconds(0.1, 2.0) };
            let early = !self.sounds.is_empty() && random.one_in(3);
            picture.early_seconds = if early { random.seconds(0.1, 1.5) } else { 0.0 };
        }
    }

    fn draw_cut(&mut self, random: &mut Random) {
        let is_plain =
            self.container.is_joinable && self.decoy == Decoy::None && self.picture.is_some();
        if is_plain && random.one_in(2) {
            self.cut = match random.below(3) {
                0 => Cut::Joined(self.seconds * 0.5, *random.pick(&[-1.5, 0.7, 95.0, 1000.0])),
                _ => Cut::Headless(random.seconds(0.03, 0.2)),
            };
        } else if ["mp4", "mov", "mkv", "flv"].contains(&self.container.extension)
            && random.one_in(4)
        {
            self.cut = Cut::Trimmed(random.seconds(0.3, 2.0));
            // A copy can begin anywhere only in what was there from the beginning.
            self.start_seconds = 0.0;
        }
    }
}

impl Picture {
    fn draw(container: &Container, random: &mut Random) -> Self {
        let codec = *random.pick(container.pictures);
        let rate = *random.pick(&RATES);
        let is_large = random.one_in(10) && !["av1", "vp9", "ffv1"].contains(&codec);
        let (width, height) = if is_large { LARGE } else { *random.pick(&SIZES) };
        let (width, height) = if codec == "h264rgb" && random.one_in(2) {
            (width + 1, height + 1)
        } else {
            (width, height)
        };
        let reorders =
            ["h264", "hevc", "mpeg2video", "mpeg4"].contains(&codec) && container.has_reordering;
        let b_frames = if reorders { *random.pick(&[0, 2, 2, 3]) } else { 0 };
        let is_turnable = container.has_edit_lists && codec != "mjpeg";
        // MPEG-2 has a list of rates and shapes; others have neither a flag for fields nor tags of colour.
        let is_tagged = ["h264", "hevc", "mpeg2video", "prores", "ffv1"].contains(&codec);
        Self {
            codec,
            width,
            height,
            rate,
            is_variable: container.has_variable_rate && codec != "mpeg2video" && random.one_in(6),
            group_frames: 8 + random.below(90) as u32,
            b_frames,
            is_open: b_frames > 0 && codec != "mpeg4" && random.one_in(3),
            is_interlaced: codec == "mpeg2video" && random.one_in(3),
            rotation: if is_turnable && random.one_in(5) {
                *random.pick(&[90, 180, 270])
            } else {
                0
            },
            pixel: if is_tagged && codec != "mpeg2video" { *random.pick(&PIXELS) } else { "1/1" },
            patch: *random.pick(&PATCHES),
            colour: if is_tagged { *random.pick(&COLOURS) } else { None },
            wide: (codec == "hevc" && random.one_in(3))
                .then(|| *random.pick(&["smpte2084", "arib-std-b67"])),
            late_seconds: 0.0,
            early_seconds: 0.0,
        }
    }
}

impl Sound {
    fn draw(container: &Container, random: &mut Random) -> Self {
        let codec = *random.pick(container.sounds);
        let (_, layouts, sample_rates) = sound_encoder(codec);
        let sample_rate = *random.pick(sample_rates);
        Self {
            codec,
            layout: *random.pick(layouts),
            // The only rates that FLV has a number for.
            sample_rate: if container.extension == "flv" { 44_100 } else { sample_rate },
            language: if container.has_languages { *random.pick(&LANGUAGES) } else { None },
            role: role(container, &SOUND_ROLES, random),
            title: title(container, random),
            late_seconds: 0.0,
            early_seconds: 0.0,
        }
    }
}

impl Text {
    fn draw(container: &Container, film_seconds: f64, random: &mut Random) -> Self {
        let codec = *random.pick(container.texts);
        let mut cues = Vec::new();
        let mut start = random.seconds(0.2, 1.5);
        // The last one may outlast the film.
        let last_seconds = if random.one_in(5) { 9.0 } else { 0.5 };
        while start + 1.0 < film_seconds {
            let seconds = random.seconds(0.4, 0.9);
            cues.push(Cue {
                start,
                seconds,
                line: random.below(crate::lines::LINES.len() as u64) as usize,
            });
            start += seconds + random.seconds(0.1, 1.6);
        }
        if let Some(last) = cues.last_mut() {
            last.seconds = last_seconds;
        }
        Self {
            codec,
            language: if container.has_languages { *random.pick(&LANGUAGES) } else { None },
            role: role(container, &TEXT_ROLES, random),
            title: title(container, random),
            cues,
        }
    }
}

fn role(
    container: &Container,
    roles: &[&'static str],
    random: &mut Random,
) -> Option<&'static str> {
    (container.has_roles && random.one_in(3)).then(|| *random.pick(roles))
}

fn title(container: &Container, random: &mut Random) -> Option<&'static str> {
    let takes = ["mkv", "webm", "mov", "mp4"].contains(&container.extension);
    (takes && random.one_in(4)).then(|| *random.pick(&TITLES))
}

/// The first event comes late enough that every stream has begun.
fn events(seconds: f64, random: &mut Random) -> Vec<f64> {
    let mut events: Vec<f64> = Vec::new();
    let mut at = random.seconds(0.6, 1.3);
    while at + EVENT_SECONDS + 0.3 < seconds {
        events.push((at * 1000.0).round() / 1000.0);
        // Distances grow, so that no two are the same.
        at += 0.7 + 0.15 * events.len() as f64 + random.seconds(0.0, 0.1);
    }
    events
}

fn start(container: &Container, random: &mut Random) -> f64 {
    // The clock of MPEG-TS has 33 bits at 90 kHz and begins again after 26.5 hours.
    const WRAPS: f64 = 8_589_934_592.0 / 90_000.0;
    match random.below(8) {
        _ if !container.has_starts => 0.0,
        0..=3 => 0.0,
        4 => -random.seconds(0.1, 1.0),
        5 if container.muxer.starts_with("mpegts") => (WRAPS - random.seconds(3.0, 5.0)).round(),
        _ => random.seconds(0.1, 30.0),
    }
}

impl Display for Film {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {:.1} s of .{} from {:+.3} s, {:?}",
            self.seed, self.seconds, self.container.extension, self.start_seconds, self.cut
        )?;
        write!(f, ", {:?}; events {:?}", self.options, self.events)?;
        if self.has_chapters || self.has_odd_tags {
            write!(f, "; chapters {}, odd tags {}", self.has_chapters, self.has_odd_tags)?;
        }
        if let Some(picture) = &self.picture {
            write!(f, "\n  {picture:?}, decoy {:?}", self.decoy)?;
        }
        for sound in &self.sounds {
            write!(f, "\n  {sound:?}")?;
        }
        for text in &self.texts {
            let lines: Vec<_> = text.cues.iter().map(|cue| (cue.start, cue.line)).collect();
            let Text { codec, language, role, title, .. } = text;
            write!(f, "\n  Text {codec} {language:?} {role:?} {title:?}, lines {lines:?}")?;
        }
        Ok(())
    }
}
