//! Several host names, each with a library of its own.

use crate::support::served::{Served, await_that};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::Config;
use config::HostedSite;
use fullbore_tests::Plain;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use telemetry::Family;
use tempfile::TempDir;

/// Folders `default`, `a`, `b` and `b2`, each with a film of the same name and one of its own.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for name in ["default", "a", "b", "b2"] {
            fs::create_dir(place.path(name)).unwrap();
            let films = if name == "b2" { vec!["b2.mp4"] } else { vec!["film.mp4", name] };
            for film in films {
                let film = Path::new(film).with_extension("mp4");
                fs::write(place.path(name).join(film), format!("of {name}")).unwrap();
            }
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn site(&self, hosts: &[&str], folders: &[&str]) -> HostedSite {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        HostedSite { hosts, library: folders.iter().map(|name| self.path(name)).collect() }
    }

    fn sites(&self) -> Vec<HostedSite> {
        let a = self.site(&["a.example", "WWW.A.example"], &["a"]);
        vec![a, self.site(&["b.example"], &["b", "b2"])]
    }

    fn serve(&self, protocol: Protocol, adjust: impl FnOnce(&mut Config)) -> Served {
        Served::start(&self.path("default"), protocol, |config| {
            config.sites = self.sites();
            adjust(config);
        })
    }
}

fn ask(viewer: &mut Viewer, host: &str, target: &str) -> Response {
    viewer.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    viewer.response(true).unwrap()
}

/// The status, and the text if that is a film's.
fn told(viewer: &mut Viewer, host: &str, target: &str) -> (u16, String) {
    let response = ask(viewer, host, target);
    let text = String::from_utf8(response.body).unwrap();
    (response.status, if response.status == 200 { text } else { String::new() })
}

fn of(name: &str) -> (u16, String) {
    (200, format!("of {name}"))
}

const MISSING: (u16, String) = (404, String::new());
const MISDIRECTED: (u16, String) = (421, String::new());

#[test]
fn each_host_has_its_library_request_by_request_on_one_connection() {
    let place = Place::new();
    for protocol in Protocol::ALL {
        let served = place.serve(protocol, |_| ());
        let mut viewer = served.viewer();
        // Twice, so that the files are remembered.
        for _ in 0..2 {
            for (host, name) in [
                ("a.example", "a"),
                ("b.example", "b"),
                ("A.EXAMPLE.:8443", "a"),
                ("www.a.example", "a"),
                ("other.example", "default"),
                ("xa.example", "default"),
                ("127.0.0.1:8443", "default"),
                ("[::1]", "default"),
                ("", "default"),
            ] {
                assert_eq!(told(&mut viewer, host, "/film.mp4"), of(name), "{host}");
                for other in ["default", "a", "b"] {
                    let expected = if other == name { of(name) } else { MISSING };
                    assert_eq!(told(&mut viewer, host, &format!("/{other}.mp4")), expected);
                }
            }
            assert_eq!(told(&mut viewer, "b.example", "/b2.mp4"), of("b2"), "its other folder");
            assert_eq!(told(&mut viewer, "a.example", "/b2.mp4"), MISSING);
            // The target says more than the header (RFC 9112 section 3.2.2).
            let target = "https://b.example:8443/film.mp4";
            assert_eq!(told(&mut viewer, "a.example", target), of("b"));
            for way_out in ["/../b/b.mp4", "/%2e%2e/b/b.mp4", "/b/b.mp4"] {
                assert_eq!(told(&mut viewer, "a.example", way_out), MISSING, "{way_out}");
            }
        }
        served.stop();
    }
}

