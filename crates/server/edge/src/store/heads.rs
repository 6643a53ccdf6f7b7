//! The heads of stored responses on disk: a later helper finds the responses by them.
//!
//! Each is a file next to the body, named `NUMBER-KEY.head`. The number is the response's, and the key follows from its path, so a request reads the
//! heads of its own path first, whatever their number. The rest is read in the background. A head is one line: a SHA-256, and what it is of, in JSON.
//! Decision 134 (docs/decisions) says why.
//!
//! Invariants:
//! - A head is written under another name, and gets its own while its number is locked ([`Naming`]) and the list has that response as it was
//!   written. A purge or a change first alters the list, then removes the head or writes another one under the same lock, and only then is
//!   reported as done. So what it has removed doesn't come back, also after `kill -9` in the middle of it.
//! - A head goes before its body, and counts only with a body of its length. A body of up to [`HASHED_BYTES_MAX`] must also have the head's
//!   SHA-256 when it is first used. A longer one is on the disk before its head is written.
//! - No head is flushed to the disk: a power failure loses the last seconds.
//! - Nothing in a head is trusted: a process that could write to the cache must not crash the helper.

use super::by_path::common_form;
use super::responses::StoredResponse;
use super::saved_time::SavedTime;
use super::{PASSING, RESPONSE, open_regular, options, remove};
use crate::contract::{BLOCK_BYTES, OBJECT_BYTES_MAX, RESPONSES_FROM, check_head, is_path};
use crate::http_cache::{Fields, Freshness, Selecting, has_tags};
use aws_lc_rs::digest::{Context, SHA256, digest};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The SHA-256 of a stored response.
pub(super) type Hash = [u8; 32];

/// The extension of a head.
const HEAD: &str = "head";

/// The form of heads. A head of another form is dropped.
const VERSION: u32 = 1;

/// The longest head: a path of 48 KiB and fields of 48 KiB, each character of which JSON may write as six, and the selecting fields of a request,
/// which fits into a message of 192 KiB.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Longer bodies are flushed to the disk instead of being hashed: reading all of them would keep their first viewers waiting. Hashing this much
/// takes some ten milliseconds.
pub(crate) const HASHED_BYTES_MAX: u64 = 8 * BLOCK_BYTES;

/// A restart may cost this share of the time for which a response may be used: one part in eight, as with films.
const LOST_PARTS: u32 = 8;

/// How much later an answer has to be for its other header fields alone to be written.
const FIELDS_KEPT: Duration = Duration::from_secs(60);

/// Numbers share this many locks. A rename that waits for the disk holds up only the heads that share its lock.
const NAMING_LOCKS: usize = 16;

/// What can be used for less time is not worth a file.
const LASTS_MIN: Duration = Duration::from_secs(1);

/// The files of a stored response, in addition to its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnDisk {
    /// The head as it was written.
    saved: Option<SavedHead>,
    hash: Option<Hash>,
    /// Set if an earlier helper has stored it: the body may be torn.
    is_unverified: bool,
}

/// What has to be known of a head on disk to decide whether a later one is worth writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedHead {
    at: Instant,
    lifetime: Freshness,
    /// Hashes of the fields that don't change with the time, and of the tags.
    fields: u64,
    tags: u64,
}

impl OnDisk {
    /// The hash that the body must have before it is used, if that has not been seen yet.
    pub(crate) fn unverified(&self) -> Option<&Hash> {
        self.hash.as_ref().filter(|_| self.is_unverified)
    }

    /// Whether a restart finds the response.
    pub(crate) fn is_saved(&self) -> bool {
        self.saved.is_some()
    }

    pub(super) fn note_verified(&mut self) {
        self.is_unverified = false;
    }

    pub(super) fn note_saved(&mut self, saved: SavedHead, hash: Option<Hash>) {
        (self.saved, self.hash) = (Some(saved), hash);
    }

    /// The head on disk is gone, or has to be replaced soon.
    pub(super) fn forget_saved(&mut self) {
        self.saved = None;
    }
}

impl SavedHead {
    fn of(response: &StoredResponse) -> Self {
        let mut hashers = [DefaultHasher::new(), DefaultHasher::new()];
        let is_dated =
            |name: &str| ["date", "expires"].iter().any(|one| name.eq_ignore_ascii_case(one));
        for field in response.fields.0.iter().filter(|(name, _)| !is_dated(name)) {
            field.hash(&mut hashers[usize::from(has_tags(&field.0))]);
        }
        let [fields, tags] = hashers.map(|hasher| hasher.finish());
        Self { at: response.at, lifetime: response.lifetime, fields, tags }
    }

    /// When each of its times is over.
    fn ends(&self) -> [Instant; 4] {
        let Freshness { fresh, while_revalidating, if_unreachable, if_error, .. } = self.lifetime;
        [Duration::ZERO, while_revalidating, if_unreachable, if_error]
            .map(|more| self.at + fresh.saturating_add(more))
    }

