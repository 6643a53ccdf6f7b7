//! Common Access Tokens: ours by the library that others wrote for Node, and that library's by our server.

use crate::{Cinema, fullbore, refused, status};
use fullbore_tests::{Plain, Server, eventually, tool};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Prints, for each request of standard input, the token that the library makes of its claims, and whether the library itself accepts it; or
/// whether it accepts the token of the request.
const NODE: &str = "
import { CAT } from '@eyevinn/cat'
import { readFileSync } from 'node:fs'
const { secret, requests } = JSON.parse(readFileSync(process.argv[1], 'utf8'))
const keys = { foreign: Buffer.from(secret, 'hex') }
const answers = []
for (const { claims, token, tagged, url, ip } of requests) {
  const cat = new CAT({ keys, expectCwtTag: tagged })
  const text = token ?? await cat.generateFromJson(claims, { type: 'mac', alg: 'HS256', kid: 'foreign' })
  const issuer = claims?.iss ?? 'fullbore'
  let accepts = false
  try {
    accepts = !(await cat.validate(text, 'mac', { issuer, url: new URL(url), ip })).error
  } catch {}
  answers.push({ token: text, accepts })
}
console.log(JSON.stringify(answers))
";

/// The moment of [`crate::EXPIRES`] is later than this, and the tests' machine knows a later time than 2020.
const PAST: u64 = 1_577_836_800;
const FUTURE: u64 = 4_000_000_000;

/// The folder with the library; none if it cannot be had here.
fn installed() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(install).clone()
}

