//! Opens the file to ingest. It must be a regular file, and it is opened only once, so that the examined file is the decoded one, even if
//! the name leads elsewhere later.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::ingest::IngestError;

/// Opens a regular file for reading. Anything else is refused at once; opening a FIFO would block.
pub(crate) fn open(path: &Path) -> Result<File, IngestError> {
    let failed =
        |source: io::Error| IngestError::Io { what: "open", path: path.to_owned(), source };
    let refused = |kind| IngestError::NotAFile { path: path.to_owned(), kind: kind_of(kind) };
    // Checked before opening, because opening a device may have effects; and again afterwards, because the name may lead to another file by
    // then.
    let before = path.metadata().map_err(failed)?.file_type();
    if !before.is_file() {
        return Err(refused(before));
    }
    let without_waiting = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(without_waiting).open(path);
    let file = file.map_err(failed)?;
    let opened = file.metadata().map_err(failed)?.file_type();
    if opened.is_file() { Ok(file) } else { Err(refused(opened)) }
}

fn kind_of(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "folder"
    } else if kind.is_fifo() {
        "named pipe (FIFO)"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("film.mp4");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let said = |path: &Path| open(path).unwrap_err().to_string();
        assert!(said(&fifo).contains("is a named pipe (FIFO), not a file"));
        assert!(said(folder.path()).contains("is a folder, not a file"));
        assert!(said(Path::new("/dev/null")).contains("is a device, not a file"));
        assert!(said(&folder.path().join("none")).contains("cannot open"));
        let file = folder.path().join("a.mp4");
        std::fs::write(&file, "a").unwrap();
        assert!(open(&file).is_ok());
    }
}
