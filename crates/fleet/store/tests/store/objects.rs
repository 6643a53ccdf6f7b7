//! Objects in a folder and in S3: reads return what was written, or an error.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use fleet_protocol::Digest;
use fullbore_store::{OBJECT_BYTES_MAX, Objects, StoreError};
use s3::S3Bucket;
use tempfile::tempdir;

use crate::s3_server::S3Server;

/// The tests for both kinds; `folder` has the bytes.
async fn keep(objects: &Objects, folder: &Path) {
    let film = Bytes::from(vec![7; 100_000]);
    let digest = objects.put(film.clone()).await.expect("written");
    assert_eq!(digest, Digest::of(&film));
    assert_eq!(objects.get(&digest).await, Ok(film.clone()));
    assert_eq!(objects.put(film.clone()).await, Ok(digest), "once more");
    let none = objects.get(&Digest::of(b"none")).await.expect_err("absent");
    assert!(matches!(&none, StoreError::Unavailable(text) if !text.contains('\n')), "{none}");
    let empty = objects.put(Bytes::new()).await.expect("written");
    assert_eq!(objects.get(&empty).await, Ok(Bytes::new()));
    let large = objects.put(Bytes::from(vec![0; OBJECT_BYTES_MAX + 1])).await;
    assert!(matches!(large, Err(StoreError::TooLarge(_))));

    let name = digest.to_string();
    let file = folder.join(&name[..2]).join(&name);
    let mut bytes = fs::read(&file).expect("where it is");
    bytes[50_000] ^= 1;
    for wrong in [&bytes[..], &film[..99_999], b""] {
        fs::write(&file, wrong).expect("changed");
        let error = objects.get(&digest).await.expect_err("it is another one");
        assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    }
    objects.put(film.clone()).await.expect("written again");
    assert_eq!(objects.get(&digest).await, Ok(film));
    for _ in 0..2 {
        assert_eq!(objects.remove(&empty).await, Ok(()), "also if it is gone");
        assert!(objects.get(&empty).await.is_err());
    }
}

#[tokio::test]
async fn objects_in_a_folder_are_checked() {
    let folder = tempdir().expect("a folder");
    let place = folder.path().join("objects");
    let objects = Objects::open(place.to_str().expect("a text")).expect("objects");
    keep(&objects, &place).await;
    let left = fs::read_dir(&place).expect("a folder").flatten();
    let left = left.flat_map(|folder| fs::read_dir(folder.path()).expect("a folder").flatten());
    assert!(left.into_iter().all(|file| file.file_name().len() == 64), "nothing half-written");
}

#[tokio::test]
async fn objects_in_s3_are_checked() {
    let folder = tempdir().expect("a folder");
    let server = S3Server::start(folder.path()).await;
    let bucket = S3Bucket::open_with("s3://films/fleet", |name| server.variable(name));
    let objects = Objects::Bucket(Box::new(bucket.expect("a bucket")));
    keep(&objects, &folder.path().join("films/fleet")).await;
    server.be_deaf(true);
    let error = objects.put(Bytes::from_static(b"x")).await.expect_err("nobody there");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
}

#[test]
fn what_is_no_place_for_objects_is_refused() {
    for place in ["http://127.0.0.1/", "s3://", "/dev/null/objects"] {
        assert!(matches!(Objects::open(place), Err(StoreError::NotUsable(_))), "{place}");
    }
}
