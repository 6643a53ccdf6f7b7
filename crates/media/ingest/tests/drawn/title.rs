//! A title, read from its playlists and its manifest as a player reads them.

use std::fs;
use std::path::{Path, PathBuf};

use catalog::Record;
use m3u8_rs::{
    AlternativeMedia, AlternativeMediaType, MasterPlaylist, MediaPlaylist, Playlist,
    SessionDataField, VariantStream,
};

use crate::measure::{Heard, Input, Seen, bits, input, measure};
use crate::tool::ffprobe;

/// What a player finds in a title by one of the two protocols.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    pub(crate) pictures: Vec<ListedPicture>,
    pub(crate) sounds: Vec<Listed>,
    pub(crate) texts: Vec<Listed>,
    /// VIDEO-RANGE of each playlist of key frames.
    pub(crate) key_frame_ranges: Vec<Option<String>>,
    /// A JSON file of chapters.
    pub(crate) chapters: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub(crate) struct ListedPicture {
    pub(crate) file: PathBuf,
    pub(crate) bandwidth: u64,
    pub(crate) average_bandwidth: Option<u64>,
    /// VIDEO-RANGE.
    pub(crate) range: Option<String>,
    /// By DASH.
    pub(crate) cicp: Option<Cicp>,
}

/// The colours of a set of pictures in DASH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cicp {
    /// Primaries, transfer and matrix (ISO/IEC 23091-2).
    pub(crate) numbers: [u32; 3],
    /// Whether players that don't know the properties leave the set out.
    pub(crate) is_essential: bool,
}

/// A sound or subtitles.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// A playlist by HLS, a file by DASH.
    pub(crate) file: PathBuf,
    pub(crate) name: String,
    pub(crate) language: Option<String>,
    pub(crate) is_default: bool,
    pub(crate) is_autoselected: bool,
    /// CHANNELS, or the value of AudioChannelConfiguration.
    pub(crate) channels: Option<String>,
    /// FORCED, CHARACTERISTICS, or the values of Role and Accessibility.
    pub(crate) marks: Vec<String>,
}

/// Everything that is judged of a title.
#[derive(Clone, Debug)]
pub(crate) struct Title {
    pub(crate) record: Record,
    pub(crate) notes: Vec<String>,
    pub(crate) hls: Listing,
    pub(crate) dash: Listing,
    /// Decoded, by each protocol, in the order of its listing.
    pub(crate) by_hls: Decoded,
    pub(crate) by_dash: Decoded,
    /// In the order of the record.
    pub(crate) colours: Vec<Colours>,
    /// Channels and languages of the sounds' files, in the order of the record.
    pub(crate) sound_headers: Vec<(u64, String)>,
    /// Start and title of each chapter, from the file that the playlist names.
    pub(crate) chapters: Vec<(f64, String)>,
    /// Contents of the subtitles' files, in the order of the record.
    pub(crate) words: Vec<String>,
    /// Files whose edit list begins with a pause, which browsers leave out.
    pub(crate) paused: Vec<(String, f64)>,
    pub(crate) folder: PathBuf,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) seen: Vec<Seen>,
    pub(crate) heard: Vec<Heard>,
}

/// ffprobe's names of a picture's colours; empty if it has no tag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Colours {
    pub(crate) matrix: String,
    pub(crate) primaries: String,
    pub(crate) transfer: String,
    pub(crate) is_full: bool,
    pub(crate) bits: u32,
    pub(crate) height: u64,
}

/// Reads what the manifests say, and decodes the title by both.
pub(crate) fn read(folder: &Path, record: &Record, notes: &[String]) -> Result<Title, String> {
    let mut title = listed(folder, record, notes)?;
    title.decode()?;
    Ok(title)
}

/// Reads what the manifests and files say, without decoding.
pub(crate) fn listed(folder: &Path, record: &Record, notes: &[String]) -> Result<Title, String> {
    let tracks =
        record.video.iter().map(|one| &one.file).chain(record.audio.iter().map(|one| &one.file));
    let paused = tracks.filter_map(|file| Some((file.clone(), pause(&folder.join(file))?)));
    let words = record
        .subtitles
        .iter()
        .map(|one| fs::read_to_string(folder.join(&one.file)).map_err(|error| error.to_string()));
    let hls = hls(&folder.join(&record.hls))?;
    Ok(Title {
        chapters: hls.chapters.as_deref().map_or(Ok(Vec::new()), chapters)?,
        sound_headers: record
            .audio
            .iter()
            .map(|one| sound_header(&folder.join(&one.file)))
            .collect::<Result<_, _>>()?,
        hls,
        dash: dash(&folder.join(&record.dash))?,
        by_hls: Decoded::default(),
        by_dash: Decoded::default(),
        colours: record
            .video
            .iter()
            .map(|one| colours(&folder.join(&one.file)))
            .collect::<Result<_, _>>()?,
        words: words.collect::<Result<_, _>>()?,
        paused: paused.collect(),
        notes: notes.to_vec(),
        record: record.clone(),
        folder: folder.to_owned(),
    })
}

