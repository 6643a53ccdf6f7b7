//! Keeps pinned titles in a silo's hot set: the task of one worker of the silo.
//!
//! Pinned blocks have the highest count of requests in the set. They need no other protection: the set admits them before
//! all others, evicts them last, and gives them back when memory is short. The task then reads them again, as soon as the
//! set may grow.
//!
//! A silo reads one block at a time. After each it leaves the disk to viewers for at least as long as the block took ([`pause_after`]). So pins take
//! at most half of a disk's time, at any speed, and less while viewers keep the disk busy: then each block takes longer, and so does the
//! pause.

use super::{PinnedFile, Pins};
use disk::hot::{BLOCK_BYTES, is_small};
use disk::{Files, HotSet, LocalHotSet, Pinning};
use reactor::{sleep, yield_now};
use silo_map::SiloMap;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest pause after a block: a block that took seconds waited for a hanging disk, and says nothing about its speed.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause between two checks of the set. Also the longest time of reading before the next check, because counts may be halved meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Blocks in a row without room before the rest waits for the next check. A single one says little: its place may be taken, or in use.
const REFUSALS: usize = 8;

/// How long to skip a file that cannot be read, or was changed a moment ago.
const RETRY_AFTER: Duration = Duration::from_secs(3);

/// How often to check for small files in the page cache, which evicts them if they are not read.
const SMALL_EVERY: Duration = Duration::from_secs(30);

/// Blocks to check before other tasks get a turn: some tens of microseconds.
const BATCH: usize = 256;

/// The set's state at the last check.
#[derive(Default)]
struct Looked {
    files: Option<Arc<[PinnedFile]>>,
    halvings: u64,
    evicted_bytes: u64,
}

/// Keeps pinned titles in one hot set.
pub(crate) struct Pinner {
    pins: Arc<Pins>,
    map: Arc<SiloMap>,
    silo: usize,
    /// The number of silos that read from a disk.
    readers: u32,
    pinned_bytes: Cell<u64>,
    missing_bytes: Cell<u64>,
}

/// The result of reading missing blocks.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// The next check is due, and there may be more to read.
    Paused,
    /// No block can be read for now.
    Ended,
}

impl Pinner {
    /// For the silo of `worker`.
    pub(crate) fn new(pins: Arc<Pins>, map: Arc<SiloMap>, worker: usize) -> Self {
        let silo = map.of_worker(worker);
        let readers = if map.serves_from_disks_silo() { 1 } else { map.silos().len() as u32 };
        let (pinned_bytes, missing_bytes) = Default::default();
        Self { pins, map, silo, readers, pinned_bytes, missing_bytes }
    }

    /// Bytes of pinned titles in the set.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.get()
    }

    /// Bytes of pinned titles, in whole blocks, that are not in the set: they wait to be read, cannot be read, or find no room.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing_bytes.get()
    }

    /// Reads pinned titles into the hot set and keeps them there, until the worker ends.
    pub(crate) async fn run(&self, library: &Files, hot_set: &Rc<LocalHotSet>) {
        let (mut looked, mut missing) = (Looked::default(), Vec::new());
        let (mut failing, mut small_at) = (HashMap::new(), reactor::now());
        loop {
            let files = self.files();
            if looked.files.as_ref() != Some(&files) {
                // The new files may include small ones, which viewers request first.
                small_at = reactor::now();
            }
            if looked.renew(&files, hot_set.set()) || !missing.is_empty() {
                missing = self.look(&files, hot_set.set()).await;
            }
            let now = reactor::now();
            failing.retain(|_, until| *until > now);
            let readable = missing.iter().map(|(index, start)| (&files[*index], *start));
            let read = read(library, hot_set, readable, self.readers, &mut failing).await;
            if now >= small_at {
                keep_small(library, hot_set, &files).await;
                small_at = now + SMALL_EVERY;
            }
            if read == Read::Ended {
                sleep(LOOK_EVERY).await;
            }
        }
    }

    /// The files to pin. Where files are sent from memory of their disk's silo, other silos get no requests for them.
    fn files(&self) -> Arc<[PinnedFile]> {
        let files = self.pins.files();
        if !self.map.serves_from_disks_silo() {
            return files;
        }
        let is_own = |file: &&PinnedFile| {
            self.map.of_device(file.stamp.device).is_none_or(|silo| silo == self.silo)
        };
        files.iter().filter(is_own).cloned().collect()
    }

    /// Marks all pinned blocks as wanted. Returns the missing ones, each as the file's index in the list and the block's start.
    async fn look(&self, files: &[PinnedFile], set: &HotSet) -> Vec<(usize, u64)> {
        let (mut missing, mut pinned_bytes, mut looked_at) = (Vec::new(), 0, 0);
        for (index, file) in files.iter().enumerate() {
            for start in starts(file) {
                match set.want(&file.stamp, start) {
                    true => pinned_bytes += BLOCK_BYTES,
                    false => missing.push((index, start)),
                }
                looked_at += 1;
                if looked_at % BATCH == 0 {
                    yield_now().await;
                }
            }
        }
        self.pinned_bytes.set(pinned_bytes);
        self.missing_bytes.set(missing.len() as u64 * BLOCK_BYTES);
        missing
    }
}

