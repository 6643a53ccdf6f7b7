//! A viewer's requests before the first byte: titles, routes, manifests with pathways, steering.
//!
//! Gateways and nodes' agents serve the same [`router`]. All data about the fleet comes from a [`Source`]. Nothing about viewers is stored, because
//! a session travels in the steering address of the manifest. Both log their decisions ([`decisions`]), for replays.
//!
//! | address | answer |
//! |---|---|
//! | `/play/TITLE/master.m3u8`, `/play/TITLE/manifest.mpd` | the title's manifest, with a pathway for each of up to three nodes |
//! | `/steering/hls`, `/steering/dash` | the pathways to prefer now, with clones for nodes that are not in the manifest |
//! | `/api/v1/titles` | all titles |
//! | `/api/v1/route?title=TITLE` | the nodes that a manifest would have, as JSON |
//! | `/healthz` | whether a fleet is known |
//!
//! Invariants:
//! - No request influences the answers to other viewers.
//! - A steering request is answered with 200, whatever it contains: after some other codes, players stop steering for good.
//! - The viewer's address is not in any answer, session or log.
//!
//! Read first: [`manifest`] for what a viewer's player gets, [`session`] for what it sends back when it asks for steering.

#![forbid(unsafe_code)]

mod address;
mod answering;
pub mod decisions;
pub mod manifest;
mod play;
mod query;
mod reply;
mod route;
pub mod session;
mod steer;
mod titles;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use fleet_protocol::{Digest, Name};
use steering::{Fleet, Logged};

use answering::Answers;
use session::SessionKey;

/// The data behind answers. No call may block: they are made on the threads that serve viewers.
pub trait Source: Send + Sync + 'static {
    /// The newest snapshot, indexed; `None` before there is one.
    fn fleet(&self) -> Option<Arc<Fleet>>;

    /// A title's manifest, by its digest. It is requested once, and again only after many other titles have been requested.
    fn document(&self, sha256: &Digest) -> Option<Bytes>;

    /// A token for everything below `title`, if the fleet signs its addresses and this process may sign.
    fn sign(&self, title: &str, expires_unix_seconds: u64) -> Option<String>;

    /// Logs a decision.
    fn log(&self, logged: Logged);

    /// Counts an answer by its kind. There are about twenty different kinds.
    fn count(&self, _answer: &'static str) {}
}

/// Options of a router.
#[derive(Debug)]
pub struct Options {
    /// Signs sessions. Gateways that share an address need the same key.
    pub session_key: SessionKey,
    /// The scheme, host and port for viewers, as in `https://tv.example.org`. `None`: `scheme`, and the host in the request.
    pub address: Option<String>,
    /// `https` if the listener does TLS, otherwise `http`.
    pub scheme: &'static str,
    /// The region of viewers whose address no site announces.
    pub region: Option<Name>,
    /// Lifetime of a manifest's tokens: longer than any viewer takes for a film, pauses included.
    pub token_seconds: u64,
}

/// The routes. Serve them with `into_make_service_with_connect_info::<SocketAddr>()`: the viewer's address is that of the connection.
pub fn router(source: Arc<dyn Source>, options: Options) -> Router {
    Router::new()
        .route("/play/{*title}", get(play::play))
        .route("/steering/hls", get(steer::hls))
        .route("/steering/dash", get(steer::dash))
        .route("/api/v1/titles", get(titles::titles))
        .route("/api/v1/route", get(route::route))
        .route("/healthz", get(reply::health))
        .method_not_allowed_fallback(reply::other_method)
        .with_state(Arc::new(Answers::new(source, options)))
}
