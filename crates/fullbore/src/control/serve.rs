//! `fullbore control serve`: runs a gateway.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use control::gateway::{Gateway, GatewayOptions, NewFleet};
use control::store::Objects;
use control::{ServeOptions, serve};
use fleet::{Name, SteeringPolicy};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::Failed;
use crate::bad_value::BadValue;
use crate::load::{Quantity, Time};
use crate::{say, tell};

/// How long open requests may take when the gateway stops. Event streams never end by themselves.
const STOP_SECONDS: u64 = 5;

/// Open files that are enough for a gateway of 10,000 nodes, and some viewers.
const FILES_WANTED: u64 = 12_000;

/// Run a gateway of a fleet; the first start makes the fleet
///
/// The first start makes the fleet's authority, the key that signs what the fleet says, and a token for you, the admin: admin.token in --state. Once
/// viewers, nodes and operators can ask, a line on standard output says "ready http://...".
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore control serve --state /var/lib/fullbore/gateway --host gateway.example\n  \
    fullbore control serve --name g2 --host g2.example --store etcd://10.0.0.1:2379 --objects s3://fleet/objects"
)]
pub(super) struct Serve {
    /// The store: a folder, for gateways on one machine, or etcd://HOST:PORT [default: store in --state]
    #[arg(long, value_name = "DIR|etcd://...")]
    store: Option<String>,
    /// Where titles' documents are: a folder, or s3://BUCKET/PREFIX [default: objects in --state]
    #[arg(long, value_name = "DIR|s3://...")]
    objects: Option<String>,
    /// Address for viewers; port 0 picks a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:8700")]
    public: SocketAddr,
    /// Address for nodes; port 0 picks a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:8702")]
    machines: SocketAddr,
    /// Address for operators: the fleet page, the API, metrics; port 0 picks a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8701")]
    admin: SocketAddr,
    /// The gateway's folder [default: ~/.local/state/fullbore/gateway]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The gateway's name; no other gateway of the fleet has it
    #[arg(long, default_value = "g1")]
    name: Name,
    /// Name or address by which nodes reach this gateway [default: the address of --machines, if that is one]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Address by which viewers know this gateway, such as `https://tv.example` [default: the one that they ask for]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Region that the gateway is in
    #[arg(long)]
    region: Option<Name>,
    /// Name of the fleet, if this start makes it
    #[arg(long, value_name = "NAME", default_value = "fleet")]
    fleet: Name,
    /// How nodes speak with viewers, if this start makes the fleet
    #[arg(long, value_name = "http|https", default_value = "https")]
    node_scheme: Scheme,
    /// Port of all nodes for viewers, if this start makes the fleet
    #[arg(long, value_name = "PORT", default_value_t = 8443)]
    node_port: u16,
    /// Sign viewers' addresses, if this start makes the fleet: nodes then serve nothing without a token
    #[arg(long)]
    signed: bool,
    /// How long signed addresses work, such as 6h
    #[arg(long, value_name = "TIME", default_value = "12h")]
    token_life: Time,
    /// How long nodes' certificates hold, from 5m to 9528h (397 days); nodes renew them when two thirds are over
    #[arg(long, value_name = "TIME", default_value = "720h")]
    node_certificate_life: CertificateLife,
    /// Most bytes of the log of decisions, such as 1G
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    decisions: Quantity,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scheme {
    Http,
    Https,
}

/// How long a node's certificate holds.
#[derive(Clone, Copy)]
struct CertificateLife(Duration);

/// Shorter, and a gateway that restarts could come too late for a renewal. Longer, and a box that was forgotten may speak for years.
const CERTIFICATE_LIFE: RangeInclusive<Duration> =
    Duration::from_secs(5 * 60)..=Duration::from_secs(397 * 24 * 3600);

impl FromStr for CertificateLife {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let Time(life) = text.parse()?;
        match CERTIFICATE_LIFE.contains(&life) {
            true => Ok(Self(life)),
            false => Err(BadValue::new(text, "a time from 5m to 9528h")),
        }
    }
}

/// A gateway's folder, if none is named.
pub(super) fn state_folder(named: Option<&Path>) -> PathBuf {
    if let Some(named) = named {
        return named.to_owned();
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
    base.unwrap_or_else(|| PathBuf::from("/var/lib")).join("fullbore/gateway")
}

/// What kind of store that is, in a word.
pub(super) fn engine_name(store: &str) -> &'static str {
    if store.starts_with("etcd://") { "etcd" } else { "sqlite" }
}

