//! A server's settings: their defaults, the TOML file, and the checks of both. Flags override the file, which overrides the defaults.
//! [`SettingChange`] says what it takes to change a running server's settings.

#![forbid(unsafe_code)]

mod acme;
pub mod bypass;
mod changes;
mod edge;
mod embedders;
mod entrance;
mod error;
mod folders;
mod headers;
mod host_name;
mod memory;
mod net;
mod nic;
pub mod own_files;
mod page_url;
mod places;
mod read_policy;
mod signing;
pub mod silos;
mod sites;
mod switch;
mod tls;
mod upgrades;

pub use error::ConfigError;

pub use self::acme::{AcmeChallenge, AcmeConfig};
pub use self::changes::{SettingChange, Takes};
pub use self::edge::EdgeConfig;
pub use self::entrance::{AccessConfig, ProxyProtocol};
pub use self::headers::{HeaderFault, HeaderRule};
pub use self::net::Net;
pub use crate::switch::Switch;
pub use bypass::Bypass;
pub use memory::{LargePages, Memory};
pub use nic::Nic;
pub use signing::Signing;
pub use silos::{Placement, SiloError, SiloPlan};
pub use sites::{HOST_BYTES_MAX, HostedSite, SiteFault, SitesError};
pub use tls::{Certificate, Tls, Versions};
pub use upgrades::obstacle;

use crate::host_name::is_host_name;
use ::net::Admission;
use disk::{Policy, ReadMode};
use serde::{Deserialize, Serialize};
use std::fmt::{Display, LowerExp};
use std::net::SocketAddr;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// The least number of buffers of each kind: with fewer, a few viewers would wait for each other.
pub const BUFFERS_MIN: usize = 8;

/// A configuration is a page of text; even with a thousand certificates it is only 100 KB.
const CONFIG_BYTES_MAX: u32 = 1 << 20;

/// All settings of `fullbore serve`. Every field has a default: `fullbore serve DIR` alone must work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The file that it was read from, if any.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// The library: one folder, or one per disk. Without folders and without sites, a sample library is made.
    #[serde(deserialize_with = "folders::one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub library: Vec<PathBuf>,
    /// Address to listen on. `[::]` covers IPv4, too.
    pub listen: SocketAddr,
    /// Address of health, metrics and status; loopback by default.
    pub admin: SocketAddr,
    /// Host names that the admin listener accepts, besides addresses, `localhost` and this machine's own name.
    pub admin_hosts: Vec<String>,
    /// Directory for the self-signed certificate and the sample library.
    pub state: PathBuf,
    /// Number of threads, each on a core of its own; 0 is one per core that this process may use.
    pub workers: usize,
    /// How bytes get from disk to network.
    pub route: Route,
    /// How files are read from disk.
    pub disk: Disk,
    /// Which connections a silo serves, on a machine with several NUMA nodes.
    pub silo: Placement,
    /// The access log: a file of JSON lines, or `-` for standard output.
    pub access_log: Option<PathBuf>,
    /// How long to wait for viewers at shutdown, in seconds.
    pub drain_seconds: u64,
    /// Pages for browsers: the titles at `/`, and a player for each under `/-/watch/`.
    pub page: bool,
    /// Sites that may show the player in a frame, such as `https://blog.example`; `https://*.example` is every host in a domain.
    pub page_embedders: Vec<String>,
    /// The scheme and the host by which viewers know the pages, if a proxy in front changes them, such as `https://tv.example.org`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_url: Option<String>,
    /// Landlock, seccomp and no-new-privs after start-up, where the kernel has them.
    pub sandbox: bool,
    /// Optimisations to switch off, to measure what each is worth.
    pub off: Vec<Switch>,
    /// TLS.
    pub tls: Tls,
    /// Signed URLs.
    pub signing: Signing,
    /// HTTP.
    pub http: Http,
    /// Sockets.
    pub net: Net,
    /// Proxies that announce their clients' addresses.
    pub proxy_protocol: ProxyProtocol,
    /// Addresses that may connect, and that may not.
    pub access: AccessConfig,
    /// The caching edge.
    pub edge: EdgeConfig,
    /// The bypass route.
    pub bypass: Bypass,
    /// Memory for the hot set.
    pub memory: Memory,
    /// Limits on what viewers may use.
    pub limits: Limits,
    /// How long viewers may take.
    pub timeouts: Timeouts,
    /// Libraries for specific host names. All other hosts get `library`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<HostedSite>,
    /// The operator's own map of silos, which replaces the kernel's nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub silos: Vec<SiloPlan>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            library: Vec::new(),
            listen: SocketAddr::from(([0u16; 8], 8443)),
            admin: SocketAddr::from(([127, 0, 0, 1], 9443)),
            admin_hosts: Vec::new(),
            state: default_state(),
            workers: 0,
            route: Route::Auto,
            disk: Disk::Auto,
            silo: Placement::Auto,
            access_log: None,
            drain_seconds: 30,
            page: true,
            page_embedders: Vec::new(),
            page_url: None,
            sandbox: true,
            off: Vec::new(),
            tls: Tls::default(),
            signing: Signing::default(),
            http: Http::default(),
            net: Net::default(),
            proxy_protocol: ProxyProtocol::default(),
            access: AccessConfig::default(),
            edge: EdgeConfig::default(),
            bypass: Bypass::default(),
            memory: Memory::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            sites: Vec::new(),
            silos: Vec::new(),
        }
    }
}

