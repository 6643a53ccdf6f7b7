//! Objects on disk: each has a file as long as the object, with holes for missing blocks, a record of the available blocks, and the
//! origin's latest answer about it, if that differs from the first.
//!
//! All are named after the object's number. A file's length never changes, and an announced block is never written again. A process that
//! has the file open can continue to read after its removal.

mod block_sum;
mod blocks;
mod by_path;
mod cache_space;
mod epochs;
mod heads;
mod recent_purges;
mod record;
mod responses;
mod saved_time;
mod tag_index;
mod write_pieces;

pub(crate) use blocks::Runs;
pub(crate) use by_path::{ByPath, common_form};
pub use cache_space::CacheSpace;
pub(crate) use epochs::{Epoch, Outdated};
pub use heads::Damage;
pub(crate) use heads::{Heads, OnDisk, hash_of};
pub(crate) use responses::{Responses, StoredResponse, Use};
pub(crate) use tag_index::TagIndex;

use crate::contract::{BLOCK_BYTES, Trouble};
use crate::http_cache::Tags;
use crate::policy::Terms;
use block_sum::BlockSum;
use blocks::Blocks;
use record::Header;
use rustix::fs::{Access, OFlags, access, fcntl_setfl};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use write_pieces::write_all_at;

/// The extension of a file that is unlinked at once. One that is found was left by a crash before that.
const PASSING: &str = "passing";

/// The extension of the body of a response that is stored whole. A restart finds it by its head ([`heads`]).
const RESPONSE: &str = "response";

/// One version of one object.
pub(crate) struct Stored {
    pub(crate) number: u64,
    pub(crate) path: String,
    pub(crate) etag: String,
    pub(crate) size: u64,
    folder: PathBuf,
    sent_by: SentBy,
    state: Mutex<State>,
}

/// The origins that had a version. Not known after a restart: then it counts as the first one's.
struct SentBy {
    /// The lowest rank of those: the place in the order of preference for its path.
    first: AtomicUsize,
    /// The number of the latest.
    last: AtomicUsize,
    /// Those that have said how long it is: a bit for each.
    sized: AtomicUsize,
}

impl Default for SentBy {
    fn default() -> Self {
        Self { first: 0.into(), last: usize::MAX.into(), sized: 1.into() }
    }
}

struct State {
    /// Hashes of the written blocks, including those of an earlier helper.
    recorded: HashMap<u64, BlockSum>,
    blocks: Blocks,
    record: Option<File>,
    said: Said,
    /// The terms on disk.
    kept: Header,
    is_ended: bool,
}

/// The origin's latest answer about it.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) terms: Terms,
    /// When the origin answered.
    pub(crate) at: Instant,
}

/// The folder of the objects.
pub(crate) struct Store {
    folder: PathBuf,
    heads: Heads,
}

impl Store {
    /// Creates the folder for objects below `cache`, and checks whether it can be used.
    ///
    /// # Errors
    /// Which file or folder cannot be used, and what to do.
    pub(crate) fn prepare(cache: &Path) -> io::Result<PathBuf> {
        let folder = cache.join("objects");
        let refuse = |path: &Path, is: &str| {
            let path = path.display();
            Err(io::Error::other(format!(
                "{path} {is}: move it away, or name another folder (--cache)"
            )))
        };
        if fs::metadata(&folder).is_ok_and(|metadata| !metadata.is_dir()) {
            return refuse(&folder, "is a file, and objects need a folder there");
        }
        let unusable = |error: &io::Error| cannot_use(&folder, error);
        fs::create_dir_all(&folder).map_err(|error| unusable(&error))?;
        let needed = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        access(&folder, needed).map_err(|error| unusable(&error.into()))?;
        fs::read_dir(&folder).map_err(|error| unusable(&error))?;
        Ok(folder)
    }

