//! A server's cost according to the kernel: CPU time and memory of its processes, and how a core spent its time.
//!
//! CPU time is the scheduler's own account of each thread (`/proc/PID/task/TID/schedstat`, in nanoseconds), which is finer than the clock
//! ticks of `/proc/PID/stat`. No thread's account includes the kernel's work for a server outside its threads, such as software interrupts
//! on an otherwise idle core. [`CoreTimes`] covers that.

use std::collections::HashMap;
use std::fs;
use std::io;

/// The account of a process and all its descendants.
#[derive(Debug)]
pub(crate) struct Account {
    root: u32,
    /// Each thread's cost at the last reading, including threads that have exited since.
    seen: HashMap<u32, Spent>,
    /// The cost of exited threads whose thread ID has been reused.
    replaced: Spent,
    processes: Vec<u32>,
}

/// A thread's cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent {
    nanoseconds: u64,
    wakeups: u64,
}

/// An account's values at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// CPU seconds so far, except what a thread used between the last reading and its exit.
    pub(crate) cpu_seconds: f64,
    /// Resident bytes now, over all processes; shared pages count once for each.
    pub(crate) rss_bytes: u64,
    /// The anonymous part of these. The rest belongs to files or is shared, such as a server's cached library.
    pub(crate) anonymous_bytes: u64,
    /// How often threads have gone to sleep so far (voluntary context switches).
    pub(crate) wakeups: u64,
}

impl Account {
    /// Opens the account of `root` and all its descendants.
    pub(crate) fn of(root: u32) -> Self {
        Self { root, seen: HashMap::new(), replaced: Spent::default(), processes: Vec::new() }
    }

    /// Takes a reading.
    ///
    /// # Errors
    /// If the process has exited.
    pub(crate) fn read(&mut self) -> io::Result<Reading> {
        let mut resident = Resident::of(self.root)?;
        let mut waiting = vec![self.root];
        self.processes.clear();
        while let Some(process) = waiting.pop() {
            // A child may exit during the reading; `seen` has its last value.
            let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
            self.processes.push(process);
            if process != self.root {
                resident = resident.plus(Resident::of(process).unwrap_or_default());
            }
            for task in tasks.flatten() {
                let path = task.path();
                let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
                if let (Some(thread), Ok(spent)) = (thread, Spent::read(&path)) {
                    self.book(thread, spent);
                }
                let children = fs::read_to_string(path.join("children")).unwrap_or_default();
                waiting.extend(numbers::<u32>(&children));
            }
        }
        let Spent { nanoseconds, wakeups } = self.sum();
        Ok(Reading {
            cpu_seconds: nanoseconds as f64 / 1e9,
            rss_bytes: resident.bytes,
            anonymous_bytes: resident.anonymous_bytes,
            wakeups,
        })
    }

    /// The account's processes, as of the last reading.
    pub(crate) fn processes(&self) -> &[u32] {
        &self.processes
    }

    fn sum(&self) -> Spent {
        self.seen.values().fold(self.replaced, |sum, spent| sum.plus(*spent))
    }

    fn book(&mut self, thread: u32, spent: Spent) {
        let before = self.seen.insert(thread, spent).unwrap_or_default();
        if before.nanoseconds > spent.nanoseconds {
            // CPU time does not run backwards: this thread reuses the ID of one that has exited.
            self.replaced = self.replaced.plus(before);
        }
    }
}

impl Spent {
    fn read(task: &std::path::Path) -> io::Result<Self> {
        let text = fs::read_to_string(task.join("schedstat"))?;
        let nanoseconds = numbers(&text).next().ok_or(io::ErrorKind::InvalidData)?;
        let status = fs::read_to_string(task.join("status"))?;
        let wakeups = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let wakeups = wakeups.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        Ok(Self { nanoseconds, wakeups })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            nanoseconds: self.nanoseconds + other.nanoseconds,
            wakeups: self.wakeups + other.wakeups,
        }
    }
}

/// Resident memory, from `statm` (proc_pid_statm(5)).
#[derive(Clone, Copy, Debug, Default)]
struct Resident {
    bytes: u64,
    anonymous_bytes: u64,
}

impl Resident {
    /// Reads one process.
    fn of(process: u32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/statm"))?;
        let mut pages = numbers::<u64>(&text).skip(1);
        let (Some(all), Some(of_files_or_shared)) = (pages.next(), pages.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let page_bytes = rustix::param::page_size() as u64;
        let anonymous_bytes = all.saturating_sub(of_files_or_shared) * page_bytes;
        Ok(Self { bytes: all * page_bytes, anonymous_bytes })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            anonymous_bytes: self.anonymous_bytes + other.anonymous_bytes,
        }
    }
}

fn numbers<T: std::str::FromStr>(text: &str) -> impl Iterator<Item = T> {
    text.split_ascii_whitespace().map_while(|field| field.parse().ok())
}

/// How a core has spent its time since the machine started, in clock ticks (proc_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreTimes {
    all: u64,
    idle: u64,
    softirq: u64,
    /// In low-priority programs (nice(2)).
    polite: u64,
}

