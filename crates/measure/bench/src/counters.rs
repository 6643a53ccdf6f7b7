//! Hardware counters of a server: cycles, instructions and last-level cache misses of its threads, and bytes to and from memory and between
//! sockets, if the machine counts them ([`buses`]).
//!
//! If there are none (as in most virtual machines) or they may not be read, the results say so. No figure is estimated.

mod buses;

use buses::{Bus, BusEvent};
use perf_event::events::{Event, Hardware as Id};
use perf_event::{Builder, Counter, ReadFormat};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::Path;

/// Where the kernel lists sources of events.
const SOURCES: &str = "/sys/bus/event_source/devices";

/// Why there are no hardware counters; `None` if there are some.
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

/// Counts since the counters were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    cycles: f64,
    instructions: f64,
    llc_misses: f64,
    /// For the whole machine, not only the server.
    dram_bytes: Option<f64>,
    /// The same, for bytes between sockets.
    socket_bytes: Option<f64>,
}

impl Counts {
    /// The difference from `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let since =
            |now: Option<f64>, then| now.zip(then).map(|(now, then): (f64, f64)| now - then);
        Self {
            cycles: self.cycles - earlier.cycles,
            instructions: self.instructions - earlier.instructions,
            llc_misses: self.llc_misses - earlier.llc_misses,
            dram_bytes: since(self.dram_bytes, earlier.dram_bytes),
            socket_bytes: since(self.socket_bytes, earlier.socket_bytes),
        }
    }

    /// The counts per byte of body, as JSON.
    pub(crate) fn to_json(self, body_bytes: u64) -> Value {
        let per_byte = |count: f64| (body_bytes > 0).then(|| count / body_bytes as f64);
        json!({
            "cycles_per_byte": per_byte(self.cycles),
            "instructions_per_byte": per_byte(self.instructions),
            "llc_misses_per_byte": per_byte(self.llc_misses),
            "dram_bytes_per_byte": self.dram_bytes.and_then(per_byte),
            "socket_bytes_per_byte": self.socket_bytes.and_then(per_byte),
        })
    }
}

/// Running counters.
#[derive(Debug)]
pub(crate) struct Counters {
    /// For each thread: cycles, instructions, last-level cache misses.
    threads: Vec<[Counter; 3]>,
    /// For the whole machine.
    buses: Vec<(Counter, Bus, f64)>,
}

impl Counters {
    /// Opens counters for the current threads of a process and its children, and for those that they start. `None` if there are no
    /// counters.
    pub(crate) fn of(processes: &[u32]) -> Option<Self> {
        let threads: Option<Vec<_>> =
            processes.iter().flat_map(|id| threads(*id)).map(open).collect();
        let threads = threads.filter(|threads| !threads.is_empty())?;
        Some(Self { threads, buses: buses() })
    }

    /// Reads the counts so far.
    ///
    /// # Errors
    /// If the kernel withdraws a counter.
    pub(crate) fn read(&mut self) -> io::Result<Counts> {
        let mut counts = Counts::default();
        for [cycles, instructions, misses] in &mut self.threads {
            counts.cycles += count(cycles)?;
            counts.instructions += count(instructions)?;
            counts.llc_misses += count(misses)?;
        }
        for (counter, bus, worth) in &mut self.buses {
            let bytes = match bus {
                Bus::Memory => &mut counts.dram_bytes,
                Bus::Sockets => &mut counts.socket_bytes,
            };
            *bytes.get_or_insert(0.0) += count(counter)? * *worth;
        }
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

/// Opens a counter for one thread (0 is this one), kernel included.
fn open_task(event: impl Event, thread: i32) -> io::Result<Counter> {
    let mut builder = Builder::new(event);
    builder.observe_pid(thread).any_cpu().inherit(true).include_kernel();
    builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(counter)
}

/// The count, scaled up because the counter shared its hardware with others for some of the time.
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

/// Opens the counters of the machine's buses: each with its bus, and the bytes per count.
fn buses() -> Vec<(Counter, Bus, f64)> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let events = buses::events(Path::new(SOURCES), &cpuinfo);
    let opened = |bus| {
        let of_bus = events.iter().filter(|event| event.bus == bus);
        let each = of_bus.flat_map(|event| event.cpus.iter().map(move |cpu| (event, *cpu)));
        let open = each.map(|(event, cpu)| Some((open_bus(event, cpu)?, bus, event.bytes)));
        // Counting only some of the controllers or sockets says nothing about all of them.
        open.collect::<Option<Vec<_>>>().unwrap_or_default()
    };
    [Bus::Memory, Bus::Sockets].into_iter().flat_map(opened).collect()
}

fn open_bus(event: &BusEvent, cpu: u32) -> Option<Counter> {
    let mut builder = Builder::new(event);
    builder.any_pid().one_cpu(cpu as usize).include_kernel();
    builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    let mut counter = builder.build().ok()?;
    counter.enable().ok()?;
    Some(counter)
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
                fullbore_tests::tool::skip(&format!("hardware counters: {reason}"));
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
            fullbore_tests::tool::skip("the task clock: perf_event_open is not permitted here");
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
        assert!(json["dram_bytes_per_byte"].is_null() && json["socket_bytes_per_byte"].is_null());
        assert!(counts.to_json(0)["cycles_per_byte"].is_null());
    }
}
