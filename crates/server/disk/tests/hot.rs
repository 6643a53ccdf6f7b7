//! The hot set against real files.

use fullbore_disk::hot::BLOCK_BYTES;
use fullbore_disk::{File, Heat, HotSet, LocalHotSet, Pinning, Policy, ReadError, Reader};
use fullbore_tests::settle;
use reactor::blocks::Pages;
use reactor::residency::cached_pages;
use reactor::{Pool, PoolOptions, Reactor, RingOptions, sleep};
use std::fs;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// For this long after a change, the hot set certainly does not admit a file: 3 s, from the whole second in which it changed.
const UNSETTLED_FOR: Duration = Duration::from_secs(2);

const WINDOW: u64 = 512 << 10;

fn on_a_reactor<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    Reactor::new(RingOptions::default()).unwrap().run(future).unwrap()
}

fn reader(set: &Arc<HotSet>) -> Reader {
    reader_of(set, WINDOW)
}

/// A reader for windows as long as `window`.
fn reader_of(set: &Arc<HotSet>, window: u64) -> Reader {
    let buffer_bytes = window as usize + (8 << 10);
    let options =
        PoolOptions { buffer_bytes, count: 8, register: false, fifo: false, large_pages: true };
    let hot_set = LocalHotSet::new(Arc::clone(set));
    Reader::new(Pool::new(options).unwrap(), Policy::Auto, Heat::new(1 << 30))
        .with_hot_set(Some(hot_set))
}

