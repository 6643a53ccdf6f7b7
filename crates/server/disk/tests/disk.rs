//! Files and reads against real filesystems.

use fullbore_disk::{File, Files, Heat, OpenError, Policy, ReadError, ReadMode, Reader};
use reactor::{Pool, PoolOptions, Reactor, RingOptions};
use std::fs;
use std::future::Future;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

fn on_a_reactor<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    Reactor::new(RingOptions::default()).unwrap().run(future).unwrap()
}

/// Four buffers.
const POOL: PoolOptions = PoolOptions {
    buffer_bytes: 72 << 10,
    count: 4,
    register: true,
    fifo: false,
    large_pages: true,
};

fn reader(policy: Policy) -> Reader {
    Reader::new(Pool::new(POOL).unwrap(), policy, Heat::new(1 << 30))
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A file that was just written and is not in the page cache, so that a read in any mode has to go to the disk.
fn cold_file(folder: &Path, bytes: &[u8]) -> File {
    let path = folder.join("film.mp4");
    fs::write(&path, bytes).unwrap();
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    File::new(file.into()).unwrap()
}

#[test]
fn every_way_brings_the_same_bytes_wherever_a_window_begins_and_ends() {
    for policy in [
        Policy::Auto,
        Policy::Heat,
        Policy::Always(ReadMode::Buffered),
        Policy::Always(ReadMode::Dontcache),
        Policy::Always(ReadMode::Direct),
    ] {
        on_a_reactor(async move {
            let folder = tempfile::tempdir().unwrap();
            let expected = content(200_001);
            let file = cold_file(folder.path(), &expected);
            let reader = reader(policy);
            for start in [0, 1, 511, 4095, 4096, 65_537, 134_465, 200_000] {
                for bytes in [1, 512, 4097, 65_536] {
                    let end = (start + bytes).min(expected.len());
                    let plain = reader.read(&file, start as u64..end as u64).await.unwrap();
                    assert!(*plain == expected[start..end], "{policy:?} {start}..{end}");
                }
            }
            assert_eq!(reader.pool().free(), 4);
        });
    }
}

#[test]
fn what_was_asked_for_lately_is_cached_and_what_was_not_is_read_past_the_cache() {
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let file = cold_file(folder.path(), &content(65_536));
        let reader = reader(Policy::Auto);
        for _ in 0..3 {
            reader.read(&file, 0..65_536).await.unwrap();
        }
        let stats = &reader.stats;
        let (cached, resident) = (stats.cached_bytes.get(), stats.resident_bytes.get());
        assert_eq!(stats.direct_bytes.get(), 65_536, "only the first one is past the cache");
        // The second one reads it into the cache. It counts as resident if the kernel's read-ahead has it there at once.
        assert_eq!((cached % 65_536, cached + resident), (0, 131_072));
        assert!(resident >= 65_536, "the third one is out of the cache");
    });
}

/// As with `--silo memory-at-disk`.
#[test]
fn a_direct_read_takes_a_buffer_at_the_disk_and_what_is_in_the_page_cache_one_of_the_worker() {
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let expected = content(65_536);
        let file = cold_file(folder.path(), &expected);
        let pools = || Pool::on_nodes(POOL, &[None, None]).unwrap();
        let reader_at = |disk: u64| {
            let [own, at_disk] = <[Pool; 2]>::try_from(pools()).ok().unwrap();
            Reader::new(own, Policy::Auto, Heat::new(1 << 30)).with_bank_at(&[disk], at_disk, None)
        };
        let disk = file.stamp().device;
        let reader = reader_at(disk);
        let free = |reader: &Reader| reader.pools().map(Pool::free).collect::<Vec<_>>();
        let direct = reader.read(&file, 0..65_536).await.unwrap();
        assert!(*direct == expected && direct.is_from_disks_node());
        assert_eq!((reader.stats.direct_bytes.get(), free(&reader)), (65_536, vec![4, 3]));
        let cached = reader.read(&file, 0..65_536).await.unwrap();
        assert!(*cached == expected);
        assert_eq!(free(&reader), [3, 3], "the second read goes through the page cache");
        drop((direct, cached));
        assert_eq!(free(&reader), [4, 4]);
        // A file on a disk that is near no bank.
        let (other, file) = (reader_at(disk + 1), cold_file(folder.path(), &expected));
        let direct = other.read(&file, 0..65_536).await.unwrap();
        assert_eq!((other.stats.direct_bytes.get(), free(&other)), (65_536, vec![3, 4]));
        drop(direct);
    });
}

