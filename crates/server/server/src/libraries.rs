//! The libraries that a worker serves: one for each site's hosts, and one for all other hosts.

use crate::edge::{AheadSettings, KeyRules, LocalEdge};
use crate::folders::{AllFolders, Folders, Health, LibraryFolders, Tables};
use crate::hosts::Hosts;
use crate::page::PageSettings;
use crate::title_listing::TitleListing;
use crate::token_gate::{CheckedTokens, Gate};
use config::Config;
use disk::{File, Files, Inode, OpenError};
use fullbore_http::{Field, LibraryPath, Method, Request};
use net::Prefixes;
use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Everything that a worker serves, and the access rules.
pub struct Libraries {
    all: Vec<Library>,
    hosts: Hosts,
    /// Decides which requests may get which file; none without keys.
    pub gate: Option<Gate>,
    /// The files of a caching edge; none if the libraries' are served.
    pub(crate) edge: Option<LocalEdge>,
    /// What an edge leaves out of its keys, and its settings by path.
    pub(crate) key_rules: KeyRules,
    /// What an edge fetches ahead of viewers.
    pub(crate) ahead: AheadSettings,
    /// Methods, other than GET and HEAD, that an edge sends on to its origin.
    methods: Vec<String>,
    /// The addresses that may purge an edge's cache with `PURGE` requests.
    purgers: Prefixes,
    /// The names of headers that an edge adds to its requests, for one of its origins. In lower case.
    pub(crate) own_headers: Vec<String>,
    /// Set if an edge's requests carry the viewers' addresses.
    pub(crate) forwarded_for: bool,
    /// The scheme and the host by which viewers know an edge, if its requests carry them.
    pub(crate) public_scheme_and_host: Option<(String, String)>,
    /// The settings of the pages.
    pub(crate) pages: PageSettings,
}

/// One library.
pub struct Library {
    /// The prefix of its titles' names where titles of all libraries are listed: its first host and a colon. With a slash, the host would
    /// look like a folder, and so like a title of its own. Empty for the library of all hosts without a site.
    prefix: Vec<u8>,
    /// The files.
    pub files: Files,
    /// The folders that they are in.
    folders: Arc<Folders>,
    /// The list of titles for the pages; none without pages.
    pub listing: Option<TitleListing>,
}

