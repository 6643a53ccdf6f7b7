//! Which crates check for overflow in release builds (`overflow-checks` in the workspace's Cargo.toml): all except those of [`UNCHECKED`].
//! Packages are built by `[profile.dist]`, which has the checks from `[profile.release]`.
//!
//! A wrong sum in a gateway or an agent becomes a wrong decision about a fleet. There, a panic is better: it ends a request or a task, and says
//! where.

use crate::tree::File;

/// Crates without checks in release builds, by their folders, each with the reason.
const UNCHECKED: &[(&str, &str)] = &[
    ("server", "the data plane: sessions and workers"),
    ("bench", "measures; its own work must not be slowed"),
    ("tls", "the data plane: per record"),
    ("delivery", "the data plane: per window"),
    ("disk", "the data plane: per window"),
    ("http", "the data plane: per request"),
    ("load", "measures; its own work must not be slowed"),
    ("middlebox", "a model of a network: per packet"),
    ("net", "the data plane: per window"),
    ("player", "measures: per segment of thousands of viewers"),
    ("reactor", "the data plane: per operation"),
    ("simulation", "measures: a day of a fleet in virtual time"),
    ("frames", "the data plane: per frame"),
    ("swarm", "measures: thousands of viewers on a machine"),
    ("tcp", "the data plane: per segment; sequence numbers wrap"),
    ("telemetry", "the data plane: counters"),
    ("web", "holds pages and computes nothing"),
];

/// The packages that the workspace's manifest has checked in release builds.
fn checked(manifest: &str) -> Vec<&str> {
    let sections = manifest.split("\n[profile.release.package.").skip(1);
    let checked = sections.filter_map(|section| section.split_once(']'));
    let checked = checked.filter(|(_, rest)| rest.starts_with("\noverflow-checks = true\n"));
    checked.map(|(name, _)| name).collect()
}

/// The differences between the profiles of packages and of releases in their checks.
fn differing_profiles(manifest: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    if !manifest.contains("\n[profile.dist]\ninherits = \"release\"\n") {
        breaches.push("Cargo.toml: [profile.dist] does not begin with inherits = \"release\", so packages lack its overflow checks".into());
    }
    if manifest.contains("\n[profile.dist.package")
        || manifest.contains("\noverflow-checks = false")
    {
        breaches.push("Cargo.toml: packages would check other crates for overflow than releases: set it in [profile.release.package.NAME] only".into());
    }
    breaches
}

fn breaches(files: &[File], unchecked: &[(&str, &str)]) -> Vec<String> {
    let manifest = files.iter().find(|file| file.path == "Cargo.toml");
    let manifest = manifest.map_or("", |file| &file.text);
    let checked = checked(manifest);
    let mut breaches = differing_profiles(manifest);
    for file in files {
        let Some(folder) = file.manifest_of() else { continue };
        let package = crate::tree::package(folder);
        let is_checked = checked.contains(&&*package);
        let is_listed = unchecked.iter().any(|(name, _)| *name == folder);
        if is_checked == is_listed {
            breaches.push(format!(
                "{folder}: either check it for overflow in release builds ([profile.release.package.{package}] in Cargo.toml), or list it with a reason in {}",
                file!()
            ));
        }
    }
    breaches
}

#[test]
fn crates_off_the_path_of_a_byte_check_for_overflow_in_release_builds() {
    crate::none(breaches(&crate::tree::files(), UNCHECKED));
}

#[test]
fn a_crate_that_is_neither_checked_nor_listed_is_found() {
    let manifest = "\n[profile.dist]\ninherits = \"release\"\n\n[profile.release.package.fullbore-a]\noverflow-checks = true\n\n[profile.release.package.fullbore-b]\nopt-level = 2\n";
    let files = [
        File::planted("Cargo.toml", manifest),
        File::planted("crates/core/a/Cargo.toml", ""),
        File::planted("crates/core/b/Cargo.toml", ""),
        File::planted("crates/core/c/Cargo.toml", ""),
    ];
    crate::found(&breaches(&files, &[("c", "why")]), &["b: "]);
    crate::found(&breaches(&files, &[("a", "why"), ("b", "why"), ("c", "why")]), &["a: "]);
}

#[test]
fn packages_that_check_otherwise_than_releases_are_found() {
    let planted = |manifest| breaches(&[File::planted("Cargo.toml", manifest)], &[]);
    crate::found(&planted("\n[profile.dist]\nlto = \"thin\"\n"), &["inherits"]);
    let inherits = "\n[profile.dist]\ninherits = \"release\"\n";
    let unchecked = "\n[profile.dist.package.fullbore-a]\noverflow-checks = false\n";
    crate::found(&planted(&format!("{inherits}{unchecked}")), &["other crates"]);
}
