//! The caching edges to compare, and how each is run: with a configuration that readers can examine (`peers/` in this crate).

use super::turns::Cache;
use super::{Options, edge};
use crate::unknown_name::UnknownName;
use crate::versus::Workload;
use crate::versus::peer::{Recipe, fullbore, nginx_with, words};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// Another caching edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgePeer {
    /// nginx with `proxy_cache` and `slice`.
    Nginx,
    /// Varnish. It has no TLS, so it takes part over plain HTTP only.
    Varnish,
    /// Apache Traffic Server.
    TrafficServer,
}

impl EdgePeer {
    /// All of them in order, with their names.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Nginx, "nginx"), (Self::Varnish, "varnish"), (Self::TrafficServer, "ats")];

    /// Whether it can take part.
    pub(super) fn serves(self, has_tls: bool) -> bool {
        !has_tls || self != Self::Varnish
    }
}

impl std::str::FromStr for EdgePeer {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        let unknown = || UnknownName::new("edge", name, Self::ALL.map(|(_, name)| name));
        known.map(|(peer, _)| *peer).ok_or_else(unknown)
    }
}

/// The servers in the order of the comparison, in front of `origin`. Ours comes first, because it makes the certificate that all of them use.
/// The library has `library_bytes`.
///
/// # Errors
/// If a configuration cannot be written.
pub(super) fn caches(
    options: &Options,
    origin: SocketAddr,
    scratch: &Path,
    library_bytes: u64,
) -> io::Result<Vec<Cache>> {
    let workload = if options.has_tls { Workload::TlsWarm } else { Workload::HttpWarm };
    let ours =
        Cache { recipe: edge(options.has_tls, origin)?, folder: Some(scratch.join("edge-cache")) };
    let mut caches = vec![ours];
    for peer in options.peers.iter().filter(|peer| peer.serves(options.has_tls)) {
        caches.push(match peer {
            EdgePeer::Nginx => nginx(options.has_tls, origin, scratch),
            EdgePeer::Varnish => varnish(origin, scratch, library_bytes),
            EdgePeer::TrafficServer => {
                traffic_server(options.has_tls, origin, scratch, library_bytes)?
            }
        });
    }
    caches.push(Cache { recipe: fullbore(workload, &[], "fullbore serve")?, folder: None });
    Ok(caches)
}

fn nginx(has_tls: bool, origin: SocketAddr, scratch: &Path) -> Cache {
    let http = include_str!("../../peers/nginx-edge.conf").replace("@ORIGIN@", &origin.to_string());
    let server = include_str!("../../peers/nginx-edge-server.conf");
    let recipe = nginx_with(has_tls, &http, server);
    Cache { recipe, folder: Some(scratch.join("nginx-cache")) }
}

/// Varnish keeps its cache in memory, which is what it is best at. Its folder has its compiled configuration.
fn varnish(origin: SocketAddr, scratch: &Path, library_bytes: u64) -> Cache {
    let config = include_str!("../../peers/varnish-edge.vcl")
        .replace("@ORIGIN_HOST@", &origin.ip().to_string())
        .replace("@ORIGIN_PORT@", &origin.port().to_string());
    let line = format!(
        "varnishd -F -n @SCRATCH@/varnish -f @CONFIG@ -a @ADDRESS@:@PORT@ -j none -s malloc,{}k -p thread_pools=1",
        space(library_bytes) >> 10
    );
    let recipe = Recipe {
        name: "varnish".to_owned(),
        command: words(&line),
        config: Some(config),
        files: Vec::new(),
        version: Some("-V"),
        advice: "if Varnish is missing: ./run bench edge unpacks one for the bench alone; it needs a C compiler",
        says_ready: false,
        has_own_tcp: false,
    };
    Cache { recipe, folder: Some(scratch.join("varnish")) }
}

/// Writes Traffic Server's configuration, a folder of files.
fn traffic_server(
    has_tls: bool,
    origin: SocketAddr,
    scratch: &Path,
    library_bytes: u64,
) -> io::Result<Cache> {
    let (folder, state) = (scratch.join("ats"), scratch.join("state"));
    let (cache, space) = (folder.join("cache"), space(library_bytes));
    fs::create_dir_all(folder.join("templates"))?;
    let records = include_str!("../../peers/ats-records.config")
        .replace("@SCRATCH@", &scratch.display().to_string())
        .replace("@CACHE_BYTES@", &space.to_string());
    // It doesn't start if a certificate in this file is missing, and without TLS no server has made one.
    let certificate = match has_tls {
        false => String::new(),
        true => format!(
            "dest_ip=* ssl_cert_name={} ssl_key_name={}\n",
            state.join("self-signed-cert.pem").display(),
            state.join("self-signed-key.pem").display()
        ),
    };
    let files = [
        ("records.config", records),
        ("remap.config", format!("map / http://{origin}/\n")),
        ("storage.config", format!("{} {space}\n", cache.display())),
        ("ssl_multicert.config", certificate),
        ("ip_allow.yaml", include_str!("../../peers/ats-ip_allow.yaml").to_owned()),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    let tls = if has_tls { ":ssl" } else { "" };
    let line = format!("traffic_server --run-root=@CONFIG@ --httpport @PORT@{tls}:ip-in=@ADDRESS@");
    let recipe = Recipe {
        name: "ats".to_owned(),
        command: words(&line),
        config: Some(include_str!("../../peers/ats-runroot.yaml").to_owned()),
        files: Vec::new(),
        version: Some("--version"),
        advice: "if Traffic Server is missing: ./run bench edge unpacks one for the bench alone",
        says_ready: false,
        has_own_tcp: false,
    };
    Ok(Cache { recipe, folder: Some(cache) })
}

/// Space for a library in a cache: twice its size, because caches keep more than its bytes.
fn space(library_bytes: u64) -> u64 {
    2 * library_bytes.max(64 << 20)
}