#[test]
fn without_a_library_for_all_others_they_get_421_and_are_counted() {
    let place = Place::new();
    let served = place.serve(Protocol::Tls13, |config| {
        config.library.clear();
        config.http.healthz = true;
    });
    let mut viewer = served.viewer();
    let unknown = ["other.example", "127.0.0.1", "a.example.org", ""];
    for host in unknown {
        for target in ["/film.mp4", "/", "/-/", "/-/titles.json", "/-/watch/film.mp4"] {
            assert_eq!(told(&mut viewer, host, target), MISDIRECTED, "{host} {target}");
        }
        assert_eq!(told(&mut viewer, "a.example", "/film.mp4"), of("a"), "the connection goes on");
        assert_eq!(ask(&mut viewer, host, "/healthz").status, 200);
    }
    viewer.send(b"GET /film.mp4 HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(viewer.response(true).unwrap().status, 421);
    let count = 5 * unknown.len() as u64 + 1;
    served.await_count(Family::Refusals, "misdirected", count);
    assert_eq!(served.count(Family::Responses, "421"), count);
    served.stop();
}

#[test]
fn a_shelf_lists_the_titles_of_its_host_and_no_others() {
    let place = Place::new();
    let served = place.serve(Protocol::Plain, |_| ());
    let mut viewer = served.viewer();
    for (host, names) in [
        ("a.example", &["a.mp4", "film.mp4"][..]),
        ("b.example", &["b.mp4", "b2.mp4", "film.mp4"]),
        ("other.example", &["default.mp4", "film.mp4"]),
    ] {
        let titles = |viewer: &mut Viewer| -> Vec<String> {
            let list = ask(viewer, host, "/-/titles.json");
            let list: Value = serde_json::from_slice(&list.body).unwrap();
            let titles = list["titles"].as_array().unwrap().iter();
            titles.map(|title| title["name"].as_str().unwrap().to_owned()).collect()
        };
        let mut last = Vec::new();
        let is_there = || {
            last = titles(&mut viewer);
            last == names
        };
        await_that(is_there, || format!("{host}: never {names:?}"));
        assert_eq!(ask(&mut viewer, host, "/").status, 200);
    }
    served.stop();
}

#[test]
fn what_is_told_of_titles_says_whose_they_are() {
    let place = Place::new();
    let served = place.serve(Protocol::Plain, |_| ());
    let mut viewer = served.viewer();
    for host in ["other.example", "www.a.example", "b.example", "b.example"] {
        assert_eq!(ask(&mut viewer, host, "/film.mp4").status, 200);
    }
    let status = || -> Value {
        serde_json::from_slice(&Plain::connect(served.admin()).fetch("/status.json").body).unwrap()
    };
    let starts = |status: &Value| -> Vec<(String, u64)> {
        let titles = status["titles"].as_array().cloned().unwrap_or_default();
        let short = |title: Value| {
            (title["title"].as_str().unwrap().to_owned(), title["starts"].as_u64().unwrap())
        };
        let mut starts: Vec<_> = titles.into_iter().map(short).collect();
        starts.sort();
        starts
    };
    let expected = [("a.example:film.mp4", 1), ("b.example:film.mp4", 2), ("film.mp4", 1)];
    let expected = expected.map(|(title, starts)| (title.to_owned(), starts));
    await_that(|| starts(&status()) == expected, || format!("{:?}", status()["titles"]));
    let hosts = status()["library"].as_array().unwrap().to_vec();
    let hosts: Vec<_> = hosts.iter().map(|folder| folder["hosts"].clone()).collect();
    let (a, b) =
        (serde_json::json!(["a.example", "WWW.A.example"]), serde_json::json!(["b.example"]));
    assert_eq!(hosts, [Value::Null, a, b.clone(), b]);
    let metrics = Plain::connect(served.admin()).fetch("/metrics");
    let metrics = String::from_utf8(metrics.body).unwrap();
    assert!(metrics.contains("\nfullbore_library_folders 4\n"), "{metrics}");
    served.stop();
}

#[test]
fn a_host_whose_folder_is_missing_takes_no_other_with_it() {
    let place = Place::new();
    fs::remove_dir_all(place.path("a")).unwrap();
    let served = place.serve(Protocol::Plain, |_| ());
    assert!(served.describe().contains("is missing"), "{}", served.describe());
    let mut viewer = served.viewer();
    assert_eq!(told(&mut viewer, "a.example", "/film.mp4"), MISSING);
    assert_eq!(told(&mut viewer, "b.example", "/film.mp4"), of("b"));
    let health = Plain::connect(served.admin()).fetch("/healthz");
    let health = (health.status, String::from_utf8(health.body).unwrap());
    assert!(health.0 == 200 && health.1.contains("is missing"), "{health:?}");
    served.stop();
}

#[test]
fn a_link_into_another_hosts_library_leads_nowhere() {
    let place = Place::new();
    std::os::unix::fs::symlink("../b/b.mp4", place.path("a").join("link.mp4")).unwrap();
    let served = place.serve(Protocol::Plain, |_| ());
    assert_eq!(told(&mut served.viewer(), "a.example", "/link.mp4"), MISSING);
    served.stop();
}
