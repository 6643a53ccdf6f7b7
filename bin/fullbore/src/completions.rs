//! `fullbore completions`: prints a shell's completion script, generated from the definitions behind `--help`.

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use std::process::ExitCode;

/// Print completions for a shell
///
/// Put them where your shell looks for them. Fullbore's Debian package already installs them.
#[derive(Args)]
#[command(after_help = "Examples:\n  mkdir -p ~/.local/share/bash-completion/completions\n  \
    fullbore completions bash >~/.local/share/bash-completion/completions/fullbore\n  \
    fullbore completions fish >~/.config/fish/completions/fullbore.fish\n  \
    fullbore completions zsh >/usr/local/share/zsh/site-functions/_fullbore")]
pub(crate) struct Completions {
    /// Which shell
    shell: KnownShell,
}

/// The shells whose completions are tested.
#[derive(Clone, Copy, ValueEnum)]
enum KnownShell {
    Bash,
    Fish,
    Zsh,
}

impl Completions {
    /// Prints the completion script.
    pub(crate) fn run(self, program: &Command) -> ExitCode {
        let script = script(self.shell, program);
        // A package may be built from this output: a truncated script must not pass for a complete one.
        crate::say_bytes(&script);
        ExitCode::SUCCESS
    }
}

fn script(shell: KnownShell, program: &Command) -> Vec<u8> {
    let shell = match shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Fish => Shell::Fish,
        KnownShell::Zsh => Shell::Zsh,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(program), "fullbore", &mut script);
    script
}

/// A command without the subcommands that `--help` hides: clap_complete would offer them.
fn shown(command: &Command) -> Command {
    if !command.has_subcommands() {
        return command.clone();
    }
    // clap requires `'static` names. There are few, and the program ends after this.
    let name: &'static str = command.get_name().to_owned().leak();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(shown);
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .version(crate::VERSION)
        .args(command.get_arguments().cloned())
        .subcommands(verbs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn text(shell: KnownShell) -> String {
        String::from_utf8(script(shell, &crate::Command::command())).unwrap()
    }

    #[test]
    fn completions_offer_what_help_shows() {
        for shell in [KnownShell::Bash, KnownShell::Fish, KnownShell::Zsh] {
            let text = text(shell);
            for word in ["doctor", "ingest", "access-log", "memory-at-disk", "fill-beside"] {
                assert!(text.contains(word), "{word} is not in\n{text}");
            }
        }
    }

    #[test]
    fn completions_do_not_offer_what_help_hides() {
        let fish = text(KnownShell::Fish);
        assert!(fish.contains("-a \"swarm\"") && fish.contains("-a \"heartbeats\""), "{fish}");
        assert!(!fish.contains("-a \"edge\" -d 'Fetch"), "{fish}");
        assert!(!fish.contains("-a \"hello\""), "{fish}");
    }
}
