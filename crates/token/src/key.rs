//! Keys and their files.
//!
//! A key file is text with one key a line, `ID:SECRET`. The secret is lower-case hex, at least [`SECRET_BYTES_MIN`] bytes. Empty lines and
//! lines that begin with `#` are ignored. A file is refused if anybody but its owner may write it, or anybody but its owner and group may
//! read it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use aws_lc_rs::{hmac, rand};
use zeroize::Zeroizing;

use crate::token::{from_hex, is_key_id, to_hex};
use crate::{KeyError, KeyFileFault};

/// A secret is at least as long as the hash's output (RFC 2104 section 3).
const SECRET_BYTES_MIN: usize = 32;

/// The block of SHA-256: longer secrets would be hashed first (RFC 2104 section 2).
const SECRET_BYTES_MAX: usize = 64;

/// A key file is a handful of lines.
const FILE_BYTES_MAX: u32 = 64 << 10;

/// Permissions that a key file must not have: write for the group, anything for others.
const FORBIDDEN_MODE: u32 = 0o027;

/// A key with its name.
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) hmac: hmac::Key,
}

/// The keys in a file, in order; at least one.
pub(crate) fn read(path: &Path) -> Result<Vec<Key>, KeyError> {
    read_file(path).map_err(|fault| KeyError::File { file: path.to_owned(), fault })
}

fn read_file(path: &Path) -> Result<Vec<Key>, KeyFileFault> {
    let file = smallfile::open(path).map_err(KeyFileFault::Unreadable)?;
    check_mode(&file)?;
    let bytes = smallfile::read_open(file, FILE_BYTES_MAX).map_err(KeyFileFault::Unreadable)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| KeyFileFault::NotText)?;
    let keys = parse(text)?;
    if keys.is_empty() {
        return Err(KeyFileFault::Empty);
    }
    Ok(keys)
}

/// Checks the open file rather than its path, so that the file checked is the file read.
fn check_mode(file: &File) -> Result<(), KeyFileFault> {
    let mode = file.metadata().map_err(KeyFileFault::Unexamined)?.mode() & 0o777;
    if mode & FORBIDDEN_MODE != 0 {
        return Err(KeyFileFault::OpenToOthers(mode));
    }
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Key>, KeyFileFault> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let wrong = |number, wanted| KeyFileFault::Line { number, wanted };
    lines.map(|(number, line)| key(line).map_err(|wanted| wrong(number, wanted))).collect()
}

/// The key in a line; the error is what a key is.
fn key(line: &str) -> Result<Key, &'static str> {
    let (id, secret) = line.split_once(':').ok_or("a key is written ID:SECRET")?;
    if !is_key_id(id) {
        return Err("an id is 1 to 32 letters, digits, - or _");
    }
    let secret = from_hex(secret).map(Zeroizing::new).ok_or("a secret is lower-case hex digits")?;
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
        return Err("a secret has 64 to 128 hex digits");
    }
    Ok(Key { id: id.to_owned(), hmac: hmac::Key::new(hmac::HMAC_SHA256, &secret) })
}

/// Makes a new key with a random id, in a new file that only its owner may read. Returns the id.
///
/// # Errors
/// If the file already exists, since its key may be in use; or if it cannot be written.
pub fn make_key_file(path: &Path) -> Result<String, KeyError> {
    make_file(path).map_err(|fault| KeyError::File { file: path.to_owned(), fault })
}

fn make_file(path: &Path) -> Result<String, KeyFileFault> {
    let (mut id, mut secret) = ([0; 4], Zeroizing::new([0; SECRET_BYTES_MIN]));
    rand::fill(&mut id)
        .and_then(|()| rand::fill(&mut secret[..]))
        .map_err(|_| KeyFileFault::NoRandomNumbers)?;
    let id = to_hex(&id);
    let line = Zeroizing::new(format!("{id}:{}\n", *Zeroizing::new(to_hex(&secret[..]))));
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => KeyFileFault::Exists,
        _ => KeyFileFault::Unmakable(error),
    })?;
    let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Half a key is none, and would stand in the way of the next attempt. It may be gone already.
        let _ = std::fs::remove_file(path);
        KeyFileFault::Unwritable(error)
    })?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn secret() -> String {
        "5a".repeat(SECRET_BYTES_MIN)
    }

    fn ids(text: &str) -> Result<Vec<String>, String> {
        let keys = parse(text).map_err(|fault| fault.to_string())?;
        Ok(keys.into_iter().map(|key| key.id).collect())
    }

    #[test]
    fn keys_are_read_in_order_and_remarks_passed_over() {
        let s = secret();
        let text = format!("# of May\n b:{s}\r\n\na:{s}\n");
        assert_eq!(ids(&text), Ok(vec!["b".into(), "a".into()]));
    }

    #[test]
    fn a_wrong_line_is_named_and_not_repeated() {
        let s = secret();
        for (line, told) in [
            (s.clone(), "ID:SECRET"),
            (format!(":{s}"), "an id"),
            (format!("a b:{s}"), "an id"),
            (format!("a:{}", s.to_uppercase()), "lower-case"),
            (format!("a:{s}0"), "lower-case"),
            (format!("a:{}", &s[2..]), "64 to 128"),
            (format!("a:{s}{s}5a"), "64 to 128"),
        ] {
            let error = ids(&format!("\n{line}")).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(told), "{line}: {error}");
            assert!(!error.contains("5a5a"), "{error}");
        }
    }

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
    fn a_file_that_others_can_read_or_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url.key");
        make_key_file(&path).unwrap();
        for (mode, good) in [
            (0o600, true),
            (0o400, true),
            (0o640, true),
            (0o644, false),
            (0o660, false),
            (0o602, false),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = read(&path).map(|_| ());
            assert_eq!(read.is_ok(), good, "{mode:o}: {read:?}");
            if let Err(error) = read {
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        }
    }

    #[test]
    fn what_is_no_key_file_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let of = |path: &Path| read(path).map(|_| ()).unwrap_err().to_string();
        assert!(of(folder.path()).contains("is not a regular file"));
        assert!(of(&folder.path().join("none")).contains("cannot be read"));
        let path = folder.path().join("empty");
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        assert!(of(&path).contains("holds no key"));
    }
}