    /// How long it may be used in all.
    fn lasts(&self) -> Duration {
        let longest = self.ends().into_iter().max().unwrap_or(self.at);
        longest.saturating_duration_since(self.at)
    }
}

impl StoredResponse {
    /// Whether a restart should find it as it is now: there is no head yet, or that allows more, or is so much older that the response would lose
    /// too much of its time.
    pub(crate) fn is_worth_saving(&self) -> bool {
        // A password or a cookie that selected it must not be on the disk.
        if self.is_invalid || self.selecting.has_secrets() {
            return false;
        }
        let now = SavedHead::of(self);
        let can_be_confirmed = ["etag", "last-modified"].iter().any(|name| self.fields.has(name));
        let Some(kept) = self.on_disk.saved else {
            return can_be_confirmed || now.lasts() >= LASTS_MIN;
        };
        let later = now.at.saturating_duration_since(kept.at);
        let ends = now.ends().into_iter().zip(kept.ends());
        let is_stricter = ends.into_iter().any(|(now, kept)| now + LASTS_MIN < kept);
        let is_other = now.tags != kept.tags
            || now.lifetime.may_be_stale != kept.lifetime.may_be_stale
            || now.fields != kept.fields && later >= FIELDS_KEPT;
        let lasts = now.lasts();
        let is_much_later = !lasts.is_zero() && later >= (lasts / LOST_PARTS).max(LASTS_MIN);
        is_stricter || is_other || is_much_later
    }
}

/// A head as it is written.
#[derive(Serialize, Deserialize)]
struct WrittenHead {
    version: u32,
    path: String,
    status: u16,
    fields: Fields,
    selecting: Selecting,
    size: u64,
    /// Of the body, in hexadecimal digits, unless it is long.
    sha256: Option<String>,
    age_ms: u64,
    fresh_ms: u64,
    while_revalidating_ms: u64,
    if_unreachable_ms: u64,
    if_error_ms: u64,
    may_be_stale: bool,
    /// When the origin said that.
    said: SavedTime,
    /// How long before that it was asked.
    asked_ms_before: u64,
}

impl WrittenHead {
    fn of(response: &StoredResponse, hash: Option<&Hash>) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let StoredResponse { lifetime, at, asked_at, .. } = *response;
        Self {
            version: VERSION,
            path: response.path.clone(),
            status: response.status,
            fields: response.fields.clone(),
            selecting: response.selecting.clone(),
            size: response.size,
            sha256: hash.map(|hash| HEXLOWER.encode(hash)),
            age_ms: ms(lifetime.age),
            fresh_ms: ms(lifetime.fresh),
            while_revalidating_ms: ms(lifetime.while_revalidating),
            if_unreachable_ms: ms(lifetime.if_unreachable),
            if_error_ms: ms(lifetime.if_error),
            may_be_stale: lifetime.may_be_stale,
            said: SavedTime::before(at.elapsed()),
            asked_ms_before: ms(at.saturating_duration_since(asked_at)),
        }
    }

    /// The response, if all of it can be used.
    fn response(self, number: u64) -> Option<StoredResponse> {
        // A longer time is none that an origin can have said, and sums with these don't overflow.
        let time = |ms: u64| Duration::from_millis(ms).min(Duration::from_secs(u32::MAX.into()));
        let hash = match &self.sha256 {
            Some(hex) => Some(HEXLOWER.decode(hex.as_bytes()).ok()?.try_into().ok()?),
            None => None,
        };
        let is_hashed = (1..=HASHED_BYTES_MAX).contains(&self.size);
        let is_usable = self.version == VERSION
            && is_path(&self.path)
            && check_head(self.status, &self.fields).is_ok()
            && !matches!(self.status, 206 | 304)
            && self.size <= OBJECT_BYTES_MAX
            && hash.is_some() == is_hashed;
        let at = self.said.instant();
        let lifetime = Freshness {
            age: time(self.age_ms),
            fresh: time(self.fresh_ms),
            while_revalidating: time(self.while_revalidating_ms),
            if_unreachable: time(self.if_unreachable_ms),
            if_error: time(self.if_error_ms),
            may_be_stale: self.may_be_stale,
        };
        let now = at.unwrap_or_else(Instant::now);
        let mut response = StoredResponse {
            number,
            path: self.path,
            origin: None,
            status: self.status,
            fields: self.fields,
            lifetime,
            at: now,
            asked_at: now.checked_sub(time(self.asked_ms_before)).unwrap_or(now),
            selecting: self.selecting,
            size: self.size,
            // Its age is unknown: the wall clock has been set back.
            is_invalid: at.is_none(),
            on_disk: OnDisk { saved: None, hash, is_unverified: true },
        };
        response.on_disk.saved = Some(SavedHead::of(&response));
        is_usable.then_some(response)
    }
}

