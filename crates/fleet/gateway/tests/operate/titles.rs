//! Publishing, withdrawing, and the effect on viewers and operators.

use std::path::Path;

use catalog::TitlePath;
use fleet_protocol::{Digest, HeldTitle};
use fullbore_gateway::gateway::read_title;
use fullbore_tests::make_title;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use store::records::{StoreRecord, TitleRecord, WITHDRAWN_PUBLISHED_MAX, WithdrawnVersion, load};

use crate::fleet::{Running, eventually, folder};

/// Creates a title in a library, and returns the request that publishes it.
pub(crate) fn publication(library: &Path, film: &[u8]) -> Value {
    std::fs::create_dir_all(library.join("films/a")).expect("made");
    make_title(&library.join("films/a"), film).expect("made");
    read(library).expect("whole")
}

/// A gateway in `folder` with one node, and with the published title `films/a`.
pub(crate) async fn with_a_film(folder: &Path) -> Running {
    let fleet = Running::start(folder).await;
    fleet.nodes(&[("n1", "paris")]).await;
    let body = publication(&folder.join("library"), b"a film");
    fleet.done("/api/v1/titles/publish", body).await;
    let live = fleet.gateway.live();
    eventually(|| live.fleet().filter(|fleet| fleet.title("films/a").is_some())).await;
    fleet
}

