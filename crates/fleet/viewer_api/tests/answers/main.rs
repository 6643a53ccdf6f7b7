//! A real server on loopback, with players' requests and malformed ones.

mod decisions;
mod world;

use fleet_protocol::State;
use fullbore_viewer_api::session::SessionKey;
use player::{Answer, Format, Presentation, Source, Url, steering};
use world::{Got, ODD, Server, World, name, snapshot};

/// `path` in a URL.
fn encoded(path: &str) -> String {
    catalog::encode_path(std::path::Path::new(path))
}

fn manifest_path(title: &str, format: Format) -> String {
    let file = if format == Format::Hls { "master.m3u8" } else { "manifest.mpd" };
    format!("/play/{}/{file}", encoded(title))
}

fn manifest(server: &Server, title: &str, format: Format) -> Presentation {
    let url = server.url(&manifest_path(title, format));
    let got = server.fetch(&url);
    assert_eq!(got.status, 200, "{}", got.body);
    let media_type = if format == Format::Hls {
        "application/vnd.apple.mpegurl"
    } else {
        "application/dash+xml"
    };
    assert_eq!(got.header("content-type"), Some(media_type));
    Presentation::parse(&url, got.body.as_bytes())
        .unwrap_or_else(|error| panic!("{error}: {}", got.body))
}

fn pathways(presentation: &Presentation) -> Vec<&str> {
    presentation.pathways.iter().map(|pathway| pathway.id.as_str()).collect()
}

fn url_of(source: &Source) -> String {
    source.document().expect("a document").url.to_string()
}

fn is_open_to_all_and_kept_by_nobody(got: &Got) {
    assert_eq!(got.header("access-control-allow-origin"), Some("*"), "{:?}", got.head);
    assert_eq!(got.header("cache-control"), Some("no-store"), "{:?}", got.head);
}

/// A player's steering request, and the parsed answer.
fn steer(
    server: &Server,
    presentation: &Presentation,
    pathway: &str,
    bits_per_second: Option<u64>,
) -> Answer {
    let at = &presentation.steering.as_ref().expect("a steering server").url;
    let asked = steering::request(at, presentation.format, pathway, bits_per_second);
    let got = server.fetch(&asked);
    assert_eq!(got.status, 200);
    is_open_to_all_and_kept_by_nobody(&got);
    Answer::parse(&asked, got.body.as_bytes())
        .unwrap_or_else(|error| panic!("{error}: {}", got.body))
}

const FORMATS: [Format; 2] = [Format::Hls, Format::Dash];

#[test]
fn a_manifest_has_three_nodes_and_a_steering_server_that_agrees_with_it() {
    let server = Server::start();
    for (format, title) in FORMATS.into_iter().flat_map(|one| [(one, "films/a"), (one, ODD)]) {
        let presentation = manifest(&server, title, format);
        let ids = pathways(&presentation);
        assert_eq!(ids[0], "node-1", "the home site announces us");
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["node-1", "node-2", "node-3"]);
        for (place, id) in ids.iter().enumerate() {
            let url = url_of(&presentation.tracks[0].renditions[0].sources[place]);
            let folder = format!("https://{id}.example:8443/{}/v-8373df639e6c/", encoded(title));
            assert!(url.starts_with(&folder), "{url} {folder}");
        }
        let answer = steer(&server, &presentation, ids[0], Some(5_000_000));
        assert_eq!(answer.priority, ids);
        assert!(answer.clones.is_empty() && answer.reload.is_none());
        assert!((15..=30).contains(&answer.ttl.as_secs()), "{:?}", answer.ttl);
        let stays = steer(&server, &presentation, ids[2], None);
        assert_eq!(stays.priority[0], ids[2], "a viewer stays where it plays");
    }
    let count = |label| server.world.count(label);
    assert_eq!((count("manifest_hls"), count("manifest_dash")), (2, 2));
    assert_eq!((count("steering_hls"), count("steering_dash")), (4, 4));
}

