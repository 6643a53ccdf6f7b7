//! `fullbore control serve`: runs a gateway.

use std::mem::take;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fleet_protocol::{Name, SteeringPolicy};
use gateway::gateway::{Gateway, GatewayOptions, NewFleet};
use gateway::{ServeOptions, Transport, Webhook, serve};
use identity::OperatorAuthority;
use store::Objects;
use tls::Certificates;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::Failed;
use super::settings::Settings;
use crate::host::Host;
use crate::{say_started, tell};

/// How long signed URLs work by default.
const TOKEN_SECONDS: u64 = 12 * 60 * 60;

/// Default size limit of the decision log, in bytes.
const DECISIONS_BYTES_MAX: u64 = 1_000_000_000;

/// How long open requests may take at shutdown. Event streams never end by themselves.
const STOP_SECONDS: u64 = 5;

/// Open files that are enough for a gateway of 10,000 nodes, and some viewers.
const FILES_WANTED: u64 = 12_000;

/// Run a fleet's gateway; the first start creates the fleet
///
/// The first start creates the fleet's authority, the key that signs the fleet's documents, and a token for you, the admin: admin.token in --state.
/// Once viewers, nodes and operators can connect, a line on standard output says "ready http://..." or "ready https://...".
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore control serve --state /var/lib/fullbore/gateway --host gateway.example\n  \
    fullbore control serve --name g2 --host g2.example --store etcd://10.0.0.1:2379 --objects s3://fleet/objects\n  \
    fullbore control serve --host gw.example --public-cert chain.pem --public-key key.pem\n  \
    fullbore control serve --config /etc/fullbore/gateway.toml"
)]
pub(super) struct Serve {
    #[command(flatten)]
    settings: Settings,
    /// Configuration file (TOML): the names of the flags above, with _ for -; flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The gateway's default folder, unless one is named.
pub(super) fn state_folder(named: Option<&Path>) -> PathBuf {
    if let Some(named) = named {
        return named.to_owned();
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
    base.unwrap_or_else(|| PathBuf::from("/var/lib")).join("fullbore/gateway")
}

/// The kind of the store, in a word.
pub(super) fn engine_name(store: &str) -> &'static str {
    if store.starts_with("etcd://") { "etcd" } else { "sqlite" }
}

/// A listener's certificates, if it has any.
fn certificates(
    chains: Vec<PathBuf>,
    keys: Vec<PathBuf>,
) -> Result<Option<Arc<Certificates>>, Failed> {
    if chains.is_empty() {
        return Ok(None);
    }
    let loaded = Certificates::load(chains.into_iter().zip(keys).collect());
    loaded.map(|loaded| Some(Arc::new(loaded))).map_err(|error| failed(&error))
}

fn failed(error: &dyn std::fmt::Display) -> Failed {
    Failed(1, error.to_string())
}

impl Serve {
    /// Runs the gateway until a signal stops it.
    pub(super) fn run(self) -> Result<(), Failed> {
        raise_open_files();
        let settings = self.settings.with_file(self.config.as_deref())?;
        settings.check()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let done = runtime.block_on(settings.serve());
        // Anything still running is a stream or a disk read that has no one waiting for it.
        runtime.shutdown_timeout(Duration::from_secs(1));
        done
    }
}

impl Settings {
    async fn serve(mut self) -> Result<(), Failed> {
        let everywhere = |port| SocketAddr::from(([0, 0, 0, 0], port));
        // Checked before anything is created or bound: most mistakes are here.
        let public_files = (take(&mut self.public_cert), take(&mut self.public_key));
        let admin_files = (take(&mut self.admin_cert), take(&mut self.admin_key));
        let public_certificates = certificates(public_files.0, public_files.1)?;
        let admin_certificates = certificates(admin_files.0, admin_files.1)?;
        let public = bind(self.public.unwrap_or_else(|| everywhere(8700)), "--public").await?;
        let admin = bind(self.admin(), "--admin").await?;
        let machines = self.machines.unwrap_or_else(|| everywhere(8702));
        let machines = bind(machines, "--machines").await?;
        let machines_address = machines.local_addr().map_err(|error| failed(&error))?;
        let host = self.host_for(machines_address)?;
        let state = state_folder(self.state.as_deref());
        let _locked = gateway::prepare_state(&state).map_err(|error| failed(&error))?;
        let options = self.gateway_options(state, &host, machines_address.port())?;
        let objects = Arc::clone(&options.objects);
        let gateway = Gateway::start(options).await.map_err(|error| failed(&error))?;
        if let Some(place) = self.objects.take() {
            tokio::spawn(look_for_objects(objects, place));
        }
        let operators = self.operators_ca.as_deref();
        let operators = operators.map(|file| OperatorAuthority::read(file, gateway.authority()));
        let operators = operators.transpose().map_err(|error| failed(&error))?;
        let options = ServeOptions {
            public,
            public_transport: transport(public_certificates, None),
            machines,
            admin,
            admin_transport: transport(admin_certificates, operators),
            hosts: vec![host],
            public_url: self.public_url.map(|url| url.0),
            node_lifetime: self
                .node_certificate_life
                .map_or(identity::NODE_LIFETIME, |life| life.0),
        };
        until_signalled(gateway, options).await
    }

    /// The name or address by which nodes reach the machine listener.
    fn host_for(&self, machines: SocketAddr) -> Result<String, Failed> {
        match &self.host {
            Some(Host(host)) => Ok(host.clone()),
            None if machines.ip().is_unspecified() => Err(Failed(
                2,
                "nodes must know by which name or address they reach this gateway: name it with --host".to_owned(),
            )),
            None => Ok(machines.ip().to_string()),
        }
    }

