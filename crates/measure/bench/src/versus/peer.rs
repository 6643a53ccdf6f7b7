//! Which servers can be compared, and how each is run: with a command line and a configuration that readers can examine.

use super::workload::Workload;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// This program's name in reports.
pub(crate) const OURS: &str = "fullbore";

/// A server to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// nginx, from the PATH.
    Nginx,
    /// h2o, from the PATH.
    H2o,
    /// This program: a difference between two equal sides is the bench's own error.
    Fullbore,
    /// Any other server.
    Other {
        /// Its command line, with the placeholders that `Recipe` names.
        command: String,
        /// A template of its configuration; the completed file is `@CONFIG@`.
        config: Option<PathBuf>,
        /// Its name in reports; else the program's name.
        name: Option<String>,
    },
}

/// How to start one side. In the command line and the configuration these are replaced: `@ADDRESS@` and `@PORT@` where
/// to listen, `@LIBRARY@` the root of the files, `@CERT@` and `@KEY@` the certificate and its key (PEM), `@SCRATCH@` a
/// folder that is removed afterwards, `@CPU@` the core that it is pinned to, `@CONFIG@` the path of its configuration.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// Its name in reports.
    pub(crate) name: String,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Its configuration.
    pub(crate) config: Option<String>,
    /// Environment variables, each with the name and the contents of a file whose path it gets.
    pub(crate) files: Vec<(&'static str, &'static str, &'static str)>,
    /// Arguments that make the program print its version.
    pub(crate) version: Option<&'static str>,
    /// What to do if it cannot be started.
    pub(crate) advice: &'static str,
    /// Whether it prints `ready URL` once it listens, on a port that it chose.
    pub(crate) says_ready: bool,
    /// Whether it has its own TCP, so that its configuration is that of its wire.
    pub(crate) has_own_tcp: bool,
}

