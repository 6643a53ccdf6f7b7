//! `fullbore serve`: puts a library on HTTPS.

use crate::{say, tell};
use appliance::config::{Certificate, Disk, Route, Switch};
use appliance::{Config, Server};
use catalog::{Form, Title};
use clap::{Args, ValueEnum};
use library::sample;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Put a directory of videos on HTTPS
///
/// Without DIR, a sample library is made once with ffmpeg. https://HOST:PORT/a/b.mp4 is DIR/a/b.mp4. Once viewers can
/// connect, a line on standard output says "ready https://...".
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore serve\n  fullbore serve /srv/videos --cert fullchain.pem --key privkey.pem\n  \
    fullbore serve /srv/videos --listen 127.0.0.1:8080 --tls off\n  fullbore serve --config /etc/fullbore.toml --check"
)]
pub(crate) struct Serve {
    /// The library: a directory of videos
    dir: Option<PathBuf>,
    /// Where to serve; port 0 lets the kernel choose [default: port 8443 of every address]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Where the dashboard, /healthz, /metrics and /status.json are [default: 127.0.0.1:9443]
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<SocketAddr>,
    /// TLS, or plain HTTP [default: on]
    #[arg(long, value_name = "on|off")]
    tls: Option<OnOff>,
    /// Certificate chain, PEM; may be given several times, each with its --key [default: self-signed, kept in --state]
    #[arg(long, value_name = "FILE")]
    cert: Vec<PathBuf>,
    /// Private key, PEM
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// How bytes get from disk to network: auto, userspace, kernel or bypass [default: auto]
    #[arg(long)]
    route: Option<RouteArg>,
    /// How bytes come off the disk [default: auto]
    #[arg(long)]
    disk: Option<DiskArg>,
    /// Threads, one core each [default: one per core]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Where the self-signed certificate and the sample library are kept [default: ~/.local/state/fullbore]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Configuration file (TOML); flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check configuration and certificates, print the result and end
    #[arg(long)]
    check: bool,
    #[arg(
        long,
        value_name = "SWITCH,...",
        value_delimiter = ',',
        help = format!("Optimisations to leave out, to measure what they are worth: {}", Switch::names())
    )]
    off: Vec<Switch>,
    /// Log each response as a line of JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Serve files only: no shelf at / and no player under /-/watch/
    #[arg(long)]
    no_page: bool,
    /// Go without Landlock, seccomp and no-new-privs
    #[arg(long)]
    no_sandbox: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OnOff {
    On,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum RouteArg {
    /// The best that this machine offers
    Auto,
    /// Read, seal and send from user space
    Userspace,
    /// Sendfile, and TLS in the kernel (module tls)
    Kernel,
    /// TCP of our own over a TAP or AF_XDP; needs the section "bypass" of --config, and privileges while it starts
    Bypass,
}

#[derive(Clone, Copy, ValueEnum)]
enum DiskArg {
    /// By heat: what is asked for again is worth memory
    Auto,
    /// Through the page cache, where it stays
    Cached,
    /// Through the page cache, where it does not stay
    Once,
    /// Past the page cache
    Direct,
}

/// The command line or the configuration is wrong: exit code 2.
struct Misused(String);

impl Serve {
    /// Serves until a signal ends it.
    pub(crate) fn run(self) -> ExitCode {
        let check = self.check;
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
        if config.library.is_none() {
            let library = config.state.join("sample-library");
            if let Err(error) = sample::ensure(&library, sample::on_terminal()) {
                return fail(1, &error.to_string());
            }
            config.library = Some(library);
        }
        // Before any thread starts: they inherit what signals do. Not earlier: until here a signal simply ends us.
        let signals = match appliance::server::signals() {
            Ok(signals) => signals,
            Err(error) => return fail(1, &format!("cannot handle signals: {error}")),
        };
        let tls = config.tls.enabled;
        let library = config.library.clone().unwrap_or_default();
        let server = match Server::start(config) {
            Ok(server) => server,
            Err(error) => return fail(1, &error.to_string()),
        };
        announce(&server, tls, &library);
        match server.run_until_signalled(signals) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error.to_string()),
        }
    }

    fn configure(self) -> Result<Config, Misused> {
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
        config.library = self.dir.or(config.library);
        config.listen = self.listen.unwrap_or(config.listen);
        config.admin = self.admin.unwrap_or(config.admin);
        config.workers = self.workers.unwrap_or(config.workers);
        config.state = self.state.unwrap_or(config.state);
        config.access_log = self.access_log.or(config.access_log);
        config.sandbox &= !self.no_sandbox;
        config.page &= !self.no_page;
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
        if !self.off.is_empty() {
            config.off = self.off;
        }
        config.check().and_then(|()| config.check_own_files()).map_err(|error| {
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

/// Says where to connect first, since somebody may be waiting for it; then, for people, what there is to see.
fn announce(server: &Server, tls: bool, library: &Path) {
    let base = base_url(server.address(), tls);
    say(&format!("ready {base}/\n"));
    let mut lines = vec![format!("library   {}", library.display())];
    lines.extend(server.describe());
    let admin = server.admin_address();
    lines.push(format!("admin     http://{admin}/ (dashboard), /status.json, /metrics, /healthz"));
    match catalog::titles(library) {
        Ok(titles) if titles.is_empty() => {
            let advice = "none yet: put video files or HLS/DASH folders into the library";
            lines.push(format!("titles    {advice}"));
        }
        Ok(titles) => describe_titles(library, &titles, &base, tls, &mut lines),
        Err(error) => tell(&format!("cannot list {}: {error}", library.display())),
    }
    say(&(lines.join("\n") + "\n"));
}

/// Titles that are listed at the start; more would scroll the rest away.
const TITLES_SHOWN: usize = 20;

fn describe_titles(
    library: &Path,
    titles: &[Title],
    base: &str,
    tls: bool,
    lines: &mut Vec<String>,
) {
    for title in titles.iter().take(TITLES_SHOWN) {
        lines.push(format!("title     {}", title.name));
        for stream in &title.streams {
            let form = match stream.form {
                Form::Hls => "HLS ",
                Form::Dash => "DASH",
                Form::File => "file",
            };
            lines.push(format!("          {form}  {base}/{}", stream.url_path));
        }
    }
    if titles.len() > TITLES_SHOWN {
        lines.push(format!("          and {} more", titles.len() - TITLES_SHOWN));
    }
    // An empty file is a title while somebody copies it, and nothing to try the server with.
    let is_empty = |title: &&Title| {
        let found = std::fs::metadata(library.join(&title.location));
        found.is_ok_and(|found| found.is_file() && found.len() == 0)
    };
    let suggested = titles.iter().find(|title| !is_empty(title));
    let Some(stream) = suggested.and_then(|title| title.streams.first()) else { return };
    let url = format!("{base}/{}", stream.url_path);
    let (ffplay, curl) = if tls { ("-tls_verify 0 ", "-k ") } else { ("", "") };
    lines.push(format!("play      ffplay {ffplay}{url}"));
    lines.push(format!("fetch     curl {curl}-O {url}"));
}

/// The address as a person on this machine would type it.
fn base_url(address: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    let host = match address.ip() {
        ip if ip.is_unspecified() => "localhost".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    format!("{scheme}://{host}:{}", address.port())
}
