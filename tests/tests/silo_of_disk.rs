//! Silos by disk, with the real program and its sandbox: a connection moves to the silo of the disk that has its film.
//!
//! The operator's map divides a machine with one NUMA node in two silos. The disks are the library's own filesystem and
//! one in memory, mounted in it.

use fullbore_tests::cpus::{self, cpu};
use fullbore_tests::tls::{self, Offer};
use fullbore_tests::{Launch, Plain, Server, file, tool};
use rustls::StreamOwned;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{TempDir, tempdir};

const FILM_BYTES: usize = 2_000_000;

/// Connections to each server: few enough for a second, and so many that each silo has to send some to the other.
const CONNECTIONS: usize = 40;

/// A library with a film on each of two disks.
struct Library {
    folder: TempDir,
    films: [Vec<u8>; 2],
}

impl Library {
    /// None if there are too few CPUs, or if nothing can be mounted.
    fn new() -> Option<Self> {
        if !cpus::are_two_here() {
            return None;
        }
        let folder = tempdir().unwrap();
        let disks = disks(folder.path());
        disks.iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&disks[1]).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            tool::skip("a second disk takes root, and a mount program");
            return None;
        }
        let films = disks.map(|disk| file(&disk, "film.mp4", FILM_BYTES));
        Some(Self { folder, films })
    }

    fn serve(&self, words: &str) -> Server {
        let plan = |(nth, folder): (usize, PathBuf)| {
            format!("[[silos]]\ncpus = \"{}\"\nfolders = [{folder:?}]\n", cpu(nth))
        };
        let map: String = disks(self.folder.path()).into_iter().enumerate().map(plan).collect();
        let words = format!("--silo disk --workers 2 {words}");
        Launch::of(self.folder.path()).config(&map).arguments(&words).start()
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&disks(self.folder.path())[1]).output();
    }
}

fn disks(library: &Path) -> [PathBuf; 2] {
    ["d0", "d1"].map(|name| library.join(name))
}

/// A number of each worker.
fn of_workers(server: &Server, name: &str) -> Vec<u64> {
    server.wait_for_news();
    let (_, status) = server.admin_page("/status.json");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let workers = status["workers"].as_array().unwrap().iter();
    workers.map(|worker| worker[name].as_u64().unwrap()).collect()
}

/// Every film was sent by the worker of its disk, some of them after a move, and the server says so.
fn assert_by_disk(server: Server) {
    let sent = of_workers(&server, "response_sent_bytes_total");
    let film_bytes = (CONNECTIONS * FILM_BYTES) as u64;
    // And a head for each film.
    let is_whole = |sent: &u64| (film_bytes..film_bytes + 1000 * CONNECTIONS as u64).contains(sent);
    assert!(sent.iter().all(is_whole), "{sent:?}");
    let moved = of_workers(&server, "connections_moved_total");
    assert!(moved.iter().all(|moved| *moved > 0), "{moved:?}");
    let said = server.said();
    assert!(said.contains("silos     disk"), "{said}");
    server.finish();
}

#[test]
fn films_come_from_the_silo_of_their_disk_without_tls() {
    let Some(library) = Library::new() else { return };
    let server = library.serve("--tls off --route userspace");
    for at in 0..2 * CONNECTIONS {
        let response = Plain::connect(server.address).fetch(&format!("/d{}/film.mp4", at % 2));
        assert!(response.status == 200 && response.body == library.films[at % 2]);
    }
    assert_by_disk(server);
}

#[test]
fn films_come_from_the_silo_of_their_disk_over_tls() {
    let Some(library) = Library::new() else { return };
    for offer in [Offer::tls12(), Offer::tls13()] {
        let (server, config) = (library.serve(""), offer.config());
        for at in 0..2 * CONNECTIONS {
            let stream = TcpStream::connect(server.address).unwrap();
            let mut stream = StreamOwned::new(tls::client(&config, "localhost"), stream);
            let ask = format!(
                "GET /d{}/film.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                at % 2
            );
            stream.write_all(ask.as_bytes()).unwrap();
            let mut response = Vec::new();
            stream.read_to_end(&mut response).unwrap();
            assert!(response.starts_with(b"HTTP/1.1 200"));
            assert!(response.ends_with(&library.films[at % 2]));
        }
        assert_by_disk(server);
    }
}
