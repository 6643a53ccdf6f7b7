//! A film with a deliberate fault: the player's reaction, and the report of the fault by its name.

use crate::program::swarm;
use fullbore_tests::film::{self, RUNGS, segment_bytes};
use fullbore_tests::{Asked, Ran, serve_badly};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Segments of the film: few enough that a player finishes it in some seconds.
const SEGMENTS: usize = 5;

/// A request for a part of the film.
struct Part {
    /// The name of a file, such as `0-3.m4s`.
    name: String,
    range: Option<(usize, usize)>,
    /// How often this film's segments were requested before.
    number: u64,
}

impl Part {
    fn is_segment(&self, segment: usize) -> bool {
        self.name.ends_with(&format!("-{segment}.m4s"))
    }
}

/// A server's response to a request for a segment.
enum Answer {
    /// Sends it.
    Well,
    /// A status, with more lines for the head.
    Status(u16, &'static str),
    /// Half of it, then a reset.
    Reset,
    /// Half of it, then the end of the connection.
    Half,
    /// Nothing at all.
    Silence,
    /// The segment, at this many bytes per second.
    Slowly(usize),
    /// A part of a file that is shorter than the playlist says.
    Short,
    /// The whole file, whatever the request.
    Whole,
    /// The segment in chunks, without a length.
    Chunks,
}

/// Starts a server that answers requests for segments as given, and everything else correctly. Returns the manifest's URL.
fn serve(ranges: bool, answer: impl Fn(&Part) -> Answer + Send + Sync + 'static) -> String {
    let parts = AtomicU64::new(0);
    let address = serve_badly(move |stream, Asked { path, range, .. }| {
        let name = path.trim_start_matches("/film/").to_owned();
        if let Some(text) = document(&name, ranges) {
            // As servers do that make playlists on the fly.
            return send_chunks(stream, text.as_bytes()).is_ok();
        }
        let range = range.map(|(first, last)| (first as usize, last as usize));
        let part = Part { name, range, number: parts.fetch_add(1, Ordering::SeqCst) };
        fulfil(stream, &part, &answer(&part))
    });
    format!("http://{address}/film/master.m3u8")
}

fn document(name: &str, ranges: bool) -> Option<String> {
    match name.strip_suffix(".m3u8")? {
        "master" => Some(film::master()),
        rung => Some(film::playlist(rung.parse().unwrap(), SEGMENTS, ranges)),
    }
}

fn send(stream: &mut TcpStream, status: &str, lines: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{lines}\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

/// Answers; returns whether the connection stays open.
fn fulfil(stream: &mut TcpStream, asked: &Part, answer: &Answer) -> bool {
    let rung: usize = asked.name[..1].parse().unwrap();
    let body = vec![0; segment_bytes(rung)];
    let half = body.len() / 2;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let sent = match answer {
        Answer::Well => match asked.range {
            Some(range) => part(stream, range, body.len() * SEGMENTS),
            None => send(stream, "200 OK", "", &body),
        },
        Answer::Status(status, lines) => send(stream, &format!("{status} No"), lines, b"no"),
        Answer::Reset => {
            let _ =
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..half]));
            // Closing while there is something to read resets the connection; so does this.
            let linger = rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO));
            linger.unwrap();
            return false;
        }
        Answer::Half => {
            let _ =
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..half]));
            return false;
        }
        Answer::Silence => {
            // Until the player gives up.
            let _ = stream.read(&mut [0; 1]);
            return false;
        }
        Answer::Slowly(bytes_per_second) => {
            let mut sent = stream.write_all(head.as_bytes());
            for piece in body.chunks(bytes_per_second / 20) {
                // sleeps: a server that is slow on purpose
                std::thread::sleep(Duration::from_millis(50));
                sent = sent.and_then(|()| stream.write_all(piece));
            }
            sent
        }
        Answer::Short => {
            let (first, last) = asked.range.unwrap();
            part(stream, (first, last), (first + last) / 2)
        }
        Answer::Whole => send(stream, "200 OK", "", &vec![0; body.len() * SEGMENTS]),
        Answer::Chunks => send_chunks(stream, &body),
    };
    sent.is_ok()
}

/// Sends a body without stating its length.
fn send_chunks(stream: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for chunk in body.chunks(10_000) {
        write!(stream, "{:X}\r\n", chunk.len())?;
        stream.write_all(chunk)?;
        stream.write_all(b"\r\n")?;
    }
    stream.write_all(b"0\r\n\r\n")
}

/// Sends a range of a file of this many bytes.
fn part(
    stream: &mut TcpStream,
    (first, last): (usize, usize),
    whole: usize,
) -> std::io::Result<()> {
    let last = last.min(whole - 1);
    let lines = format!("Content-Range: bytes {first}-{last}/{whole}\r\n");
    send(stream, "206 Partial Content", &lines, &vec![0; last + 1 - first])
}

