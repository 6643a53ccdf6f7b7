//! Which crates check for overflow in release builds (`overflow-checks` in the workspace's Cargo.toml): all except those of [`UNCHECKED`], and
//! dependencies. Packages are built by `[profile.dist]`, which has the checks from `[profile.release]`.
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
    ("escape", "the data plane: per request"),
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

/// The packages that the workspace's manifest has unchecked in release builds; `*` stands for dependencies.
fn unchecked(manifest: &str) -> Vec<&str> {
    let table = manifest.split("\n[profile.release.package]\n").nth(1).unwrap_or_default();
    let rows = table.lines().take_while(|line| !line.starts_with('['));
    let names = rows.filter_map(|row| row.strip_suffix(" = { overflow-checks = false }"));
    names.map(|name| name.trim_matches('"')).collect()
}

/// What the profiles have besides that table.
fn differing_profiles(manifest: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let release = manifest.split("\n[profile.release]\n").nth(1).unwrap_or_default();
    let mut settings = release.lines().take_while(|line| !line.starts_with('['));
    if !settings.any(|line| line == "overflow-checks = true") {
        breaches.push("Cargo.toml: [profile.release] lacks overflow-checks = true".into());
    }
    if !manifest.contains("\n[profile.dist]\ninherits = \"release\"\n") {
        breaches.push("Cargo.toml: [profile.dist] does not begin with inherits = \"release\", so packages lack its overflow checks".into());
    }
    if manifest.contains("\n[profile.dist.package")
        || manifest.contains("\n[profile.release.package.")
        || manifest.contains("\noverflow-checks = false")
    {
        breaches.push("Cargo.toml: other crates than those listed would be unchecked: name each in [profile.release.package] only".into());
    }
    breaches
}

fn breaches(files: &[File], listed: &[(&str, &str)]) -> Vec<String> {
    let manifest = files.iter().find(|file| file.path == "Cargo.toml");
    let manifest = manifest.map_or("", |file| &file.text);
    let unchecked = unchecked(manifest);
    let mut breaches = differing_profiles(manifest);
    let mut known = vec!["*".to_owned()];
    for file in files {
        let Some(folder) = file.manifest_of() else { continue };
        let package = crate::tree::package(folder);
        let is_unchecked = unchecked.contains(&&*package);
        let is_listed = listed.iter().any(|(name, _)| *name == folder);
        if is_unchecked != is_listed {
            breaches.push(format!(
                "{folder}: either check it for overflow in release builds, or name it in [profile.release.package] ({package}) in Cargo.toml and, with \
                 a reason, in {}",
                file!()
            ));
        }
        known.push(package);
    }
    let strange = unchecked.iter().filter(|name| !known.iter().any(|known| known == *name));
    breaches.extend(strange.map(|name| {
        format!("Cargo.toml: {name} in [profile.release.package] is no crate of ours: \"*\" covers dependencies")
    }));
    breaches
}

#[test]
fn crates_off_the_path_of_a_byte_check_for_overflow_in_release_builds() {
    crate::none(breaches(&crate::tree::files(), UNCHECKED));
}

/// The profiles, with these rows of `[profile.release.package]`.
fn manifest(rows: &str) -> String {
    format!(
        "[workspace]\n\n[profile.release]\ncodegen-units = 16\noverflow-checks = true\n\n[profile.dist]\ninherits = \"release\"\n\n\
         [profile.release.package]\n\"*\" = {{ overflow-checks = false }}\n{rows}\n[profile.dev]\nfullbore-c = {{ overflow-checks = false }}\n"
    )
}

#[test]
fn a_crate_that_is_unchecked_without_a_reason_or_listed_and_checked_is_found() {
    let manifest = manifest("fullbore-a = { overflow-checks = false }\n");
    let files = [
        File::planted("Cargo.toml", &manifest),
        File::planted("crates/core/a/Cargo.toml", ""),
        File::planted("crates/core/b/Cargo.toml", ""),
        File::planted("crates/core/c/Cargo.toml", ""),
    ];
    crate::none(breaches(&files, &[("a", "why")]));
    crate::found(&breaches(&files, &[]), &["a: "]);
    crate::found(&breaches(&files, &[("a", "why"), ("c", "why")]), &["c: "]);
    crate::found(&breaches(&files[..1], &[("a", "why")]), &["fullbore-a in"]);
}

#[test]
fn profiles_that_leave_other_crates_unchecked_are_found() {
    let planted = |manifest: &str| breaches(&[File::planted("Cargo.toml", manifest)], &[]);
    let right = manifest("");
    crate::none(planted(&right));
    let lacks = right.replace("overflow-checks = true\n", "");
    crate::found(&planted(&lacks), &["lacks"]);
    let alone = right.replace("inherits = \"release\"", "lto = \"thin\"");
    crate::found(&planted(&alone), &["inherits"]);
    for more in ["[profile.dist.package.fullbore-a]", "[profile.release.package.fullbore-a]"] {
        let more = format!("{right}\n{more}\noverflow-checks = false\n");
        crate::found(&planted(&more), &["other crates"]);
    }
    let off = format!("{right}\n[profile.dist]\noverflow-checks = false\n");
    crate::found(&planted(&off), &["other crates"]);
}
