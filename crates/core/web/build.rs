//! Includes Vite's output (`web/dist`) in the program. Without it the program still builds, and its pages say
//! what to run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let dist = root.join("../../../web/dist");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut files = BTreeMap::new();
    collect(&dist, "", &mut files)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    fs::write(out.join("files.rs"), source(&files)?)
}

/// The files below `folder` by their path, which begins with `prefix`; hidden ones are left out.
fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().expect("Vite's names are ASCII");
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else {
            files.insert(path, entry.path().canonicalize()?);
        }
    }
    Ok(())
}

/// The table as Rust, sorted by path. Files `x.br` and `x.gz` are compressed forms of `x`, not files of their own.
fn source(files: &BTreeMap<String, PathBuf>) -> io::Result<String> {
    let mut text = String::from("&[\n");
    let is_whole = |path: &String| !path.ends_with(".br") && !path.ends_with(".gz");
    for (path, file) in files.iter().filter(|(path, _)| is_whole(path)) {
        let form = |suffix: &str| match files.get(&format!("{path}.{suffix}")) {
            Some(file) => format!("Some(include_bytes!({file:?}))"),
            None => "None".into(),
        };
        let (brotli, gzip) = (form("br"), form("gz"));
        let etag = format!("\"{:016x}\"", digest(&fs::read(file)?));
        let _ = writeln!(
            text,
            "Asset {{ path: {path:?}, etag: {etag:?}, bytes: include_bytes!({file:?}), brotli: {brotli}, gzip: {gzip} }},"
        );
    }
    text.push(']');
    Ok(text)
}

/// A digest that distinguishes one build's file from another's. An attacker gains nothing by a collision: the files are ours.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
