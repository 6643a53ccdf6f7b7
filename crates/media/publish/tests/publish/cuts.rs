//! Uploads that are interrupted at any point.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use catalog::{RECORD, Record};
use s3::S3Bucket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::s3_server::S3Server;
use crate::store::{Fault, Store};
use crate::{BLOCK, PART, film, library, run, title, told};

/// A proxy that forwards a number of bytes to a server, and then disappears.
struct Line {
    address: SocketAddr,
    left_bytes: Arc<AtomicI64>,
}

impl Line {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let left_bytes = Arc::new(AtomicI64::new(i64::MAX));
        let left = Arc::clone(&left_bytes);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass(near, server, Arc::clone(&left)));
            }
        });
        Self { address, left_bytes }
    }
}

async fn pass(near: TcpStream, server: SocketAddr, left: Arc<AtomicI64>) {
    let Ok(far) = TcpStream::connect(server).await else { return };
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let up = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from_near.read(&mut buffer).await {
            let before = left.fetch_sub(count as i64, Ordering::Relaxed);
            let fits = usize::try_from(before.clamp(0, count as i64)).unwrap();
            if to_far.write_all(&buffer[..fits]).await.is_err() || fits < count {
                return;
            }
        }
    };
    // The first to end ends both.
    tokio::select! {
        () = up => {}
        _ = tokio::io::copy(&mut from_far, &mut to_near) => {}
    }
}

/// Checks that everything visible of the title is complete.
fn check_what_is_seen(there: &Path) {
    let folder = there.join("films/a b");
    assert!(!folder.join(RECORD).exists(), "a record of a title that did not arrive");
    for name in ["master.m3u8", "manifest.mpd"] {
        // Its line or element refers to the film.
        let Ok(text) = fs::read_to_string(folder.join(name)) else { continue };
        let at = text.find("v-").unwrap();
        let path = text[at..].split(['\n', '<']).next().unwrap();
        let bytes = fs::metadata(folder.join(path)).unwrap().len();
        assert_eq!(bytes, (PART + 12_345) as u64, "{name} names a film that is not whole");
    }
}

async fn cut_and_finish(at: i64) {
    let folder = tempfile::tempdir().unwrap();
    let library = library(&film(PART + 12_345, 3));
    let server = S3Server::start(folder.path()).await;
    let endpoint = server.variable("AWS_ENDPOINT_URL").unwrap();
    let line = Line::to(endpoint.trim_start_matches("http://").parse().unwrap()).await;
    let over_line = || {
        let address = format!("http://{}", line.address);
        let variable = |name: &str| match name {
            "AWS_ENDPOINT_URL" => Some(address.clone()),
            _ => server.variable(name),
        };
        S3Bucket::open_with("s3://films/hd", variable).unwrap()
    };
    line.left_bytes.store(at, Ordering::Relaxed);
    let there = folder.path().join("films/hd");
    let error = run(library.path(), over_line()).await.expect_err("the line was cut").to_string();
    assert!(error.contains("run the same command again"), "{error}");
    assert!(!error.contains("X-Amz"), "{error}");
    check_what_is_seen(&there);
    line.left_bytes.store(i64::MAX, Ordering::Relaxed);
    run(library.path(), over_line()).await.unwrap_or_else(|error| panic!("cut at {at}: {error}"));
    let entry = catalog::find(&there, &title()).unwrap().unwrap();
    assert_eq!(catalog::verify(&entry), [], "cut at {at}");
}

#[tokio::test]
async fn an_upload_that_is_cut_at_any_byte_shows_nothing_and_the_next_one_finishes_it() {
    let seed = fastrand::u64(..);
    let mut drawn = fastrand::Rng::with_seed(seed);
    eprintln!("seed {seed}");
    // In all a little more than the film; the small requests at the end are worth more draws than their bytes.
    let (film, more) = ((PART + 12_345) as i64, 3000);
    let early = (0..4).map(|_| drawn.i64(0..film)).collect::<Vec<_>>();
    let late = (0..8).map(|_| drawn.i64(film..film + more)).collect::<Vec<_>>();
    let mut all = JoinSet::new();
    for at in early.into_iter().chain(late) {
        all.spawn(cut_and_finish(at));
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn parts_that_have_arrived_are_not_sent_again() {
    let store = Store::start();
    let library = library(&film(4 * PART + BLOCK, 4));
    store.rule(|asked| asked.contains("partNumber=4").then_some(Fault::Cut(BLOCK)));
    let error = run(library.path(), told(&store)).await.expect_err("it is cut").to_string();
    assert!(error.contains("run the same command again"), "{error}");
    assert!(store.keys().is_empty() && store.unfinished() == 1, "{:?}", store.keys());
    store.behave();
    store.asked();
    let done = run(library.path(), told(&store)).await.unwrap();
    assert_eq!(done.kept_bytes, 3 * PART as u64);
    let asked = store.asked();
    let parts: Vec<_> = asked
        .iter()
        .filter(|asked| asked.starts_with("PUT") && asked.contains("partNumber"))
        .collect();
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert_eq!(store.unfinished(), 0);
    check_whole(&store, &library.path().join("films/a b"));
}

/// Checks that the store has all files of the title at `own`.
pub(crate) fn check_whole(store: &Store, own: &Path) {
    let record = Record::read(own).unwrap();
    for path in record.files.iter().map(|file| file.path.as_str()).chain([RECORD]) {
        let there = store.object(&format!("films/a b/{path}"));
        assert!(there.as_deref() == Some(&fs::read(own.join(path)).unwrap()[..]), "{path}");
    }
}
