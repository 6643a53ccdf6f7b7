//! Every pattern and pace against the real server: right bytes, no errors, and consistent figures.

use crate::bad::{Bad, partial};
use crate::program::{FILM_BYTES, library, load, load_until, serve};
use fullbore_tests::Ran;

/// Loads a library of three films over TLS, comparing whatever the words ask for, until what it did is `enough`.
fn clean(words: &str, enough: impl Fn(&Ran) -> bool) -> Ran {
    let library = library(3);
    let server = serve(library.path(), "");
    let urls: Vec<_> = (0..3).map(|film| format!("{}/{film}.mp4", server.url)).collect();
    let against = library.path().display();
    load_until(&format!("--insecure --verify 2 --against {against} {words}"), &urls, enough)
}

#[test]
fn whole_files_come_whole() {
    let ran = clean("--pattern whole --connections 4", |ran| {
        ran.number("verified") > 0.0 && ran.figures["viewer_mbps"]["count"] == 4
    });
    assert!(ran.number("body_bytes") >= (ran.number("requests") - 4.0) * FILM_BYTES as f64);
    assert_eq!(ran.number("connections_open"), 4.0);
}

#[test]
fn the_json_has_its_shape_and_agrees_with_itself() {
    let ran = clean("", |ran| ran.number("body_bytes") > 0.0);
    assert_eq!((&ran.figures["version"], &ran.figures["kind"]), (&1.into(), &"load".into()));
    let gbps = ran.number("body_bytes") * 8e-9 / ran.number("measured_seconds");
    assert!((ran.number("gbps") / gbps - 1.0).abs() < 1e-6);
    for name in ["wall_seconds", "requests_per_second", "handshakes_per_second", "cpu_seconds"] {
        assert!(ran.number(name) >= 0.0, "{name}");
    }
    let times = &ran.figures["first_byte_ms"];
    let order = ["p50", "p99", "p999", "max"].map(|name| times[name].as_f64().unwrap());
    assert!(order.windows(2).all(|two| two[0] <= two[1]) && order[0] > 0.0, "{times}");
    let rates = &ran.figures["viewer_mbps"];
    let order = ["p1", "p50", "p99"].map(|name| rates[name].as_f64().unwrap());
    assert!(order.windows(2).all(|two| two[0] <= two[1]), "{rates}");
    assert_eq!(ran.figures["errors"], serde_json::json!({}));
    assert_eq!(
        (&ran.figures["interrupted"], &ran.figures["gave_up"]),
        (&false.into(), &false.into())
    );
    assert!(ran.stdout.contains("Gb/s") && ran.stdout.contains("p99.9"), "{}", ran.stdout);
}

#[test]
fn requests_and_bytes_agree_with_what_the_server_counts() {
    const CONNECTIONS: f64 = 4.0;
    let library = library(1);
    let server = serve(library.path(), "");
    let url = [format!("{}/0.mp4", server.url)];
    let ran = load("--insecure --pattern whole --connections 4 --duration 5s", &url);
    assert_eq!(ran.figures["errors"], serde_json::json!({}));
    // Only responses under way at the end, and heads, may differ.
    let requests = server.sum("requests_total") as f64 - ran.number("requests");
    assert!((0.0..=CONNECTIONS).contains(&requests), "{requests}");
    let bytes = server.sum("response_sent_bytes_total") as f64 - ran.number("body_bytes");
    let heads = 1000.0 * server.sum("requests_total") as f64;
    assert!((0.0..=CONNECTIONS * FILM_BYTES as f64 + heads).contains(&bytes), "{bytes}");
}

#[test]
fn viewers_leave_jump_and_come_back() {
    clean("--aborts 20% --seeks 20% --connections 4", |ran| {
        ran.number("aborted") > 0.0 && ran.number("connections_opened") > 4.0
    });
}

#[test]
fn paced_viewers_get_their_rate_and_no_more() {
    let most = |ran: &Ran| ran.figures["viewer_mbps"]["p99"].as_f64().unwrap_or(0.0);
    let ran = clean("--rate 20M --connections 5", |ran| most(ran) > 0.0);
    // Never faster than requested; how much slower depends on the machine.
    assert!(most(&ran) <= 20.0, "{}", ran.figures);
}

#[test]
fn an_open_loop_asks_as_often_as_its_schedule_says() {
    let ran = clean("--arrivals 100/s --connections 10 --zipf 0.8", |_| true);
    let due = 100.0 * ran.number("wall_seconds");
    assert!(ran.number("requests") <= due + 20.0, "{}", ran.figures);
    assert_eq!(ran.figures["viewer_mbps"]["count"], 0);
}

#[test]
fn an_open_loop_counts_a_stall_in_every_request_that_it_delays() {
    // Each answer takes 200 ms, 20 a second fall due, one at a time can be under way.
    let slow = Bad::start(|stream, asked| {
        // sleeps: a server that is slow on purpose
        std::thread::sleep(std::time::Duration::from_millis(200));
        partial(stream, &asked, 1000, &[7; 1000])
    });
    let words = "--pattern ranges --range-bytes 1000 --arrivals 20/s --connections 1 --duration 1s";
    let ran = load(words, &[slow.url]);
    // The fourth was due at 150 ms and cannot have been answered before 800 ms. A generator that waits for one answer before
    // it asks again would say that all took 200 ms. A busy machine can only make them later.
    let worst = ran.figures["first_byte_ms"]["max"].as_f64().unwrap();
    assert!(ran.number("requests") < 4.0 || worst >= 600.0, "{}", ran.figures);
    assert!(ran.number("overdue") >= 14.0, "{}", ran.figures);
    assert!(ran.stdout.contains("due and not answered"), "{}", ran.stdout);
}

#[test]
fn a_hit_ratio_slow_readers_and_several_threads_come_out_right() {
    clean(
        "--pattern ranges --range-bytes 100k --hit-ratio 50% --hot 1 --connections 4 --threads 2",
        |_| true,
    );
    let most = |ran: &Ran| ran.figures["viewer_mbps"]["p99"].as_f64().unwrap_or(0.0);
    let words = "--read-rate 8M --pattern whole --connections 2";
    let ran = clean(words, |ran| most(ran) > 0.0);
    assert!(most(&ran) < 12.0, "{}", ran.figures);
}

#[test]
fn handshakes_are_counted_full_and_resumed() {
    let library = library(1);
    let server = serve(library.path(), "");
    let url = [format!("{}/0.mp4", server.url)];
    let handshakes = |ran: &Ran| ran.number("handshakes") > 0.0;
    let full = load_until("--insecure --handshakes --connections 2", &url, handshakes);
    assert_eq!(full.number("resumed"), 0.0, "{}", full.figures);
    assert_eq!(full.number("body_bytes"), 0.0);
    load_until("--insecure --handshakes --resume --connections 2", &url, |ran| {
        ran.number("resumed") > 0.0
    });
}

#[test]
fn plain_http_is_loaded_as_well_and_urls_may_come_from_a_file() {
    let library = library(2);
    let server = serve(library.path(), "--tls off");
    let list = library.path().join("urls.txt");
    std::fs::write(&list, format!("# two\n{0}/0.mp4\n\n{0}/1.mp4\n", server.url)).unwrap();
    let ran = load_until(&format!("--urls {} --pattern whole", list.display()), &[], |_| true);
    assert_eq!(ran.number("handshakes"), 0.0);
}