#[test]
fn a_node_that_came_later_is_a_clone_for_those_who_play() {
    let server = Server::start();
    for format in FORMATS {
        server.world.set(snapshot());
        let mut presentation = manifest(&server, "films/a", format);
        let first = pathways(&presentation)[0].to_owned();
        server.world.change(|snapshot| {
            let node = |own: &str| snapshot.nodes.iter().position(|node| node.name == name(own));
            let (gone, new) = (node(&first).expect("a node"), node("node-4").expect("a node"));
            snapshot.nodes[gone].state = State::Revoked;
            snapshot.nodes[new].state = State::Serving;
        });
        let answer = steer(&server, &presentation, &first, None);
        assert!(!answer.priority.contains(&first), "{:?}", answer.priority);
        assert_eq!(answer.priority.len(), 3);
        let [clone] = &answer.clones[..] else { panic!("{answer:?}") };
        assert_eq!((clone.id.as_str(), clone.base_id.as_str()), ("node-4", first.as_str()));
        presentation.clone_pathway(clone).expect("a clone");
        let sources = &presentation.tracks[0].renditions[0].sources;
        let url = url_of(sources.last().expect("a source"));
        assert!(url.starts_with("https://node-4.example:8443/films/a/v-8373df639e6c/"), "{url}");
        // It now plays from the clone, and gets it again.
        let again = steer(&server, &presentation, "node-4", None);
        assert_eq!((again.priority[0].as_str(), again.clones.len()), ("node-4", 1));
    }
}

#[test]
fn clones_name_the_port_for_the_players_that_drop_it() {
    let server = Server::start();
    let hosts = |port: u16| {
        FORMATS.map(|format| {
            server.world.set(snapshot());
            let presentation = manifest(&server, "films/a", format);
            server.world.change(|snapshot| {
                snapshot.policy.port = port;
                snapshot.nodes[0].state = State::Lost;
                snapshot.nodes[3].state = State::Serving;
                snapshot.nodes[3].host = "2001:db8::4".into();
            });
            let answer = steer(&server, &presentation, "node-1", None);
            answer.clones[0].host.clone().expect("a host")
        })
    };
    assert_eq!(hosts(8443), ["[2001:db8::4]", "[2001:db8::4]:8443"]);
    assert_eq!(hosts(443), ["[2001:db8::4]", "[2001:db8::4]"]);
}

#[test]
fn tokens_are_part_of_all_addresses() {
    let server = Server::start();
    *server.world.signs.lock().expect("signs") = true;
    for format in FORMATS {
        let presentation = manifest(&server, "films/a", format);
        for source in &presentation.tracks[0].renditions[0].sources {
            let url: Url = url_of(source).parse().expect("a URL");
            let rest = url.path().strip_prefix("/t/").expect("a token");
            let (token, rest) = rest.split_once('/').expect("a token");
            assert!(token.ends_with(".k.1") && rest.starts_with("films/a/v-"), "{url}");
        }
    }
    let route = server.get("/api/v1/route?title=films/a&token=1.ab.k.2").json();
    let url = route["nodes"][0]["url"].as_str().expect("a URL");
    assert_eq!(url, "https://node-1.example:8443/t/1.ab.k.2/films/a/master.m3u8");
    for bad in ["", "a/b", "%22", "a%0ab", &"x".repeat(300)] {
        let got = server.get(&format!("/api/v1/route?title=films/a&token={bad}"));
        assert_eq!(got.status, 400, "{bad}");
    }
}

#[test]
fn a_route_names_three_nodes_of_three_sites() {
    let server = Server::start();
    let got = server.get(&format!("/api/v1/route?title={}&address=192.0.2.1", encoded(ODD)));
    is_open_to_all_and_kept_by_nobody(&got);
    let route = got.json();
    assert_eq!((route["version"].as_u64(), route["snapshot"].as_u64()), (Some(1), Some(7)));
    assert_eq!(route["title"].as_str(), Some(ODD));
    let nodes = route["nodes"].as_array().expect("nodes");
    let sites: Vec<_> = nodes.iter().map(|node| node["site"].as_str().expect("a site")).collect();
    assert_eq!(sites[0], "home", "an address in the query is ignored");
    let mut sorted = sites.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["home", "near", "third"]);
    assert_eq!(nodes[0]["reason"], "prefix");
    let expected = format!("https://node-1.example:8443/{}/manifest.mpd", encoded(ODD));
    assert_eq!(nodes[0]["dash_url"], expected.as_str());
}

