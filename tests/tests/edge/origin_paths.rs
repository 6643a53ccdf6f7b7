//! Origins that have paths of their own, and origins that are not there from the start.

use crate::origin::{Manner, Origin};
use crate::{MIB, PATIENT};
use fullbore_tests::{Launch, Plain, bytes, until};
use std::path::Path;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

fn launch(origins: &str, cache: &Path) -> Launch {
    let text = format!("{PATIENT}cache = {cache:?}\n{origins}");
    Launch::bare().config(&text).arguments("--tls off")
}

#[test]
fn each_path_is_requested_from_the_origins_that_have_it_and_from_no_other() {
    let (films, live, spare, cache) =
        (Origin::start(), Origin::start(), Origin::start(), tempdir().unwrap());
    let paths = r#"paths = ["/live/*", "*.mpd"]"#;
    let tables = [(&films, ""), (&live, paths), (&spare, paths)]
        .map(|(origin, paths)| format!("[[edge.origin]]\nurl = \"{}\"\n{paths}\n", origin.url()));
    let server = launch(&tables.concat(), cache.path()).start();
    let get = |path: &str| Plain::connect(server.address).fetch(path);
    // Each has something else there.
    for (seed, origin) in [&films, &live, &spare].into_iter().enumerate() {
        for path in ["/film", "/live/1", "/a.mpd", "/live/2", "/live/3", "/live/4"] {
            origin.put(path, seed as u64, 2 * MIB, LASTING);
        }
    }
    let [of_films, of_live, of_spare] = [0, 1, 2].map(|seed| bytes(2 * MIB, seed));
    assert!(get("/film").body == of_films);
    for path in ["/live/1", "/liv%65/1", "/a.mpd"] {
        assert!(get(path).body == of_live, "{path}");
    }
    assert_eq!(films.count("/live/") + films.count("/a.mpd") + live.count("/film"), 0);
    assert_eq!(spare.seen(), []);
    live.behave(Manner::Gone);
    for path in ["/live/2", "/live/3", "/live/4"] {
        assert!(get(path).body == of_spare, "{path}");
    }
    until("it to be passed over", || {
        get("/live/none");
        server.counter("edge_origins_passed_over") == 1
    });
    spare.behave(Manner::Gone);
    assert_eq!(get("/live/5").status, 502, "those of other paths are no help");
    assert_eq!(films.count("/live/"), 0);
    films.behave(Manner::Gone);
    let none = get("/film2");
    assert_eq!(none.status, 502);
    server.wait_for_news();
    assert!(
        !server.admin_page("/healthz").1.contains(&films.url()),
        "it has no other to pass on to"
    );
}

#[test]
fn a_path_that_no_origin_has_is_not_there() {
    let (live, cache) = (Origin::start(), tempdir().unwrap());
    let origin = format!("[edge.origin]\nurl = \"{}\"\npaths = [\"/live/*\"]\n", live.url());
    let server = launch(&origin, cache.path()).start();
    let list = live.put("/live/1", 1, 1000, LASTING);
    let get = |path: &str| Plain::connect(server.address).fetch(path);
    assert!(get("/live/1").body == *list);
    assert_eq!(get("/film").status, 404);
    let authorized = "Authorization: Basic YQ==\r\n";
    assert_eq!(Plain::connect(server.address).fetch_with("/film", authorized).status, 404);
    assert_eq!(live.count("/film"), 0);
    // A redirect to another origin's path is no redirect within the edge.
    for (to, local) in [("/live/2", true), ("/vod/2", false)] {
        let there = format!("{}{to}", live.url());
        live.behave(Manner::Status(302, format!("Location: {there}\r\n")));
        let seen = if local { to } else { &there };
        let answer = get("/live/moved");
        assert!(answer.head.contains(&format!("Location: {seen}\r\n")), "{}", answer.head);
    }
}

#[test]
fn an_origin_that_is_not_there_from_the_start_costs_no_viewer_an_answer() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    // Nothing listens on port 1.
    let origins = format!("origin = [\"http://127.0.0.1:1\", \"{}\"]\n", origin.url());
    let server = launch(&origins, cache.path()).start();
    for number in 0..5 {
        let path = format!("/film{number}");
        let (etag, lines) = match number % 2 {
            0 => (format!("\"v{number}\""), ""),
            _ => (format!("W/\"v{number}\""), "Accept-Ranges: none\r\n"),
        };
        let film = origin.put(&path, number, 2 * MIB, &format!("{LASTING}{lines}"));
        origin.change(&path, |object| object.etag = etag);
        assert!(Plain::connect(server.address).fetch(&path).body == *film, "{path}");
    }
    assert_eq!(server.sum("edge_failures_total"), 0);
}
