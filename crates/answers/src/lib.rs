//! What a viewer asks before the first byte: titles, routes, manifests with pathways, steering.
//!
//! Gateways and nodes' agents serve the same [`router`]. All that it needs to know of a fleet comes from a [`Source`]. It keeps nothing about
//! viewers, because a session travels in the steering address of the manifest. Both log what they decided ([`decisions`]), for replays.
//!
//! | address | answer |
//! |---|---|
//! | `/play/TITLE/master.m3u8`, `/play/TITLE/manifest.mpd` | the title's manifest, with a pathway for each of up to three nodes |
//! | `/steering/hls`, `/steering/dash` | which of the pathways to prefer now, with clones for nodes that the manifest does not have |
//! | `/api/v1/titles` | all titles |
//! | `/api/v1/route?title=TITLE` | the same nodes as a manifest would have, as JSON |
//! | `/healthz` | whether there is a fleet to answer from |
//!
//! Invariants:
//! - Nothing that a request says changes what anybody else is answered.
//! - A steering request is answered 200, whatever is in it: players stop steering for good after some other codes.
//! - The viewer's address is in no answer, no session and no log.
//!
//! Read first: [`manifest`] for what a viewer's player gets, [`session`] for what it says again when it asks for steering.

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
use fleet::{Digest, Name};
use steering::{Fleet, Logged};

use answering::Answers;
use session::SessionKey;

/// Where answers come from. None of its calls may wait: they are made on the threads that serve viewers.
pub trait Source: Send + Sync + 'static {
    /// The newest snapshot, indexed; `None` before there is one.
    fn fleet(&self) -> Option<Arc<Fleet>>;

    /// A title's manifest, by its digest. Asked once, and again only if many other titles were asked for since.
    fn document(&self, sha256: &Digest) -> Option<Bytes>;

    /// The text of a token for everything below `title`, if the fleet signs its addresses and this process may sign.
    fn sign(&self, title: &str, expires_unix_seconds: u64) -> Option<String>;

    /// Takes note of a decision.
    fn log(&self, logged: Logged);

    /// Counts an answer by what it was. There are about twenty different texts.
    fn count(&self, _answer: &'static str) {}
}

/// What a router may be told.
#[derive(Debug)]
pub struct Options {
    /// Signs sessions. Gateways that share an address need the same key.
    pub session_key: SessionKey,
    /// The scheme, host and port that viewers reach this at, as in `https://tv.example.org`. If there is none: `scheme`, and the host of the request.
    pub address: Option<String>,
    /// `https` if the listener does TLS, else `http`.
    pub scheme: &'static str,
    /// The region of viewers whose address no site announces.
    pub region: Option<Name>,
    /// How long the tokens of a manifest last. Longer than anybody takes for a film, pauses included.
    pub token_seconds: u64,
}

/// The routes. Serve them with `into_make_service_with_connect_info::<SocketAddr>()`: the viewer's address is the connection's.
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
