//! Backup and restore: everything comes back, except for what was revoked or withdrawn since.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fleet_protocol::{
    Digest, HeldTitle, Name, NodeKind, NodePlace, PublishedTitle, SteeringPolicy, TitleDocument,
};
use fullbore_store::backup::{
    BackupError, Restored, Tombstones, back_up, bury, check_restored, restore,
};
use fullbore_store::records::{
    AuditRecord, FleetRecord, InviteRecord, NodeRecord, OperatorRecord, PrivateBytes, Revoked,
    RevokedNameRecord, Role, SecretRecord, StoreRecord, TitleRecord, Wanted, WithdrawnVersion,
    load, load_all,
};
use fullbore_store::{Engine, FolderStore, LEADER, Objects, StoreError, Write};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tempfile::{TempDir, tempdir};

use crate::etcd::Cluster;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// A fleet in a store, with its objects.
struct Fleet {
    engine: Arc<dyn Engine>,
    objects: Objects,
    folder: TempDir,
}

fn objects(folder: &Path) -> Objects {
    Objects::open(folder.join("objects").to_str().expect("a text")).expect("objects")
}

/// An empty fleet in a folder.
fn empty() -> Fleet {
    let folder = tempdir().expect("a folder");
    let engine = Arc::new(FolderStore::open(&folder.path().join("store")).expect("a store"));
    Fleet { engine, objects: objects(folder.path()), folder }
}

impl Fleet {
    async fn put<R: StoreRecord>(&self, of: &str, record: &R) {
        let write = record.put(of).expect("within its bounds");
        self.engine.commit(&[], &[write]).await.expect("made");
    }

    async fn get<R: StoreRecord>(&self, of: &str) -> Option<R> {
        let stored = load::<R>(self.engine.as_ref(), of).await.expect("it answers");
        stored.map(|stored| stored.record)
    }

    async fn publish(&self, path: &str, version: &str) {
        let document = async |text: &str| TitleDocument {
            path: text.to_owned(),
            sha256: self
                .objects
                .put(Bytes::from(format!("{path} {version} {text}")))
                .await
                .expect("kept"),
        };
        let published = PublishedTitle {
            path: path.to_owned(),
            version: Digest::of(version.as_bytes()),
            bytes: 1000,
            duration_seconds: 60.0,
            record: document("title.json").await,
            hls: document("master.m3u8").await,
            dash: document("manifest.mpd").await,
            origin: "file:///films".to_owned(),
            published_unix_seconds: 1,
        };
        let before = self.get::<TitleRecord>(path).await.unwrap_or_default();
        self.put(path, &TitleRecord { published: Some(published), ..before }).await;
    }

    async fn withdraw(&self, path: &str, version: &str) {
        let mut title = self.get::<TitleRecord>(path).await.unwrap_or_default();
        title.published = None;
        title.withdrawn.push(withdrawn(version));
        self.put(path, &title).await;
    }

    async fn node(&self, of: &str, serial: &str, revoked: Option<Revoked>) {
        let node = NodeRecord {
            place: NodePlace { site: name("paris"), cluster: name("paris-1"), rack: None },
            kind: NodeKind::Storage,
            host: "192.0.2.1".to_owned(),
            ceiling_bits_per_second: 1_000_000_000,
            serials: vec![serial.to_owned()],
            wanted: Wanted::Serving,
            joined_unix_seconds: 1,
            revoked,
        };
        self.put(of, &node).await;
    }

    async fn operator(&self, of: &str, revoked: Option<Revoked>) {
        let sha256 = Some(Digest::of(of.as_bytes()));
        let operator = OperatorRecord { role: Role::Admin, sha256, made_unix_seconds: 1, revoked };
        self.put(of, &operator).await;
    }

    async fn invite(&self, of: &str) {
        let invite = InviteRecord {
            sha256: Digest::of(of.as_bytes()),
            place: NodePlace { site: name("paris"), cluster: name("paris-1"), rack: None },
            kind: NodeKind::Storage,
            node: None,
            host: None,
            ceiling_bits_per_second: 0,
            made_unix_seconds: 1,
            expires_unix_seconds: 1_000,
            used: None,
        };
        self.put(of, &invite).await;
    }

