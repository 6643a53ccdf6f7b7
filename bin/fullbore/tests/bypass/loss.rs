//! A lossy network: lost bytes are read from disk again, and arrive unchanged.

use crate::support::far::Far;
use crate::support::served::{Room, Server};
use fullbore_tests::tool;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FILM_BYTES: usize = 8_000_003;

#[test]
fn every_byte_arrives_and_what_was_lost_was_read_again() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let Some(far) = Far::new(1500, "--delay 5ms --loss 2% --reorder 1% --duplicate 1% --seed 7")
    else {
        return;
    };
    let room = Room::new(FILM_BYTES);
    for (tls, url) in [("on", Server::url as fn(&Server) -> String), ("off", Server::url_v6)] {
        let server = Server::start(&far.server, &room, &["--tls", tls], "");
        let url = url(&server);
        let get =
            ["--silent", "--show-error", "--insecure", "--globoff", "--max-time", "600", &url];
        let got = far.client.succeed("curl", &get);
        assert!(got == room.film, "--tls {tls}: {} bytes", got.len());
        server.await_number("tcp_payload_bytes_total{kind=\"retransmitted\"}", 10_000);
        let reread = server.number("bypass_reread_bytes_total");
        assert!(reread >= 10_000, "--tls {tls}: {reread} bytes read again");
        server.end();
    }
}

#[test]
fn records_of_former_keys_are_made_again_after_a_change_of_keys() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let Some(far) = Far::new(1500, "--delay 5ms --loss 3% --seed 3") else { return };
    let room = Room::new(FILM_BYTES);
    let server = Server::start(&far.server, &room, &[], "[tls]\nkey_records_max = 64\n");
    let url = server.url();
    let get = ["--silent", "--show-error", "--insecure", "--tlsv1.3", "--max-time", "600", &url];
    assert!(far.client.succeed("curl", &get) == room.film);
    server.await_number("key_updates_sent_total", 7);
    server.end();
}

#[test]
fn kept_copies_serve_without_the_disk() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let Some(far) = Far::new(1500, "--delay 5ms --loss 2% --seed 7") else { return };
    let room = Room::new(FILM_BYTES);
    let server = Server::start(&far.server, &room, &["--off", "reread"], "");
    let url = server.url();
    let get = ["--silent", "--show-error", "--insecure", "--max-time", "600", &url];
    assert!(far.client.succeed("curl", &get) == room.film);
    server.await_number("tcp_payload_bytes_total{kind=\"retransmitted\"}", 10_000);
    assert_eq!(server.number("bypass_reread_bytes_total"), 0, "{}", server.metrics());
    server.await_number("bypass_copied_bytes_total{to=\"kept\"}", FILM_BYTES as u64);
    server.end();
}

/// The film is overwritten through a mapping made before. No time of the file reveals that, so only the tags can.
#[test]
fn a_film_that_changes_under_a_retransmission_ends_the_connection() {
    if !tool::are_here(&[("curl", "curl")]) || !tool::are_here(&[("python3", "python3")]) {
        return;
    }
    let Some(far) = Far::new(1500, "--delay 5ms --rate 100Mbit") else { return };
    let room = Room::new(40_000_000);
    let writer = MappedWriter::start(&room);
    // From memory: a direct read would first write out the dirty pages, and then the times would reveal the change.
    let server = Server::start(&far.server, &room, &["--disk", "cached"], "");
    let got = room.path("got");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--insecure", "--max-time", "60", "--output"])
        .arg(&got)
        .arg(server.url());
    curl.stdin(Stdio::null()).stderr(Stdio::null());
    let mut curl = far.client.inside(move || curl.spawn()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while far.carried_bytes() < 2_000_000 {
        assert!(Instant::now() < deadline, "curl gets nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Data in flight is lost from here on. The server must not see a half-changed film.
    far.forward(false);
    // sleeps: what is in flight has to be lost; if it is not yet, the film's change is seen all the same
    std::thread::sleep(Duration::from_millis(100));
    server.signal(Signal::STOP);
    writer.overwrite();
    far.forward(true);
    server.signal(Signal::CONT);
    let status = curl.wait().unwrap();
    assert!(!status.success(), "a film that changed was served as if nothing had been");
    server.await_number("connections_ended_total{reason=\"changed_under_us\"}", 1);
    let got = std::fs::read(&got).unwrap();
    let same = got.iter().zip(&room.film).take_while(|(got, film)| got == film).count();
    let other = got[same..].iter().zip(&room.film[same..]).all(|(got, film)| *got == !*film);
    assert!(same >= 500_000, "only {same} bytes are those of the first film");
    assert!(other, "after the change there are bytes of neither film");
    server.end();
}

/// A program that has the film mapped, with every page dirty.
struct MappedWriter(Child);

impl MappedWriter {
    fn start(room: &Room) -> Self {
        let program = "import mmap, sys\n\
            file = open(sys.argv[1], 'r+b')\n\
            film = mmap.mmap(file.fileno(), 0)\n\
            for at in range(0, len(film), 4096): film[at] = film[at]\n\
            print('mapped', flush=True)\n\
            sys.stdin.readline()\n\
            film[:] = film[:].translate(bytes(255 - byte for byte in range(256)))\n\
            print('written', flush=True)\n\
            sys.stdin.readline()\n";
        let mut command = Command::new("python3");
        command.args(["-c", program]).arg(room.path("library/film.mp4"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut writer = Self(child);
        writer.await_word("mapped\n");
        writer
    }

    /// Changes every byte.
    fn overwrite(mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.await_word("written\n");
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }

    fn await_word(&mut self, word: &str) {
        let mut said = vec![0; word.len()];
        self.0.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(said, word.as_bytes());
    }
}