#[test]
fn a_title_is_found_however_its_path_is_spelled() {
    let server = Server::start();
    let decomposed = ODD.replace('\u{e4}', "a\u{308}");
    assert_ne!(decomposed, ODD);
    let spellings = [decomposed.as_str(), ODD, &ODD.replace('/', "//"), &format!("/{ODD}")];
    for spelling in spellings {
        let got = server.get(&format!("/api/v1/route?title={}", encoded(spelling)));
        let route = got.json();
        assert_eq!(route["title"].as_str(), Some(ODD), "{spelling}");
        let url = route["nodes"][0]["dash_url"].as_str().expect("a URL");
        assert!(url.ends_with(&format!("/{}/manifest.mpd", encoded(ODD))), "{url}");
        for format in FORMATS {
            let presentation = manifest(&server, spelling, format);
            assert!(!pathways(&presentation).is_empty(), "{spelling}");
            let answer = steer(&server, &presentation, pathways(&presentation)[0], None);
            assert!(!answer.priority.is_empty(), "{spelling}");
        }
    }
}

#[test]
fn every_decision_is_logged_without_the_address_and_can_be_made_again() {
    let server = Server::start();
    let presentation = manifest(&server, "films/a", Format::Hls);
    steer(&server, &presentation, "node-2", Some(u64::MAX));
    server.get("/api/v1/route?title=films/a");
    let logged = server.world.logged.lock().expect("log");
    assert_eq!(logged.len(), 3);
    let fleet = fullbore_viewer_api::Source::fleet(&*server.world).expect("a fleet");
    for one in logged.iter() {
        assert!(!one.to_line().contains("127.0.0.1"), "{}", one.to_line());
        let again = ::steering::replay(&fleet, one).expect("a decision");
        assert!(one.agrees_with(&fleet, &again));
    }
    assert_eq!(logged[0].viewer, logged[1].viewer, "one viewer, one number");
    assert_ne!(logged[0].viewer, logged[2].viewer);
}

#[test]
fn a_session_that_nobody_signed_moves_nobody_and_is_not_logged() {
    let server = Server::start();
    let presentation = manifest(&server, "films/a", Format::Hls);
    let stranger = World::default();
    stranger.set(snapshot());
    let stranger = Server::serve(stranger, SessionKey::derive(b"another secret"));
    // A viewer of one gateway asks another one, in whose fleet the viewer's node has been drained.
    stranger.world.change(|snapshot| snapshot.nodes[0].state = State::Draining);
    let at = &presentation.steering.as_ref().expect("a steering server").url;
    let asked = steering::request(at, Format::Hls, "node-1", None);
    let got = stranger.get(&asked.path_and_query());
    let answer = Answer::parse(&asked, got.body.as_bytes()).expect("an answer");
    assert_eq!(answer.priority, pathways(&presentation));
    assert!(answer.clones.is_empty());
    assert_eq!(stranger.world.count("unsigned_session"), 1);
    stranger.world.change(|snapshot| snapshot.nodes[0].state = State::Revoked);
    let got = stranger.get(&asked.path_and_query());
    let answer = Answer::parse(&asked, got.body.as_bytes()).expect("an answer");
    assert_eq!(answer.priority, pathways(&presentation)[1..]);
    assert!(stranger.world.logged.lock().expect("log").is_empty());
}