#[test]
fn heat_alone_reads_past_the_cache_what_is_there_and_was_not_asked_for_lately() {
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let file = cold_file(folder.path(), &content(65_536));
        let warm = fs::read(folder.path().join("film.mp4")).unwrap();
        let reader = reader(Policy::Heat);
        for _ in 0..2 {
            assert!(*reader.read(&file, 0..65_536).await.unwrap() == warm);
        }
        let stats = &reader.stats;
        assert_eq!([stats.direct_bytes.get(), stats.resident_bytes.get()], [65_536; 2]);
    });
}

#[test]
fn a_filesystem_that_cannot_forget_is_read_the_next_best_way() {
    if !Path::new("/dev/shm").is_dir() {
        fullbore_tests::tool::skip("no /dev/shm, whose filesystem has no RWF_DONTCACHE");
        return;
    }
    on_a_reactor(async {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let expected = content(10_000);
        let file = cold_file(folder.path(), &expected);
        let reader = reader(Policy::Always(ReadMode::Dontcache));
        for _ in 0..2 {
            assert!(*reader.read(&file, 100..9_000).await.unwrap() == expected[100..9_000]);
        }
        assert_eq!(reader.stats.once_bytes.get(), 0);
        assert!(reader.stats.refused.get() > 0);
    });
}

#[test]
fn a_file_that_is_no_longer_what_was_opened_gives_no_bytes() {
    type Change = fn(&Path);
    let changes: [(Change, ReadError); 3] = [
        (
            |path| fs::File::options().write(true).open(path).unwrap().set_len(10).unwrap(),
            ReadError::Truncated,
        ),
        (|path| fs::write(path, content(70_000)).unwrap(), ReadError::Changed),
        (|path| fs::remove_file(path).unwrap(), ReadError::Removed),
    ];
    for (change, error) in changes {
        on_a_reactor(async move {
            let folder = tempfile::tempdir().unwrap();
            let file = cold_file(folder.path(), &content(65_536));
            let reader = reader(Policy::Auto);
            assert!(reader.read(&file, 0..4096).await.is_ok());
            change(&folder.path().join("film.mp4"));
            assert_eq!(reader.read(&file, 0..4096).await.err(), Some(error));
        });
    }
}

#[test]
fn only_regular_files_below_the_root_are_opened() {
    on_a_reactor(async {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("folder")).unwrap();
        fs::write(root.join("folder/film"), "x").unwrap();
        symlink("folder/film", root.join("inside")).unwrap();
        symlink(outside.path().join("secret"), root.join("outside")).unwrap();
        symlink("../../../../etc/passwd", root.join("climbing")).unwrap();
        let files = Files::new(root, 10).unwrap();
        assert!(files.open(b"folder/film").await.is_ok());
        assert!(files.open(b"inside").await.is_ok());
        for path in [
            &b"outside"[..],
            b"climbing",
            b"folder",
            b"nothing",
            b"../x",
            b"/etc/passwd",
            b"",
            b"a\0b",
        ] {
            let refused = files.open(path).await.err();
            assert_eq!(refused, Some(OpenError::NotFound), "{}", String::from_utf8_lossy(path));
        }
        assert_eq!(files.remembered_count(), 2);
    });
}

