//! The hot set in large pages that the operator has reserved.

use crate::support::content::Content;
use crate::support::served::{Served, await_that};
use crate::support::viewer::Protocol;
use config::LargePages;
use fullbore_tests::{settle, tool};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

const POOL: &str = "/proc/sys/vm/nr_hugepages";

const BLOCK: u64 = 2 << 20;

/// Two blocks and a little.
const FILM_BYTES: u64 = 2 * BLOCK + 12_345;

/// The pool is the machine's: one test at a time reserves pages or takes some.
static POOL_IN_USE: Mutex<()> = Mutex::new(());

fn pool_for_this_test() -> MutexGuard<'static, ()> {
    POOL_IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Some more reserved pages, until this is dropped.
struct Reserved(u64);

impl Reserved {
    /// Reports why if the kernel does not reserve them.
    fn pages(count: u64) -> Option<Self> {
        let before = pool();
        let is_written = fs::write(POOL, (before + count).to_string()).is_ok();
        let reserved = Self(before);
        if is_written && pool() == before + count {
            return Some(reserved);
        }
        tool::skip("cannot reserve large pages, which takes root and unfragmented memory");
        None
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let _ = fs::write(POOL, self.0.to_string());
    }
}

/// Pages of the pool that hold no memory of a program.
fn unused() -> u64 {
    const UNUSED: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    fs::read_to_string(UNUSED).unwrap().trim().parse().unwrap()
}

fn pool() -> u64 {
    fs::read_to_string(POOL).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn library() -> (TempDir, Content) {
    let (folder, film) = (tempfile::tempdir().unwrap(), Content::new(5, FILM_BYTES));
    let path = folder.path().join("film.mp4");
    film.write(&path).unwrap();
    let file = fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    settle(folder.path());
    (folder, film)
}

fn serve(folder: &TempDir, protocol: Protocol, pages: u64) -> Served {
    Served::start(folder.path(), protocol, |config| {
        config.memory.large_pages = LargePages::Hugetlb;
        config.memory.hot_bytes = Some(pages * BLOCK);
        config.memory.pins = vec!["film.mp4".into()];
    })
}

/// Waits until the film is in memory, and has a viewer watch it from there.
fn watch(served: &Served, film: &Content) {
    let pinned = || served.number(|n| &n.hot_pinned_bytes);
    await_that(|| pinned() == 3 * BLOCK, || format!("{} bytes are pinned", pinned()));
    let body = served.viewer().ask("/film.mp4").body;
    assert_eq!(body.len() as u64, FILM_BYTES);
    film.assert_holds(0, &body, "from the hot set");
    served.await_news();
    assert!(served.number(|n| &n.read_hot_bytes_total) >= FILM_BYTES, "it came from there");
}

#[test]
fn films_are_served_from_reserved_pages_with_tls_and_without() {
    let _pool = pool_for_this_test();
    let (folder, film) = library();
    let Some(_reserved) = Reserved::pages(12) else { return };
    for protocol in [Protocol::Tls13, Protocol::Plain] {
        let before = unused();
        let served = serve(&folder, protocol, 8);
        assert_eq!(unused() + 8, before, "all are taken at the start, before any is used");
        let lines = served.describe();
        assert!(lines.contains("up to 16 MiB of popular parts of films, in reserved"), "{lines}");
        watch(&served, &film);
        served.stop();
    }
}

#[test]
fn too_few_reserved_pages_are_told_and_the_server_serves() {
    let _pool = pool_for_this_test();
    let (folder, film) = library();
    let wanted = machine::ReservedPages::open().now().free + 64;
    let served = serve(&folder, Protocol::Tls13, wanted);
    let lines = served.describe();
    assert!(lines.contains(&format!("it takes {wanted} reserved pages of 2 MiB")), "{lines}");
    assert!(lines.contains("sysctl vm.nr_hugepages="), "{lines}");
    watch(&served, &film);
    served.stop();
}
