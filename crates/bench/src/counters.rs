//! Hardware counters of a server: cycles, instructions and last-level cache misses of its threads, and bytes moved over
//! the memory bus if the machine's memory controllers are counted.
//!
//! If there are none (as in most virtual machines) or they may not be read, the results say so. Nothing is guessed.

use perf_event::events::{Dynamic, Event, Hardware as Id};
use perf_event::{Builder, Counter, ReadFormat};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::Path;

/// Where the kernel lists what can be counted.
const SOURCES: &str = "/sys/bus/event_source/devices";

/// Intel's memory controllers count transfers under these names; the kernel gives the size of one.
const MEMORY_EVENTS: [&str; 2] = ["cas_count_read", "cas_count_write"];

/// A mebibyte, the unit of those sizes.
const MIB: f64 = 1_048_576.0;

/// Why there are no hardware counters; `None` if there are.
pub(crate) fn unavailable() -> Option<String> {
    open_task(Id::CPU_CYCLES, 0).err().map(|error| reason(&error))
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let path = "/proc/sys/kernel/perf_event_paranoid";
            let level = fs::read_to_string(path).unwrap_or_default();
            format!(
                "not permitted: kernel.perf_event_paranoid is {}; run as root, or set it to 1",
                level.trim()
            )
        }
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "the kernel offers no hardware counters here, as in most virtual machines".to_owned()
        }
        _ => error.to_string(),
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    cycles: f64,
    instructions: f64,
    llc_misses: f64,
    /// For the whole machine, not for the server alone.
    dram_bytes: Option<f64>,
}

impl Counts {
    /// What was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            cycles: self.cycles - earlier.cycles,
            instructions: self.instructions - earlier.instructions,
            llc_misses: self.llc_misses - earlier.llc_misses,
            dram_bytes: self.dram_bytes.zip(earlier.dram_bytes).map(|(now, then)| now - then),
        }
    }

    /// Per byte of body.
    pub(crate) fn to_json(self, body_bytes: u64) -> Value {
        let per_byte = |count: f64| (body_bytes > 0).then(|| count / body_bytes as f64);
        json!({
            "cycles_per_byte": per_byte(self.cycles),
            "instructions_per_byte": per_byte(self.instructions),
            "llc_misses_per_byte": per_byte(self.llc_misses),
            "dram_bytes_per_byte": self.dram_bytes.and_then(per_byte),
        })
    }
}

/// Running counters.
#[derive(Debug)]
pub(crate) struct Counters {
    /// For each thread: cycles, instructions, last-level cache misses.
    threads: Vec<[Counter; 3]>,
    /// For each memory controller, with the bytes that one count is worth.
    memory: Vec<(Counter, f64)>,
}

impl Counters {
    /// Counts for the present threads of a process and its children, and for those that these start. `None` if there
    /// are no counters.
    pub(crate) fn of(processes: &[u32]) -> Option<Self> {
        let threads: Option<Vec<_>> =
            processes.iter().flat_map(|id| threads(*id)).map(open).collect();
        let threads = threads.filter(|threads| !threads.is_empty())?;
        Some(Self { threads, memory: memory_controllers() })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// If the kernel takes a counter away.
    pub(crate) fn read(&mut self) -> io::Result<Counts> {
        let mut counts = Counts::default();
        for [cycles, instructions, misses] in &mut self.threads {
            counts.cycles += count(cycles)?;
            counts.instructions += count(instructions)?;
            counts.llc_misses += count(misses)?;
        }
        let mut bytes = 0.0;
        for (counter, worth) in &mut self.memory {
            bytes += count(counter)? * *worth;
        }
        counts.dram_bytes = (!self.memory.is_empty()).then_some(bytes);
        Ok(counts)
    }
}

fn threads(process: u32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

fn open(thread: i32) -> Option<[Counter; 3]> {
    let open = |id| open_task(id, thread).ok();
    Some([open(Id::CPU_CYCLES)?, open(Id::INSTRUCTIONS)?, open(Id::CACHE_MISSES)?])
}

/// A counter of one thread (0: this one), kernel included.
fn open_task(event: impl Event, thread: i32) -> io::Result<Counter> {
    let mut builder = Builder::new(event);
    builder.observe_pid(thread).any_cpu().inherit(true).include_kernel();
    builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(counter)
}

/// The count, scaled up for the time in which the counter shared its hardware with others.
fn count(counter: &mut Counter) -> io::Result<f64> {
    let data = counter.read_full()?;
    let share = match (data.time_running(), data.time_enabled()) {
        (Some(running), Some(enabled)) if !running.is_zero() => {
            enabled.as_secs_f64() / running.as_secs_f64()
        }
        _ => 1.0,
    };
    Ok(data.count() as f64 * share)
}

fn memory_controllers() -> Vec<(Counter, f64)> {
    let sources = fs::read_dir(SOURCES).into_iter().flatten().flatten();
    let named = |path: &Path| path.join("events").join(MEMORY_EVENTS[0]).exists();
    let paths = sources.map(|source| source.path()).filter(|path| named(path));
    paths.flat_map(|path| MEMORY_EVENTS.map(|event| open_memory(&path, event))).flatten().collect()
}

fn open_memory(source: &Path, event: &str) -> Option<(Counter, f64)> {
    let mut builder = Dynamic::builder(source).ok()?;
    builder.event(event).ok()?;
    let (scale, unit) = (builder.scale().ok()??, builder.unit().ok()??);
    if unit != "MiB" {
        return None;
    }
    let counted = builder.build().ok()?;
    let mut builder = Builder::new(counted);
    builder.any_pid().one_cpu(0).include_kernel();
    builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    let mut counter = builder.build().ok()?;
    counter.enable().ok()?;
    Some((counter, scale * MIB))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;

    #[test]
    fn counters_are_had_or_it_is_said_why_not() {
        let counters = Counters::of(&[std::process::id()]);
        match unavailable() {
            Some(reason) => {
                assert!(counters.is_none() && !reason.is_empty());
                eprintln!("SKIPPED hardware counters: {reason}");
            }
            None => {
                let mut counters = counters.expect("they were there a moment ago");
                let before = counters.read().unwrap();
                std::hint::black_box((0..1_000_000u64).fold(0, |sum, n| sum ^ n));
                assert!(counters.read().unwrap().since(&before).instructions > 0.0);
            }
        }
    }

    #[test]
    fn a_counter_that_every_machine_has_counts() {
        let Ok(mut clock) = open_task(Software::TASK_CLOCK, 0) else {
            eprintln!("SKIPPED the task clock: perf_event_open is not permitted here");
            return;
        };
        std::hint::black_box((0..1_000_000u64).fold(0, |sum, n| sum ^ n));
        assert!(count(&mut clock).unwrap() > 0.0);
    }

    #[test]
    fn missing_and_forbidden_counters_are_told_apart() {
        let forbidden = reason(&io::Error::from_raw_os_error(libc::EACCES));
        assert!(forbidden.contains("perf_event_paranoid"), "{forbidden}");
        assert!(reason(&io::Error::from_raw_os_error(libc::ENOENT)).contains("virtual"));
    }

    #[test]
    fn what_is_not_counted_is_null_and_not_nought() {
        let counts = Counts { cycles: 50.0, ..Counts::default() };
        let json = counts.to_json(100);
        assert_eq!(json["cycles_per_byte"], 0.5);
        assert!(json["dram_bytes_per_byte"].is_null());
        assert!(counts.to_json(0)["cycles_per_byte"].is_null());
    }
}
