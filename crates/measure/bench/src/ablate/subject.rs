//! The server under test: this program as a process of its own, on the given cores and in the given place.

use super::group::Group;
use super::pair::{self, Pair};
use super::vector_aes;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Joins the memory group given first, then execs the rest.
const JOIN: &str = r#"echo $$ >"$0" && exec "$@""#;

/// How long to wait for a server to exit once all clients have left.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// How to run a server.
#[derive(Debug)]
pub(crate) struct Setting<'a> {
    /// The library's root.
    pub(crate) library: &'a Path,
    /// A folder for its certificate and its output.
    pub(crate) scratch: &'a Path,
    /// The cores that it may use, with one worker on each.
    pub(crate) cpus: &'a [u32],
    /// Its further arguments.
    pub(crate) arguments: Vec<String>,
    /// Hides vector AES if set.
    pub(crate) hides_vector_aes: bool,
    /// Where it runs.
    pub(crate) place: Place<'a>,
}

/// Where a server runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// Next to the bench, over loopback.
    Here,
    /// The same, inside a memory group.
    In(&'a Group),
    /// At the far end of an Ethernet pair.
    Behind(Pair),
    /// Next to the bench, with our own TCP behind a TAP.
    BehindTap,
    /// At the far end of an Ethernet pair, with our own TCP over AF_XDP.
    BehindXdp,
}

/// Configuration of a server behind a TAP, with one worker. The addresses are for documentation (RFC 5737), in our own namespace.
const TAP_CONFIG: &str = r#"
[bypass]
addresses = ["192.0.2.2"]
kernel_addresses = ["192.0.2.1/24"]
"#;

/// The same at the end of an Ethernet pair; the kernel owns its address.
const XDP_CONFIG: &str = r#"
[bypass]
device = "xdp"
interface = "fb-server"
addresses = ["192.0.2.2"]
"#;

/// A running server; ended when dropped.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Subject {
    /// Starts a server and waits until it reports that it is ready.
    ///
    /// # Errors
    /// If it does not, with the server's output.
    pub(crate) fn start(setting: &Setting<'_>) -> io::Result<Self> {
        let said = setting.scratch.join("server.log");
        let mut command = setting.command()?;
        // The child stays in our process group, so a Ctrl-C that ends us ends it too.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(File::create(&said)?).spawn()?;
        let ready = setting.meet(&mut child).and_then(|()| ready_address(&mut child));
        match ready {
            Ok(address) => Ok(Self { address, child }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                let said = fs::read_to_string(said).unwrap_or_default();
                Err(io::Error::other(format!(
                    "the server did not start: {error}; it printed {said:?}"
                )))
            }
        }
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + END_PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Setting<'_> {
    fn command(&self) -> io::Result<Command> {
        let cpus: Vec<_> = self.cpus.iter().map(u32::to_string).collect();
        let listen = match self.place {
            Place::Behind(_) => SocketAddr::from((pair::SERVER, 0)),
            Place::Here | Place::In(_) => SocketAddr::from(([127, 0, 0, 1], 0)),
            Place::BehindTap | Place::BehindXdp => SocketAddr::from(([0, 0, 0, 0], 8443)),
        };
        let mut words: Vec<OsString> = ["taskset", "-c", &cpus.join(",")].map(Into::into).into();
        words.push(std::env::current_exe()?.into());
        words.extend(["serve".into(), self.library.into()]);
        words.extend(["--state".into(), self.scratch.join("state").into()]);
        words.extend(["--listen".into(), listen.to_string().into()]);
        words.extend(["--admin", "127.0.0.1:0", "--workers"].map(Into::into));
        words.push(self.cpus.len().to_string().into());
        let own_tcp = match self.place {
            Place::BehindTap => Some(TAP_CONFIG),
            Place::BehindXdp => Some(XDP_CONFIG),
            Place::Here | Place::In(_) | Place::Behind(_) => None,
        };
        if let Some(text) = own_tcp {
            let config = self.scratch.join("bypass.toml");
            fs::write(&config, text)?;
            words.extend(["--route", "bypass", "--config"].map(Into::into));
            words.push(config.into());
        }
        let mut command = match self.place {
            Place::Here | Place::BehindTap => Command::new(words.remove(0)),
            Place::In(group) => {
                let mut command = Command::new("sh");
                command.args(["-c", JOIN]).arg(group.members());
                command
            }
            Place::Behind(pair) => pair.server(),
            Place::BehindXdp => Pair::PLAIN.server(),
        };
        command.args(words).args(&self.arguments);
        if self.hides_vector_aes {
            command.env(vector_aes::VARIABLE, vector_aes::value());
        }
        Ok(command)
    }

    /// Completes the child's start, before it execs the server.
    fn meet(&self, child: &mut Child) -> io::Result<()> {
        match self.place {
            Place::Behind(pair) => pair.meet(child),
            Place::BehindXdp => Pair::PLAIN.meet(child),
            Place::Here | Place::In(_) | Place::BehindTap => Ok(()),
        }
    }
}

/// The address in the line `ready https://ADDRESS/`.
fn ready_address(child: &mut Child) -> io::Result<SocketAddr> {
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it was asked for");
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.trim_end().trim_end_matches('/').rsplit("//").next();
    address
        .and_then(|address| address.parse().ok())
        .ok_or_else(|| io::Error::other("it did not become ready"))
}
