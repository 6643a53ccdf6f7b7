//! New keys.

use std::io::ErrorKind;
use std::path::Path;

use aws_lc_rs::rand;
use aws_lc_rs::signature::Ed25519KeyPair;
use data_encoding::HEXLOWER;
use zeroize::Zeroizing;

use crate::file::{SECRET_BYTES_MIN, read};
use crate::key::Key;
use crate::{KeyError, KeyFileFault, pem};

/// A key of HMAC may be read only by its owner.
const SECRET_MODE: u32 = 0o600;

/// A public key may be read by any user.
const PUBLIC_MODE: u32 = 0o644;

/// A new key of Ed25519, as the text of two key files.
pub struct NewPair {
    /// The id of both halves.
    pub id: String,
    /// The half that signs; servers do not need it.
    pub private: Zeroizing<String>,
    /// The half that checks.
    pub public: String,
}

impl NewPair {
    /// Generates a key.
    ///
    /// # Errors
    /// If the system returns no random numbers.
    pub fn draw() -> Result<Self, KeyFileFault> {
        let drawn = Ed25519KeyPair::generate().and_then(|pair| pair.to_pkcs8v1());
        let pkcs8 = drawn.map_err(|_| KeyFileFault::NoRandomNumbers)?;
        let key = Key::private(pkcs8.as_ref()).ok_or(KeyFileFault::NoRandomNumbers)?;
        let public = key.public_half().map(pem::write_public).unwrap_or_default();
        Ok(Self { private: pem::write_private(pkcs8.as_ref()), public, id: key.id })
    }
}

/// Makes a new key of HMAC with a random id, in a new file that only its owner may read. Returns the id.
///
/// # Errors
/// If the file already exists, since its key may be in use; or if it cannot be written.
pub fn make_key_file(path: &Path) -> Result<String, KeyError> {
    let in_file = |fault| KeyError::File { file: path.to_owned(), fault };
    let (id, line) = draw_shared().map_err(in_file)?;
    make_file(path, &line, SECRET_MODE).map_err(in_file)?;
    Ok(id)
}

/// A key of Ed25519 in two files.
#[derive(Debug, PartialEq, Eq)]
pub struct PairFiles {
    /// The id of both halves.
    pub id: String,
    /// The file for signing was already there, so only the one for checking was made.
    pub was_half_made: bool,
}

/// Makes a new key of Ed25519, each half in a new file: `private` for signing, `public` for checking. If an earlier call was interrupted between
/// the two, makes the second file.
///
/// # Errors
/// If one of the files already exists, or cannot be written; then neither is made.
pub fn make_key_pair_files(private: &Path, public: &Path) -> Result<PairFiles, KeyError> {
    let of = |file: &Path, fault| KeyError::File { file: file.to_owned(), fault };
    if private == public {
        return Err(of(private, KeyFileFault::BothHalves));
    }
    if let Some((id, text)) = missing_half(private, public) {
        make_file(public, &text, PUBLIC_MODE).map_err(|fault| of(public, fault))?;
        return Ok(PairFiles { id, was_half_made: true });
    }
    let pair = NewPair::draw().map_err(|fault| of(private, fault))?;
    make_file(private, &pair.private, SECRET_MODE).map_err(|fault| of(private, fault))?;
    if let Err(fault) = make_file(public, &pair.public, PUBLIC_MODE) {
        // Another run may have completed this pair, or only the folder could not be synced.
        let is_ours = |key: &Key| key.id == pair.id && !key.is_secret();
        let is_complete = read(public).is_ok_and(|keys| keys.iter().any(is_ours));
        if !is_complete {
            // The unused half would block the next attempt, and no one has it yet. It may be gone already.
            let _ = std::fs::remove_file(private);
        }
        if !is_complete || !matches!(fault, KeyFileFault::Exists) {
            return Err(of(public, fault));
        }
    }
    Ok(PairFiles { id: pair.id, was_half_made: false })
}

