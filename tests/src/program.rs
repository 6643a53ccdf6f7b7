//! Finds the program under test: the one from the same build as the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The path of the `fullbore` program; `FULLBORE=path` selects another one.
///
/// Cargo builds it together with the whole workspace's tests, but not with this package's alone. So this asks cargo to
/// update it if it is older than its sources.
///
/// # Panics
/// If it cannot be built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os("FULLBORE").map_or_else(up_to_date, PathBuf::from))
}

fn up_to_date() -> PathBuf {
    let test = std::env::current_exe().expect("Linux tells");
    // TARGET/PROFILE/deps/TEST
    let folder = test.ancestors().nth(2).expect("cargo puts tests into deps/").to_owned();
    let target = folder.parent().expect("the profile's folder is in the target folder");
    let program = folder.join("fullbore");
    if is_current(&program) {
        return program;
    }
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
    program
}

/// Whether the program exists and is newer than all its sources.
fn is_current(program: &Path) -> bool {
    let workspace =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("we are in a folder of it");
    let folders = |of: &Path| {
        fs::read_dir(of).into_iter().flatten().flatten().map(|one| one.path()).collect::<Vec<_>>()
    };
    let crates = folders(&workspace.join("crates")).into_iter().flat_map(|group| folders(&group));
    let crates = crates.chain(folders(&workspace.join("bin")));
    let made_of = crates.flat_map(|one| [one.join("src"), one.join("Cargo.toml")]);
    let newest =
        made_of.chain([workspace.join("Cargo.lock")]).filter_map(|path| newest(&path)).max();
    newest < fs::metadata(program).and_then(|program| program.modified()).ok()
}

/// Modification time of a file, or of the newest file below a folder.
fn newest(path: &Path) -> Option<SystemTime> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.is_dir() {
        let inside = fs::read_dir(path).ok()?.flatten();
        return inside.filter_map(|entry| newest(&entry.path())).max();
    }
    metadata.modified().ok()
}
