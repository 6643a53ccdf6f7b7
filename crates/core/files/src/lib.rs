//! Reads small files that the operator has named: a configuration, a certificate, a key. And creates or replaces our own, so that they
//! survive a power failure.
//!
//! Such a name may lead to anything. A pipe would make its reader wait for a writer, and `/dev/zero` has no end; neither must block a
//! server that reloads its certificates. So only regular files are read, only up to a limit, and opening them never blocks.

mod folders;
mod replace;
mod stamp;
mod words;

pub use folders::make_folders;
pub use replace::{create, replace};
pub use stamp::FileStamp;
pub use words::in_plain_words;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use zeroize::Zeroizing;

/// Opens `path` for reading, if it is a regular file.
///
/// # Errors
/// Errors of opening, and `InvalidInput` for anything other than a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let no_file = || io::Error::new(ErrorKind::InvalidInput, "it is not a regular file");
    let mut options = OpenOptions::new();
    // NONBLOCK: opening a pipe succeeds without a writer, and it is refused right after. For a regular file the flag has no effect.
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        // A socket, or a missing device.
        Some(libc::ENXIO | libc::ENODEV) => no_file(),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

/// Reads `file` from its current position to its end, into memory that is wiped when dropped: it may be a secret.
///
/// # Errors
/// Errors of reading, and `FileTooLarge` for more than `bytes_max`.
pub fn read_open(file: File, bytes_max: u32) -> io::Result<Zeroizing<Vec<u8>>> {
    let bytes_max = bytes_max as usize;
    // One byte more distinguishes a file that is too large from one that just fits. Allocate everything at once, because memory that grows
    // leaves its old contents behind; unused memory costs nothing.
    let mut bytes = Zeroizing::new(Vec::with_capacity(bytes_max + 1));
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        let what = format!("it has more than {bytes_max} bytes, so it is probably the wrong file");
        return Err(io::Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// Reads the regular file at `path`.
///
/// # Errors
/// As for [`open`] and [`read_open`].
pub fn read(path: &Path, bytes_max: u32) -> io::Result<Zeroizing<Vec<u8>>> {
    read_open(open(path)?, bytes_max)
}

/// Like [`read`], for text.
///
/// # Errors
/// As for [`read`], and `InvalidData` for text that is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u32) -> io::Result<String> {
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text");
    std::str::from_utf8(&read(path, bytes_max)?).map(str::to_owned).map_err(not_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::net::UnixListener;
    use tempfile::tempdir;

    #[test]
    fn a_file_is_read_whole_up_to_its_bound() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(**read(&path, 5).unwrap(), b"12345"[..]);
        assert_eq!(read_text(&path, 6).unwrap(), "12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 6).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read(&path.join("no"), 6).unwrap_err().kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn a_link_is_followed() {
        let folder = tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "12345").unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        assert_eq!(**read(&folder.path().join("link"), 5).unwrap(), b"12345"[..]);
    }

    #[test]
    fn nobody_waits_for_what_is_no_file() {
        let folder = tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&pipe, &socket, folder.path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
            let error = read(path, 5).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}: {error}", path.display());
        }
    }
}
