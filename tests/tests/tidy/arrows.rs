//! Which crate may use which crate of this workspace: the arrows of ARCHITECTURE.md, downward only.
//!
//! A new crate needs a row here and one in "The house" of ARCHITECTURE.md. Before you add an arrow, check whether what
//! you need belongs further down. Tests and benches ([dev-dependencies]) may use anything.

use crate::rust;
use crate::tree::File;

/// A group of crates, `crates/GROUP`, and the groups that its crates may use, besides their own. The programs in `bin` may use all. A server and a
/// fleet do not know each other: an agent runs the server as a process.
const GROUPS: &str = "
    measure: core fleet media server
    server:  core media
    fleet:   core media
    media:   core
    core:
";

/// A crate's folder, and the crates that it may use. From the top down: a crate is above the crates it uses. disk, tls and
/// net do not know each other.
const ARROWS: &str = "
    fullbore:       acme bench capacity catalog config doctor edge escape files fleet_protocol gateway helper_process http identity ingest load \
                    machine node player publish server simulation store swarm tls token
    bench:          catalog delivery disk edge escape fleet_protocol frames gateway http identity load machine net node player reactor steering \
                    store swarm tcp telemetry tls
    gateway:        catalog files fleet_protocol identity listener outbound placement qoe s3 steering store telemetry tls token viewer_api \
                    web
    node:           catalog files fleet_protocol http identity listener machine s3 steering tls token viewer_api
    store:          catalog files fleet_protocol identity outbound placement s3
    viewer_api:     catalog escape fleet_protocol steering token
    identity:       files fleet_protocol listener tls
    simulation:     fleet_protocol placement steering
    placement:      fleet_protocol steering
    steering:       fleet_protocol
    fleet_protocol: catalog qoe
    server:         acme catalog config delivery disk edge escape files frames helper_process http ingest live_figures machine net qoe reactor \
                    silo_map tcp telemetry tls token web
    swarm:          load player reactor telemetry
    load:           http machine net player reactor telemetry tls
    doctor:         machine
    silo_map:       config delivery machine net
    live_figures:   catalog net qoe reactor telemetry
    config:         acme catalog delivery disk edge escape files http machine net tcp tls
    acme:           files helper_process http listener outbound
    edge:           escape files helper_process outbound s3
    publish:        catalog files http s3
    delivery:       disk frames http machine net reactor tcp telemetry tls
    frames:         machine reactor tcp
    disk:           reactor
    tls:            files
    net:            reactor
    s3:             escape files outbound
    outbound:       files
    token:          escape files
    listener:       http
    helper_process:
    http:           escape
    player:         escape
    ingest:         catalog escape files
    qoe:            catalog telemetry
    capacity:
    catalog:        escape
    escape:
    machine:
    middlebox:
    reactor:
    files:
    tcp:
    telemetry:
    web:
";

/// The rows of a table such as [`ARROWS`].
fn rows(arrows: &str) -> Vec<(&str, Vec<&str>)> {
    let rows = arrows.lines().filter_map(|line| line.split_once(':'));
    rows.map(|(name, uses)| (name.trim(), uses.split_whitespace().collect())).collect()
}

/// The crates of the workspace, by the names of their folders, with their manifests.
fn manifests(files: &[File]) -> Vec<(&str, &File)> {
    files.iter().filter_map(|file| Some((file.manifest_of()?, file))).collect()
}

/// The group of a crate with this manifest, `crates/GROUP/NAME/Cargo.toml`; none for a program.
fn group(manifest: &File) -> Option<&str> {
    manifest.path.strip_prefix("crates/")?.split('/').next()
}

/// The keys of `[dependencies]`. `http` is hyperium's crate; ours of that name has the key `fullbore_http`.
fn dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|key| !["", "http"].contains(key))
        .map(|key| key.strip_prefix("fullbore_").unwrap_or(key))
        .collect()
}

/// Whether crates of one group may use crates of the other, by [`GROUPS`].
fn may_use_group(from: &str, to: &str) -> bool {
    rows(GROUPS).iter().any(|(group, uses)| *group == from && uses.contains(&to))
}

fn breaches(files: &[File], arrows: &str) -> Vec<String> {
    let (crates, arrows) = (manifests(files), rows(arrows));
    let is_crate = |name: &str| crates.iter().any(|(known, _)| *known == name);
    let mut breaches = Vec::new();
    for (name, manifest) in &crates {
        let Some(row) = arrows.iter().position(|(known, _)| known == name) else {
            breaches.push(format!("{name}: a new crate: give it a row in ARROWS in {}", file!()));
            continue;
        };
        let used: Vec<_> =
            dependencies(&manifest.text).into_iter().filter(|name| is_crate(name)).collect();
        let may_use = &arrows[row].1;
        for used in used.iter().filter(|used| !may_use.contains(used)) {
            breaches.push(format!(
                "{name} -> {used}: not an arrow of the house: move what is needed down, or add it in ARROWS in {}",
                file!()
            ));
        }
        for idle in may_use.iter().filter(|name| !used.contains(name)) {
            breaches
                .push(format!("{name} -> {idle}: not used: take it out of ARROWS in {}", file!()));
        }
        for used in may_use {
            let is_below = arrows[row + 1..].iter().any(|(below, _)| below == used);
            if !is_below && is_crate(used) {
                breaches.push(format!(
                    "{name} -> {used}: points up: move a row in ARROWS in {}",
                    file!()
                ));
            }
        }
        let used = crates.iter().filter(|(name, _)| used.contains(name));
        breaches.extend(used.filter_map(|(used, below)| {
            let (from, to) = (group(manifest)?, group(below).unwrap_or("bin"));
            (from != to && !may_use_group(from, to)).then(|| {
                format!("{name} -> {used}: {from} may not use {to}: see GROUPS in {}", file!())
            })
        }));
    }
    let gone = arrows.iter().filter(|(name, _)| !is_crate(name));
    breaches.extend(gone.map(|(name, _)| {
        format!("{name}: no such crate: take its row out of ARROWS in {}", file!())
    }));
    breaches
}

