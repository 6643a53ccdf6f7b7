//! Origins: where titles are published.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use catalog::{BLOCK_BYTES, FileRecord, TitlePath, document_key, object_key};
use fleet_protocol::{Digest, OriginKind, OriginRoot};
use s3::{S3Bucket, S3Error};
use tokio::runtime::Runtime;

use super::HoldingOptions;
use super::block_file::{BlockBuffer, BlockFile};
use super::error::HoldingError;
use super::web_origin::WebOrigin;

/// The origin of one title.
pub(crate) trait Origin {
    /// Reads `count` bytes, at most a block, of a file of the title, from `offset` on, which is the start of a block.
    fn read(
        &self,
        file: &FileRecord,
        offset: u64,
        count: usize,
        into: &mut BlockBuffer,
    ) -> Result<(), HoldingError>;

    /// Reads all of a small file.
    fn small(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, HoldingError>;
}

/// Opens the origin of a version of the title at `title`, in the library whose root is `root`, if this node may copy from there.
pub(crate) fn origin(
    root: &str,
    title: &TitlePath,
    version: &Digest,
    options: &HoldingOptions,
) -> Result<Box<dyn Origin>, HoldingError> {
    let root: OriginRoot = root
        .parse()
        .map_err(|why| HoldingError::Origin(format!("cannot copy from {root:?}: {why}")))?;
    if !root.is_allowed(&options.origins) {
        let root = root.as_str();
        return Err(HoldingError::Origin(format!(
            "this node may not copy from {root}: start it with fullbore node --origin {root}, in addition to its other origins"
        )));
    }
    Ok(match root.kind() {
        OriginKind::Folder => {
            let path = root.as_str().trim_start_matches("file://");
            Box::new(FolderOrigin::open(&title.folder(Path::new(path)))?)
        }
        OriginKind::Bucket => Box::new(S3Origin::open(root.as_str(), title, version)?),
        OriginKind::Web => Box::new(WebOrigin::new(&root, title, version, &options.trust)?),
    })
}

/// A folder on a disk of this machine, or on a share.
struct FolderOrigin {
    path: PathBuf,
    folder: File,
    /// The file that was read last, and is most likely read next.
    last: RefCell<Option<(String, BlockFile)>>,
}

impl FolderOrigin {
    fn open(path: &Path) -> Result<Self, HoldingError> {
        let folder = File::open(path).map_err(|error| failed(path, &error))?;
        Ok(Self { path: path.to_owned(), folder, last: RefCell::default() })
    }
}

fn failed(path: &Path, error: &io::Error) -> HoldingError {
    HoldingError::Origin(format!("cannot read {} of the origin: {error}", path.display()))
}

impl Origin for FolderOrigin {
    fn read(
        &self,
        FileRecord { path, .. }: &FileRecord,
        offset: u64,
        count: usize,
        into: &mut BlockBuffer,
    ) -> Result<(), HoldingError> {
        let place = || self.path.join(path);
        let mut last = self.last.borrow_mut();
        let file = match last.take() {
            Some((name, file)) if name == *path => file,
            _ => BlockFile::open(&self.folder, path).map_err(|error| failed(&place(), &error))?,
        };
        let read = file.read(offset, into).map_err(|error| failed(&place(), &error))?;
        *last = Some((path.clone(), file));
        if read < count {
            let why = io::Error::new(io::ErrorKind::UnexpectedEof, "it is too short");
            return Err(failed(&place(), &why));
        }
        Ok(())
    }

    fn small(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, HoldingError> {
        let failed = |error: &io::Error| failed(&self.path.join(path), error);
        let file = BlockFile::open(&self.folder, path).map_err(|error| failed(&error))?;
        let (mut bytes, mut buffer) = (Vec::new(), BlockBuffer::new());
        loop {
            let count =
                file.read(bytes.len() as u64, &mut buffer).map_err(|error| failed(&error))?;
            bytes.extend_from_slice(buffer.first(count));
            if bytes.len() as u64 > bytes_max {
                return Err(failed(&io::ErrorKind::FileTooLarge.into()));
            }
            if (count as u64) < BLOCK_BYTES {
                return Ok(bytes);
            }
        }
    }
}

/// An S3 bucket. Its credentials are in the agent's environment.
struct S3Origin {
    bucket: S3Bucket,
    title: TitlePath,
    version: String,
    /// The copier waits for each answer, so one thread is enough.
    runtime: Runtime,
}

impl S3Origin {
    fn open(root: &str, title: &TitlePath, version: &Digest) -> Result<Self, HoldingError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| HoldingError::Origin(format!("cannot reach S3: {error}")))?;
        let bucket = S3Bucket::open(root)?;
        Ok(Self { bucket, title: title.clone(), version: version.to_string(), runtime })
    }

    /// Reads the file at `path` under one of its names. A version's document has its own name, unless a library was copied into the bucket
    /// by other means. Stores may answer "refused" for an object that does not exist.
    fn read_named(
        &self,
        path: &str,
        read: impl AsyncFn(&str) -> Result<Bytes, S3Error>,
    ) -> Result<Bytes, HoldingError> {
        let plain = object_key(&self.title, path);
        let read = async {
            if path.contains('/') {
                return read(&plain).await;
            }
            match read(&document_key(&self.version, path)).await {
                Err(S3Error::Absent(_) | S3Error::Refused(_)) => read(&plain).await,
                read => read,
            }
        };
        Ok(self.runtime.block_on(read)?)
    }
}

impl From<S3Error> for HoldingError {
    fn from(error: S3Error) -> Self {
        Self::Origin(format!("cannot read from the origin: {error}"))
    }
}

impl Origin for S3Origin {
    fn read(
        &self,
        FileRecord { path, .. }: &FileRecord,
        offset: u64,
        count: usize,
        into: &mut BlockBuffer,
    ) -> Result<(), HoldingError> {
        let bytes =
            self.read_named(path, async |key| self.bucket.get_range(key, offset, count).await)?;
        if bytes.len() != count {
            let title = &self.title;
            return Err(HoldingError::Origin(format!("{title}/{path} is too short at the origin")));
        }
        into.first_mut(count).copy_from_slice(&bytes);
        Ok(())
    }

    fn small(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, HoldingError> {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let read = self.read_named(path, async |key| self.bucket.get(key, bytes_max).await);
        Ok(read?.to_vec())
    }
}
