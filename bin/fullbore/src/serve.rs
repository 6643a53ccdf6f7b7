//! `fullbore serve`: puts a library on HTTPS.

mod titles;
mod tokens;
mod urls;

use crate::{bad_value, say, say_started, tell};
use clap::{Args, Parser, ValueEnum};
use config::Config;
use config::{Certificate, Disk, HostedSite, Placement, Route, Switch};
use ingest::sample;
use server::Server;
use server::upgrade::{HandoffClient, HotRestart, UpgradeError};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use titles::Links;
use tokens::Tokens;

/// Put a directory of videos on HTTPS
///
/// Without DIR, a sample library is made once with ffmpeg. https://HOST:PORT/a/b.mp4 is DIR/a/b.mp4. With several DIRs,
/// one per disk, each title is served from the DIR that contains it. Once viewers can connect, a line on standard output
/// says "ready https://...".
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore serve\n  fullbore serve /srv/videos --cert fullchain.pem --key privkey.pem\n  \
    fullbore serve /srv/videos --listen 127.0.0.1:8080 --tls off\n  fullbore serve /disk0 /disk1 /disk2\n  fullbore serve --config /etc/fullbore.toml --check"
)]
pub(crate) struct Serve {
    /// The library: a directory of videos, or one per disk
    dir: Vec<PathBuf>,
    /// A directory of the library, as DIR; can be repeated
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    library: Vec<PathBuf>,
    /// Address of an HTTP origin, or s3://BUCKET/PREFIX: makes the server a caching edge in front of it, instead of serving DIR; repeat it
    /// for origins that hold the same films, in order of preference
    #[arg(long, value_name = "URL", requires = "cache", conflicts_with_all = ["dir", "library"])]
    origin: Vec<String>,
    /// Directory of the caching edge's cache
    #[arg(long, value_name = "DIR", requires = "origin")]
    cache: Option<PathBuf>,
    /// Size limit of the cache, in GiB [default: 90% of the disk's free space]
    #[arg(long, value_name = "GIB", requires = "origin")]
    cache_gib: Option<f64>,
    /// Address to listen on; port 0 picks a free port [default: port 8443 on every address]
    #[arg(long, value_name = "ADDR:PORT", value_parser = bad_value::address)]
    listen: Option<SocketAddr>,
    /// Address of the dashboard, /healthz, /metrics and /status.json [default: 127.0.0.1:9443]
    #[arg(long, value_name = "ADDR:PORT", value_parser = bad_value::address)]
    admin: Option<SocketAddr>,
    /// TLS, or plain HTTP [default: on]
    #[arg(long, value_name = "on|off")]
    tls: Option<OnOff>,
    /// Certificate chain, PEM; for several names, repeat it, each with its --key [default: self-signed, kept in --state]
    #[arg(long, value_name = "FILE")]
    cert: Vec<PathBuf>,
    /// Private key of a --cert, PEM
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// How bytes get from disk to network [default: auto]
    #[arg(long)]
    route: Option<RouteArg>,
    /// How files are read from disk [default: auto]
    #[arg(long)]
    disk: Option<DiskArg>,
    /// Which connections a silo (a NUMA node) serves [default: auto]
    #[arg(long)]
    silo: Option<SiloArg>,
    /// Number of threads, each on a core of its own [default: one per core]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Directory for the self-signed certificate and the sample library [default: ~/.local/state/fullbore]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Configuration file (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, the library and the certificates, then exit
    #[arg(long)]
    check: bool,
    #[arg(
        long,
        value_name = "SWITCH,...",
        value_delimiter = ',',
        help = format!("Optimisations to switch off, to measure what each is worth: {}", Switch::names())
    )]
    off: Vec<Switch>,
    /// Log each response as a line of JSON to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Serve files only: no title list at / and no player under /-/watch/
    #[arg(long)]
    no_page: bool,
    /// Run without Landlock, seccomp and no-new-privs
    #[arg(long)]
    no_sandbox: bool,
    /// How much of a session counts in a fleet's figures; tests can't wait for five minutes
    #[arg(long, value_name = "SECONDS", hide = true)]
    counted_seconds: Option<u64>,
    #[command(flatten)]
    hot_restart_args: HotRestartArgs,
}

