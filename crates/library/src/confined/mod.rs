//! Running ffmpeg and ffprobe confined. A film is hostile input: it may name files that are none of its business, ask for more than
//! the machine has, or take the decoder over. Whatever it does, it finds one film to read, one folder to write, and no way out.
//!
//! The film is opened here, once, and handed over as standard input, which [`FILM`] names: a path would be looked up anew by each run,
//! and ffmpeg reads more into names than is in them (`img%d.png` is a row of pictures to it).
//!
//! Four walls, each of which holds without the others: formats and protocols by allow-list (`formats.rs`, beside this folder), Landlock
//! over files and TCP (`files.rs`), seccomp over system calls (`calls.rs`), and bounds of time, memory and output (`watch.rs`).
//! Kernels without Landlock or seccomp run ffmpeg without that wall; [`lacking`] says so.
//!
//! Landlock, privileges and the filter are a thread's own and go to the processes that it starts. So a thread that gives up everything
//! starts the program, and nothing of it is left when it ends.

mod bounds;
mod calls;
mod files;
mod watch;

pub use bounds::{Bound, Bounds};

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, clear_ambient_capability_set, remove_capability_from_bounding_set,
};
use seccompiler::{BpfProgram, apply_filter};

use crate::ingest::Stop;

/// The film's name for ffmpeg: its standard input, opened anew, so that it can be read from any place.
pub(crate) const FILM: &str = "file:/proc/self/fd/0";

/// Of the environment this much is handed on: where programs and their libraries are. What else is in it may be secret, and what is
/// meant for ffmpeg (`FFREPORT`) makes it write where it must not.
const ENVIRONMENT: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];
/// What root keeps, because the film or the library may be somebody else's. Landlock bounds what can be done with it.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);
/// Stacks of threads count as memory although hardly anything of them is used, so the kernel's own limit is this much above ours.
const STACK_BYTES: u64 = 1 << 30;

/// A program to be run.
pub(crate) struct Confined<'a> {
    pub(crate) program: &'static str,
    pub(crate) arguments: &'a [OsString],
    /// All that it may read of what is not its own and not in `folder`.
    pub(crate) film: Option<&'a File>,
    /// Where it works, and all that it may write.
    pub(crate) folder: Option<&'a Path>,
    pub(crate) limits: Limits<'a>,
}

/// What a run may take.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// [`Bound::ProbeSeconds`] or [`Bound::RunSeconds`].
    pub(crate) time: Bound,
    pub(crate) memory_bytes_max: u64,
    /// How large a folder may become. `None`: it writes no files.
    pub(crate) output: Option<(&'a Path, u64)>,
}

/// A run that came to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The beginning of what it wrote to standard error.
    pub(crate) said: Vec<u8>,
}

/// Why a run did not.
#[derive(Debug)]
pub(crate) enum Fault {
    /// There is no such program on the PATH.
    Missing(&'static str),
    Stopped,
    Passed(Bound),
    Io(io::Error),
}

impl Confined<'_> {
    /// Runs it to its end; `hear` gets what it writes to standard output.
    pub(crate) fn run(&self, stop: &Stop, mut hear: impl FnMut(&[u8])) -> Result<Ended, Fault> {
        let program = find(self.program).ok_or(Fault::Missing(self.program))?;
        let grants = files::grants(&program, self.film, self.folder);
        let mut command = self.command(&program).map_err(Fault::Io)?;
        thread::scope(|scope| {
            let (started, start) = mpsc::channel();
            let (over, ending) = mpsc::channel::<()>();
            let starter = move || {
                give_up(grants);
                // Nobody listens only if the other side panicked.
                let _ = started.send(command.spawn());
                // A child is told of the end of the thread that started it, not of the process: stay until it has ended.
                let _ = ending.recv();
            };
            thread::Builder::new().spawn_scoped(scope, starter).map_err(Fault::Io)?;
            let child = start.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            let ended = self.attend(child.map_err(Fault::Io)?, stop, &mut hear);
            drop(over);
            ended
        })
    }

    fn attend(
        &self,
        mut child: Child,
        stop: &Stop,
        hear: &mut dyn FnMut(&[u8]),
    ) -> Result<Ended, Fault> {
        stop.watch(&child);
        let seen = watch::to_the_end(&mut child, &self.limits, hear);
        if seen.is_err() {
            // It could not be watched, so it cannot go on. It may have ended by itself.
            let _ = child.kill();
        }
        stop.forget();
        let status = child.wait().map_err(Fault::Io)?;
        let (said, passed) = seen.map_err(Fault::Io)?;
        if stop.is_stopped() {
            return Err(Fault::Stopped);
        }
        match passed.or_else(|| self.refused(status, &said)) {
            Some(bound) => Err(Fault::Passed(bound)),
            None => Ok(Ended { status, said }),
        }
    }

