//! A response's reads of one part count once, and go through the page cache only where the kernel does not read ahead after them.

use fullbore_disk::{File, Heat, Misses, Policy, ReadMode, Reader};
use reactor::residency::cached_pages;
use reactor::{Pool, PoolOptions, Reactor, RingOptions};
use std::cell::RefCell;
use std::fs;
use std::future::Future;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const FILM_BYTES: u64 = 32 * MIB;
const WINDOW: u64 = 64 << 10;

fn on_a_reactor<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    Reactor::new(RingOptions::default()).unwrap().run(future).unwrap()
}

fn reader() -> Reader {
    let options = PoolOptions {
        buffer_bytes: WINDOW as usize + (8 << 10),
        count: 4,
        register: false,
        fifo: false,
        large_pages: false,
    };
    Reader::new(Pool::new(options).unwrap(), Policy::Auto, Heat::new(256 << 30))
}

/// A film of zeros, cached as a program leaves it that reads `begun` bytes of it.
struct Film {
    folder: TempDir,
}

impl Film {
    fn new(begun: usize) -> Option<Self> {
        let film = Self { folder: tempfile::tempdir().unwrap() };
        let file = fs::File::create(film.path()).unwrap();
        file.set_len(FILM_BYTES).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut reading = fs::File::open(film.path()).unwrap();
        for _ in 0..begun / 4096 {
            reading.read_exact(&mut [0; 4096]).unwrap();
        }
        if cached_pages(file.as_fd(), 0..FILM_BYTES).is_err() {
            fullbore_tests::tool::skip("this kernel does not count cached pages");
            return None;
        }
        Some(film)
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("film.mp4")
    }

    fn open(&self) -> File {
        File::new(fs::File::open(self.path()).unwrap().into()).unwrap()
    }

    fn cached_bytes(&self) -> u64 {
        let file = fs::File::open(self.path()).unwrap();
        let page_bytes = rustix::param::page_size() as u64;
        cached_pages(file.as_fd(), 0..FILM_BYTES).unwrap() * page_bytes
    }
}

/// Reads the whole film for one response. Each window begins in the middle of the one before, because TCP took only half of that.
async fn pass(reader: &Reader, file: &File) {
    let misses = RefCell::default();
    for start in (0..file.size()).step_by(WINDOW as usize / 2) {
        reader.read_for(&misses, file, start..file.size().min(start + WINDOW)).await.unwrap();
    }
}

#[test]
fn a_response_that_reads_everything_twice_leaves_nothing_and_a_second_one_is_cached() {
    let Some(film) = Film::new(0) else { return };
    on_a_reactor(async move {
        let (reader, file) = (reader(), film.open());
        pass(&reader, &file).await;
        assert_eq!(film.cached_bytes(), 0);
        pass(&reader, &file).await;
        assert!(film.cached_bytes() >= FILM_BYTES - MIB, "{}", film.cached_bytes());
        let direct = reader.stats.direct_bytes.get();
        pass(&reader, &file).await;
        // The heat table may have overwritten a block or two.
        let read = reader.stats.direct_bytes.get() - direct;
        assert!(read < MIB, "{read} bytes of the third one's are not in memory");
    });
}

#[test]
fn the_marks_of_somebody_elses_read_ahead_are_not_followed() {
    let Some(film) = Film::new(64 << 10) else { return };
    let begun = film.cached_bytes();
    assert!((1..FILM_BYTES).contains(&begun), "{begun}");
    on_a_reactor(async move {
        let (reader, file) = (reader(), film.open());
        pass(&reader, &file).await;
        assert!(film.cached_bytes() <= begun + 4096, "{begun}, then {}", film.cached_bytes());
    });
}

#[test]
fn what_is_requested_again_brings_nothing_else_along() {
    let Some(film) = Film::new(0) else { return };
    on_a_reactor(async move {
        let (reader, file) = (reader(), film.open());
        for _ in 0..2 {
            reader.read(&file, MIB..MIB + WINDOW).await.unwrap();
        }
        assert_eq!(film.cached_bytes(), WINDOW);
        assert_eq!(reader.stats.direct_bytes.get(), WINDOW, "the first one's");
    });
}

#[test]
fn a_film_that_is_cached_whole_is_read_from_memory_to_its_end() {
    let Some(film) = Film::new(FILM_BYTES as usize) else { return };
    on_a_reactor(async move {
        let (reader, file) = (reader(), film.open());
        pass(&reader, &file).await;
        assert_eq!([reader.stats.direct_bytes.get(), reader.stats.cached_bytes.get()], [0, 0]);
    });
}

