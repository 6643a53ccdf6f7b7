//! Runs ffmpeg and ffprobe confined. A film is hostile input: it may refer to unrelated files, exhaust the machine, or take over the
//! decoder. Whatever it does, it can read one film and write one folder, and it has no way out.
//!
//! The film is opened here, once, and passed as standard input, which [`FILM`] refers to. A path would be looked up again by each run, and
//! ffmpeg interprets some names (`img%d.png` means a series of pictures).
//!
//! There are four layers, each of which holds without the others: allow-lists of formats and protocols (`formats.rs`, in the parent
//! folder), Landlock over files and TCP (`files.rs`), seccomp over system calls (`calls.rs`), and limits on time, memory and output
//! (`watch.rs`). On kernels without Landlock or seccomp, ffmpeg runs without that layer; [`lacking`] reports it.
//!
//! Landlock, privileges and the filter apply to a thread and to the processes that it starts. So a thread that drops all privileges starts
//! the program, and its restrictions end with it.

mod bounds;
mod calls;
mod files;
mod session;
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
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit, setsid,
};
use rustix::thread::{
    CapabilitySet, clear_ambient_capability_set, remove_capability_from_bounding_set,
};
use seccompiler::{BpfProgram, apply_filter};

use crate::ingest::Stop;

/// The film's name for ffmpeg: its standard input, opened again so that it can be read from any position.
pub(crate) const FILM: &str = "file:/proc/self/fd/0";

/// The environment variables to pass on: they say where programs and their libraries are. Others may be secret, and ffmpeg's own
/// (`FFREPORT`) make it write files elsewhere.
const ENVIRONMENT: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];
/// Capabilities that root keeps, because the film or the library may belong to another user. Landlock limits what they can do.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);
/// Threads' stacks count as memory although hardly any of it is used, so the kernel's own limit is this much above ours.
const STACK_BYTES: u64 = 1 << 30;

/// A program to run.
pub(crate) struct Confined<'a> {
    pub(crate) program: &'static str,
    pub(crate) arguments: &'a [OsString],
    /// The only file that it may read, apart from its own files and those in `folder`.
    pub(crate) film: Option<&'a File>,
    /// Its working directory, and the only folder that it may write.
    pub(crate) folder: Option<&'a Path>,
    pub(crate) limits: Limits<'a>,
}

/// The limits of a run.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// [`Bound::ProbeSeconds`] or [`Bound::RunSeconds`].
    pub(crate) time: Bound,
    pub(crate) memory_bytes_max: u64,
    /// How large a folder may become. `None`: the run writes no files.
    pub(crate) output: Option<(&'a Path, u64)>,
}

/// A completed run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The beginning of what it wrote to standard error.
    pub(crate) said: Vec<u8>,
}

/// Why a run did not complete.
#[derive(Debug)]
pub(crate) enum Fault {
    /// There is no such program on the PATH.
    Missing(&'static str),
    Stopped,
    Passed(Bound),
    Io(io::Error),
}

impl Confined<'_> {
    /// Runs it to its end; passes its standard output to `hear`.
    pub(crate) fn run(&self, stop: &Stop, mut hear: impl FnMut(&[u8])) -> Result<Ended, Fault> {
        let program = find(self.program).ok_or(Fault::Missing(self.program))?;
        let grants = files::grants(&program, self.film, self.folder);
        let mut command = self.command(&program).map_err(Fault::Io)?;
        thread::scope(|scope| {
            let (started, start) = mpsc::channel();
            let (over, ending) = mpsc::channel::<()>();
            let starter = move || {
                give_up(grants);
                // There is no receiver only if the other side panicked.
                let _ = started.send(command.spawn());
                // The child is killed when the thread that started it ends, not when the process does. So stay until the child has ended.
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
            // The child cannot be watched, so it must not continue. It may have ended by itself.
            let _ = child.kill();
        }
        stop.forget(&child);
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

    /// The limit with which the kernel ended it, if that is how it ended.
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
        // SVT-AV1 writes a banner to standard error regardless of ffmpeg's settings: allow errors only.
        command.env("SVT_LOG", "1");
        command.current_dir(self.folder.unwrap_or(Path::new("/")));
        command.stdin(match self.film {
            Some(film) => Stdio::from(film.try_clone()?),
            None => Stdio::null(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (limits, filter) = (self.resource_limits(), calls::filter());
        // SAFETY: between fork and exec this makes only system calls, which allocate nothing and take no lock. What they need was
        // made before.
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
                // Only root may raise its limits.
                let most = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
                (resource, Rlimit { current: Some(most), maximum: Some(most) })
            },
        )
    }
}

/// The last steps in the child itself: those that would prevent starting it, or that cover a whole process.
fn before_it_runs(limits: &[(Resource, Rlimit)], filter: Option<&BpfProgram>) -> io::Result<()> {
    // If this process is killed, it cannot end the child, which would write for hours into a folder that the next attempt uses.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A session of its own, so that Ctrl-C at a terminal reaches us, and we end it; and so that it has a priority (`session.rs`).
    setsid()?;
    for (resource, limit) in limits {
        setrlimit(*resource, *limit)?;
    }
    close_on_exec();
    if let Some(filter) = filter {
        // This fails on a kernel without seccomp, which `lacking` has reported.
        let _ = apply_filter(filter);
    }
    Ok(())
}

/// Keeps descriptors that a shell or service manager left open for this process away from the program. Does nothing before Linux 5.11.
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

/// Drops all privileges that a decoder does not need, for this thread and the processes that it starts.
fn give_up(grants: files::Grants) {
    for capability in CapabilitySet::all().difference(KEPT).iter() {
        // Fails for users who have no privileges to give up.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    // This also sets no-new-privileges. If the kernel has no Landlock, `lacking` has reported that.
    let _ = files::confine(grants);
}

/// The layers that this kernel does not support, as a sentence for the operator.
#[must_use]
pub fn lacking() -> Option<String> {
    // Tried on a thread that ends afterwards.
    let tried =
        thread::spawn(|| (files::confine(Vec::new()), calls::filter().map(|it| apply_filter(&it))));
    let (files, calls) = tried.join().ok()?;
    let lacks: Vec<_> = [files.err().map(|lack| lack.to_string()), calls_lack(calls)]
        .into_iter()
        .flatten()
        .collect();
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

/// Finds a program on the PATH.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH");
    let path = path.as_deref().unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|path| path.is_file())
}
