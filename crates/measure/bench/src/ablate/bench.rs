//! Runs the bench: for each workload a baseline, then each of its optimisations switched off.

use super::drive::{Asks, Load, Stage};
use super::group::Group;
use super::list::{Ablation, Off, Work, chosen};
use super::outcome::{Baseline, Outcome, Row};
use super::pair::{self, Pair};
use super::subject::{Place, Setting, Subject};
use super::trial::Trial;
use super::vector_aes;
use crate::library::Library;
use crate::machine_json::machine_json;
use crate::search::{Attempt as _, Bounds, Found, search};
use load::interrupt::Interrupt;
use machine::Machine;
use std::io;
use std::path::{Path, PathBuf};

/// Number of files in the library: enough to spread the viewers.
const FILES: usize = 64;

/// Where memory is scarce, the server gets memory for one part in this many of the library.
const SCARCE_SHARE: u64 = 4;

/// The least memory that a server gets where it is scarce: for its buffers, its sockets, and itself.
const SCARCE_BYTES_MIN: u64 = 192 << 20;

/// Viewers to start with when there is no earlier result to go by.
const VIEWERS_FIRST: usize = 64;

/// The first leap when there is one: from the baseline, or from the previous workload.
const LEAP_NEAR: f64 = 1.25;

/// Typical number of steps of a search, to estimate how long it will take.
const STEPS_PER_SEARCH: f64 = 9.0;

/// Unmeasured seconds of a step, while viewers connect and servers start.
const STEP_SECONDS_BESIDE: f64 = 2.5;

/// Bytes of a small range: players request these first, and keep doing so when they play at a high rate.
const SMALL_RANGE_BYTES: u64 = 45_000;
const LONG_RANGE_BYTES: u64 = 1_070_000;

/// Requests of each viewer in a step, at least.
const REQUESTS_PER_STEP_MIN: f64 = 4.0;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The switches to measure, by name; empty means all.
    pub switches: Vec<String>,
    /// The rate of each viewer.
    pub rate_bits_per_second: u64,
    /// Seconds of a step, after its viewers have connected.
    pub seconds: f64,
    /// Precision of the search for the greatest stable load, as a share of that load.
    pub resolution: f64,
    /// Limit on viewers. Without it, as many as this process may have open files: each viewer takes one.
    pub viewers_max: Option<usize>,
    /// Bytes of the library.
    pub library_bytes: u64,
    /// Where to create the library; the system's temporary directory if unset.
    pub scratch: Option<PathBuf>,
}

/// Runs the bench and reports each step to `progress`. Ctrl-C ends it early and keeps what was measured so far.
///
/// # Errors
/// If a switch does not exist, a server does not start, or a library cannot be created.
pub fn run(options: &Options, progress: impl FnMut(String)) -> io::Result<Outcome> {
    let ablations = chosen(&options.switches).map_err(io::Error::other)?;
    let scratch = crate::scratch::folder(options.scratch.as_ref())?;
    let interrupt = Interrupt::on_signal()?;
    // If the limit cannot be raised, fewer viewers fit.
    let _ = machine::raise_nofile();
    let machine = Machine::probe();
    let mut bench = Bench {
        options,
        scratch: scratch.path(),
        library: Library::make(
            &scratch.path().join("library"),
            FILES,
            options.library_bytes,
            &interrupt,
        )?,
        viewers_max: options.viewers_max.unwrap_or_else(|| viewers_for(&machine)),
        cpus: machine.cpus,
        interrupt,
        guess: None,
        progress,
    };
    bench.run(&ablations)
}

struct Bench<'a, P> {
    options: &'a Options,
    scratch: &'a Path,
    library: Library,
    cpus: Vec<u32>,
    viewers_max: usize,
    interrupt: Interrupt,
    /// The latest greatest stable load with everything on.
    guess: Option<usize>,
    progress: P,
}