    /// Opens the store below `folder`, and returns the objects in it. Responses that are stored whole are read later ([`Heads`]). Unusable files
    /// are removed if their names follow the store's own pattern. Files with other names belong to others, and so do folders.
    pub(crate) fn open(folder: &Path) -> io::Result<(Self, Vec<Stored>)> {
        let folder = Self::prepare(folder)?;
        saved_time::boot();
        let (mut objects, mut names) = (Vec::new(), heads::Names::default());
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if names.note(&path) || !is_own(&path) {
                continue;
            }
            match path.extension() {
                Some(extension) if extension == PASSING => {
                    remove(&path).map_err(|error| cannot_use(&path, &error))?;
                    continue;
                }
                Some(_) => continue,
                None => {}
            }
            match Stored::read(&folder, &path) {
                Some(object) => objects.push(object),
                None => {
                    remove_all(&path).map_err(|error| cannot_use(&path, &error))?;
                }
            }
        }
        let heads = Heads::new(folder.clone(), names);
        Ok((Self { folder, heads }, objects))
    }

    /// The heads of the responses that are stored whole.
    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Waits until removals are on the disk, so that not even a power failure undoes them.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    /// The folder of the objects.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file without a name, for data that is not kept: one descriptor to write, one to read. The disk has the space back when both are
    /// closed.
    pub(crate) fn nameless(&self) -> io::Result<(File, File)> {
        let name = self.folder.join(format!("{:016x}.{PASSING}", fastrand::u64(..)));
        let written = options().write(true).create_new(true).open(&name)?;
        let read = File::open(&name);
        fs::remove_file(&name)?;
        Ok((written, read?))
    }

    /// Creates the file of a response that is stored whole: one descriptor to write, one to read.
    pub(crate) fn create_response(&self, number: u64) -> io::Result<(File, File)> {
        let name = self.response_name(number);
        let written = options().write(true).create_new(true).open(&name)?;
        Ok((written, File::open(&name)?))
    }

    /// Opens the file of a response that is stored whole.
    pub(crate) fn open_response(&self, number: u64) -> io::Result<File> {
        open_regular(&self.response_name(number))
    }

    /// Removes the files of a response: the head first, so that a restart never finds it without its body.
    pub(crate) fn remove_response(&self, number: u64) {
        self.heads.naming(number).remove();
        // It may have been removed, or be empty and have none.
        let _ = fs::remove_file(self.response_name(number));
    }

    fn response_name(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:016x}.{RESPONSE}"))
    }

    /// Creates an object without blocks.
    pub(crate) fn create(&self, path: &str, size: u64, terms: Terms) -> io::Result<Stored> {
        let number = fastrand::u64(1..=u64::MAX >> 1);
        let name = self.folder.join(format!("{number:016x}"));
        let kept = Header::new(path, size, &terms, Duration::ZERO);
        let record = begin(&name, &kept).inspect_err(|_| {
            // The disk may be full: leave nothing behind.
            let _ = remove_all(&name);
        })?;
        let (path, etag) = (path.to_owned(), terms.etag.clone());
        let said = Said { terms, at: Instant::now() };
        let state = State {
            recorded: HashMap::new(),
            blocks: Blocks::default(),
            record: Some(record),
            said,
            kept,
            is_ended: false,
        };
        let (folder, state) = (self.folder.clone(), Mutex::new(state));
        let sent_by = SentBy::default();
        Ok(Stored { number, path, etag, size, folder, sent_by, state })
    }
}

/// The error for an unusable path, with advice.
fn cannot_use(path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    io::Error::other(format!(
        "{path} cannot be used: {error}; check its permissions and its disk, or name another folder (--cache)"
    ))
}

/// Creates an object's file and its record, and returns the record.
fn begin(name: &Path, header: &Header) -> io::Result<File> {
    options().write(true).create_new(true).open(name)?.set_len(header.size)?;
    record::create(&name.with_extension("record"), header)
}

