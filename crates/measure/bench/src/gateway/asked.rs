//! The requests of the comparison. Each kind is sent once and its answer checked before anything is measured.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;

use super::hello;
use crate::populated::{Populated, get};

/// How many titles to request in turn.
const TITLES_MAX: usize = 50;

/// One side of the comparison.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Its name in reports.
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    /// Paths to request in turn.
    pub(super) paths: Vec<String>,
    /// Bytes of one answer's body.
    pub(super) answer_bytes: usize,
}

/// The plain server's name in reports.
const HELLO: &str = "hello";

impl Asked {
    /// Returns true for the plain server.
    pub(super) fn is_hello(&self) -> bool {
        self.name == HELLO
    }
}

/// Requests each kind once and returns all sides, the plain server first.
///
/// # Errors
/// If an answer is wrong.
pub(super) async fn check(gateway: &Populated, hello: SocketAddr) -> io::Result<Vec<Asked>> {
    let address = gateway.public;
    let titles: Vec<_> = gateway.titles().take(TITLES_MAX).map(str::to_owned).collect();
    let paths = |path: fn(&str) -> String| titles.iter().map(|title| path(title)).collect();
    let hls: Vec<String> = paths(|title| format!("/play/{title}/master.m3u8"));
    let dash: Vec<String> = paths(|title| format!("/play/{title}/manifest.mpd"));
    let route: Vec<String> = paths(|title| format!("/api/v1/route?title={title}"));
    let steering = steering_paths(address, &hls).await?;
    let is_hello = |body: &str| body == hello::BODY;
    let has_three = |body: &str| body.matches("PATHWAY-ID=\"node-").count() > 3;
    let has_locations = |body: &str| body.matches("serviceLocation=\"node-").count() >= 3;
    Ok(vec![
        side(HELLO, hello, vec!["/".to_owned()], is_hello).await?,
        side("hls", address, hls, has_three).await?,
        side("dash", address, dash, has_locations).await?,
        side("steering", address, steering, |body| names_three(body, "PATHWAY-PRIORITY")).await?,
        side("route", address, route, |body| names_three(body, "nodes")).await?,
    ])
}

async fn side(
    name: &'static str,
    address: SocketAddr,
    paths: Vec<String>,
    is_right: impl Fn(&str) -> bool,
) -> io::Result<Asked> {
    let mut answer_bytes = 0;
    for path in &paths {
        let body = text(address, path).await?;
        if !is_right(&body) {
            return Err(io::Error::other(format!("{path} is answered wrongly: {body}")));
        }
        answer_bytes = body.len();
    }
    Ok(Asked { name, address, paths, answer_bytes })
}

/// The steering requests of a player that plays from the first pathway of each manifest.
async fn steering_paths(address: SocketAddr, manifests: &[String]) -> io::Result<Vec<String>> {
    let mut paths = Vec::with_capacity(manifests.len());
    for path in manifests {
        let manifest = text(address, path).await?;
        let quoted = |after: &str| Some(manifest.split_once(after)?.1.split_once('"')?.0);
        let named = quoted("SERVER-URI=\"").zip(quoted("PATHWAY-ID=\""));
        let steering = named.and_then(|(server, pathway)| {
            let path = server.split_once("/steering/")?.1;
            Some(format!("/steering/{path}&_HLS_pathway={pathway}&_HLS_throughput=25000000"))
        });
        let none = || io::Error::other(format!("{path} names no steering server: {manifest}"));
        paths.push(steering.ok_or_else(none)?);
    }
    Ok(paths)
}

async fn text(address: SocketAddr, path: &str) -> io::Result<String> {
    let answer = get(address, path, &[]).await?;
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    match answer.status {
        200 => Ok(body),
        status => Err(io::Error::other(format!("{path} is answered with {status}: {body}"))),
    }
}

fn names_three(body: &str, list: &str) -> bool {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    answer[list].as_array().is_some_and(|names| names.len() == 3)
}
