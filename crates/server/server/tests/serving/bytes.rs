//! The viewer gets exactly the file: more than ten thousand random cases of file, ranges, and division of reads and sends,
//! for every disk policy, without TLS and with both its versions, on either route.
//!
//! The counters are checked, too: without partial sends and records made again, the cases would show less than they claim.
//! `FULLBORE_SEED` repeats a run's choices, but not how the kernel divides the bytes.

use crate::support::content::Content;
use crate::support::served::{Served, kernel_seals};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::Config;
use config::{Disk, Route};
use fullbore_tests::Random;
use rustix::fs::Advice;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const POLICIES: [Disk; 4] = [Disk::Auto, Disk::Cached, Disk::Once, Disk::Direct];

/// Servers per protocol: each policy with each of [`tune`]'s settings. Three protocols make 10,260 cases.
const TUNINGS: usize = 3;
const CASES_PER_SERVER: i64 = 285;
const VIEWERS_AT_ONCE: u64 = 6;

/// Ranges with less than this between them come as one (RFC 9110 section 15.3.7.2).
const GAP_BYTES: u64 = 80;

/// More ranges than this that are smaller than that are ignored.
const SMALL_RANGES_MAX: usize = 8;
const SMALL_BYTES: u64 = 16 << 10;

/// The longest answer asked of the sparse file.
const SPARSE_RANGE_BYTES_MAX: u64 = 300_000;

pub(crate) struct Library {
    dir: TempDir,
    files: Vec<Content>,
}

impl Library {
    pub(crate) fn new(random: &mut Random) -> Self {
        const MIB: u64 = 1 << 20;
        let mut sizes = vec![0, 1, 2, 511, 512, 513, 4095, 4096, 4097, 16383, 16384, 16385];
        sizes.extend([65535, 65536, 65537, 131_072, MIB - 1, MIB, MIB + 1]);
        sizes.extend((0..3).map(|_| random.within(MIB..4 * MIB)));
        let mut files: Vec<_> =
            sizes.into_iter().map(|size| Content::new(random.number(), size)).collect();
        files.push(sparse(random));
        let dir = tempfile::tempdir().unwrap();
        for (index, file) in files.iter().enumerate() {
            file.write(&dir.path().join(name(index))).unwrap();
        }
        Self { dir, files }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Evicts a file from the page cache, so that its next read comes from the disk.
    fn cool(&self, index: usize) {
        let file = File::open(self.dir.path().join(name(index))).unwrap();
        file.sync_data().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
}

fn name(index: usize) -> String {
    format!("{index}.mp4")
}

/// More than 4 GiB, almost all of it holes: data at the start, across 2 GiB and 4 GiB, and at the very end.
fn sparse(random: &mut Random) -> Content {
    const GIB: u64 = 1 << 30;
    let size = 4 * GIB + random.within(200_000_000..900_000_000);
    let mut reach = || random.within(1..150_000);
    let islands = vec![
        0..reach(),
        2 * GIB - reach()..2 * GIB + reach(),
        4 * GIB - reach()..4 * GIB + reach(),
        size - reach()..size,
    ];
    Content { seed: random.number(), size, islands }
}

/// Settings that make buffers scarce, windows small and large, and the kernel accept little at once.
pub(crate) fn tune(config: &mut Config, tuning: usize) {
    config.net.window_bytes_max = [16 << 10, 64 << 10, 512 << 10][tuning];
    config.net.unsent_bytes_max = Some([4 << 10, 16 << 10, 128 << 10][tuning]);
    config.timeouts.hold_seconds = [0.0, 0.002, 0.0][tuning];
    // The smallest possible pool.
    config.limits.buffer_bytes_max = 8 * config.net.window_bytes_max;
}

/// One request.
struct Case {
    file: usize,
    head_only: bool,
    ranges: Vec<Asked>,
}

/// A range as it is written.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Between(u64, u64),
    From(u64),
    Last(u64),
}

impl Asked {
    fn random(content: &Content, random: &mut Random) -> Self {
        let size = content.size;
        if size > 1 << 32 {
            return Self::of_sparse(content, random);
        }
        let start = random.within(0..size + 2);
        match random.within(0..8) {
            0 => Self::From(start),
            1 => Self::Last(random.within(0..size + 2)),
            2 => Self::Between(start, start),
            3 => Self::Between(start, u64::MAX),
            4 => Self::Between(start, start + random.within(0..20_000)),
            _ => Self::Between(start, start + random.within(0..size + 2)),
        }
    }

