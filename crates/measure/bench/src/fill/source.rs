//! A title on a real server, and the fleet in which a box finds it there.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::{FileRecord, RECORD, Record, SourceRecord, version_name};
use fleet_protocol::{
    Desired, Digest, FleetSnapshot, HeldTitle, NodeKind, NodePlace, PublishedTitle, Site,
    SnapshotNode, State, SteeringPolicy, TitleDocument,
};
use load::interrupt::Interrupt;
use node::Replicator;
use steering::Fleet;

use crate::library::Library;

/// The measured box, and the node it copies from, in the same cluster.
pub(crate) const TARGET: &str = "target";
const SOURCE: &str = "source";

const HLS: &str = "master.m3u8";
const DASH: &str = "manifest.mpd";
const FILM: &str = "film.mp4";

/// A library in which all titles share one film.
pub(crate) struct Source {
    /// The library's root.
    pub(crate) root: PathBuf,
    film: PathBuf,
    record: FileRecord,
    version: String,
}

impl Source {
    /// Creates the film with this many bytes in the new folder `root`.
    ///
    /// # Errors
    /// If the disk is too full, the folder is not writable, or the user interrupts.
    pub(crate) fn make(root: &Path, bytes: u64, interrupt: &Interrupt) -> io::Result<Self> {
        let film = Library::make(root, 1, bytes, interrupt)?.path(0);
        let mut record = FileRecord::of_file(&film, FILM)?;
        let version = version_name(&record.sha256);
        record.path = format!("{version}/{FILM}");
        Ok(Self { root: root.to_owned(), film, record, version })
    }

    /// Adds another title with the film.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn title(&self, number: usize) -> io::Result<PublishedTitle> {
        let path = format!("film-{number}");
        let folder = self.root.join(&path);
        fs::create_dir_all(folder.join(&self.version))?;
        fs::hard_link(&self.film, folder.join(&self.record.path))?;
        fs::write(folder.join(HLS), format!("#EXTM3U\n{}\n", self.record.path))?;
        fs::write(folder.join(DASH), format!("<MPD>{}</MPD>\n", self.record.path))?;
        let mut record = self.record_of(&path, &folder)?;
        fs::write(folder.join(RECORD), record.seal())?;
        let document = |name: &str| {
            let sha256 = Digest::of(&fs::read(folder.join(name))?);
            Ok::<_, io::Error>(TitleDocument { path: name.to_owned(), sha256 })
        };
        Ok(PublishedTitle {
            version: record.sha256.parse().map_err(|_| io::Error::other("a digest"))?,
            bytes: record.bytes(),
            duration_seconds: record.duration_seconds,
            record: document(RECORD)?,
            hls: document(HLS)?,
            dash: document(DASH)?,
            // Never used: a node of the cluster has the title.
            origin: "file:///nowhere".to_owned(),
            published_unix_seconds: 1,
            path,
        })
    }

    fn record_of(&self, title: &str, folder: &Path) -> io::Result<Record> {
        let (version, kind) = Record::form();
        let [hls, dash] = [HLS, DASH].map(|name| FileRecord::of_file(&folder.join(name), name));
        Ok(Record {
            version,
            kind,
            title: title.to_owned(),
            duration_seconds: 1.0,
            ingested_unix_seconds: 1,
            source: SourceRecord { name: FILM.into(), bytes: 1, key: self.version.clone() },
            folder: self.version.clone(),
            hls: HLS.into(),
            dash: DASH.into(),
            video: Vec::new(),
            audio: Vec::new(),
            subtitles: Vec::new(),
            poster: None,
            poster_widths: Vec::new(),
            thumbnails: None,
            burnt_in: None,
            chapters: None,
            manifest_forms: Vec::new(),
            files: vec![self.record.clone(), hls?, dash?],
            series: None,
            replaced: Vec::new(),
            sha256: String::new(),
        })
    }
}

/// Makes `replicator` lack `title` from now on, and gives it the address of the node that has it.
///
/// # Errors
/// If the fleet is invalid, or the holder refuses it.
pub(crate) fn want(
    replicator: &Replicator,
    title: &PublishedTitle,
    address: SocketAddr,
) -> io::Result<()> {
    replicator.note_fleet(fleet_of(title, address)?);
    say(replicator, vec![title.clone()], Vec::new())
}

/// Makes `replicator` want nothing from now on.
///
/// # Errors
/// If the holder refuses it.
pub(crate) fn unwant(replicator: &Replicator, title: &PublishedTitle) -> io::Result<()> {
    say(replicator, Vec::new(), vec![title.held()])
}

fn say(
    replicator: &Replicator,
    titles: Vec<PublishedTitle>,
    withdrawn: Vec<HeldTitle>,
) -> io::Result<()> {
    let revision = replicator.desired().revision + 1;
    let desired = Desired { epoch: 1, revision, titles, withdrawn, ..Desired::default() };
    replicator.handle_desired(desired).map_err(io::Error::other)
}

fn fleet_of(title: &PublishedTitle, address: SocketAddr) -> io::Result<Arc<Fleet>> {
    let name = |text: &str| text.parse().map_err(|_| io::Error::other("a name"));
    let node = |own: &str, host: String, holds: Vec<u32>| {
        Ok::<_, io::Error>(SnapshotNode {
            name: name(own)?,
            host,
            place: NodePlace { site: name("bench")?, cluster: name("bench-1")?, rack: None },
            kind: NodeKind::default(),
            state: State::Serving,
            not_me: Vec::new(),
            ceiling_bits_per_second: 0,
            load_permille: 0,
            full: false,
            holds,
        })
    };
    let snapshot = FleetSnapshot {
        version: 1,
        epoch: 1,
        gateway: name("bench")?,
        number: 1,
        made_unix_millis: 1,
        policy: SteeringPolicy {
            scheme: "https".to_owned(),
            port: address.port(),
            ..SteeringPolicy::default()
        },
        sites: vec![Site {
            name: name("bench")?,
            region: name("bench")?,
            latitude: None,
            longitude: None,
            announced: Vec::new(),
        }],
        nodes: vec![
            node(SOURCE, address.ip().to_string(), vec![0])?,
            node(TARGET, "127.0.0.2".to_owned(), Vec::new())?,
        ],
        titles: vec![title.clone()],
    };
    Fleet::new(snapshot, None).map(Arc::new).map_err(|error| io::Error::other(error.to_string()))
}