/// Flags that `fullbore upgrade` passes to the server that it starts.
#[derive(Args, Default)]
struct HotRestartArgs {
    /// Take over from the server with this socket
    #[arg(long, value_name = "SOCKET", hide = true)]
    in_place_of: Option<PathBuf>,
    /// How long the other server waits for this one to become ready
    #[arg(long, value_name = "SECONDS", default_value_t = 60, hide = true)]
    ready_seconds: u64,
    /// How long the other server can still take over again
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, hide = true)]
    settle_seconds: f64,
}

impl HotRestartArgs {
    /// The server's handoff from the one before it and to the one after it.
    fn hot_restart(&self, config: &Config) -> Result<HotRestart, UpgradeError> {
        let socket = Some(server::upgrade::socket_path(config));
        let Some(of) = &self.in_place_of else {
            return Ok(HotRestart { socket, handoff: None });
        };
        let launcher = std::io::stdin().as_fd().try_clone_to_owned();
        let launcher = launcher.map_err(UpgradeError::Line)?;
        let Self { ready_seconds, settle_seconds, .. } = *self;
        let asked = HandoffClient::ask(of, config, launcher, ready_seconds, settle_seconds)?;
        Ok(HotRestart { socket, handoff: Some(asked) })
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum OnOff {
    On,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum RouteArg {
    /// The fastest route that this machine offers
    Auto,
    /// Read, encrypt and send from user space
    Userspace,
    /// Send with sendfile, and encrypt in the kernel (module tls)
    Kernel,
    /// Use the server's own TCP over a TAP or AF_XDP; needs the bypass section of --config, and privileges at startup
    Bypass,
}

#[derive(Clone, Copy, ValueEnum)]
enum DiskArg {
    /// Cache what is requested repeatedly, read the rest directly
    Auto,
    /// Through the page cache
    Cached,
    /// Through the page cache, evicting the pages at once
    Once,
    /// Directly, past the page cache
    Direct,
}

#[derive(Clone, Copy, ValueEnum)]
enum SiloArg {
    /// By network card if there are several nodes
    Auto,
    /// Any connection
    Off,
    /// Connections that arrive on its own network cards
    Network,
    /// As network, but read into memory of the disk's node
    MemoryAtDisk,
    /// Requests for titles on its own disks
    Disk,
}

/// The arguments of `fullbore serve`, as another command takes them.
#[derive(Parser)]
#[command(name = "fullbore serve")]
struct Line {
    #[command(flatten)]
    serve: Serve,
}

/// The command line or the configuration is wrong: exit code 2.
pub(crate) struct Misused(pub(crate) String);

impl Serve {
    /// Parses the server's arguments, which follow another command's own options. Wrong usage ends the process.
    pub(crate) fn from_arguments(arguments: &[OsString]) -> Self {
        let name = OsString::from("fullbore serve");
        let line = Line::try_parse_from(std::iter::once(&name).chain(arguments));
        line.unwrap_or_else(|error| error.exit()).serve
    }

    /// Serves until a signal stops it.
    pub(crate) fn run(mut self) -> ExitCode {
        let check = self.check;
        let hot_restart_args = std::mem::take(&mut self.hot_restart_args);
        let mut config = match self.configure() {
            Ok(config) => config,
            Err(Misused(what)) => return fail(2, &what),
        };
        if check {
            return match Server::check(&config) {
                Ok(()) => {
                    say("ok\n");
                    ExitCode::SUCCESS
                }
                Err(error) => fail(1, &error.to_string()),
            };
        }
        if config.has_no_library() {
            let library = sample_library(&config);
            if let Err(error) = sample::ensure(&library, sample::on_terminal()) {
                return fail(1, &error.to_string());
            }
            config.library = vec![library];
        }
        if config.edge.has_bucket() {
            if let Err(error) = edge::credentials::shed() {
                return fail(
                    1,
                    &format!(
                        "cannot restart the server with the AWS_* credentials removed from its environment: {error}"
                    ),
                );
            }
        }
        // Before any thread starts, because threads inherit signal handling. No earlier, because until here a signal should simply end the process.
        let signals = match server::signals::signals() {
            Ok(signals) => signals,
            Err(error) => return fail(1, &format!("cannot handle signals: {error}")),
        };
        let tls = config.tls.enabled;
        // Before the sandbox starts, which blocks reading /proc/net and keys.
        let addresses = urls::addresses(&config);
        let served = Said::of(&config);
        let hot_restart = match hot_restart_args.hot_restart(&config) {
            Ok(hot_restart) => hot_restart,
            Err(error) => return fail(1, &error.to_string()),
        };
        let started = Server::start_in_hot_restart(config, hot_restart);
        let server = match started.and_then(|server| server.take_over().map(|()| server)) {
            Ok(server) => server,
            Err(error) => return fail(1, &error.to_string()),
        };
        announce(&server, &urls::of(server.address(), tls, &addresses), served);
        match server.run_until_signalled(signals) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error.to_string()),
        }
    }

    /// The upgrade socket of a server with these arguments. If the configuration cannot be read, only the flags count.
    pub(crate) fn socket(&self) -> PathBuf {
        let read = self.config.as_deref().and_then(|path| Config::read(path).ok());
        let mut config = read.unwrap_or_default();
        config.listen = self.listen.unwrap_or(config.listen);
        config.state = self.state.clone().unwrap_or(config.state);
        server::upgrade::socket_path(&config)
    }

    /// As [`Self::configure`], with the sample library if no library is named.
    pub(crate) fn configure_with_library(self) -> Result<Config, Misused> {
        let mut config = self.configure()?;
        if config.has_no_library() {
            config.library = vec![sample_library(&config)];
        }
        Ok(config)
    }

    /// The configuration file, overridden by the flags.
    pub(crate) fn configure(self) -> Result<Config, Misused> {
        let mut config = match &self.config {
            Some(path) => Config::read(path).map_err(|error| Misused(error.to_string()))?,
            None => Config::default(),
        };
        if self.cert.len() != self.key.len() {
            return Err(Misused("each --cert needs its --key".into()));
        }
        if !self.cert.is_empty() {
            let pairs = self.cert.into_iter().zip(self.key);
            config.tls.certificates = pairs.map(|(cert, key)| Certificate { cert, key }).collect();
        }
        let folders = if self.dir.is_empty() { self.library } else { self.dir };
        if !folders.is_empty() {
            config.library = folders;
        }
        if !self.origin.is_empty() {
            config.edge.name_origins(self.origin);
        }
        config.edge.cache = self.cache.or(config.edge.cache);
        config.edge.cache_gib = self.cache_gib.unwrap_or(config.edge.cache_gib);
        config.listen = self.listen.unwrap_or(config.listen);
        config.admin = self.admin.unwrap_or(config.admin);
        config.workers = self.workers.unwrap_or(config.workers);
        config.state = self.state.unwrap_or(config.state);
        config.access_log = self.access_log.or(config.access_log);
        config.sandbox &= !self.no_sandbox;
        config.page &= !self.no_page;
        config.http.counted = self.counted_seconds.map(Duration::from_secs);
        if let Some(tls) = self.tls {
            config.tls.enabled = matches!(tls, OnOff::On);
        }
        if let Some(route) = self.route {
            config.route = match route {
                RouteArg::Auto => Route::Auto,
                RouteArg::Userspace => Route::Userspace,
                RouteArg::Kernel => Route::Kernel,
                RouteArg::Bypass => Route::Bypass,
            };
        }
        if let Some(disk) = self.disk {
            config.disk = match disk {
                DiskArg::Auto => Disk::Auto,
                DiskArg::Cached => Disk::Cached,
                DiskArg::Once => Disk::Once,
                DiskArg::Direct => Disk::Direct,
            };
        }
        if let Some(silo) = self.silo {
            config.silo = match silo {
                SiloArg::Auto => Placement::Auto,
                SiloArg::Off => Placement::Off,
                SiloArg::Network => Placement::Network,
                SiloArg::MemoryAtDisk => Placement::MemoryAtDisk,
                SiloArg::Disk => Placement::Disk,
            };
        }
        if !self.off.is_empty() {
            config.off = self.off;
        }
        make_edge(&mut config)?;
        let checked = config.check().and_then(|()| config.check_folders());
        checked.and_then(|()| config.check_own_files()).map_err(|error| {
            let of = self.config.map(|path| format!("with {}: ", path.display()));
            Misused(format!("{}{error}", of.unwrap_or_default()))
        })?;
        Ok(config)
    }
}

fn fail(code: u8, what: &str) -> ExitCode {
    tell(what);
    ExitCode::from(code)
}

/// Path of the sample library, for a server without a library.
fn sample_library(config: &Config) -> PathBuf {
    config.state.join("sample-library")
}

/// Makes the cache the library of a caching edge, and turns pages off: viewers see the origin's.
fn make_edge(config: &mut Config) -> Result<(), Misused> {
    let (true, Some(cache)) = (config.edge.is_on(), &config.edge.cache) else { return Ok(()) };
    if !config.has_no_library() {
        return Err(Misused(
            "a caching edge serves its origin and no library: leave library and [[sites]] out"
                .into(),
        ));
    }
    std::fs::create_dir_all(cache).map_err(|why| {
        Misused(format!(
            "cannot make the cache {}: {why}; name a directory that this user may make with --cache DIR",
            cache.display()
        ))
    })?;
    (config.library, config.page) = (vec![cache.clone()], false);
    Ok(())
}

/// The description of the served content for the start lines.
struct Said {
    library: Vec<PathBuf>,
    sites: Vec<HostedSite>,
    /// The origins of a caching edge.
    origin: Vec<String>,
    tokens: Option<Tokens>,
    /// The address by which viewers know the pages, if the configuration has one.
    page_url: Option<String>,
}

impl Said {
    fn of(config: &Config) -> Self {
        let (library, sites) = (config.library.clone(), config.sites.clone());
        let origin = config.edge.origin.iter().map(|origin| origin.url.clone()).collect();
        let tokens = Tokens::of(config);
        let page_url = config.page_scheme_and_host();
        let page_url = page_url.map(|(scheme, host)| format!("{scheme}://{host}"));
        Self { library, sites, origin, tokens, page_url }
    }

