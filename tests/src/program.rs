//! Finding the program under test: the one of the same build as the test that asks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the `fullbore` program is. Cargo is asked to bring it up to date first, since it does not build one package's program
/// for another one's tests by itself; `FULLBORE=path` names another one.
///
/// # Panics
/// When it cannot be built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os("FULLBORE").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("Linux tells");
    // TARGET/PROFILE/deps/TEST
    let folder = test.ancestors().nth(2).expect("cargo puts tests into deps/").to_owned();
    let target = folder.parent().expect("the profile's folder is in the target folder");
    let profile = match folder.file_name() {
        Some(name) if name == "debug" => "dev".into(),
        name => name.unwrap_or_default().to_owned(),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "fullbore", "--profile"]).arg(profile);
    build.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    let built = build.status().expect("cargo runs the tests, so it is here");
    assert!(built.success(), "{build:?} failed");
    folder.join("fullbore")
}