impl<P: FnMut(String)> Bench<'_, P> {
    fn run(&mut self, ablations: &[Ablation]) -> io::Result<Outcome> {
        self.announce(ablations);
        let mut outcome = Outcome {
            rate_bits_per_second: self.options.rate_bits_per_second,
            machine: machine_json(),
            baselines: Vec::new(),
            rows: Vec::new(),
            interrupted: false,
        };
        for group in ablations.chunk_by(|one, next| one.work == next.work) {
            if !self.is_interrupted() {
                self.measure(group[0].work, group, &mut outcome);
            }
        }
        outcome.interrupted = self.is_interrupted();
        Ok(outcome)
    }

    fn announce(&mut self, ablations: &[Ablation]) {
        let works = ablations.chunk_by(|one, next| one.work == next.work).count();
        let searches = (works + ablations.len()) as f64;
        let seconds = searches * STEPS_PER_SEARCH * (self.options.seconds + STEP_SECONDS_BESIDE);
        (self.progress)(format!(
            "{} switches and {works} baselines, each a search of about {STEPS_PER_SEARCH} steps: about {:.0} minutes",
            ablations.len(),
            (seconds / 60.0).ceil(),
        ));
        if self.cpus.len() < 2 {
            (self.progress)(
                "there is only one CPU: server and clients share it, so the figures mean little"
                    .into(),
            );
        }
    }

    /// Measures a workload's baseline and each optimisation that matters in it.
    fn measure(&mut self, work: Work, ablations: &[Ablation], outcome: &mut Outcome) {
        let group = match self.scarce_group(work) {
            Ok(group) => group,
            Err(why) => return self.skip(ablations, &why, outcome),
        };
        if let Some(why) = work.takes_namespaces().then(pair::obstacle).flatten() {
            return self.skip(ablations, &why, outcome);
        }
        let feasible = |ablation: &&Ablation| obstacle(ablation).is_none();
        if ablations.iter().any(|ablation| feasible(&ablation)) {
            let found = self.find_or_tell(work, None, group.as_ref());
            self.guess = found.best.as_ref().map(|best| best.viewers).or(self.guess);
            outcome.baselines.push(Baseline::new(work, &found));
        }
        for ablation in ablations {
            if self.is_interrupted() {
                return;
            }
            if let Some(why) = obstacle(ablation) {
                self.skip(&[*ablation], &why, outcome);
                continue;
            }
            let found = self.find_or_tell(work, Some(ablation), group.as_ref());
            // Interrupted before any load was stable: leave the row out, as if it had not begun.
            if found.best.is_some() || !self.is_interrupted() {
                outcome.rows.push(Row::new(*ablation, &found));
            }
        }
    }

    fn skip(&mut self, ablations: &[Ablation], why: &str, outcome: &mut Outcome) {
        for ablation in ablations {
            (self.progress)(format!("SKIPPED {}: {why}", ablation.name));
            outcome.rows.push(Row::skipped(*ablation, why.to_owned()));
        }
    }

    fn scarce_group(&self, work: Work) -> Result<Option<Group>, String> {
        let bytes = (self.options.library_bytes / SCARCE_SHARE).max(SCARCE_BYTES_MIN);
        (work == Work::Scarce).then(|| Group::with_memory(bytes)).transpose()
    }

    /// Like [`Self::find`], but a failure only ends this search and keeps earlier results.
    fn find_or_tell(
        &mut self,
        work: Work,
        without: Option<&Ablation>,
        group: Option<&Group>,
    ) -> Found<Trial> {
        self.find(work, without, group).unwrap_or_else(|error| {
            let stopped_by = error.to_string();
            (self.progress)(format!("{} FAILED: {stopped_by}", label(work, without)));
            Found { best: None, worst: None, stopped_by }
        })
    }

    /// Searches for the greatest stable load of a new server.
    fn find(
        &mut self,
        work: Work,
        without: Option<&Ablation>,
        group: Option<&Group>,
    ) -> io::Result<Found<Trial>> {
        let cpus = self.server_cpus(work);
        let setting = Setting {
            library: &self.library.root,
            scratch: self.scratch,
            cpus: &cpus,
            arguments: arguments(work, without),
            hides_vector_aes: without.is_some_and(|one| one.off == Off::VectorAes),
            place: place(work, without, group),
        };
        self.library.prepare(if is_cold(work) { 0 } else { FILES })?;
        let subject = Subject::start(&setting)?;
        let stage = Stage {
            address: subject.address,
            server: subject.process(),
            server_cpus: cpus.len(),
            client_cpus: vec![*self.cpus.last().expect("this program runs on one")],
            has_tls: without.is_none_or(|one| one.off != Off::Tls),
            files: FILES,
            interrupt: self.interrupt.clone(),
        };
        let load = self.load(work);
        let label = label(work, without);
        let bounds = self.bounds(work);
        let (library, progress) = (&self.library, &mut self.progress);
        let found = search(bounds, |viewers| {
            if is_cold(work) {
                library.evict(0)?;
            }
            let trial = stage.play(&load, viewers)?;
            if let Some(trial) = &trial {
                progress(describe(&label, trial));
            }
            Ok(trial)
        })?;
        Ok(match work {
            Work::Handshakes => found.explained("the clients were at their limit"),
            _ => found,
        })
    }

    fn bounds(&self, work: Work) -> Bounds {
        let most = self.viewers_max;
        let from = |first, leap| {
            let (resolution, steps_max) = (self.options.resolution, usize::MAX);
            Bounds { first, most, leap, resolution, steps_max }
        };
        match (work, self.guess) {
            // These viewers go as fast as they can, so there is no greater load to search for.
            (Work::Handshakes, _) => {
                let first = VIEWERS_FIRST.min(most);
                Bounds { most: first, ..from(first, LEAP_NEAR) }
            }
            (_, Some(first)) => from(first, LEAP_NEAR),
            (_, None) => from(VIEWERS_FIRST, 2.0),
        }
    }

    fn load(&self, work: Work) -> Load {
        let Options { rate_bits_per_second: bits_per_second, seconds, .. } = *self.options;
        // Every viewer must send a few requests in a step, however slow it is.
        let bytes_max = bits_per_second as f64 / 8.0 * seconds / REQUESTS_PER_STEP_MIN;
        let ranges = |bytes: u64| Asks::Ranges {
            bytes: bytes.min(bytes_max as u64).max(1),
            bits_per_second,
        };
        let asks = match work {
            Work::Handshakes => Asks::Handshakes,
            Work::Small => ranges(SMALL_RANGE_BYTES),
            _ => ranges(LONG_RANGE_BYTES),
        };
        Load { seconds, asks }
    }

    fn server_cpus(&self, work: Work) -> Vec<u32> {
        let count = if work == Work::Workers { 2 } else { 1 };
        self.cpus.iter().copied().take(count).collect()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_asked()
    }
}