/// Shares of a core's time between two moments, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CoreShares {
    /// Time not idle.
    pub(crate) busy: f64,
    /// Time in software interrupts, where packets are received and forwarded.
    pub(crate) softirq: f64,
    /// Time neither idle nor in low-priority programs.
    pub(crate) spent: f64,
}

impl CoreTimes {
    /// Reads the times of core `cpu`.
    ///
    /// # Errors
    /// If there is no such core.
    pub(crate) fn read(cpu: u32) -> io::Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        Self::parse(&text, cpu)
            .ok_or_else(|| io::Error::other(format!("/proc/stat has no cpu{cpu}")))
    }

    fn parse(text: &str, cpu: u32) -> Option<Self> {
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
        // user nice system idle iowait irq softirq steal. The later fields are already included in user and nice.
        let ticks: Vec<u64> = numbers(line).take(8).collect();
        (ticks.len() == 8).then(|| Self {
            all: ticks.iter().sum(),
            idle: ticks[3] + ticks[4],
            softirq: ticks[6],
            polite: ticks[1],
        })
    }

    /// How the time since `earlier` was spent.
    pub(crate) fn since(&self, earlier: &Self) -> CoreShares {
        let all = (self.all.saturating_sub(earlier.all)).max(1) as f64;
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        let polite = self.polite.saturating_sub(earlier.polite) as f64;
        CoreShares {
            busy: (1.0 - idle / all).clamp(0.0, 1.0),
            softirq: self.softirq.saturating_sub(earlier.softirq) as f64 / all,
            spent: (1.0 - (idle + polite) / all).clamp(0.0, 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Multiplies until this thread has used `seconds` of CPU time on its own clock.
    fn burn(seconds: f64) {
        let clock = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        let until = clock() + seconds;
        while clock() < until {}
    }

    #[test]
    fn a_thread_that_has_ended_stays_in_the_account() {
        let mut account = Account::of(std::process::id());
        let before = account.read().unwrap();
        let (burnt, seen) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let during = std::thread::scope(|scope| {
            scope.spawn(|| {
                burn(0.05);
                burnt.wait();
                seen.wait();
            });
            burnt.wait();
            let during = account.read().unwrap();
            seen.wait();
            during
        });
        assert!(during.cpu_seconds - before.cpu_seconds > 0.049, "{before:?} {during:?}");
        let after = account.read().unwrap();
        assert!(after.cpu_seconds >= during.cpu_seconds, "{during:?} {after:?}");
    }

    #[test]
    fn a_thread_that_waits_is_woken_as_often() {
        let mut account = Account::of(std::process::id());
        let before = account.read().unwrap().wakeups;
        // sleeps: the test counts wake-ups
        (0..20).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
        let after = account.read().unwrap().wakeups;
        assert!(after >= before + 20, "{before} {after}");
    }

    #[test]
    fn children_of_children_count() {
        // The megabyte: some kernels count memory for each processor, and show it only from some hundred pages on.
        let script = "sh -c 's=x; i=0; while [ $i -lt 20 ]; do s=$s$s; i=$((i+1)); done; \
            while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; read _; :'; :";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = io::BufReader::new(child.stdout.take().unwrap());
        io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert_eq!(line, "done\n");
        let alone =
            fs::read_to_string(format!("/proc/{0}/task/{0}/schedstat", child.id())).unwrap();
        let alone = numbers::<u64>(&alone).next().unwrap() as f64 / 1e9;
        let all = Account::of(child.id()).read().unwrap();
        assert!(all.cpu_seconds > 2.0 * alone, "all had {all:?}, the first alone {alone}");
        assert!(all.rss_bytes > Resident::of(child.id()).unwrap().bytes);
        assert!(all.anonymous_bytes > 0 && all.anonymous_bytes < all.rss_bytes);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(Account::of(child.id()).read().is_err());
    }

    #[test]
    fn a_reused_number_loses_nothing() {
        let mut account = Account::of(1);
        account.book(7, Spent { nanoseconds: 500, wakeups: 40 });
        account.book(7, Spent { nanoseconds: 20, wakeups: 3 });
        assert_eq!(account.sum(), Spent { nanoseconds: 520, wakeups: 43 });
    }

    #[test]
    fn a_core_s_time_is_split() {
        let earlier =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 10 10 10 80 0 0 0 0 0 0\ncpu11 1 1 1 1 1 1 1 1 0 0\n";
        let later = "cpu1 20 20 20 130 0 0 20 0 0 0\n";
        let (earlier, later) =
            (CoreTimes::parse(earlier, 1).unwrap(), CoreTimes::parse(later, 1).unwrap());
        assert_eq!(later.since(&earlier), CoreShares { busy: 0.5, softirq: 0.2, spent: 0.4 });
        assert!(CoreTimes::parse("cpu1 10 0\n", 1).is_none());
        assert!(CoreTimes::read(0).is_ok() && CoreTimes::read(99_999).is_err());
    }
}
