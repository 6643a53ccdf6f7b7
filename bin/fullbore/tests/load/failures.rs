//! Failures are reported by kind, with what to do about them.

use crate::bad::{Bad, PARTIAL_FILE_BYTES, partial};
use crate::program::{library, load, load_until, load_until_error, serve};
use fullbore_tests::Ran;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;

const RANGES: &str = "--pattern ranges --range-bytes 1000 --connections 2";

/// Nothing succeeded: one line, which contains `advice`.
fn hopeless(words: &str, url: &str, kind: &str, advice: &str) {
    let ran = load(words, &[url.to_owned()]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.errors(kind) > 0 && ran.figures["gave_up"] == true, "{}", ran.figures);
    assert!(ran.stdout.is_empty() && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(url) && ran.stderr.contains(advice), "{}", ran.stderr);
}

/// Some responses came and some failed.
fn counted(words: &str, url: &str, kind: &str) -> Ran {
    let ran = load_until_error(words, &[url.to_owned()], kind);
    tells(&ran, kind);
    ran
}

/// The command failed and said why.
fn tells(ran: &Ran, kind: &str) {
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains(kind), "{}", ran.stdout);
}

#[test]
fn an_unreachable_server_ends_the_run_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/a.mp4", listener.local_addr().unwrap());
    drop(listener);
    // Far longer than the test may take: it must not wait for the end.
    hopeless("--duration 10m", &url, "refused", "no server listens at this address");
}

#[test]
fn an_untrusted_certificate_names_the_ways_out_and_both_work() {
    let library = library(1);
    let server = serve(library.path(), "");
    let url = format!("{}/0.mp4", server.url);
    hopeless("--duration 10m", &url, "certificate_untrusted", "--ca");
    hopeless("--duration 10m", &url, "certificate_untrusted", "--insecure");
    load_until("--insecure", std::slice::from_ref(&url), |_| true);
    // The certificate is for this address among others; it vouches for itself.
    let certificate = server.state.join("self-signed-cert.pem");
    load_until(&format!("--ca {}", certificate.display()), &[url], |_| true);
}

/// A TLS server with a certificate that was good until 2001.
fn expired() -> (String, tempfile::NamedTempFile) {
    let mut parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = parameters.self_signed(&key).unwrap().pem();
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(chain, key)
    .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/a.mp4", listener.local_addr().unwrap());
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            // The client will not like it.
            let _ = tls.complete_io(&mut stream);
        }
    });
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pem.as_bytes()).unwrap();
    (url, file)
}

#[test]
fn an_expired_certificate_is_told_from_an_untrusted_one() {
    let (url, pem) = expired();
    let words = format!("--duration 10m --ca {}", pem.path().display());
    hopeless(&words, &url, "certificate_expired", "has expired");
}

#[test]
fn a_file_that_is_not_there_is_said_with_its_status() {
    let library = library(1);
    let server = serve(library.path(), "--tls off");
    let url = format!("{}/missing.mp4", server.url);
    hopeless("--duration 10m", &url, "status", "404");
}

#[test]
fn a_server_that_closes_early_is_counted_while_the_rest_goes_on() {
    let bad = Bad::start(|stream, asked| {
        asked.number % 3 != 2 && partial(stream, &asked, 1000, &[7; 1000])
    });
    let ran = counted(RANGES, &bad.url, "closed_early");
    assert!(ran.number("requests") > 0.0);
}

#[test]
fn a_server_that_sends_short_is_counted() {
    let bad = Bad::start(|stream, asked| {
        let is_short = asked.number % 3 == 2;
        partial(stream, &asked, 1000, &[7; 1000][..if is_short { 400 } else { 1000 }]) && !is_short
    });
    counted(RANGES, &bad.url, "short");
}

#[test]
fn a_server_that_sends_another_range_is_counted() {
    let bad = Bad::start(|stream, asked| {
        let claimed = if asked.number % 3 == 2 { 999 } else { 1000 };
        partial(stream, &asked, claimed, &vec![7; claimed as usize])
    });
    counted(RANGES, &bad.url, "other_range");
}

