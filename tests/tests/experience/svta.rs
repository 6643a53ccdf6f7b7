//! Requests and events made by the library of the Streaming Video Technology Alliance (npm: @svta/cml-cmcd), from which hls.js, dash.js and Shaka
//! have theirs, as our server reads them.

use crate::posted::after_events;
use crate::{experience, library, near};
use fullbore_tests::{Plain, Server, tool};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A session of the library's own reporter: a request for the manifest and three for media, and each kind of event. Prints what its validators say.
const SESSION: &str = "
import * as cml from '@svta/cml-cmcd'
const server = process.argv[1]
const { CMCD_KEYS, CmcdEventType, toCmcdValue } = cml
const issues = [], answers = []
const post = async ({ url, ...init }) => {
  issues.push(...cml.validateCmcdEventReport({ url, ...init }).issues)
  const { status } = await fetch(url, init)
  answers.push(status)
  return { status }
}
const target = { url: `${server}/-/cmcd`, events: Object.values(CmcdEventType), interval: 0, batchSize: 5, enabledKeys: CMCD_KEYS }
const config = { sid: 'a, \"quoted\" \\\\\\\\ name', cid: 'films/a', version: 2, enabledKeys: CMCD_KEYS, eventTargets: [target] }
const reporter = new cml.CmcdReporter({ ...config, transmissionMode: process.argv[2] }, post)
const start = 1790000000000
const ask = async (path, data) => {
  const request = reporter.createRequestReport({ url: `${server}/films/a/${path}` }, data)
  issues.push(...cml.validateCmcdRequest(request).issues)
  const answer = await fetch(request.url, { headers: request.headers })
  await answer.text()
  reporter.recordResponseReceived({ request, status: answer.status, resourceTiming: { startTime: 1, responseStart: 2, duration: 3 } })
}
const video = [toCmcdValue(4000, { v: true })]
const media = { ot: 'v', d: 4000, br: [toCmcdValue(128, { a: true }), ...video], tb: video, bl: [4000] }
await ask('master.m3u8', { ot: 'm', su: true })
reporter.recordEvent('ps', { sta: 's', ts: start })
await ask('1.m4s', { ...media, su: true, nor: ['2.m4s', toCmcdValue('3.m4s', { r: '0-99' })] })
reporter.update({ msd: 640 })
reporter.recordEvent('ps', { sta: 'p', ts: start + 700 })
reporter.recordEvent('bc', { br: [4000], ts: start + 800 })
reporter.recordEvent('c', { cid: 'films/b', ts: start + 800 })
reporter.recordEvent('b', { bg: true, ts: start + 800 })
reporter.recordEvent('pr', { pr: 1.5, ts: start + 800 })
for (const event of ['t', 'm', 'um', 'pe', 'pc', 'as', 'ae', 'abs', 'abe', 'sk']) reporter.recordEvent(event, { ts: start + 5000 })
reporter.recordEvent('ce', { cen: 'rewound', 'com.example-key': 'x', ts: start + 5000 })
reporter.recordEvent('ps', { sta: 'r', ts: start + 20700 })
await ask('1.m4s', { ...media, bs: true, bsa: [1], dl: 100, rtp: 8000 })
reporter.recordEvent('ps', { sta: 'p', ts: start + 22700 })
reporter.recordEvent('e', { ec: ['one', 'a, \"second\"'], ts: start + 22800 })
await ask('1.m4s', { ...media, bsd: [toCmcdValue(2100, { v: true })], bsda: [2100] })
reporter.recordEvent('ps', { sta: 'e', ts: start + 32700 })
reporter.flush()
while (answers.length < 5) await new Promise((done) => setTimeout(done, 5))
console.log(JSON.stringify({ issues, answers }))
";

/// Any values of any keys: prints the bodies of posts, and the fields and queries of requests, in both versions.
const ANYTHING: &str = "
import * as cml from '@svta/cml-cmcd'
let seed = 7
const below = (n) => (seed = (seed * 48271) % 2147483647) % n
const one = (list) => list[below(list.length)]
const text = () => Array.from({ length: 1 + below(20) }, () => String.fromCharCode(32 + below(95))).join('')
const list = () => Array.from({ length: 1 + below(3) }, () => cml.toCmcdValue(below(1e5) * 100, one([{ v: true }, { a: true }, { av: true }])))
const values = {}
for (const key of ['ab', 'bl', 'br', 'bsa', 'bsd', 'bsda', 'lb', 'mtp', 'pb', 'tb', 'tbl', 'tpb']) values[key] = list
for (const key of ['d', 'dfa', 'dl', 'ltc', 'msd', 'pt', 'rtp', 'sn']) values[key] = () => below(8e5) * 100
for (const key of ['bg', 'bs', 'nr', 'su']) values[key] = () => below(2) === 0
for (const key of ['cdn', 'cid', 'cs', 'com.example-key']) values[key] = text
Object.assign(values, { pr: () => below(40) / 8, ot: () => one(Object.values(cml.CmcdObjectType)), sf: () => one(['d', 'h', 's', 'o']) })
Object.assign(values, { st: () => one(['v', 'l', 'll']), sta: () => one(Object.values(cml.CmcdPlayerState)) })
Object.assign(values, { ec: () => [text(), text()], nor: () => [text(), cml.toCmcdValue(text(), { r: '5-9' })] })
const some = () => Object.fromEntries(Object.entries(values).filter(() => below(3) === 0).map(([key, value]) => [key, value()]))
const event = () => {
  const e = one(Object.values(cml.CmcdEventType))
  const own = { cen: 'x', url: 'https://h/a,b?c=\"d\"', rc: 206, ttfb: 5, ec: ['x'], sta: 'p', pr: 2, cid: 'c', bg: false, br: [5] }
  const kept = Object.fromEntries(Object.entries(own).filter(([key]) => e === 'rr' || !['url', 'rc', 'ttfb'].includes(key)))
  const data = { ...kept, ...some(), e, sid: 's', ts: 1790000000000 + below(1e6), v: 2 }
  return cml.encodeCmcd(data, { version: 2, reportingMode: 'event' })
}
const posts = Array.from({ length: 40 }, () => Array.from({ length: 1 + below(20) }, event).join('\\n'))
const requests = Array.from({ length: 200 }, (_, index) => {
  const data = { ...some(), sid: 's' }
  const options = { version: 1 + (index % 2), reportingMode: 'request' }
  const url = new URL('http://h/')
  url.searchParams.set('CMCD', cml.encodeCmcd(data, options))
  return { headers: cml.toCmcdHeaders(data, options), queries: [cml.toCmcdQuery(data, options), url.search.slice(1)] }
})
const issues = posts.flatMap((post) => cml.validateCmcdEvents(post).issues).filter(({ severity }) => severity === 'error')
console.log(JSON.stringify({ posts, requests, issues }))
";

