//! `fullbore bench start`.

use clap::Args;

/// From the start of the process to the first byte served
#[derive(Args)]
pub(super) struct Start {
    /// How often to start
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

impl Start {
    pub(super) fn run(self) -> std::io::Result<()> {
        print!("{}", ::bench::start::run(self.rounds.into())?.describe());
        Ok(())
    }
}
