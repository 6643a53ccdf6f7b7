//! An edge in front of a bucket, on a real S3 server that checks signatures.

use crate::s3_server::S3Server;
use crate::{IMPATIENT, MIB, launch_at};
use fullbore_tests::{FILM, Launch, Plain, Server, bytes, eventually, make_title, program};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use tempfile::{TempDir, tempdir};
use tokio::runtime::Runtime;

/// A server of the bucket `films`, and the folder of its objects.
pub(crate) struct Bucket {
    folder: TempDir,
    server: S3Server,
    /// The server lives in it.
    _runtime: Runtime,
}

impl Bucket {
    pub(crate) fn start() -> Self {
        let folder = tempdir().unwrap();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(S3Server::start(folder.path()));
        Self { folder, server, _runtime: runtime }
    }

    pub(crate) fn put(&self, key: &str, length: usize, seed: u64) -> Vec<u8> {
        let (place, bytes) = (self.folder.path().join("films/hd").join(key), bytes(length, seed));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, &bytes).unwrap();
        bytes
    }

    pub(crate) fn launch(&self, cache: &Path) -> Launch {
        self.launch_of("films/hd", cache)
    }

    fn launch_of(&self, place: &str, cache: &Path) -> Launch {
        let endpoint = self.variable("AWS_ENDPOINT_URL");
        let launch = launch_at(&format!("s3://{place}?endpoint={endpoint}"), cache);
        // If the film is asked about again while the bucket is deaf.
        launch.config(IMPATIENT).arguments("--tls off")
    }

    pub(crate) fn variable(&self, name: &str) -> String {
        self.server.variable(name).unwrap()
    }

    fn edge(&self, cache: &Path) -> Server {
        self.start_as_owner(self.launch(cache))
    }

    fn start_as_owner(&self, launch: Launch) -> Server {
        let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        let with = |launch: Launch, name: &&str| launch.variable(name, self.variable(name));
        names.iter().fold(launch, with).start()
    }
}

/// The processes below `parent`, with the words that started them.
fn below(parent: u32) -> Vec<(u32, String)> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.unwrap_or_default();
    let mut found = Vec::new();
    for child in children.split_whitespace().map(|number| number.parse().unwrap()) {
        let words = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        found.push((child, String::from_utf8_lossy(&words).replace('\0', " ")));
        found.extend(below(child));
    }
    found
}

impl Bucket {
    /// Whether the secret is anywhere in the writable memory of a process.
    pub(crate) fn knows(&self, process: u32, secret: &str) -> bool {
        knows(process, secret.as_bytes())
    }
}

/// Whether `wanted` is anywhere in the writable memory of a process, including its arguments and environment.
fn knows(process: u32, wanted: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{process}/mem")).unwrap();
    let mut areas = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        // Larger buffers hold viewers' bytes.
        let length = number(to) - number(from);
        (rest.starts_with("rw") && length <= 16 << 20).then(|| (number(from), length as usize))
    });
    areas.any(|(from, length)| {
        let mut bytes = vec![0; length];
        // Some areas belong to devices.
        let is_read = memory.read_exact_at(&mut bytes, from).is_ok();
        is_read && bytes.windows(wanted.len()).any(|window| window == wanted)
    })
}

#[test]
fn a_bucket_is_an_origin_and_only_the_helper_knows_the_credentials() {
    let (bucket, cache) = (Bucket::start(), tempdir().unwrap());
    let film = bucket.put("a b/film.mp4", 3 * MIB + 7, 1);
    let server = bucket.edge(cache.path());
    let fetch = |path: &str| Plain::connect(server.address).fetch(path);
    assert!(fetch("/a%20b/film.mp4").body == film, "cold");
    bucket.server.be_deaf(true);
    assert!(fetch("/a%20b/film.mp4").body == film, "warm, without the origin");
    bucket.server.be_deaf(false);
    assert_eq!(fetch("/a%20b/none.mp4").status, 404);
    assert_eq!(fetch("/../../films/x").status, 404);

    let secret = bucket.variable("AWS_SECRET_ACCESS_KEY");
    assert!(!knows(server.process_id(), secret.as_bytes()), "the server knows the secret");
    let all = below(server.process_id());
    assert!(!all.is_empty(), "no helper");
    assert!(all.iter().any(|(helper, _)| knows(*helper, secret.as_bytes())), "{all:?}");
    assert!(all.iter().all(|(_, words)| !words.contains(&secret)), "{all:?}");
    let said = server.said();
    assert!(!said.contains(&secret) && !said.contains("X-Amz"), "{said}");
}

/// Credentials once came on standard input, where they were read as the configuration, and the error quoted a line of them.
#[test]
fn a_configuration_on_standard_input_is_read_as_such_beside_credentials() {
    let (bucket, cache, folder) = (Bucket::start(), tempdir().unwrap(), tempdir().unwrap());
    let film = bucket.put("film.mp4", 1000, 1);
    let endpoint = bucket.variable("AWS_ENDPOINT_URL");
    let config = folder.path().join("edge.toml");
    let origin = format!("[edge]\norigin = \"s3://films/hd?endpoint={endpoint}\"\n");
    fs::write(&config, format!("{origin}cache = {:?}\n", cache.path())).unwrap();
    let script = folder.path().join("script");
    let text = format!("exec \"$@\" --config /dev/stdin <{}\n", config.display());
    fs::write(&script, text).unwrap();
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let launch = Launch::bare().under(&format!("sh {}", script.display())).arguments("--tls off");
    let launch =
        names.iter().fold(launch, |launch, name| launch.variable(name, bucket.variable(name)));
    let server = launch.start();
    assert!(Plain::connect(server.address).fetch("/film.mp4").body == film);
}

