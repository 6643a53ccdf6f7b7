//! The fleet to write into the store: sites, nodes as they are after joining, and titles that every node should hold.

use std::io;
use std::path::Path;

use ::fleet_protocol::{
    Announced, Digest, HeldTitle, Name, NodeKind, NodePlace, Prefix, PublishedTitle, TitleDocument,
};
use ::store::records::{
    FleetRecord, NodeRecord, SecretRecord, SiteRecord, StoreRecord, TitleRecord, Wanted, load,
};
use ::store::{COMMIT_OPERATIONS_MAX, Engine, Objects, Write};
use axum::body::Bytes;
use identity::Authority;

use super::FleetSize;
use super::documents::{dash, hls};

/// Nodes per site.
const SITE_NODES: u32 = 10;

/// Three sites announce the clients' own addresses, so their nodes come first in answers.
const HOME_SITES: u32 = 3;

/// The contents of the store that the bench needs later.
pub(super) struct Written {
    /// The fleet's authority.
    pub(super) authority: Authority,
    /// Titles that every node should hold.
    pub(super) held: Vec<HeldTitle>,
}

/// Writes the fleet.
///
/// # Errors
/// If the store fails.
pub(super) async fn write(
    engine: &dyn Engine,
    objects: &Path,
    size: FleetSize,
) -> io::Result<Written> {
    let authority = authority(engine).await?;
    let titles = titles(objects, size.titles).await?;
    let held = titles.iter().map(PublishedTitle::held).collect();
    let mut writes = Vec::new();
    let sites = (size.nodes / SITE_NODES).max(HOME_SITES);
    for number in 0..sites {
        writes.push(put(&site(number)?, &site_name(number))?);
    }
    for number in 0..size.nodes {
        writes.push(put(&node(number, sites)?, &node_name(number))?);
    }
    for title in titles {
        let path = title.path.clone();
        let record = TitleRecord { published: Some(title), ..TitleRecord::default() };
        writes.push(put(&record, &path)?);
    }
    for some in writes.chunks(COMMIT_OPERATIONS_MAX) {
        engine.commit(&[], some).await.map_err(io::Error::other)?;
    }
    Ok(Written { authority, held })
}

/// The authority that the first start created.
async fn authority(engine: &dyn Engine) -> io::Result<Authority> {
    let lacks = || io::Error::other("the gateway's first start created no fleet");
    let fleet = load::<FleetRecord>(engine, "").await.map_err(io::Error::other)?;
    let secret = load::<SecretRecord>(engine, "ca").await.map_err(io::Error::other)?;
    let (fleet, secret) = fleet.zip(secret).ok_or_else(lacks)?;
    let pem = secret.record.certificate_pem.unwrap_or_default();
    Authority::read(&fleet.record.name, secret.record.pkcs8.reveal(), &pem)
        .map_err(io::Error::other)
}

fn put<R: StoreRecord>(record: &R, name: &str) -> io::Result<Write> {
    record.put(name).map_err(io::Error::other)
}

fn name(text: &str) -> Name {
    text.parse().expect("made of letters, digits and hyphens")
}

fn site_name(number: u32) -> String {
    format!("site-{number:05}")
}

/// A node's name.
pub(super) fn node_name(number: u32) -> String {
    format!("node-{number:06}")
}

fn site(number: u32) -> io::Result<SiteRecord> {
    let text = match number {
        0..HOME_SITES => "127.0.0.0/8".to_owned(),
        _ => format!("10.{}.{}.0/24", number >> 8 & 255, number & 255),
    };
    let prefix: Prefix = text.parse().map_err(io::Error::other)?;
    Ok(SiteRecord {
        region: name(&format!("region-{}", number / 50)),
        latitude: Some(f64::from(number % 120) - 60.0),
        longitude: Some(f64::from(number % 360) - 180.0),
        operator: None,
        allowed: vec![prefix],
        announced: vec![Announced { prefix, as_path_length: 1, med: 0 }],
        announced_file: None,
    })
}

fn node(number: u32, sites: u32) -> io::Result<NodeRecord> {
    let site = number % sites;
    Ok(NodeRecord {
        place: NodePlace {
            site: name(&site_name(site)),
            cluster: name(&format!("cluster-{site:05}")),
            rack: None,
        },
        kind: NodeKind::Storage,
        host: format!("{}.example", node_name(number)),
        ceiling_bits_per_second: 0,
        // The gateway identifies nodes by name; serial numbers are for the operator.
        serials: Vec::new(),
        wanted: Wanted::Serving,
        joined_unix_seconds: 1,
        revoked: None,
    })
}

/// Titles with documents as ingest writes them. All share the same documents: a manifest's cost does not depend on its title.
async fn titles(objects: &Path, count: u32) -> io::Result<Vec<PublishedTitle>> {
    let objects = Objects::open(&objects.to_string_lossy()).map_err(io::Error::other)?;
    let keep = async |path: &str, text: String| {
        let sha256 = objects.put(Bytes::from(text)).await.map_err(io::Error::other)?;
        io::Result::Ok(TitleDocument { path: path.to_owned(), sha256 })
    };
    let record = keep("title.json", "{}".to_owned()).await?;
    let (hls, dash) = (keep("master.m3u8", hls()).await?, keep("manifest.mpd", dash()).await?);
    let title = |number: u32| PublishedTitle {
        path: format!("films/title-{number:06}"),
        version: Digest::of(&number.to_le_bytes()),
        bytes: 4_000_000_000,
        duration_seconds: 5400.0,
        record: record.clone(),
        hls: hls.clone(),
        dash: dash.clone(),
        origin: "s3://films".to_owned(),
        published_unix_seconds: 1,
    };
    Ok((0..count).map(title).collect())
}
