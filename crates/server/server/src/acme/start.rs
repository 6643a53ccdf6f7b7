//! Starts the helper, while the server may still start programs.

use super::link::AcmeLink;
use crate::listen::is_on;
use crate::start_error::StartError;
use acme::files;
use config::Config;
use helper_process::packets;
use rustix::fs::Access;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tls::AlpnProofs;

/// A helper whose server has ended needs some milliseconds to end.
const PREDECESSOR_GONE_WITHIN: Duration = Duration::from_secs(1);

/// A started helper, before there is a thread that receives from it.
pub(crate) struct StartingAcme {
    socket: OwnedFd,
    /// The proofs that handshakes show for the helper.
    pub(crate) proofs: AlpnProofs,
    /// The listener for challenges, which the helper has, too; none if the helper opens it itself.
    pub(crate) listener: Option<OwnedFd>,
}

impl StartingAcme {
    /// Starts the helper, if `config` asks for a certificate. It uses the `inherited` listener for challenges if that has their address.
    ///
    /// # Errors
    /// If the state folder, a named file or the address for challenges cannot be used, or no program can be started.
    pub(crate) fn of(
        config: &Config,
        inherited: Option<OwnedFd>,
    ) -> Result<Option<Self>, StartError> {
        let Some(wanted) = &config.tls.acme else { return Ok(None) };
        let mut options = wanted.options(config);
        let cannot = |file: &PathBuf| {
            let file = file.clone();
            move |why| StartError::AcmeFile { file, why }
        };
        if let Some(roots) = &options.roots {
            ::files::open(roots).map_err(cannot(roots))?;
        }
        if let Some(external) = &options.external_account {
            let file = &external.key_file;
            acme::external::read_key(file).map_err(cannot(file))?;
        }
        if let Some(hook) = &options.dns_hook {
            check_program(hook).map_err(cannot(hook))?;
        }
        files::make_folders(&config.state).map_err(cannot(&config.state))?;
        let inherited = inherited.filter(|listener| is_on(listener, options.listen));
        let listener = match (options.needs_port(), inherited) {
            (false, _) => None,
            (true, Some(listener)) => Some(listener),
            (true, None) => listen(options.listen, &config.state)
                .map_err(|why| StartError::AcmeAddress { address: options.listen, why })?,
        };
        options.has_listener = listener.is_some();
        let (ours, theirs) = packets::pair().map_err(StartError::NoDescriptors)?;
        let helper = |why| StartError::AcmeHelper { why };
        let options =
            serde_json::to_string(&options).map_err(|why| helper(io::Error::other(why)))?;
        // The helper must be the same program as the server, even if another file has replaced it at its path.
        Command::new("/proc/self/exe")
            .args(["acme", "--options", &options, "--keep"])
            .stdin(Stdio::from(theirs))
            .stdout(output(listener.as_ref()).map_err(StartError::NoDescriptors)?)
            .spawn()
            .map_err(helper)?;
        Ok(Some(Self { socket: ours, proofs: AlpnProofs::default(), listener }))
    }

    /// Starts the thread that receives from the helper.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(self) -> io::Result<Arc<AcmeLink>> {
        AcmeLink::start(self.socket, self.proofs)
    }
}

/// Checks that this may be executed, which needs no right to read it.
fn check_program(program: &Path) -> io::Result<()> {
    if program.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(rustix::fs::access(program, Access::EXEC_OK)?)
}

/// Passes the listener to the helper as its standard output, on which it prints nothing.
fn output(listener: Option<&OwnedFd>) -> io::Result<Stdio> {
    listener.map_or_else(|| Ok(Stdio::null()), |listener| listener.try_clone().map(Stdio::from))
}

/// Listens for challenges. `None` if another helper of this state folder has the address: the new one opens it after that one has ended.
fn listen(address: SocketAddr, state: &Path) -> io::Result<Option<OwnedFd>> {
    let deadline = Instant::now() + PREDECESSOR_GONE_WITHIN;
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if files::is_in_use(state) {
                    return Ok(None);
                }
                // The other helper may just be ending.
                if Instant::now() > deadline {
                    return Err(error);
                }
                sleep(Duration::from_millis(20));
            }
            bound => return bound.map(|listener| Some(listener.into())),
        }
    }
}
