//! `fullbore health`: a health check without curl, for containers and scripts.

use crate::{say, status, tell};
use ::config::Config;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Ask a running server whether it is well
///
/// Prints what its admin listener answers at /healthz: "ok", or what is wrong. A server that drains, whose library is lost, or whose edge
/// has lost its helper is not well.
#[derive(Args)]
#[command(
    after_help = "Exit codes:\n  0  it serves\n  1  it doesn't, or doesn't answer\n  2  wrong usage\n\n\
    Examples:\n  fullbore health\n  fullbore health --config /etc/fullbore/fullbore.toml\n  fullbore health http://192.0.2.7:9443"
)]
pub(crate) struct Health {
    /// Address of its admin listener [default: http://127.0.0.1:9443]
    #[arg(value_name = "URL", conflicts_with = "config")]
    url: Option<String>,
    /// The server's configuration file, to find the listener
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Health {
    /// Prints the answer.
    pub(crate) fn run(self) -> ExitCode {
        let url = match self.url() {
            Ok(url) => url,
            Err(why) => {
                tell(&why);
                return ExitCode::from(2);
            }
        };
        match status::get(&url, "/healthz") {
            Ok((code, body)) => {
                // A server on another machine may be anything.
                say(&format!("{}\n", ::ingest::shown(body.trim_end())));
                ExitCode::from(u8::from(code != 200))
            }
            Err(why) => {
                tell(&format!("the server at {url} does not answer: {why}"));
                ExitCode::FAILURE
            }
        }
    }

    fn url(&self) -> Result<String, String> {
        if let Some(url) = &self.url {
            return status::host_of(url).map(|_| url.clone());
        }
        let read = self.config.as_deref().map(Config::read).transpose();
        let config = read.map_err(|error| error.to_string())?.unwrap_or_default();
        Ok(format!("http://{}", config.admin))
    }
}
