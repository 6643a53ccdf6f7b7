//! A gateway's three listeners: for viewers, machines and operators.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::map_request;
use fleet_protocol::host_of_url;
use identity::{
    AcceptBounds, Guest, GuestListener, OperatorAuthority, RefusalLog, guest_bounds, guest_config,
};
use listener::{Bodies, Descriptors, Places, PlainListener, RequestBounds, Share};
use tls::Certificates;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::machines::{self, Machines, SignAddress};
use crate::renewal::{Renewed, renew};
use crate::{api, pages};

/// Most connections of operators: a few people, their browsers and scripts.
const ADMIN_CONNECTIONS_MAX: usize = 1024;

/// Fractions of the descriptors for connections: a quarter is reserved for machines, and a sixteenth for operators.
const MACHINES_PART: usize = 4;
const ADMIN_PART: usize = 16;

/// Upper limits of the reserved descriptors. For machines this covers a large fleet's nodes, and some that are joining.
const MACHINES_RESERVED_MAX: usize = 4096;
const ADMIN_RESERVED_MAX: usize = 256;

/// A gateway's listeners, and settings of its answers to viewers.
pub struct ServeOptions {
    /// For viewers.
    pub public: TcpListener,
    /// Transport for viewers.
    pub public_transport: Transport,
    /// For machines: mutual TLS.
    pub machines: TcpListener,
    /// For operators.
    pub admin: TcpListener,
    /// Transport for operators.
    pub admin_transport: Transport,
    /// The hosts under which nodes reach it, for its certificate.
    pub hosts: Vec<String>,
    /// Its address for viewers, such as `https://tv.example`; `None`: the one in their request.
    pub public_url: Option<String>,
    /// How long nodes' certificates are valid.
    pub node_lifetime: Duration,
}

/// Transport of a listener.
#[derive(Debug)]
pub enum Transport {
    /// Plain HTTP.
    Plain,
    /// TLS.
    Tls {
        /// The gateway's certificates. They are reloaded when their files change.
        certificates: Arc<Certificates>,
        /// The authority that signs operators' certificates, if client certificates are accepted.
        operators: Option<OperatorAuthority>,
    },
}

impl Transport {
    /// The scheme of its URLs.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls { .. } => "https",
        }
    }

    fn renewed(&self, listener: &'static str) -> Option<Renewed> {
        match self {
            Self::Plain => None,
            Self::Tls { certificates, .. } => {
                Some(Renewed::new(listener, Arc::clone(certificates)))
            }
        }
    }
}

/// Serves until `stop` completes. Then it stops accepting connections, and returns when all open ones have their answers, or at the latest when the
/// caller drops it.
///
/// # Errors
/// If a listener fails.
pub async fn serve(
    gateway: Arc<Gateway>,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (stopping, stopped) = watch::channel(false);
    let public = public_router(&gateway, &options);
    let admin = api::router(&gateway).merge(pages::admin());
    let machines = Machines {
        live: Arc::clone(gateway.live()),
        clock: gateway.clock(),
        engine: gateway.shared_engine(),
        store: gateway.clone(),
        authority: Arc::clone(gateway.authority()),
        gateway: gateway.name().clone(),
        hosts: options.hosts,
        public_host: options.public_url.as_deref().map(|url| host_of_url(url).to_owned()),
        snapshot_key: gateway.live().snapshot_key(),
        refusals: Arc::clone(gateway.refusals()),
        node_lifetime: options.node_lifetime,
        sign: sign(&gateway),
    };
    let work = tokio::spawn(Arc::clone(&gateway).work());
    let renewed = [
        options.public_transport.renewed("public listener"),
        options.admin_transport.renewed("admin listener"),
    ];
    let renewal = renew(renewed.into_iter().flatten().collect(), gateway.log());
    let shares = Shares::of_process();
    let viewers = viewers(&gateway, options.public, options.public_transport, shares.public);
    let operators = operators(&gateway, options.admin, options.admin_transport, shares.admin);
    let bounds = AcceptBounds::default();
    let counts = Arc::clone(&gateway.listeners_refused().machines);
    let places = Places::new(bounds.places(), shares.machines, counts);
    let serving = async {
        tokio::try_join!(
            listen(viewers, public, stopped.clone()),
            listen(operators, admin, stopped)
        )
    };
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended.map(|_| ()),
        ended = machines::serve(options.machines, machines, places, bounds) => ended,
        ended = renewal => ended,
        () = stop => {
            stopping.send_replace(true);
            serving.await.map(|_| ())
        }
    };
    work.abort();
    gateway.keep_popularity_at_the_end().await;
    gateway.keep_experience().unwrap_or_else(|problem| gateway.tell(&problem));
    gateway.resign().await;
    gateway.decisions().flush();
    ended
}

