//! Several publishers at once.

use std::fs;

use catalog::{RECORD, Record, TitlePath, document_key};
use fullbore_publish::{Progress, PublishError};
use s3::S3Bucket;
use std::time::Duration;

use crate::cuts::check_whole;
use crate::s3_server::S3Server;
use crate::store::{Fault, Store};
use crate::{PART, film, library, put_title, real, run, run_with, title, told};

#[tokio::test]
async fn two_publishers_of_one_version_both_end_whole() {
    let library = library(&film(3 * PART, 1));
    let store = Store::start();
    let (one, other) =
        tokio::join!(run(library.path(), told(&store)), run(library.path(), told(&store)));
    assert_eq!(
        (one.unwrap().bytes, other.is_ok()),
        (3 * PART as u64 + small_bytes(&library), true)
    );
    check_whole(&store, &library.path().join("films/a b"));
    // One publisher may have begun an upload that another one made unnecessary; it is not visible.
    assert!(store.unfinished() <= 1);
}

/// Bytes of a title's documents.
fn small_bytes(library: &tempfile::TempDir) -> u64 {
    let own = library.path().join("films/a b");
    let record = Record::read(&own).unwrap();
    let all = [RECORD, &record.hls, &record.dash];
    all.map(|name| fs::metadata(own.join(name)).unwrap().len()).iter().sum()
}

#[tokio::test]
async fn two_publishers_of_two_titles_do_not_know_of_each_other() {
    let (folder, library) = (tempfile::tempdir().unwrap(), library(&film(PART + 1, 1)));
    put_title(library.path(), "films/c", &film(PART + 1, 2));
    let server = S3Server::start(folder.path()).await;
    let other = TitlePath::new("films/c").unwrap();
    let (one, (two, _)) = tokio::join!(
        run(library.path(), real(&server)),
        run_with(library.path(), other.clone(), real(&server), Duration::ZERO)
    );
    assert!(one.is_ok() && two.is_ok());
    for title in [title(), other] {
        let entry = catalog::find(&folder.path().join("films/hd"), &title).unwrap().unwrap();
        assert_eq!(catalog::verify(&entry), [], "{title}");
    }
}

/// The manifests in the title's folder belong to the record there, and both versions are available.
fn check_settled(read: &dyn Fn(&str) -> Vec<u8>, versions: &[&str]) {
    let record = Record::parse(&read(&format!("films/a b/{RECORD}"))).unwrap();
    assert!(versions.contains(&record.sha256.as_str()));
    for file in &record.files {
        let sum = catalog::sha256::of_bytes(&read(&format!("films/a b/{}", file.path)));
        assert_eq!(sum, file.sha256, "{}", file.path);
    }
    for version in versions {
        let record = Record::parse(&read(&document_key(version, RECORD))).unwrap();
        assert_eq!(record.sha256, *version);
    }
}

async fn race(to: impl Fn() -> S3Bucket, read: &dyn Fn(&str) -> Vec<u8>) -> usize {
    let (one, other) = (library(&film(10_000, 1)), library(&film(10_000, 2)));
    let version = |library: &tempfile::TempDir| {
        Record::read(&library.path().join("films/a b")).unwrap().sha256
    };
    let done = tokio::join!(run(one.path(), to()), run(other.path(), to()));
    let done = [done.0, done.1];
    for error in done.iter().filter_map(|done| done.as_ref().err()) {
        assert!(matches!(error, PublishError::Overtaken(_)), "{error}");
    }
    check_settled(read, &[&version(&one), &version(&other)]);
    done.iter().filter(|done| done.is_ok()).count()
}

#[tokio::test]
async fn of_two_versions_at_once_one_wins_and_what_is_seen_belongs_together() {
    // In a store without conditions, the last write wins.
    for begin in [Store::start, Store::without_conditions] {
        for _ in 0..10 {
            let store = begin();
            let read = |key: &str| store.object(key).unwrap_or_else(|| panic!("{key} is missing"));
            assert!(race(|| told(&store), &read).await >= 1);
        }
    }
}

#[tokio::test]
async fn a_publisher_that_was_overtaken_says_so_and_a_store_without_conditions_takes_it() {
    let store = Store::start();
    let (one, other) = (library(&film(1000, 1)), library(&film(1000, 2)));
    // The other one publishes while this one is at its last step.
    store.rule(|asked| {
        let is_record = asked == "PUT /films/hd/films/a b/title.json";
        is_record.then(|| Fault::Says(412, "", crate::store::error("PreconditionFailed")))
    });
    let (ended, progress) = run_with(one.path(), title(), told(&store), Duration::ZERO).await;
    let ended = ended.expect_err("it is too late");
    assert!(ended.to_string().contains("run the same command again to replace it"), "{ended}");
    let is_all = |one: &Progress| matches!(one, Progress::Done { done_bytes, all_bytes } if done_bytes == all_bytes);
    assert!(!progress.iter().any(is_all), "its record is not there: {progress:?}");
    let mut refused = 0;
    store.rule(move |asked| {
        refused += usize::from(asked.starts_with("PUT"));
        let is_first = asked.starts_with("PUT") && refused == 1;
        is_first.then(|| Fault::Says(501, "", crate::store::error("NotImplemented")))
    });
    run(other.path(), told(&store)).await.unwrap();
    check_whole(&store, &other.path().join("films/a b"));
}