/// One descriptor for each viewer, and some for everything else.
fn viewers_for(machine: &Machine) -> usize {
    let files = machine.nofile.map_or(1024, |limit| limit.soft);
    usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(200).max(1)
}

/// True if the page cache must hold nothing of the library when a step begins.
fn is_cold(work: Work) -> bool {
    work.is_direct() || work == Work::Scarce
}

/// Why something cannot be switched off on this machine, although the workload itself runs.
fn obstacle(ablation: &Ablation) -> Option<String> {
    match ablation.off {
        Off::VectorAes => vector_aes::obstacle(),
        Off::Switch | Off::SwitchOf(_) | Off::Tls => None,
        Off::Offloads { .. } | Off::Mtu(_) | Off::Interrupts(_) => None,
    }
}

fn arguments(work: Work, without: Option<&Ablation>) -> Vec<String> {
    let mut words = vec!["--disk", if work.is_direct() { "direct" } else { "auto" }];
    match without.map(|one| (one.off, one.name)) {
        Some((Off::Switch, name) | (Off::SwitchOf(name), _)) => words.extend(["--off", name]),
        Some((Off::Tls, _)) => words.extend(["--tls", "off"]),
        _ => {}
    }
    words.into_iter().map(str::to_owned).collect()
}

fn place<'a>(work: Work, without: Option<&Ablation>, group: Option<&'a Group>) -> Place<'a> {
    if let Some(group) = group {
        return Place::In(group);
    }
    if work == Work::Bypass {
        return Place::BehindTap;
    }
    if work == Work::Frames {
        return Place::BehindXdp;
    }
    if work != Work::Pair {
        return Place::Here;
    }
    let whole = Pair::PLAIN;
    Place::Behind(match without.map(|one| one.off) {
        Some(Off::Offloads { server, clients }) => {
            Pair { server_offloads: server, client_offloads: clients, ..whole }
        }
        Some(Off::Mtu(mtu)) => Pair { mtu, ..whole },
        Some(Off::Interrupts(interrupts)) => Pair { interrupts: Some(interrupts), ..whole },
        _ => whole,
    })
}

fn label(work: Work, without: Option<&Ablation>) -> String {
    format!("{:10} without {:13}", work.name(), without.map_or("(nothing)", |one| one.name))
}

fn describe(label: &str, trial: &Trial) -> String {
    let Trial { viewers, gbps, cpu_percent, handshakes_per_second, .. } = trial;
    let verdict = trial.trouble().unwrap_or_else(|| "stable".into());
    let achieved = if trial.asked_bits_per_second.is_some() {
        format!("{gbps:6.2} Gb/s")
    } else {
        format!("{handshakes_per_second:6.0} handshakes/s")
    };
    format!("{label} {viewers:6} viewers  {achieved}  {cpu_percent:5.1}% CPU  {verdict}")
}
