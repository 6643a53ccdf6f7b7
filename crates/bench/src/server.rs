//! Starting a side: a server process pinned to a core, its address, and what its threads have cost.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::workload::Workload;

/// A server that runs until this is dropped.
pub(crate) struct Side {
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    child: Child,
}

/// What both sides are given.
pub(crate) struct Given<'a> {
    /// The library's root.
    pub(crate) library: &'a Path,
    /// A directory for certificates, configuration and logs.
    pub(crate) scratch: &'a Path,
    /// What is to be done.
    pub(crate) workload: Workload,
    /// The core to run on; else any.
    pub(crate) cpu: Option<u32>,
}

impl Side {
    /// Starts this very program as a server.
    ///
    /// # Errors
    /// When it does not say that it is ready.
    pub(crate) fn fullbore(given: &Given<'_>, extra: &[String]) -> io::Result<Self> {
        let mut command = pinned(given.cpu, &std::env::current_exe()?.to_string_lossy());
        let Given { library, scratch, workload, .. } = given;
        command.arg("serve").arg(library).arg("--state").arg(scratch.join("state"));
        command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
        command.args(["--tls", if workload.has_tls() { "on" } else { "off" }]);
        command.args(["--disk", if workload.is_cold() { "direct" } else { "auto" }]);
        if !extra.iter().any(|argument| argument.starts_with("--admin")) {
            command.args(["--admin", "127.0.0.1:0"]);
        }
        let mut child = command.args(extra).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it was asked for");
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line
            .rsplit("//")
            .next()
            .and_then(|rest| rest.trim_end().trim_end_matches('/').parse().ok());
        match address {
            Some(address) => Ok(Self { name: "fullbore", address, child }),
            None => Err(io::Error::other(format!("the server did not start: it said {line:?}"))),
        }
    }

    /// Starts nginx with the configuration in `peers/`.
    ///
    /// # Errors
    /// When there is no nginx, or it does not listen in time.
    pub(crate) fn nginx(given: &Given<'_>) -> io::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let state = given.scratch.join("state");
        let listen =
            if given.workload.has_tls() { include_str!("../peers/nginx-tls.conf") } else { "" };
        let disk =
            if given.workload.is_cold() { include_str!("../peers/nginx-cold.conf") } else { "" };
        let config = include_str!("../peers/nginx.conf")
            .replace("@TLS@", listen)
            .replace("@DISK@", disk)
            .replace("@SSL@", if given.workload.has_tls() { " ssl" } else { "" })
            .replace("@PORT@", &port.to_string())
            .replace("@LIBRARY@", &given.library.to_string_lossy())
            .replace("@STATE@", &state.to_string_lossy())
            .replace("@SCRATCH@", &given.scratch.to_string_lossy());
        let path = given.scratch.join("nginx.conf");
        fs::write(&path, config)?;
        let mut command = pinned(given.cpu, "nginx");
        let child = command
            .arg("-c")
            .arg(&path)
            .arg("-p")
            .arg(given.scratch)
            .args(["-e", "stderr"])
            .spawn()?;
        let mut side =
            Self { name: "nginx", address: SocketAddr::from(([127, 0, 0, 1], port)), child };
        side.wait_until_it_listens()?;
        Ok(side)
    }

    fn wait_until_it_listens(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                let advice = "if there is no nginx: apt install nginx-light, or ./run bench";
                return Err(io::Error::other(format!(
                    "{} did not start ({status}); {advice}",
                    self.name
                )));
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{} does not listen", self.name)));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Seconds of processor time that its threads have had, by the scheduler's account.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn cpu_seconds(&self) -> io::Result<f64> {
        cpu_seconds(self.child.id())
    }
}

/// Seconds of processor time that a process and its children have had, by the scheduler's account of their threads.
///
/// # Errors
/// When it is gone.
pub(crate) fn cpu_seconds(process: u32) -> io::Result<f64> {
    let mut nanoseconds = 0;
    for process in family(process)? {
        for task in fs::read_dir(format!("/proc/{process}/task"))? {
            let account = fs::read_to_string(task?.path().join("schedstat"))?;
            nanoseconds += account
                .split_ascii_whitespace()
                .next()
                .and_then(|field| field.parse::<u64>().ok())
                .unwrap_or(0);
        }
    }
    Ok(nanoseconds as f64 / 1e9)
}

impl Drop for Side {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pinned(cpu: Option<u32>, program: &str) -> Command {
    let Some(cpu) = cpu else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]);
    command
}

/// A process and its children: nginx works in a child of its master.
fn family(parent: u32) -> io::Result<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    let mut family = vec![parent];
    family.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    Ok(family)
}
