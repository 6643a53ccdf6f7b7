//! A gateway's folder, with everything it needs to steer alone: its last snapshot, a copy of the store, and the documents of published titles. It
//! contains secrets, so only its owner can read the folder and its files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use fleet_protocol::{Digest, FleetSnapshot, PublicKey, Signed};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use zeroize::Zeroizing;

/// The last snapshot: its signature in hex, a line break, and its bytes.
const SNAPSHOT: &str = "snapshot";

/// The last copy of the store, without the fleet's authority.
const STORE: &str = "store.json";

/// The fleet's issues, open and ended.
const ISSUES: &str = "issues.json";

/// Each issue takes less than a KiB, and a node has at most a dozen.
const ISSUES_BYTES_MAX: u32 = 128 << 20;

/// Viewers' experience in the whole fleet.
const EXPERIENCE: &str = "experience.json";

/// 43 slots of 8 MB in memory take two or three times that as text; ordinary fleets' take a few MB.
const EXPERIENCE_BYTES_MAX: u32 = 1 << 30;

/// Messages that wait for the webhook, and the issues that it knows.
const REPORTS: &str = "webhook.json";

/// A thousand messages, and as many issues as [`ISSUES`].
const REPORTS_BYTES_MAX: u32 = 128 << 20;

/// The token of the operator that the first start creates.
const ADMIN_TOKEN: &str = "admin.token";

/// Lines of the audit log that the store has trimmed, in a current and a previous file.
const OLD_AUDIT: &str = "audit.jsonl";
const OLDER_AUDIT: &str = "audit.jsonl.1";

/// Each of the two files has at most some 200,000 lines. When the current one is full, it replaces the previous one, whose lines are lost.
const OLD_AUDIT_BYTES_MAX: u64 = 64 << 20;

const DOCUMENTS: &str = "documents";

/// A snapshot of 10,000 nodes takes 3 MB if each holds all titles. If each holds 5,000, no two of them adjacent, it takes 400 MB.
const SNAPSHOT_BYTES_MAX: u32 = 1 << 30;

const STORE_BYTES_MAX: u32 = 1 << 30;

/// The record of a large title takes a few MB.
pub(crate) const DOCUMENT_BYTES_MAX: u32 = 16 << 20;

/// Largest object that is copied here: a file with all prefixes of the internet has some 30 MB.
const OBJECT_BYTES_MAX: u32 = 64 << 20;

/// A gateway's folder.
#[derive(Clone, Debug)]
pub struct StateFolder(PathBuf);

