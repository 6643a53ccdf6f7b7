//! Viewers who read fast: the kernel may hold more unsent bytes for them.

use crate::support::content::Content;
use crate::support::served::{Served, await_that};
use crate::support::viewer::Protocol;
use config::Config;
use tempfile::{TempDir, tempdir};

/// Larger than the sockets' buffers, so that the server has to wait for the viewer.
const FILM_BYTES: u64 = 16 << 20;

/// A congestion control that sends as soon as it may, which every kernel has, and one that spreads packets over time.
fn congestion_controls() -> Vec<&'static str> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if known.unwrap_or_default().split_whitespace().any(|name| name == "bbr") {
        return vec!["reno", "bbr"];
    }
    fullbore_tests::tool::skip("this kernel has no BBR (modprobe tcp_bbr)");
    vec!["reno"]
}

fn with(congestion_control: &str) -> impl FnOnce(&mut Config) {
    let name = congestion_control.to_owned();
    move |config| config.net.congestion_control = Some(name)
}

fn library() -> (TempDir, Content) {
    let (dir, film) = (tempdir().unwrap(), Content::new(5, FILM_BYTES));
    film.write(&dir.path().join("film.mp4")).unwrap();
    (dir, film)
}

/// Watches the film once, with a receive buffer of 128 KiB.
fn watch(served: &Served, film: &Content) {
    let response = served.narrow_viewer(128 << 10).ask("/film.mp4");
    assert_eq!(response.body.len() as u64, FILM_BYTES);
    film.assert_holds(0, &response.body, "a quick viewer");
}

#[test]
fn the_kernel_may_hold_more_for_a_quick_viewer() {
    let (library, film) = library();
    for name in congestion_controls() {
        for protocol in Protocol::ALL {
            let served = Served::start(library.path(), protocol, with(name));
            let raised = || {
                watch(&served, &film);
                served.number(|n| &n.unsent_limits_raised_total) > 0
            };
            await_that(raised, || format!("no limit was raised over {protocol:?} with {name}"));
        }
    }
}

#[test]
fn a_limit_that_the_operator_has_set_stays() {
    let (library, film) = library();
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        with("reno")(config);
        config.net.unsent_bytes_max = Some(32 << 10);
    });
    for _ in 0..3 {
        watch(&served, &film);
    }
    assert!(served.number(|n| &n.windows_waited_total) > 0, "the server never waited");
    assert_eq!(served.number(|n| &n.unsent_limits_raised_total), 0);
}

#[test]
fn a_worker_with_fast_viewers_compares_long_queues_with_short_ones() {
    let (library, film) = library();
    let served = Served::start(library.path(), Protocol::Plain, with("reno"));
    let compared = || {
        // A trial ends without a result if the viewers pause, so there is always another one.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..8).for_each(|_| watch(&served, &film)));
            }
        });
        served.number(|n| &n.queue_trials_total) > 0
    };
    await_that(compared, || "the worker compared nothing".to_owned());
}