    /// A range across the edge of an island, or near the end.
    fn of_sparse(content: &Content, random: &mut Random) -> Self {
        let bytes = random.within(1..SPARSE_RANGE_BYTES_MAX);
        if random.one_in(6) {
            return Self::Last(bytes);
        }
        if random.one_in(6) {
            return Self::From(content.size - bytes);
        }
        let island = random.pick(&content.islands).clone();
        let edge = *random.pick(&[island.start, island.end, 1 << 32]);
        let start = edge.saturating_sub(random.within(0..bytes));
        Self::Between(start, start + bytes - 1)
    }

    /// The requested bytes of a file of `size`; empty if there are none.
    fn within(self, size: u64) -> Range<u64> {
        match self {
            Self::Between(first, last) => first..last.saturating_add(1).min(size),
            Self::From(first) => first..size,
            Self::Last(bytes) => size - bytes.min(size)..size,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Between(first, last) => format!("{first}-{last}"),
            Self::From(first) => format!("{first}-"),
            Self::Last(bytes) => format!("-{bytes}"),
        }
    }
}

impl Case {
    fn random(library: &Library, random: &mut Random) -> Self {
        let file = random.within(0..library.files.len() as u64) as usize;
        let content = &library.files[file];
        let is_sparse = content.size > 1 << 32;
        let ranges = match random.within(0..5) {
            0 if !is_sparse => 0,
            1 if !is_sparse && random.one_in(4) => random.within(9..20),
            0 | 1 => random.within(2..9),
            _ => 1,
        };
        let head_only = random.one_in(12);
        let ranges = (0..ranges).map(|_| Asked::random(content, random)).collect();
        Self { file, head_only, ranges }
    }

    fn text(&self) -> String {
        let method = if self.head_only { "HEAD" } else { "GET" };
        let ranges: Vec<_> = self.ranges.iter().map(|range| range.text()).collect();
        let range = match ranges.as_slice() {
            [] => String::new(),
            ranges => format!("Range: bytes={}\r\n", ranges.join(", ")),
        };
        format!("{method} /{} HTTP/1.1\r\nHost: h\r\n{range}\r\n", name(self.file))
    }

    fn check(&self, content: &Content, response: &Response) {
        let case = self.text();
        let size = content.size;
        let length: u64 = response.field("Content-Length").unwrap().parse().unwrap();
        if self.head_only {
            assert_eq!((response.status, length), (200, size), "{case}");
            return;
        }
        assert_eq!(response.body.len() as u64, length, "{case}");
        let due = union(self.ranges.iter().map(|range| range.within(size)));
        let empty_end =
            size == 0 && self.ranges.iter().any(|range| matches!(range, Asked::Last(1..)));
        let small = due.iter().filter(|range| range.end - range.start < SMALL_BYTES);
        let are_too_many = small.count() > SMALL_RANGES_MAX;
        if self.ranges.is_empty() || empty_end || are_too_many {
            assert_eq!((response.status, length), (200, size), "{case}");
            content.assert_holds(0, &response.body, &case);
        } else if due.is_empty() {
            assert_eq!(response.status, 416, "{case}");
            assert_eq!(response.field("Content-Range"), Some(format!("bytes */{size}").as_str()));
        } else {
            assert_eq!(response.status, 206, "{case}");
            let parts = parts(response, size);
            for (start, bytes) in &parts {
                content.assert_holds(*start, bytes, &case);
            }
            let got = parts.iter().map(|(start, bytes)| *start..*start + bytes.len() as u64);
            assert_eq!(union(got), due, "{case}");
        }
    }
}

/// The same bytes, and small gaps between them, as ascending separate ranges.
fn union(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.filter(|range| range.start < range.end).collect();
    sorted.sort_by_key(|range| range.start);
    let mut union: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match union.last_mut() {
            Some(last) if range.start < last.end + GAP_BYTES => last.end = last.end.max(range.end),
            _ => union.push(range),
        }
    }
    union
}