/// One viewer who watches to the end of the film, or gives up.
fn watch(words: &str, url: &str) -> Ran {
    let duration = if words.contains("--duration") { "" } else { "--duration 60s" };
    let all = "--viewers 1 --over 0 --watch 2m --allow-errors --patience 10s";
    let ran = swarm(&format!("{all} {duration} {words}"), &[url]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    ran
}

#[track_caller]
fn finished(ran: &Ran) {
    assert_eq!(ran.number("sessions/finished"), 1.0, "{}", ran.figures);
}

#[test]
fn a_film_without_fault_finishes() {
    for ranges in [false, true] {
        let ran = watch("", &serve(ranges, |_| Answer::Well));
        finished(&ran);
        assert!(
            ran.number("stalls/count") == 0.0 && ran.figures["clean"] == true,
            "{}",
            ran.figures
        );
        let played = ran.number("played_seconds");
        assert!((9.0..=10.5).contains(&played), "{played}");
    }
}

#[test]
fn a_film_in_chunks_finishes() {
    let ran = watch("", &serve(false, |_| Answer::Chunks));
    finished(&ran);
    assert_eq!(ran.figures["clean"], true, "{}", ran.figures);
    assert!(ran.number("played_seconds") >= 9.0, "{}", ran.figures);
}

#[test]
fn a_missing_segment_is_left_out_and_told() {
    let url = serve(false, |asked| match asked.is_segment(2) {
        true => Answer::Status(404, ""),
        false => Answer::Well,
    });
    let ran = watch("", &url);
    finished(&ran);
    assert!(ran.errors("status") >= 1 && ran.errors("reset") == 0, "{}", ran.figures);
    assert!(ran.stdout.contains("status 404"), "{}", ran.stdout);
    let played = ran.number("played_seconds");
    assert!((7.0..=8.5).contains(&played), "one segment of five is missing: {played}");
}

#[test]
fn a_server_that_recovers_costs_a_retry() {
    for status in [500, 503] {
        let url = serve(false, move |asked| match asked.number {
            2 | 3 => Answer::Status(status, ""),
            _ => Answer::Well,
        });
        let ran = watch("", &url);
        finished(&ran);
        assert!(ran.errors("status") >= 1, "{}", ran.figures);
        assert!(ran.stdout.contains(&format!("status {status}")), "{}", ran.stdout);
    }
}

#[test]
fn a_server_that_asks_for_patience_gets_it() {
    let url = serve(false, |asked| match asked.number {
        3 => Answer::Status(429, "Retry-After: 1\r\n"),
        _ => Answer::Well,
    });
    let ran = watch("", &url);
    finished(&ran);
    assert_eq!(ran.errors("status"), 1, "asked again before its time: {}", ran.figures);
}

#[test]
fn resets_and_early_ends_are_told_apart() {
    let reset = serve(false, |asked| match asked.number {
        2 => Answer::Reset,
        _ => Answer::Well,
    });
    let half = serve(false, |asked| match asked.number {
        2 => Answer::Half,
        _ => Answer::Well,
    });
    for (url, kind) in [(reset, "reset"), (half, "closed_early")] {
        let ran = watch("", &url);
        finished(&ran);
        assert_eq!(ran.errors(kind), 1, "{kind}: {}", ran.figures);
    }
}

#[test]
fn silence_is_told_as_silence_and_does_not_last() {
    let url = serve(false, |asked| match asked.number {
        3 => Answer::Silence,
        _ => Answer::Well,
    });
    let ran = watch("", &url);
    finished(&ran);
    assert_eq!(ran.errors("silence"), 1, "{}", ran.figures);
}

#[test]
fn a_part_of_the_wrong_length_and_a_file_instead_of_a_part_are_refused() {
    let short = serve(true, |asked| match asked.number {
        2 => Answer::Short,
        _ => Answer::Well,
    });
    let whole = serve(true, |asked| match asked.number {
        2 => Answer::Whole,
        _ => Answer::Well,
    });
    for (url, kind) in [(short, "wrong_length"), (whole, "other_range")] {
        let ran = watch("", &url);
        assert_eq!(ran.errors(kind), 1, "{kind}: {}", ran.figures);
    }
}

#[test]
fn a_server_slower_than_the_lowest_bit_rate_makes_viewers_stall_and_the_reason_is_the_network() {
    // 200 kb/s; the lowest rung has 400.
    let url = serve(false, |_| Answer::Slowly(25_000));
    let ran = watch("--duration 20s", &url);
    assert!(ran.number("stalls/by_reason/slow_network") >= 1.0, "{}", ran.figures);
    assert!(ran.number("stall_ratio_of_all") > 0.3, "{}", ran.figures);
    let lowest = RUNGS[0] as f64 / 1e6;
    assert!(ran.number("mbps/p50") < lowest * 1.05, "{}", ran.figures);
}

#[test]
fn a_film_that_cannot_be_played_is_given_up() {
    let url = serve(false, |_| Answer::Status(503, ""));
    let ran = swarm(
        "--viewers 1 --over 0 --watch 2m --duration 20s --give-up 3s --allow-errors",
        &[&url],
    );
    assert_eq!(ran.number("sessions/started"), 0.0, "{}", ran.figures);
    assert_eq!(ran.number("sessions/gave_up"), 1.0, "{}", ran.figures);
}
