//! `fullbore upgrade`: replaces a running server with a new process.

use crate::serve::{Misused, Serve};
use crate::tell;
use clap::Args;
use config::Config;
use config::obstacle;
use helper_process::packets;
use server::upgrade::{ToLauncher, give_up};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The flag that this command adds to the server's arguments, along with others.
const IN_PLACE_OF: &str = "--in-place-of";

/// The exit code if this configuration cannot be upgraded while it serves; the package then restarts the service.
const NEEDS_A_RESTART: u8 = 3;

/// How much longer than the settling time the new server may take to report that it has settled.
const GRACE: Duration = Duration::from_secs(30);

/// Replace a running server without disconnecting viewers
///
/// The arguments are those of the running server, as after "fullbore serve"; a changed configuration takes effect. The new server starts completely
/// before it takes over. If it can't, the running one continues. Run this as the server's user. Put this command's own options first.
/// The new server keeps logging to this command's standard error: redirect it to a file if a script would wait for its end.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore upgrade --config /etc/fullbore/fullbore.toml\n  fullbore upgrade --program ./fullbore /srv/videos --listen 127.0.0.1:8080 --tls off"
)]
pub(crate) struct Upgrade {
    /// The new program [default: the one that runs this command]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The running server's socket [default: STATE/upgrade-ADDR:PORT.sock, from the arguments]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Give up if the new server is not ready after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    ready_seconds: u64,
    /// Take the arguments of the running server with this process ID instead of writing them
    #[arg(long, value_name = "PID", conflicts_with = "serve")]
    arguments_of: Option<u32>,
    /// The old server takes over again if the new one ends within this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    settle_seconds: f64,
    /// As after "fullbore serve"
    #[arg(value_name = "ARGUMENTS OF SERVE", trailing_var_arg = true, allow_hyphen_values = true)]
    serve: Vec<OsString>,
}

/// Between a tenth of a second and an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let given = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    given.ok_or_else(|| "a number of seconds from 0.1 to 3600".into())
}

/// The new server's reports about itself.
#[derive(Default)]
struct Heard {
    /// The old server was contacted, and knows the outcome by itself.
    asked: bool,
    /// The old server's process, once the new one has taken over.
    settled: Option<u32>,
    /// Its reports did not arrive in time.
    hangs: bool,
}

impl Upgrade {
    /// Returns when the new server has taken over, or when the old one continues.
    pub(crate) fn run(mut self) -> ExitCode {
        if let Some(process) = self.arguments_of {
            match arguments_of(process) {
                Ok(arguments) => self.serve = arguments,
                Err(why) => {
                    tell(&format!(
                        "no upgrade: cannot take the arguments of process {process}: {why}"
                    ));
                    return ExitCode::FAILURE;
                }
            }
        }
        let serve = Serve::from_arguments(&self.serve);
        let socket = self.socket.clone().unwrap_or_else(|| serve.socket());
        let config = match serve.configure() {
            Ok(config) => config,
            Err(Misused(why)) => return refuse(2, &socket, &why),
        };
        if let Some(why) = obstacle(&config) {
            let why = format!("an upgrade would disconnect viewers: {why}");
            return refuse(NEEDS_A_RESTART, &socket, &why);
        }
        let (mut child, ours) = match self.start(&socket, &config) {
            Ok(started) => started,
            Err(error) => {
                return refuse(1, &socket, &format!("the new server cannot be started: {error}"));
            }
        };
        let heard = self.listen(ours);
        if let Some(old) = heard.settled {
            let new = child.id();
            tell(&format!(
                "process {new} serves now; process {old} ends when its viewers have what they asked for"
            ));
            return ExitCode::SUCCESS;
        }
        let why = if heard.hangs { self.kill(&mut child) } else { ended(&mut child) };
        let is_there = heard.asked || give_up(&socket, &why);
        tell(&format!("no upgrade: {why}; {}", what_runs(is_there, &socket)));
        ExitCode::FAILURE
    }