/// If only `private` exists, and holds one key of Ed25519: its id, and the text of the file for checking.
fn missing_half(private: &Path, public: &Path) -> Option<(String, String)> {
    if public.symlink_metadata().is_ok() {
        return None;
    }
    // An unusable file is reported as one that exists.
    let mut keys = read(private).ok()?;
    let key = keys.pop().filter(|key| keys.is_empty() && key.is_secret())?;
    let text = pem::write_public(key.public_half()?);
    Some((key.id, text))
}

fn draw_shared() -> Result<(String, Zeroizing<String>), KeyFileFault> {
    let (mut id, mut secret) = ([0; 4], Zeroizing::new([0; SECRET_BYTES_MIN]));
    rand::fill(&mut id)
        .and_then(|()| rand::fill(&mut secret[..]))
        .map_err(|_| KeyFileFault::NoRandomNumbers)?;
    let id = HEXLOWER.encode(&id);
    let line = Zeroizing::new(format!("{id}:{}\n", *Zeroizing::new(HEXLOWER.encode(&secret[..]))));
    Ok((id, line))
}

fn make_file(path: &Path, text: &str, mode: u32) -> Result<(), KeyFileFault> {
    // Half a key would block the next attempt, so the file gets its name only when it is complete.
    files::create(path, text.as_bytes(), mode).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => KeyFileFault::Exists,
        _ => KeyFileFault::Unmakable(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_made_key_can_be_read_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url.key");
        let id = make_key_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap()[0].id, id);
        let before = fs::read(&path).unwrap();
        let error = make_key_file(&path).unwrap_err().to_string();
        assert!(error.contains("already"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before, "the old key is still there");
    }

    #[test]
    fn a_made_pair_is_read_from_either_file_and_only_one_is_secret() {
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("fleet.key"), folder.path().join("fleet.pub"));
        let PairFiles { id, was_half_made } = make_key_pair_files(&private, &public).unwrap();
        assert!(!was_half_made);
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o600);
        let keys = [&private, &public].map(|path| read(path).unwrap().remove(0));
        assert!(keys.iter().all(|key| key.id == id));
        assert_eq!(keys.map(|key| key.is_secret()), [true, false]);
    }

    #[test]
    fn a_pair_whose_second_half_is_missing_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("fleet.key"), folder.path().join("fleet.pub"));
        let PairFiles { id, .. } = make_key_pair_files(&private, &public).unwrap();
        let before = [&private, &public].map(|path| fs::read(path).unwrap());
        fs::remove_file(&public).unwrap();
        let again = make_key_pair_files(&private, &public).unwrap();
        assert_eq!(again, PairFiles { id, was_half_made: true });
        assert_eq!([&private, &public].map(|path| fs::read(path).unwrap()), before);
        assert_eq!(fs::metadata(&public).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn only_one_key_of_ed25519_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("fleet.key"), folder.path().join("fleet.pub"));
        let pair = || NewPair::draw().unwrap();
        let shared = draw_shared().unwrap().1;
        let two = format!("{}{}", *pair().private, *pair().private);
        for text in [shared.as_str(), &two, &pair().public, "", "no key"] {
            let _ = fs::remove_file(&private);
            make_file(&private, text, SECRET_MODE).unwrap();
            let error = make_key_pair_files(&private, &public).unwrap_err().to_string();
            assert!(error.contains("fleet.key") && error.contains("already"), "{error}");
            assert!(!public.exists());
            assert_eq!(fs::read_to_string(&private).unwrap(), text);
        }
    }

    #[test]
    fn one_file_for_both_halves_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.key");
        let error = make_key_pair_files(&path, &path).unwrap_err().to_string();
        assert!(error.contains("fleet.key: is named for both halves"), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn half_a_pair_is_not_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("fleet.key"), folder.path().join("fleet.pub"));
        fs::write(&public, "something").unwrap();
        let error = make_key_pair_files(&private, &public).unwrap_err().to_string();
        assert!(error.contains("fleet.pub") && error.contains("already"), "{error}");
        assert!(!private.exists());
        assert_eq!(fs::read(&public).unwrap(), b"something");
    }
}
