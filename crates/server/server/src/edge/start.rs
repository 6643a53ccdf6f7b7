//! Starts the helper, while the server may still start programs.

use super::link::EdgeLink;
use crate::start_error::StartError;
use config::Config;
use edge::contract::passed_bytes_max;
use edge::credentials::HandedOn;
use edge::fetcher::OriginSpread;
use edge::origin_files::OriginFilesLink;
use edge::{origin_files, rules};
use helper_process::packets;
use rustix::fs::{FlockOperation, flock, statvfs};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A started helper, before there are threads that talk to it.
pub(crate) struct Starting {
    socket: OwnedFd,
    /// Keeps other servers off the cache.
    lock: File,
    /// The size limit of the cache.
    bytes_max: u64,
    /// The origins, as the operator knows them.
    origins: Vec<String>,
    origin_files: Option<OriginFilesLink>,
}

impl Starting {
    /// Starts the helper, if `config` has origins.
    ///
    /// # Errors
    /// If the cache cannot be used, or no program can be started.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>, StartError> {
        let (true, Some(cache)) = (config.edge.is_on(), &config.edge.cache) else {
            return Ok(None);
        };
        let cannot = |why| StartError::Cache { cache: cache.clone(), why };
        let lock = open(cache).map_err(cannot)?;
        let helper = |why| StartError::Helper { why };
        // The helper needs this, too: without it the server would report ready, and its helper could never begin.
        edge::fetcher::prepare(cache).map_err(cannot)?;
        edge::check_files(&config.edge.origin).map_err(helper)?;
        for warning in config.edge.origin.iter().filter_map(|origin| origin.unencrypted()) {
            eprintln!("fullbore: {warning}");
        }
        let bytes_max = match config.edge.cache_gib {
            0.0 => room(cache).map_err(cannot)?,
            gib => (gib * f64::from(1 << 30)) as u64,
        };
        let (ours, theirs) = packets::pair().map_err(StartError::NoDescriptors)?;
        let files = OriginFilesLink::for_files_of(&config.edge.origin);
        let (origin_files, reports) = files.map_err(StartError::NoDescriptors)?.unzip();
        let credentials = HandedOn::here().map_err(helper)?;
        // The helper must be the same program as the server, even if another file has replaced it at its path.
        let mut keeper = Command::new("/proc/self/exe");
        origin_files::hand_on(&config.edge.origin, &mut keeper).map_err(helper)?;
        rules::hand_on(&config.edge.rules, &mut keeper).map_err(helper)?;
        let mut keeper = keeper
            .args(["edge", "helper", "--bytes", &bytes_max.to_string()])
            .args(["--silent", &config.edge.silent_seconds.to_string(), "--keep"])
            .args((config.edge.spread == OriginSpread::Hash).then_some("--by-hash"))
            .args((!config.sandbox).then_some("--no-sandbox"))
            .arg("--cache")
            .arg(cache)
            .stdin(Stdio::from(theirs))
            // It prints nothing there.
            .stdout(reports.map_or_else(Stdio::null, Stdio::from))
            .spawn()
            .map_err(helper)?;
        credentials.wait(&mut keeper).map_err(helper)?;
        let origins = config.edge.origin.iter().map(|origin| origin.url.clone()).collect();
        Ok(Some(Self { socket: ours, lock, bytes_max, origins, origin_files }))
    }

    /// The link to the keeper about the files of origins, if they have any.
    pub(crate) fn take_origin_files(&mut self) -> Option<OriginFilesLink> {
        self.origin_files.take()
    }

    /// Starts the threads that talk to the helper.
    ///
    /// # Errors
    /// If no thread or descriptor is available.
    pub(crate) fn start(self, workers: usize, objects_max: usize) -> io::Result<Arc<EdgeLink>> {
        let passed_bytes_max = passed_bytes_max(self.bytes_max);
        let bounds = (objects_max, passed_bytes_max);
        EdgeLink::start(self.socket, self.lock, workers, bounds, self.origins)
    }
}

/// Creates the cache's folder if it is missing, and locks it.
fn open(cache: &Path) -> io::Result<File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(cache)?;
    let mut options = OpenOptions::new();
    let lock = options.create(true).truncate(false).write(true).open(cache.join("lock"))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(io::Error::other("another server uses it: give each its own"))
        }
        locked => locked.map(|()| lock).map_err(io::Error::from),
    }
}

/// Nine tenths of the disk's free space plus the cache's current size.
fn room(cache: &Path) -> io::Result<u64> {
    let disk = statvfs(cache)?;
    let mut bytes = disk.f_bavail * disk.f_frsize;
    if let Ok(objects) = fs::read_dir(cache.join("objects")) {
        let sizes = objects.flatten().filter_map(|entry| entry.metadata().ok());
        bytes += sizes.map(|metadata| metadata.blocks() * 512).sum::<u64>();
    }
    Ok(bytes / 10 * 9)
}
