//! The pages: the fleet page for operators, the watch page for viewers, and their assets.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use web::{Asset, Page};

use crate::gateway::Gateway;

/// The pages of the admin listener. They contain no data: their requests for data need a token.
pub(crate) fn admin() -> Router {
    Router::new()
        .route(
            "/",
            get(|headers: HeaderMap| async move { page(Page::Fleet, web::POLICY, &headers) }),
        )
        .route("/-/{*path}", get(asset))
}

/// The pages of the public listener.
pub(crate) fn public(gateway: &Arc<Gateway>) -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("watch") }))
        .route("/watch", get(watch))
        .route("/-/{*path}", get(asset))
        .with_state(Arc::clone(gateway))
}

async fn watch(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    page(Page::Watch, &policy(&gateway), &headers)
}

/// Content-Security-Policy of the watch page: it may load only from this gateway and from the fleet's nodes.
fn policy(gateway: &Gateway) -> String {
    let world = gateway.live().world();
    let nodes = world.nodes.values().filter(|node| !node.is_revoked);
    let hosts = nodes.map(|node| node.host.as_str());
    web::ContentPolicy::for_nodes(&world.policy.scheme, world.policy.port, hosts)
        .map_or_else(|_| web::POLICY.to_owned(), |policy| policy.as_str().to_owned())
}

fn page(page: Page, policy: &str, headers: &HeaderMap) -> Response {
    let html = page.fill_in(None);
    let policy = HeaderValue::from_str(policy);
    let policy = policy.unwrap_or_else(|_| HeaderValue::from_static(web::POLICY));
    let mut response = if is_known(headers, &html.etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, "text/html; charset=utf-8")], html.to_string()).into_response()
    };
    put(&mut response, ETAG, &html.etag);
    put(&mut response, CACHE_CONTROL, web::PAGE_CACHE_CONTROL);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    response
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = web::file(path.as_bytes()) else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    let mut response = if is_known(&headers, asset.etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        content(asset, &headers)
    };
    put(&mut response, ETAG, asset.etag);
    put(&mut response, CACHE_CONTROL, asset.cache_control());
    put(&mut response, VARY, "accept-encoding");
    response
}

fn content(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let accepts = |name: &str| {
        let mut names = accepted.unwrap_or_default().split(',');
        names.any(|one| one.trim().split(';').next() == Some(name) && !one.contains("q=0"))
    };
    let compressed = [("br", asset.brotli), ("gzip", asset.gzip)].into_iter();
    let compressed =
        compressed.filter(|(name, _)| accepts(name)).find_map(|(name, bytes)| Some((name, bytes?)));
    let (encoding, bytes) = compressed.unwrap_or(("", asset.bytes));
    let mut response = Body::from(bytes).into_response();
    put(&mut response, CONTENT_TYPE, media_type(asset.path));
    if !encoding.is_empty() {
        put(&mut response, CONTENT_ENCODING, encoding);
    }
    response
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        Some("png") => "image/png",
        Some("json") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        _ => "text/plain; charset=utf-8",
    }
}

fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    known.is_some_and(|known| known.split(',').any(|one| one.trim() == etag))
}

/// Entity tags and the other values are plain ASCII, written by this program.
fn put(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