#[test]
fn a_file_that_was_replaced_is_noticed_at_once_and_others_stay_open() {
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("film"), "old").unwrap();
        let files = Files::new(root, 10).unwrap();
        let old = files.open(b"film").await.unwrap();
        assert!(std::rc::Rc::ptr_eq(&old, &files.open(b"film").await.unwrap()));
        fs::write(root.join("new"), "newer").unwrap();
        fs::rename(root.join("new"), root.join("film")).unwrap();
        assert_eq!(files.open(b"film").await.unwrap().size(), 5);
        fs::remove_file(root.join("film")).unwrap();
        assert_eq!(files.open(b"film").await.err(), Some(OpenError::NotFound));
        assert_eq!(files.remembered_count(), 0);
    });
}

#[test]
fn with_nothing_remembered_each_open_is_a_new_one() {
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("film"), "x").unwrap();
        let files = Files::new(folder.path(), 0).unwrap();
        let first = files.open(b"film").await.unwrap();
        assert!(!std::rc::Rc::ptr_eq(&first, &files.open(b"film").await.unwrap()));
        assert_eq!(files.remembered_count(), 0);
    });
}

#[test]
fn no_more_files_are_remembered_than_allowed() {
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path(), 3).unwrap();
        for number in 0..10 {
            let name = format!("film-{number}");
            fs::write(folder.path().join(&name), "x").unwrap();
            files.open(name.as_bytes()).await.unwrap();
        }
        assert_eq!(files.remembered_count(), 3);
        let held = files.open(b"film-9").await.unwrap();
        files.forget_unused();
        assert_eq!(files.remembered_count(), 1);
        assert_eq!(held.size(), 1);
    });
}

#[test]
fn what_was_brought_is_in_the_page_cache_and_comes_out_of_a_budget() {
    use fullbore_disk::{Budget, Readahead};
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let expected = content(1 << 20);
        let file = cold_file(folder.path(), &expected);
        if file.first_missing(0..1 << 20) != Some(0) {
            fullbore_tests::tool::skip("this filesystem does not evict what it has in memory");
            return;
        }
        let budget = Budget::new(600_000);
        let mut readahead = Readahead::new(budget.clone());
        for start in [100, 200_100] {
            let range = start..start + 200_000;
            readahead.sent_to(start);
            assert!(readahead.bring(&file, range.clone(), 1 << 20, true, false).await.unwrap());
            assert_eq!(file.first_missing(range), Some(start + 200_000));
            // The next window takes a share as well, unless the kernel has read it ahead by itself.
            assert!(budget.left_bytes() <= 400_000, "{}", budget.left_bytes());
        }
        // The last window was not sent, so its share is held for certain; one for the next depends on when the disk was done.
        let mut other = Readahead::new(budget.clone());
        let too_much = other.bring(&file, 0..500_000, 1 << 20, false, false).await.unwrap();
        assert!(!too_much, "there is no budget for it");
        drop((readahead, other));
        eventually_left(&budget, 600_000).await;
    });
}

#[test]
fn what_was_brought_for_one_viewer_is_dropped_with_the_page_in_which_it_begins() {
    use fullbore_disk::{Budget, Readahead, drop_pages};
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let file = cold_file(folder.path(), &content(1 << 20));
        if file.first_missing(0..1 << 20) != Some(0) {
            fullbore_tests::tool::skip("this filesystem does not evict what it has in memory");
            return;
        }
        let budget = Budget::new(1 << 20);
        let mut readahead = Readahead::new(budget.clone());
        assert!(readahead.bring(&file, 0..300_000, 1 << 20, false, false).await.unwrap());
        assert_eq!(readahead.unsent(100_000), 100_000..300_000);
        // A request that the kernel has yet to carry out would bring dropped pages back.
        readahead.give_back();
        eventually_left(&budget, 1 << 20).await;
        drop_pages(file.fd(), 100_000..200_000).await;
        let page = rustix::param::page_size() as u64;
        let (first, behind) = (100_000 / page * page, 200_000 / page * page);
        assert_eq!(file.first_missing(0..300_000), Some(first));
        assert_eq!(file.first_missing(behind..300_000), Some(300_000), "more may follow");
        drop_pages(file.fd(), 200_000..1 << 20).await;
        assert_eq!(file.first_missing(behind..300_000), Some(behind));
        assert_eq!(file.first_missing(0..first), Some(first));
    });
}