#[test]
fn a_miss_counts_once_for_each_response() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mp4");
    fs::File::create(&path).unwrap().set_len(MIB).unwrap();
    let open = |path: &Path| File::new(fs::File::open(path).unwrap().into()).unwrap();
    on_a_reactor(async move {
        let (reader, file) = (reader(), open(&path));
        let mut first = Misses::default();
        assert_eq!(first.record(&reader, &file, &(0..4 * WINDOW)), ReadMode::Direct);
        for again in [0..WINDOW, WINDOW..2 * WINDOW, 0..4 * WINDOW, 3 * WINDOW..5 * WINDOW] {
            assert_eq!(first.record(&reader, &file, &again), ReadMode::Direct, "{again:?}");
        }
        let mut second = Misses::default();
        assert_eq!(second.record(&reader, &file, &(0..5 * WINDOW)), ReadMode::Buffered);
        assert_eq!(second.record(&reader, &file, &(5 * WINDOW..6 * WINDOW)), ReadMode::Direct);
    });
}

/// Our own TCP has several reads in flight, sends some of what they read, and reads the rest again later.
#[test]
fn a_miss_counts_once_in_whatever_order_a_response_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mp4");
    fs::File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    on_a_reactor(async move {
        let file = File::new(fs::File::open(&path).unwrap().into()).unwrap();
        let window = |number: u64| number * WINDOW..(number + 1) * WINDOW;
        let orders: [&[u64]; 5] = [
            &[0, 2, 1, 2, 3, 0, 4],
            &[3, 0, 1, 2, 3, 4],
            &[4, 3, 2, 1, 0, 4, 0],
            &[0, 4, 1, 2, 3, 3, 4, 0],
            &[1, 0, 4, 0, 1, 2, 3, 4],
        ];
        for order in orders {
            let reader = reader();
            let mut first = Misses::default();
            for number in order {
                let mode = first.record(&reader, &file, &window(*number));
                assert_eq!(mode, ReadMode::Direct, "{number} of {order:?}");
            }
            let mut second = Misses::default();
            for number in 0..5 {
                let mode = second.record(&reader, &file, &window(number));
                assert_eq!(mode, ReadMode::Buffered, "{number} after {order:?}");
            }
            assert_eq!(second.record(&reader, &file, &window(5)), ReadMode::Direct);
        }
        // A part far away is requested by itself: nothing in between is recorded.
        let reader = reader();
        let mut first = Misses::default();
        first.record(&reader, &file, &window(0));
        first.record(&reader, &file, &(63 * MIB..64 * MIB));
        let mut second = Misses::default();
        assert_eq!(second.record(&reader, &file, &window(8)), ReadMode::Direct);
        assert_eq!(second.record(&reader, &file, &(63 * MIB..64 * MIB)), ReadMode::Buffered);
    });
}

/// On the kernel's TCP, windows in the page cache are sent from there, and the ones after them are read.
#[test]
fn what_is_sent_from_the_page_cache_is_no_miss() {
    let Some(film) = Film::new(FILM_BYTES as usize) else { return };
    on_a_reactor(async move {
        let file = film.open();
        let window = |number: u64| number * WINDOW..(number + 1) * WINDOW;
        // In order, and with one that another read has gone ahead of.
        for sent in [&[1, 2][..], &[2], &[2, 1]] {
            let reader = reader();
            let mut first = Misses::default();
            first.record(&reader, &file, &window(0));
            for number in sent {
                assert!(reader.sends_resident(&file, &window(*number), &mut first));
            }
            assert_eq!(first.record(&reader, &file, &window(3)), ReadMode::Direct);
            let mut second = Misses::default();
            for (number, mode) in [
                (0, ReadMode::Buffered),
                (1, ReadMode::Direct),
                (2, ReadMode::Direct),
                (3, ReadMode::Buffered),
            ] {
                let is = second.record(&reader, &file, &window(number));
                assert_eq!(is, mode, "{number} after {sent:?}");
            }
        }
        // What is missing between two such windows is read as anything else that one viewer reads.
        let (reader, mut only) = (reader(), Misses::default());
        for number in [0, 2] {
            assert!(reader.sends_resident(&file, &window(number), &mut only));
        }
        assert_eq!(only.record(&reader, &file, &window(1)), ReadMode::Direct);
    });
}
