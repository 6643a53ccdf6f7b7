//! Fetches one title: block by block into a hidden folder next to its place, and from there into the library by one rename.
//!
//! A map next to the hidden folder records which blocks were verified and written ([`BlockMap`]), so an interrupted copy resumes where it
//! stopped, from any source. Data in the folder that is not on the map is read, and only blocks that do not match the record are fetched: a
//! damaged title is moved there and repaired by fetching only its bad blocks. Each block is verified before it is written, and each file is
//! synced before the title appears. Files with blocks noted by an earlier attempt are read back, because a power failure may have kept the
//! map and lost the data.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use catalog::{BLOCK_BYTES, FileRecord, RECORD, Record, TitlePath, Workshop, sha256};
use fleet_protocol::PublishedTitle;

use super::block_file::{BlockBuffer, BlockBuffers, BlockFile};
use super::block_map::{self, BlockMap, Why};
use super::check::{self, Gate};
use super::error::{Attempt, HoldingError};
use super::room;
use super::sources::Sources;
use crate::persistence;

/// The folder in a [`Workshop`] for a title that is arriving, or that was moved there because it may be damaged.
pub(crate) const ARRIVING: &str = "arriving";

/// As `catalog::Record` bounds it.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// A title to fetch.
pub(crate) struct Arrival<'a> {
    /// Its path in the library.
    pub(crate) title: &'a TitlePath,
    /// The folder of the library.
    pub(crate) library: &'a Path,
    /// The published title. Without it, the files present must be complete.
    pub(crate) wanted: Option<&'a PublishedTitle>,
    /// Fill or repair.
    pub(crate) why: Why,
    /// The sources to fetch it from.
    pub(crate) sources: &'a Sources<'a>,
    /// Called with the bytes present and the bytes in all.
    pub(crate) progress: &'a dyn Fn(u64, u64),
    /// Bytes to leave free on the disk.
    pub(crate) kept_free_bytes: u64,
    /// Called before each block is read or fetched.
    pub(crate) gate: Gate<'a>,
}

/// A title that has arrived.
pub(crate) struct Arrived {
    /// Its record.
    pub(crate) record: Record,
    /// The record of the title that it replaced.
    pub(crate) replaced: Option<Record>,
    /// Bytes that had to be fetched.
    pub(crate) fetched_bytes: u64,
}