#[test]
fn what_the_disk_works_on_for_a_viewer_who_has_left_stays_in_the_budget() {
    use fullbore_disk::{Budget, Readahead};
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let file = cold_file(folder.path(), &content(1 << 20));
        let budget = Budget::new(1 << 20);
        for _ in 0..2 {
            let mut readahead = Readahead::new(budget.clone());
            let left_before = budget.left_bytes();
            // Polled once, so the disk has the request; then the viewer leaves.
            let asking = readahead.bring(&file, 0..100_000, 1 << 20, true, false);
            let _ = reactor::timeout_at(std::time::Instant::now(), asking).await;
            drop(readahead);
            assert!(budget.left_bytes() < left_before, "{}", budget.left_bytes());
        }
        eventually_left(&budget, 1 << 20).await;
    });
}

#[test]
fn who_has_waited_once_is_kept_ahead_of() {
    use fullbore_disk::{Budget, Readahead};
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let file = cold_file(folder.path(), &content(1 << 20));
        let mut readahead = Readahead::new(Budget::new(1 << 20));
        if !readahead.bring(&file, 0..100_000, 1 << 20, true, false).await.unwrap() {
            fullbore_tests::tool::skip("this kernel does not report what is in the page cache");
            return;
        }
        assert!(readahead.has_brought(&(0..100_000)));
        readahead.sent_to(100_000);
        assert!(readahead.has_asked_for(&(100_000..400_000)));
        assert!(!readahead.has_asked_for(&(0..100_000)), "it was sent");
        assert!(!readahead.has_asked_for(&(100_000..500_000)));
        readahead.ask_ahead(&file, &(100_000..200_000), 450_000);
        assert!(readahead.has_asked_for(&(100_000..450_000)));
        assert!(!readahead.has_asked_for(&(100_000..500_000)), "the response ends before");
    });
}

#[test]
fn what_was_asked_for_in_larger_steps_is_remembered_when_smaller_ones_follow() {
    use fullbore_disk::{Budget, Readahead};
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let file = cold_file(folder.path(), &content(1 << 20));
        let mut readahead = Readahead::new(Budget::new(1 << 24));
        if !readahead.bring(&file, 0..200_000, 1 << 20, true, false).await.unwrap() {
            fullbore_tests::tool::skip("this kernel does not report what is in the page cache");
            return;
        }
        assert_eq!(readahead.unsent(200_000), 200_000..800_000);
        readahead.give_back();
        readahead.bring(&file, 250_000..260_000, 1 << 20, false, false).await.unwrap();
        assert!(
            readahead.has_brought(&(700_000..800_000)),
            "it was requested from the disk before"
        );
        assert_eq!(readahead.unsent(260_000), 260_000..800_000);
        let page_end = 800_000_u64.next_multiple_of(rustix::param::page_size() as u64);
        assert!(readahead.has_brought(&(700_000..page_end)), "the kernel brings whole pages");
        assert!(!readahead.has_brought(&(700_000..page_end + 1)));
        readahead.bring(&file, 900_000..910_000, 1 << 20, false, false).await.unwrap();
        assert!(!readahead.has_brought(&(700_000..800_000)), "only one row is remembered");
    });
}

