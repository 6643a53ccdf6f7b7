//! The client against a real server, `s3s-fs`.

use bytes::Bytes;
use fullbore_s3::{PutTerms, S3Bucket, S3Error, S3Object};
use tempfile::tempdir;

mod s3_server;
use s3_server::S3Server;

fn bytes(count: usize) -> Bytes {
    (0..count).map(|at| (at * 7 % 251) as u8).collect()
}

#[tokio::test]
async fn what_is_written_is_read_whole_and_in_parts() {
    let folder = tempdir().expect("a folder");
    let server = S3Server::start(folder.path()).await;
    let bucket = S3Bucket::open_with("s3://films/hd", |name| server.variable(name)).expect("open");
    let film = bytes(3_000_000);
    bucket.put("a b/säge+1.mp4", film.clone()).await.expect("written");
    assert_eq!(
        std::fs::read(folder.path().join("films/hd/a b/säge+1.mp4")).expect("on disk"),
        film
    );
    assert_eq!(bucket.size("a b/säge+1.mp4").await, Ok(Some(3_000_000)));
    assert_eq!(bucket.get("a b/säge+1.mp4", 3_000_000).await, Ok(film.clone()));
    assert_eq!(
        bucket.get_range("a b/säge+1.mp4", 1_000_000, 5).await,
        Ok(film.slice(1_000_000..1_000_005))
    );
    let end = bucket.get_range("a b/säge+1.mp4", 2_999_990, 100).await;
    assert_eq!(end, Ok(film.slice(2_999_990..)));
    let error = bucket.get("a b/säge+1.mp4", 2_999_999).await.expect_err("a byte too many");
    assert!(matches!(error, S3Error::TooLarge(_)), "{error}");
}

#[tokio::test]
async fn what_is_absent_or_refused_is_told_apart() {
    let folder = tempdir().expect("a folder");
    let server = S3Server::start(folder.path()).await;
    let bucket = S3Bucket::open_with("s3://films", |name| server.variable(name)).expect("open");
    assert_eq!(bucket.size("none").await, Ok(None));
    let error = bucket.get("none", 10).await.expect_err("absent");
    assert!(matches!(&error, S3Error::Absent(text) if text.contains("s3://films/none")), "{error}");

    let other = |name: &str| match name {
        "AWS_SECRET_ACCESS_KEY" => Some("wrong".to_owned()),
        _ => server.variable(name),
    };
    let stranger = S3Bucket::open_with("s3://films", other).expect("open");
    let error = stranger.put("mine", bytes(10)).await.expect_err("a wrong signature");
    assert!(
        matches!(&error, S3Error::Refused(text) if text.contains("SignatureDoesNotMatch")),
        "{error}"
    );
    assert!(!folder.path().join("films/mine").exists());
}

#[tokio::test]
async fn a_server_that_comes_back_within_the_tries_is_not_noticed() {
    let folder = tempdir().expect("a folder");
    let server = S3Server::start(folder.path()).await;
    let bucket = S3Bucket::open_with("s3://films", |name| server.variable(name)).expect("open");
    server.be_deaf(true);
    let error = bucket.put("a", bytes(10)).await.expect_err("no server there");
    assert!(matches!(&error, S3Error::Unavailable(text) if !text.contains("X-Amz")), "{error}");

    let (written, ()) = tokio::join!(bucket.put("a", bytes(10)), async {
        server.turned_away().await;
        server.be_deaf(false);
    });
    assert_eq!(written, Ok(()));
    assert_eq!(bucket.get("a", 10).await, Ok(bytes(10)));
}

#[tokio::test]
async fn an_object_in_parts_is_seen_when_it_is_put_together_and_keeps_its_sum() {
    let folder = tempdir().expect("a folder");
    let server = S3Server::start(folder.path()).await;
    let bucket = S3Bucket::open_with("s3://films/hd", |name| server.variable(name)).expect("open");
    let film = bytes(12_000_000);
    let terms = PutTerms { sha256: Some("ab".repeat(32)), ..PutTerms::default() };
    let upload = bucket.begin_upload("a b", &terms).await.expect("begun");
    let mut parts = Vec::new();
    for (number, part) in (1..).zip(film.chunks(6_000_000)) {
        assert_eq!(bucket.look("a b").await, Ok(None), "before part {number}");
        let part = film.slice_ref(part);
        parts.push(bucket.put_part("a b", &upload, number, part).await.expect("a part"));
    }
    bucket.finish_upload("a b", &upload, &parts).await.expect("put together");
    assert_eq!(bucket.get("a b", film.len()).await, Ok(film));
    let there = S3Object { bytes: 12_000_000, sha256: terms.sha256.clone() };
    assert_eq!(bucket.look("a b").await, Ok(Some(there)));
    // It keeps no list of unfinished uploads, and reports that.
    assert!(matches!(bucket.uploads("a b").await, Err(S3Error::Unsupported(_))));

    let error = bucket.put_with("wrong", bytes(10), &terms).await.expect_err("other bytes");
    assert!(matches!(&error, S3Error::Refused(text) if text.contains("BadDigest")), "{error}");
}