/// The folders in "The house" of ARCHITECTURE.md, with their whole paths. Each stands at the start of its line, two columns to the right of the
/// folder that it lies in.
fn map(architecture: &str) -> Vec<String> {
    let house = architecture.split("\n## The house\n").nth(1).unwrap_or_default();
    let rows = house.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let (mut folders, mut above) = (Vec::new(), Vec::new());
    for row in rows {
        let depth = (row.len() - row.trim_start().len()) / 2;
        let Some((name, _)) = row.trim_start().split_once('/') else { continue };
        if name.contains(' ') || depth < 2 || above.len() < depth - 2 {
            continue;
        }
        above.truncate(depth - 2);
        above.push(name);
        folders.push(above.join("/"));
    }
    folders
}

fn breaches_of_map(files: &[File]) -> Vec<String> {
    let crates = manifests(files);
    let crates: Vec<_> =
        crates.iter().filter_map(|(_, file)| file.path.strip_suffix("/Cargo.toml")).collect();
    let architecture = files.iter().find(|file| file.path == "ARCHITECTURE.md");
    let rows = map(architecture.map_or("", |file| &file.text));
    let missing = crates.iter().filter(|folder| !rows.iter().any(|row| row == *folder));
    let missing =
        missing.map(|folder| format!("{folder}: no row in ARCHITECTURE.md, \"The house\""));
    let is_crate = |row: &str| {
        row.starts_with("bin/") || row.starts_with("crates/") && row.matches('/').count() == 2
    };
    let gone = rows.iter().filter(|row| is_crate(row) && !crates.contains(&row.as_str()));
    missing
        .chain(gone.map(|row| format!("ARCHITECTURE.md has a row for {row}, which is not there")))
        .collect()
}

/// Crates without I/O and without a clock: they get both as arguments.
const PURE: [&str; 6] = ["http", "placement", "player", "qoe", "steering", "tcp"];

const WORDS_OF_IO: [&str; 7] =
    ["fs", "TcpListener", "TcpStream", "UdpSocket", "UnixStream", "libc", "rustix"];

const CLOCKS: [&str; 2] = ["Instant::now", "SystemTime::now"];

fn impure(files: &[File]) -> Vec<String> {
    let is_pure = |file: &&File| file.source_of().is_some_and(|name| PURE.contains(&name));
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()).filter(is_pure) {
        for (at, line) in rust::code(&file.text).lines().enumerate() {
            let io = rust::words(line).find(|word| WORDS_OF_IO.contains(word));
            let clock = CLOCKS.into_iter().find(|clock| line.contains(clock));
            breaches.extend(io.or(clock).map(|what| {
                format!(
                    "{}: {what}: this crate has no I/O and no clock: let the caller do it",
                    file.at(at)
                )
            }));
        }
    }
    breaches
}

#[test]
fn pure_crates_have_no_io_and_no_clock() {
    crate::none(impure(&crate::tree::files()));
}

#[test]
fn planted_io_is_found() {
    let text = "use std::fs;\n// TcpStream\nlet now = Instant::now();\nlet fs2 = now;\n";
    let files = [
        File::planted("crates/core/tcp/src/a.rs", text),
        File::planted("crates/server/net/src/a.rs", text),
    ];
    crate::found(
        &impure(&files),
        &["crates/core/tcp/src/a.rs:1: fs", "crates/core/tcp/src/a.rs:3: Instant::now"],
    );
}

#[test]
fn crates_use_what_they_may() {
    crate::none(breaches(&crate::tree::files(), ARROWS));
}

#[test]
fn the_map_has_every_crate() {
    crate::none(breaches_of_map(&crate::tree::files()));
}

#[test]
fn planted_arrows_are_found() {
    let manifest = |name: &str, uses: &str| {
        let text = format!(
            "[package]\n\n[dependencies]\n{uses}\n[dev-dependencies]\ndisk.workspace = true\n"
        );
        File::planted(&format!("crates/{name}/Cargo.toml"), &text)
    };
    let files = [
        manifest("server/net", "disk.workspace = true\nlibc = { workspace = true }\n"),
        manifest("server/disk", "net = { workspace = true }\nnode.workspace = true\n"),
        manifest("fleet/node", "http.workspace = true\n"),
        manifest("core/http", ""),
        manifest("media/new", ""),
    ];
    let arrows = "net: reactor\ndisk: net node\nnode:\nhttp:\ngone:\n";
    crate::found(
        &breaches(&files, arrows),
        &[
            "net -> disk",
            "net -> reactor: not used",
            "disk -> net: points up",
            "disk -> node: server may not use fleet",
            "new: a new crate",
            "gone: no such crate",
        ],
    );
}

#[test]
fn planted_gaps_in_the_map_are_found() {
    let map = "# A\n\n## The house\n\n    bin/\n      old/\n    crates/\n      server/   a machine\n        net/    sockets, and\n                disks/tapes\n        \
               gone/   nothing\n      core/\n    web/  pages\n";
    let files = [
        File::planted("ARCHITECTURE.md", map),
        File::planted("crates/server/net/Cargo.toml", ""),
        File::planted("crates/core/new/Cargo.toml", ""),
    ];
    crate::found(
        &breaches_of_map(&files),
        &["crates/core/new", "has a row for bin/old", "has a row for crates/server/gone"],
    );
}