fn sign(gateway: &Arc<Gateway>) -> SignAddress {
    let gateway = Arc::clone(gateway);
    Arc::new(move |title, expires| viewer_api::Source::sign(&*gateway, title, expires))
}

fn public_router(gateway: &Arc<Gateway>, options: &ServeOptions) -> Router {
    let answers = viewer_api::Options {
        session_key: gateway.session_key(),
        address: options.public_url.clone(),
        scheme: options.public_transport.scheme(),
        region: gateway.region().cloned(),
        token_seconds: gateway.token_seconds(),
    };
    let source: Arc<dyn viewer_api::Source> = gateway.clone();
    viewer_api::router(source, answers)
        .merge(pages::public(gateway))
        .layer(map_request(with_address))
}

/// Adds the viewer's address for the handlers of viewers' requests, which video servers use as well.
async fn with_address(mut request: Request) -> Request {
    let guest = request.extensions().get::<ConnectInfo<Guest>>();
    if let Some(address) = guest.map(|ConnectInfo(guest)| guest.address) {
        request.extensions_mut().insert(ConnectInfo(address));
    }
    request
}

/// Each listener's share of the process's descriptors. Machines and operators can connect regardless of the number of viewers.
struct Shares {
    public: Share,
    machines: Share,
    admin: Share,
}

impl Shares {
    fn of_process() -> Self {
        let all = Descriptors::of_process();
        let admin = (all.max() / ADMIN_PART).min(ADMIN_RESERVED_MAX);
        let machines = (all.max() / MACHINES_PART).min(MACHINES_RESERVED_MAX);
        Self {
            public: all.share(machines + admin),
            machines: all.share(admin),
            admin: all.share(0),
        }
    }
}

/// A listener with its limits.
struct ListenerParts {
    listener: TcpListener,
    transport: Transport,
    refusals: Arc<RefusalLog>,
    places: Arc<Places>,
    bounds: AcceptBounds,
    bodies: Bodies,
}

fn viewers(
    gateway: &Gateway,
    listener: TcpListener,
    transport: Transport,
    share: Share,
) -> ListenerParts {
    let (bounds, refusals) = (guest_bounds(), Arc::clone(gateway.viewers_refused()));
    let counts = Arc::clone(&gateway.listeners_refused().public);
    let places = Places::new(bounds.places(), share, counts);
    ListenerParts { listener, transport, refusals, places, bounds, bodies: Bodies::None }
}

fn operators(
    gateway: &Gateway,
    listener: TcpListener,
    transport: Transport,
    share: Share,
) -> ListenerParts {
    let bounds = AcceptBounds { connections_max: ADMIN_CONNECTIONS_MAX, ..guest_bounds() };
    let refusals = Arc::clone(gateway.operators_refused());
    let counts = Arc::clone(&gateway.listeners_refused().admin);
    let places = Places::new(bounds.places(), share, counts);
    ListenerParts { listener, transport, refusals, places, bounds, bodies: Bodies::OfKnownLength }
}

async fn listen(
    parts: ListenerParts,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let stop = async move {
        // An error means that the sender is gone, which also means stop.
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
    };
    let ListenerParts { listener, transport, refusals, places, bounds, bodies } = parts;
    let requests = RequestBounds { bodies, ..bounds.requests() };
    let counts = Arc::clone(places.counts());
    match transport {
        Transport::Plain => {
            let guests = PlainListener::new(listener, places, Guest::plain);
            listener::serve(guests, router, requests, counts, stop).await;
        }
        Transport::Tls { certificates, operators } => {
            let config =
                guest_config(certificates, operators.as_ref()).map_err(io::Error::other)?;
            let guests = GuestListener::start(listener, config, refusals, places, bounds)?;
            listener::serve(guests, router, requests, counts, stop).await;
        }
    }
    Ok(())
}
