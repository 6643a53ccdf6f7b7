//! Credentials for a bucket: only the helper has them, never the server.
//!
//! The operator may pass them to the server in its environment. A program cannot erase its environment, because the kernel has copied it
//! into the program's memory. So the server first executes itself again, in the same process, without them ([`shed`]). They are passed on
//! in a nameless file, open under a descriptor number of its own: no file that the operator names, such as a configuration on standard
//! input, can be that file. The server never reads it ([`HandedOn`]). The keeper, which inherits the descriptor, takes them out, so that
//! the file is empty ([`take`]), and gives them to each helper that it starts. The server waits for that before it serves any viewer.

use rustix::fs::{MemfdFlags, memfd_create};
use s3::CREDENTIALS;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Holds the descriptor number of the credentials, for the server and then for the keeper.
const VARIABLE: &str = "FULLBORE_EDGE_CREDENTIALS";

/// A keeper does this first. The rest of the time is for a busy machine.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// Executes this program again without credentials in its memory, if the environment contains some. Call it in front of a bucket, before anything
/// has been started or opened.
///
/// # Errors
/// If that fails. Otherwise it returns only if there was nothing to do.
pub fn shed() -> io::Result<()> {
    let there = CREDENTIALS.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    let there: Vec<_> = there.collect();
    if there.is_empty() {
        return Ok(());
    }
    // Inherited by the next program, and by the keeper that it starts.
    let mut file = File::from(memfd_create("credentials", MemfdFlags::empty())?);
    for (name, value) in there {
        // No variable contains a NUL.
        write!(file, "{name}={value}\0")?;
    }
    let mut arguments = std::env::args_os();
    let mut anew = Command::new("/proc/self/exe");
    anew.arg0(arguments.next().unwrap_or_default()).args(arguments);
    for name in CREDENTIALS {
        anew.env_remove(name);
    }
    Err(anew.env(VARIABLE, file.as_raw_fd().to_string()).exec())
}

/// The path of the credentials' open descriptor; `None` if there are none.
fn handed_on() -> io::Result<Option<PathBuf>> {
    let Some(number) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let number: Option<u32> = number.to_str().and_then(|number| number.parse().ok());
    let place = number.map(|number| PathBuf::from(format!("/proc/self/fd/{number}")));
    place.map(Some).ok_or_else(|| io::Error::other(format!("{VARIABLE} is set to no descriptor")))
}

/// Credentials on their way from the server to the keeper. The server never reads them; most often there are none.
pub struct HandedOn(Option<PathBuf>);

impl HandedOn {
    /// Picks up the descriptor that [`shed`] left.
    ///
    /// # Errors
    /// If the variable for its number was set by another program.
    pub fn here() -> io::Result<Self> {
        handed_on().map(Self)
    }

    /// Waits until `keeper` has taken them.
    ///
    /// # Errors
    /// If it does not take them, or exits.
    pub fn wait(self, keeper: &mut Child) -> io::Result<()> {
        let Some(place) = self.0 else { return Ok(()) };
        let began = Instant::now();
        while fs::metadata(&place)?.len() > 0 {
            if let Some(ended) = keeper.try_wait()? {
                return Err(io::Error::other(format!(
                    "it ended at once ({ended}); its log lines say why"
                )));
            }
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
    let Some(place) = handed_on()? else { return Ok(()) };
    let mut file = OpenOptions::new().read(true).write(true).open(place)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    file.set_len(0)?;
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    helper.envs(pairs).env_remove(VARIABLE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_that_ends_with_the_credentials_untaken_is_not_waited_for() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut keeper = Command::new("false").spawn().unwrap();
        let taken = HandedOn(Some(file.path().to_owned()));
        taken.wait(&mut keeper).unwrap();
        file.write_all(b"AWS_ACCESS_KEY_ID=a\0").unwrap();
        let untaken = HandedOn(Some(file.path().to_owned()));
        let error = untaken.wait(&mut keeper).unwrap_err().to_string();
        assert!(error.contains("it ended at once (exit status: 1)"), "{error}");
    }
}
