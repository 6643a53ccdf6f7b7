//! The public suite for HTTP caches (npm `http-cache-tests`), in front of its own origin.
//!
//! Its tests wait in real time, so a busy machine can spoil one. A test whose result is not the expected one is repeated alone, and the
//! result counts that the expectation allows if any try gives it.

use crate::launch_at;
use fullbore_tests::{free_port, tool, until};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use tempfile::tempdir;

/// Tests that fail, each with its reason.
const KNOWN: &str = include_str!("http_cache_suite.txt");

/// Methods that the suite uses, beside GET and HEAD.
const CONFIG: &str =
    "[edge]\nsilent_seconds = 300.0\nmethods = [\"POST\", \"PUT\", \"DELETE\", \"M-SEARCH\"]\n";

/// How often a test is repeated.
const REPEATS: usize = 3;

/// Prints each test that a cache shared by viewers takes, with its kind.
const LIST: &str = "
import tests from 'http-cache-tests/tests/index.mjs'
import surrogate from 'http-cache-tests/tests/surrogate-control.mjs'
for (const suite of [...tests, surrogate])
  for (const test of suite.tests)
    if (!test.browser_only) console.log(test.id, test.kind || 'required')
";

/// The suite's origin. It ends with the test.
struct SuiteOrigin(Child);

impl Drop for SuiteOrigin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Installs the suite below the build's folder, and returns where; none if it cannot be had here. package.json replaces two of its dependencies
/// by one that it has anyway: `npm`, which it names without use, and `liquidjs`, which only its web page needs.
fn installed() -> Option<PathBuf> {
    if !tool::are_here(&[("node", "nodejs"), ("npm", "npm")]) {
        return None;
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("http-cache-tests");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("http-cache-tests");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(own.join(name), folder.join(name)).unwrap();
    }
    if !folder.join("node_modules/http-cache-tests/cli.mjs").exists() {
        let mut install = tool::command("npm");
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
        let ran = tool::run(&mut install);
        if !ran.success {
            tool::skip(&format!("npm cannot install http-cache-tests: {}", ran.stderr));
            return None;
        }
    }
    Some(folder)
}

fn start_origin(suite: &Path, port: u16) -> SuiteOrigin {
    let mut command = std::process::Command::new("node");
    command.arg("server/server.mjs").current_dir(suite.join("node_modules/http-cache-tests"));
    command.env("npm_config_protocol", "http").env("npm_config_port", port.to_string());
    command.env("npm_config_pidfile", suite.join("server.pid"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let origin = SuiteOrigin(command.spawn().unwrap());
    until("the suite's origin", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    origin
}

/// The ids of the tests that `kinds` has, and their kinds.
fn kinds(suite: &Path) -> BTreeMap<String, String> {
    let mut list = tool::command("node");
    list.args(["--input-type=module", "-e", LIST]).current_dir(suite);
    let ran = tool::run(&mut list);
    assert!(ran.success, "{}", ran.stderr);
    let text = ran.text();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(id, kind)| (id.to_owned(), kind.to_owned())).collect()
}

/// Runs all tests, or the one called `id`, and returns the failures with their reasons.
fn run(suite: &Path, base: &str, id: &str) -> BTreeMap<String, String> {
    let mut cli = tool::command("node");
    cli.args(["--no-warnings", "cli.mjs"]);
    cli.current_dir(suite.join("node_modules/http-cache-tests"));
    cli.env("npm_config_base", base).env("npm_config_id", id).env("npm_package_config_id", "");
    let ran = tool::run(&mut cli);
    assert!(ran.success, "{}", ran.stderr);
    if !id.is_empty() {
        // One test is told in words, of which the last line begins with a mark.
        let text = ran.text();
        let last = text.lines().last().unwrap_or_default();
        let (_, why) = last.split_once(" - ").unwrap_or(("", last));
        let failed = (!why.is_empty()).then(|| (id.to_owned(), why.to_owned()));
        return failed.into_iter().collect();
    }
    let results: serde_json::Value = serde_json::from_str(&ran.text()).unwrap();
    let results = results.as_object().unwrap().iter();
    let failed = results.filter(|(_, result)| **result != serde_json::Value::Bool(true));
    failed.map(|(id, result)| (id.clone(), result[1].as_str().unwrap_or("?").into())).collect()
}

/// The tests that are known to fail.
fn known() -> BTreeSet<String> {
    let lines = KNOWN.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let known = lines.map(|line| {
        let (id, reason) = line.split_once(": ").expect("an id and a reason");
        assert!(!reason.trim().is_empty(), "{id} has no reason");
        id.to_owned()
    });
    known.collect()
}

#[test]
fn the_public_suite_for_http_caches_passes_except_for_what_is_listed() {
    let Some(suite) = installed() else { return };
    let (port, cache) = (free_port(), tempdir().unwrap());
    let _origin = start_origin(&suite, port);
    let launch = launch_at(&format!("http://127.0.0.1:{port}"), cache.path()).config(CONFIG);
    let server = launch.arguments("--tls off --workers 2").start();
    let base = format!("http://{}", server.address);
    let (kinds, known) = (kinds(&suite), known());
    let counts = |id: &String| kinds.get(id).is_some_and(|kind| kind != "check");
    let mut failed = run(&suite, &base, "");
    let counted_ids = || kinds.keys().filter(|id| counts(id));
    for _ in 0..REPEATS {
        let other: Vec<String> = counted_ids()
            .filter(|id| failed.contains_key(*id) != known.contains(*id))
            .cloned()
            .collect();
        if other.len() > 20 {
            break;
        }
        for id in other {
            match run(&suite, &base, &id).remove(&id) {
                Some(why) => drop(failed.insert(id, why)),
                None => drop(failed.remove(&id)),
            }
        }
    }
    for kind in ["required", "optimal"] {
        let of_kind: Vec<_> = kinds.iter().filter(|(_, one)| *one == kind).collect();
        let passed = of_kind.iter().filter(|(id, _)| !failed.contains_key(*id)).count();
        eprintln!("{passed} of {} {kind} tests pass", of_kind.len());
    }
    let new: Vec<_> = failed.iter().filter(|(id, _)| counts(id) && !known.contains(*id)).collect();
    let mended: Vec<_> = known.iter().filter(|id| !failed.contains_key(*id)).collect();
    assert!(new.is_empty(), "fail now: {new:#?}");
    assert!(mended.is_empty(), "pass now, so remove them from http_cache_suite.txt: {mended:#?}");
}
