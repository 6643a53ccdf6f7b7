//! The store in a folder: permitted places, disk faults, and several processes at once.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fullbore_store::{Engine, FolderStore, StoreError};
use fullbore_tests::{SmallDisk, tool};
use tempfile::{TempDir, tempdir};

use crate::conformance::{self, put, value};
use crate::forgetting;

fn open(folder: &Path) -> Arc<dyn Engine> {
    Arc::new(FolderStore::open(folder).expect("a store"))
}

fn refused(folder: &Path) -> StoreError {
    FolderStore::open(folder).map(|_| ()).expect_err("it is refused")
}

/// A folder that is private to its user, as stores require.
fn private() -> TempDir {
    let folder = tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("its own");
    folder
}

#[tokio::test]
async fn a_folder_does_what_every_engine_promises() {
    let folder = private();
    conformance::all((open(folder.path()), open(folder.path()))).await;
    conformance::behaves_like_a_map(&open(folder.path()), 200).await;
    let other = private();
    forgetting::all(&open(other.path())).await;
}

#[tokio::test]
async fn only_its_user_can_read_it() {
    let parent = private();
    let folder = parent.path().join("made/here");
    let store = open(&folder);
    store.commit(&[], &[put("secret/ca", "{}")]).await.expect("made");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> =
        fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("one").path()).collect();
    assert!(files.len() >= 3, "the store, its log and the machine: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    drop(store);
    fs::set_permissions(&folder, Permissions::from_mode(0o750)).expect("its own");
    let error = refused(&folder);
    assert!(
        matches!(&error, StoreError::NotUsable(text) if text.contains("chmod 0700")),
        "{error}"
    );
}

#[tokio::test]
async fn a_second_machine_is_sent_to_etcd() {
    let folder = private();
    drop(open(folder.path()));
    let note = folder.path().join("machine.json");
    let other = r#"{"machine":"of another","boot":"another"}"#;
    let this = fs::read_to_string(&note).expect("a note");
    assert!(this.contains("\"boot\":\""), "{this}");
    if this.contains("\"machine\":\"\"") {
        return tool::skip("this machine has no /etc/machine-id");
    }
    fs::write(&note, other).expect("written");
    let error = refused(folder.path());
    assert!(
        matches!(&error, StoreError::SecondMachine(text) if text.contains("--store etcd://")),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&note).expect("a note"), other, "nothing was changed");
    fs::remove_file(&note).expect("as the error says");
    open(folder.path());
}

/// A store with 500 entries, closed.
async fn closed(folder: &Path) -> PathBuf {
    let store = open(folder);
    for round in 0..5 {
        let writes: Vec<_> =
            (0..100).map(|at| put(&format!("node/{round}-{at}"), &"x".repeat(200))).collect();
        store.commit(&[], &writes).await.expect("made");
    }
    folder.join("store.db")
}

#[tokio::test]
async fn half_a_store_file_is_one_clear_error_and_stays_as_it_is() {
    let folder = private();
    let file = closed(folder.path()).await;
    let whole = fs::read(&file).expect("the store");
    assert!(whole.len() > 100_000, "all of it is in the file once the last process has left");
    for kept in [whole.len() / 2, 4096, 100, 10, 0] {
        fs::write(&file, &whole[..kept]).expect("cut");
        let error = refused(folder.path());
        assert!(
            matches!(&error, StoreError::Damaged(text) if text.contains("fullbore control restore") && !text.contains('\n')),
            "{kept} bytes: {error}"
        );
        assert!(fs::read(&file).expect("the store") == whole[..kept], "{kept} bytes are kept");
    }
    fs::remove_file(&file).expect("gone");
    assert!(matches!(refused(folder.path()), StoreError::Damaged(_)), "not a new, empty fleet");
    fs::write(&file, &whole).expect("back");
    assert_eq!(open(folder.path()).list("node/").await.expect("it answers").len(), 500);
}