/// Whether a file's name follows the store's own pattern: 16 lower-case hexadecimal digits.
fn is_own(path: &Path) -> bool {
    let digits = path.file_stem().unwrap_or_default().as_encoded_bytes();
    digits.len() == 16 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Opens a file to read it. Another process may have put something else there: to open a FIFO takes until someone writes to it, and a link may
/// lead out of the cache.
fn open_regular(name: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(name)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // With it, io_uring gives up reads that have to wait for the disk.
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Interprets an error of the cache's disk.
pub(crate) fn trouble(error: &io::Error) -> Trouble {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Trouble::Full,
        _ => Trouble::Disk,
    }
}

impl Stored {
    fn read(folder: &Path, name: &Path) -> Option<Self> {
        let number = u64::from_str_radix(name.file_name()?.to_str()?, 16).ok()?;
        let (header, recorded) = record::read(&name.with_extension("record"))?;
        (fs::metadata(name).ok()?.len() == header.size).then_some(())?;
        let (path, size) = (header.path.clone(), header.size);
        let mut terms = header.clone().terms();
        let at = header.said_at().unwrap_or_else(|| {
            // A release before has written it, or the clock was set back: it has to be revalidated, but may be served while the origin is
            // unreachable.
            (terms.stale, terms.fresh) = (terms.stale.saturating_add(terms.fresh), Duration::ZERO);
            header.said_at_most()
        });
        let state = State {
            recorded,
            blocks: Blocks::default(),
            record: None,
            said: Said { terms: terms.clone(), at },
            kept: header,
            is_ended: false,
        };
        let (folder, state) = (folder.to_owned(), Mutex::new(state));
        let sent_by = SentBy::default();
        Some(Self { number, path, etag: terms.etag, size, folder, sent_by, state })
    }

    fn name(&self) -> PathBuf {
        self.folder.join(format!("{:016x}", self.number))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock can panic")
    }

    /// Opens the file, for the server to read.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(self.name())
    }

    /// It is new, and this origin has it.
    pub(crate) fn came_from(&self, origin: usize, rank: usize) {
        self.sent_by.first.store(rank, Relaxed);
        self.sent_by.last.store(origin, Relaxed);
        self.sent_by.sized.store(1 << origin, Relaxed);
    }

    /// An origin has said that it is as long as this.
    pub(crate) fn note_size_of(&self, origin: usize) {
        self.sent_by.sized.fetch_or(1 << origin, Relaxed);
    }

    /// Its length, if this origin has said it.
    pub(crate) fn size_of(&self, origin: usize) -> Option<u64> {
        (self.sent_by.sized.load(Relaxed) & (1 << origin) != 0).then_some(self.size)
    }

    /// An origin has sent some of it, or has confirmed it.
    pub(crate) fn note_origin(&self, origin: usize, rank: usize) {
        self.sent_by.first.fetch_min(rank, Relaxed);
        self.sent_by.last.store(origin, Relaxed);
    }

    /// Whether only origins before the one of this rank are known to have had it.
    pub(crate) fn came_before(&self, rank: usize) -> bool {
        self.sent_by.first.load(Relaxed) < rank
    }

    /// Whether this origin is known to have had it.
    pub(crate) fn is_from(&self, origin: usize, rank: usize) -> bool {
        self.sent_by.first.load(Relaxed) == rank || self.sent_by.last.load(Relaxed) == origin
    }

    /// The number of the origin that has last sent some of it or confirmed it, unless that was before a restart.
    pub(crate) fn last_origin(&self) -> Option<usize> {
        Some(self.sent_by.last.load(Relaxed)).filter(|number| *number != usize::MAX)
    }

    /// The origin's latest answer about it.
    pub(crate) fn said(&self) -> Said {
        self.state().said.clone()
    }

    /// Records that the origin has just answered with `terms`. They are saved if the object would otherwise have other terms, or a much
    /// older answer, after a restart. Returns its former tags if they were others.
    pub(crate) fn renew(&self, terms: Terms) -> Option<Tags> {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.said, Said { terms, at: Instant::now() });
        let former = Some(before.terms.tags).filter(|former| *former != state.said.terms.tags);
        self.save_terms(&mut state);
        former
    }

    /// Saves the origin's latest answer if the object would otherwise have other terms, or a much older answer, after a restart.
    fn save_terms(&self, state: &mut State) {
        let now = Header::new(&self.path, self.size, &state.said.terms, state.said.at.elapsed());
        if state.is_ended || !now.is_worth_keeping(&state.kept) {
            return;
        }
        let name = self.name();
        let (record, passing) = (name.with_extension("record"), name.with_extension(PASSING));
        match record::renew(&record, &passing, &now) {
            Ok(()) => state.kept = now,
            // The disk may be full. A restart must not find terms that are no longer so.
            Err(_) if now.is_stricter(&state.kept) => drop(remove(&record)),
            // The next answer tries again.
            Err(_) => {}
        }
    }

    /// It has to be revalidated before it is served again, even while the origin is unreachable.
    pub(crate) fn expire(&self) {
        let terms = self.said().terms;
        self.renew(Terms { fresh: Duration::ZERO, stale: Duration::ZERO, ..terms });
    }

    /// It is stale from now on: it has to be revalidated, and may be served while the origin is unreachable for as long as the origin allows.
    /// [`Self::save`] makes that last.
    pub(crate) fn make_stale(&self) {
        let Said { terms, at } = &mut self.state().said;
        let since = at.elapsed();
        if since < terms.fresh {
            (terms.age, terms.fresh) = (terms.age.saturating_add(since), Duration::ZERO);
            *at = Instant::now();
        }
    }

    /// Saves its terms, for a restart.
    pub(crate) fn save(&self) {
        self.save_terms(&mut self.state());
    }

    /// The byte range of these blocks.
    pub(crate) fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start * BLOCK_BYTES..(blocks.end * BLOCK_BYTES).min(self.size)
    }

    /// The number of its blocks.
    pub(crate) fn block_count(&self) -> u64 {
        self.size.div_ceil(BLOCK_BYTES)
    }

    /// Its bytes on disk, as far as known.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.state().recorded.len() as u64 * BLOCK_BYTES.min(self.size.max(1))
    }

    /// Sorts blocks by state: available ones to announce, recorded ones to verify, and the rest of `wanted` to fetch.
    pub(crate) fn take(&self, wanted: Range<u64>) -> Runs {
        let wanted = wanted.start..wanted.end.min(self.block_count());
        let state = &mut *self.state();
        state.blocks.take(wanted, |block| state.recorded.contains_key(&block))
    }

    /// The blocks of `wanted` to fetch, without those that an earlier helper has recorded.
    pub(crate) fn take_missing(&self, wanted: Range<u64>) -> Vec<Range<u64>> {
        let wanted = wanted.start..wanted.end.min(self.block_count());
        let state = &mut *self.state();
        state.blocks.take_missing(wanted, |block| state.recorded.contains_key(&block))
    }

    /// Marks blocks as no longer being fetched.
    pub(crate) fn give_back(&self, blocks: Range<u64>) {
        self.state().blocks.give_back(blocks);
    }

    /// Whether the bytes of `block` still match the checksum that an earlier helper recorded. If not, the block is forgotten.
    pub(crate) fn verify(&self, block: u64) -> bool {
        let Some(sum) = self.state().recorded.get(&block).copied() else { return false };
        let range = self.bytes_of(&(block..block + 1));
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = self.open().and_then(|file| file.read_exact_at(&mut bytes, range.start));
        let is_right = read.is_ok() && sum.is_of(&bytes);
        let mut state = self.state();
        match is_right {
            true => state.blocks.note(block),
            false => drop(state.recorded.remove(&block)),
        }
        is_right
    }

    /// Writes a block from the origin, and marks it as available.
    pub(crate) fn write(&self, block: u64, bytes: &[IoSlice<'_>]) -> Result<(), Trouble> {
        let refused = |error: io::Error| trouble(&error);
        let sum = BlockSum::of(bytes);
        let file = options().write(true).open(self.name()).map_err(refused)?;
        write_all_at(&file, bytes, block * BLOCK_BYTES).map_err(refused)?;
        let state = &mut *self.state();
        if state.is_ended {
            return Err(Trouble::Evicted);
        }
        if state.record.is_none() {
            let record = self.name().with_extension("record");
            state.record = Some(record::open(&record).map_err(refused)?);
        }
        let record = state.record.as_ref().expect("it was opened");
        record::append(record, block, sum).map_err(refused)?;
        state.recorded.insert(block, sum);
        state.blocks.note(block);
        Ok(())
    }

    /// Whether blocks of it are being fetched.
    pub(crate) fn is_busy(&self) -> bool {
        self.state().blocks.are_fetched()
    }

    /// Removes it. Processes that have its file open can continue to read.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_ended, true) {
            let _ = remove_all(&self.name());
        }
    }
}

