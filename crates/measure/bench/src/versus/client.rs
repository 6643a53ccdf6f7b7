//! The clients of a comparison: our own load, or a program that others wrote.
//!
//! A client's speed decides how often the server has to wake up, so each figure belongs to a server and a client. Our own
//! load costs little and reports the most. curl and wrk read smaller pieces and are slower, like most clients; our own load can do that too.

use super::peer::said_version;
use super::workload::Workload;
use crate::UnknownName;
use std::fmt::Display;

/// The most transfers that curl runs at once (`--parallel-max`, curl(1)). If asked for more, it falls back to 50.
const CURL_CONNECTIONS_MAX: usize = 300;

/// How often curl fetches the whole library: more than fits into any turn.
const CURL_ROUNDS: u32 = 1_000_000;

/// Makes wrk request some paths in turn, and print its error counts and how often it asked.
const WRK_SCRIPT: &str = include_str!("../../peers/wrk.lua");

/// TLS settings for wrk, which has no options for them. OpenSSL reads this file through `OPENSSL_CONF`.
const WRK_OPENSSL: &str = include_str!("../../peers/wrk-openssl.cnf");

/// What a player takes from its socket at once.
const SMALL_READ_BYTES: u64 = 64 << 10;

/// A client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Client {
    /// This program's own load generator.
    #[default]
    Load,
    /// The same in reads of 64 KiB.
    SmallReads,
    /// One curl process with several transfers at once.
    Curl,
    /// wrk, with a thread for each core.
    Wrk,
}

/// The address that such a program fetches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch<'a> {
    /// `https://127.0.0.1:443`, say.
    pub(super) origin: &'a str,
    /// Names of the library's files.
    pub(super) files: &'a [String],
    pub(super) connections: usize,
    pub(super) threads: usize,
}

impl Client {
    /// Every client with its name.
    const ALL: [(Client, &'static str); 4] = [
        (Self::Load, "load"),
        (Self::SmallReads, "small-reads"),
        (Self::Curl, "curl"),
        (Self::Wrk, "wrk"),
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(client, _)| *client == self);
        known.map_or("", |(_, name)| name)
    }

    /// Checks that the client can do this work.
    ///
    /// # Errors
    /// The reason, with what to do.
    pub(super) fn check(self, workload: Workload, connections: usize) -> Result<(), String> {
        use Workload::{HttpCold, HttpWarm, TlsCold, TlsWarm};
        let name = self.name();
        if workload == Workload::Swarm && self == Self::SmallReads {
            return Err(format!(
                "viewers of --workload swarm are players of their own: leave --client {name} out"
            ));
        }
        let is_whole_files = matches!(workload, TlsWarm | TlsCold | HttpWarm | HttpCold);
        if !self.is_own() && !is_whole_files {
            return Err(format!(
                "{name} only fetches whole files: --client {name} goes with --workload tls-warm, tls-cold, http-warm or http-cold, \
                 and {} needs --client load",
                workload.name()
            ));
        }
        if self == Self::Curl && connections > CURL_CONNECTIONS_MAX {
            return Err(format!(
                "curl runs at most {CURL_CONNECTIONS_MAX} transfers at once: use fewer --connections"
            ));
        }
        Ok(())
    }

    /// Whether it is this program's own load generator, which reports each response, and when it began.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Self::Load | Self::SmallReads)
    }

    /// The most bytes that it takes from a socket at once, if it is our own load and does not choose by itself.
    pub(super) fn read_bytes_max(self) -> Option<u64> {
        (self == Self::SmallReads).then_some(SMALL_READ_BYTES)
    }

    /// Its version, if it is not our own load.
    pub(super) fn version(self) -> Option<String> {
        match self {
            Self::Load | Self::SmallReads => None,
            Self::Curl => said_version("curl", "--version"),
            Self::Wrk => said_version("wrk", "-v"),
        }
    }

    /// The number of threads that it uses on `cpus` cores.
    pub(super) fn threads(self, cpus: usize, connections: usize) -> usize {
        match self {
            Self::Curl => 1,
            _ => cpus.min(connections),
        }
    }

    /// Its command line; empty for our own load. It runs until it gets SIGINT.
    pub(super) fn command(self, fetch: &Fetch<'_>) -> Vec<String> {
        match self {
            Self::Load | Self::SmallReads => Vec::new(),
            Self::Curl => curl(fetch),
            Self::Wrk => wrk(fetch),
        }
    }

    /// Files that it reads: the environment variable with the file's path (none if the path is in the command line), its
    /// name and its contents.
    pub(super) fn files(
        self,
        fetch: &Fetch<'_>,
    ) -> Vec<(Option<&'static str>, &'static str, String)> {
        match self {
            Self::Load | Self::SmallReads | Self::Curl => Vec::new(),
            Self::Wrk => vec![
                (Some("OPENSSL_CONF"), "wrk-openssl.cnf", WRK_OPENSSL.to_owned()),
                (None, "wrk.lua", wrk_script(fetch.files.iter().map(|file| format!("/{file}")))),
            ],
        }
    }

    /// Looks for failed transfers in its output.
    ///
    /// # Errors
    /// The first failure, in the client's own words.
    pub(super) fn judge(self, said: &str, file_bytes: u64) -> Result<(), String> {
        match self {
            Self::Load | Self::SmallReads => Ok(()),
            Self::Curl => judge_curl(said, file_bytes),
            Self::Wrk => judge_wrk(said),
        }
    }
}

impl std::str::FromStr for Client {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        let unknown = || UnknownName::new("client", name, Self::ALL.map(|(_, name)| name));
        known.map(|(client, _)| *client).ok_or_else(unknown)
    }
}