impl Arrival<'_> {
    /// Fetches it.
    ///
    /// # Errors
    /// [`HoldingError`]. What has arrived by then is kept for the next attempt.
    pub(crate) fn bring(&self) -> Result<Arrived, HoldingError> {
        let above = self.title.above(self.library);
        persistence::make_folder(&above).attempt("make the folder", &above)?;
        let workshop = Workshop::lock(&above, self.title.name())?;
        let arriving = workshop.path().join(ARRIVING);
        fs::create_dir_all(&arriving).attempt("make the folder", &arriving)?;
        let record = self.record(&arriving)?;
        check_form(&record)?;
        let live = catalog::find(self.library, self.title).map_err(|unread| unread.why);
        let live = live.attempt("look into", &self.title.folder(self.library))?;
        let live = live.and_then(|entry| entry.record.ok());
        let present = live.as_ref().map(|live| present(live, &record)).unwrap_or_default();
        let files: Vec<_> =
            record.files.iter().filter(|file| !present.contains(file.path.as_str())).collect();
        keep_only(&arriving, &files)?;
        self.check_room(&arriving, &files)?;
        let count = record.files.iter().map(blocks_of).sum();
        let map = BlockMap::open(workshop.path(), &record.sha256, count, self.why);
        let map = map.attempt("write", &workshop.path().join(block_map::BLOCKS))?;
        let progress = Progress::new(&files, self.progress);
        let mut filling =
            Filling { arrival: self, arriving: &arriving, record: &record, map, progress };
        let brought = filling.bring_all(&files);
        if matches!(brought, Err(HoldingError::Damaged { .. })) {
            // The map claims blocks that the disk does not have. If it cannot be cleared, the next attempt ends here again.
            let _ = filling.map.clear();
        }
        let fetched_bytes = brought?;
        (self.gate)(0)?;
        self.put_in_place(&arriving, &record, live.as_ref())?;
        workshop.remove()?;
        let replaced = live.filter(|live| live.folder != record.folder);
        Ok(Arrived { record, replaced, fetched_bytes })
    }

    /// The record of the arriving title: the one in the folder, or else the published one.
    fn record(&self, arriving: &Path) -> Result<Record, HoldingError> {
        let there = Record::read(arriving);
        let Some(wanted) = self.wanted else {
            return there.map_err(|why| HoldingError::Damaged {
                path: RECORD.to_owned(),
                why: format!("cannot be used: {why}"),
            });
        };
        let version = wanted.version.to_string();
        match there {
            Ok(record) if record.sha256 == version => return Ok(record),
            _ => {}
        }
        let place = arriving.join(RECORD);
        let document = &wanted.record;
        let bytes = self.sources.small(&document.path, RECORD_BYTES_MAX, &document.sha256)?;
        persistence::write(&place, &bytes).attempt("write", &place)?;
        let record = Record::read(arriving).map_err(|why| {
            HoldingError::Origin(format!("the record of {} is damaged: {why}", self.title))
        })?;
        match record.sha256 == version {
            true => Ok(record),
            false => Err(HoldingError::Origin(format!(
                "the record of {} is not of the published version",
                self.title
            ))),
        }
    }

    fn check_room(&self, arriving: &Path, files: &[&FileRecord]) -> Result<(), HoldingError> {
        let there = |file: &FileRecord| {
            fs::symlink_metadata(arriving.join(&file.path)).map_or(0, |found| found.len())
        };
        let missing = files.iter().map(|file| file.bytes.saturating_sub(there(file)));
        let needed_bytes: u64 = missing.sum();
        let free_bytes = room::free_bytes(self.library).saturating_sub(self.kept_free_bytes);
        match needed_bytes <= free_bytes || needed_bytes == 0 {
            true => Ok(()),
            false => Err(HoldingError::Full { needed_bytes, free_bytes }),
        }
    }

    fn put_in_place(
        &self,
        arriving: &Path,
        record: &Record,
        live: Option<&Record>,
    ) -> Result<(), HoldingError> {
        let place = self.title.folder(self.library);
        if live.is_none() {
            if fs::symlink_metadata(&place).is_ok() {
                return Err(HoldingError::Title(format!(
                    "{} is in the way, and was not made by ingest: move it elsewhere",
                    place.display()
                )));
            }
            return Ok(catalog::put_new(arriving, &place)?);
        }
        let (fresh, old) = (arriving.join(&record.folder), place.join(&record.folder));
        if fresh.exists() && old.exists() {
            // The same version with another record: move the missing files into the existing folder.
            for file in record.files.iter().filter(|file| fresh_file(&fresh, file).is_some()) {
                let (from, to) = (arriving.join(&file.path), place.join(&file.path));
                fs::rename(&from, &to).attempt("put in place", &to)?;
            }
            fs::remove_dir_all(&fresh).attempt("remove", &fresh)?;
        }
        Ok(catalog::put_over(arriving, &place, record)?)
    }
}

/// The path of a file in `fresh`, the version's folder, if it is there.
fn fresh_file(fresh: &Path, file: &FileRecord) -> Option<PathBuf> {
    let (folder, name) = file.path.split_once('/')?;
    let place = fresh.join(name);
    (fresh.ends_with(folder) && place.is_file()).then_some(place)
}

/// Refuses titles that cannot be checked block by block, or put in place by renaming.
fn check_form(record: &Record) -> Result<(), HoldingError> {
    if !record.has_blocks() {
        return Err(HoldingError::Title(format!(
            "the record of {:?} has no block checksums: run `fullbore library verify --complete` at its origin, and publish it again",
            record.title
        )));
    }
    let of_version =
        |path: &str| path.strip_prefix(&record.folder).is_some_and(|rest| rest.starts_with('/'));
    let odd = record.files.iter().find(|file| {
        !of_version(&file.path) && file.path != record.hls && file.path != record.dash
    });
    match odd {
        None if catalog::is_version(record.folder.as_bytes()) => Ok(()),
        _ => Err(HoldingError::Title(format!(
            "the record of {:?} is not as ingest makes it: ingest the title again",
            record.title
        ))),
    }
}

/// Files of the version that the title in the library already has.
fn present<'r>(live: &'r Record, record: &Record) -> HashSet<&'r str> {
    let below = format!("{}/", record.folder);
    let is_same = |file: &&FileRecord| {
        file.path.starts_with(&below)
            && record.files.iter().any(|one| one.path == file.path && one.sha256 == file.sha256)
    };
    live.files.iter().filter(is_same).map(|file| file.path.as_str()).collect()
}

/// Removes everything in the folder except `files` and the record: leftovers of another version.
fn keep_only(arriving: &Path, files: &[&FileRecord]) -> Result<(), HoldingError> {
    let known: HashSet<PathBuf> = files.iter().map(|file| arriving.join(&file.path)).collect();
    let mut folders = vec![arriving.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).attempt("list", &folder)? {
            let entry = entry.attempt("list", &folder)?;
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let holds_known = || known.iter().any(|one| one.starts_with(&path));
            if is_folder && holds_known() {
                folders.push(path);
            } else if is_folder {
                fs::remove_dir_all(&path).attempt("remove", &path)?;
            } else if !known.contains(&path) && path != arriving.join(RECORD) {
                fs::remove_file(&path).attempt("remove", &path)?;
            }
        }
    }
    Ok(())
}