impl Libraries {
    /// The libraries of `config`; their folders and title lists are given in the same order. Each keeps at most `open_files_max` files open; files on
    /// the disks in `rotating` are read in whole buffers.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub(crate) fn new(
        config: &Config,
        folders: &AllFolders,
        listings: Vec<Option<TitleListing>>,
        (open_files_max, rotating): (usize, &Arc<[u64]>),
        gate: Option<Gate>,
        edge: Option<LocalEdge>,
    ) -> io::Result<Self> {
        let library = |(library, listing): (&LibraryFolders, Option<TitleListing>)| {
            let prefix =
                library.hosts.first().map(|host| format!("{}:", host.to_ascii_lowercase()));
            let files = library.folders.files(open_files_max)?;
            let files = files.with_rotating(Arc::clone(rotating));
            let prefix = prefix.unwrap_or_default().into_bytes();
            Ok(Library { prefix, files, folders: Arc::clone(&library.folders), listing })
        };
        let all = folders.iter().zip(listings).map(library).collect::<io::Result<_>>()?;
        let mut key_rules = KeyRules::of(config);
        if gate.is_none() {
            key_rules.tokens = CheckedTokens::None;
        }
        let public = config.edge.public_scheme_and_host();
        Ok(Self {
            all,
            hosts: Hosts::new(config),
            gate,
            edge,
            key_rules,
            ahead: AheadSettings::of(&config.edge),
            methods: config.edge.methods.clone(),
            purgers: config.edge.purgers(),
            own_headers: config.edge.headers_for_origins(),
            forwarded_for: config.edge.forwarded_for,
            public_scheme_and_host: public.map(|(scheme, host)| (scheme.into(), host.into())),
            pages: PageSettings::of(config),
        })
    }

    /// Whether a request that does not read is sent on to an edge's origin.
    pub(crate) fn sends_on(&self, request: &Request) -> bool {
        !request.method.reads()
            && self.edge.is_some()
            && self.methods.iter().any(|method| method == request.method_token())
            && !self.is_purge(request)
    }

    /// Whether a request is for an edge to purge its cache.
    pub(crate) fn is_purge(&self, request: &Request) -> bool {
        request.method == Method::Other
            && request.method_token() == "PURGE"
            && self.edge.is_some()
            && !self.purgers.is_empty()
    }

    /// Whether the client at `address` may purge an edge's cache.
    pub(crate) fn may_purge(&self, address: IpAddr) -> bool {
        self.purgers.contains(address)
    }

    /// The library of the host that `request` is for; none if that host has none.
    pub fn of(&self, request: &Request) -> Option<&Library> {
        self.all.get(self.hosts.library_of(request.field(Field::Host))?)
    }

    /// The library of all hosts without a site, if there is one.
    pub fn of_others(&self) -> Option<&Library> {
        self.all.get(self.hosts.library_of(None)?)
    }

    /// Whether none of them can be served, or an edge can fetch nothing.
    pub(crate) fn are_lost(&self) -> bool {
        if self.edge.as_ref().is_some_and(|edge| edge.link().trouble().is_some()) {
            return true;
        }
        self.all.iter().all(|library| matches!(library.folders.health(), Health::Lost(_)))
    }

    /// From now on, refuses to serve `inodes` from any library, under any name.
    pub(crate) fn withhold(&self, inodes: &Arc<[Inode]>) {
        self.all.iter().for_each(|library| library.files.withhold(Arc::clone(inodes)));
    }

    /// Closes the files that no viewer uses, to free their descriptors.
    pub(crate) fn forget_unused(&self) {
        self.all.iter().for_each(|library| library.files.forget_unused());
    }

    /// Once a second, releases files that other programs wait to write to, and switches to the newest name tables.
    pub(crate) fn tick(&self) {
        for Library { files, folders, .. } in &self.all {
            files.forget_recalled();
            if let Some(Tables { names, originals }) = folders.tables() {
                files.renew_names(names);
                files.fall_back_on(originals);
            }
        }
    }

    /// How often a lease on a file could not be taken because a program had it open for writing.
    pub(crate) fn open_for_writing(&self) -> u64 {
        self.all.iter().map(|library| library.files.open_for_writing()).sum()
    }

    /// The number of remembered files.
    pub(crate) fn remembered_count(&self) -> u64 {
        self.all.iter().map(|library| library.files.remembered_count() as u64).sum()
    }
}

impl Library {
    /// Opens the file at `path`, however its name is spelled on disk.
    ///
    /// # Errors
    /// As [`Files::open`].
    pub(crate) async fn open(&self, path: &LibraryPath) -> Result<Rc<File>, OpenError> {
        match self.files.open(path.as_bytes()).await {
            Err(OpenError::NotFound) if path.has_other_spellings() => {
                // Boxed, so that other requests don't pay for it.
                Box::pin(self.open_other_spelling(path)).await
            }
            opened => opened,
        }
    }

    async fn open_other_spelling(&self, path: &LibraryPath) -> Result<Rc<File>, OpenError> {
        for spelling in path.other_spellings() {
            match self.files.open(&spelling).await {
                Err(OpenError::NotFound) => {}
                opened => return opened,
            }
        }
        Err(OpenError::NotFound)
    }

    /// Whether it is the library of a site's hosts, and not that of all others.
    pub(crate) fn is_of_site(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// The folder of `path`, however its name is spelled there; none if no folder has it.
    pub(crate) fn folder_of(&self, path: &LibraryPath) -> Option<u16> {
        let other = || {
            let spellings = path.other_spellings().into_iter();
            spellings.filter_map(|spelling| self.files.folder_of(&spelling)).next()
        };
        self.files.folder_of(path.as_bytes()).or_else(other)
    }

    /// `path` as shown where it could belong to another library.
    pub(crate) fn named<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        match self.prefix.is_empty() {
            true => Cow::Borrowed(path),
            false => Cow::Owned([&self.prefix, path].concat()),
        }
    }

    /// Records that the file at `path`, if that is known, could not be opened or read in `folder`.
    pub(crate) fn note_failure(&self, folder: Option<u16>, path: Option<&[u8]>) {
        self.folders.note_failure(folder, path);
    }
}
