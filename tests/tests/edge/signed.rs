//! Signed URLs at an edge: the token is checked first, and neither the origin nor the cache sees it.

use crate::MIB;
use crate::origin::Origin;
use fullbore_tests::{Launch, Plain, program, tool};
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;

fn sign(key: &Path, words: &str) -> String {
    let mut command = Command::new(program());
    let ran = tool::run(command.arg("sign").args(words.split(' ')).arg("--key").arg(key));
    assert!(ran.success, "{}", ran.stderr);
    ran.text().trim_end().to_owned()
}

#[test]
fn tokens_are_checked_first_and_are_no_part_of_the_cache() {
    let (origin, folder) = (Origin::start(), tempdir().unwrap());
    let lines = "Cache-Control: max-age=3600\r\n";
    let film = origin.put("/films/a.mp4", 1, MIB + 1, lines);
    origin.put("/films/b.mp4", 2, 1000, lines);
    let key = folder.path().join("url.key");
    let ran = tool::run(Command::new(program()).args(["sign", "--new-key"]).arg(&key));
    assert!(ran.success, "{}", ran.stderr);
    let server = Launch::bare()
        .config(&format!("[signing]\nkeys = [{key:?}]\n"))
        .arguments("--tls off --workers 1 --origin")
        .argument(origin.url())
        .arguments("--cache")
        .argument(folder.path().join("cache"))
        .start();
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