/// Removes an object's files, the record last: a file without one is removed at the next start, while a record or terms without a file are
/// harmless.
fn remove_all(name: &Path) -> io::Result<()> {
    remove(name)?;
    remove(&name.with_extension(record::TERMS))?;
    remove(&name.with_extension("record"))
}

/// Removes a file. Folders are left alone: they are not the store's.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    fn terms() -> Terms {
        Terms {
            etag: "\"v1\"".into(),
            content_type: Some("video/mp4".into()),
            modified: Some(5),
            is_date_strong: false,
            cache_control: None,
            age: Duration::ZERO,
            fresh: Duration::from_secs(60),
            stale: Duration::from_secs(60),
            fields: crate::http_cache::Fields::default(),
            tags: Tags::of(&crate::http_cache::Fields::of(&[("xkey", "film")])),
        }
    }

    fn block(fill: u8) -> Vec<u8> {
        vec![fill; BLOCK_BYTES as usize]
    }

    #[test]
    fn what_was_written_is_there_after_a_restart_and_damage_is_not() {
        let folder = tempdir().unwrap();
        let (store, objects) = Store::open(folder.path()).unwrap();
        assert!(objects.is_empty());
        let object = store.create("/a", 2 * BLOCK_BYTES + 5, terms()).unwrap();
        for (number, bytes) in [(0, block(1)), (1, block(2)), (2, vec![3; 5])] {
            object.write(number, &[IoSlice::new(&bytes)]).unwrap();
        }
        let damaged = options().write(true).open(object.name()).unwrap();
        damaged.write_all_at(b"x", BLOCK_BYTES + 7).unwrap();
        let (_, objects) = Store::open(folder.path()).unwrap();
        let [again] = &objects[..] else { panic!("{} objects", objects.len()) };
        assert_eq!((again.number, &*again.path, again.size), (object.number, "/a", object.size));
        assert_eq!(again.said().terms.fresh, terms().fresh, "its time goes on");
        assert_eq!(again.said().terms.tags, terms().tags);
        assert_eq!(again.take(0..3).recorded, [0, 1, 2]);
        assert!(again.verify(0) && !again.verify(1) && again.verify(2));
        assert_eq!(again.take(0..9).there, [0..1, 2..3]);
        assert_eq!(again.take(0..9).fetch, [] as [Range<u64>; 0], "it is verified by the first");
    }

    #[test]
    fn after_a_restart_the_origins_last_word_holds() {
        let folder = tempdir().unwrap();
        let (store, _) = Store::open(folder.path()).unwrap();
        let object = store.create("/a", 3, terms()).unwrap();
        object.write(0, &[IoSlice::new(b"abc")]).unwrap();
        let strict = Terms {
            cache_control: Some("max-age=1, must-revalidate".into()),
            fresh: Duration::from_secs(1),
            stale: Duration::ZERO,
            ..terms()
        };
        object.renew(strict.clone());
        let (_, objects) = Store::open(folder.path()).unwrap();
        let [again] = &objects[..] else { panic!("{} objects", objects.len()) };
        let said = again.said().terms;
        assert_eq!((&said.cache_control, said.fresh), (&strict.cache_control, strict.fresh));
        assert_eq!(said.stale, strict.stale);
        assert_eq!(again.take(0..1).recorded, [0], "its blocks are there");
        // The same holds for an answer after a restart.
        again.renew(terms());
        let (_, objects) = Store::open(folder.path()).unwrap();
        let said = objects[0].said().terms;
        assert_eq!((said.fresh, said.stale), (terms().fresh, terms().stale));
        // One that was made stale is so after a restart, too.
        let [object] = &objects[..] else { panic!("{} objects", objects.len()) };
        let strict = Terms { fresh: Duration::from_secs(60), ..strict };
        object.renew(strict.clone());
        object.make_stale();
        assert_eq!(object.said().terms.fresh, Duration::ZERO);
        object.save();
        let (_, objects) = Store::open(folder.path()).unwrap();
        let said = objects[0].said().terms;
        assert_eq!((said.fresh, said.stale), (Duration::ZERO, Duration::ZERO));
        // An object that has ended leaves nothing behind.
        objects[0].end();
        objects[0].renew(strict);
        assert_eq!(fs::read_dir(folder.path().join("objects")).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_used_is_removed() {
        let folder = tempdir().unwrap();
        let (store, _) = Store::open(folder.path()).unwrap();
        let shorter = store.create("/a", 10, terms()).unwrap();
        options().write(true).open(shorter.name()).unwrap().set_len(9).unwrap();
        let torn = store.create("/b", 10, terms()).unwrap();
        fs::write(torn.name().with_extension("record"), "{\"path\":").unwrap();
        let lone = store.create("/c", 10, terms()).unwrap();
        fs::remove_file(lone.name().with_extension("record")).unwrap();
        let left = folder.path().join("objects/0000000000000001.passing");
        fs::write(&left, "left behind").unwrap();
        assert!(Store::open(folder.path()).unwrap().1.is_empty());
        assert!(!left.exists());
        assert!(!shorter.name().exists() && !torn.name().exists() && !lone.name().exists());
    }

    #[test]
    fn files_and_folders_of_others_stay() {
        let folder = tempdir().unwrap();
        let objects = folder.path().join("objects");
        let files = ["README", "1", "1.passing", "readme.passing", "00000000000000AB", "notes.txt"];
        let folders = ["lost+found", "00000000000000cd", "00000000000000ef.passing"];
        fs::create_dir(&objects).unwrap();
        files.iter().for_each(|name| fs::write(objects.join(name), "hi").unwrap());
        folders.iter().for_each(|name| fs::create_dir(objects.join(name)).unwrap());
        let own = objects.join("0000000000000012");
        fs::write(&own, "without a record").unwrap();
        let (store, found) = Store::open(folder.path()).unwrap();
        assert!(found.is_empty());
        for name in files.iter().chain(&folders) {
            assert!(objects.join(name).exists(), "{name} is gone");
        }
        assert!(!own.exists(), "it is named as an object");
        store.create("/a", 3, terms()).unwrap();
        assert_eq!(Store::open(folder.path()).unwrap().1.len(), 1);
    }

    #[test]
    fn an_object_that_ended_is_read_on_by_whoever_has_it_open() {
        let folder = tempdir().unwrap();
        let (store, _) = Store::open(folder.path()).unwrap();
        let object = store.create("/a", 3, terms()).unwrap();
        object.write(0, &[IoSlice::new(b"abc")]).unwrap();
        let open = object.open().unwrap();
        object.end();
        let mut bytes = [0; 3];
        open.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abc");
        assert!(object.write(0, &[IoSlice::new(b"abc")]).is_err());
        assert!(Store::open(folder.path()).unwrap().1.is_empty());
    }
}
