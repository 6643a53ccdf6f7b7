//! A gateway's three listeners: viewers, machines, operators.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use fleet::Name;
use identity::AcceptBounds;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::machines::{self, Machines};
use crate::{api, pages};

/// Where a gateway listens, and how it answers viewers.
pub struct ServeOptions {
    /// For viewers: plain HTTP.
    pub public: TcpListener,
    /// For machines: mutual TLS.
    pub machines: TcpListener,
    /// For operators: plain HTTP.
    pub admin: TcpListener,
    /// The hosts under which nodes reach it, for its certificate.
    pub hosts: Vec<String>,
    /// The address that viewers know it by, such as `https://tv.example`, if it is not the one that they ask for.
    pub public_url: Option<String>,
    /// The region that it is in.
    pub region: Option<Name>,
    /// How long nodes' certificates hold.
    pub node_lifetime: Duration,
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
        snapshot_key: gateway.live().snapshot_key(),
        refusals: Arc::clone(gateway.refusals()),
        node_lifetime: options.node_lifetime,
    };
    let work = tokio::spawn(Arc::clone(&gateway).work());
    let serving = async {
        tokio::try_join!(
            listen(options.public, public, stopped.clone()),
            listen(options.admin, admin, stopped),
        )
    };
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended.map(|_| ()),
        ended = machines::serve(options.machines, machines, AcceptBounds::default()) => ended,
        () = stop => {
            stopping.send_replace(true);
            serving.await.map(|_| ())
        }
    };
    work.abort();
    gateway.resign().await;
    gateway.decisions().flush();
    ended
}

fn public_router(gateway: &Arc<Gateway>, options: &ServeOptions) -> Router {
    let answers = answers::Options {
        session_key: gateway.session_key(),
        address: options.public_url.clone(),
        region: options.region.clone(),
        token_seconds: gateway.token_seconds(),
    };
    let source: Arc<dyn answers::Source> = gateway.clone();
    answers::router(source, answers).merge(pages::public(gateway))
}

async fn listen(
    listener: TcpListener,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let stop = async move {
        // An error means that nobody can say stop any more, which is the same.
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
    };
    axum::serve(listener, service).with_graceful_shutdown(stop).await
}