#[test]
fn steering_is_always_answered() {
    let server = Server::start();
    let session = {
        let url = manifest(&server, "films/a", Format::Hls).steering.expect("a server").url;
        url.path_and_query().split_once("?s=").expect("a session").1.to_owned()
    };
    let long = "x".repeat(20_000);
    let before = server.world.logged.lock().expect("log").len();
    for query in [
        String::new(),
        "s=".into(),
        "s=%".into(),
        "s=%ff&_HLS_pathway=%00".into(),
        "&&==&s&_HLS_pathway".into(),
        format!("s={long}&_HLS_pathway={long}&_HLS_throughput={long}"),
        format!("s={session}x&_HLS_throughput=-1"),
        format!("s=2{}", &session[1..]),
        "_HLS_pathway=\"node-2\"&_HLS_throughput=1e99".replace('"', "%22"),
        "_HLS_pathway=../../../etc/passwd".into(),
    ] {
        for path in ["/steering/hls", "/steering/dash"] {
            let got = server.get(&format!("{path}?{query}"));
            let shown = &query[..query.len().min(90)];
            assert_eq!(got.status, 200, "{shown}");
            let answer = Answer::parse(&server.url(path), got.body.as_bytes());
            let answer = answer.unwrap_or_else(|error| panic!("{error}: {shown} {}", got.body));
            assert!(answer.clones.is_empty() && answer.priority.len() <= 4);
        }
    }
    assert_eq!(server.world.logged.lock().expect("log").len(), before);
    // Odd reports in one of our sessions: it is steered by the valid part.
    for report in ["", "&_HLS_pathway=nobody", "&_HLS_throughput=-5", "&_HLS_pathway=%22", "&s=1"] {
        let got = server.get(&format!("/steering/hls?s={session}{report}"));
        assert_eq!(got.json()["PATHWAY-PRIORITY"].as_array().map(Vec::len), Some(3), "{report}");
    }
}

#[test]
fn a_title_that_is_withdrawn_or_a_fleet_that_is_gone_leaves_viewers_where_they_are() {
    let server = Server::start();
    let presentation = manifest(&server, "films/a", Format::Dash);
    server.world.change(|snapshot| {
        snapshot.nodes.iter_mut().for_each(|node| node.holds.clear());
        snapshot.titles.clear();
    });
    let answer = steer(&server, &presentation, "node-3", None);
    assert_eq!((answer.priority.len(), answer.priority[0].as_str()), (3, "node-3"));
    server.world.change(|snapshot| {
        snapshot.nodes.iter_mut().for_each(|node| node.state = State::Revoked);
    });
    assert_eq!(steer(&server, &presentation, "node-3", None).priority, ["."]);
    assert_eq!(server.get(&manifest_path("films/a", Format::Hls)).status, 404);
}

#[test]
fn titles_are_listed_with_addresses_that_play() {
    let server = Server::start();
    let got = server.get("/api/v1/titles");
    is_open_to_all_and_kept_by_nobody(&got);
    let list = got.json();
    let titles = list["titles"].as_array().expect("titles");
    assert_eq!((list["version"].as_u64(), titles.len()), (Some(1), 3));
    let odd = titles.iter().find(|title| title["title"] == ODD).expect("the odd one");
    assert_eq!(
        (odd["duration_seconds"].as_f64(), odd["bytes"].as_u64()),
        (Some(5.312), Some(5_000_000))
    );
    for address in ["hls", "dash"] {
        assert_eq!(server.get(odd[address].as_str().expect("an address")).status, 200);
    }
    server.world.change(|snapshot| {
        snapshot.nodes.iter_mut().for_each(|node| node.holds = vec![0]);
        snapshot.titles.truncate(1);
    });
    let list = server.get("/api/v1/titles").json();
    assert_eq!(list["titles"].as_array().map(Vec::len), Some(1));
}

fn error(got: &Got) -> String {
    is_open_to_all_and_kept_by_nobody(got);
    got.json()["error"].as_str().expect("a sentence").to_owned()
}

