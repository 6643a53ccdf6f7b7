//! Edges behind edges: two shields of a tier share the paths of two edges.

use crate::PATIENT;
use crate::origin::{Origin, Seen};
use fullbore_tests::{Launch, Plain, Server};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use tempfile::{TempDir, tempdir};

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// Enough that each shield has some: none has all with a probability of less than 1 in 10^9, whatever its port is.
const FILMS: u64 = 32;

/// Of two blocks each.
const FILM_BYTES: usize = (1 << 20) + 1000;

fn folders<const COUNT: usize>() -> [TempDir; COUNT] {
    std::array::from_fn(|_| tempdir().unwrap())
}

/// A member of the tier. It calls itself so in a header of its own.
fn shield(origin: &Origin, cache: &Path, name: &str) -> Server {
    let text = format!(
        "{PATIENT}cache = {cache:?}\norigin = {{ url = \"{}\", headers = {{ X-Shield = \"{name}\" }} }}\n",
        origin.url()
    );
    Launch::bare().config(&text).arguments("--tls off").start()
}

fn edge(shields: [SocketAddr; 2], cache: &Path) -> Server {
    let addresses = shields.map(|shield| format!("http://{shield}"));
    let text = format!("{PATIENT}cache = {cache:?}\norigin = {addresses:?}\nspread = \"hash\"\n");
    Launch::bare().config(&text).arguments("--tls off").start()
}

fn paths() -> impl Iterator<Item = String> {
    (0..FILMS).map(|number| format!("/films/{number}/film"))
}

/// The paths that a shield has requested.
fn asked_by(seen: &[Seen], name: &str) -> BTreeSet<String> {
    let line = format!("x-shield: {name}\r\n");
    let own = seen.iter().filter(|seen| seen.head.to_ascii_lowercase().contains(&line));
    own.map(|seen| seen.path.clone()).collect()
}

#[test]
fn shields_share_the_paths_of_all_edges_and_only_those_of_one_that_goes_move() {
    let (origin, folders) = (Origin::start(), folders::<5>());
    let [a, b, one, two, three] = folders.each_ref().map(TempDir::path);
    let films: Vec<_> = paths()
        .zip(0..)
        .map(|(path, version)| origin.put(&path, version, FILM_BYTES, LASTING))
        .collect();
    let (a, b) = (shield(&origin, a, "a"), shield(&origin, b, "b"));
    // They name the shields in different orders.
    let (at_a, at_b) = (a.address, b.address);
    let edges = [edge([at_a, at_b], one), edge([at_b, at_a], two)];
    let fetch_all = |edge: &Server| {
        for (path, film) in paths().zip(&films) {
            assert!(Plain::connect(edge.address).fetch(&path).body == **film, "{path}");
        }
    };
    edges.iter().for_each(fetch_all);
    let seen = origin.seen();
    assert_eq!(seen.len() as u64, 2 * FILMS, "each block of each film is requested once");
    let (of_a, of_b) = (asked_by(&seen, "a"), asked_by(&seen, "b"));
    assert!(!of_a.is_empty() && !of_b.is_empty() && of_a.is_disjoint(&of_b), "{of_a:?} {of_b:?}");
    assert_eq!((of_a.len() + of_b.len()) as u64, FILMS);
    // An edge with an empty cache finds the films of the shield that is left, and the others move there.
    a.kill();
    fetch_all(&edge([at_a, at_b], three));
    let later = &origin.seen()[seen.len()..];
    assert_eq!(asked_by(later, "b"), of_a, "only these move");
    assert_eq!(later.len(), 2 * of_a.len(), "each block once");
}
