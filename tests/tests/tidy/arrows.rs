//! Which crate may use which crate of this workspace: the arrows of ARCHITECTURE.md, downward only.
//!
//! A new crate needs a row here and one in "The house" of ARCHITECTURE.md. Before you add an arrow, check whether what
//! you need belongs further down. Tests and benches ([dev-dependencies]) may use anything.

use crate::rust;
use crate::tree::File;

/// A crate's folder, and the crates that it may use. From the top down: a crate is above the crates it uses. disk, crypt and
/// net do not know each other.
const ARROWS: &str = "
    fullbore:  acme appliance bench capacity catalog control crypt doctor edge fleet http identity library load machine node player publish \
               simulation smallfile swarm token
    bench:     catalog control crypt delivery disk fleet http identity load machine net node player reactor stack steering swarm tcp telemetry
    control:   answers catalog crypt fleet identity listener placement popularity s3 smallfile steering telemetry token web
    node:      answers catalog crypt fleet identity listener machine s3 smallfile steering token
    answers:   catalog fleet steering token
    identity:  fleet listener smallfile
    simulation: fleet placement popularity steering
    placement: fleet steering
    steering:  fleet
    popularity: fleet
    fleet:     catalog
    appliance: acme catalog crypt delivery disk edge http library machine net qoe reactor smallfile stack tcp telemetry token web
    swarm:     load player reactor telemetry
    load:      crypt machine net player reactor telemetry
    doctor:    machine
    acme:      edge http listener s3 smallfile
    edge:      http s3
    publish:   catalog http s3 smallfile
    delivery:  crypt disk http machine net reactor stack tcp telemetry
    stack:     reactor tcp
    disk:      reactor
    crypt:     smallfile
    net:       reactor
    s3:        smallfile
    token:     smallfile
    listener:  http
    http:
    player:
    library:   catalog smallfile
    qoe:       catalog telemetry
    capacity:
    catalog:
    machine:
    middlebox:
    reactor:
    smallfile:
    tcp:
    telemetry:
    web:
";

/// The rows of a table such as [`ARROWS`].
fn rows(arrows: &str) -> Vec<(&str, Vec<&str>)> {
    let rows = arrows.lines().filter_map(|line| line.split_once(':'));
    rows.map(|(name, uses)| (name.trim(), uses.split_whitespace().collect())).collect()
}

/// The crates of the workspace, by their folders below `crates/`, with the text of their manifests.
fn manifests(files: &[File]) -> Vec<(&str, &str)> {
    let of = |file: &File| {
        let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        let start = file.path.find(name)?;
        Some(start..start + name.len())
    };
    files.iter().filter_map(|file| Some((&file.path[of(file)?], file.text.as_str()))).collect()
}

/// The keys of `[dependencies]`: names of crates in the workspace.
fn dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|key| !key.is_empty())
        .collect()
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
            dependencies(manifest).into_iter().filter(|name| is_crate(name)).collect();
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
    }
    let gone = arrows.iter().filter(|(name, _)| !is_crate(name));
    breaches.extend(gone.map(|(name, _)| {
        format!("{name}: no such crate: take its row out of ARROWS in {}", file!())
    }));
    breaches
}

/// The crates in "The house" of ARCHITECTURE.md: the names below `crates/`, each at the start of its line.
fn map(architecture: &str) -> Vec<&str> {
    let house = architecture.split("\n    crates/\n").nth(1).unwrap_or_default();
    let rows = house.lines().take_while(|line| line.starts_with("      "));
    rows.filter_map(|row| row.strip_prefix("      ")?.split_once('/').map(|(name, _)| name))
        .filter(|name| !name.contains(' '))
        .collect()
}

fn breaches_of_map(files: &[File]) -> Vec<String> {
    let crates = manifests(files);
    let architecture = files.iter().find(|file| file.path == "ARCHITECTURE.md");
    let rows = map(architecture.map_or("", |file| &file.text));
    let missing = crates.iter().filter(|(name, _)| !rows.contains(name));
    let gone = rows.iter().filter(|row| !crates.iter().any(|(name, _)| name == *row));
    let missing =
        missing.map(|(name, _)| format!("crates/{name}: no row in ARCHITECTURE.md, \"The house\""));
    missing
        .chain(
            gone.map(|row| {
                format!("ARCHITECTURE.md has a row for crates/{row}, which is not there")
            }),
        )
        .collect()
}

/// Crates without I/O and without a clock: they get both as arguments.
const PURE: [&str; 7] = ["http", "placement", "player", "popularity", "qoe", "steering", "tcp"];

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
    let files =
        [File::planted("crates/tcp/src/a.rs", text), File::planted("crates/net/src/a.rs", text)];
    crate::found(
        &impure(&files),
        &["crates/tcp/src/a.rs:1: fs", "crates/tcp/src/a.rs:3: Instant::now"],
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
        manifest("net", "disk.workspace = true\nlibc = { workspace = true }\n"),
        manifest("disk", "net = { workspace = true }\n"),
        manifest("new", ""),
    ];
    let arrows = "net: reactor
 disk: net
 gone:
";
    crate::found(
        &breaches(&files, arrows),
        &[
            "net -> disk",
            "net -> reactor: not used",
            "disk -> net: points up",
            "new: a new crate",
            "gone: no such crate",
        ],
    );
}

#[test]
fn planted_gaps_in_the_map_are_found() {
    let map = "# House\n\n    crates/\n      net/    sockets, and\n              disks\n      gone/   nothing\n    web/  pages\n";
    let files = [
        File::planted("ARCHITECTURE.md", map),
        File::planted("crates/net/Cargo.toml", ""),
        File::planted("crates/new/Cargo.toml", ""),
    ];
    crate::found(&breaches_of_map(&files), &["crates/new", "crates/gone"]);
}
