//! Signed URLs at an edge: the token is checked first, and neither the origin nor the cache sees it.

use crate::MIB;
use crate::origin::Origin;
use fullbore_tests::{Launch, Plain, Server, program, tool};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::tempdir;

fn sign(key: &Path, words: &str) -> String {
    let mut command = Command::new(program());
    let ran = tool::run(command.arg("sign").args(words.split(' ')).arg("--key").arg(key));
    assert!(ran.success, "{}", ran.stderr);
    ran.text().trim_end().to_owned()
}

/// An edge that needs a token for every path, its key, and its origin.
fn signing_edge(origin: &Origin, folder: &Path) -> (Server, PathBuf) {
    let key = folder.join("url.key");
    let ran = tool::run(Command::new(program()).args(["sign", "--new-key"]).arg(&key));
    assert!(ran.success, "{}", ran.stderr);
    let server = Launch::bare()
        .config(&format!("[signing]\nkeys = [{key:?}]\n"))
        .arguments("--tls off --workers 1 --origin")
        .argument(origin.url())
        .arguments("--cache")
        .argument(folder.join("cache"))
        .start();
    (server, key)
}

#[test]
fn tokens_are_checked_first_and_are_no_part_of_the_cache() {
    let (origin, folder) = (Origin::start(), tempdir().unwrap());
    let lines = "Cache-Control: max-age=3600\r\n";
    let film = origin.put("/films/a.mp4", 1, MIB + 1, lines);
    origin.put("/films/b.mp4", 2, 1000, lines);
    let (server, key) = signing_edge(&origin, folder.path());
    let mut viewer = Plain::connect(server.address);
    let signed = sign(&key, "films/a.mp4 --expires 1h");
    assert_eq!(viewer.fetch("/films/a.mp4").status, 403);
    assert_eq!(viewer.fetch(&signed.replace("a.mp4", "b.mp4")).status, 403, "another film");
    assert_eq!(
        viewer.fetch("/films/none.mp4").status,
        403,
        "the answer shows no viewer which files exist"
    );
    assert!(origin.seen().is_empty(), "the origin hears only of viewers who may");
    let others = [
        "films/a.mp4 --expires 2h",
        "films/a.mp4 --expires 1h --query",
        "films --expires 3h --scope films",
    ];
    let [longer, query, folder_wide] = others.map(|words| sign(&key, words));
    let below = format!("{}/a.mp4", folder_wide.trim_end_matches('/'));
    for url in [signed, longer, query, below] {
        let answer = viewer.fetch(&url);
        assert!(answer.body == *film, "{url}: {}", answer.head);
    }
    let seen = origin.seen();
    assert!(seen.len() <= 2, "each block once, whatever the token: {seen:?}");
    for seen in seen {
        assert_eq!(seen.path, "/films/a.mp4");
        assert!(!seen.head.contains("token") && !seen.head.contains("/t/"), "{}", seen.head);
    }
    assert_eq!(viewer.fetch("/films/a.mp4").status, 403, "cached, and still only with a token");
}

#[test]
fn common_access_tokens_reach_neither_the_origin_nor_the_cache() {
    let (origin, folder) = (Origin::start(), tempdir().unwrap());
    let film = origin.put("/films/a.mp4", 1, 1000, "Cache-Control: max-age=3600\r\n");
    let key = folder.path().join("cat.key");
    let ran = tool::run(Command::new(program()).args(["sign", "--new-key"]).arg(&key));
    assert!(ran.success, "{}", ran.stderr);
    let server = Launch::bare()
        .config(&format!("[signing]\ncat_keys = [{key:?}]\n"))
        .arguments("--tls off --workers 1 --origin")
        .argument(origin.url())
        .arguments("--cache")
        .argument(folder.path().join("cache"))
        .start();
    let cat = |more: &str| sign(&key, &format!("--cat films/a.mp4 --expires 1h{more}"));
    let (in_path, in_query) = (cat(" --method GET"), cat(" --query"));
    let token = in_query.split_once("CAT=").unwrap().1;
    let end = &token[token.len() - 43..];
    let header = format!("CTA-Common-Access-Token: {token}\r\n");
    let cookie = format!("Cookie: CTA-Common-Access-Token={token}\r\n");
    let referer = format!("Referer: https://h{in_query}\r\n");
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch("/films/a.mp4").status, 403);
    for (target, lines) in [
        (&*in_query, &*referer),
        (&*in_path, ""),
        ("/films/a.mp4", &*header),
        ("/films/a.mp4", &*cookie),
        (&format!("{in_query}&CMCD=br%3D1"), ""),
    ] {
        let answer = viewer.fetch_with(target, lines);
        assert!(answer.status == 200 && answer.body == *film, "{target}: {}", answer.head);
        // Else a cache in front would give the film to viewers without a token.
        let is_private = answer.head.contains("Cache-Control: private");
        assert_eq!(is_private, target == "/films/a.mp4", "{target}: {}", answer.head);
    }
    let seen = origin.seen();
    assert_eq!(seen.len(), 1, "one response for every token: {seen:?}");
    assert!(seen[0].path == "/films/a.mp4" && !seen[0].head.contains(end), "{seen:?}");
    assert!(!seen[0].head.contains("CTA-") && seen[0].head.contains("https://h/films/a.mp4"));
}

/// A page's address is in the requests that it makes, and may be an argument of another page.
#[test]
fn tokens_reach_the_origin_in_no_header_and_no_argument() {
    let (origin, folder) = (Origin::start(), tempdir().unwrap());
    let page = origin.put("/films/page.html", 1, 1000, "Cache-Control: no-store\r\n");
    let (server, key) = signing_edge(&origin, folder.path());
    let signed = sign(&key, "films/page.html --expires 1h");
    let signature = signed.split('.').nth(1).unwrap();
    assert!(signature.len() >= 64, "{signed}");
    origin.put(&format!("/films/page.html?page={}", signed.replace(signature, "-")), 1, 1000, "");
    for (target, lines) in [
        (signed.clone(), format!("Referer: https://edge.example{signed}\r\nX-Page: {signed}\r\n")),
        (format!("{signed}?page={signed}"), "Referer: https://other.example/\r\n".to_owned()),
    ] {
        let answer = Plain::connect(server.address).fetch_with(&target, &lines);
        assert!(answer.status == 200 && answer.body == *page, "{target}: {}", answer.head);
    }
    let seen = origin.seen();
    assert!(seen.iter().all(|seen| !seen.head.contains(signature)), "{seen:?}");
    let has = |text: &str| seen.iter().any(|seen| seen.head.to_ascii_lowercase().contains(text));
    assert!(has("referer: https://edge.example/t/") && has("referer: https://other.example/"));
}