impl StateFolder {
    /// Opens the folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn open(path: &Path) -> io::Result<Self> {
        for folder in [path.to_owned(), path.join(DOCUMENTS)] {
            files::make_folders(&folder, 0o700)?;
        }
        Ok(Self(path.to_owned()))
    }

    /// Locks the folder while the file is open. The kernel releases the lock of a process that dies.
    ///
    /// # Errors
    /// `WouldBlock` if another gateway has locked it, or an error of locking.
    pub fn lock(&self) -> io::Result<File> {
        let folder = File::open(&self.0)?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(io::Error::new(
                ErrorKind::WouldBlock,
                "another gateway uses this folder; stop it first, or give this one a folder of its own with --state DIR",
            )),
            locked => locked.map(|()| folder).map_err(io::Error::from),
        }
    }

    /// The folder, whether or not it exists.
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of the admin's token.
    pub fn admin_token(&self) -> PathBuf {
        self.0.join(ADMIN_TOKEN)
    }

    /// Saves the admin's token.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_admin_token(&self, token: &str) -> io::Result<()> {
        write(&self.admin_token(), &[token.as_bytes(), b"\n"])
    }

    /// Path of lines of the audit log that the store has trimmed.
    pub fn old_audit(&self) -> PathBuf {
        self.0.join(OLD_AUDIT)
    }

    /// Appends lines of the audit log to those already saved.
    ///
    /// # Errors
    /// Those of writing.
    pub fn append_audit(&self, lines: &str) -> io::Result<()> {
        self.append_audit_within(lines, OLD_AUDIT_BYTES_MAX)
    }

    fn append_audit_within(&self, lines: &str, bytes_max: u64) -> io::Result<()> {
        let length = match fs::metadata(self.old_audit()) {
            Ok(there) => there.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        if length > 0 && length + lines.len() as u64 > bytes_max {
            fs::rename(self.old_audit(), self.0.join(OLDER_AUDIT))?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(self.old_audit())?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        File::open(&self.0)?.sync_all()
    }

    /// Saves a snapshot.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_snapshot(&self, signed: &Signed) -> io::Result<()> {
        let signature = HEXLOWER.encode(&signed.signature);
        write(&self.0.join(SNAPSHOT), &[signature.as_bytes(), b"\n", &signed.bytes])
    }

    /// The last saved snapshot, if there is one.
    ///
    /// # Errors
    /// Those of reading, and `InvalidData` if it is damaged, or not signed by `key`.
    pub fn read_snapshot(&self, key: &PublicKey) -> io::Result<Option<(Signed, FleetSnapshot)>> {
        let Some(file) = read(&self.0.join(SNAPSHOT), SNAPSHOT_BYTES_MAX)? else { return Ok(None) };
        let damaged = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        let end = file.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| damaged("it has no signature".to_owned()))?;
        let signature = HEXLOWER_PERMISSIVE.decode(&file[..end]);
        let signature = signature.map_err(|_| damaged("its signature is damaged".to_owned()))?;
        let signed = Signed { bytes: file[end + 1..].to_vec(), signature };
        key.open(FleetSnapshot::CONTEXT, &signed).map_err(|error| damaged(error.to_string()))?;
        let snapshot = FleetSnapshot::from_bytes(&signed.bytes);
        let snapshot = snapshot.map_err(|error| damaged(error.to_string()))?;
        Ok(Some((signed, snapshot)))
    }

    /// Saves a copy of the store.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_store(&self, json: &[u8]) -> io::Result<()> {
        write(&self.0.join(STORE), &[json])
    }

    /// The saved copy of the store, if there is one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_store(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        read(&self.0.join(STORE), STORE_BYTES_MAX)
    }

    /// Saves the list of issues.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_issues(&self, json: &[u8]) -> io::Result<()> {
        write(&self.0.join(ISSUES), &[json])
    }

    /// The saved list of issues, if there is one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_issues(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        read(&self.0.join(ISSUES), ISSUES_BYTES_MAX)
    }

    /// Saves viewers' experience.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_experience(&self, json: &[u8]) -> io::Result<()> {
        write(&self.0.join(EXPERIENCE), &[json])
    }

    /// The saved experience of viewers, if there is any.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_experience(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        read(&self.0.join(EXPERIENCE), EXPERIENCE_BYTES_MAX)
    }

    /// Saves the state of reports to the webhook.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_reports(&self, json: &[u8]) -> io::Result<()> {
        write(&self.0.join(REPORTS), &[json])
    }

    /// The saved state of reports to the webhook, if there is one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_reports(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        read(&self.0.join(REPORTS), REPORTS_BYTES_MAX)
    }

    /// Saves a document.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_document(&self, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        write(&self.document(digest), &[bytes])
    }

    /// A document, if it is present and undamaged.
    pub fn read_document(&self, digest: &Digest) -> Option<Bytes> {
        let bytes = read(&self.document(digest), OBJECT_BYTES_MAX).ok()??;
        (Digest::of(&bytes) == *digest).then(|| Bytes::copy_from_slice(&bytes))
    }

    /// Removes the documents for which `is_needed` is false.
    ///
    /// # Errors
    /// Those of listing.
    pub fn remove_documents(&self, is_needed: impl Fn(&Digest) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(self.0.join(DOCUMENTS))? {
            let entry = entry?;
            let digest = entry.file_name().to_str().and_then(|name| name.parse::<Digest>().ok());
            if digest.is_none_or(|digest| !is_needed(&digest)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn document(&self, digest: &Digest) -> PathBuf {
        self.0.join(DOCUMENTS).join(digest.to_string())
    }
}

/// Reads an entire file; `None` if it does not exist.
fn read(path: &Path, bytes_max: u32) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let file = match files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Sized by the file's length: otherwise, memory for the largest permitted file would be reserved.
    let length = u32::try_from(file.metadata()?.len()).unwrap_or(u32::MAX);
    files::read_open(file, length.min(bytes_max)).map(Some)
}

/// Replaces a file atomically, one at a time: two concurrent writers of the same file would share a temporary name.
fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    // The rename is durable once the folder is synced.
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_protocol::{SigningKey, SteeringPolicy};
    use std::os::unix::fs::PermissionsExt;

    fn snapshot() -> FleetSnapshot {
        FleetSnapshot {
            version: 1,
            epoch: 1,
            gateway: "g1".parse().expect("a name"),
            number: 7,
            made_unix_millis: 1,
            policy: SteeringPolicy::default(),
            sites: Vec::new(),
            nodes: Vec::new(),
            titles: Vec::new(),
        }
    }

    #[test]
    fn a_snapshot_is_read_if_it_is_whole_and_the_fleet_s() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(&folder.path().join("a/b")).expect("made");
        let (key, _) = SigningKey::draw().expect("a key");
        assert!(state.read_snapshot(&key.public()).expect("nothing yet").is_none());
        let signed = key.sign(FleetSnapshot::CONTEXT, snapshot().to_bytes());
        state.write_snapshot(&signed).expect("written");
        let read = state.read_snapshot(&key.public()).expect("read").expect("there");
        assert_eq!(read, (signed, snapshot()));
        let (stranger, _) = SigningKey::draw().expect("a key");
        assert!(state.read_snapshot(&stranger.public()).is_err());
        let path = state.path().join(SNAPSHOT);
        let whole = fs::read(&path).expect("read");
        for cut in [0, 1, 64, 128, 129, whole.len() - 1] {
            fs::write(&path, &whole[..cut]).expect("written");
            assert!(state.read_snapshot(&key.public()).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_is_kept_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(&folder.path().join("state")).expect("made");
        state.write_admin_token("secret").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(state.path()), mode(&state.admin_token())), (0o700, 0o600));
    }

    #[test]
    fn two_who_write_the_same_file_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(folder.path()).expect("made");
        let texts = [vec![b'a'; 100_000], vec![b'b'; 10]];
        std::thread::scope(|scope| {
            for text in &texts {
                scope.spawn(|| (0..50).for_each(|_| state.write_store(text).expect("written")));
            }
        });
        let kept = state.read_store().expect("read").expect("there");
        assert!(texts.iter().any(|text| text[..] == kept[..]), "{} bytes", kept.len());
    }

    #[test]
    fn old_lines_of_the_audit_log_take_bounded_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(folder.path()).expect("made");
        for line in 0..50 {
            state.append_audit_within(&format!("{line:07}\n"), 80).expect("written");
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("there");
        let lines: Vec<_> = (30..50).map(|line| format!("{line:07}\n")).collect();
        assert_eq!(
            (read(OLDER_AUDIT), read(OLD_AUDIT)),
            (lines[..10].concat(), lines[10..].concat())
        );
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 3, "and documents");
    }

    #[test]
    fn a_damaged_document_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(folder.path()).expect("made");
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        state.write_document(&one, b"one").expect("written");
        state.write_document(&other, b"else").expect("written");
        assert_eq!(state.read_document(&one).as_deref(), Some(b"one".as_slice()));
        assert_eq!(state.read_document(&other), None);
        state.remove_documents(|digest| *digest == one).expect("removed");
        assert!(state.read_document(&one).is_some() && !state.document(&other).exists());
    }
}
