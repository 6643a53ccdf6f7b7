//! Files with keys.
//!
//! A key file is text. A key of HMAC is a line, `ID:SECRET`; the secret is lower-case hex, at least [`SECRET_BYTES_MIN`] bytes. A key of
//! Ed25519 is a block of PEM (`pem.rs`). Empty lines and lines that begin with `#` are ignored. A file is rejected if any user but its owner
//! may write it, and, unless it contains only public keys, if any user outside its owner and group may read it.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use data_encoding::HEXLOWER;
use zeroize::Zeroizing;

use crate::key::Key;
use crate::pem;
use crate::token::is_key_id;
use crate::{KeyError, KeyFileFault};

/// A secret is at least as long as the hash's output (RFC 2104 section 3).
pub(crate) const SECRET_BYTES_MIN: usize = 32;

/// The block of SHA-256: longer secrets would be hashed first (RFC 2104 section 2).
const SECRET_BYTES_MAX: usize = 64;

/// A key file is a handful of lines.
const FILE_BYTES_MAX: u32 = 64 << 10;

/// Permissions that a key file must not have: write for the group and for others.
const OTHERS_WRITE: u32 = 0o022;

/// Permissions that a file with a secret must not have: anything for others.
const OTHERS_READ: u32 = 0o007;

/// The keys in a file, in order; at least one.
pub(crate) fn read(path: &Path) -> Result<Vec<Key>, KeyError> {
    read_as(path, parse, Key::is_secret)
}

/// The keys in a file of the form that `parse` reads.
pub(crate) fn read_as<K>(
    path: &Path,
    parse: impl Fn(&str) -> Result<Vec<K>, KeyFileFault>,
    is_secret: impl Fn(&K) -> bool,
) -> Result<Vec<K>, KeyError> {
    read_file(path, parse, is_secret)
        .map_err(|fault| KeyError::File { file: path.to_owned(), fault })
}

fn read_file<K>(
    path: &Path,
    parse: impl Fn(&str) -> Result<Vec<K>, KeyFileFault>,
    is_secret: impl Fn(&K) -> bool,
) -> Result<Vec<K>, KeyFileFault> {
    let file = files::open(path).map_err(KeyFileFault::Unreadable)?;
    let mode = mode(&file)?;
    if mode & OTHERS_WRITE != 0 {
        return Err(KeyFileFault::OpenToOthers(mode));
    }
    let bytes = files::read_open(file, FILE_BYTES_MAX).map_err(KeyFileFault::Unreadable)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| KeyFileFault::NotText)?;
    let keys = parse(text)?;
    if mode & OTHERS_READ != 0 && keys.iter().any(is_secret) {
        return Err(KeyFileFault::OpenToOthers(mode));
    }
    Ok(keys)
}

/// The mode of the open file rather than of its path, so that the file checked is the file read.
fn mode(file: &File) -> Result<u32, KeyFileFault> {
    let metadata = file.metadata().map_err(KeyFileFault::Unexamined)?;
    Ok(metadata.mode() & 0o777)
}

/// The keys in `text`, in order; at least one.
pub(crate) fn parse(text: &str) -> Result<Vec<Key>, KeyFileFault> {
    let mut keys = Vec::new();
    let mut lines = (1..).zip(text.lines().map(str::trim));
    while let Some((number, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = match pem::label(line) {
            Some(label) => pem::read(label, lines.by_ref().map(|(_, line)| line)),
            None => shared(line),
        };
        keys.push(key.map_err(|wanted| KeyFileFault::Line { number, wanted })?);
    }
    if keys.is_empty() { Err(KeyFileFault::Empty) } else { Ok(keys) }
}

/// Parses the key of HMAC in a line; the error describes a valid key.
fn shared(line: &str) -> Result<Key, &'static str> {
    let (id, digits) = split_shared(line)?;
    Ok(Key::hmac(id, &secret(digits)?))
}

/// The id and the digits of the secret in a line.
pub(crate) fn split_shared(line: &str) -> Result<(&str, &str), &'static str> {
    let (id, digits) = line.split_once(':').ok_or("a key is written ID:SECRET")?;
    if is_key_id(id) { Ok((id, digits)) } else { Err("an id is 1 to 32 letters, digits, - or _") }
}

/// The secret with these digits.
pub(crate) fn secret(digits: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let secret = HEXLOWER.decode(digits.as_bytes()).map(Zeroizing::new);
    let secret = secret.map_err(|_| "a secret is lower-case hex digits")?;
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
        return Err("a secret has 64 to 128 hex digits");
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{make_key_file, make_key_pair_files};
    use std::fs::{self, OpenOptions, Permissions};
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

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
    fn public_keys_may_be_read_by_all_and_changed_by_none() {
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("fleet.key"), folder.path().join("fleet.pub"));
        make_key_pair_files(&private, &public).unwrap();
        let is_read = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            read(path).is_ok()
        };
        assert!(is_read(&public, 0o644) && is_read(&public, 0o600));
        assert!(!is_read(&public, 0o664) && !is_read(&public, 0o646));
        assert!(is_read(&private, 0o640) && !is_read(&private, 0o644));
    }

    #[test]
    fn keys_of_both_kinds_may_share_a_file() {
        let text = format!("# mine\n{}a:{}\n\n", crate::NewPair::draw().unwrap().public, secret());
        let keys = parse(&text).unwrap();
        assert_eq!(keys.iter().map(Key::is_secret).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn the_text_of_a_public_key_is_never_a_secret_of_hmac() {
        let pair = crate::NewPair::draw().unwrap();
        for line in pair.public.lines().chain(pair.private.lines()) {
            assert!(parse(&format!("a:{line}")).is_err(), "{line}");
            assert!(parse(line).is_err(), "{line}");
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