/// Why a response that an earlier helper has stored is not used: a counter's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Damage {
    /// Its head can't be read, is torn, or of another release's form.
    Head,
    /// Its body is missing, or is not the one that was stored.
    Body,
}

impl Damage {
    /// Its label in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Body => "body",
        }
    }
}

/// The heads in one folder.
pub(crate) struct Heads {
    folder: PathBuf,
    names: Mutex<Names>,
    read: Condvar,
    naming: [Mutex<()>; NAMING_LOCKS],
}

/// The lock of a number: while it is held, no other thread names or removes the head of that number. Its holder may wait for the disk, so take it
/// before you lock the list of responses, never after.
pub(crate) struct Naming<'a> {
    heads: &'a Heads,
    number: u64,
    _lock: MutexGuard<'a, ()>,
}

/// The names of the files in the folder.
#[derive(Default)]
pub(super) struct Names {
    /// The key of each head on disk, by its number.
    keys: HashMap<u64, u64>,
    /// The numbers of the heads that an earlier helper has written, by key, until they are read.
    unread: HashMap<u64, Vec<u64>>,
    /// Bodies that an earlier helper has written, until their heads have been read.
    bodies: HashSet<u64>,
    /// Whether all of them have been read.
    are_read: bool,
}

impl Names {
    /// Notes a file, if it is the head or the body of a response. Returns whether it is.
    pub(super) fn note(&mut self, path: &Path) -> bool {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(RESPONSE) => hex(stem).is_some_and(|number| {
                self.bodies.insert(number);
                true
            }),
            Some(HEAD) => {
                let both = stem.split_once('-').and_then(|(number, key)| hex(number).zip(hex(key)));
                both.is_some_and(|(number, key)| {
                    if *self.keys.entry(number).or_insert(key) == key {
                        self.unread.entry(key).or_default().push(number);
                    } else {
                        // A response has one path, so the store wrote at most one of the two.
                        let _ = remove(path);
                    }
                    true
                })
            }
            _ => false,
        }
    }
}

/// A number of 16 lower-case hexadecimal digits.
fn hex(digits: &str) -> Option<u64> {
    let is_own = digits.len() == 16
        && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_own.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The key of a path: all its spellings have one. Two paths with one key are read together.
fn key_of(path: &str) -> u64 {
    let hash = digest(&SHA256, common_form(path).as_bytes());
    let first = hash.as_ref()[..8].try_into().expect("SHA-256 has 32 bytes");
    u64::from_be_bytes(first)
}

/// A head that has been written, and doesn't count yet.
pub(crate) struct NewHead<'a> {
    heads: &'a Heads,
    number: u64,
    key: u64,
    passing: PathBuf,
    saved: SavedHead,
    hash: Option<Hash>,
}

impl Heads {
    pub(super) fn new(folder: PathBuf, names: Names) -> Self {
        let naming = std::array::from_fn(|_| Mutex::new(()));
        Self { folder, names: Mutex::new(names), read: Condvar::new(), naming }
    }

    /// The key of a path whose responses, as an earlier helper has stored them, have not been read yet.
    pub(crate) fn unread_at(&self, path: &str) -> Option<u64> {
        if self.are_read() {
            return None;
        }
        let key = key_of(path);
        self.names().unread.contains_key(&key).then_some(key)
    }

    /// The keys of all paths whose responses have not been read yet.
    pub(crate) fn unread_keys(&self) -> Vec<u64> {
        self.names().unread.keys().copied().collect()
    }

    /// The numbers of the responses with this key, if they have not been read yet.
    pub(crate) fn unread(&self, key: u64) -> Option<Vec<u64>> {
        self.names().unread.get(&key).cloned()
    }

    /// The responses with this key have been read. Returns whether this is the first time.
    pub(crate) fn take(&self, key: u64) -> bool {
        let mut names = self.names();
        let Some(numbers) = names.unread.remove(&key) else { return false };
        for number in numbers {
            names.bodies.remove(&number);
        }
        true
    }

    /// All have been read. Removes the bodies that have no head.
    pub(crate) fn note_all_read(&self) {
        let orphans = std::mem::take(&mut self.names().bodies);
        for number in orphans {
            // What can't be removed now is found at the next start.
            let _ = remove(&self.body_name(number));
        }
        self.names().are_read = true;
        self.read.notify_all();
    }

    /// Whether all have been read.
    pub(crate) fn are_read(&self) -> bool {
        self.names().are_read
    }

    /// Blocks until all have been read.
    pub(crate) fn wait_until_read(&self) {
        let names = self.read.wait_while(self.names(), |names| !names.are_read);
        drop(names.expect("no holder of this lock can panic"));
    }

