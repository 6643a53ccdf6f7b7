//! Many viewers at once, by `fullbore load`.

use fullbore_tests::{Namespace, program};

/// For servers whose viewers may have to wait for a processor before they can send anything.
pub(crate) const UNHURRIED: &str =
    "[timeouts]\nhandshake_seconds = 3600\nhead_seconds = 3600\nidle_seconds = 3600\n";

/// A thousand viewers watch the film, each at this rate, and compare a part of it. Lasts longer each time until `is_enough`, because on a busy
/// machine it may take minutes until all have connected. Fails if any viewer sees an error.
#[track_caller]
pub(crate) fn a_thousand_watch(
    space: &Namespace,
    url: &str,
    rate: &str,
    is_enough: impl Fn(&str) -> bool,
) {
    let words = "load --insecure --connections 1000 --ramp 4s --patience 1h --verify 20 --rate";
    for duration in ["6s", "24s", "96s", "384s"] {
        let mut load: Vec<_> = words.split(' ').collect();
        load.extend([rate, "--allow-errors", "--duration", duration, url]);
        let told = String::from_utf8(space.succeed(program(), &load)).unwrap();
        // It may say that there were no answers yet.
        assert!(told.contains("  errors      none"), "{told}");
        if is_enough(&told) {
            return;
        }
        eprintln!("not enough within {duration}:\n{told}");
    }
    panic!("a thousand viewers were not served within minutes");
}