    fn gateway_options(
        &self,
        state: PathBuf,
        host: &str,
        machines_port: u16,
    ) -> Result<GatewayOptions, Failed> {
        let below = |name: &str| state.join(name).display().to_string();
        let store = self.store.clone().unwrap_or_else(|| below("store"));
        let objects = self.objects.clone().unwrap_or_else(|| below("objects"));
        let engine = store::open(&store).map_err(|error| failed(&error))?;
        let objects = Objects::open(&objects).map_err(|error| failed(&error))?;
        let policy = SteeringPolicy {
            scheme: self.node_scheme.unwrap_or_default().as_str().to_owned(),
            port: self.node_port.map_or(8443, NonZeroU16::get),
            ..SteeringPolicy::default()
        };
        let webhook = self.webhook()?.map(Arc::new);
        let name = |own: &Option<Name>, default: &str| match own {
            Some(own) => own.clone(),
            None => default.parse().expect("a name"),
        };
        // URLs put IPv6 addresses in brackets.
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let fleet = name(&self.fleet, "fleet");
        Ok(GatewayOptions {
            name: name(&self.name, "g1"),
            state,
            engine,
            engine_name: engine_name(&store),
            objects: Arc::new(objects),
            machines_url: format!("https://{host}:{machines_port}"),
            region: self.region.clone(),
            token_seconds: self.token_life.map_or(TOKEN_SECONDS, |life| life.0.as_secs()),
            plan_every: self.plan_every.map(|every| every.0),
            new_fleet: NewFleet { name: fleet, policy, signs_addresses: self.signed },
            webhook,
            decisions_bytes_max: self.decisions.map_or(DECISIONS_BYTES_MAX, |bytes| bytes.0),
            log: tell,
        })
    }
}

/// Longest file with a webhook's secret.
const SECRET_BYTES_MAX: u32 = 1024;

impl Settings {
    /// The webhook, if one is set.
    fn webhook(&self) -> Result<Option<Webhook>, Failed> {
        let (Some(url), Some(file)) = (&self.webhook, &self.webhook_secret_file) else {
            return Ok(None);
        };
        let unusable =
            |why: &dyn std::fmt::Display| Failed(1, format!("{}: {why}", file.display()));
        let secret = files::read(file, SECRET_BYTES_MAX).map_err(|error| unusable(&error))?;
        let mode = std::fs::metadata(file).map_err(|error| unusable(&error))?.permissions().mode();
        if mode & 0o006 != 0 {
            return Err(unusable(&"other users may read or change it: chmod 600"));
        }
        let secret = std::str::from_utf8(&secret).map_err(|_| unusable(&"it is not text"))?;
        Webhook::new(url, secret).map(Some).map_err(|why| Failed(1, format!("--webhook: {why}")))
    }
}

/// Warns if the bucket for objects cannot be used. The gateway continues, because viewers of titles that it knows need no bucket.
async fn look_for_objects(objects: Arc<Objects>, place: String) {
    if let Err(why) = objects.probe().await {
        tell(&format!(
            "note: objects in {place} cannot be used: {why}; nothing can be published until they can"
        ));
    }
}

/// Raises the limit on open files: each node keeps a connection open, and the usual limit of 1024 would refuse later nodes.
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

fn transport(
    certificates: Option<Arc<Certificates>>,
    operators: Option<OperatorAuthority>,
) -> Transport {
    match certificates {
        None => Transport::Plain,
        Some(certificates) => Transport::Tls { certificates, operators },
    }
}

/// Prints the gateway's addresses, and warns about surprising settings.
fn announce(gateway: &Gateway, options: &ServeOptions) -> Result<(), Failed> {
    let public_address = options.public.local_addr().map_err(|error| failed(&error))?;
    let admin_address = options.admin.local_addr().map_err(|error| failed(&error))?;
    let (public, admin) = (options.public_transport.scheme(), options.admin_transport.scheme());
    let is_https =
        |url: &Option<String>| url.as_deref().is_some_and(|url| url.starts_with("https://"));
    let nodes = gateway.live().world().policy.scheme.clone();
    if nodes == "http" && (public == "https" || is_https(&options.public_url)) {
        tell(
            "note: viewers come by https, but nodes serve by http, which browsers refuse to load into a page that came by https: \
             give nodes certificates, and change the scheme with PUT /api/v1/policy",
        );
    }
    say_started(&format!(
        "ready {public}://{public_address}/ (admin {admin}://{admin_address}/)\n"
    ));
    Ok(())
}

async fn until_signalled(gateway: Arc<Gateway>, options: ServeOptions) -> Result<(), Failed> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| failed(&error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| failed(&error))?;
    // From here on SIGHUP doesn't end the process; the server listens for it instead.
    let _hangup = signal(SignalKind::hangup()).map_err(|error| failed(&error))?;
    announce(&gateway, &options)?;
    let (stop_now, mut stopping) = tokio::sync::watch::channel(false);
    let stop = async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        stop_now.send_replace(true);
    };
    let late = async {
        // An error means that `stop` was dropped, and `serve` with it.
        let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
        tokio::time::sleep(Duration::from_secs(STOP_SECONDS)).await;
    };
    tokio::select! {
        done = serve(gateway, options, stop) => done.map_err(|error| failed(&error)),
        () = late => Ok(()),
    }
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failed> {
    TcpListener::bind(address).await.map_err(|error| {
        Failed(1, format!("cannot listen on {address}: {error} (choose another with {flag})"))
    })
}