    async fn secret(&self, bytes: &[u8]) {
        let pkcs8 = PrivateBytes::new(bytes.to_vec());
        let secret = SecretRecord { pkcs8, certificate_pem: None, made_unix_seconds: 1 };
        self.put("ca", &secret).await;
    }

    /// The contents that every test backs up.
    async fn fill(&self) {
        let fleet = FleetRecord {
            name: name("films"),
            epoch: 4,
            policy: SteeringPolicy::default(),
            made_unix_seconds: 1,
            restored: None,
        };
        self.put("", &fleet).await;
        self.secret(b"the first key").await;
        for node in ["n1", "n2"] {
            self.node(node, "01", None).await;
        }
        for title in ["films/a", "films/b", "films/säge"] {
            self.publish(title, "1").await;
        }
        self.operator("anna", None).await;
        self.operator("bob", None).await;
        self.invite("open").await;
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("fleet.backup")
    }

    async fn back_up(&self) {
        let done = back_up(self.engine.as_ref(), &self.objects, &self.file(), 100).await;
        let done = done.expect("backed up");
        assert_eq!((done.objects, done.lacking), (9, vec![]));
    }

    async fn restore(&self, from: &Path) -> Result<Restored, BackupError> {
        self.restore_knowing(from, &Tombstones::default()).await
    }

    async fn restore_knowing(
        &self,
        from: &Path,
        known: &Tombstones,
    ) -> Result<Restored, BackupError> {
        restore(self.engine.as_ref(), &self.objects, from, known, 200).await
    }

    async fn published(&self) -> Vec<String> {
        let (titles, bad) = load_all::<TitleRecord>(self.engine.as_ref()).await.expect("read");
        assert_eq!(bad, []);
        let titles = titles.into_iter().filter(|title| title.record.published.is_some());
        titles.map(|title| title.name).collect()
    }
}

fn withdrawn(version: &str) -> WithdrawnVersion {
    WithdrawnVersion { version: Digest::of(version.as_bytes()), since_unix_seconds: 150 }
}

fn revoked() -> Option<Revoked> {
    Some(Revoked { reason: "stolen".to_owned(), since_unix_seconds: 150 })
}

/// The store is lost: everything comes back into an empty one, with either engine.
async fn all_comes_back(into: Fleet) {
    let lost = empty();
    lost.fill().await;
    lost.back_up().await;
    let mode = fs::metadata(lost.file()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "its secrets are its user's");

    let done = into.restore(&lost.file()).await.expect("restored");
    assert_eq!((done.epoch, done.objects, done.made_unix_seconds), (5, 9, 100));
    let fleet = into.get::<FleetRecord>("").await.expect("the fleet");
    assert_eq!(fleet.epoch, 5);
    assert!(fleet.restored.is_some_and(|restored| restored.restored_unix_seconds == 200));
    assert_eq!(into.published().await, ["films/a", "films/b", "films/säge"]);
    let title = into.get::<TitleRecord>("films/a").await.and_then(|title| title.published);
    let hls = into.objects.get(&title.expect("published").hls.sha256).await.expect("kept");
    assert_eq!(hls, Bytes::from_static(b"films/a 1 master.m3u8"));
    assert!(into.get::<NodeRecord>("n1").await.is_some());
    assert!(into.get::<OperatorRecord>("anna").await.is_some());
    let secret = into.get::<SecretRecord>("ca").await.expect("the key");
    assert_eq!(secret.pkcs8.reveal(), b"the first key");
    assert!(into.get::<InviteRecord>("open").await.is_none(), "who knows who has it by now");
    let (audit, _) = load_all::<AuditRecord>(into.engine.as_ref()).await.expect("read");
    assert_eq!(audit.len(), 1, "the restore is in the log");
    assert_eq!(check_restored(into.engine.as_ref()).await, Ok(()));
}