    /// The bound that the kernel held it to, if it ended by that.
    fn refused(&self, status: ExitStatus, said: &[u8]) -> Option<Bound> {
        let has_said = |words: &str| String::from_utf8_lossy(said).contains(words);
        let by_size = status.signal() == Some(Signal::XFSZ.as_raw());
        if let Some((_, bytes)) = self.limits.output {
            if by_size || has_said("File too large") {
                return Some(Bound::OutputBytes(bytes)); // strerror of EFBIG
            }
        }
        let by_memory = !status.success() && has_said("Cannot allocate memory"); // ENOMEM
        by_memory.then_some(Bound::MemoryBytes(self.limits.memory_bytes_max))
    }

    fn command(&self, program: &Path) -> io::Result<Command> {
        let mut command = Command::new(program);
        command.arg0(self.program).args(self.arguments).env_clear();
        let handed_on = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(handed_on);
        // SVT-AV1 introduces itself on standard error whatever ffmpeg is told: errors only.
        command.env("SVT_LOG", "1");
        command.current_dir(self.folder.unwrap_or(Path::new("/")));
        command.stdin(match self.film {
            Some(film) => Stdio::from(film.try_clone()?),
            None => Stdio::null(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C at a terminal is for us to hear, and to end it.
        command.process_group(0);
        let (limits, filter) = (self.resource_limits(), calls::filter());
        // SAFETY: between fork and exec only system calls are made here, which allocate nothing and take no lock. What they need
        // was made before.
        unsafe { command.pre_exec(move || before_it_runs(&limits, filter.as_ref())) };
        Ok(command)
    }

    fn resource_limits(&self) -> [(Resource, Rlimit); 3] {
        let left = self.limits.output.map_or(0, |(root, bytes)| {
            bytes.saturating_sub(watch::tree_bytes(root)).max(1) // zero would be no limit to some
        });
        let memory = self.limits.memory_bytes_max.saturating_mul(2).saturating_add(STACK_BYTES);
        [(Resource::Data, memory), (Resource::Fsize, left), (Resource::Core, 0)].map(
            |(resource, wanted)| {
                // Nobody but root may have more than he has.
                let most = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
                (resource, Rlimit { current: Some(most), maximum: Some(most) })
            },
        )
    }
}

/// The last of what is done in the child itself: what would be in the way of starting it, or holds for a whole process.
fn before_it_runs(limits: &[(Resource, Rlimit)], filter: Option<&BpfProgram>) -> io::Result<()> {
    // Killed outright we could not end it, and it would go on for hours into a folder that the next attempt works in.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, limit) in limits {
        setrlimit(*resource, *limit)?;
    }
    close_on_exec();
    if let Some(filter) = filter {
        // A kernel without seccomp: `lacking` has said so.
        let _ = apply_filter(filter);
    }
    Ok(())
}

/// Keeps what a shell or service manager left open for us from the program. Before Linux 5.11 nothing happens.
fn close_on_exec() {
    const AFTER_STANDARD_ERROR: libc::c_uint = 3;
    // SAFETY: marks descriptors, which stay open until exec; no memory is involved.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            AFTER_STANDARD_ERROR,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}

/// Gives up, for this thread and what it starts, all that a decoder has no use for.
fn give_up(grants: files::Grants) {
    for capability in CapabilitySet::all().difference(KEPT).iter() {
        // Refused to those who have none to give up.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    // Sets no-new-privileges as well. A kernel without Landlock: `lacking` has said so.
    let _ = files::confine(grants);
}

/// What this kernel cannot wall in, as a sentence for the operator.
#[must_use]
pub fn lacking() -> Option<String> {
    // Tried on a thread that ends at once.
    let tried =
        thread::spawn(|| (files::confine(Vec::new()), calls::filter().map(|it| apply_filter(&it))));
    let (files, calls) = tried.join().ok()?;
    let lacks: Vec<_> = [files.err(), calls_lack(calls)].into_iter().flatten().collect();
    (!lacks.is_empty()).then(|| {
        format!(
            "ffmpeg runs less confined than it could ({}): ingest only files that you trust",
            lacks.join("; ")
        )
    })
}

fn calls_lack(tried: Option<seccompiler::Result<()>>) -> Option<String> {
    match tried {
        Some(Ok(())) => None,
        Some(Err(error)) => Some(format!("system calls are not filtered: {error}")),
        None => Some("system calls are not filtered on this processor".into()),
    }
}

/// Where on the PATH a program is.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH");
    let path = path.as_deref().unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|path| path.is_file())
}
