//! `/play/TITLE/master.m3u8` and `/play/TITLE/manifest.mpd`.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use catalog::{TitlePath, encode_path};
use fleet_protocol::{PublishedTitle, TitleDocument};

use crate::address::{folder, folder_of};
use crate::answering::{Answers, check_length, title_path};
use crate::manifest::{ManifestKind, ManifestTemplate, NodeAddress};
use crate::query::decoded;
use crate::reply::{Refusal, counted, reply};
use crate::session::ViewerSession;

pub(crate) async fn play(State(answers): State<Arc<Answers>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let (label, result) = match asked(&parts) {
        Ok((kind, title)) => (label(kind), manifest(&answers, kind, &title, &parts)),
        Err(refusal) => ("", Err(refusal)),
    };
    counted(&answers, label, result)
}

fn label(kind: ManifestKind) -> &'static str {
    match kind {
        ManifestKind::Hls => "manifest_hls",
        ManifestKind::Dash => "manifest_dash",
    }
}

/// The kind and the title of a requested manifest.
fn asked(parts: &Parts) -> Result<(ManifestKind, TitlePath), Refusal> {
    check_length(parts)?;
    let path = parts.uri.path().strip_prefix("/play/").unwrap_or("");
    let (title, file) = path.rsplit_once('/').ok_or(Refusal::NoSuchPage)?;
    let kinds = [ManifestKind::Hls, ManifestKind::Dash];
    let kind = kinds.into_iter().find(|kind| kind.file() == file).ok_or(Refusal::NoSuchPage)?;
    Ok((kind, title_path(decoded(title))?))
}

fn manifest(
    answers: &Answers,
    kind: ManifestKind,
    title: &TitlePath,
    parts: &Parts,
) -> Result<Response, Refusal> {
    let chosen = answers.choose(title.as_str(), parts)?;
    let published = chosen.title();
    let document = document(kind, published);
    let template = template(answers, kind, published)?;
    let place = folder_of(&published.path, &document.path);
    let policy = &chosen.fleet.snapshot().policy;
    let nodes: Vec<_> = chosen
        .nodes()
        .map(|node| NodeAddress {
            id: node.name.as_str(),
            folder: folder(policy, node, chosen.token.as_deref(), &place),
        })
        .collect();
    let session = ViewerSession {
        viewer: chosen.viewer,
        nodes: chosen.nodes().map(|node| node.name.clone()).collect(),
        title: TitlePath::new(&published.path).unwrap_or_else(|_| title.clone()),
    };
    let session = session.seal(&answers.options.session_key);
    let own = answers.own_address(parts);
    let steering = format!("{own}{}?s={}", kind.steering_path(), encode_path(Path::new(&session)));
    Ok(reply(kind.media_type(), template.write(&nodes, &steering)))
}

fn document(kind: ManifestKind, title: &PublishedTitle) -> &TitleDocument {
    match kind {
        ManifestKind::Hls => &title.hls,
        ManifestKind::Dash => &title.dash,
    }
}

fn template(
    answers: &Answers,
    kind: ManifestKind,
    title: &PublishedTitle,
) -> Result<Arc<ManifestTemplate>, Refusal> {
    let digest = &document(kind, title).sha256;
    let read = || answers.source.document(digest);
    let template = answers.templates.get(kind, digest, read);
    template
        .ok_or_else(|| Refusal::NoDocument(title.path.clone()))?
        .map_err(|why| Refusal::BadDocument(title.path.clone(), why))
}
