//! Prefixes that sites announce by their files, and who may change them.

use fleet_protocol::Announced;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::fleet::{Running, eventually, folder, name};

/// What the last snapshot announces for a site. Snapshots follow the store after a second or more, so a new site may not be in it yet.
fn announced(fleet: &Running, site: &str) -> Option<Vec<String>> {
    let steering = fleet.gateway.live().fleet()?;
    let site = steering.snapshot().sites.iter().find(|one| one.name == name(site))?;
    Some(site.announced.iter().map(Announced::to_string).collect())
}

/// Waits until snapshots announce these prefixes for a site.
async fn announces(fleet: &Running, site: &str, expected: &[&str]) {
    let is_so = || announced(fleet, site).is_some_and(|announced| announced == expected);
    eventually(|| is_so().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_prefixes_is_announced_and_survives_a_restart() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    let file = "192.0.2.0/24 as_path=64500,64501 med=50 # ours\n2001:db8::/32\n";
    let answer = fleet.done("/api/v1/sites/rome/announced", json!({ "file": file })).await;
    assert_eq!((&answer["prefixes"], &answer["refused"]), (&json!(2), &json!(0)));
    let expected = ["192.0.2.0/24 as_path_length=2 med=50", "2001:db8::/32"];
    announces(&fleet, "rome", &expected).await;
    // Another change of the site leaves the file alone, and a file leaves the rest.
    let site = json!({ "region": "south", "latitude": 41.9, "longitude": 12.5 });
    let token = fleet.admin_token();
    let put = fleet.ask(Some(&token), Method::PUT, "/api/v1/sites/rome", Some(site));
    assert_eq!(put.await.0, StatusCode::OK);
    announces(&fleet, "rome", &expected).await;
    fleet.stop().await;
    let fleet = Running::start(folder.path()).await;
    assert_eq!(announced(&fleet, "rome").expect("it steers at once"), expected);
    fleet.done("/api/v1/sites/rome/announced", json!({ "file": "" })).await;
    announces(&fleet, "rome", &[]).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partner_announces_within_the_list_that_the_fleet_s_operator_set() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    let partner = fleet.operator("isp", "partner", Some(&["paris"])).await;
    let operate = fleet.operator("otto", "operate", None).await;
    let read = fleet.operator("anna", "read", None).await;
    let file = || Some(json!({ "file": "192.0.2.0/24\n10.0.0.0/8\n" }));
    let list = || Some(json!({ "allowed": ["192.0.0.0/16"] }));
    let (get, post) = (Method::GET, Method::POST);
    let (ok, forbidden, hidden) = (StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND);
    let cases = [
        (&partner, &post, "/api/v1/sites/paris/announced", file(), ok, 2),
        (&partner, &post, "/api/v1/sites/paris/allowed", list(), forbidden, 0),
        (&read, &post, "/api/v1/sites/paris/announced", file(), forbidden, 0),
        (&partner, &post, "/api/v1/sites/rome/announced", file(), hidden, 0),
        (&partner, &get, "/api/v1/sites/rome/announced", None, hidden, 0),
        (&partner, &get, "/api/v1/sites/milan/announced", None, hidden, 0),
        (&partner, &get, "/api/v1/sites/paris/announced", None, ok, 2),
        (&operate, &post, "/api/v1/sites/paris/allowed", list(), ok, 1),
        (&partner, &post, "/api/v1/sites/paris/announced", file(), ok, 1),
        (&operate, &post, "/api/v1/sites/rome/announced", file(), ok, 0),
        (&operate, &post, "/api/v1/sites/milan/announced", file(), hidden, 0),
    ];
    for (token, method, path, body, expected, refused) in cases {
        let (status, answer) = fleet.ask(Some(token), method.clone(), path, body).await;
        assert_eq!(status, expected, "{method} {path}: {answer}");
        if status == ok {
            assert_eq!(answer["refused"], refused, "{method} {path}: {answer}");
        }
    }
    announces(&fleet, "paris", &["192.0.2.0/24"]).await;
    announces(&fleet, "rome", &["10.0.0.0/8", "192.0.2.0/24"]).await;
    let shown = fleet.get("/api/v1/sites/paris/announced").await;
    assert_eq!(shown["file"]["first_refused"], "10.0.0.0/8", "{shown}");
    let metrics = fleet.text("/metrics").await;
    assert!(metrics.contains("fullbore_site_prefixes{site=\"paris\"} 1"), "{metrics}");
    assert!(metrics.contains("fullbore_site_prefixes_refused{site=\"paris\"} 1"), "{metrics}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_used_changes_nothing() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris")]).await;
    fleet.done("/api/v1/sites/paris/announced", json!({ "file": "192.0.2.0/24" })).await;
    let wrong: [(&str, Value, &str); 5] = [
        ("announced", json!({ "file": "192.0.2.0/24\n192.0.2.1/24" }), "line 2"),
        ("announced", json!({}), "file is missing"),
        ("announced", json!({ "file": ["192.0.2.0/24"] }), "string"),
        ("allowed", json!({ "allowed": ["192.0.2.0"] }), "a prefix is written"),
        ("allowed", json!({ "allowed": vec!["::/0"; 10_001] }), "10001 prefixes are more"),
    ];
    for (what, body, why) in wrong {
        let (status, answer) = fleet.post(&format!("/api/v1/sites/paris/{what}"), body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(why)), "{answer}");
    }
    announces(&fleet, "paris", &["192.0.2.0/24"]).await;
    fleet.stop().await;
}

/// A backup has everything that a restored fleet needs to announce the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_has_the_files_of_prefixes() {
    use store::backup::back_up;
    use store::{FolderStore, Objects};
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris")]).await;
    fleet.done("/api/v1/sites/paris/announced", json!({ "file": "192.0.2.0/24" })).await;
    fleet.stop().await;
    let engine = FolderStore::open(&folder.path().join("store")).expect("a store");
    let objects = folder.path().join("objects").display().to_string();
    let objects = Objects::open(&objects).expect("objects");
    let done = back_up(&engine, &objects, &folder.path().join("backup"), 1).await.expect("made");
    assert_eq!((done.objects, done.lacking), (1, vec![]));
}
