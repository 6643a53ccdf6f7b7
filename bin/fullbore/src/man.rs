//! `fullbore man`: writes a manual page per command, from the definitions behind `--help`.

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, io};

/// Write manual pages into a directory
///
/// One page per command: fullbore.1, fullbore-serve.1 and so on. Fullbore's Debian package already installs them.
#[derive(Args)]
#[command(after_help = "Example:\n  fullbore man ~/.local/share/man/man1; man fullbore-serve")]
pub(crate) struct Man {
    /// Directory to write them to; created if missing
    dir: PathBuf,
}

impl Man {
    /// Writes the pages.
    pub(crate) fn run(self, program: clap::Command) -> ExitCode {
        match self.write(program) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                crate::tell(&format!("cannot write pages to {}: {error}", self.dir.display()));
                ExitCode::FAILURE
            }
        }
    }

    fn write(&self, program: clap::Command) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        clap_mangen::generate_to(program, &self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// The names of the pages: one for each command that `--help` shows.
    fn wanted(command: &clap::Command, name: &str, pages: &mut BTreeSet<String>) {
        pages.insert(format!("{name}.1"));
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            wanted(verb, &format!("{name}-{}", verb.get_name()), pages);
        }
    }

    #[test]
    fn each_command_that_help_shows_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("man1");
        Man { dir: dir.clone() }.write(crate::Command::command()).unwrap();
        let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        let found: BTreeSet<_> = names.map(|name| name.into_string().unwrap()).collect();
        let mut pages = BTreeSet::new();
        wanted(&crate::Command::command(), "fullbore", &mut pages);
        assert!(pages.contains("fullbore-control-keys-roll.1"), "{pages:?}");
        assert_eq!(found, pages);
        let page = fs::read_to_string(dir.join("fullbore-serve.1")).unwrap();
        for words in ["Put a directory of videos on HTTPS", "access\\-log", "fullbore serve /disk0"]
        {
            assert!(page.contains(words), "{words} is not in\n{page}");
        }
    }
}