fn content(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at + seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Files on disk whose last change is old enough for the hot set.
struct Library {
    folder: TempDir,
    films: Vec<Vec<u8>>,
}

impl Library {
    fn new(bytes: &[usize]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let films: Vec<_> =
            bytes.iter().enumerate().map(|(film, bytes)| content(*bytes, film * 7919)).collect();
        for (film, bytes) in films.iter().enumerate() {
            let path = folder.path().join(film.to_string());
            fs::write(&path, bytes).unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }
        settle(folder.path());
        Self { folder, films }
    }

    fn path(&self, film: usize) -> PathBuf {
        self.folder.path().join(film.to_string())
    }

    fn open(&self, film: usize) -> Rc<File> {
        open(&self.path(film))
    }
}

/// Writes a film again and passes it to `attempt`, until one attempt was over before the film could settle: a slower one shows nothing.
async fn before_it_settles<T>(
    library: &Library,
    film: usize,
    attempt: impl AsyncFn(Rc<File>) -> T,
) -> T {
    loop {
        let start = Instant::now();
        fs::write(library.path(film), &library.films[film]).unwrap();
        let outcome = attempt(library.open(film)).await;
        if start.elapsed() < UNSETTLED_FOR {
            return outcome;
        }
    }
}

fn open(path: &Path) -> Rc<File> {
    Rc::new(File::new(fs::File::open(path).unwrap().into()).unwrap())
}

/// Waits until this worker fills no block.
async fn at_rest(reader: &Reader) {
    for hot_set in reader.hot_sets() {
        while hot_set.is_filling() {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Waits until this worker fills no block. Then `bytes` of the set must be in use, and at least that many read into it.
async fn filled(reader: &Reader, bytes: u64) {
    at_rest(reader).await;
    let hot_set = reader.hot_set().unwrap();
    let read = hot_set.filled_bytes.get();
    assert_eq!(hot_set.set().used_bytes(), bytes, "{read} bytes were read");
    assert!(read >= bytes, "{read} bytes were read");
}

/// Requests a film's blocks in turn, as a response does, `times` times. After each request waits until the block is filled, if it is admitted.
async fn ask_for(reader: &Reader, file: &Rc<File>, times: usize) {
    for _ in 0..times {
        for start in (0..file.size()).step_by(BLOCK_BYTES as usize) {
            reader.note_request(file, &(start..start + 1));
            // A worker fills a few blocks at a time, and refuses others.
            at_rest(reader).await;
        }
    }
}

#[test]
fn what_was_asked_for_twice_is_there_and_right_wherever_a_window_begins_and_ends() {
    let library = Library::new(&[3 * BLOCK_BYTES as usize]);
    on_a_reactor(async move {
        let set = HotSet::new(8 * BLOCK_BYTES, Pages::Transparent).unwrap();
        let (reader, file) = (reader(&set), library.open(0));
        ask_for(&reader, &file, 1).await;
        assert_eq!(set.used_bytes(), 0, "once is not enough");
        ask_for(&reader, &file, 1).await;
        filled(&reader, 3 * BLOCK_BYTES).await;
        let film = &library.films[0];
        for start in [0, 1, 4095, BLOCK_BYTES - WINDOW, BLOCK_BYTES - 1, 2 * BLOCK_BYTES - 777] {
            for bytes in [1, 512, 4097, WINDOW] {
                let range = start..start + bytes;
                let plain = reader.read(&file, range.clone()).await.unwrap();
                assert!(*plain == film[start as usize..range.end as usize], "{range:?}");
                let part = reader.hot_part(&file, &range).unwrap().unwrap();
                let end = range.end.min((start / BLOCK_BYTES + 1) * BLOCK_BYTES);
                assert!(part.bytes() == &film[start as usize..end as usize], "{range:?}");
            }
        }
        let stats = &reader.stats;
        let read = stats.resident_bytes.get() + stats.cached_bytes.get() + stats.direct_bytes.get();
        assert_eq!(read, 0, "everything came from the hot set");
        match cached_pages(file.fd().borrowed(), 0..file.size()) {
            Ok(pages) => assert_eq!(pages, 0, "nothing lies in memory twice"),
            // Not by `eprintln!`, which is hidden if the test passes.
            Err(why) => {
                writeln!(std::io::stderr(), "SKIPPED: what the page cache has ({why})").unwrap()
            }
        }
        assert_eq!(reader.pool().free(), 8);
    });
}

/// As with `--silo memory-at-disk`: two workers of different silos, and a film on a disk of the second.
#[test]
fn a_hot_set_at_the_disk_is_shared_with_workers_elsewhere() {
    let library = Library::new(&[2 * BLOCK_BYTES as usize]);
    on_a_reactor(async move {
        let sets = [(); 2].map(|()| HotSet::new(8 * BLOCK_BYTES, Pages::Small).unwrap());
        let (at_disk, file) = (reader(&sets[1]), library.open(0));
        let options = PoolOptions {
            buffer_bytes: WINDOW as usize + (8 << 10),
            count: 8,
            register: false,
            fifo: false,
            large_pages: true,
        };
        let elsewhere = reader(&sets[0]).with_bank_at(
            &[file.stamp().device],
            Pool::new(options).unwrap(),
            Some(LocalHotSet::elsewhere(Arc::clone(&sets[1]))),
        );
        // Each worker opens its files itself.
        let other_file = library.open(0);
        ask_for(&elsewhere, &other_file, 1).await;
        ask_for(&at_disk, &file, 1).await;
        filled(&at_disk, 2 * BLOCK_BYTES).await;
        assert_eq!(sets[0].used_bytes(), 0, "nothing is in memory twice");
        let range = BLOCK_BYTES - 100..BLOCK_BYTES + 100;
        let expected = &library.films[0][range.start as usize..range.end as usize];
        let read = elsewhere.read(&other_file, range.clone()).await.unwrap();
        assert!(*read == *expected && read.is_from_disks_node() && !read.is_from_disk());
        let read = at_disk.read(&file, range.clone()).await.unwrap();
        assert!(*read == *expected && !read.is_from_disks_node(), "it is in the own silo's memory");
        let part = elsewhere.hot_part(&other_file, &range).unwrap().unwrap();
        assert!(part.is_elsewhere() && *part.bytes() == expected[..100]);
        let (memory, start) = elsewhere.for_kernel(&other_file, &part).unwrap();
        let mut in_flight = [0; 100];
        rustix::io::pread(memory, &mut in_flight, start).unwrap();
        assert_eq!(in_flight, expected[..100], "what the kernel would send");
        assert_eq!((elsewhere.stats.hot_bytes.get(), at_disk.stats.hot_bytes.get()), (200, 200));
        // A pin of either worker keeps the block.
        while sets[1].used_bytes() > BLOCK_BYTES {
            assert_eq!(sets[1].give_back_block(), BLOCK_BYTES);
        }
        assert!(elsewhere.is_hot(&other_file, 0), "it is pinned");
        assert_eq!(sets[1].give_back_block(), 0);
    });
}

#[test]
fn a_window_may_lie_in_three_blocks() {
    let library = Library::new(&[3 * BLOCK_BYTES as usize]);
    on_a_reactor(async move {
        let set = HotSet::new(8 * BLOCK_BYTES, Pages::Transparent).unwrap();
        let (reader, file) = (reader_of(&set, 2 * BLOCK_BYTES), library.open(0));
        let range = BLOCK_BYTES - 5..3 * BLOCK_BYTES - 5;
        let expected = &library.films[0][range.start as usize..range.end as usize];
        ask_for(&reader, &file, 2).await;
        filled(&reader, 3 * BLOCK_BYTES).await;
        assert!(*reader.read(&file, range.clone()).await.unwrap() == *expected);
        assert_eq!(reader.stats.direct_bytes.get(), 0);
        // Once the last block is evicted, the whole range is read.
        while reader.is_hot(&file, range.end - 1) {
            assert_eq!(set.give_back_block(), BLOCK_BYTES);
        }
        assert!(*reader.read(&file, range).await.unwrap() == *expected);
        assert!(reader.stats.direct_bytes.get() > 0);
    });
}

#[test]
fn one_viewer_going_through_a_film_in_small_ranges_gets_nothing_admitted() {
    let library = Library::new(&[3 * BLOCK_BYTES as usize]);
    on_a_reactor(async move {
        let set = HotSet::new(8 * BLOCK_BYTES, Pages::Transparent).unwrap();
        let (reader, file) = (reader(&set), library.open(0));
        for start in (0..file.size()).step_by(300_000) {
            reader.note_request(&file, &(start..file.size().min(start + 300_000)));
        }
        // A block is in use from its admission on.
        assert_eq!(set.used_bytes(), 0);
        reader.note_request(&file, &(0..file.size()));
        filled(&reader, 3 * BLOCK_BYTES).await;
    });
}

#[test]
fn bytes_of_a_changed_file_are_never_taken() {
    let library = Library::new(&[BLOCK_BYTES as usize]);
    on_a_reactor(async move {
        let set = HotSet::new(4 * BLOCK_BYTES, Pages::Transparent).unwrap();
        let (reader, file) = (reader(&set), library.open(0));
        ask_for(&reader, &file, 2).await;
        filled(&reader, BLOCK_BYTES).await;
        let newer = content(BLOCK_BYTES as usize, 1);
        fs::write(library.path(0), &newer).unwrap();
        assert_eq!(reader.hot_part(&file, &(0..100)).err(), Some(ReadError::Changed));
        assert_eq!(reader.read(&file, 0..100).await.err(), Some(ReadError::Changed));
        // Opening the file again gives the new version, and the hot set has no bytes of that version.
        let file = library.open(0);
        assert!(reader.hot_part(&file, &(0..100)).unwrap().is_none());
        assert!(*reader.read(&file, 0..100).await.unwrap() == newer[..100]);
        // What was changed so recently is not admitted.
        let used = before_it_settles(&library, 0, async |file| {
            let before = set.used_bytes();
            ask_for(&reader, &file, 5).await;
            (before, set.used_bytes())
        });
        let (before, after) = used.await;
        assert_eq!(before, after);
    });
}

#[test]
fn going_once_through_the_library_replaces_nothing() {
    let library = Library::new(&[2 * BLOCK_BYTES as usize, 8 * BLOCK_BYTES as usize]);
    on_a_reactor(async move {
        let set = HotSet::new(2 * BLOCK_BYTES, Pages::Transparent).unwrap();
        let (reader, wanted, scanned) = (reader(&set), library.open(0), library.open(1));
        ask_for(&reader, &wanted, 3).await;
        filled(&reader, 2 * BLOCK_BYTES).await;
        // Even two passes are fewer than the three requests for the other film.
        ask_for(&reader, &scanned, 2).await;
        for start in [0, BLOCK_BYTES] {
            assert!(reader.is_hot(&wanted, start));
        }
        assert_eq!(set.evicted_bytes(), 0);
        // A film with more requests than the one in the set replaces it.
        ask_for(&reader, &scanned, 4).await;
        filled(&reader, 2 * BLOCK_BYTES).await;
        assert!(set.evicted_bytes() > 0);
        let part = reader.hot_part(&scanned, &(0..WINDOW)).unwrap();
        assert!(part.is_none_or(|part| part.bytes() == &library.films[1][..WINDOW as usize]));
    });
}

#[test]
fn what_is_being_read_is_not_replaced_and_memory_given_back_can_be_used_again() {
    let library = Library::new(&[BLOCK_BYTES as usize, BLOCK_BYTES as usize]);
    on_a_reactor(async move {
        let set = HotSet::new(BLOCK_BYTES, Pages::Transparent).unwrap();
        let (reader, first, second) = (reader(&set), library.open(0), library.open(1));
        ask_for(&reader, &first, 2).await;
        filled(&reader, BLOCK_BYTES).await;
        let part = reader.hot_part(&first, &(0..WINDOW)).unwrap().unwrap();
        ask_for(&reader, &second, 9).await;
        assert_eq!(set.give_back_block(), 0);
        assert!(part.bytes() == &library.films[0][..WINDOW as usize]);
        drop(part);
        set.let_grow(0);
        assert_eq!(set.give_back_block(), BLOCK_BYTES);
        assert_eq!(set.used_bytes(), 0);
        ask_for(&reader, &second, 9).await;
        assert_eq!(set.used_bytes(), 0, "the set may not grow");
        set.let_grow(BLOCK_BYTES);
        ask_for(&reader, &second, 1).await;
        filled(&reader, BLOCK_BYTES).await;
        let part = reader.hot_part(&second, &(0..WINDOW)).unwrap().unwrap();
        assert!(part.bytes() == &library.films[1][..WINDOW as usize]);
    });
}

#[test]
fn a_nearly_empty_block_is_not_worth_memory_and_the_end_of_a_film_is_right() {
    let (short, long) = (BLOCK_BYTES as usize / 4, BLOCK_BYTES as usize * 3 / 2 + 12_345);
    let library = Library::new(&[short, long]);
    on_a_reactor(async move {
        let set = HotSet::new(8 * BLOCK_BYTES, Pages::Transparent).unwrap();
        let (reader, short, long) = (reader(&set), library.open(0), library.open(1));
        ask_for(&reader, &short, 3).await;
        ask_for(&reader, &long, 3).await;
        assert!(reader.is_hot(&long, long.size() - 1) && reader.is_hot(&long, 0));
        assert_eq!(set.used_bytes(), 2 * BLOCK_BYTES);
        let range = long.size() - 1000..long.size();
        let part = reader.hot_part(&long, &range).unwrap().unwrap();
        assert!(part.bytes() == &library.films[1][range.start as usize..]);
    });
}

#[test]
fn a_pinned_block_is_the_last_to_be_given_back_and_comes_back_when_the_set_may_grow() {
    let library = Library::new(&[BLOCK_BYTES as usize, 2 * BLOCK_BYTES as usize + 7]);
    on_a_reactor(async move {
        let set = HotSet::new(4 * BLOCK_BYTES, Pages::Transparent).unwrap();
        let (reader, viewed, pinned) = (reader(&set), library.open(0), library.open(1));
        let hot_set = reader.hot_set().unwrap();
        ask_for(&reader, &viewed, 9).await;
        filled(&reader, BLOCK_BYTES).await;
        let starts = [0, BLOCK_BYTES, 2 * BLOCK_BYTES];
        for start in starts {
            assert!(!set.want(&pinned.stamp(), start));
            assert_eq!(hot_set.pin(&pinned, start).await, Pinning::Done);
            assert!(set.want(&pinned.stamp(), start));
        }
        let end = 2 * BLOCK_BYTES..pinned.size();
        let part = reader.hot_part(&pinned, &end).unwrap().unwrap();
        assert!(part.bytes() == &library.films[1][end.start as usize..], "the end of a film, too");
        drop(part);
        assert_eq!(set.give_back_block(), BLOCK_BYTES);
        assert!(!reader.is_hot(&viewed, 0), "blocks that viewers requested are evicted first");
        assert!(starts.iter().all(|start| set.want(&pinned.stamp(), *start)));
        set.let_grow(0);
        assert_eq!(set.give_back_block(), BLOCK_BYTES);
        let missing = starts.into_iter().find(|start| !set.want(&pinned.stamp(), *start)).unwrap();
        assert_eq!(hot_set.pin(&pinned, missing).await, Pinning::NoRoom, "others are as wanted");
        set.let_grow(BLOCK_BYTES);
        assert_eq!(hot_set.pin(&pinned, missing).await, Pinning::Done);
        // A file that was changed a moment ago may change again without a new time.
        let pinning = before_it_settles(&library, 1, async |file| hot_set.pin(&file, 0).await);
        assert_eq!(pinning.await, Pinning::Failed);
    });
}