/// The parts of a 206: where each begins in the file, and its bytes.
fn parts(response: &Response, size: u64) -> Vec<(u64, &[u8])> {
    let kind = response.field("Content-Type").unwrap();
    let Some(boundary) = kind.strip_prefix("multipart/byteranges; boundary=") else {
        let range = content_range(response.field("Content-Range").unwrap(), size);
        assert_eq!(range.end - range.start, response.body.len() as u64);
        return vec![(range.start, &response.body)];
    };
    assert_eq!(response.field("Content-Range"), None, "it belongs into the parts");
    let mut rest = response.body.as_slice();
    let mut parts = Vec::new();
    let mut delimiter = format!("--{boundary}\r\n");
    while let Some(part) = rest.strip_prefix(delimiter.as_bytes()) {
        let head_bytes = part.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let (head, body) = part.split_at(head_bytes);
        let head = Response::parse_head(&[b"HTTP/1.1 206\r\n", head].concat());
        assert_eq!(head.field("Content-Type"), Some("video/mp4"));
        let range = content_range(head.field("Content-Range").unwrap(), size);
        let (bytes, behind) = body.split_at((range.end - range.start) as usize);
        parts.push((range.start, bytes));
        rest = behind;
        delimiter = format!("\r\n--{boundary}\r\n");
    }
    assert_eq!(rest, format!("\r\n--{boundary}--\r\n").as_bytes());
    assert!(parts.len() > 1, "one part needs no multipart");
    parts
}

fn content_range(value: &str, size: u64) -> Range<u64> {
    let (range, of) = value.strip_prefix("bytes ").unwrap().split_once('/').unwrap();
    let (first, last) = range.split_once('-').unwrap();
    assert_eq!(of.parse::<u64>().unwrap(), size);
    first.parse().unwrap()..last.parse::<u64>().unwrap() + 1
}

/// Reads a response in random pieces, sometimes with pauses in which the server has to stop.
fn take_slowly(viewer: &mut Viewer, head_only: bool, random: &mut Random) -> Response {
    viewer.read_bytes_max = *random.pick(&[5, 1400, 70_000]);
    let mut response = viewer.head().unwrap();
    let mut left: usize = response.field("Content-Length").unwrap().parse().unwrap();
    if head_only {
        return response;
    }
    let bites: &[usize] = if left > 50_000 { &[4096, 16_389, 400_000] } else { &[3, 700, 60_000] };
    viewer.read_bytes_max = *random.pick(bites);
    if random.one_in(6) {
        // sleeps: a viewer that is slow at times, as drawn
        std::thread::sleep(Duration::from_millis(random.within(1..12)));
    }
    while left > 0 {
        let bite = random.within(1..200_000).min(left as u64) as usize;
        let (bytes, result) = viewer.body(bite);
        result.unwrap();
        left -= bytes.len();
        response.body.extend_from_slice(&bytes);
        if random.one_in(20) {
            std::thread::sleep(Duration::from_millis(random.within(1..4)));
        }
    }
    response
}

/// Several requests at once, sent in pieces; the responses must come in order.
fn pipeline(viewer: &mut Viewer, library: &Library, cases: &[Case], random: &mut Random) {
    for case in cases.iter().filter(|_| random.one_in(4)).map(|case| case.file) {
        library.cool(case);
    }
    let text: String = cases.iter().map(Case::text).collect();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let most = if random.one_in(3) { 20 } else { 2000 };
        let (now, later) = rest.split_at(rest.len().min(random.within(1..most) as usize));
        viewer.send(now).unwrap();
        rest = later;
    }
    for case in cases {
        let response = take_slowly(viewer, case.head_only, random);
        case.check(&library.files[case.file], &response);
    }
}

/// A viewer after another, each for a few requests, until all cases are done.
pub(crate) fn view(served: &Served, library: &Library, cases_left: &AtomicI64, mut random: Random) {
    while cases_left.load(Ordering::Relaxed) > 0 {
        let mut viewer = match random.within(0..4) {
            0 => served.narrow_viewer(random.within(10_000..60_000) as usize),
            _ => served.viewer(),
        };
        for _ in 0..random.within(1..6) {
            let count = if random.one_in(2) { 1 } else { random.within(2..6) };
            let cases: Vec<_> = (0..count).map(|_| Case::random(library, &mut random)).collect();
            pipeline(&mut viewer, library, &cases, &mut random);
            cases_left.fetch_sub(cases.len() as i64, Ordering::Relaxed);
        }
        viewer.finish();
        assert_eq!(viewer.rest().0, b"", "nothing was asked for");
    }
}

