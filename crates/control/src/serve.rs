//! A gateway's three listeners: viewers, machines, operators.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::map_request;
use crypt::Certificates;
use fleet::host_of_url;
use identity::{
    AcceptBounds, Guest, GuestListener, OperatorAuthority, RefusalLog, guest_bounds, guest_config,
};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::machines::{self, Machines, SignAddress};
use crate::renewal::{Renewed, renew};
use crate::{api, pages};

/// How long nothing may move on an operator's connection: replaying a day of decisions takes ten minutes at most.
const ADMIN_IDLE_MAX: Duration = Duration::from_secs(15 * 60);

/// Where a gateway listens, and how it answers viewers.
pub struct ServeOptions {
    /// For viewers.
    pub public: TcpListener,
    /// How viewers come.
    pub public_transport: Transport,
    /// For machines: mutual TLS.
    pub machines: TcpListener,
    /// For operators.
    pub admin: TcpListener,
    /// How operators come.
    pub admin_transport: Transport,
    /// The hosts under which nodes reach it, for its certificate.
    pub hosts: Vec<String>,
    /// The address that viewers know it by, such as `https://tv.example`, if it is not the one that they ask for.
    pub public_url: Option<String>,
    /// How long nodes' certificates hold.
    pub node_lifetime: Duration,
}

/// How guests come.
#[derive(Debug)]
pub enum Transport {
    /// By plain HTTP.
    Plain,
    /// By TLS.
    Tls {
        /// What the gateway shows. Files that change are loaded again.
        certificates: Arc<Certificates>,
        /// Who signs operators' certificates, if they may show some.
        operators: Option<OperatorAuthority>,
    },
}

impl Transport {
    /// As URLs name it.
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

/// Serves until `stop` is done. Then it takes no more connections, and ends when those that are open have their answers, or at the latest when the
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
    let viewers = Door {
        listener: options.public,
        transport: options.public_transport,
        refusals: Arc::clone(gateway.viewers_refused()),
        bounds: guest_bounds(),
    };
    let operators = Door {
        listener: options.admin,
        transport: options.admin_transport,
        refusals: Arc::clone(gateway.operators_refused()),
        bounds: AcceptBounds { idle_max: ADMIN_IDLE_MAX, ..guest_bounds() },
    };
    let serving = async {
        tokio::try_join!(
            listen(viewers, public, stopped.clone()),
            listen(operators, admin, stopped)
        )
    };
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended.map(|_| ()),
        ended = machines::serve(options.machines, machines, AcceptBounds::default()) => ended,
        ended = renewal => ended,
        () = stop => {
            stopping.send_replace(true);
            serving.await.map(|_| ())
        }
    };
    work.abort();
    gateway.keep_popularity_at_the_end().await;
    gateway.resign().await;
    gateway.decisions().flush();
    ended
}

fn sign(gateway: &Arc<Gateway>) -> SignAddress {
    let gateway = Arc::clone(gateway);
    Arc::new(move |title, expires| answers::Source::sign(&*gateway, title, expires))
}

fn public_router(gateway: &Arc<Gateway>, options: &ServeOptions) -> Router {
    let answers = answers::Options {
        session_key: gateway.session_key(),
        address: options.public_url.clone(),
        scheme: options.public_transport.scheme(),
        region: gateway.region().cloned(),
        token_seconds: gateway.token_seconds(),
    };
    let source: Arc<dyn answers::Source> = gateway.clone();
    answers::router(source, answers).merge(pages::public(gateway)).layer(map_request(with_address))
}

/// Answers to viewers ask for the address alone, since boxes answer them, too.
async fn with_address(mut request: Request) -> Request {
    let guest = request.extensions().get::<ConnectInfo<Guest>>();
    if let Some(address) = guest.map(|ConnectInfo(guest)| guest.address) {
        request.extensions_mut().insert(ConnectInfo(address));
    }
    request
}

/// A listener for guests.
struct Door {
    listener: TcpListener,
    transport: Transport,
    refusals: Arc<RefusalLog>,
    bounds: AcceptBounds,
}

async fn listen(door: Door, router: Router, mut stopped: watch::Receiver<bool>) -> io::Result<()> {
    let service = router.into_make_service_with_connect_info::<Guest>();
    let stop = async move {
        // An error means that nobody can say stop any more, which is the same.
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
    };
    match door.transport {
        Transport::Plain => axum::serve(door.listener, service).with_graceful_shutdown(stop).await,
        Transport::Tls { certificates, operators } => {
            let config =
                guest_config(certificates, operators.as_ref()).map_err(io::Error::other)?;
            let listener = GuestListener::start(door.listener, config, door.refusals, door.bounds)?;
            axum::serve(listener, service).with_graceful_shutdown(stop).await
        }
    }
}
