//! Which running edge a command is for.

use crate::tell;
use clap::Args;
use config::Config;
use server::upgrade;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Finds the running server
#[derive(Args)]
pub(super) struct ServerChoice {
    /// The server's configuration file, to find the server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address that it listens on, if it was started with --listen
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Its state directory, if it was started with --state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Its socket [default: STATE/upgrade-ADDR:PORT.sock]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

impl ServerChoice {
    /// The path of its socket. If the configuration cannot be read, says why, and returns the exit code of wrong usage.
    pub(super) fn socket_or_exit(&self) -> Result<PathBuf, ExitCode> {
        self.socket().map_err(|why| {
            tell(&why);
            ExitCode::from(2)
        })
    }

    fn socket(&self) -> Result<PathBuf, String> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        let read = self.config.as_deref().map(Config::read).transpose();
        let mut config = read.map_err(|error| error.to_string())?.unwrap_or_default();
        config.listen = self.listen.unwrap_or(config.listen);
        config.state = self.state.clone().unwrap_or(config.state);
        Ok(upgrade::socket_path(&config))
    }
}
