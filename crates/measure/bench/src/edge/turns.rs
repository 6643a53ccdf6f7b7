//! The turns: their order, and what each one measures.

use super::outcome::{Outcome, State, Turn};
use super::{Options, Part};
use crate::versus::peer::Recipe;
use crate::versus::side::{Given, Side};
use crate::versus::turn::{Task, expect_clean};
use load::{Options as LoadOptions, Running};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit for drawing the library.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often to check whether enough was drawn: at 10 Gb/s, this is 6 MB late.
const GLANCE: Duration = Duration::from_millis(5);

/// How often the library is drawn before warm turns. Our hot set takes what is requested again and again, and was not full after four
/// draws. An edge fills its hot set later than a server that has all files from the start.
const FILL_DRAWS: u64 = 16;

/// A server to compare.
pub(super) struct Cache {
    pub(super) recipe: Recipe,
    /// Its cache folder; `None` if it has no cache.
    pub(super) folder: Option<PathBuf>,
}

impl Cache {
    pub(super) fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// Makes the cache folder, or empties it, while no server uses it.
    pub(super) fn empty(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => std::fs::create_dir_all(folder),
        }
    }
}

/// Runs the turns.
pub(super) struct Runner<'a> {
    caches: Vec<Cache>,
    given: Given<'a>,
    task: Task<'a>,
    /// `None` only during a restart.
    sides: Vec<Option<Side>>,
}

impl<'a> Runner<'a> {
    /// Starts all servers.
    pub(super) fn start(caches: Vec<Cache>, given: Given<'a>, task: Task<'a>) -> io::Result<Self> {
        caches.iter().try_for_each(Cache::empty)?;
        let sides = caches.iter().map(|cache| Side::start(&cache.recipe, &given).map(Some));
        let sides = sides.collect::<io::Result<_>>()?;
        Ok(Self { caches, given, task, sides })
    }

    pub(super) fn sides(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().flatten()
    }

    /// Runs all turns: first with empty caches, then with full ones; forwards, backwards and so on, so that no side always follows the same
    /// one.
    pub(super) fn play(
        &mut self,
        options: &Options,
        outcome: &mut Outcome,
        progress: &mut impl FnMut(String),
    ) -> io::Result<()> {
        let all = 0..self.caches.len();
        for (part, state) in [(Part::Cold, State::Cold), (Part::Warm, State::Warm)] {
            if !options.parts.contains(&part) {
                continue;
            }
            let takes_part =
                |index: &usize| state == State::Warm || self.caches[*index].has_folder();
            let mut order: Vec<_> = all.clone().filter(takes_part).collect();
            if state == State::Warm {
                progress("filling the caches".to_owned());
                order.iter().try_for_each(|index| self.fill(*index))?;
            }
            for number in 1..=options.rounds {
                for index in &order {
                    let turn = match state {
                        State::Cold => self.cold(*index),
                        State::Warm => self.warm(*index, progress),
                    };
                    let turn = turn.map_err(|error| self.blame(*index, &error))?;
                    progress(outcome.note(number, *index, state, turn));
                }
                order.reverse();
            }
        }
        Ok(())
    }

    fn blame(&self, index: usize, error: &io::Error) -> io::Error {
        let name = &self.caches[index].recipe.name;
        let last_words = self.sides[index].as_ref().map(Side::last_words).unwrap_or_default();
        let what = format!("{name} failed, nothing is compared: {error}{last_words}");
        io::Error::new(error.kind(), what)
    }

    /// Starts a server with an empty cache, and measures the cost of sending the library.
    fn cold(&mut self, index: usize) -> io::Result<Turn> {
        // Stop the previous one first, because its cache is removed.
        self.sides[index] = None;
        self.caches[index].empty()?;
        // Otherwise the kernel writes to disk what earlier turns have left, and the turn of whichever server comes next pays for it.
        rustix::fs::sync();
        self.sides[index] = Some(Side::start(&self.caches[index].recipe, &self.given)?);
        let library = self.task.library;
        let wanted = library.file_bytes * library.files as u64 / 10 * 9;
        let turn = self.draw(index, wanted)?;
        let side = self.sides[index].as_ref().expect("it was just started");
        self.task.check(side, self.given.interrupt)?;
        Ok(turn)
    }

    /// Draws the library often enough that all of it is in the cache and in memory.
    fn fill(&mut self, index: usize) -> io::Result<()> {
        let library = self.task.library;
        self.draw(index, FILL_DRAWS * library.file_bytes * library.files as u64).map(drop)
    }

    fn warm(&mut self, index: usize, progress: &mut impl FnMut(String)) -> io::Result<Turn> {
        let side = self.sides[index].as_mut().expect("all were started");
        let round = self.task.take(side, self.given.interrupt, progress)?;
        Ok(Turn {
            gigabits: round.counts.body_bytes as f64 * 8e-9,
            cpu_seconds: round.cpu_seconds,
            wall_seconds: round.wall_seconds,
            is_client_bound: round.is_client_bound,
        })
    }

    /// Requests file after file until this many bytes have arrived.
    fn draw(&mut self, index: usize, wanted_bytes: u64) -> io::Result<Turn> {
        let side = self.sides[index].as_mut().expect("all were started");
        let options = LoadOptions {
            targets: self.task.targets(side)?,
            connections: self.task.connections,
            cpus: self.task.client_cpus.clone(),
            duration: PATIENCE,
            patience: Duration::from_secs(60),
            ..self.task.workload.load(1, 0.0)
        };
        let (before, began) = (side.read()?, Instant::now());
        let running = Running::start(options)?;
        let has_come = |seen: load::Snapshot| seen.body_bytes >= wanted_bytes || seen.errors > 0;
        while !running.is_over() && !has_come(running.snapshot()) {
            self.given.interrupt.check()?;
            std::thread::sleep(GLANCE);
        }
        let (counts, after) = (running.snapshot(), side.read()?);
        let wall_seconds = began.elapsed().as_secs_f64();
        running.stop();
        let outcome = running.join()?;
        expect_clean(&outcome)?;
        side.check()?;
        if counts.body_bytes < wanted_bytes {
            return Err(io::Error::other(format!(
                "only {} of {} MiB came in {} s",
                counts.body_bytes >> 20,
                wanted_bytes >> 20,
                PATIENCE.as_secs()
            )));
        }
        Ok(Turn {
            gigabits: counts.body_bytes as f64 * 8e-9,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            wall_seconds,
            is_client_bound: outcome.is_client_bound(),
        })
    }
}
