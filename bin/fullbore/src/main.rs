//! The `fullbore` command. Each subcommand has a file, which parses its arguments and calls a crate.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.

mod acme;
mod bad_value;
mod bench;
mod completions;
mod config;
mod control;
mod core_dumps;
mod doctor;
mod edge;
mod fleet;
mod folders;
mod health;
mod host;
mod ingest;
mod join;
mod library;
mod load;
mod man;
mod node;
mod output;
mod plan;
mod promote;
mod publish;
mod serve;
mod sign;
mod status;
mod swarm;
mod upgrade;

use clap::{CommandFactory, Parser, Subcommand};
use output::{note, say, say_bytes, say_line, say_started, tell};
use std::process::ExitCode;

/// The version, and the commit if it is known (build.rs).
const VERSION: &str = env!("FULLBORE_VERSION");

/// Serves video libraries over HTTPS at the speed of the machine.
#[derive(Parser)]
#[command(version = VERSION, propagate_version = true)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    #[command(hide = true)]
    Acme(acme::Acme),
    Bench(bench::Bench),
    Completions(completions::Completions),
    Config(config::ConfigCommand),
    Control(Box<control::Control>),
    Doctor(doctor::Doctor),
    Edge(edge::Edge),
    Fleet(fleet::Fleet),
    Health(health::Health),
    Ingest(ingest::Ingest),
    Join(join::Join),
    Library(library::Library),
    Load(load::Load),
    Man(man::Man),
    Node(node::Node),
    Plan(plan::Plan),
    Publish(publish::Publish),
    Serve(serve::Serve),
    Sign(sign::Sign),
    Swarm(Box<swarm::Swarm>),
    Upgrade(upgrade::Upgrade),
}

fn main() -> ExitCode {
    core_dumps::settle();
    // clap itself reports wrong usage, with exit code 2.
    let code = match Command::parse().verb {
        Verb::Acme(acme) => acme.run(),
        Verb::Bench(bench) => bench.run(),
        Verb::Completions(completions) => completions.run(&Command::command()),
        Verb::Config(config) => config.run(),
        Verb::Control(control) => control.run(),
        Verb::Doctor(doctor) => doctor.run(),
        Verb::Edge(edge) => edge.run(),
        Verb::Fleet(fleet) => fleet.run(),
        Verb::Health(health) => health.run(),
        Verb::Ingest(ingest) => ingest.run(),
        Verb::Join(join) => join.run(),
        Verb::Library(library) => library.run(),
        Verb::Load(load) => load.run(),
        Verb::Man(man) => man.run(Command::command()),
        Verb::Node(node) => node.run(),
        Verb::Plan(plan) => plan.run(),
        Verb::Publish(publish) => publish.run(),
        Verb::Serve(serve) => serve.run(),
        Verb::Sign(sign) => sign.run(),
        Verb::Swarm(swarm) => swarm.run(),
        Verb::Upgrade(upgrade) => upgrade.run(),
    };
    output::end(code)
}

#[cfg(test)]
mod tests {
    use super::{Command, VERSION};
    use clap::CommandFactory;

    #[test]
    fn each_subcommand_is_defined_without_a_contradiction() {
        Command::command().debug_assert();
    }

    #[test]
    fn the_version_has_the_commit_if_it_is_known_and_nothing_else() {
        assert_eq!(Command::command().render_version(), format!("fullbore {VERSION}\n"));
        let rest = VERSION.strip_prefix(env!("CARGO_PKG_VERSION")).unwrap();
        let commit = rest.strip_prefix(" (commit ").and_then(|rest| rest.strip_suffix(')'));
        let is_commit =
            |text: &str| text.len() >= 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(rest.is_empty() || commit.is_some_and(is_commit), "{VERSION}");
    }
}
