//! Several host names with a library each: curl's results from the real program, in its sandbox, and the errors about impossible sites.

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Launch, Server, certificate, until};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// The folders of two sites, `a` and `b`, and of all other hosts, `rest`.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for name in ["a", "b", "rest"] {
            fs::create_dir(place.path(name)).unwrap();
            fs::write(place.path(name).join("film.mp4"), format!("of {name}\n")).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn site(&self, host: &str, folder: &str) -> String {
        format!("[[sites]]\nhosts = [\"{host}\"]\nlibrary = {:?}\n", self.path(folder))
    }

    /// Both sites, with a certificate for each.
    fn configuration(&self) -> String {
        let pair = |host: &str| {
            let pair = certificate(self.0.path(), host, "ec");
            format!("[[tls.certificates]]\ncert = {:?}\nkey = {:?}\n", pair.cert, pair.key)
        };
        let certificates = ["a.example", "b.example"].map(pair).concat();
        [self.site("a.example", "a"), self.site("b.example", "b"), certificates].concat()
    }
}

/// Runs curl for hosts that are all this server's, trusting the certificates in `trusted`.
fn curl(server: &Server, place: &Place, trusted: &str, arguments: &[&str]) -> Ran {
    let (ip, port) = (server.address.ip(), server.address.port());
    let mut curl = tool::command("curl");
    curl.args(["-sS", "--max-time", "60", "--cacert"]);
    curl.arg(place.path(&format!("{trusted}.cert.pem")));
    for host in ["a.example", "b.example", "c.example"] {
        curl.args(["--resolve", &format!("{host}:{port}:{ip}")]);
    }
    tool::run(curl.args(arguments))
}

#[test]
fn curl_gets_each_hosts_film_over_tls_under_its_own_certificate() {
    if !tool::are_here(&[("curl", "curl"), ("openssl", "openssl")]) {
        return;
    }
    let place = Place::new();
    let log = place.path("log");
    fs::create_dir(&log).unwrap();
    let launch = Launch::of(&place.path("rest")).config(&place.configuration());
    let server = launch.argument("--access-log").argument(log.join("access.log")).start();
    let port = server.address.port();
    let url = |host: &str| format!("https://{host}:{port}/film.mp4");
    for (host, name) in [("a.example", "a"), ("b.example", "b")] {
        let ran = curl(&server, &place, host, &[&url(host)]);
        assert_eq!(ran.text(), format!("of {name}\n"), "{}", ran.stderr);
    }
    let ran = curl(&server, &place, "a.example", &["-k", &url("c.example")]);
    assert_eq!(ran.text(), "of rest\n", "{}", ran.stderr);
    // One connection, by the last line of what curl counts, and three hosts in turn.
    let (a, other) = (url("a.example"), ["-H", "Host: B.example.", "-w", "%{num_connects}\n"]);
    let elsewhere = ["-H", "Host: c.example", "-w", "%{num_connects}\n"];
    let trust = ["--cacert", place.0.path().join("a.example.cert.pem").to_str().unwrap()]
        .map(str::to_owned);
    let again = ["--next", "-sS", &trust[0], &trust[1], "--resolve"];
    let resolve = format!("a.example:{port}:{}", server.address.ip());
    let mut arguments = vec![a.as_str()];
    for more in [&other, &elsewhere] {
        arguments.extend(again);
        arguments.push(&resolve);
        arguments.extend(more.iter().copied());
        arguments.push(&a);
    }
    let ran = curl(&server, &place, "a.example", &arguments);
    assert_eq!(ran.text(), "of a\nof b\n0\nof rest\n0\n", "{}", ran.stderr);
    until("the log to have all", || {
        fs::read_to_string(log.join("access.log")).unwrap().lines().count() == 6
    });
    let lines = fs::read_to_string(log.join("access.log")).unwrap();
    let host = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["host"].as_str().unwrap().split(':').next().unwrap().to_owned()
    };
    let hosts: Vec<_> = lines.lines().map(host).collect();
    let expected = ["a.example", "b.example", "c.example", "a.example", "B.example.", "c.example"];
    assert_eq!(hosts, expected);
    let said = server.finish();
    let line = format!("site      https://a.example:{port}/ {}", place.path("a").display());
    assert!(said.contains(&line), "{said}");
}

#[test]
fn without_a_library_other_hosts_get_421() {
    if !tool::are_here(&[("curl", "curl"), ("openssl", "openssl")]) {
        return;
    }
    let place = Place::new();
    let server = Launch::bare().config(&place.configuration()).start();
    let port = server.address.port();
    let status = |host: &str| {
        let url = format!("https://{host}:{port}/film.mp4");
        curl(&server, &place, "a.example", &["-k", "-w", "%{http_code}", &url]).text()
    };
    assert_eq!(status("a.example"), "of a\n200");
    let refused = status("c.example");
    assert!(refused.starts_with("421 Misdirected Request\n") && refused.ends_with("421"));
    assert_eq!(server.counter("requests_refused_total{reason=\"misdirected\"}"), 1);
    let said = server.finish();
    assert!(said.contains("requests for any other host get 421"), "{said}");
}

#[test]
fn sites_that_cannot_be_are_refused_in_one_line() {
    let place = Place::new();
    let check = |config: String| Launch::bare().config(&config).argument("--check").run();
    let good = [place.site("a.example", "a"), place.site("b.example", "b")].concat();
    let ran = check(good.clone());
    assert_eq!((ran.code, ran.text().as_str()), (Some(0), "ok\n"), "{}", ran.stderr);
    let key = place.path("b").join("url.key");
    let nested = place.path("a").join("inner");
    fs::create_dir(&nested).unwrap();
    for (config, code, said) in [
        (place.site("*.example", "a"), 2, "[[sites]], number 1: hosts has \"*.example\""),
        (good.clone() + &place.site("A.example", "rest"), 2, "which is in number 1 already"),
        (good.clone() + &place.site("c.example", "a"), 2, "is in two libraries"),
        (good.clone() + &place.site("c.example", "a/inner"), 2, "lies in"),
        (good.clone() + &format!("[signing]\nkeys = [{key:?}]\n"), 2, "any viewer could fetch it"),
        (good.clone() + &place.site("c.example", "missing"), 1, "missing"),
        (good + "[edge]\norigin = \"http://o.example\"\ncache = \"/nowhere\"\n", 2, "[[sites]]"),
    ] {
        let ran = check(config);
        assert_eq!(ran.code, Some(code), "{said}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{said:?} is not in: {}", ran.stderr);
    }
}