#[tokio::test]
async fn a_lost_fleet_comes_back_into_an_empty_folder() {
    all_comes_back(empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_fleet_comes_back_into_an_empty_etcd() {
    let Some(etcd) = Cluster::start(1) else { return };
    let folder = tempdir().expect("a folder");
    let objects = objects(folder.path());
    all_comes_back(Fleet { engine: etcd.patient_store(), objects, folder }).await;
}

#[tokio::test]
async fn what_was_taken_away_since_the_backup_does_not_come_back() {
    let fleet = empty();
    fleet.fill().await;
    fleet.back_up().await;
    // Since then:
    fleet.node("n1", "02", revoked()).await;
    fleet.node("n2", "02", None).await; // its certificate was renewed
    fleet.node("n3", "01", revoked()).await; // it joined, and was revoked
    fleet.withdraw("films/a", "1").await;
    fleet.publish("films/b", "2").await;
    fleet.withdraw("films/new", "1").await;
    fleet.publish("films/newer", "1").await;
    fleet.operator("anna", revoked()).await;
    fleet.engine.commit(&[], &[Write::Delete("operator/bob".to_owned())]).await.expect("made");
    fleet.engine.commit(&[], &[Write::Delete("invite/open".to_owned())]).await.expect("made");
    fleet.secret(b"the second key").await;

    let done = fleet.restore(&fleet.file()).await.expect("restored");
    assert_eq!(done.epoch, 5);
    assert_eq!(fleet.published().await, ["films/b", "films/säge"]);
    let b = fleet.get::<TitleRecord>("films/b").await.and_then(|title| title.published);
    assert_eq!(b.expect("published").version, Digest::of(b"1"), "as it was");
    for path in ["films/a", "films/new"] {
        let title = fleet.get::<TitleRecord>(path).await.expect(path);
        assert_eq!(title.withdrawn, [withdrawn("1")], "{path}");
    }
    assert!(fleet.get::<TitleRecord>("films/newer").await.is_none());
    for node in ["n1", "n3"] {
        let node = fleet.get::<NodeRecord>(node).await.expect("it is known");
        assert_eq!(node.revoked, revoked());
    }
    let n2 = fleet.get::<NodeRecord>("n2").await.expect("it is known");
    assert_eq!((n2.serials, n2.revoked), (vec!["02".to_owned()], None));
    let anna = fleet.get::<OperatorRecord>("anna").await.expect("she is known");
    assert!(anna.revoked.is_some());
    assert!(fleet.get::<OperatorRecord>("bob").await.is_none());
    assert!(fleet.get::<InviteRecord>("open").await.is_none());
    let secret = fleet.get::<SecretRecord>("ca").await.expect("the key");
    assert_eq!(secret.pkcs8.reveal(), b"the second key");
    // Another restore raises the epoch again.
    assert_eq!(fleet.restore(&fleet.file()).await.expect("restored").epoch, 6);
    assert_eq!(fleet.published().await, ["films/b", "films/säge"]);
}

#[tokio::test]
async fn what_only_nodes_know_does_not_come_back_either() {
    let lost = empty();
    lost.fill().await;
    lost.back_up().await;
    let mut known = Tombstones { epoch: 9, ..Tombstones::default() };
    known.revoked.insert(name("n1"), revoked().expect("one"));
    known.revoked.insert(name("n8"), revoked().expect("of a node that the backup does not know"));
    let held = |path: &str| HeldTitle { path: path.to_owned(), version: Digest::of(b"1") };
    known.add_withdrawn(&[held("films/a"), held("films/x")], 150);

    let told_before = empty();
    let done = told_before.restore_knowing(&lost.file(), &known).await.expect("restored");
    assert_eq!(done.epoch, 10);
    let told_after = empty();
    assert_eq!(told_after.restore(&lost.file()).await.expect("restored").epoch, 5);
    assert_eq!(told_after.published().await.len(), 3);
    assert_eq!(bury(told_after.engine.as_ref(), &known).await, Ok(4));
    assert_eq!(bury(told_after.engine.as_ref(), &known).await, Ok(0), "it knows that already");
    for fleet in [&told_before, &told_after] {
        assert_eq!(fleet.published().await, ["films/b", "films/säge"]);
        let node = fleet.get::<NodeRecord>("n1").await.expect("it is known");
        assert_eq!(node.revoked, revoked());
        let name = fleet.get::<RevokedNameRecord>("n8").await.expect("a tombstone");
        assert_eq!(Some(name.revoked), revoked());
        let x = fleet.get::<TitleRecord>("films/x").await.expect("a tombstone");
        assert_eq!(x.withdrawn, [withdrawn("1")]);
    }
}

#[tokio::test]
async fn a_backup_that_is_not_whole_restores_nothing() {
    let lost = empty();
    lost.fill().await;
    lost.back_up().await;
    let whole = fs::read(lost.file()).expect("the backup");
    let into = empty();
    let file = into.file();
    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle] = if flipped[middle] == b'A' { b'B' } else { b'A' };
    let line = whole.iter().position(|byte| *byte == b'\n').expect("lines") + 1;
    let second = line + whole[line..].iter().position(|byte| *byte == b'\n').expect("lines") + 1;
    let without_a_line = [&whole[..line], &whole[second..]].concat();
    let longer = [&whole[..], b"{}\n"].concat();
    let newer =
        String::from_utf8_lossy(&whole).replacen("backup\":1", "backup\":2", 1).into_bytes();
    let cases: [&[u8]; 8] = [
        &whole[..middle],
        &whole[..whole.len() - 2],
        &flipped,
        &without_a_line,
        &longer,
        &newer,
        b"",
        b"{}",
    ];
    for (at, bytes) in cases.into_iter().enumerate() {
        fs::write(&file, bytes).expect("written");
        let error = into.restore(&file).await.expect_err("not whole").to_string();
        assert!(error.contains("fleet.backup") && !error.contains('\n'), "case {at}: {error}");
        assert_eq!(into.engine.revision().await, Ok(0), "case {at}: nothing was written");
    }
    fs::write(&file, &whole).expect("written");
    into.restore(&file).await.expect("restored");
}

#[tokio::test]
async fn a_restore_that_is_cut_off_is_noticed_and_run_again() {
    let lost = empty();
    lost.fill().await;
    lost.back_up().await;
    let into = empty();
    into.restore(&lost.file()).await.expect("restored");
    // The state after the process died in the middle: after the first commit.
    let begun =
        [Write::Put("restoring".to_owned(), b"{}".to_vec()), Write::Delete("node/n1".to_owned())];
    into.engine.commit(&[], &begun).await.expect("made");
    let error = check_restored(into.engine.as_ref()).await.expect_err("not whole");
    assert!(error.to_string().contains("fullbore control restore"), "{error}");
    let error = back_up(into.engine.as_ref(), &into.objects, &into.file(), 1).await;
    assert!(error.is_err(), "half a restore is no state to keep");
    into.restore(&lost.file()).await.expect("restored");
    assert_eq!(check_restored(into.engine.as_ref()).await, Ok(()));
    assert!(into.get::<NodeRecord>("n1").await.is_some());
}

#[tokio::test]
async fn no_restore_under_a_running_gateway_or_of_another_fleet() {
    let fleet = empty();
    fleet.fill().await;
    fleet.back_up().await;
    fleet.engine.lease(LEADER, "gateway", 30).await.expect("it answers");
    let error = fleet.restore(&fleet.file()).await.expect_err("it runs").to_string();
    assert!(error.contains("stop all gateways"), "{error}");
    let before = fleet.engine.revision().await;
    fleet.engine.commit(&[], &[Write::Delete(LEADER.to_owned())]).await.expect("made");
    let mut record = fleet.get::<FleetRecord>("").await.expect("the fleet");
    record.name = name("other");
    fleet.put("", &record).await;
    let error = fleet.restore(&fleet.file()).await.expect_err("another fleet").to_string();
    assert!(error.contains("the fleet films") && error.contains("the fleet other"), "{error}");
    let after = fleet.engine.revision().await;
    assert_eq!(after.ok(), before.ok().map(|before| before + 2), "only what this test wrote");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_named_and_the_rest_is_kept() {
    let fleet = empty();
    fleet.fill().await;
    let title = fleet.get::<TitleRecord>("films/a").await.and_then(|title| title.published);
    let digest = title.expect("published").hls.sha256.to_string();
    let object = fleet.folder.path().join("objects").join(&digest[..2]).join(&digest);
    fs::write(object, "another").expect("changed");
    let done = back_up(fleet.engine.as_ref(), &fleet.objects, &fleet.file(), 100).await;
    let done = done.expect("backed up");
    assert_eq!((done.objects, done.lacking.len()), (8, 1));
    assert!(done.lacking[0].contains(&digest), "{:?}", done.lacking);
    assert_eq!(empty().restore(&fleet.file()).await.expect("restored").objects, 8);
}

#[tokio::test]
async fn a_backup_that_cannot_be_written_leaves_the_last_one() {
    let fleet = empty();
    fleet.fill().await;
    fleet.back_up().await;
    let kept = fs::read(fleet.file()).expect("the backup");
    let nowhere = fleet.folder.path().join("none/fleet.backup");
    let error = back_up(fleet.engine.as_ref(), &fleet.objects, &nowhere, 1).await;
    assert!(error.expect_err("no folder").to_string().contains("There is no backup"));
    let error = back_up(empty().engine.as_ref(), &fleet.objects, &fleet.file(), 1).await;
    assert!(matches!(error, Err(BackupError::Store(StoreError::NotUsable(_)))));
    assert!(fs::read(fleet.file()).expect("the backup") == kept);
}

#[tokio::test]
async fn a_backup_replaces_no_link_pipe_socket_or_folder() {
    let fleet = empty();
    fleet.fill().await;
    let path = |name: &str| fleet.folder.path().join(name);
    let (older, link, pipe) = (path("older"), path("link"), path("pipe"));
    let (socket, folder, device) = (path("socket"), path("folder"), path("device"));
    fs::write(&older, "an older backup").expect("written");
    symlink(&older, &link).expect("linked");
    symlink(&older, path("free.part")).expect("linked");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
    let _listener = UnixListener::bind(&socket).expect("bound");
    fs::create_dir(&folder).expect("made");
    let mut cases = vec![
        (link, "a symbolic link"),
        (path("free"), "a symbolic link"),
        (pipe, "a named pipe"),
        (socket, "a socket"),
        (folder, "a folder"),
    ];
    // The numbers of /dev/null. Only root may create it, and not in every container.
    let null = makedev(1, 3);
    if mknodat(CWD, &device, FileType::CharacterDevice, Mode::RUSR, null).is_ok() {
        cases.push((device, "a device"));
    }
    for (to, what) in cases {
        let kind = |path: &Path| fs::symlink_metadata(path).map(|there| there.file_type()).ok();
        let before = kind(&to);
        let error = back_up(fleet.engine.as_ref(), &fleet.objects, &to, 1).await;
        let error = error.expect_err("refused").to_string();
        assert!(
            error.contains(&format!("is {what}")) && error.contains("name a new file"),
            "{error}"
        );
        assert_eq!(kind(&to), before, "{error}");
    }
    assert_eq!(fs::read_to_string(&older).expect("it is there"), "an older backup");
    // An older file is replaced, and the mode of a killed run's leftover has no influence.
    let left = path("older.part");
    fs::write(&left, "half").expect("written");
    fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).expect("set");
    back_up(fleet.engine.as_ref(), &fleet.objects, &older, 1).await.expect("backed up");
    let mode = fs::metadata(&older).expect("it is there").permissions().mode();
    assert_eq!((mode & 0o777, left.exists()), (0o600, false));
}