/// Installs the library below the build's folder. package.json replaces the native part of one of its dependencies, which not every registry has for
/// every platform, by a package that it has anyway.
fn install() -> Option<PathBuf> {
    if !tool::are_here(&[("node", "nodejs"), ("npm", "npm")]) {
        return None;
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("cat-tests");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cat-tests");
    fs::create_dir_all(&folder).unwrap();
    for name in ["package.json", "package-lock.json"] {
        fs::copy(own.join(name), folder.join(name)).unwrap();
    }
    if !folder.join("node_modules/@eyevinn/cat/lib/index.js").exists() {
        let mut install = tool::command("npm");
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
        let ran = tool::run(&mut install);
        if !ran.success {
            tool::skip(&format!("npm cannot install @eyevinn/cat: {}", ran.stderr));
            return None;
        }
    }
    Some(folder)
}

/// What the library answers to `requests`.
fn ask(library: &Path, cinema: &Cinema, requests: &[Value]) -> Vec<Value> {
    let key = fs::read_to_string(cinema.path("cat.key")).unwrap();
    let (_, secret) = key.trim_end().split_once(':').unwrap();
    let asked = cinema.path("requests.json");
    fs::write(&asked, json!({ "secret": secret, "requests": requests }).to_string()).unwrap();
    let mut node = tool::command("node");
    node.args(["--input-type=module", "-e", NODE]).arg(&asked).current_dir(library);
    node.env("CBOR_NATIVE_ACCELERATION_DISABLED", "true");
    let ran = tool::run(&mut node);
    assert!(ran.success, "{}", ran.stderr);
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// A cinema that also takes Common Access Tokens, by a key with the id `foreign`.
fn cinema(more: &str) -> Cinema {
    let cinema = Cinema::new("");
    cinema.make_key("cat.key");
    let key = fs::read_to_string(cinema.path("cat.key")).unwrap();
    let (_, secret) = key.split_once(':').unwrap();
    fs::write(cinema.path("cat.key"), format!("foreign:{secret}")).unwrap();
    let (own, cat) = (cinema.path("url.key"), cinema.path("cat.key"));
    let config = format!("[signing]\nkeys = [{own:?}]\ncat_keys = [{cat:?}]\n{more}\n");
    fs::write(cinema.path("fullbore.toml"), config).unwrap();
    cinema
}

fn issued(cinema: &Cinema, words: &str) -> Value {
    serde_json::from_str(&cinema.sign("cat.key", &format!("--cat --json {words}"))).unwrap()
}

fn in_header(server: &Server, token: &str, path: &str) -> u16 {
    let line = format!("CTA-Common-Access-Token: {token}\r\n");
    Plain::connect(server.address).fetch_with(path, &line).status
}

#[test]
fn a_token_opens_what_it_is_for_in_each_of_its_places() {
    let cinema = cinema("");
    let log = cinema.path("access.log");
    let launch = cinema.launch("--tls off").argument("--access-log").argument(&log);
    let server = launch.start();
    let one = issued(&cinema, "films/a/b.mp4 --scope films/a --method GET --network 127.0.0.0/8");
    let token = one["token"].as_str().unwrap();
    assert_eq!(one["key"], "foreign");
    let in_path = one["url"].as_str().unwrap();
    assert_eq!(in_path, format!("/t/{token}/films/a/b.mp4"));
    let film = "/films/a/b.mp4";
    let mut viewer = Plain::connect(server.address);
    let cookie = format!("Cookie: x=y; CTA-Common-Access-Token={token}\r\n");
    for (path, lines) in [
        (in_path, ""),
        (&format!("{film}?CAT={token}"), ""),
        (&format!("{film}?token={token}"), ""),
        (film, &*format!("CTA-Common-Access-Token: {token}\r\n")),
        (film, &*cookie),
    ] {
        assert!(viewer.fetch_with(path, lines).body == cinema.film, "{path} {lines}");
        let other = path.replace("films/a/b.mp4", "films/ab/c.mp4");
        assert_eq!(viewer.fetch_with(&other, lines).status, 403, "{path} {lines}");
    }
    assert_eq!(refused(&server, "token_wrong"), 5);
    assert_eq!(status(&mut viewer, &cinema.sign("url.key", "films/a/b.mp4")), 200, "ours, too");
    viewer.ask_by("HEAD", in_path, "");
    assert_eq!(viewer.head().0, 403, "another method");
    let text = eventually("twelve lines", || {
        fs::read_to_string(&log).ok().filter(|text| text.lines().count() == 12)
    });
    let end = &token[token.len() - 43..];
    assert!(!text.contains(end) && text.contains("?CAT=2D3R") && text.contains("-/films/a/b.mp4"));
}

#[test]
fn every_way_to_refuse_a_token_has_its_counter() {
    let cinema = cinema("cat_issuers = [\"fullbore\"]");
    let server = cinema.launch("--tls off").start();
    let good = issued(&cinema, "films/a/b.mp4 --issuer fullbore");
    let good = good["token"].as_str().unwrap();
    assert_eq!(in_header(&server, good, "/films/a/b.mp4"), 200);
    let early = "films/a/b.mp4 --issuer fullbore --not-before 30m";
    cinema.make_key("other.key");
    let foreign = cinema.sign("other.key", "--cat films/a/b.mp4 --issuer fullbore --json");
    let foreign: Value = serde_json::from_str(&foreign).unwrap();
    let forged = format!("{}AAA", &good[..good.len() - 3]);
    for (token, reason, times) in [
        (issued(&cinema, early)["token"].as_str().unwrap(), "token_not_yet", 1),
        (&good[1..], "token_malformed", 1),
        (&"2D3RhEOh".repeat(600), "token_malformed", 2),
        (&forged, "token_wrong", 1),
        (issued(&cinema, "films/a/b.mp4")["token"].as_str().unwrap(), "token_wrong", 2),
        (foreign["token"].as_str().unwrap(), "token_unknown_key", 1),
    ] {
        assert_eq!(in_header(&server, token, "/films/a/b.mp4"), 403, "{reason}");
        assert_eq!(refused(&server, reason), times, "{reason}");
    }
    // The keys are read again when their file changes, as those of our own tokens are.
    let key = fs::read_to_string(cinema.path("other.key")).unwrap();
    let both = format!("{key}{}", fs::read_to_string(cinema.path("cat.key")).unwrap());
    fs::write(cinema.path("new.key"), both).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(cinema.path("new.key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(cinema.path("new.key"), cinema.path("cat.key")).unwrap();
    eventually("the new key", || {
        let token = foreign["token"].as_str().unwrap();
        (in_header(&server, token, "/films/a/b.mp4") == 200).then_some(())
    });
}

/// The requests, each with whether we accept it and whether the library does. They differ where the library ignores what it can't evaluate.
fn table() -> Vec<(Value, bool, bool)> {
    let film = "http://tv.example/films/a/b.mp4";
    let with = |name: &str, claim: Value| {
        json!({
            "claims": { "iss": "someone", "exp": FUTURE, name: claim },
            "tagged": true, "url": film, "ip": "127.0.0.1",
        })
    };
    let uri = |part: &str, comparison: &str, value: Value| {
        with("catu", json!({ part: { comparison: value } }))
    };
    let hash = "0d4ba0ed57d33ec6a6a0d1c1a4a0d9a0a0a7a1f6b9f9f9f9f9f9f9f9f9f9f9f9";
    vec![
        (with("sub", json!("viewer")), true, true),
        (with("cti", json!("0102")), true, true),
        (with("nbf", json!(PAST)), true, true),
        (with("nbf", json!(FUTURE - 1)), false, false),
        (with("exp", json!(PAST)), false, false),
        (uri("path", "exact-match", json!("/films/a/b.mp4")), true, true),
        (uri("path", "exact-match", json!("/films/a/b")), false, false),
        (uri("path", "prefix-match", json!("/films/a/")), true, true),
        (uri("path", "prefix-match", json!("/films/ab/")), false, false),
        (uri("path", "suffix-match", json!(".mp4")), true, true),
        (uri("path", "contains-match", json!("/a/")), true, true),
        (uri("path", "contains-match", json!("/b/")), false, false),
        (uri("path", "sha256-match", json!(hash)), false, false),
        (uri("parent-path", "exact-match", json!("/films/a")), true, true),
        (uri("parent-path", "exact-match", json!("/films/a/")), false, false),
        (uri("filename", "exact-match", json!("b.mp4")), true, true),
        (uri("stem", "exact-match", json!("b")), true, true),
        (uri("extension", "exact-match", json!(".mp4")), true, true),
        (uri("extension", "exact-match", json!("mp4")), false, false),
        (uri("scheme", "exact-match", json!("http")), true, true),
        (uri("scheme", "exact-match", json!("https")), false, false),
        (uri("host", "exact-match", json!("tv.example")), true, true),
        (uri("host", "suffix-match", json!(".other")), false, false),
        (uri("port", "exact-match", json!("")), true, true),
        (uri("port", "exact-match", json!("8443")), false, false),
        (with("catnip", json!(["127.0.0.1"])), true, true),
        (with("catnip", json!(["192.0.2.1", "127.0.0.0/8"])), true, true),
        (with("catnip", json!(["192.0.2.0/24", "2001:db8::/32"])), false, false),
        (with("catm", json!(["GET", "HEAD"])), true, true),
        (with("catm", json!(["POST"])), false, true),
        (with("aud", json!("tv")), false, true),
        (with("catv", json!(2)), false, true),
        (uri("path", "regex-match", json!(["^/films/", []])), false, true),
        (with("catgeoiso3166", json!(["SE"])), false, true),
        (with("catreplay", json!(1)), false, true),
        (with("catr", json!({ "type": "header", "expadd": 60 })), false, true),
    ]
}

#[test]
fn tokens_of_the_library_for_node_are_accepted_and_refused() {
    let Some(library) = installed() else { return };
    let cinema = cinema("");
    let server = cinema.launch("--tls off --workers 1").start();
    for tagged in [true, false] {
        let mut table = table();
        table.iter_mut().for_each(|(request, ..)| request["tagged"] = json!(tagged));
        let requests: Vec<_> = table.iter().map(|(request, ..)| request.clone()).collect();
        let answers = ask(&library, &cinema, &requests);
        assert_eq!(answers.len(), table.len());
        for ((request, ours, theirs), answer) in table.iter().zip(&answers) {
            assert_eq!(answer["accepts"], *theirs, "by the library: {request}");
            let token = answer["token"].as_str().unwrap();
            let line = format!("CTA-Common-Access-Token: {token}\r\n");
            // The absolute form of a target names the host.
            let url = request["url"].as_str().unwrap();
            let response = Plain::connect(server.address).fetch_with(url, &line);
            assert_eq!(response.status == 200, *ours, "{request}");
        }
    }
    let unsupported = refused(&server, "token_unsupported");
    assert_eq!(unsupported, 2 * 5, "catv, a regular expression, catgeoiso3166, catreplay, catr");
}

#[test]
fn our_tokens_are_accepted_and_refused_by_the_library_for_node() {
    let Some(library) = installed() else { return };
    let cinema = cinema("");
    let issuer = "--issuer fullbore";
    let cases = [
        (format!("films/a/ {issuer}"), "/films/a/b.mp4", "127.0.0.1", true),
        (format!("films/a/ {issuer}"), "/films/ab/c.mp4", "127.0.0.1", false),
        (format!("films/a/b.mp4 {issuer}"), "/films/a/b.mp4", "127.0.0.1", true),
        (format!("films/a/b.mp4 {issuer}"), "/films/a/b.mp4x", "127.0.0.1", false),
        (format!("films/a/master.m3u8 {issuer}"), "/films/a/1080/x.m4s", "127.0.0.1", true),
        (format!("/ {issuer}"), "/any/thing", "127.0.0.1", true),
        (format!("/ {issuer} --network 2001:db8::80/121"), "/x", "2001:db8::ff", true),
        (format!("/ {issuer} --network 2001:db8::80/121"), "/x", "2001:db8::7f", false),
        (format!("/ {issuer} --network 192.0.2.128/25"), "/x", "192.0.2.200", true),
        (format!("/ {issuer} --network 192.0.2.128/25"), "/x", "192.0.2.8", false),
        (format!("/ {issuer} --client 192.0.2.7"), "/x", "192.0.2.7", true),
        (format!("/ {issuer} --client 192.0.2.7"), "/x", "192.0.2.8", false),
        // RFC 9164 leaves out the zeros at a network's end. The library reads only networks with all their bytes, and refuses others.
        (format!("/ {issuer} --network 192.0.2.0/24"), "/x", "192.0.2.8", false),
        (format!("/ {issuer} --not-before 30m"), "/x", "127.0.0.1", false),
        ("/ --issuer another".to_owned(), "/x", "127.0.0.1", false),
    ];
    let request = |(words, path, ip, _): &(String, &str, &str, bool)| {
        let token = issued(&cinema, words)["token"].clone();
        json!({ "token": token, "tagged": true, "url": format!("https://h{path}"), "ip": ip })
    };
    let answers = ask(&library, &cinema, &cases.iter().map(request).collect::<Vec<_>>());
    for ((words, path, ip, accepted), answer) in cases.iter().zip(&answers) {
        assert_eq!(answer["accepts"], *accepted, "{words} for {path} from {ip}");
    }
}

#[test]
fn what_cannot_be_issued_is_said() {
    let cinema = cinema("");
    let pair = [cinema.path("sign.key"), cinema.path("check.pub")];
    let [private, public] = pair.each_ref().map(|path| path.to_str().unwrap());
    let made = fullbore(&["sign", "--new-key", private, "--public", public]);
    assert!(made.success, "{}", made.stderr);
    let fixed = ["sign", "--cat", "films/a/b.mp4", "--expires", "1h"];
    for (words, told) in [
        (&["--key", public][..], "only check"),
        (&["--key", private, "--network", "192.0.2.1/24"], "bits after the prefix"),
        (&["--key", private, "--method", "get"], "GET or HEAD"),
        (&["--key", private, "--not-before", "2h"], "would never work"),
    ] {
        let ran = fullbore(&[&fixed[..], words].concat());
        assert!(!ran.success && ran.stderr.contains(told), "{words:?}: {}", ran.stderr);
    }
    let networks: Vec<String> =
        (0..255).map(|at| format!("--network=2001:db8:{at:x}::/48")).collect();
    let networks: Vec<&str> = networks.iter().map(String::as_str).collect();
    let ran = fullbore(&[&fixed[..], &["--key", private], &networks[..]].concat());
    assert!(!ran.success && ran.stderr.contains("fewer networks"), "{}", ran.stderr);
    let ran = fullbore(&["sign", "films/a", "--expires", "1h", "--key", private, "--json"]);
    assert!(!ran.success && ran.stderr.contains("--cat"), "{}", ran.stderr);
}
