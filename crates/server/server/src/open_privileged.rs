//! Opens everything that needs files, addresses or privileges before the server has threads and gives those privileges up.

use crate::access_log;
use crate::acme::StartingAcme;
use crate::address_lists::AddressLists;
use crate::bypass;
use crate::edge::Starting;
use crate::folders::AllFolders;
use crate::hot_memory;
use crate::ingress::{Ingress, Ingresses};
use crate::listen::{bind_admin, bind_redirect, check_congestion_control};
use crate::offload;
use crate::pins::Pins;
use crate::sandbox;
use crate::server::tightest;
use crate::silo::{self, Silo};
use crate::silo_moves::{self, Inboxes};
use crate::start_error::StartError;
use crate::title_listing::TitleListing;
use crate::upgrade::{Inherited, ListenerSet, PlainListener};
use crate::worker::Shared;
use config::own_files::OwnFiles;
use config::{Config, Route, Signing, Switch};
use delivery::KernelOffload;
use machine::{Headroom, Machine, MemoryLimit, MemoryPressure, ReservedPages, Topology};
use net::listener::local_address;
use qoe::Salt;
use rustix::fs::{Access, access};
use silo_map::{self, SiloMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use telemetry::since_1970;
use tls::{AlpnProofs, TlsContext, TlsOptions};
use token::{CatSettings, CopyRing, KeyRing};

/// The size of the file table that is reserved before there are workers: half a MiB. Beyond that it still doubles, rarely.
const FILES_RESERVED: u64 = 1 << 16;

/// The opened parts that the server keeps while it runs.
pub(crate) struct Opened {
    pub(crate) config: Arc<Config>,
    machine: Machine,
    pub(crate) folders: Arc<AllFolders>,
    pub(crate) tls: Option<TlsContext>,
    pub(crate) offload: KernelOffload,
    /// The start lines about network cards that encrypt.
    pub(crate) nics: Vec<String>,
    /// The number of workers.
    pub(crate) workers: usize,
    pub(crate) silo_map: Arc<SiloMap>,
    /// The viewers' address.
    pub(crate) address: SocketAddr,
    pub(crate) admin_address: SocketAddr,
    /// The address that redirects viewers of plain HTTP to HTTPS, if any.
    pub(crate) redirect_address: Option<SocketAddr>,
    /// The bypass route's devices and settings, in words, if that is the route.
    pub(crate) bypass: Option<String>,
    pub(crate) headroom: Arc<Headroom>,
    pressure: Arc<MemoryPressure>,
    large_pages: ReservedPages,
}

/// The opened parts that go to the threads.
pub(crate) struct Inputs {
    /// A source of connections for each worker.
    pub(crate) ingress: Vec<Ingress>,
    /// Only the workers and their renewal keep them, so that a removed key is gone.
    pub(crate) keys: Keys,
    /// The addresses that may connect. As with keys, a replaced list is gone.
    pub(crate) lists: Arc<AddressLists>,
    /// The access log's output.
    pub(crate) log_out: Option<Box<dyn io::Write + Send>>,
    /// The files that must not be served.
    pub(crate) own_files: OwnFiles,
    /// The listeners, for the next server.
    pub(crate) listeners: Arc<ListenerSet>,
    /// The dashboard's sources of figures about the machine.
    pub(crate) sources: live_figures::Sources,
    /// The helper of a caching edge, if this is one.
    pub(crate) edge: Option<Starting>,
    /// The helper that gets certificates, if this server has one.
    pub(crate) acme: Option<StartingAcme>,
}

/// The keys that workers start with.
#[derive(Clone)]
pub(crate) struct Keys {
    /// The keys of signed URLs, if there are any.
    pub(crate) signed: Option<Arc<KeyRing>>,
    /// The keys of nodes' copies; none if there is no such file, or it cannot be read: the library can be served without them.
    pub(crate) copies: Option<Arc<CopyRing>>,
}

impl Opened {
    /// Opens everything that the checked `config` names. `inherited` comes from the server that this one replaces.
    ///
    /// # Errors
    /// One line: the failure, and how to fix it.
    pub(crate) fn open(
        config: Config,
        inherited: Option<Inherited>,
    ) -> Result<(Self, Inputs), StartError> {
        let config = Arc::new(config);
        let machine = Machine::probe();
        let edge = Starting::of(&config)?;
        let is_successor = inherited.is_some();
        let Inherited { viewers, admin, mut plain, .. } = inherited.unwrap_or_default();
        let acme = StartingAcme::of(&config, plain.take_if(|_| config.tls.acme.is_some()))?;
        raise_limits();
        let folders = AllFolders::open(&config)?;
        let proofs = acme.as_ref().map(|acme| acme.proofs.clone());
        let tls = load_tls(&config, proofs.unwrap_or_default())?;
        let keys = Keys { signed: load_keys(&config)?, copies: load_copies(&config) };
        let lists = Arc::new(AddressLists::read(&config.access)?);
        let offload = offload::choose(&config)?;
        let log_out = config.access_log.as_deref().map(open_access_log).transpose()?;
        let workers = count_workers(&config, &machine)?;
        let library: Vec<_> = folders.present().collect();
        let mut silo_map = SiloMap::new(&config, &machine, &Topology::open(), &library, workers)?;
        let headroom = Arc::new(Headroom::open());
        let silos = silo::silos(&machine, &silo_map, tightest(&headroom));
        let of_worker = |worker| silos[silo_map.of_worker(worker)].in_place(&config);
        let lends = (0..workers).map(of_worker).collect::<Option<_>>().unwrap_or_default();
        let Ingresses { address, ingress, bypass, in_order, setup } =
            Ingresses::open(&config, offload, &mut silo_map, workers, lends, viewers)?;
        let admin_listener = bind_admin(config.admin, admin)?;
        let admin_address = local_address(&admin_listener).map_err(StartError::Admin)?;
        let (plain, redirect_address) = open_plain(&config, acme.as_ref(), plain)?;
        let listeners = ListenerSet::new(in_order, admin_listener, plain, setup, is_successor);
        let listeners = Arc::new(listeners);
        // After the code that creates them: the self-signed certificate, the access log.
        let own_files = OwnFiles::of(&config);
        let sources = live_figures::Sources::open();
        let opened = Self {
            machine,
            folders,
            tls,
            offload,
            nics: offload::describe_nics(offload),
            workers,
            silo_map: Arc::new(silo_map),
            address,
            admin_address,
            redirect_address,
            bypass,
            headroom,
            pressure: Arc::new(MemoryPressure::open()),
            large_pages: ReservedPages::open(),
            config,
        };
        let inputs =
            Inputs { ingress, keys, lists, log_out, own_files, listeners, sources, edge, acme };
        Ok((opened, inputs))
    }

    /// Gives up everything that serving does not need, if the sandbox is on, for this thread and those that it starts from now on.
    pub(crate) fn confine_files(&self) -> sandbox::SandboxReport {
        match self.config.sandbox {
            true => sandbox::confine_files(&self.config, self.offload),
            false => sandbox::SandboxReport::default(),
        }
    }

    /// Gives up everything that only starting needed, if the sandbox is on, for every thread. Notes it in `report`.
    pub(crate) fn confine_calls(&self, report: &mut sandbox::SandboxReport) {
        if self.config.sandbox {
            sandbox::give_up_for_rings();
            sandbox::confine_calls(report, self.offload);
        }
    }

    /// The silos with their hot sets. Their workers are not running yet.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn make_silos(&self, bound: Option<MemoryLimit>) -> Result<Vec<Silo>, StartError> {
        let Self { config, workers, .. } = self;
        let mut silos = silo::silos(&self.machine, &self.silo_map, bound);
        check_memory(bound, *workers, &silos, config)?;
        let pool = self.large_pages.now();
        let hot_bytes =
            hot_memory::bytes_of(config, self.memory_bytes(), bound, &self.pressure, pool);
        let reserved = hot_memory::Reserved::new(&self.large_pages, hot_bytes);
        for silo in &mut silos {
            silo.make_hot_set(config, hot_bytes, *workers, &reserved);
        }
        Ok(silos)
    }

    /// The machine's memory, or the limit of a control group.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.machine.memory_limit_bytes.or(self.machine.memory_bytes).unwrap_or(u64::MAX)
    }

    /// Starts looking for the pinned titles, if there are any, and hot sets.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start_pins(&self, silos: &[Silo]) -> Result<Option<Arc<Pins>>, StartError> {
        let sets = silos.iter().filter_map(|silo| silo.hot_memory().set());
        let set_bytes = sets.map(|set| set.bytes_max()).min();
        let pins = Pins::start(&self.config, self.folders.of_others(), set_bytes);
        pins.map_err(|why| StartError::Thread { which: "pins", why })
    }

    /// The parts that all workers share, except the edge's link, the address lists and the shares of cards.
    ///
    /// # Errors
    /// If the kernel has no random numbers or no descriptors.
    pub(crate) fn shared(
        &self,
        keys: Keys,
        own_files: &OwnFiles,
        listings: Vec<Option<TitleListing>>,
        pins: Option<Arc<Pins>>,
        epoch: Instant,
        bound: Option<MemoryLimit>,
    ) -> Result<Shared, StartError> {
        Ok(Shared {
            config: Arc::clone(&self.config),
            tls: self.tls.clone(),
            keys,
            lists: Arc::default(),
            experience: make_salt(&self.config)?.map(|salt| (salt, epoch)),
            listings,
            offload: self.offload,
            lossy_paths: Arc::default(),
            nic_shares: Arc::default(),
            folders: Arc::clone(&self.folders),
            withheld: own_files.inodes(),
            headroom: Arc::clone(&self.headroom),
            pressure: Arc::clone(&self.pressure),
            workers: self.workers,
            inboxes: make_inboxes(&self.silo_map, self.workers)?,
            silo_map: Arc::clone(&self.silo_map),
            pins,
            edge: None,
            total_rate: self.config.net.total_rate().map(Arc::new),
            takes_buffers_early: bound.is_some(),
        })
    }
}