    /// Reads a head.
    ///
    /// # Errors
    /// The damage to it, or to its body.
    pub(crate) fn read(&self, number: u64, key: u64) -> Result<StoredResponse, Damage> {
        let head = || {
            if number < RESPONSES_FROM {
                return None;
            }
            let mut text = Vec::new();
            let file = open_regular(&self.name(number, key)).ok()?;
            file.take(HEAD_BYTES_MAX).read_to_end(&mut text).ok()?;
            let (hash, json) = text.strip_suffix(b"\n")?.split_at_checked(65)?;
            let is_right =
                hash == (HEXLOWER.encode(digest(&SHA256, json).as_ref()) + " ").as_bytes();
            let head: WrittenHead = serde_json::from_slice(json).ok().filter(|_| is_right)?;
            head.response(number).filter(|response| key_of(&response.path) == key)
        };
        let response = head().ok_or(Damage::Head)?;
        let length = match fs::symlink_metadata(self.body_name(number)) {
            Ok(body) if body.is_file() => Some(body.len()),
            _ => None,
        };
        let is_there = length == Some(response.size) || (response.size, length) == (0, None);
        is_there.then_some(response).ok_or(Damage::Body)
    }

    /// Writes a head, which counts once it is kept. The body of a response that has none yet is hashed, or flushed to the disk if it is long.
    pub(crate) fn write(&self, response: &StoredResponse) -> io::Result<NewHead<'_>> {
        let mut hash = response.on_disk.hash;
        if hash.is_none() && response.size > 0 && !response.on_disk.is_saved() {
            let body = open_regular(&self.body_name(response.number))?;
            match response.size <= HASHED_BYTES_MAX {
                true => hash = Some(hash_of(&body, response.size)?),
                false => body.sync_data()?,
            }
        }
        let head = WrittenHead::of(response, hash.as_ref());
        let json = serde_json::to_vec(&head).map_err(io::Error::other)?;
        let mut line = HEXLOWER.encode(digest(&SHA256, &json).as_ref()).into_bytes();
        line.push(b' ');
        line.extend_from_slice(&json);
        line.push(b'\n');
        if line.len() as u64 > HEAD_BYTES_MAX {
            return Err(io::Error::other("the head is too long"));
        }
        let passing = self.folder.join(format!("{:016x}.{PASSING}", fastrand::u64(..)));
        let (number, key) = (response.number, key_of(&response.path));
        let saved = SavedHead::of(response);
        let new = NewHead { heads: self, number, key, passing, saved, hash };
        options().write(true).create_new(true).open(&new.passing)?.write_all(&line)?;
        Ok(new)
    }

    /// Locks a number. Blocks while the disk is at work on a head that shares its lock.
    pub(crate) fn naming(&self, number: u64) -> Naming<'_> {
        let lock = &self.naming[(number % NAMING_LOCKS as u64) as usize];
        let lock = lock.lock().expect("no holder of this lock can panic");
        Naming { heads: self, number, _lock: lock }
    }

    fn name(&self, number: u64, key: u64) -> PathBuf {
        self.folder.join(format!("{number:016x}-{key:016x}.{HEAD}"))
    }

    fn body_name(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:016x}.{RESPONSE}"))
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().expect("no holder of this lock can panic")
    }
}

impl Naming<'_> {
    /// Removes the head, if there is one.
    pub(crate) fn remove(&self) {
        let Some(key) = self.heads.names().keys.remove(&self.number) else { return };
        // It may have been removed by hand.
        let _ = remove(&self.heads.name(self.number, key));
    }
}

impl NewHead<'_> {
    /// Lets a restart find the response by this head. Returns what to note of it.
    pub(crate) fn keep(self, naming: &Naming<'_>) -> io::Result<(SavedHead, Option<Hash>)> {
        debug_assert_eq!(naming.number, self.number);
        fs::rename(&self.passing, self.heads.name(self.number, self.key))?;
        self.heads.names().keys.insert(self.number, self.key);
        Ok((self.saved, self.hash))
    }
}

impl Drop for NewHead<'_> {
    fn drop(&mut self) {
        // It is not there any more if it has been kept.
        let _ = remove(&self.passing);
    }
}

/// The SHA-256 of a body, which must have this size.
pub(crate) fn hash_of(body: &File, size: u64) -> io::Result<Hash> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; size.min(BLOCK_BYTES) as usize];
    let mut done = 0;
    while done < size {
        let part = (size - done).min(BLOCK_BYTES) as usize;
        body.read_exact_at(&mut buffer[..part], done)?;
        context.update(&buffer[..part]);
        done += part as u64;
    }
    Ok(context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

#[cfg(test)]
#[path = "heads_tests.rs"]
mod tests;