/// The number of blocks of a file.
fn blocks_of(file: &FileRecord) -> usize {
    file.blocks_sha256.as_ref().map_or(0, Vec::len)
}

/// Reports how much of a title is there.
struct Progress<'a> {
    done_bytes: u64,
    all_bytes: u64,
    tell: &'a dyn Fn(u64, u64),
}

impl<'a> Progress<'a> {
    fn new(files: &[&FileRecord], tell: &'a dyn Fn(u64, u64)) -> Self {
        let all_bytes = files.iter().map(|file| file.bytes).sum();
        tell(0, all_bytes);
        Self { done_bytes: 0, all_bytes, tell }
    }

    fn add(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        (self.tell)(self.done_bytes, self.all_bytes);
    }
}

/// Fills the hidden folder.
struct Filling<'a> {
    arrival: &'a Arrival<'a>,
    arriving: &'a Path,
    record: &'a Record,
    map: BlockMap,
    progress: Progress<'a>,
}

impl Filling<'_> {
    /// Fetches all files, and checks again what was written. Returns the number of bytes fetched.
    fn bring_all(&mut self, files: &[&FileRecord]) -> Result<u64, HoldingError> {
        let place = File::open(self.arriving).attempt("open", self.arriving)?;
        let mut buffers = BlockBuffers::new();
        let (mut fetched_bytes, mut first) = (0, 0);
        let wanted: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        for file in &self.record.files {
            // A file that the title in the library already has does not arrive here.
            if wanted.contains(file.path.as_str()) {
                fetched_bytes += self.bring_file(&place, file, first, &mut buffers)?;
            }
            first += blocks_of(file);
        }
        for folder in [self.arriving.join(&self.record.folder), self.arriving.to_path_buf()] {
            if folder.is_dir() {
                catalog::sync(&folder)?;
            }
        }
        Ok(fetched_bytes)
    }

    /// `first` is the index of the file's first block on the map.
    fn bring_file(
        &mut self,
        place: &File,
        file: &FileRecord,
        first: usize,
        buffers: &mut BlockBuffers,
    ) -> Result<u64, HoldingError> {
        let path = self.arriving.join(&file.path);
        let folder = path.parent().unwrap_or(self.arriving);
        fs::create_dir_all(folder).attempt("make the folder", folder)?;
        let open = BlockFile::open_to_write(place, &file.path).attempt("write", &path)?;
        let there = open.file().metadata().attempt("look at", &path)?.len();
        let (mut fetched_bytes, mut believed) = (0, false);
        for (index, expected) in file.blocks_sha256.iter().flatten().enumerate() {
            let offset = index as u64 * BLOCK_BYTES;
            let count = check::length(file, offset);
            let is_long = there >= offset + count as u64;
            if is_long && self.map.has(first + index) {
                believed = true;
                self.progress.add(count as u64);
                continue;
            }
            (self.arrival.gate)(count as u64)?;
            let buffer = buffers.next();
            if !(is_long && is_there(&open, offset, count, expected, buffer)) {
                let block = (index, offset, count);
                self.arrival.sources.block(file, block, expected, buffer)?;
                open.write(offset, buffer, count).attempt("write", &path)?;
                fetched_bytes += count as u64;
            }
            self.map.note(first + index).attempt("write the map next to", &path)?;
            self.progress.add(count as u64);
        }
        if fetched_bytes > 0 || there != file.bytes || believed {
            // The same date on every node, so that viewers get the same age of the file from each.
            let date = UNIX_EPOCH + Duration::from_secs(self.record.ingested_unix_seconds);
            open.finish(file.bytes, date).attempt("write", &path)?;
        }
        // Blocks noted by an earlier attempt are read back: only the disk can confirm them.
        if believed || file.bytes == 0 {
            check::check_whole(place, file, buffers.next(), self.arrival.gate)?;
        }
        Ok(fetched_bytes)
    }
}

/// Whether the block is there already.
fn is_there(
    open: &BlockFile,
    offset: u64,
    count: usize,
    expected: &str,
    buffer: &mut BlockBuffer,
) -> bool {
    // A block that cannot be read is fetched again.
    let read = open.read(offset, buffer).unwrap_or(0);
    read >= count && sha256::of_bytes(buffer.first(count)) == expected
}