impl Title {
    /// Decodes every picture and sound by both protocols.
    pub(crate) fn decode(&mut self) -> Result<(), String> {
        let pictures = self.hls.pictures.iter().map(|one| (&one.file, true));
        let sounds = self.hls.sounds.iter().map(|one| (&one.file, false));
        let has_picture = !self.record.video.is_empty();
        let pictures = pictures.filter(|_| has_picture);
        let inputs: Vec<_> = pictures
            .chain(sounds)
            .map(|(file, is_picture)| input(file, "-copyts", is_picture))
            .collect();
        let (seen, heard) = measure(&inputs).map_err(|error| format!("by HLS: {error}"))?;
        self.by_hls = Decoded { seen, heard };
        let manifest = self.folder.join(&self.record.dash);
        let one = |kind: &str, index: usize| Input {
            // For DASH, ffmpeg accepts no file named .vtt, as subtitles are.
            options: "-copyts -allowed_extensions ALL",
            file: manifest.clone(),
            pictures: (kind == "v").then(|| format!("v:{index}")).into_iter().collect(),
            sounds: (kind == "a").then(|| format!("a:{index}")).into_iter().collect(),
        };
        // Each by itself: ffmpeg stops at the end of the shortest one.
        let pictures = (0..self.dash.pictures.len()).map(|index| one("v", index));
        let inputs: Vec<_> =
            pictures.chain((0..self.dash.sounds.len()).map(|index| one("a", index))).collect();
        let (seen, heard) = measure(&inputs).map_err(|error| format!("by DASH: {error}"))?;
        self.by_dash = Decoded { seen, heard };
        Ok(())
    }
}

fn parsed(file: &Path) -> Result<Playlist, String> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    match m3u8_rs::parse_playlist(&bytes) {
        Ok(([], playlist)) => Ok(playlist),
        other => Err(format!("{}: {other:?}", file.display())),
    }
}

/// A media playlist.
pub(crate) fn media(file: &Path) -> Result<MediaPlaylist, String> {
    match parsed(file)? {
        Playlist::MediaPlaylist(media) => Ok(media),
        Playlist::MasterPlaylist(_) => Err(format!("{} is no media playlist", file.display())),
    }
}

fn hls(file: &Path) -> Result<Listing, String> {
    let Playlist::MasterPlaylist(master) = parsed(file)? else {
        return Err(format!("{} is no multivariant playlist", file.display()));
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    let of = |kind| {
        master.alternatives.iter().filter(move |one| one.media_type == kind && one.uri.is_some())
    };
    let listed = |one: &AlternativeMedia| Listed {
        file: folder.join(one.uri.as_deref().unwrap_or_default()),
        name: one.name.clone(),
        language: one.language.clone(),
        is_default: one.default,
        is_autoselected: one.autoselect,
        channels: one.channels.clone(),
        marks: one
            .forced
            .then(|| "FORCED".to_owned())
            .into_iter()
            .chain(one.characteristics.iter().flat_map(|all| all.split(',')).map(str::to_owned))
            .collect(),
    };
    // The first variants are for all players. Others differ in the versions of the sounds, which DASH lists, too.
    let variants = || master.variants.iter().filter(|one| !one.is_i_frame);
    let group = variants().next().and_then(|one| one.audio.clone());
    let in_group = |one: &&AlternativeMedia| Some(&one.group_id) == group.as_ref();
    let pictures = variants().filter(|one| one.audio == group).map(|one| ListedPicture {
        file: folder.join(&one.uri),
        bandwidth: one.bandwidth,
        average_bandwidth: one.average_bandwidth,
        range: range(one),
        cicp: None,
    });
    Ok(Listing {
        key_frame_ranges: master.variants.iter().filter(|one| one.is_i_frame).map(range).collect(),
        chapters: chapters_file(&master).map(|file| folder.join(file)),
        pictures: pictures.collect(),
        sounds: of(AlternativeMediaType::Audio).filter(in_group).map(listed).collect(),
        texts: of(AlternativeMediaType::Subtitles).map(listed).collect(),
    })
}

fn range(one: &VariantStream) -> Option<String> {
    Some(one.other_attributes.as_ref()?.get("VIDEO-RANGE")?.to_string())
}

/// The session data that Apple's players read.
fn chapters_file(master: &MasterPlaylist) -> Option<&str> {
    let mut all = master.session_data.iter();
    match &all.find(|one| one.data_id == "com.apple.hls.chapters")?.field {
        SessionDataField::Uri(file) => Some(file),
        SessionDataField::Value(_) => None,
    }
}

/// Start and title of each chapter that has one.
fn chapters(file: &Path) -> Result<Vec<(f64, String)>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let all: Vec<serde_json::Value> =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let chapter = |one: &serde_json::Value| {
        let title = one["titles"][0]["title"].as_str()?.to_owned();
        Some((one["start-time"].as_f64()?, title))
    };
    Ok(all.iter().filter_map(chapter).collect())
}