/// The range counts rounds over the files. curl removes `/1/..` from a path before it sends the request (RFC 3986 section
/// 5.2.4), so each round is of the same files. A range takes no memory, unlike a list of as many URLs.
fn curl(fetch: &Fetch<'_>) -> Vec<String> {
    let Fetch { origin, files, connections, .. } = fetch;
    let options = "--silent --show-error --no-progress-meter --insecure --http1.1 --tlsv1.3 \
                   --tls13-ciphers TLS_AES_128_GCM_SHA256 --curves X25519 --fail --fail-early --parallel --parallel-immediate \
                   --speed-limit 1 --speed-time 30";
    let mut words = vec!["curl".to_owned(), "--disable".to_owned()];
    words.extend(options.split_whitespace().map(str::to_owned));
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--parallel-max", connections.to_string());
    option("--output", "/dev/null".to_owned());
    option("--write-out", "%{stderr}transfer %{http_code} %{size_download}\\n".to_owned());
    let names = files.join(",");
    words.push(format!("{origin}/[1-{CURL_ROUNDS}]/../{{{names}}}"));
    words
}

/// A failed transfer ends curl (`--fail-early`), and its first message has the reason. It prints a line for each transfer.
fn judge_curl(said: &str, file_bytes: u64) -> Result<(), String> {
    if let Some(error) = said.lines().find(|line| line.starts_with("curl: ")) {
        return Err(error.to_owned());
    }
    let whole = format!("transfer 200 {file_bytes}");
    // SIGINT may cut the last line short.
    let lines = said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    match lines.filter(|line| line.starts_with("transfer ")).find(|line| *line != whole) {
        Some(line) => Err(format!("curl: {line:?} where {whole:?} is right (status, bytes)")),
        None => Ok(()),
    }
}

/// wrk has a counter for each microsecond that a response may take, so a time-out of hours would take all memory.
fn wrk(fetch: &Fetch<'_>) -> Vec<String> {
    let Fetch { origin, connections, threads, .. } = fetch;
    let words = format!(
        "wrk --threads {threads} --connections {connections} --duration 1h --timeout 60s --script @wrk.lua {origin}"
    );
    words.split(' ').map(str::to_owned).collect()
}

/// The script for paths, each with a `/` in front.
pub(crate) fn wrk_script(paths: impl Iterator<Item = impl Display>) -> String {
    let paths: Vec<_> = paths.map(|path| format!("\"{path}\"")).collect();
    WRK_SCRIPT.replace("@PATHS@", &paths.join(", "))
}

/// The script prints `failures`, then each kind with its count.
pub(crate) fn judge_wrk(said: &str) -> Result<(), String> {
    let line = said.lines().find_map(|line| line.strip_prefix("failures "));
    let line = line.ok_or("wrk did not come to its end")?;
    let mut words = line.split_whitespace();
    let mut failures = Vec::new();
    while let (Some(kind), Some(count)) = (words.next(), words.next()) {
        if count != "0" {
            failures.push(format!("{count} x {kind}"));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("wrk: {}", failures.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_one_name_and_only_ours_does_more_than_whole_files() {
        for (client, name) in Client::ALL {
            assert_eq!(name.parse::<Client>().unwrap(), client);
            assert_eq!(client.name(), name);
            assert_eq!(client.check(Workload::HttpCold, 8), Ok(()));
            let viewers = client.check(Workload::Viewers, 8);
            assert_eq!(viewers.is_ok(), client.is_own(), "{viewers:?}");
            let swarm = client.check(Workload::Swarm, 8);
            assert_eq!(swarm.is_ok(), client == Client::Load, "{swarm:?}");
        }
        assert!("fetch".parse::<Client>().unwrap_err().to_string().contains("curl"));
        assert!(Client::Curl.check(Workload::TlsWarm, 301).unwrap_err().contains("--connections"));
        assert_eq!(Client::Wrk.check(Workload::TlsWarm, 301), Ok(()));
    }

    #[test]
    fn what_fails_is_said_in_curl_s_words() {
        let judge = |said| Client::Curl.judge(said, 100);
        assert_eq!(judge("transfer 200 100\ntransfer 200 100\n"), Ok(()));
        assert_eq!(judge(""), Ok(()), "no transfer has ended yet");
        assert_eq!(judge("transfer 200 100\ntransfer 20"), Ok(()), "interrupted while it wrote");
        let refused = judge("curl: (7) Failed to connect\ntransfer 000 0\n").unwrap_err();
        assert_eq!(refused, "curl: (7) Failed to connect");
        assert!(judge("transfer 200 99\n").unwrap_err().contains("transfer 200 99"));
        assert!(judge("transfer 206 100\n").unwrap_err().contains("transfer 206 100"));
    }

    #[test]
    fn what_fails_is_counted_by_wrk() {
        let judge = |said| Client::Wrk.judge(said, 100);
        assert_eq!(judge("Running\nfailures connect 0 read 0 status 0\n"), Ok(()));
        let failed = judge("failures connect 0 read 12 write 0 status 3\n").unwrap_err();
        assert_eq!(failed, "wrk: 12 x read, 3 x status");
        assert!(judge("unable to connect to 127.0.0.1:1 Connection refused\n").is_err());
    }

    #[test]
    fn wrk_requests_every_file() {
        let script = wrk_script(["/a.mp4", "/b.mp4"].iter());
        assert!(script.contains(r#"{ "/a.mp4", "/b.mp4" }"#), "{script}");
    }
}
