//! Stores that refuse, and titles that are refused.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use fullbore_publish::{Progress, PublishError};
use s3::S3Bucket;

use crate::store::{Fault, Store, error};
use crate::{BLOCK, PART, film, library, run, run_with, title, told};

#[tokio::test]
async fn whatever_refuses_is_one_line_with_what_to_do_and_nothing_is_seen() {
    let library = library(&film(1000, 1));
    let region = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>No.</Message><Region>eu-west-3</Region></Error>";
    let old = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let table = [
        (Fault::Says(403, "", error("AccessDenied")), "s3:PutObject"),
        (Fault::Says(404, "", error("NoSuchBucket")), "make the bucket"),
        (Fault::Says(400, "", region.to_owned()), "AWS_REGION=eu-west-3"),
        (
            Fault::Says(301, "x-amz-bucket-region: eu-west-3\r\n", String::new()),
            "AWS_REGION=eu-west-3",
        ),
        (Fault::Says(403, old, error("RequestTimeTooSkewed")), "clock is"),
        (Fault::Says(403, "", error("SignatureDoesNotMatch")), "correct AWS_ACCESS_KEY_ID"),
        (Fault::Says(400, "", error("ExpiredToken")), "get new ones"),
        (Fault::Says(507, "", error("XMinioStorageFull")), "make room"),
        (Fault::Says(503, "", error("SlowDown")), "run the same command again"),
        (Fault::Cut(0), "run the same command again"),
    ];
    let mut all = tokio::task::JoinSet::new();
    for (fault, advice) in table {
        let path = library.path().to_owned();
        all.spawn(async move {
            let store = Store::start();
            let (status, lines, body) = match fault {
                Fault::Says(status, lines, body) => (status, lines, body),
                Fault::Cut(_) => (0, "", String::new()),
            };
            // Reading is allowed: the first write fails.
            store.rule(move |asked| match (asked.starts_with("PUT"), status) {
                (false, _) => None,
                (true, 0) => Some(Fault::Cut(0)),
                (true, status) => Some(Fault::Says(status, lines, body.clone())),
            });
            let error = run(&path, told(&store)).await.expect_err(advice).to_string();
            assert!(error.contains(advice) && !error.contains('\n'), "{error}");
            assert!(!error.contains("X-Amz") && error.contains("s3://films/hd/"), "{error}");
            assert_eq!(store.keys(), Vec::<String>::new(), "{advice}");
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_asks_to_slow_down_is_given_time() {
    let (store, library) = (Store::start(), library(&film(1000, 1)));
    let mut left = 4;
    store.rule(move |asked| {
        let is_refused = asked.starts_with("PUT") && left > 0;
        left -= i32::from(is_refused);
        is_refused.then(|| Fault::Says(503, "", error("SlowDown")))
    });
    let patience = Duration::from_secs(60);
    let (done, progress) = run_with(library.path(), title(), told(&store), patience).await;
    done.unwrap();
    let waits = progress
        .iter()
        .filter(|one| matches!(one, Progress::Waiting { why, .. } if why.contains("SlowDown")));
    assert!(waits.count() > 0, "{progress:?}");
    crate::cuts::check_whole(&store, &library.path().join("films/a b"));
}

#[tokio::test]
async fn nobody_without_credentials_or_address_is_left_guessing() {
    let (store, library) = (Store::start(), library(&film(1000, 1)));
    store.rule(|_| Some(Fault::Says(403, "", error("AccessDenied"))));
    let nobody = S3Bucket::open_with(&store.to(), |_| None).unwrap();
    let said = run(library.path(), nobody).await.expect_err("refused").to_string();
    assert!(said.contains("no credentials were found"), "{said}");
    let gone = S3Bucket::open_with("s3://films?endpoint=http://127.0.0.1:9", |_| None).unwrap();
    let said = run(library.path(), gone).await.expect_err("no server there").to_string();
    assert!(said.contains("onnect") && said.contains("run the same command again"), "{said}");
}

#[tokio::test]
async fn a_damaged_title_is_not_published() {
    let (store, library) = (Store::start(), library(&film(PART + BLOCK, 1)));
    let own = library.path().join("films/a b");
    let record = catalog::Record::read(&own).unwrap();
    let file = fs::OpenOptions::new().write(true).open(own.join(&record.files[0].path)).unwrap();
    file.write_all_at(b"?", (PART + 7) as u64).unwrap();
    let said = run(library.path(), told(&store)).await.expect_err("damaged");
    let text = said.to_string();
    assert!(matches!(said, PublishError::Title(_)) && text.contains("in block 2"), "{text}");
    assert!(store.keys().is_empty(), "{:?}", store.keys());
    fs::write(own.join("master.m3u8"), "another").unwrap();
    let said = run(library.path(), told(&store)).await.expect_err("damaged").to_string();
    assert!(said.contains("master.m3u8 does not match"), "{said}");
    fs::remove_dir_all(&own).unwrap();
    let said = run(library.path(), told(&store)).await.expect_err("none").to_string();
    assert!(said.contains("holds no title"), "{said}");
}