fn sound_header(file: &Path) -> Result<(u64, String), String> {
    let probed = ffprobe(file, "-show_streams")?;
    let stream = &probed["streams"][0];
    let language = stream["tags"]["language"].as_str().unwrap_or("und").to_owned();
    Ok((stream["channels"].as_u64().unwrap_or(0), language))
}

fn dash(file: &Path) -> Result<Listing, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let document = roxmltree::Document::parse(&text).map_err(|error| error.to_string())?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut listing = Listing::default();
    for set in document.descendants().filter(|node| node.has_tag_name((MPD, "AdaptationSet"))) {
        let children =
            |name: &'static str| set.children().filter(move |node| node.has_tag_name((MPD, name)));
        let kind = set.attribute("contentType").unwrap_or_default();
        let marks: Vec<_> = children("Role")
            .chain(children("Accessibility"))
            .filter_map(|node| node.attribute("value"))
            .collect();
        let property = |kind: &'static str, name: &str| {
            let one = children(kind)
                .find(|node| node.attribute("schemeIdUri").is_some_and(|id| id.ends_with(name)))?;
            one.attribute("value")?.parse().ok()
        };
        let cicp = |kind: &'static str| {
            let numbers = [
                property(kind, ":ColourPrimaries")?,
                property(kind, ":TransferCharacteristics")?,
                property(kind, ":MatrixCoefficients")?,
            ];
            Some(Cicp { numbers, is_essential: kind == ESSENTIAL })
        };
        for one in children("Representation") {
            let base = one.children().find(|node| node.has_tag_name((MPD, "BaseURL")));
            let file = folder.join(base.and_then(|node| node.text()).unwrap_or_default());
            let bandwidth =
                one.attribute("bandwidth").and_then(|rate| rate.parse().ok()).unwrap_or(0);
            let listed = || Listed {
                file: file.clone(),
                name: children("Label")
                    .next()
                    .and_then(|node| node.text())
                    .unwrap_or_default()
                    .to_owned(),
                language: set.attribute("lang").map(str::to_owned),
                is_default: marks.contains(&"main"),
                is_autoselected: true,
                channels: one
                    .children()
                    .find(|node| node.has_tag_name((MPD, "AudioChannelConfiguration")))
                    .and_then(|node| node.attribute("value"))
                    .map(str::to_owned),
                marks: marks.iter().map(|mark| (*mark).to_owned()).collect(),
            };
            match kind {
                "video" => listing.pictures.push(ListedPicture {
                    file,
                    bandwidth,
                    average_bandwidth: None,
                    range: None,
                    cicp: cicp(ESSENTIAL).or_else(|| cicp("SupplementalProperty")),
                }),
                "audio" => listing.sounds.push(listed()),
                "text" => listing.texts.push(listed()),
                _ => {} // thumbnails
            }
        }
    }
    Ok(listing)
}

/// A property that players have to understand.
const ESSENTIAL: &str = "EssentialProperty";

/// The namespace of DASH manifests.
const MPD: &str = "urn:mpeg:dash:schema:mpd:2011";

fn colours(file: &Path) -> Result<Colours, String> {
    let probed = ffprobe(file, "-show_streams")?;
    let stream = &probed["streams"][0];
    let tag = |name: &str| {
        let value = stream[name].as_str().unwrap_or_default();
        if ["unknown", "reserved"].contains(&value) { String::new() } else { value.to_owned() }
    };
    Ok(Colours {
        matrix: tag("color_space"),
        primaries: tag("color_primaries"),
        transfer: tag("color_transfer"),
        is_full: stream["color_range"] == "pc",
        bits: bits(&tag("pix_fmt")),
        height: stream["height"].as_u64().unwrap_or(0),
    })
}

/// The pause at the beginning of a file's edit list, in seconds. Browsers apply no empty edits, so what follows would be early there.
fn pause(file: &Path) -> Option<f64> {
    let mut reader = fs::File::open(file).ok()?;
    loop {
        let atom = <Option<mp4_atom::Any> as mp4_atom::ReadFrom>::read_from(&mut reader).ok()??;
        let mp4_atom::Any::Moov(moov) = atom else { continue };
        let timescale = f64::from(moov.mvhd.timescale);
        let edits = moov.trak.into_iter().next()?.edts?.elst?.entries;
        let first = edits.first()?;
        return first.media_time.is_none().then(|| first.segment_duration as f64 / timescale);
    }
}
