//! New keys.

use std::io::ErrorKind;
use std::path::Path;

use aws_lc_rs::rand;
use aws_lc_rs::signature::Ed25519KeyPair;
use zeroize::Zeroizing;

use crate::file::SECRET_BYTES_MIN;
use crate::key::Key;
use crate::token::to_hex;
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

/// Makes a new key of Ed25519, each half in a new file: `private` for signing, `public` for checking. Returns the id.
///
/// # Errors
/// If one of the files already exists, or cannot be written; then neither is made.
pub fn make_key_pair_files(private: &Path, public: &Path) -> Result<String, KeyError> {
    let of = |file: &Path, fault| KeyError::File { file: file.to_owned(), fault };
    let pair = NewPair::draw().map_err(|fault| of(private, fault))?;
    make_file(private, &pair.private, SECRET_MODE).map_err(|fault| of(private, fault))?;
    make_file(public, &pair.public, PUBLIC_MODE).map_err(|fault| {
        // The unused half would block the next attempt, and no one has it yet. It may be gone already.
        let _ = std::fs::remove_file(private);
        of(public, fault)
    })?;
    Ok(pair.id)
}

fn draw_shared() -> Result<(String, Zeroizing<String>), KeyFileFault> {
    let (mut id, mut secret) = ([0; 4], Zeroizing::new([0; SECRET_BYTES_MIN]));
    rand::fill(&mut id)
        .and_then(|()| rand::fill(&mut secret[..]))
        .map_err(|_| KeyFileFault::NoRandomNumbers)?;
    let id = to_hex(&id);
    let line = Zeroizing::new(format!("{id}:{}\n", *Zeroizing::new(to_hex(&secret[..]))));
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
    use crate::file::read;
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
        let id = make_key_pair_files(&private, &public).unwrap();
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o600);
        let keys = [&private, &public].map(|path| read(path).unwrap().remove(0));
        assert!(keys.iter().all(|key| key.id == id));
        assert_eq!(keys.map(|key| key.is_secret()), [true, false]);
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