/// The events on the servers of one protocol.
#[derive(Debug, Default)]
struct Trials {
    cases: i64,
    windows_taken_in_part: u64,
    take_backs: u64,
    records_made_again: u64,
    read: [u64; 4],
    /// How many, and the microseconds that they took.
    disk_reads: [u64; 2],
    sent_by_the_kernel: u64,
    brought: u64,
}

impl Trials {
    fn add(&mut self, served: &Served, cases: i64) {
        self.cases += cases;
        self.windows_taken_in_part += served.number(|n| &n.windows_taken_in_part_total);
        self.take_backs += served.number(|n| &n.take_backs_total);
        self.records_made_again += served.number(|n| &n.records_made_again_total);
        self.sent_by_the_kernel += served.number(|n| &n.sendfile_bytes_total);
        self.brought += served.number(|n| &n.brought_bytes_total);
        self.read[0] += served.number(|n| &n.read_resident_bytes_total);
        self.read[1] += served.number(|n| &n.read_cached_bytes_total);
        self.read[2] += served.number(|n| &n.read_once_bytes_total);
        self.read[3] += served.number(|n| &n.read_direct_bytes_total);
        self.disk_reads[0] += served.number(|n| &n.disk_reads_total);
        self.disk_reads[1] += served.number(|n| &n.disk_read_seconds_total);
    }
}

fn serve_random_cases(protocol: Protocol, route: Route) -> Trials {
    let seed = Random::seed_of_run();
    println!("FULLBORE_SEED={seed}");
    let mut random = Random::new(seed);
    let library = Library::new(&mut random);
    let mut trials = Trials::default();
    for (disk, tuning) in POLICIES.into_iter().flat_map(|disk| (0..TUNINGS).map(move |t| (disk, t)))
    {
        println!("{protocol:?} {route:?} {disk:?} tuning {tuning}");
        let served = Served::start(library.dir.path(), protocol, |config| {
            config.disk = disk;
            config.route = route;
            tune(config, tuning);
        });
        let cases_left = AtomicI64::new(CASES_PER_SERVER);
        std::thread::scope(|scope| {
            for _ in 0..VIEWERS_AT_ONCE {
                let random = Random::new(random.number());
                scope.spawn(|| view(&served, &library, &cases_left, random));
            }
        });
        served.await_buffers_back();
        served.stop();
        trials.add(&served, CASES_PER_SERVER - cases_left.into_inner());
    }
    println!("{trials:?}");
    assert!(trials.cases >= (POLICIES.len() * TUNINGS) as i64 * CASES_PER_SERVER);
    assert!(trials.windows_taken_in_part > 100, "sends were hardly ever partial");
    assert!(trials.disk_reads.iter().all(|count| *count > 0), "{trials:?}");
    if route == Route::Kernel {
        let all = trials.sent_by_the_kernel > 0 && trials.brought > 0;
        assert!(all && trials.read[2..].iter().all(|bytes| *bytes > 0), "{trials:?}");
    } else {
        assert!(trials.read.iter().all(|bytes| *bytes > 0), "a way of reading was never taken");
        assert_eq!(trials.sent_by_the_kernel, 0);
    }
    trials
}

/// The kernel route with TLS, if this kernel has it.
fn serve_random_cases_in_the_kernel(protocol: Protocol) {
    if kernel_seals() {
        serve_random_cases(protocol, Route::Kernel);
    }
}

#[test]
fn every_byte_is_the_files_without_tls() {
    serve_random_cases(Protocol::Plain, Route::Userspace);
}

#[test]
fn every_byte_is_the_files_without_tls_when_the_kernel_sends() {
    serve_random_cases(Protocol::Plain, Route::Kernel);
}

#[test]
fn every_byte_is_the_files_with_tls12_when_the_kernel_seals() {
    serve_random_cases_in_the_kernel(Protocol::Tls12);
}

#[test]
fn every_byte_is_the_files_with_tls13_when_the_kernel_seals() {
    serve_random_cases_in_the_kernel(Protocol::Tls13);
}

#[test]
fn every_byte_is_the_files_with_tls12() {
    let trials = serve_random_cases(Protocol::Tls12, Route::Userspace);
    assert!(trials.take_backs > 100 && trials.records_made_again > 100, "hardly anything remade");
}

#[test]
fn every_byte_is_the_files_with_tls13() {
    let trials = serve_random_cases(Protocol::Tls13, Route::Userspace);
    assert!(trials.take_backs > 100 && trials.records_made_again > 100, "hardly anything remade");
}