/// Opens the listener for plain HTTP: for redirects to HTTPS, with its address, or for the certificate helper.
fn open_plain(
    config: &Config,
    acme: Option<&StartingAcme>,
    inherited: Option<OwnedFd>,
) -> Result<(Option<PlainListener>, Option<SocketAddr>), StartError> {
    let challenges = acme.and_then(|acme| acme.listener.as_ref());
    if let Some(challenges) = challenges {
        let listener = challenges.try_clone().map_err(StartError::NoDescriptors)?;
        return Ok((Some(PlainListener::Challenges(listener)), None));
    }
    let Some(wanted) = config.tls.redirect_listen else { return Ok((None, None)) };
    let listener = bind_redirect(wanted, inherited)?;
    let address = local_address(&listener).map_err(StartError::NoDescriptors)?;
    Ok((Some(PlainListener::Redirect(listener)), Some(address)))
}

/// Checks everything in `config` that can be checked without starting: settings, library, congestion control, silos, certificates, keys, address
/// lists, the place of the access log.
///
/// # Errors
/// One line: the failure, and how to fix it.
pub(crate) fn check(config: &Config) -> Result<(), StartError> {
    check_settings(config)?;
    check_congestion_control(config)?;
    config.folders().try_for_each(|folder| check_library(folder))?;
    if !config.has_no_library() {
        let machine = Machine::probe();
        let workers = count_workers(config, &machine)?;
        let folders: Vec<_> = config.folders().map(PathBuf::as_path).collect();
        SiloMap::new(config, &machine, &Topology::open(), &folders, workers)?.check_folders()?;
    }
    load_keys(config)?;
    AddressLists::read(&config.access)?;
    if config.edge.is_on() {
        edge::check_files(&config.edge.origin).map_err(|why| StartError::Helper { why })?;
    }
    config.access_log.as_deref().map_or(Ok(()), check_access_log)?;
    load_tls(config, AlpnProofs::default()).map(|_| ())
}

