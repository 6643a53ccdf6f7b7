//! `fullbore serve --route bypass` in a namespace, with a TAP of its own.

use fullbore_tests::{Launch, Namespace};
use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// The server's addresses.
pub(crate) const V4: &str = "192.0.2.2";
pub(crate) const V6: &str = "2001:db8:2::2";
pub(crate) const PORT: u16 = 8443;

/// A library, and a folder for everything else.
pub(crate) struct Room {
    folder: TempDir,
    /// The bytes of `film.mp4`.
    pub(crate) film: Vec<u8>,
    /// The device's part of the servers' configurations.
    pub(crate) device: String,
}

impl Room {
    /// With a film of this size.
    pub(crate) fn new(film_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let film = fullbore_tests::bytes(film_bytes, film_bytes as u64);
        fs::create_dir(folder.path().join("library")).unwrap();
        fs::write(folder.path().join("library/film.mp4"), &film).unwrap();
        Self { folder, film, device: tap(1500) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration that every server here has, with `more` in it.
    pub(crate) fn config(&self, more: &str) -> String {
        format!("workers = 1\n{more}\n[bypass]\n{}", self.device)
    }
}

/// A TAP with packets of this size, and the kernel's addresses at its other end.
pub(crate) fn tap(mtu_bytes: u32) -> String {
    format!(
        "addresses = [\"{V4}\", \"{V6}\"]\nmtu_bytes = {mtu_bytes}\n\
         kernel_addresses = [\"192.0.2.1/24\", \"2001:db8:2::1/64\"]\n"
    )
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    server: fullbore_tests::Server,
    scheme: &'static str,
}

impl Deref for Server {
    type Target = fullbore_tests::Server;

    fn deref(&self) -> &fullbore_tests::Server {
        &self.server
    }
}

impl Server {
    /// Starts one in `space`; `arguments` go after the common ones, and `config` at the head of its configuration.
    pub(crate) fn start(
        space: &Arc<Namespace>,
        room: &Room,
        arguments: &[&str],
        config: &str,
    ) -> Self {
        let launch = Launch::of(&room.path("library")).arguments("--route bypass");
        let launch = launch.listen_as_configured().state(&room.path("state"));
        let launch = launch.config(&room.config(config)).namespace(space);
        let server = arguments.iter().fold(launch, Launch::argument).start();
        let scheme = if arguments.contains(&"off") { "http" } else { "https" };
        Self { server, scheme }
    }

    /// The film's URL, over IPv4.
    pub(crate) fn url(&self) -> String {
        self.url_at(V4)
    }

    /// The same over IPv6.
    pub(crate) fn url_v6(&self) -> String {
        self.url_at(&format!("[{V6}]"))
    }

    /// The same at another host.
    pub(crate) fn url_at(&self, host: &str) -> String {
        format!("{}://{host}:{PORT}/film.mp4", self.scheme)
    }

    /// The text of /metrics.
    pub(crate) fn metrics(&self) -> String {
        self.server.admin_page("/metrics").1
    }

    /// A number of /metrics, by its name and labels after `fullbore_`; 0 if it is missing. Some of them are up to a
    /// second old.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.server.counter(name)
    }

    /// Waits until a number of /metrics has come to at least `least`.
    #[track_caller]
    pub(crate) fn await_number(&self, name: &str, least: u64) {
        self.server.wait_for_counter(name, least);
    }

    /// Kills it without a chance to tidy up.
    pub(crate) fn kill(self) {
        self.server.kill();
    }

    /// Shuts it down in order, and fails if it does not end well.
    pub(crate) fn end(self) {
        self.server.finish();
    }

    /// After a shutdown was requested: waits until it has ended, and fails if it does not end well.
    #[track_caller]
    pub(crate) fn await_end(mut self) {
        let status = self.server.wait();
        assert!(status.success(), "{status}: {}", self.said());
    }
}
