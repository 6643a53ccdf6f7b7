//! Limits on what many slow or talkative viewers can make the server hold, and keep from others: the real program, measured from outside.

use fullbore_tests::{Launch, Plain, Server, SlowAttack, eventually, file, free_port, may_open};
use serde_json::Value;
use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use tempfile::tempdir;

const VIEWERS: usize = 1000;

/// The maximum number of titles in the list.
const TITLES: usize = 1000;

fn status(server: &Server) -> Value {
    serde_json::from_str(&server.admin_page("/status.json").1).unwrap()
}

fn rss_bytes(server: &Server) -> u64 {
    status(server)["rss_bytes"].as_u64().unwrap()
}

/// Each viewer used to hold a copy of the list: 1,000 of them took 633 MB.
#[test]
fn a_thousand_slow_readers_of_the_list_of_titles_cost_their_connections() {
    if !may_open(VIEWERS) {
        return;
    }
    let library = tempdir().unwrap();
    for index in 0..TITLES {
        let name = format!("{}-{index}.mp4", "\u{fc}".repeat(60));
        fs::write(library.path().join(name), "").unwrap();
    }
    let server = Server::start(library.path(), "--tls off --workers 1");
    let list_bytes = eventually("the list of titles", || {
        let list = Plain::connect(server.address).fetch("/-/titles.json");
        let is_complete = String::from_utf8_lossy(&list.body).contains("\"is_complete\":true");
        is_complete.then_some(list.body.len() as u64)
    });
    assert!(list_bytes > 500_000, "the list is short: {list_bytes} bytes");
    let before = rss_bytes(&server);
    let viewers: Vec<_> = (0..VIEWERS)
        .map(|_| {
            let mut viewer = TcpStream::connect(server.address).unwrap();
            // Enough that the kernel's buffers can't hold all of the answers.
            let request = "GET /-/titles.json HTTP/1.1\r\nHost: h\r\n\r\n".repeat(20);
            viewer.write_all(request.as_bytes()).unwrap();
            viewer
        })
        .collect();
    eventually("all to be served", || {
        (status(&server)["total"]["sending"] == VIEWERS).then_some(())
    });
    let grown = rss_bytes(&server).saturating_sub(before);
    println!("{VIEWERS} viewers of {list_bytes} bytes: {grown} bytes more");
    assert!(grown < VIEWERS as u64 * list_bytes / 10, "{grown} bytes for {VIEWERS} viewers");
    // The worker publishes what it holds once a second.
    let held = eventually("the list to be counted", || {
        status(&server)["total"]["response_memory_bytes"].as_u64().filter(|held| *held > 0)
    });
    assert!(held <= 2 * list_bytes, "{held} bytes are held of a list of {list_bytes}");
    drop(viewers);
}

/// A line of the access log used to be as long as a viewer liked, and 16,384 lines could wait: 863 MB.
#[test]
fn a_log_that_nobody_reads_costs_little_and_what_is_lost_is_counted() {
    const REQUESTS: u64 = 6000;
    let library = tempdir().unwrap();
    fs::write(library.path().join("note.txt"), "x").unwrap();
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("log");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    // Open for reading, but never read: the writer waits as for a disk that does not answer.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let _reader = OpenOptions::new().read(true).custom_flags(nonblocking).open(&pipe).unwrap();
    let launch = Launch::of(library.path()).arguments("--tls off --workers 1 --no-sandbox");
    let server = launch.argument("--access-log").argument(&pipe).start();
    let before = rss_bytes(&server);
    let request = format!(
        "HEAD /note.txt?{0} HTTP/1.1\r\nHost: h\r\nReferer: /{0}\r\nUser-Agent: ",
        "x".repeat(2000)
    );
    let mut request = request.into_bytes();
    // Each of these becomes three bytes of text.
    request.extend([0xff; 10_000]);
    request.extend(b"\r\n\r\n");
    let mut viewer = TcpStream::connect(server.address).unwrap();
    let mut answers = viewer.try_clone().unwrap();
    let reading = std::thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
    for _ in 0..REQUESTS {
        viewer.write_all(&request).unwrap();
    }
    eventually("all to be answered", || {
        (server.counters().value("responses_total{status=\"200\"}") == REQUESTS).then_some(())
    });
    let grown = rss_bytes(&server).saturating_sub(before);
    println!("{REQUESTS} lines: {grown} bytes more");
    assert!(grown < 32 << 20, "{grown} bytes for lines that wait");
    server.wait_for_counter("access_log_lost_total", 1);
    viewer.shutdown(std::net::Shutdown::Both).unwrap();
    reading.join().unwrap().unwrap();
}

/// slowhttptest's four modes against all listeners of a server with one worker.
#[test]
fn slow_clients_keep_nobody_out_of_any_listener_of_a_server() {
    if !SlowAttack::is_possible() {
        return;
    }
    let library = tempdir().unwrap();
    file(library.path(), "film.mp4", 1_000_000);
    let redirect = format!("127.0.0.1:{}", free_port());
    let config = format!("[http]\nhealthz = true\n[tls]\nredirect_listen = \"{redirect}\"\n");
    let server = Launch::of(library.path()).config(&config).arguments("--workers 1").start();
    let [film, health] =
        ["film.mp4", "healthz"].map(|path| format!("https://{}/{path}", server.address));
    let admin = format!("http://{}/healthz", server.admin);
    let redirect = format!("http://{redirect}/film.mp4");
    let mut attack = SlowAttack::on(&[&film, &admin, &redirect], 150, 30);
    while attack.goes_on() {
        for url in [&film, &health, &admin] {
            attack.others_get(url, "200");
        }
        attack.others_get(&redirect, "308");
    }
}
