//! With any switch off, every byte is right: a switch changes the cost of a byte, and nothing else.

use crate::bytes::{Library, tune, view};
use crate::support::served::Served;
use crate::support::viewer::Protocol;
use config::Switch;
use fullbore_tests::Random;
use std::sync::atomic::AtomicI64;

const CASES_PER_SERVER: i64 = 24;
const VIEWERS_AT_ONCE: u64 = 3;

fn serve_without(library: &Library, switch: Switch, protocol: Protocol, random: &mut Random) {
    println!("{protocol:?} without {switch:?}");
    let served = Served::start(library.path(), protocol, |config| {
        config.off = vec![switch];
        config.workers = 2;
        tune(config, random.within(0..3) as usize);
    });
    let cases_left = AtomicI64::new(CASES_PER_SERVER);
    std::thread::scope(|scope| {
        for _ in 0..VIEWERS_AT_ONCE {
            let random = Random::new(random.number());
            scope.spawn(|| view(&served, library, &cases_left, random));
        }
    });
    served.await_buffers_back();
    served.stop();
    assert_is_off(&served, switch, protocol);
}

/// The visible effects of a switch that is off.
fn assert_is_off(served: &Served, switch: Switch, protocol: Protocol) {
    match switch {
        Switch::Heat => assert_eq!(served.number(|n| &n.read_direct_bytes_total), 0),
        Switch::Files => assert_eq!(served.number(|n| &n.open_files), 0),
        // rustls keeps what it has sealed, so no record is made again.
        Switch::Handout if protocol != Protocol::Plain => {
            assert_eq!(served.number(|n| &n.take_backs_total), 0);
        }
        _ => {}
    }
}

fn serve_without_each(protocol: Protocol) {
    let seed = Random::seed_of_run();
    println!("FULLBORE_SEED={seed}");
    let mut random = Random::new(seed);
    let library = Library::new(&mut random);
    for (switch, ..) in Switch::ALL {
        serve_without(&library, switch, protocol, &mut random);
    }
}

#[test]
fn every_byte_is_the_files_whatever_is_off_without_tls() {
    serve_without_each(Protocol::Plain);
}

#[test]
fn every_byte_is_the_files_whatever_is_off_with_tls12() {
    serve_without_each(Protocol::Tls12);
}

#[test]
fn every_byte_is_the_files_whatever_is_off_with_tls13() {
    serve_without_each(Protocol::Tls13);
}
