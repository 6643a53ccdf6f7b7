//! The folders of every library: the one for hosts without a site, and those of the sites.
//!
//! Each library has its own [`Folders`], so knowledge of one library's names is never used for another's. Reports to the operator
//! are combined here.

use super::{Folders, Health};
use crate::file_abilities::Access;
use crate::start_error::StartError;
use config::Config;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The libraries while the server runs, in the order of [`crate::hosts::Hosts`]. There is at least one.
pub(crate) struct AllFolders(Vec<LibraryFolders>);

/// A library.
pub(crate) struct LibraryFolders {
    /// The hosts that have it; none for the library of all other hosts.
    pub(crate) hosts: Vec<String>,
    /// Its folders.
    pub(crate) folders: Arc<Folders>,
}

impl AllFolders {
    /// Opens the folders that `config` names.
    ///
    /// # Errors
    /// If this user can enter none of them, or one is a file.
    pub(crate) fn open(config: &Config) -> Result<Arc<Self>, StartError> {
        let own = (!config.library.is_empty()).then_some((Vec::new(), &config.library));
        let sites = config.sites.iter().map(|site| (site.hosts.clone(), &site.library));
        let opened = own.into_iter().chain(sites).map(|(hosts, library)| {
            Ok(LibraryFolders { hosts, folders: Arc::new(Folders::open(library)?) })
        });
        let opened = opened.collect::<Result<Vec<_>, StartError>>()?;
        // A missing disk must not keep other hosts from being served.
        let places = || opened.iter().flat_map(|library| library.folders.places());
        if places().all(|place| place.closed().is_some()) {
            return Err(super::none_there(places()));
        }
        Ok(Arc::new(Self(opened)))
    }

    /// All of them, in their order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &LibraryFolders> {
        self.0.iter()
    }

    /// The library of all hosts without a site, if there is one.
    pub(crate) fn of_others(&self) -> Option<&Arc<Folders>> {
        self.0.first().filter(|library| library.hosts.is_empty()).map(|library| &library.folders)
    }

    /// The paths of the folders that existed at startup.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Path> {
        self.iter().flat_map(|library| library.folders.present().map(|(_, path)| path))
    }

    /// The number of folders.
    pub(crate) fn count(&self) -> u64 {
        self.iter().map(|library| library.folders.paths().len() as u64).sum()
    }

    /// Starts watching all folders; see [`Folders::watch`].
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn watch(&self) -> io::Result<Access> {
        // In parallel, so that a hanging disk delays startup only once, even if many libraries have a folder on it.
        std::thread::scope(|scope| {
            let watch = |library: &LibraryFolders| {
                let folders = Arc::clone(&library.folders);
                std::thread::Builder::new().spawn_scoped(scope, move || folders.watch())
            };
            let watching = self.iter().map(watch).collect::<io::Result<Vec<_>>>()?;
            let mut watched = watching.into_iter().map(|watching| {
                watching.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            });
            watched.try_fold(Access::default(), |access, found| Ok(access.or(found?)))
        })
    }

    /// The libraries' health: they are lost only if each of them is.
    pub(crate) fn health(&self) -> Health {
        let all: Vec<_> = self.iter().map(|library| library.folders.health()).collect();
        let said: Vec<_> = all.iter().filter_map(Health::trouble).collect();
        let said = (!said.is_empty()).then(|| said.join("; "));
        match said {
            None => Health::Well,
            Some(said) if all.iter().all(|health| matches!(health, Health::Lost(_))) => {
                Health::Lost(said)
            }
            Some(said) => Health::Partly(said),
        }
    }

    /// The number of folders with trouble.
    pub(crate) fn lost(&self) -> u64 {
        self.iter().map(|library| library.folders.lost()).sum()
    }

    /// Each folder, the hosts that have it unless it is for all others, and its trouble, as JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        let of = |library: &LibraryFolders| {
            let mut folders = library.folders.json();
            if !library.hosts.is_empty() {
                folders
                    .iter_mut()
                    .for_each(|folder| folder["hosts"] = library.hosts.clone().into());
            }
            folders
        };
        self.iter().flat_map(of).collect()
    }

    /// How often a file could not be opened or read because of its disk.
    pub(crate) fn file_failures_total(&self) -> u64 {
        self.iter().map(|library| library.folders.file_failures_total()).sum()
    }

    /// The files for which that happened lately, with their whole paths: those of several libraries may have the same names. As JSON.
    pub(crate) fn failed_files_json(&self) -> Vec<Value> {
        self.iter().flat_map(|library| library.folders.failed_files_json()).collect()
    }

    /// Reports to the operator what has changed since the last call.
    pub(crate) fn tell(&self) {
        self.iter().for_each(|library| library.folders.tell());
    }

    /// Lines for people about folders that deserve a note.
    pub(crate) fn describe(&self) -> Vec<String> {
        self.iter().flat_map(|library| library.folders.describe()).collect()
    }

    /// The titles of hosts without a site; see [`Folders::titles`].
    pub(crate) fn titles(&self) -> Vec<(PathBuf, catalog::Title)> {
        self.of_others().map(|folders| folders.titles()).unwrap_or_default()
    }
}
