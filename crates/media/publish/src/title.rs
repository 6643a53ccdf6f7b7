//! Reads the title on the disk: its record, and its bytes, each block verified by its SHA-256.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use catalog::{BLOCK_BYTES, FileRecord, RECORD, Record, TitlePath, sha256};

use crate::PublishError;

/// Manifests of long films have a few hundred kB.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// A small file that is published under two names: a manifest, or the record.
pub(crate) struct Document {
    /// Relative to the title's folder.
    pub(crate) path: String,
    pub(crate) bytes: Bytes,
    pub(crate) sha256: String,
}

/// A title with a valid record.
pub(crate) struct Whole {
    folder: PathBuf,
    pub(crate) record: Record,
    /// The HLS playlist, the DASH manifest and the record.
    pub(crate) documents: [Document; 3],
}

impl Whole {
    /// Reads the title's record and manifests.
    pub(crate) fn read(library: &Path, title: &TitlePath) -> Result<Self, PublishError> {
        let wrong =
            |why: String| PublishError::Title(format!("{title} cannot be published: {why}"));
        let found = catalog::find(library, title).map_err(|unread| wrong(unread.to_string()))?;
        let entry = found.ok_or_else(|| {
            let library = library.display();
            wrong(format!("{library} holds no title of that name made by ingest"))
        })?;
        let folder = entry.folder;
        // Both from the same bytes, so that a title that is replaced meanwhile is read as the old one or the new one.
        let bytes = read_document(&folder, RECORD).map_err(wrong)?;
        let record = Record::parse(&bytes).map_err(|why| wrong(format!("{RECORD}: {why}")))?;
        check_form(&record, title).map_err(wrong)?;
        let of_record =
            Document { path: RECORD.to_owned(), sha256: sha256::of_bytes(&bytes), bytes };
        let hls = manifest(&folder, &record, &record.hls).map_err(wrong)?;
        let dash = manifest(&folder, &record, &record.dash).map_err(wrong)?;
        Ok(Self { folder, record, documents: [hls, dash, of_record] })
    }

    /// The files in the version's folder: all except the documents.
    pub(crate) fn version_files(&self) -> impl Iterator<Item = &FileRecord> {
        let Record { hls, dash, .. } = &self.record;
        self.record.files.iter().filter(move |file| file.path != *hls && file.path != *dash)
    }

    /// The size of all files, including the record.
    pub(crate) fn bytes(&self) -> u64 {
        self.record.bytes() + self.documents[2].bytes.len() as u64
    }

    /// Reads `count` bytes of a file from `offset` on, which is the start of a block. Blocking; call it on a thread that may block.
    pub(crate) fn piece(
        &self,
        file: &FileRecord,
        offset: u64,
        count: usize,
    ) -> Result<Bytes, PublishError> {
        let damaged = |what: &dyn std::fmt::Display| {
            let (title, path) = (&self.record.title, &file.path);
            PublishError::Title(format!(
                "{title} is damaged: {path} {what}: see \"fullbore library verify\", then ingest it again or restore it"
            ))
        };
        let mut bytes = vec![0; count];
        let open = File::open(self.folder.join(&file.path));
        open.and_then(|open| open.read_exact_at(&mut bytes, offset))
            .map_err(|error| damaged(&format!("cannot be read: {error}")))?;
        let sums = file.blocks_sha256.iter().flatten().skip((offset / BLOCK_BYTES) as usize);
        for (index, (block, sum)) in bytes.chunks(BLOCK_BYTES as usize).zip(sums).enumerate() {
            if sha256::of_bytes(block) != *sum {
                let index = offset / BLOCK_BYTES + index as u64;
                return Err(damaged(&format!("does not match its SHA-256 in block {index}")));
            }
        }
        Ok(bytes.into())
    }
}

/// Checks the properties of a record that nodes require for copying a title.
fn check_form(record: &Record, title: &TitlePath) -> Result<(), String> {
    if !record.has_blocks() {
        return Err(format!(
            "its {RECORD} has no block checksums, so nodes could not verify their copies: run \"fullbore library verify {title} --complete\""
        ));
    }
    let below = format!("{}/", record.folder);
    let is_document = |path: &str| path == record.hls || path == record.dash;
    let odd =
        record.files.iter().find(|file| !file.path.starts_with(&below) && !is_document(&file.path));
    match odd {
        None if catalog::is_version(record.folder.as_bytes()) => Ok(()),
        _ => Err(format!("its {RECORD} is not as ingest makes it: ingest the title again")),
    }
}

fn read_document(folder: &Path, path: &str) -> Result<Bytes, String> {
    let read = files::read(&folder.join(path), DOCUMENT_BYTES_MAX as u32);
    let bytes = read.map_err(|error| format!("{path} cannot be read: {error}"))?;
    Ok(Bytes::copy_from_slice(&bytes))
}

fn manifest(folder: &Path, record: &Record, path: &str) -> Result<Document, String> {
    let bytes = read_document(folder, path)?;
    let sha256 = sha256::of_bytes(&bytes);
    let is_listed = record.files.iter().any(|file| file.path == path && file.sha256 == sha256);
    match is_listed {
        true => Ok(Document { path: path.to_owned(), bytes, sha256 }),
        false => Err(format!(
            "{path} does not match its SHA-256: see \"fullbore library verify\", then ingest the title again or restore it"
        )),
    }
}