/// Checks the settings, and the names of files and folders in them.
///
/// # Errors
/// One line: the failure, and how to fix it.
pub(crate) fn check_settings(config: &Config) -> Result<(), StartError> {
    config.check()?;
    config.check_folders()?;
    Ok(config.check_own_files()?)
}

fn check_library(library: &Path) -> Result<(), StartError> {
    if !library.is_dir() {
        return Err(StartError::LibraryNotAFolder(library.to_owned()));
    }
    let entered = access(library, Access::EXEC_OK);
    entered.map_err(|why| StartError::Library { library: library.to_owned(), why: why.into() })
}

fn raise_limits() {
    // If the limit cannot be raised, the server serves fewer viewers, and reports when it reaches the limit.
    let _ = machine::raise_nofile();
    // If there is no memory for the table, workers wait now and then while it grows.
    let _ = machine::reserve_files(FILES_RESERVED);
}

fn load_tls(config: &Config, proofs: AlpnProofs) -> Result<Option<TlsContext>, StartError> {
    if !config.tls.enabled {
        return Ok(None);
    }
    let options = TlsOptions {
        certificates: config
            .tls
            .certificates
            .iter()
            .map(|pair| (pair.cert.clone(), pair.key.clone()))
            .collect(),
        issued: config.tls.acme.as_ref().map(|_| acme::files::certificate_file(&config.state)),
        state_dir: config.state.clone(),
        proofs,
        versions: config.tls.versions.into(),
        tickets: config.is_on(Switch::Tickets),
    };
    Ok(Some(TlsContext::load(options)?))
}

