//! Credentials for a bucket: the helper's, never the server's.
//!
//! The operator may give them to the server's command in its environment. A program cannot forget its environment: the kernel has put it into its
//! memory. So before the server does anything it starts itself anew, in the same process, without them ([`shed`]). They go along in a nameless
//! file, as standard input, which the server hands to the keeper unread ([`HandedOn`]). The keeper takes them out, so that the file is empty
//! ([`take`]), and gives them to each helper that it starts. The server waits for that before it serves anybody.

use rustix::fs::{MemfdFlags, memfd_create};
use s3::CREDENTIALS;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Says to the server, and then to the keeper, that there are credentials.
const VARIABLE: &str = "FULLBORE_EDGE_CREDENTIALS";

/// A keeper does this first. The rest is for a busy machine.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// Starts this program anew without credentials in its memory, if `origin` is a bucket and the environment has some. Call it while nothing has
/// been started or opened yet.
///
/// # Errors
/// If that cannot be done. Otherwise it returns only if there is nothing to do.
pub fn shed(origin: &str) -> io::Result<()> {
    let there = CREDENTIALS.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    let there: Vec<_> = there.collect();
    if !origin.starts_with("s3://") || there.is_empty() {
        return Ok(());
    }
    let mut file = File::from(memfd_create("credentials", MemfdFlags::CLOEXEC)?);
    for (name, value) in there {
        // No variable has a NUL in it.
        write!(file, "{name}={value}\0")?;
    }
    let mut arguments = std::env::args_os();
    let mut anew = Command::new("/proc/self/exe");
    anew.arg0(arguments.next().unwrap_or_default()).args(arguments);
    for name in CREDENTIALS {
        anew.env_remove(name);
    }
    Err(anew.env(VARIABLE, "stdin").stdin(Stdio::from(file)).exec())
}

/// Credentials on their way from the server to the keeper, of which the server sees no byte; most often there are none.
pub struct HandedOn(Option<OwnedFd>);

impl HandedOn {
    /// What [`shed`] has left.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn here() -> io::Result<Self> {
        let is_here = std::env::var_os(VARIABLE).is_some();
        is_here.then(|| io::stdin().as_fd().try_clone_to_owned()).transpose().map(Self)
    }

    /// As the keeper's standard output, on which it has nothing to say.
    ///
    /// # Errors
    /// As [`Self::here`].
    pub fn output(&self) -> io::Result<Stdio> {
        match &self.0 {
            Some(file) => Ok(file.try_clone()?.into()),
            None => Ok(Stdio::null()),
        }
    }

    /// Waits until the keeper has them.
    ///
    /// # Errors
    /// If it does not take them.
    pub fn wait(self) -> io::Result<()> {
        let Some(file) = self.0.map(File::from) else { return Ok(()) };
        let began = Instant::now();
        while file.metadata()?.len() > 0 {
            if began.elapsed() > TAKEN_WITHIN {
                return Err(io::Error::other("it did not take the origin's credentials"));
            }
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Takes the credentials that the server has handed on, and gives them to `helper`.
///
/// # Errors
/// If they cannot be read.
pub fn take(helper: &mut Command) -> io::Result<()> {
    helper.stdout(Stdio::null());
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(());
    }
    let mut file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    file.set_len(0)?;
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    helper.envs(pairs).env_remove(VARIABLE);
    Ok(())
}
