//! Titles that are published to a real S3 server, which checks signatures, and to a store that follows a test's rules.

mod cuts;
mod refusals;
#[allow(dead_code)] // Other tests use the rest of it.
#[path = "../../../../core/s3/tests/s3_server/mod.rs"]
mod s3_server;
mod several;
mod store;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::{RECORD, Record, TitlePath, document_key};
use fullbore_publish::{Progress, PublishError, Published, Publishing, publish};
use fullbore_tests::make_title;
use s3::S3Bucket;
use s3_server::S3Server;
use tempfile::TempDir;

/// A block, as in records.
const BLOCK: usize = 4 << 20;

/// A part, as publishers send it.
const PART: usize = 2 * BLOCK;

fn film(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 % 251) as u8 ^ seed).collect()
}

/// A library with the title `films/a b`.
fn library(film: &[u8]) -> TempDir {
    let library = tempfile::tempdir().unwrap();
    put_title(library.path(), "films/a b", film);
    library
}

fn put_title(library: &Path, title: &str, film: &[u8]) {
    fs::create_dir_all(library.join(title)).unwrap();
    make_title(&library.join(title), film).unwrap();
}

fn title() -> TitlePath {
    TitlePath::new("films/a b").unwrap()
}

async fn run_with(
    library: &Path,
    title: TitlePath,
    to: S3Bucket,
    patience: Duration,
) -> (Result<Published, PublishError>, Vec<Progress>) {
    let told = Arc::<Mutex<Vec<_>>>::default();
    let telling = Arc::clone(&told);
    let publishing = Publishing { library: library.to_owned(), title, to, patience };
    let done = publish(publishing, move |one| telling.lock().unwrap().push(one)).await;
    let told = std::mem::take(&mut *told.lock().unwrap());
    (done, told)
}

async fn run(library: &Path, to: S3Bucket) -> Result<Published, PublishError> {
    run_with(library, title(), to, Duration::ZERO).await.0
}

fn real(server: &S3Server) -> S3Bucket {
    S3Bucket::open_with("s3://films/hd", |name| server.variable(name)).unwrap()
}

fn told(store: &store::Store) -> S3Bucket {
    let variable = |name: &str| name.starts_with("AWS_").then(|| "us-east-1".to_owned());
    let variable = |name: &str| variable(name).filter(|_| !name.contains("ENDPOINT"));
    S3Bucket::open_with(&store.to(), variable).unwrap()
}

#[tokio::test]
async fn a_title_is_there_as_in_its_library_and_is_sent_once() {
    let (folder, library) = (tempfile::tempdir().unwrap(), library(&film(PART + 12_345, 1)));
    let server = S3Server::start(folder.path()).await;
    let (done, progress) = run_with(library.path(), title(), real(&server), Duration::ZERO).await;
    let done = done.unwrap();
    let own = library.path().join("films/a b");
    let record = Record::read(&own).unwrap();
    assert_eq!((&done.version, done.objects, done.kept_bytes), (&record.sha256, 4, 0));
    let last = progress.last().unwrap();
    assert!(
        matches!(last, Progress::Done { done_bytes, all_bytes } if done_bytes == all_bytes && *all_bytes == done.bytes)
    );
    // The bucket contains a library, and a second copy of the version's documents.
    let there = folder.path().join("films/hd");
    let entry = catalog::find(&there, &title()).unwrap().unwrap();
    assert_eq!(catalog::verify(&entry), []);
    for name in [RECORD, &record.hls, &record.dash] {
        let copy = there.join(document_key(&record.sha256, name));
        assert_eq!(fs::read(copy).unwrap(), fs::read(own.join(name)).unwrap());
    }
    let again = run(library.path(), real(&server)).await.unwrap();
    assert_eq!((again.kept_bytes, again.bytes), (done.bytes, done.bytes));
}

#[tokio::test]
async fn a_new_version_replaces_the_record_and_leaves_the_old_one_to_be_had() {
    let (folder, library) = (tempfile::tempdir().unwrap(), library(&film(1000, 1)));
    let server = S3Server::start(folder.path()).await;
    let first = run(library.path(), real(&server)).await.unwrap();
    put_title(library.path(), "films/a b", &film(1000, 2));
    let second = run(library.path(), real(&server)).await.unwrap();
    assert_ne!(first.version, second.version);
    let there = folder.path().join("films/hd");
    assert_eq!(Record::read(&there.join("films/a b")).unwrap().sha256, second.version);
    let old = fs::read(there.join(document_key(&first.version, RECORD))).unwrap();
    let old = Record::parse(&old).unwrap();
    assert_eq!(old.sha256, first.version);
    assert!(old.files.iter().filter(|file| file.path.contains('/')).all(|file| {
        let sums = catalog::sha256::of_file(&there.join("films/a b").join(&file.path)).unwrap();
        sums.whole == file.sha256
    }));
}