#[test]
fn a_server_that_never_answers_is_given_up_when_the_patience_is_over() {
    let bad = Bad::start(|stream, _| Bad::linger(stream));
    hopeless("--duration 10m --patience 100ms", &bad.url, "timeout", "timed out");
}

#[test]
fn a_server_that_never_answers_is_no_success_although_the_patience_lasts_longer() {
    let bad = Bad::start(|stream, _| Bad::linger(stream));
    let ran = load("--patience 10m", &[bad.url]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("there were no answers"), "{}", ran.stdout);
}

#[test]
fn wrong_bytes_are_found_with_both_digests_and_the_run_goes_on() {
    // Every third answer has one wrong byte.
    let bad = Bad::start(|stream, asked| {
        let mut body = [7; 1000];
        body[500] = if asked.number % 3 == 2 { 8 } else { 7 };
        partial(stream, &asked, 1000, &body)
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.mp4"), vec![7; PARTIAL_FILE_BYTES]).unwrap();
    let words = format!("{RANGES} --verify 1 --against {}", folder.path().display());
    let ran = counted(&words, &bad.url, "wrong_bytes");
    assert!(ran.stderr.contains("WRONG BYTES") && ran.stderr.contains("SHA-256"), "{}", ran.stderr);
    // Every third and no other, except for those under way at the end.
    let (wrong, right) = (ran.errors("wrong_bytes") as f64, ran.number("verified"));
    assert!((right - 2.0 * wrong).abs() <= 4.0, "{wrong} wrong, {right} right");
    // Without --verify nothing is found.
    load_until(RANGES, &[bad.url], |_| true);
}

#[test]
fn the_first_answer_is_the_measure_where_there_is_no_directory() {
    // A new server for each run, because only its sixth answer is wrong.
    let run = |seconds: u64| {
        let bad = Bad::start(|stream, asked| {
            let body = vec![u8::from(asked.number == 5); 1000];
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_ok()
        });
        let words = "--pattern whole --connections 1 --verify 1 --duration";
        load(&format!("{words} {seconds}s"), &[bad.url])
    };
    let mut runs = [1, 8, 64].into_iter().map(run);
    let ran = runs.find(|ran| ran.errors("wrong_bytes") > 0).expect("a sixth answer within 64 s");
    tells(&ran, "wrong_bytes");
    assert_eq!(ran.errors("wrong_bytes"), 1);
}

#[test]
fn errors_that_are_allowed_leave_the_exit_code_alone() {
    let bad = Bad::start(|stream, asked| {
        asked.number % 3 != 2 && partial(stream, &asked, 1000, &[7; 1000])
    });
    let words = format!("{RANGES} --allow-errors");
    let ran = load_until_error(&words, &[bad.url], "closed_early");
    assert_eq!(ran.code, Some(0));
    assert!(ran.figures["clean"] == false, "{}", ran.figures);
}

#[test]
fn wrong_usage_ends_with_2_and_says_why() {
    for (words, urls, why) in [
        ("", vec![], "no URL"),
        ("", vec!["ftp://h/a"], "https://"),
        ("--rate 5M --arrivals 3/s", vec!["http://h/a"], "--arrivals"),
        ("--hit-ratio 50% --hot 1", vec!["http://h/a"], "beyond the hot ones"),
        ("--handshakes", vec!["http://h/a"], "https"),
        ("--pattern whole --seeks 5%", vec!["http://h/a"], "seek"),
        ("--urls /nonexistent", vec![], "/nonexistent"),
        ("--duration 0", vec!["http://h/a"], "duration"),
        ("--duration 9999999999h", vec!["http://h/a"], "a year"),
        ("--arrivals 0.0000001", vec!["http://h/a"], "arrivals"),
        ("--zipf nan", vec!["http://h/a"], "Zipf"),
        ("--pattern ranges --range-bytes 9999999G", vec!["http://h/a"], "1 TiB"),
    ] {
        let urls: Vec<_> = urls.into_iter().map(str::to_owned).collect();
        let ran = load(words, &urls);
        assert_eq!(ran.code, Some(2), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{words}: {}", ran.stderr);
    }
}
