//! Measures the hardware in a minute at most: memory within and across nodes, the library's disks alone and together, encryption, and
//! sending over loopback. Reads the library and writes nothing to it.
//!
//! `bench limit` shows what a server makes of one core. This shows what all cores and disks can do, which is the limit on a large machine.
//! Read `memory` and `disks` for how each figure is measured.

mod disks;
mod memory;

use crate::library::Library;
use crate::limit::parts::{Part, Rate, Stage};
use crate::versus::{SERVER_CPU, client_cpus};
use disks::DiskFiles;
use load::interrupt::Interrupt;
use memory::NodePair;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Parts measured on one core: encryption from a warm buffer, encryption from memory, and sending.
const PARTS: [Part; 3] = [Part::SealAes128, Part::SealHot, Part::Send];

/// The times below are for a run of this many seconds. The rest of it goes to preparations.
const WHOLE_SECONDS: f64 = 60.0;

/// Seconds of each part.
const PART_SECONDS: f64 = 2.0;

/// Seconds for all pairs of nodes together, and for all disks together.
const MEMORY_SECONDS: f64 = 16.0;
const DISKS_SECONDS: f64 = 24.0;

/// Limit for one of them.
const WAY_SECONDS_MAX: f64 = 1.0;
const DISK_SECONDS_MAX: f64 = 4.0;

/// The results.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    parts: Vec<(Part, Rate)>,
    memory: Vec<(NodePair, f64)>,
    disks: Vec<(String, f64)>,
    /// All disks at the same time, if there are several.
    together_gbps: Option<f64>,
    /// Measurements that failed, with the reasons.
    troubles: Vec<String>,
    /// The user interrupted.
    pub interrupted: bool,
}

/// Measures for at most `seconds`, not counting preparations, and reports to `progress` what comes next.
pub fn run(
    library: &[PathBuf],
    seconds: u16,
    interrupt: &Interrupt,
    mut progress: impl FnMut(&str),
) -> Measurements {
    let (mut found, scale) = (Measurements::default(), f64::from(seconds) / WHOLE_SECONDS);
    type Step = fn(&mut Measurements, &[PathBuf], f64, &Interrupt) -> io::Result<()>;
    let steps: [(&str, Step); 3] = [
        ("encryption and sending, on one core", measure_parts),
        ("memory, with all cores", measure_memory),
        ("the library's disks", measure_disks),
    ];
    for (what, step) in steps {
        progress(what);
        match step(&mut found, library, scale, interrupt) {
            Err(_) if interrupt.is_asked() => {
                found.interrupted = true;
                break;
            }
            Err(error) => found.troubles.push(format!("{what}: {error}")),
            Ok(()) => {}
        }
    }
    found
}

fn measure_parts(
    found: &mut Measurements,
    _: &[PathBuf],
    scale: f64,
    interrupt: &Interrupt,
) -> io::Result<()> {
    let scratch = tempfile::tempdir()?;
    // These parts read no files.
    let library = Library::at(scratch.path(), 0, 0);
    let stage = Stage {
        library: Arc::new(library),
        scratch: scratch.path().to_owned(),
        cpu: SERVER_CPU,
        sink_cpu: client_cpus()?[0],
        seconds: PART_SECONDS * scale,
    };
    for part in PARTS {
        interrupt.check()?;
        found.parts.push((part, stage.measure(part)?));
    }
    Ok(())
}

fn measure_memory(
    found: &mut Measurements,
    _: &[PathBuf],
    scale: f64,
    interrupt: &Interrupt,
) -> io::Result<()> {
    let ways = memory::ways();
    let seconds = (MEMORY_SECONDS / ways.len().max(1) as f64).min(WAY_SECONDS_MAX);
    for way in ways {
        interrupt.check()?;
        let rate = memory::copied(&way, seconds * scale)?;
        found.memory.push((way, rate));
    }
    Ok(())
}

fn measure_disks(
    found: &mut Measurements,
    library: &[PathBuf],
    scale: f64,
    interrupt: &Interrupt,
) -> io::Result<()> {
    if library.is_empty() {
        return Err(io::Error::other("name the library: fullbore doctor DIR --measure"));
    }
    let mut disks = Vec::new();
    for folder in library {
        match DiskFiles::find(folder) {
            Ok(files) => disks.push(files),
            Err(error) => found.troubles.push(format!("{}: {error}", folder.display())),
        }
    }
    disks::one_for_each_device(&mut disks);
    let turns = disks.len() + usize::from(disks.len() > 1);
    let seconds = (DISKS_SECONDS / turns.max(1) as f64).min(DISK_SECONDS_MAX) * scale;
    for disk in &disks {
        interrupt.check()?;
        match disks::read(&[disk], seconds) {
            Ok(gbps) => found.disks.push((disk.name(), gbps)),
            Err(error) => found.troubles.push(format!("{}: {error}", disk.name())),
        }
    }
    if disks.len() > 1 {
        interrupt.check()?;
        found.together_gbps = Some(disks::read(&disks.iter().collect::<Vec<_>>(), seconds)?);
    }
    Ok(())
}

impl Measurements {
    /// GB/s at which the CPUs of a node (first) copy memory of a node (second).
    pub fn node_rates(&self) -> impl Iterator<Item = (u32, u32, f64)> {
        self.memory.iter().map(|(way, gbytes)| (way.from, way.to, *gbytes))
    }

    /// As text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "Measured:")?;
        for (part, rate) in &self.parts {
            let gbps = rate.gbps_per_cpu_second;
            writeln!(text, "   {:24} {gbps:7.1} Gb/s a core   {}", part.name(), part.what())?;
        }
        for (way, gbytes) in &self.memory {
            let name = format!("memory {}", way.name());
            writeln!(
                text,
                "   {name:24} {gbytes:7.1} GB/s   read and written together, all cores"
            )?;
        }
        for (disk, gbps) in &self.disks {
            writeln!(text, "   {disk:24} {gbps:7.1} Gb/s   read past the page cache")?;
        }
        if let Some(gbps) = self.together_gbps {
            let sum: f64 = self.disks.iter().map(|(_, gbps)| gbps).sum();
            let share = 100.0 * gbps / sum;
            writeln!(
                text,
                "   {:24} {gbps:7.1} Gb/s   {share:.0}% of their sum",
                "all disks together"
            )?;
        }
        for trouble in &self.troubles {
            writeln!(text, "   not measured: {trouble}")?;
        }
        Ok(())
    }

    /// As JSON. `parts` has the same form as in `bench limit`.
    pub fn to_json(&self) -> Value {
        let parts = self.parts.iter().map(|(part, rate)| {
            json!({
                "name": part.name(),
                "what": part.what(),
                "gbps": rate.gbps_per_cpu_second,
                "wall_gbps": rate.gbps,
            })
        });
        let memory = self.memory.iter().map(|(way, gbytes)| {
            json!({ "cpus_of_node": way.from, "memory_of_node": way.to, "gbytes_per_second": gbytes })
        });
        let disks = self.disks.iter().map(|(disk, gbps)| json!({ "folder": disk, "gbps": gbps }));
        json!({
            "machine": crate::machine_json(),
            "parts": parts.collect::<Vec<_>>(),
            "memory": memory.collect::<Vec<_>>(),
            "disks": disks.collect::<Vec<_>>(),
            "disks_together_gbps": self.together_gbps,
            "not_measured": self.troubles,
            "interrupted": self.interrupted,
        })
    }
}