/// The state directory that systemd assigns, or else the user's.
fn default_state() -> PathBuf {
    let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("STATE_DIRECTORY")
        .or_else(|| from("XDG_STATE_HOME").map(|home| home.join("fullbore")))
        .or_else(|| from("HOME").map(|home| home.join(".local/state/fullbore")))
        .unwrap_or_else(|| PathBuf::from("/var/lib/fullbore"))
}

/// How bytes get from disk to network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// The best that this machine offers.
    Auto,
    /// Read, seal and send from user space.
    Userspace,
    /// Sendfile, and TLS in the kernel.
    Kernel,
    /// The server's own TCP, which reads from disk when the viewer's window opens.
    Bypass,
}

/// How files are read from disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disk {
    /// By heat: cache what is requested repeatedly, and read the rest directly.
    Auto,
    /// Through the page cache.
    Cached,
    /// Through the page cache, and evicted at once (`RWF_DONTCACHE`).
    Once,
    /// Directly, past the page cache (`O_DIRECT`).
    Direct,
}

impl From<Disk> for Policy {
    fn from(disk: Disk) -> Self {
        match disk {
            Disk::Auto => Self::Auto,
            Disk::Cached => Self::Always(ReadMode::Buffered),
            Disk::Once => Self::Always(ReadMode::Dontcache),
            Disk::Direct => Self::Always(ReadMode::Direct),
        }
    }
}

/// HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// `Cache-Control` of files.
    pub cache_control: String,
    /// Allow pages of other origins to read responses. Files are served without credentials, so this reveals nothing that `curl` could not fetch.
    pub cors: bool,
    /// Request headers that pages of other origins may send, in addition to those that browsers and players usually send.
    pub cors_headers: Vec<String>,
    /// Count players' reports of their viewers' experience (CMCD).
    pub cmcd: bool,
    /// The part of a session that counts in a fleet's figures, if it isn't the usual one. Only a hidden flag sets it, for tests.
    #[serde(skip)]
    pub counted: Option<Duration>,
    /// Report the server's health at `/healthz` on the viewers' listener, to viewers or to a load balancer that connects as they do.
    pub healthz: bool,
    /// Headers of some of the files, by their paths. The first matching rule applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderRule>,
}

impl Default for Http {
    fn default() -> Self {
        let (cache_control, cors_headers, headers) = ("no-cache".into(), Vec::new(), Vec::new());
        let (cmcd, counted) = (true, None);
        Self { cache_control, cors: true, cors_headers, cmcd, counted, healthz: false, headers }
    }
}