#[test]
fn a_password_or_a_cookie_makes_no_difference_because_a_bucket_gets_neither() {
    let (bucket, cache) = (Bucket::start(), tempdir().unwrap());
    let film = bucket.put("film.mp4", 3 * MIB, 1);
    let server = bucket.edge(cache.path());
    let personal = "Authorization: Basic YQ==\r\nCookie: id=1\r\n";
    let fetch = |lines: &str| Plain::connect(server.address).fetch_with("/film.mp4", lines);
    assert!(fetch(personal).body == film, "cold");
    bucket.server.be_deaf(true);
    let part = fetch(&format!("{personal}Range: bytes=2000000-2000009\r\n"));
    assert_eq!((part.status, &part.body[..]), (206, &film[2_000_000..2_000_010]), "from the cache");
    assert!(fetch("").body == film, "for others as well");
    assert_eq!(server.counter("edge_lookups_total{result=\"passed\"}"), 0);
}

#[test]
fn a_small_range_of_a_large_object_costs_the_bucket_its_blocks() {
    let (bucket, cache) = (Bucket::start(), tempdir().unwrap());
    let film = bucket.put("film.mp4", 40 * MIB + 7, 1);
    let other = bucket.put("other.mp4", 40 * MIB + 7, 2);
    let server = bucket.edge(cache.path());
    let fetch = |path: &str, range: &str| {
        let range = format!("Range: bytes={range}\r\n");
        let part = Plain::connect(server.address).fetch_with(path, &range);
        assert_eq!(part.status, 206, "{}", part.head);
        server.wait_for_news();
        (part.body, server.sum("edge_fetched_bytes_total"))
    };
    let (first, mib) = (30 * MIB + 5, MIB as u64);
    let range = format!("{first}-{}", first + 99);
    assert_eq!(fetch("/film.mp4", &range), (film[first..first + 100].to_vec(), mib));
    // The first block says how long it is, and the last one has seven bytes.
    assert_eq!(fetch("/other.mp4", "-5"), (other[40 * MIB + 2..].to_vec(), 2 * mib + 7));
}

#[test]
fn what_publish_has_put_there_plays() {
    let (bucket, library, cache) = (Bucket::start(), tempdir().unwrap(), tempdir().unwrap());
    let film = bytes(3 * MIB, 1);
    fs::create_dir_all(library.path().join("a b")).unwrap();
    let version = make_title(&library.path().join("a b"), &film).unwrap();
    let mut publish = Command::new(program());
    publish.args(["publish", "a b", "--to", "s3://films/hd", "--library"]).arg(library.path());
    for name in ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        publish.env(name, bucket.variable(name));
    }
    let ran = publish.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(said.starts_with("published: a b at s3://films/hd (3.1 MB in 4 files)"), "{said}");
    let server = bucket.edge(cache.path());
    let fetch = |path: &str| Plain::connect(server.address).fetch(path);
    let master = String::from_utf8(fetch("/a%20b/master.m3u8").body).unwrap();
    assert!(master.contains(&format!("{version}/{FILM}")), "{master}");
    assert!(fetch(&format!("/a%20b/{version}/{FILM}")).body == film);
    assert_eq!(fetch("/.versions/x/title.json").status, 404, "hidden names are not served");
}

#[test]
fn an_object_that_is_replaced_is_served_anew_and_never_mixed() {
    let (bucket, cache) = (Bucket::start(), tempdir().unwrap());
    let first = bucket.put("film.mp4", 2 * MIB, 1);
    let server = bucket.edge(cache.path());
    let mut viewer = Plain::connect(server.address);
    let part = viewer.fetch_with("/film.mp4", "Range: bytes=0-9\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &first[..10]));
    let second = bucket.put("film.mp4", 2 * MIB + 1, 2);
    // The edge requests the second block under the first version's tag, which no longer exists.
    let mut viewer = Plain::connect(server.address);
    let part = viewer.fetch_with("/film.mp4", "Range: bytes=1048576-1048585\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &second[MIB..MIB + 10]));
    assert!(Plain::connect(server.address).fetch("/film.mp4").body == second);
}

#[test]
fn a_bucket_that_is_not_there_is_told_at_the_start_and_one_that_is_empty_is_not() {
    let (bucket, cache) = (Bucket::start(), tempdir().unwrap());
    let launch = bucket.launch_of("nobucket/x", &cache.path().join("one"));
    let server = bucket.start_as_owner(launch);
    let line = server.stderr.wait_for("cannot be used");
    assert!(line.contains("s3://nobucket/x") && line.contains("make the bucket"), "{line}");
    let server = bucket.edge(&cache.path().join("other"));
    assert_eq!(Plain::connect(server.address).fetch("/none.mp4").status, 404);
    assert!(!server.said().contains("cannot be used"), "{}", server.said());
}

#[test]
fn wrong_credentials_are_the_operators_business() {
    let (bucket, cache) = (Bucket::start(), tempdir().unwrap());
    bucket.put("film.mp4", 1000, 1);
    let file = cache.path().join("credentials");
    fs::write(
        &file,
        "[edge]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret-of-nobody\n",
    )
    .unwrap();
    let folder = cache.path().join("cache");
    let server = bucket
        .launch(&folder)
        .variable("AWS_SHARED_CREDENTIALS_FILE", &file)
        .variable("AWS_PROFILE", "edge")
        .start();
    assert_eq!(Plain::connect(server.address).fetch("/film.mp4").status, 502);
    server.wait_for_counter("edge_failures_total{reason=\"origin_wrong\"}", 1);
    eventually("a line that says what to do", || {
        server.said().contains("correct AWS_ACCESS_KEY_ID").then_some(())
    });
    assert!(!server.said().contains("secret-of-nobody"), "{}", server.said());
}
