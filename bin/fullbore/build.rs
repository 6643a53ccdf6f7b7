//! Sets what `fullbore --version` prints: the version, and the commit in a git checkout. It contains nothing about the machine or the time, so two
//! builds of one commit print the same.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let said = match commit() {
        Some(commit) => format!("{version} (commit {commit})"),
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=FULLBORE_VERSION={said}");
}

/// The commit of this source tree. A tree unpacked from an archive has none, even inside another repository.
fn commit() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if Path::new(&top).canonicalize().ok()? != here.canonicalize().ok()? {
        return None;
    }
    // HEAD changes with each checkout, its log with each commit. Cargo reruns this at every build if it watches a file that does not exist.
    let watched = ["HEAD", "logs/HEAD"].map(|name| git(&["rev-parse", "--git-path", name]));
    for path in watched.into_iter().flatten().filter(|path| Path::new(path).exists()) {
        println!("cargo:rerun-if-changed={path}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Git's output, if git is installed and the command succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let done = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(done.stdout).ok()?;
    done.status.success().then(|| said.trim_end().to_owned())
}