/// Limits on viewers. Each worker counts for itself, so that no count is shared between cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections per worker.
    pub connections_max: usize,
    /// Connections per worker from one address (IPv6: one /64); 0 is no limit. Unset: [`Limits::PER_ADDRESS`], and none for loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_per_address_max: Option<usize>,
    /// Bytes of a request head.
    pub head_bytes_max: usize,
    /// Bytes of a request target.
    pub uri_bytes_max: usize,
    /// Files kept open.
    pub open_files_max: usize,
    /// Bytes of read buffers, and as many again of send buffers; 0 sizes them by the processor's cache.
    pub buffer_bytes_max: usize,
    /// Bytes of memory that responses may hold: pages, lists and heads of parts that viewers have not received yet.
    pub response_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 100_000,
            connections_per_address_max: None,
            head_bytes_max: 16 << 10,
            uri_bytes_max: 8 << 10,
            open_files_max: 1024,
            buffer_bytes_max: 0,
            // A hundred lists of the longest kind, one per viewer. Content for all viewers is in memory only once.
            response_bytes_max: 64 << 20,
        }
    }
}

/// With less, an ordinary library's list of titles would not fit.
const RESPONSE_BYTES_MAX_MIN: u64 = 64 << 10;

/// How long viewers may take, in seconds (fractions are allowed).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// For the whole handshake.
    pub handshake_seconds: f64,
    /// From a request's first byte to the last byte of its head.
    pub head_seconds: f64,
    /// Between requests.
    pub idle_seconds: f64,
    /// Without progress while a response is being sent.
    pub send_seconds: f64,
    /// How long a stalled viewer keeps its send buffer.
    pub hold_seconds: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake_seconds: 10.0,
            head_seconds: 10.0,
            idle_seconds: 75.0,
            send_seconds: 60.0,
            hold_seconds: 0.25,
        }
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file's name, the line, and the fault.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = files::read_text(path, CONFIG_BYTES_MAX)
            .map_err(|why| ConfigError::Unreadable { file: path.to_owned(), why })?;
        let read: Self = toml::from_str(&text)
            .map_err(|why| ConfigError::malformed(path.to_owned(), &text, why))?;
        Ok(Self { file: Some(path.to_owned()), ..read })
    }

    /// Whether an optimisation is on.
    pub fn is_on(&self, switch: Switch) -> bool {
        !self.off.contains(&switch)
    }

    /// Checks everything that types cannot express.
    ///
    /// # Errors
    /// The name of the setting, and its allowed values.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.net.check()?;
        self.limits.check(self.net.window_bytes_max)?;
        self.timeouts.check()?;
        self.http.check()?;
        places::check(self)?;
        if let Some(host) = self.admin_hosts.iter().find(|host| !is_host_name(host)) {
            let wanted = "a host name without scheme and port, such as \"video-1.example.org\"";
            return Err(ConfigError::not_of_kind("admin_hosts", host, wanted));
        }
        let allowed = "0 to 86400";
        within("drain_seconds", self.drain_seconds, 0..=86_400, allowed)?;
        within("workers", self.workers, 0..=1024, "0 (one per core) to 1024")?;
        self.check_embedders()?;
        self.check_page_url()?;
        self.check_nic()?;
        self.signing.check()?;
        self.proxy_protocol.check()?;
        self.memory.check()?;
        self.check_bypass()?;
        self.edge.check(self.route)?;
        sites::check(self).map_err(ConfigError::Sites)?;
        silos::check(self).map_err(ConfigError::Silos)?;
        self.tls.check(self.listen, self.route)
    }

    /// Whether no library is named, so that a sample is made.
    pub fn has_no_library(&self) -> bool {
        self.library.is_empty() && self.sites.is_empty()
    }

    /// The folders of all libraries.
    pub fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        sites::folders(self)
    }

    /// Checks that the folders of all libraries are different, and that none is inside another.
    ///
    /// # Errors
    /// The conflicting folders.
    pub fn check_folders(&self) -> Result<(), ConfigError> {
        sites::check_folders(self)
    }

    /// Checks that viewers cannot fetch the server's own files: keys, the access log, this configuration.
    ///
    /// # Errors
    /// The file's path, and a better place for it.
    pub fn check_own_files(&self) -> Result<(), ConfigError> {
        own_files::check(self)
    }

    /// The congestion control of viewers' connections, by the kernel's name. None: the system default.
    pub fn congestion_control(&self) -> Option<&str> {
        let own = (self.route == Route::Bypass).then_some("cubic");
        self.net.congestion_control.as_deref().or(own)
    }

    /// Checks the settings that the bypass route needs, and rejects those that it does not support.
    fn check_bypass(&self) -> Result<(), ConfigError> {
        if self.route != Route::Bypass {
            return Ok(());
        }
        if !self.is_on(Switch::Handout) {
            return Err(ConfigError::BypassWithoutKeys);
        }
        if self.listen.port() == 0 {
            return Err(ConfigError::BypassWithoutPort);
        }
        if let Some(name) = &self.net.congestion_control {
            if bypass::congestion_control(name).is_none() {
                let wanted = "\"cubic\", \"bbr\" or \"bbr1\": the bypass route has no other";
                return Err(ConfigError::not_of_kind("net.congestion_control", name, wanted));
            }
        }
        self.bypass.check()
    }
}