/// The keys of signed URLs, if there are any.
///
/// # Errors
/// If a key file cannot be used.
pub(crate) fn load_keys(config: &Config) -> Result<Option<Arc<KeyRing>>, StartError> {
    let Signing { keys: files, cat_keys, cat_issuers, cat_audiences, .. } = &config.signing;
    if !config.signing.has_files() {
        return Ok(None);
    }
    let keys = match config.signing.may_be_empty {
        _ if files.is_empty() => KeyRing::none(),
        true => KeyRing::read_perhaps_empty(files)?,
        false => KeyRing::read(files)?,
    };
    if cat_keys.is_empty() {
        return Ok(Some(Arc::new(keys)));
    }
    let cats = CatSettings { keys: cat_keys, issuers: cat_issuers, audiences: cat_audiences };
    Ok(Some(Arc::new(keys.with_cats(&cats)?)))
}

/// The keys of nodes' copies. The renewal thread reports a file that cannot be read, and tries it again.
fn load_copies(config: &Config) -> Option<Arc<CopyRing>> {
    let file = config.signing.copies.as_ref()?;
    CopyRing::read(file).ok().map(Arc::new)
}

fn open_access_log(path: &Path) -> Result<Box<dyn io::Write + Send>, StartError> {
    access_log::open(path).map_err(|why| StartError::AccessLog { file: path.to_owned(), why })
}

fn check_access_log(path: &Path) -> Result<(), StartError> {
    access_log::check(path).map_err(|why| StartError::AccessLog { file: path.to_owned(), why })
}

/// One worker per core that this process may use, unless the configuration or the device sets another number.
fn count_workers(config: &Config, machine: &Machine) -> Result<usize, StartError> {
    let of_device = (config.route == Route::Bypass).then(|| bypass::workers(config)).flatten();
    Ok(match (config.workers, of_device) {
        (0, Some(count)) => count,
        (0, None) => silo_map::cpus(config, machine)?.len(),
        (count, _) => count,
    })
}

/// Fails if the buffers alone would take more than half of the remaining memory.
fn check_memory(
    bound: Option<MemoryLimit>,
    workers: usize,
    silos: &[Silo],
    config: &Config,
) -> Result<(), StartError> {
    let Some(bound) = bound else { return Ok(()) };
    let wanted = silos.iter().map(|silo| silo.pools_bytes(config) as u64).sum::<u64>();
    if wanted <= bound.left_bytes / 2 {
        return Ok(());
    }
    Err(StartError::Memory {
        workers,
        buffer_bytes: wanted,
        limit: bound.name,
        left_bytes: bound.left_bytes,
    })
}

/// The workers' inboxes for offered connections; none if connections stay where they arrived.
fn make_inboxes(map: &SiloMap, workers: usize) -> Result<Option<Inboxes>, StartError> {
    let made = map.is_by_disk().then(|| silo_moves::inboxes(workers)).transpose();
    made.map_err(StartError::NoDescriptors)
}

/// The salt that anonymises session names; none if reports are off.
fn make_salt(config: &Config) -> Result<Option<Salt>, StartError> {
    if !config.http.cmcd {
        return Ok(None);
    }
    let since_1970 = since_1970();
    Salt::random(since_1970.as_secs()).map(Some).map_err(|_| StartError::NoRandomNumbers)
}