impl Serve {
    /// Runs the gateway until a signal ends it.
    pub(super) fn run(self) -> Result<(), Failed> {
        raise_open_files();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failed(1, error.to_string()))?;
        let done = runtime.block_on(self.serve());
        // What still runs is a stream or a read of the disk that nobody waits for.
        runtime.shutdown_timeout(Duration::from_secs(1));
        done
    }

    async fn serve(self) -> Result<(), Failed> {
        let failed = |error: &dyn std::fmt::Display| Failed(1, error.to_string());
        let public = bind(self.public, "--public").await?;
        let admin = bind(self.admin, "--admin").await?;
        let machines = bind(self.machines, "--machines").await?;
        let machines_address = machines.local_addr().map_err(|error| failed(&error))?;
        let host = self.host_for(machines_address)?;
        let options = self.gateway_options(&host, machines_address.port())?;
        let gateway = Gateway::start(options).await.map_err(|error| failed(&error))?;
        let public_address = public.local_addr().map_err(|error| failed(&error))?;
        let admin_address = admin.local_addr().map_err(|error| failed(&error))?;
        if !admin_address.ip().is_loopback() {
            tell(&format!(
                "note: operators' tokens cross the network in the clear to {admin_address}: put TLS in front of it"
            ));
        }
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| failed(&error))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| failed(&error))?;
        let (stop_now, mut stopping) = tokio::sync::watch::channel(false);
        let stop = async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            stop_now.send_replace(true);
        };
        let options = ServeOptions {
            public,
            machines,
            admin,
            hosts: vec![host],
            public_url: self.public_url,
            region: self.region,
            node_lifetime: self.node_certificate_life.0,
        };
        say(&format!("ready http://{public_address}/ (admin http://{admin_address}/)\n"));
        let late = async {
            // An error means that `stop` is gone, and `serve` with it.
            let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            tokio::time::sleep(Duration::from_secs(STOP_SECONDS)).await;
        };
        tokio::select! {
            done = serve(gateway, options, stop) => done.map_err(|error| failed(&error)),
            () = late => Ok(()),
        }
    }

    /// By what nodes reach the listener for them.
    fn host_for(&self, machines: SocketAddr) -> Result<String, Failed> {
        match &self.host {
            Some(host) => Ok(host.clone()),
            None if machines.ip().is_unspecified() => Err(Failed(
                2,
                "nodes must know by which name or address they reach this gateway: name it with --host".to_owned(),
            )),
            None => Ok(machines.ip().to_string()),
        }
    }

    fn gateway_options(&self, host: &str, machines_port: u16) -> Result<GatewayOptions, Failed> {
        let state = state_folder(self.state.as_deref());
        let below = |name: &str| state.join(name).display().to_string();
        let store = self.store.clone().unwrap_or_else(|| below("store"));
        let objects = self.objects.clone().unwrap_or_else(|| below("objects"));
        let failed = |error: &dyn std::fmt::Display| Failed(1, error.to_string());
        control::prepare_state(&state).map_err(|error| failed(&error))?;
        let engine = control::store::open(&store).map_err(|error| failed(&error))?;
        let objects = Objects::open(&objects).map_err(|error| failed(&error))?;
        let scheme = match self.node_scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        let policy = SteeringPolicy {
            scheme: scheme.to_owned(),
            port: self.node_port,
            ..SteeringPolicy::default()
        };
        // An IPv6 address stands in brackets in a URL.
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Ok(GatewayOptions {
            name: self.name.clone(),
            state,
            engine,
            engine_name: engine_name(&store),
            objects: Arc::new(objects),
            machines_url: format!("https://{host}:{machines_port}"),
            token_seconds: self.token_life.0.as_secs(),
            new_fleet: NewFleet { name: self.fleet.clone(), policy, signs_addresses: self.signed },
            decisions_bytes_max: self.decisions.0,
            log: tell,
        })
    }
}

/// Each node has a connection that stays open. The usual limit, 1024, would keep the next node out.
fn raise_open_files() {
    match machine::raise_nofile() {
        Ok(allowed) if allowed >= FILES_WANTED => {}
        Ok(allowed) => tell(&format!(
            "note: this gateway may have {allowed} open files, and each node and viewer takes one: for a larger fleet, raise the hard limit \
             (LimitNOFILE= of its systemd unit, or ulimit -Hn)"
        )),
        Err(error) => tell(&format!("note: cannot raise the limit on open files: {error}")),
    }
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failed> {
    TcpListener::bind(address).await.map_err(|error| {
        Failed(1, format!("cannot listen on {address}: {error} (choose another with {flag})"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_hold_neither_too_short_nor_too_long() {
        let life = |text: &str| text.parse::<CertificateLife>().ok().map(|life| life.0.as_secs());
        assert_eq!((life("5m"), life("720h")), (Some(300), Some(30 * 24 * 3600)));
        assert_eq!(life("720h").map(Duration::from_secs), Some(identity::NODE_LIFETIME));
        for bad in ["", "0", "299s", "9529h", "a year"] {
            assert_eq!(life(bad), None, "{bad}");
        }
    }
}