impl Recipe {
    /// The command line for reports: what differs from run to run is a placeholder, and the program has only its name.
    pub(crate) fn shown(&self) -> String {
        let (program, arguments) =
            self.command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let program =
            Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy());
        std::iter::once(program.as_ref())
            .chain(arguments.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl Peer {
    /// How it is run for `workload`; `arguments` are for this program as a peer.
    ///
    /// # Errors
    /// If a configuration cannot be read, or a command line is empty.
    pub(crate) fn recipe(&self, workload: Workload, arguments: &[String]) -> io::Result<Recipe> {
        match self {
            Self::Nginx => Ok(nginx(workload)),
            Self::H2o => Ok(h2o(workload)),
            Self::Fullbore => fullbore(workload, arguments, "fullbore (2)"),
            Self::Other { command, config, name } => {
                other(command, config.as_deref(), name.as_deref())
            }
        }
    }
}

/// All of a bench's viewers may come from one address.
const NO_LIMIT_BY_ADDRESS: &str = "[limits]\nconnections_per_address_max = 0\n";

/// This program as a server.
pub(crate) fn fullbore(workload: Workload, arguments: &[String], name: &str) -> io::Result<Recipe> {
    let tls = if workload.has_tls() { "on" } else { "off" };
    let disk = if workload.hot_files() == 0 { "direct" } else { "auto" };
    let has_own_tcp = arguments.join("=").contains("--route=bypass");
    // Without the kernel's TCP, nothing chooses a port.
    let port = if has_own_tcp { "@PORT@" } else { "0" };
    let mut command = words(&format!(
        "serve @LIBRARY@ --state @SCRATCH@/state --listen @ADDRESS@:{port} --workers 1 --tls {tls} --disk {disk}"
    ));
    if !arguments.iter().any(|argument| argument.starts_with("--admin")) {
        command.extend(words("--admin 127.0.0.1:0"));
    }
    // The configuration of one with its own TCP is that of its wire, which says the same.
    let own_config = arguments.iter().any(|argument| argument.starts_with("--config"));
    let config = (!has_own_tcp && !own_config).then(|| NO_LIMIT_BY_ADDRESS.to_owned());
    if has_own_tcp || config.is_some() {
        command.extend(words("--config @CONFIG@"));
    }
    if workload.has_hit_ratio() {
        // Titles are kept out of memory by emptying the page cache, which leaves a hot set as it is.
        command.extend(words("--off hot"));
    }
    command.extend_from_slice(arguments);
    Ok(Recipe { has_own_tcp, config, ..own_program(name, command)? })
}

/// This program, told to do `command`.
pub(crate) fn own_program(name: &str, mut command: Vec<String>) -> io::Result<Recipe> {
    command.insert(0, std::env::current_exe()?.to_string_lossy().into_owned());
    Ok(Recipe {
        name: name.to_owned(),
        command,
        config: None,
        files: Vec::new(),
        version: Some("--version"),
        advice: "run the same `fullbore serve` by hand to see why",
        says_ready: true,
        has_own_tcp: false,
    })
}

fn nginx(workload: Workload) -> Recipe {
    let disk = match workload {
        Workload::TlsCold | Workload::HttpCold => include_str!("../../peers/nginx-cold.conf"),
        Workload::Mixed | Workload::HttpMixed | Workload::HttpBeside => {
            include_str!("../../peers/nginx-mixed.conf")
        }
        _ => include_str!("../../peers/nginx-warm.conf"),
    };
    nginx_with(workload.has_tls(), disk, "")
}

/// nginx, with further lines of its `http` and its `server` block.
pub(crate) fn nginx_with(has_tls: bool, http: &str, server: &str) -> Recipe {
    let tls = if has_tls { include_str!("../../peers/nginx-tls.conf") } else { "" };
    let config = include_str!("../../peers/nginx.conf")
        .replace("@TLS@", &format!("{tls}{server}"))
        .replace("@DISK@", http)
        .replace("@SSL@", if has_tls { " ssl" } else { "" })
        .replace("@USER@", as_root("user root;"));
    Recipe {
        name: "nginx".to_owned(),
        command: words("nginx -c @CONFIG@ -p @SCRATCH@ -e stderr"),
        config: Some(config),
        files: Vec::new(),
        version: Some("-v"),
        advice: "if nginx is missing: apt install nginx-light, or ./run bench versus nginx, which unpacks one for the bench alone",
        says_ready: false,
        has_own_tcp: false,
    }
}

fn h2o(workload: Workload) -> Recipe {
    let tls = if workload.has_tls() { include_str!("../../peers/h2o-tls.conf") } else { "" };
    let config = include_str!("../../peers/h2o.conf")
        .replace("@TLS@", tls)
        .replace("@USER@", as_root("user: root"));
    let openssl = include_str!("../../peers/h2o-openssl.cnf");
    Recipe {
        name: "h2o".to_owned(),
        command: words("h2o -c @CONFIG@"),
        config: Some(config),
        files: vec![("OPENSSL_CONF", "h2o-openssl.cnf", openssl)],
        version: Some("-v"),
        advice: "if h2o is missing: apt install h2o (Debian 12 has it), or ./run bench versus h2o, which unpacks one for the bench \
                 alone",
        says_ready: false,
        has_own_tcp: false,
    }
}

/// A line for servers that start as root and would otherwise serve as another user, who may not read the library.
fn as_root(line: &'static str) -> &'static str {
    if rustix::process::geteuid().is_root() { line } else { "" }
}

fn other(command: &str, config: Option<&Path>, name: Option<&str>) -> io::Result<Recipe> {
    let command = words(command);
    let Some(program) = command.first() else {
        return Err(io::Error::other("--peer-command is empty: give the server's command line"));
    };
    let own_name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or(own_name).unwrap_or_else(|| program.clone());
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| {
            io::Error::new(error.kind(), format!("--peer-config {}: {error}", path.display()))
        })
    };
    Ok(Recipe {
        // For example another build of this program.
        name: if name == OURS { format!("{name} (peer)") } else { name },
        files: Vec::new(),
        config: config.map(read).transpose()?,
        version: None,
        advice: "check --peer-command and --peer-config; it has to stay in the foreground and listen on \
                 127.0.0.1:@PORT@",
        says_ready: false,
        has_own_tcp: false,
        command,
    })
}

/// Words at spaces; quotes keep a word together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What a server prints about its version.
pub(crate) fn version(recipe: &Recipe) -> Option<String> {
    said_version(&recipe.command[0], recipe.version?)
}

/// The first line of what a program prints about its version.
pub(crate) fn said_version(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_spaces_but_not_in_quotes() {
        assert_eq!(words(r#"  a 'b c'  d"e f" '' "#), ["a", "b c", "de f", ""]);
        assert!(words("  ").is_empty());
    }

    #[test]
    fn an_empty_command_line_and_a_missing_configuration_are_errors() {
        assert!(other(" ", None, None).is_err());
        let error = other("server", Some(Path::new("/nowhere")), None).unwrap_err();
        assert!(error.to_string().contains("/nowhere"));
        assert_eq!(other("/usr/bin/server -x", None, None).unwrap().name, "server");
        assert_eq!(other("/old/fullbore serve", None, None).unwrap().name, "fullbore (peer)");
        assert_eq!(other("/old/fullbore serve", None, Some("old")).unwrap().name, "old");
    }
}