fn read(library: &Path) -> Result<Value, String> {
    let path = TitlePath::new("films/a").expect("a path");
    read_title(library, &path, "file:///library".to_owned())
        .map(|publication| publication.to_json())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_published_held_withdrawn_and_not_published_again() {
    let folder = folder();
    let library = folder.path().join("library");
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    let body = publication(&library, b"a film");
    let published = fleet.done("/api/v1/titles/publish", body.clone()).await;
    let version: Digest = serde_json::from_value(published["digest"].clone()).expect("a digest");
    let held = HeldTitle { path: "films/a".to_owned(), version };
    fleet.beat("n2", 2, std::slice::from_ref(&held));

    let listed = fleet.get("/api/v1/titles?search=films").await;
    assert_eq!((&listed["total"], &listed["titles"][0]["holders"]), (&json!(1), &json!(1)));
    let found = fleet.get("/api/v1/where?title=films/a").await;
    let holds: Vec<_> =
        found["nodes"].as_array().expect("a list").iter().map(|node| &node["holds"]).collect();
    assert_eq!(holds, [false, true]);
    // Viewers are sent to the node that holds it.
    let live = fleet.gateway.live();
    eventually(|| {
        live.fleet()
            .filter(|fleet| fleet.title("films/a").is_some_and(|title| fleet.holds(1, title)))
    })
    .await;
    let explained = fleet.get("/api/v1/explain?address=192.0.2.1&title=films/a").await;
    assert_eq!(explained["nodes"][0]["node"], "n2", "{explained}");
    let words = explained["text"].as_str().expect("words");
    assert!(words.contains("europe"), "the gateway's region counts, as for viewers: {words}");
    let query =
        "/api/v1/explain?address=192.0.2.1&title=films/a&playing=n2&viewer=00000000000000a7";
    let explained = fleet.get(query).await;
    let words = explained["text"].as_str().expect("words");
    assert!(words.contains("It plays from n2"), "{words}");
    // Its documents are available to nodes.
    let world = live.world();
    let playlist = live.document(&world.titles[0].hls.sha256).expect("its playlist");
    assert!(playlist.starts_with(b"#EXTM3U"));

    let withdrawn = fleet.done("/api/v1/titles/withdraw", json!({ "title": "films/a" })).await;
    assert_eq!(withdrawn["digest"], published["digest"]);
    let desired = live.desired_of(&"n1".parse().expect("a name")).expect("it takes part");
    assert_eq!((desired.titles.len(), &desired.withdrawn), (0, &vec![held]));
    let found = fleet.get("/api/v1/where?title=films/a").await;
    assert_eq!(
        (&found["state"], &found["nodes"][0]["receipt"]),
        (&json!("withdrawn"), &json!("waiting"))
    );
    let (status, answer) = fleet.post("/api/v1/titles/publish", body).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    let (status, _) = fleet.post("/api/v1/titles/withdraw", json!({ "title": "films/a" })).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // Another version of it may be published.
    let other = publication(&library, b"the same film, cut anew");
    fleet.done("/api/v1/titles/publish", other).await;
    fleet.stop().await;
}

/// The oldest of a thousand withdrawn versions used to be forgotten, so it could be published again.
#[tokio::test(flavor = "multi_thread")]
async fn a_title_forgets_no_withdrawn_version() {
    let folder = folder();
    let fleet = with_a_film(folder.path()).await;
    let engine = fleet.gateway.engine();
    let add = async |count: usize| {
        let stored = load::<TitleRecord>(engine, "films/a").await.expect("read").expect("kept");
        let mut title = stored.record;
        let new = (0..count).map(|at| WithdrawnVersion {
            version: Digest::of(&at.to_le_bytes()),
            since_unix_seconds: 1,
        });
        title.withdrawn.extend(new);
        engine.commit(&[], &[title.put("films/a").expect("it fits")]).await.expect("kept");
    };
    // The last withdrawal within the limit works.
    add(WITHDRAWN_PUBLISHED_MAX - 1).await;
    fleet.done("/api/v1/titles/withdraw", json!({ "title": "films/a" })).await;
    let stored = load::<TitleRecord>(engine, "films/a").await.expect("read").expect("kept");
    let withdrawn = stored.record.withdrawn;
    assert_eq!(withdrawn.len(), WITHDRAWN_PUBLISHED_MAX);
    assert_eq!(withdrawn[0].version, Digest::of(&0_usize.to_le_bytes()), "the oldest is there");
    let other = publication(&folder.path().join("library"), b"the same film, cut anew");
    let (status, answer) = fleet.post("/api/v1/titles/publish", other).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    assert!(answer["error"].as_str().is_some_and(|why| why.contains("another path")), "{answer}");
    fleet.stop().await;
}

/// For a title that viewers can't get, the gateway used to answer with an explanation and status 200.
#[tokio::test(flavor = "multi_thread")]
async fn where_viewers_go_is_explained_only_for_what_they_get() {
    let folder = folder();
    let fleet = with_a_film(folder.path()).await;
    let live = fleet.gateway.live();
    let explain = async |title: &str| {
        let query = format!("/api/v1/explain?address=192.0.2.1&title={title}");
        let token = fleet.admin_token();
        let (status, answer) = fleet.ask(Some(&token), Method::GET, &query, None).await;
        (status, answer["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(explain("films/a").await, (StatusCode::OK, String::new()));
    let unknown = (StatusCode::NOT_FOUND, "\"films/b\" was never published".to_owned());
    assert_eq!(explain("films/b").await, unknown);
    fleet.done("/api/v1/titles/withdraw", json!({ "title": "films/a" })).await;
    eventually(|| live.fleet().filter(|fleet| fleet.title("films/a").is_none())).await;
    let (status, error) = explain("films/a").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{error}");
    assert!(error.contains("is withdrawn"), "{error}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_that_is_not_whole_is_not_published() {
    let folder = folder();
    let library = folder.path().join("library");
    let fleet = Running::start(folder.path()).await;
    let good = publication(&library, b"a film");
    let with = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body
    };
    for (body, expected) in [
        (with("hls", good["dash"].clone()), "not the one that its title.json names"),
        (with("record", good["hls"].clone()), "title.json cannot be used"),
        (with("record", json!("&")), "not base64"),
        (with("title", json!("../a")), "cannot be a title's name"),
        (with("origin", json!("http://user@example")), "origin"),
        (with("origin", json!("file:///a\nb")), "origin"),
    ] {
        let (status, answer) = fleet.post("/api/v1/titles/publish", body).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(error.contains(expected), "{error} lacks {expected}");
    }
    assert_eq!(fleet.get("/api/v1/titles").await["total"], 0);
    // A flipped byte on disk is found before anything is sent.
    let version = std::fs::read_dir(library.join("films/a"))
        .expect("listed")
        .flatten()
        .find(|entry| entry.path().is_dir())
        .expect("its version")
        .path();
    std::fs::write(version.join(fullbore_tests::FILM), b"a filn").expect("written");
    let refused = read(&library).expect_err("damaged");
    assert!(refused.contains("does not match its SHA-256"), "{refused}");
    fleet.stop().await;
}