    /// The lines about it, of a server whose address ends as `base` does.
    fn lines(&self, base: &str) -> Vec<String> {
        let list = |folders: &[PathBuf]| {
            let folders = folders.iter().map(|folder| folder.display().to_string());
            folders.collect::<Vec<_>>().join(", ")
        };
        let kept = list(&self.library);
        let mut lines = vec![match &self.origin {
            origins if !origins.is_empty() => {
                format!("edge      of {}, cached in {kept}", origins.join(", "))
            }
            _ if kept.is_empty() => {
                "library   only the sites below: requests for any other host get 421".to_owned()
            }
            _ => format!("library   {kept}"),
        }];
        for HostedSite { hosts, library } in &self.sites {
            let urls = hosts.iter().map(|host| urls::with_host(base, host));
            let urls = urls.collect::<Vec<_>>().join(" ");
            lines.push(format!("site      {urls} {}", list(library)));
        }
        lines
    }
}

/// Prints the server's own URL first, because a program may be waiting for it. Then describes the server and its titles for people.
fn announce(server: &Server, urls: &[String], served: Said) {
    let Some((base, others)) = urls.split_first() else { return };
    say_started(&format!("ready {base}/\n"));
    let mut lines: Vec<_> = others.iter().map(|url| format!("also      {url}/")).collect();
    let links = Links::of(base, served.page_url.as_deref());
    if links.are_public {
        lines.push(format!("public    {}/", links.base));
    }
    lines.extend(served.lines(&links.base));
    lines.extend(server.describe());
    let admin = server.admin_address();
    lines.push(format!("admin     http://{admin}/ (dashboard), /status.json, /metrics, /healthz"));
    if !served.origin.is_empty() || served.library.is_empty() {
        return say_started(&shown(&lines));
    }
    lines.extend(titles::describe(server.titles(), links, served.tokens));
    say_started(&shown(&lines));
}

/// The start lines as text. Folders and titles may have any name: line breaks are escaped, so that they cannot start a line.
fn shown(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| ::ingest::shown(line)).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_in_a_name_begins_no_start_line() {
        let lines = ["library   /srv/a\nready https://b", "title     c\td"].map(String::from);
        assert_eq!(shown(&lines), "library   /srv/a\\nready https://b\ntitle     c\\td\n");
    }
}
