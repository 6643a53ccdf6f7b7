//! Plain HTTP is sent on to HTTPS throughout an upgrade: by the server itself, and by its helper for certificates.

use crate::stage::Stage;
use fullbore_tests::{Plain, Response, Signal, until};
use rustix::process::kill_process;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// An address of this process, with a port that no connection gets.
fn address(port: u16) -> SocketAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 3, high, low], port))
}

/// Where the server sends a viewer.
fn sent_to(plain: SocketAddr) -> String {
    let response = answer_with(308, plain);
    let place = response.head.lines().find_map(|line| line.strip_prefix("Location: "));
    place.unwrap().to_owned()
}

/// The answer, which has this status.
fn answer_with(status: u16, plain: SocketAddr) -> Response {
    let response = Plain::connect(plain).fetch("/film.mp4");
    assert_eq!(response.status, status, "{}", response.head);
    response
}

/// Asks one time after the other while a server takes another one's place and the old one ends. `Plain` panics if it is refused or cut off.
fn is_answered_throughout(settings: &str, plain: SocketAddr, status: u16) {
    let stage = Stage::new("");
    stage.configure_all("library", 2, settings);
    let mut old = stage.launch().start();
    until("plain HTTP to be answered", || TcpStream::connect(plain).is_ok());
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                answer_with(status, plain);
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let goes_on = || {
            let before = asked.load(Ordering::Relaxed);
            let is_on = || asked.load(Ordering::Relaxed) > before + 20;
            until("more answers", || visitor.is_finished() || is_on());
            assert!(is_on(), "the visitor was refused");
        };
        goes_on();
        let new = stage.upgrade("");
        goes_on();
        assert_eq!(old.wait().code(), Some(0));
        goes_on();
        stop.store(true, Ordering::Relaxed);
        visitor.join().unwrap();
        kill_process(new, Signal::TERM).unwrap();
        until("nobody to listen", || TcpStream::connect(plain).is_err());
    });
}

#[test]
fn a_redirect_is_answered_throughout() {
    let plain = address(20_180);
    is_answered_throughout(&format!("[tls]\nredirect_listen = \"{plain}\""), plain, 308);
}

/// The authority is not there, which is the helper's trouble and no viewer's.
#[test]
fn the_port_of_challenges_is_answered_throughout() {
    let plain = address(20_181);
    let section = format!(
        "[tls.acme]\ndomains = [\"a.example.org\"]\ndirectory = \"http://127.0.0.1:1/dir\"\n\
         listen = \"{plain}\""
    );
    is_answered_throughout(&section, plain, 404);
}

#[test]
fn a_redirect_begins_and_ends_with_an_upgrade() {
    let (first, second) = (address(20_183), address(20_184));
    let stage = Stage::new("");
    let redirect = |to: SocketAddr| stage.configure(&format!("[tls]\nredirect_listen = \"{to}\""));
    let old = stage.launch().start();
    assert!(TcpStream::connect(first).is_err());
    redirect(first);
    stage.upgrade("");
    let port = old.address.port();
    assert_eq!(sent_to(first), format!("https://localhost:{port}/film.mp4"));
    until("it to be counted", || old.counter("redirects_total{result=\"sent\"}") == 1);
    redirect(second);
    stage.upgrade("");
    assert_eq!(sent_to(second), format!("https://localhost:{port}/film.mp4"));
    until("nobody at the former address", || TcpStream::connect(first).is_err());
}