#[test]
fn of_a_film_in_memory_only_what_was_evicted_is_asked_for() {
    use fullbore_disk::{Budget, Readahead};
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let expected = content(1 << 20);
        let file = cold_file(folder.path(), &expected);
        if reactor::residency::cached_pages(file.fd().borrowed(), 0..1 << 20).is_err() {
            fullbore_tests::tool::skip("this kernel does not count what is in the page cache");
            return;
        }
        if file.first_missing(0..1 << 20) != Some(0) {
            fullbore_tests::tool::skip("this filesystem does not evict what it has in memory");
            return;
        }
        // All but the first window is in memory.
        let path = folder.path().join("film.mp4");
        let mut rest = vec![0; (1 << 20) - 131_072];
        fs::File::open(path).unwrap().read_exact_at(&mut rest, 131_072).unwrap();
        let budget = Budget::new(1 << 20);
        let mut readahead = Readahead::new(budget.clone());
        assert!(readahead.bring(&file, 0..131_072, 1 << 20, true, false).await.unwrap());
        assert_eq!(budget.left_bytes(), (1 << 20) - 131_072, "nothing else was requested");
        assert!(readahead.has_brought(&(0..131_072)));
        assert!(!readahead.has_brought(&(131_072..262_144)), "it was there");
        assert!(readahead.has_asked_for(&(131_072..524_288)), "the viewer is kept ahead of");
    });
}

#[test]
fn a_disk_that_hangs_leaves_some_of_a_budget_for_other_disks() {
    use fullbore_disk::Budget;
    let budget = Budget::new(100);
    let hung: Vec<_> = std::iter::from_fn(|| budget.take_for(1, 5)).collect();
    assert_eq!(hung.len(), 15, "three quarters");
    let other = budget.take_for(2, 25).expect("a disk without a share may take what is left");
    assert!(budget.take_for(2, 1).is_none() && budget.take_for(3, 1).is_none());
    drop(other);
    drop(hung);
    assert_eq!(budget.left_bytes(), 100);
    assert!(budget.take_for(1, 75).is_some());
}

async fn eventually_left(budget: &fullbore_disk::Budget, bytes: u64) {
    while budget.left_bytes() != bytes {
        reactor::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[test]
fn a_file_that_is_held_still_is_forgotten_when_somebody_wants_to_write_to_it() {
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mp4");
        fs::write(&path, content(1000)).unwrap();
        let files = Files::new(folder.path(), 10).unwrap();
        let film = files.open(b"film.mp4").await.unwrap();
        if !film.hold_still() {
            fullbore_tests::tool::skip("the kernel grants no lease here");
            return;
        }
        assert!(!film.is_recalled());
        files.forget_recalled();
        assert_eq!(files.remembered_count(), 1);
        let writer = std::thread::spawn(move || fs::write(&path, "another film").unwrap());
        while !film.is_recalled() {
            std::thread::yield_now();
        }
        films_length_is(&film, 1000);
        files.forget_recalled();
        assert_eq!(files.remembered_count(), 0);
        drop(film);
        writer.join().unwrap();
    });
}

fn films_length_is(film: &File, bytes: u64) {
    assert_eq!(film.size(), bytes);
    film.check_unchanged().unwrap();
}

#[test]
fn a_viewer_who_needs_the_same_bytes_again_does_not_count_as_another_one() {
    use fullbore_disk::Misses;
    on_a_reactor(async {
        let folder = tempfile::tempdir().unwrap();
        let file = cold_file(folder.path(), &content(1 << 20));
        let reader = reader(Policy::Heat);
        let mut first = Misses::default();
        // Windows: only a part of one was taken, some were read ahead and dropped, and one lost its buffer.
        for (start, end) in [(0, 65_536), (20_000, 131_072), (131_072, 524_288), (131_072, 262_144)]
        {
            let mode = first.record(&reader, &file, &(start..end));
            assert_eq!(mode, ReadMode::Direct, "{start}..{end}");
        }
        let mut second = Misses::default();
        assert_eq!(second.record(&reader, &file, &(0..524_288)), ReadMode::Buffered);
        assert_eq!(
            second.record(&reader, &file, &(524_288..1 << 20)),
            ReadMode::Direct,
            "this part was never read"
        );
        assert_eq!(second.record(&reader, &file, &(0..65_536)), ReadMode::Direct, "the last mode");
    });
}