#[test]
fn what_has_no_answer_gets_a_sentence() {
    let server = Server::start();
    for (path, status) in [
        ("/play/nothing/master.m3u8", 404),
        ("/play/films/a/other.m3u8", 404),
        ("/play/films/a/v-8373df639e6c/video-240.m3u8", 404),
        ("/play/master.m3u8", 404),
        ("/play/..%2f..%2fetc/master.m3u8", 404),
        ("/play/%ff/master.m3u8", 404),
        ("/play/%zz/master.m3u8", 404),
        ("/play/-/master.m3u8", 404),
        ("/api/v1/route", 400),
        ("/api/v1/route?title=", 404),
        ("/api/v1/route?title=nothing", 404),
        ("/play/broken/master.m3u8", 500),
        ("/play/broken/manifest.mpd", 503),
        (&format!("/play/{}/master.m3u8", "x".repeat(9000)), 414),
        (&format!("/api/v1/route?title={}", "x".repeat(9000)), 414),
    ] {
        let got = server.get(path);
        assert_eq!(got.status, status, "{}", &path[..path.len().min(90)]);
        assert!(error(&got).len() > 20, "{}", got.body);
        assert_eq!(got.header("retry-after").is_some(), status == 503);
    }
    assert!(error(&server.get("/play/broken/master.m3u8")).contains("elsewhere.example"));
    server.world.change(|snapshot| {
        snapshot.nodes.iter_mut().for_each(|node| node.holds.clear());
    });
    assert_eq!(server.get(&manifest_path("films/a", Format::Hls)).status, 503);
    assert_eq!(server.world.count("no_node"), 1);
}

#[test]
fn without_a_snapshot_there_is_one_clear_line() {
    let server = Server::serve(World::default(), SessionKey::derive(b"secret"));
    for path in
        ["/play/films/a/master.m3u8", "/api/v1/titles", "/api/v1/route?title=films/a", "/healthz"]
    {
        let got = server.get(path);
        assert_eq!((got.status, error(&got).contains("no snapshot")), (503, true), "{path}");
    }
    assert_eq!(server.get("/steering/hls?s=x").status, 200);
    server.world.set(snapshot());
    let got = server.get("/healthz");
    assert_eq!((got.status, got.body.as_str()), (200, "ok\n"));
}

#[test]
fn other_methods_are_refused_and_preflights_pass() {
    let server = Server::start();
    let host = format!("Host: {}\r\n", server.at);
    let body = host.clone() + "Content-Length: 3\r\n";
    for path in ["/play/films/a/master.m3u8", "/steering/hls", "/api/v1/titles", "/healthz"] {
        let got = server.ask("OPTIONS", path, &host);
        assert_eq!((got.status, got.header("access-control-allow-headers")), (204, Some("*")));
        is_open_to_all_and_kept_by_nobody(&got);
        for method in ["POST", "DELETE"] {
            let got = server.ask(method, path, &body);
            assert_eq!((got.status, got.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
            assert!(error(&got).contains(method));
        }
        let head = server.ask("HEAD", path, &host);
        assert_eq!((head.status, head.body.as_str()), (200, ""));
    }
}

#[test]
fn no_host_of_a_request_can_break_a_manifest() {
    let server = Server::start();
    let url = server.url("/play/films/a/master.m3u8");
    for host in ["a\"b", "a<b>", "a b", "", "a,b=\"", &"x".repeat(300)] {
        for format in FORMATS {
            let path = manifest_path("films/a", format);
            let got = server.ask("GET", &path, &format!("Host: {host}\r\n"));
            if got.status == 200 {
                let presentation = Presentation::parse(&url, got.body.as_bytes()).expect("a title");
                // Relative, so it leads back to where the manifest came from.
                let at = presentation.steering.expect("a steering server").url;
                assert!(at.is_same_origin(&url), "{host}: {at}");
                assert_eq!(presentation.pathways.len(), 3);
            }
        }
    }
    let got = server.ask("GET", "/play/films/a/master.m3u8", "Host: tv.example:8700\r\n");
    assert!(
        got.body.contains("SERVER-URI=\"http://tv.example:8700/steering/hls?s=1."),
        "{}",
        got.body
    );
}
