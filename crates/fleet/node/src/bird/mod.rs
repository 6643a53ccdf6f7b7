//! The routes of the site's router, BIRD, read through its control socket.
//!
//! [`watch`] asks BIRD once a second, or less often if its replies are large. It changes nothing in BIRD, and nothing else waits for it: if
//! BIRD is away, hangs or sends nonsense, there are no new readings, and gateways decide how long old ones count.
//!
//! A BIRD that has just started knows no routes yet. For [`SETTLING`] after that, no route is withdrawn.
//!
//! Read first: `reply.rs`, which parses BIRD's replies.

mod reply;
mod socket;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{Announced, route_changes};
use serde::Serialize;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep};

pub use self::reply::{
    BirdError, BirdRoutes, LINE_BYTES_MAX, ReplyLine, ReplyReader, RoutesReader,
};
use self::socket::{BirdSocket, BirdTrouble};

/// The shortest time between requests to BIRD.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// And the longest: a withdrawn route has to be out of answers within 5 s.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Reading takes at most a quarter of the time, because BIRD has other work to do.
const PAUSE_SHARE: u32 = 3;

/// How long a BIRD that has just started may take to learn its routes.
pub const SETTLING: Duration = Duration::from_secs(30);

/// How to reach BIRD.
#[derive(Clone, Debug)]
pub struct BirdOptions {
    /// Its control socket.
    pub socket: PathBuf,
    /// The tables whose routes count; BIRD's default ones if empty.
    pub tables: Vec<String>,
}

/// The last reply of BIRD.
#[derive(Clone, Debug, Default)]
pub struct BirdReading {
    /// Incremented when `announced` changes; 0 before the first reply.
    pub number: u64,
    /// The prefixes that the site's network reaches, sorted.
    pub announced: Arc<Vec<Announced>>,
    /// When BIRD replied.
    pub at: Option<Instant>,
    /// For people.
    pub status: BirdStatus,
}

/// The state of the box's BIRD, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BirdStatus {
    /// Why BIRD gives no routes, if so.
    pub problem: Option<String>,
    /// The number of announced routes.
    pub announced: usize,
    /// The number of routes that lead nowhere.
    pub dead: usize,
    /// The number of the box's own routes.
    pub own: usize,
}

/// Reads BIRD's routes, on the caller's runtime, as long as there is a receiver.
pub fn watch(options: BirdOptions) -> Receiver<BirdReading> {
    let (told, reading) = channel(BirdReading::default());
    tokio::spawn(keep_reading(options, told));
    reading
}

/// The state of the BIRD behind the socket.
#[derive(Default)]
struct Known {
    started: String,
    /// Until when it may not know all its routes yet.
    settles: Option<Instant>,
}

async fn keep_reading(options: BirdOptions, told: Sender<BirdReading>) {
    let mut known = Known::default();
    let mut socket = None;
    while !told.is_closed() {
        let began = Instant::now();
        match read(&options, &mut socket, &mut known).await {
            Ok(routes) => note(&options, &told, routes, &known),
            Err(trouble) => {
                socket = None;
                note_trouble(&options, &told, &trouble);
            }
        }
        sleep((began.elapsed() * PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX)).await;
    }
}

async fn read(
    options: &BirdOptions,
    socket: &mut Option<BirdSocket>,
    known: &mut Known,
) -> Result<BirdRoutes, BirdTrouble> {
    let open = match socket.take() {
        Some(open) => socket.insert(open),
        None => {
            let mut open = BirdSocket::connect(&options.socket).await?;
            let started = open.started().await?;
            if !known.started.is_empty() && known.started != started {
                known.settles = Some(Instant::now() + SETTLING);
            }
            known.started = started;
            socket.insert(open)
        }
    };
    open.routes(&options.tables).await
}

fn note(options: &BirdOptions, told: &Sender<BirdReading>, routes: BirdRoutes, known: &Known) {
    let BirdRoutes { announced, dead, own } = routes;
    let is_settled = known.settles.is_none_or(|settles| Instant::now() >= settles);
    told.send_modify(|reading| {
        let announced =
            if is_settled { announced } else { with_old(announced, &reading.announced) };
        if reading.number == 0 || *reading.announced != announced {
            reading.number += 1;
        }
        let status = BirdStatus { problem: None, announced: announced.len(), dead, own };
        let was = std::mem::replace(&mut reading.status, status);
        (reading.announced, reading.at) = (Arc::new(announced), Some(Instant::now()));
        if was.problem.is_some() || reading.number == 1 {
            let (socket, count) = (options.socket.display(), reading.announced.len());
            crate::tell(&format!("{socket}: BIRD has {count} routes for viewers"));
        }
        if dead > 0 && was.dead == 0 {
            crate::tell(&format!(
                "{}: {dead} BGP routes lead nowhere according to BIRD, so they are not announced: \
                 see \"Routes that lead nowhere\" in docs/routing.md",
                options.socket.display()
            ));
        }
    });
}

/// Adds the old routes: nothing is withdrawn.
fn with_old(mut announced: Vec<Announced>, old: &[Announced]) -> Vec<Announced> {
    let (_, gone) = route_changes(old, &announced);
    announced.extend(old.iter().filter(|one| gone.binary_search(&one.prefix).is_ok()));
    announced.sort_unstable_by_key(|one| one.prefix);
    announced
}

fn note_trouble(options: &BirdOptions, told: &Sender<BirdReading>, trouble: &BirdTrouble) {
    let problem = trouble.to_string();
    told.send_modify(|reading| {
        if reading.status.problem.as_ref() != Some(&problem) {
            crate::tell(&format!("{}: {problem}", options.socket.display()));
            reading.status.problem = Some(problem);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bird_that_has_just_started_takes_nothing_back() {
        let routes = |text: &str| Announced::read_file(text).expect("routes");
        let old = routes("10.0.0.0/8\n192.0.2.0/24 med=1");
        assert_eq!(with_old(vec![], &old), old);
        let new = routes("192.0.2.0/24 med=2\n::/0");
        assert_eq!(with_old(new, &old), routes("10.0.0.0/8\n192.0.2.0/24 med=2\n::/0"));
    }
}