/// Rejects a number outside `bounds`; `allowed` describes them in words.
fn within<T: PartialOrd + Display + LowerExp>(
    setting: &'static str,
    value: T,
    bounds: impl RangeBounds<T>,
    allowed: &'static str,
) -> Result<(), ConfigError> {
    match bounds.contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::out_of_bounds(setting, in_short(&value), allowed)),
    }
}

/// A number as people write it, or with an exponent if it has more digits than any valid value here.
fn in_short(number: &(impl Display + LowerExp)) -> String {
    const DIGITS_MAX: usize = 20;
    let whole = number.to_string();
    if whole.len() > DIGITS_MAX { format!("{number:e}") } else { whole }
}

impl Limits {
    /// The default limit on connections per worker from one address: a fiftieth of the places. So no single network takes them all, and a carrier
    /// with hundreds of subscribers behind one address is not blocked. An assumption: browsers open six connections each, players one or two.
    pub const PER_ADDRESS: usize = 2000;

    /// Creates a worker's connection counts with these limits. A number set by the operator applies to every address. The default doesn't apply to
    /// loopback, where a proxy may pass on all connections.
    pub fn admission(&self) -> Rc<Admission> {
        match self.connections_per_address_max {
            Some(most) => Admission::new(self.connections_max, most),
            None => Admission::exempting_loopback(self.connections_max, Self::PER_ADDRESS),
        }
    }

    /// Checks that windows of this size fit into the buffers, among other bounds.
    fn check(&self, window_bytes_max: usize) -> Result<(), ConfigError> {
        let Self { head_bytes_max, uri_bytes_max, connections_max, open_files_max, .. } = *self;
        within("limits.head_bytes_max", head_bytes_max, 512..=64 << 10, "512 to 65536")?;
        let allowed = "64 to limits.head_bytes_max";
        within("limits.uri_bytes_max", uri_bytes_max, 64..=head_bytes_max, allowed)?;
        within("limits.connections_max", connections_max, 1.., "1 or more")?;
        within("limits.open_files_max", open_files_max, 1.., "1 or more")?;
        let (buffer_bytes_max, response_bytes_max) =
            (self.buffer_bytes_max, self.response_bytes_max);
        if buffer_bytes_max > 0 {
            // A worker always makes at least this many buffers.
            let least = BUFFERS_MIN * window_bytes_max;
            let allowed = "0 (sized from the cache), or 8 times net.window_bytes_max or more (by default 4194304)";
            within("limits.buffer_bytes_max", buffer_bytes_max, least.., allowed)?;
        }
        within(
            "limits.response_bytes_max",
            response_bytes_max,
            RESPONSE_BYTES_MAX_MIN..,
            "65536 or more",
        )
    }
}

impl Timeouts {
    fn check(&self) -> Result<(), ConfigError> {
        for (setting, seconds) in [
            ("timeouts.handshake_seconds", self.handshake_seconds),
            ("timeouts.head_seconds", self.head_seconds),
            ("timeouts.idle_seconds", self.idle_seconds),
            ("timeouts.send_seconds", self.send_seconds),
        ] {
            within(setting, seconds, 0.001..=86_400.0, "0.001 to 86400")?;
        }
        within("timeouts.hold_seconds", self.hold_seconds, 0.0..=60.0, "0 to 60")
    }
}

#[cfg(test)]
pub(crate) mod tests;