    /// Starts the new server, with one end of a socket as its standard input. It outlives this command's terminal, and must not hold this command's
    /// standard output open: a shell that runs `$(fullbore upgrade ...)` waits until no process has it open. So the server's startup messages go to
    /// standard error, too. Only an access log on standard output needs it.
    fn start(&self, socket: &Path, config: &Config) -> std::io::Result<(Child, OwnedFd)> {
        let (ours, theirs) = packets::pair()?;
        let this = PathBuf::from("/proc/self/exe");
        let mut command = Command::new(self.program.as_ref().unwrap_or(&this));
        command.arg("serve").args(&self.serve).arg(IN_PLACE_OF).arg(socket);
        command.args(["--ready-seconds", &self.ready_seconds.to_string()]);
        command.args(["--settle-seconds", &self.settle_seconds.to_string()]);
        if config.access_log.as_deref() != Some(Path::new("-")) {
            command.stdout(std::io::stderr().as_fd().try_clone_to_owned()?);
        }
        let child = command.stdin(Stdio::from(theirs)).process_group(0).spawn()?;
        Ok((child, ours))
    }

    /// Kills a new server that takes too long.
    fn kill(&self, child: &mut Child) -> String {
        // If that fails, it has ended by itself.
        let _ = child.kill().and_then(|()| child.wait());
        format!("the new server was not ready after {} s, and was killed", self.ready_seconds)
    }

    /// Reads the new server's reports, until it has settled, has ended or has taken too long.
    fn listen(&self, ours: OwnedFd) -> Heard {
        let (told, news) = channel();
        // It ends with the new server, or with this process.
        thread::spawn(move || {
            let mut buffer = Vec::new();
            while let Ok(Some((news, _))) = packets::receive::<ToLauncher>(&ours, &mut buffer) {
                if told.send(news).is_err() {
                    return;
                }
            }
        });
        let mut deadline = Instant::now() + Duration::from_secs(self.ready_seconds);
        let mut heard = Heard::default();
        while heard.settled.is_none() {
            match news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(ToLauncher::Asked) => heard.asked = true,
                Ok(ToLauncher::Accepts) => {
                    deadline =
                        Instant::now() + Duration::from_secs_f64(self.settle_seconds) + GRACE;
                }
                Ok(ToLauncher::Settled { old }) => heard.settled = Some(old),
                Err(RecvTimeoutError::Timeout) => {
                    heard.hangs = true;
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        heard
    }
}

/// A running server's command line, without the flags of an earlier upgrade.
fn arguments_of(process: u32) -> std::io::Result<Vec<OsString>> {
    let line = std::fs::read(format!("/proc/{process}/cmdline"))?;
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    let mut words = line.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    if words.nth(1).is_none_or(|word| word != "serve") {
        return Err(std::io::Error::other("it is not a \"fullbore serve\""));
    }
    Ok(words.take_while(|word| word != IN_PLACE_OF).collect())
}

/// How the new server ended; its socket closes a moment before that, or some seconds on a busy machine. A program that closes its standard input and
/// continues is not a server.
fn ended(child: &mut Child) -> String {
    for _ in 0..1000 {
        match child.try_wait() {
            Ok(Some(status)) => return format!("the new server ended: {status}"),
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            Err(_) => break,
        }
    }
    let _ = child.kill().and_then(|()| child.wait());
    "the new program is not a server, and was killed".into()
}

/// Gives up before a server was started.
fn refuse(code: u8, socket: &Path, why: &str) -> ExitCode {
    let is_there = give_up(socket, why);
    tell(why);
    tell(&format!("no upgrade: {}", what_runs(is_there, socket)));
    ExitCode::from(code)
}

/// The state after a failed upgrade: it must not claim that a server continues where none runs.
fn what_runs(is_there: bool, socket: &Path) -> String {
    match is_there {
        true => "the running server continues".to_owned(),
        false => format!("no server answers at {}", socket.display()),
    }
}