#[tokio::test]
async fn a_byte_that_the_disk_changed_is_found() {
    let folder = private();
    let file = closed(folder.path()).await;
    let whole = fs::read(&file).expect("the store");
    let text = b"xxxxxxxxxx";
    let at = whole.windows(text.len()).position(|window| window == text).expect("a value");
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    fs::write(&file, &flipped).expect("flipped");
    let store = open(folder.path());
    let error = store.list("node/").await.expect_err("one of them is wrong");
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
}

#[tokio::test]
async fn a_full_disk_refuses_changes_and_loses_nothing() {
    let at = private();
    let Some(disk) = SmallDisk::mount(at.path(), 1 << 10) else { return };
    let folder = disk.path().join("store");
    let store = open(&folder);
    let mut made = Vec::new();
    let error = loop {
        let key = format!("node/{:03}", made.len());
        match store.commit(&[], &[put(&key, &"x".repeat(20_000))]).await {
            Ok(_) => made.push(key),
            Err(error) => break error,
        }
        assert!(made.len() < 1000, "the disk is never full");
    };
    assert!(!made.is_empty());
    assert!(
        matches!(&error, StoreError::Unavailable(text) if text.contains("disk is full")),
        "{error}"
    );
    let polled = store.revision().await.expect_err("the poll tells it, too");
    assert!(polled.to_string().contains("disk is full"), "{polled}");
    let keys = |list: Vec<(String, _)>| list.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(keys(store.list("node/").await.expect("reads work")), made);
    // Something else on the disk was removed: here, its limit is raised.
    let mut remount = Command::new("mount");
    remount.args(["-o", "remount,size=8m"]).arg(disk.path());
    assert!(remount.status().expect("mount").success());
    store.commit(&[], &[put("node/more", "x")]).await.expect("there is room");
    store.revision().await.expect("changes are taken again");
    drop(store);
    made.push("node/more".to_owned());
    assert_eq!(keys(open(&folder).list("node/").await.expect("it answers")), made);
}

/// Not a test by itself: the next test runs it as a process, and kills it.
#[tokio::test]
#[ignore = "run by the test below, in a process of its own"]
async fn write_without_end() {
    let Some(folder) = std::env::var_os("FULLBORE_STORE_TEST") else { return };
    let store = open(Path::new(&folder));
    for number in 0.. {
        let text = format!("{number:08}");
        store.commit(&[], &[put("one", &text), put("other", &text)]).await.expect("made");
        println!("made {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_at_any_moment_leaves_whole_commits_that_it_had_reported() {
    use std::io::{BufRead, BufReader};
    let folder = private();
    let store = open(folder.path());
    for round in 0..10 {
        let mut writer = Command::new(std::env::current_exe().expect("this test"));
        writer.args(["--exact", "folder::write_without_end", "--ignored", "--nocapture"]);
        writer.env("FULLBORE_STORE_TEST", folder.path());
        let mut writer = writer.stdout(std::process::Stdio::piped()).spawn().expect("started");
        let mut lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
        let mut reported = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("made ") {
                number.clone_into(&mut reported);
                if number.ends_with(['3', '7']) && number >= format!("{:08}", round * 3).as_str() {
                    break;
                }
            }
        }
        writer.kill().expect("killed");
        writer.wait().expect("ended");
        let after = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("made ").map(str::to_owned));
        let reported = after.last().unwrap_or(reported);
        let (one, other) = (value(&store, "one").await, value(&store, "other").await);
        assert_eq!(one, other, "half a commit");
        assert!(one.as_deref() >= Some(reported.as_str()), "{one:?} is before {reported}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_start_at_once_share_one_new_store() {
    for _ in 0..5 {
        let folder = private();
        let path = folder.path().to_owned();
        let starts: Vec<_> = (0..6)
            .map(|at| {
                let path = path.clone();
                tokio::task::spawn_blocking(move || {
                    (at, FolderStore::open(&path).expect("a store"))
                })
            })
            .collect();
        for start in starts {
            let (at, store) = start.await.expect("no panic");
            store.commit(&[], &[put(&format!("gateway/{at}"), "")]).await.expect("made");
        }
        assert_eq!(open(&path).list("gateway/").await.expect("it answers").len(), 6);
    }
}
