//! Films drawn by seed: each has tracks, timestamps, languages, roles, colours and subtitles as people's films have them, with a white flash
//! and a beep at the same moments. A title made from one must have everything that the film has, at the same times, or name what it leaves out.
//!
//! `FULLBORE_DRAW=17` plays one seed and looks for the smallest film with the same fault. `at_length` plays `FULLBORE_DRAWS` (500) films from
//! seed `FULLBORE_DRAW_FROM` (1). `FULLBORE_DRAW_KEEP` names a folder for films and titles with faults, and `FULLBORE_DRAW_LIBRARY` one for all
//! titles, which web/tests/drawn.mjs plays in browsers. ffmpeg's versions differ in what they make of a seed.
//!
//! Read first: `draw.rs`, which describes films, then `judge/mod.rs`.

mod containers;
mod draw;
mod judge;
mod lines;
mod make;
mod measure;
mod peak;
mod planted;
mod planted_draws;
mod planted_hdr;
mod play;
mod shrink;
mod source;
mod title;
mod tool;
mod webvtt;

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use draw::Film;
use play::{Outcome, play};

/// Played with every change: about half a minute on two cores, and among them each kind of cut and most containers. 13 and 19 once had
/// faults of sync and of the wrong picture, and 105 and 406 played what their films hide.
const SEEDS: [u64; 18] = [7, 13, 19, 21, 29, 34, 36, 42, 45, 47, 50, 53, 55, 62, 73, 99, 105, 406];

fn ffmpeg_is_here() -> bool {
    let here = Command::new("ffmpeg").arg("-version").output().is_ok();
    if !here {
        fullbore_tests::tool::skip("there is no ffmpeg on this machine (apt install ffmpeg)");
    }
    here
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Plays films on every core, and fails with a report of all that were wrong.
fn play_all(seeds: &[u64]) {
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let film = Film::draw(*seed);
            let outcome = play(&film);
            if let Some(report) = report(&film, &outcome) {
                println!("{report}");
                reports.lock().expect("no other panicked").push(*seed);
            }
        }
    };
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let mut wrong = reports.into_inner().expect("no other panicked");
    wrong.sort_unstable();
    assert!(wrong.is_empty(), "{} of {} films: seeds {wrong:?}", wrong.len(), seeds.len());
}

fn report(film: &Film, outcome: &Outcome) -> Option<String> {
    let faults = match outcome {
        Outcome::Right => return None,
        Outcome::NotMade(why) => format!("  cannot be made or measured: {why}"),
        Outcome::Wrong(faults) => {
            let lines = faults.iter().map(|fault| format!("  {:?}: {}", fault.kind, fault.what));
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    let again = format!(
        "FULLBORE_DRAW={} ./run test -p fullbore-ingest --test drawn one_film -- --ignored",
        film.seed
    );
    Some(format!("{film}\n{faults}\n  again: {again}\n"))
}

#[test]
fn drawn_films_become_titles_that_have_all_of_them() {
    if ffmpeg_is_here() {
        play_all(&SEEDS);
    }
}

#[test]
#[ignore = "500 films take half an hour; ./run nightly plays them"]
fn at_length() {
    let from = number("FULLBORE_DRAW_FROM").unwrap_or(1);
    let count = number("FULLBORE_DRAWS").unwrap_or(500);
    play_all(&(from..from + count).collect::<Vec<_>>());
}

#[test]
#[ignore = "plays the film that FULLBORE_DRAW names"]
fn one_film() {
    let seed = number("FULLBORE_DRAW").expect("FULLBORE_DRAW has the number of a film");
    let film = Film::draw(seed);
    println!("{film}");
    let outcome = play(&film);
    let Some(report) = report(&film, &outcome) else { return };
    println!("{report}");
    if let Outcome::Wrong(faults) = &outcome {
        println!("the smallest film with this fault:\n{}", shrink::shrink(&film, faults[0].kind));
    }
    panic!("film {seed}");
}