impl Looked {
    /// Adopts the set's current state. Returns whether pinned blocks may be unwanted or missing since the last time.
    fn renew(&mut self, files: &Arc<[PinnedFile]>, set: &HotSet) -> bool {
        let now = Self {
            files: Some(Arc::clone(files)),
            halvings: set.halvings(),
            evicted_bytes: set.evicted_bytes(),
        };
        let is_same = self.files == now.files
            && (self.halvings, self.evicted_bytes) == (now.halvings, now.evicted_bytes);
        *self = now;
        !is_same
    }
}

/// The start of each block of a file; none if the file is too small for the set.
fn starts(file: &PinnedFile) -> impl Iterator<Item = u64> + use<> {
    let size = if is_small(file.stamp.size) { 0 } else { file.stamp.size };
    (0..size).step_by(BLOCK_BYTES as usize)
}

/// Reads missing blocks in order, until the next check is due. Skips failing files, and notes which ones fail.
async fn read<'f>(
    library: &Files,
    hot_set: &Rc<LocalHotSet>,
    missing: impl Iterator<Item = (&'f PinnedFile, u64)>,
    readers: u32,
    failing: &mut HashMap<Box<[u8]>, Instant>,
) -> Read {
    let end = reactor::now() + LOOK_EVERY;
    let mut refused = 0;
    for (file, start) in missing {
        if failing.contains_key(&file.path) {
            continue;
        }
        let begun = reactor::now();
        match pin(library, hot_set, file, start).await {
            Pinning::Done => refused = 0,
            Pinning::NoRoom => {
                refused += 1;
                if refused == REFUSALS {
                    return Read::Ended;
                }
                continue;
            }
            Pinning::Failed => {
                failing.insert(file.path.clone(), reactor::now() + RETRY_AFTER);
            }
        }
        sleep(pause_after(reactor::now() - begun, readers)).await;
        if reactor::now() >= end {
            return Read::Paused;
        }
    }
    Read::Ended
}

/// How long to leave the disk to viewers after a block that took `took`, if `readers` silos read from it. All of them together then take half of its
/// time. A fixed rate would be too low for a fast disk, and too high for a slow one.
fn pause_after(took: Duration, readers: u32) -> Duration {
    (took * (2 * readers.max(1) - 1)).min(PAUSE_MAX)
}

async fn pin(library: &Files, hot_set: &Rc<LocalHotSet>, file: &PinnedFile, start: u64) -> Pinning {
    match library.open(&file.path).await {
        // Another version: the thread that looks up the files will find it, too.
        Ok(opened) if opened.stamp() != file.stamp => Pinning::Failed,
        Ok(opened) => hot_set.pin(&opened, start).await,
        Err(_) => Pinning::Failed,
    }
}

async fn keep_small(library: &Files, hot_set: &LocalHotSet, files: &[PinnedFile]) {
    for file in files.iter().filter(|file| is_small(file.stamp.size) && file.stamp.size > 0) {
        if let Ok(opened) = library.open(&file.path).await {
            hot_set.keep_small(&opened).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folders::Folders;
    use disk::Stamp;
    use reactor::blocks::Pages;
    use reactor::{Reactor, RingOptions};

    #[test]
    fn a_disk_gives_pins_half_of_its_time_at_most_however_fast_it_is() {
        // 2 MiB from a hard disk, a SATA disk and an NVMe disk.
        for took in [14_000, 4_000, 700].map(Duration::from_micros) {
            assert_eq!(pause_after(took, 1), took);
            let of_each = took.as_secs_f64() / (took + pause_after(took, 4)).as_secs_f64();
            assert!((4.0 * of_each - 0.5).abs() < 0.01, "{of_each}");
        }
        assert_eq!(pause_after(Duration::from_secs(30), 1), PAUSE_MAX, "a disk that hung");
    }

    #[test]
    fn a_block_without_room_holds_up_no_other_and_several_in_a_row_end_the_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film");
        std::fs::File::create(&path).unwrap().set_len(9 * BLOCK_BYTES).unwrap();
        let stamp = Stamp::of_path(&path).unwrap();
        fullbore_tests::settle(folder.path());
        let library = vec![folder.path().to_owned()];
        let folders = Arc::new(Folders::open(&library).unwrap());
        let test = async move {
            let files = folders.files(0).unwrap();
            let set = HotSet::new(BLOCK_BYTES, Pages::Small).unwrap();
            let hot_set = LocalHotSet::new(Arc::clone(&set));
            let file = |name: &str| PinnedFile { path: name.as_bytes().into(), stamp };
            let (film, gone) = (file("film"), file("gone"));
            let failing = async |refused: u64| {
                let missing = (0..refused).map(|block| (&film, (1 + block) * BLOCK_BYTES));
                let missing = missing.chain([(&gone, 0)]);
                let mut failing = HashMap::new();
                let read = read(&files, &hot_set, missing, 1, &mut failing).await;
                assert_eq!(read, Read::Ended);
                failing.len()
            };
            (0..9).for_each(|block| assert!(!set.want(&stamp, block * BLOCK_BYTES)));
            assert_eq!(pin(&files, &hot_set, &film, 0).await, Pinning::Done);
            assert_eq!(pin(&files, &hot_set, &film, BLOCK_BYTES).await, Pinning::NoRoom);
            assert_eq!(failing(REFUSALS as u64 - 1).await, 1, "it came to the next file");
            assert_eq!(failing(REFUSALS as u64).await, 0, "it left that for later");
        };
        Reactor::new(RingOptions::default()).unwrap().run(test).unwrap();
    }
}