/// The folder with the library; none if it cannot be had here.
fn installed() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(install).as_deref()
}

/// Installs the library below the build's folder.
fn install() -> Option<PathBuf> {
    if !tool::are_here(&[("node", "nodejs"), ("npm", "npm")]) {
        return None;
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("cmcd-tests");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cmcd-tests");
    fs::create_dir_all(&folder).unwrap();
    for name in ["package.json", "package-lock.json"] {
        fs::copy(own.join(name), folder.join(name)).unwrap();
    }
    if !folder.join("node_modules/@svta/cml-cmcd/dist/index.js").exists() {
        let mut install = tool::command("npm");
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
        let ran = tool::run(&mut install);
        if !ran.success {
            tool::skip(&format!("npm cannot install @svta/cml-cmcd: {}", ran.stderr));
            return None;
        }
    }
    Some(folder)
}

/// What a script prints.
fn run(folder: &Path, script: &str, arguments: &[&str]) -> Value {
    let mut node = tool::command("node");
    node.args(["--input-type=module", "-e", script]).args(arguments).current_dir(folder);
    let ran = tool::run(&mut node);
    assert!(ran.success, "{}", ran.stderr);
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn a_session_of_another_librarys_reporter_is_understood() {
    let Some(folder) = installed() else { return };
    for mode in ["query", "headers"] {
        let library = library();
        let server = Server::start(library.path(), "--tls off --workers 2");
        let ran = run(folder, SESSION, &[&format!("http://{}", server.address), mode]);
        assert_eq!(ran["issues"], Value::Array(Vec::new()), "our scenario is valid");
        let answers = ran["answers"].as_array().unwrap();
        assert!(answers.iter().all(|status| *status == 204), "{answers:?}");
        experience(&server, 4);
        // 25 lines, of which four are of responses.
        let told = after_events(&server, 21);
        let all = &told["all"];
        assert_eq!((&all["sessions_total"], &all["stalls_total"]), (&1.into(), &1.into()));
        near(&all["play_delay_seconds"]["max"], 0.64);
        near(&all["stalled_seconds_total"], 2.0);
        near(&all["played_seconds_total"], 30.0);
        near(&all["media_bytes_per_second"]["p50"], 500_000.0);
        assert_eq!(all["errors_total"], 1);
        let counters = server.counters();
        assert_eq!(counters.value("cmcd_events_total"), 25);
        for name in ["cmcd_malformed_total", "cmcd_sessionless_total", "cmcd_events_lost_total"] {
            assert_eq!(counters.value(name), 0, "{name}");
        }
    }
}

#[test]
fn nothing_that_another_library_encodes_is_malformed() {
    let Some(folder) = installed() else { return };
    let made = run(folder, ANYTHING, &[]);
    assert_eq!(made["issues"], Value::Array(Vec::new()), "the library's own validator agrees");
    let library = library();
    let server = Server::start(library.path(), "--tls off --workers 1");
    let mut player = Plain::connect(server.address);
    let mut events = 0;
    for post in made["posts"].as_array().unwrap().iter().map(|post| post.as_str().unwrap()) {
        assert_eq!(player.post("/-/cmcd", post.as_bytes()).status, 204, "{post}");
        events += post.lines().count() as u64;
    }
    let mut reports = 0;
    for request in made["requests"].as_array().unwrap() {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let queries = request["queries"].as_array().unwrap().iter().map(text);
        let fields = request["headers"].as_object().unwrap().iter();
        let lines = fields.map(|(name, value)| format!("{name}: {}\r\n", text(value)));
        let forms = queries.map(|query| (format!("?{query}"), String::new()));
        for (query, lines) in forms.chain([(String::new(), lines.collect())]) {
            let answer = player.fetch_with(&format!("/films/a/1.m4s{query}"), &lines);
            assert_eq!(answer.status, 200, "{request}");
            reports += 1;
        }
    }
    assert!(events > 200 && reports == 600, "{events}, {reports}");
    let counters = server.counters();
    assert_eq!(counters.value("cmcd_events_total"), events);
    assert_eq!(counters.value("cmcd_reports_total"), reports);
    for name in ["cmcd_malformed_total", "cmcd_sessionless_total", "cmcd_events_lost_total"] {
        assert_eq!(counters.value(name), 0, "{name}");
    }
}
