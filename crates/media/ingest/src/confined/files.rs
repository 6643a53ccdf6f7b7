//! Landlock: ffmpeg may read the film, the program with its libraries, and the files that describe the processor. It may write one folder.
//! It gets no TCP, no signals to other processes and no sockets of other processes.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
    make_bitflags,
};

/// The newest Landlock ABI that these rules were designed for. An older kernel enforces the part that it knows.
const NEWEST: ABI = ABI::V9;

type Rights = BitFlags<AccessFs>;

const READ: Rights = make_bitflags!(AccessFs::{ReadFile | ReadDir});
const RUN: Rights = make_bitflags!(AccessFs::{ReadFile | ReadDir | Execute});
const WRITE: Rights =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | MakeReg | RemoveFile});

/// Where systems keep programs and their libraries: these are public, and none of them are the operator's own.
const PROGRAMS: [&str; 11] = [
    "/bin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/lib",
    "/nix/store",
    "/gnu/store",
];
/// The loader's files, ffmpeg's presets, and files about the processor, which encoders need to divide their work.
const ASKED: [&str; 10] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/usr/share/ffmpeg",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/filesystems",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/dev/zero",
    "/dev/urandom",
];
const NULL: &str = "/dev/null";

/// The files to grant, each with its rights.
pub(super) type Grants = Vec<(OwnedFd, Rights)>;

/// The files that `program` opens to process `film` in `folder`. Paths that do not exist are not granted.
pub(super) fn grants(program: &Path, film: Option<&File>, folder: Option<&Path>) -> Grants {
    let programs = PROGRAMS.iter().map(PathBuf::from).chain(libraries_of(program));
    let by_path = programs
        .chain([program.to_owned()])
        .map(|path| (path, RUN))
        .chain(ASKED.iter().map(|path| (path.into(), READ)))
        .chain([(NULL.into(), AccessFs::ReadFile | AccessFs::WriteFile)])
        .chain(folder.map(|folder| (folder.to_owned(), WRITE)));
    let mut grants: Grants = by_path.filter_map(|(path, rights)| grant(&path, rights)).collect();
    // Grant the descriptor, not a path, so that it stays this film even if files are renamed meanwhile.
    let film = film.and_then(|film| film.as_fd().try_clone_to_owned().ok());
    grants.extend(film.map(|film| (film, AccessFs::ReadFile.into())));
    grants
}

/// Granting a file rights that are meant for folders would be an error.
fn grant(path: &Path, rights: Rights) -> Option<(OwnedFd, Rights)> {
    let is_folder = path.is_dir();
    let fitting = if is_folder { rights } else { rights & AccessFs::from_file(NEWEST) };
    let opened = PathFd::new(path).ok()?;
    Some((opened.as_fd().try_clone_to_owned().ok()?, fitting))
}

/// Libraries next to a program that was installed on its own, or in folders of the loader's search path.
fn libraries_of(program: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let installed = program.canonicalize().ok().and_then(|program| {
        let folder =
            program.parent().filter(|folder| folder.file_name() == Some(OsStr::new("bin")))?;
        Some(folder.parent()?.join("lib"))
    });
    let told = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let told: Vec<_> = std::env::split_paths(&told).filter(|path| path.is_absolute()).collect();
    installed.into_iter().chain(told)
}

/// Confines this thread and everything it starts from now on, or returns what the kernel lacks.
pub(super) fn confine(grants: Grants) -> Result<(), NotConfined> {
    match restrict(grants)?.landlock {
        LandlockStatus::Available { .. } => Ok(()),
        LandlockStatus::NotEnabled => Err(NotConfined::Off),
        LandlockStatus::NotImplemented => Err(NotConfined::Missing),
    }
}

/// Why files are not confined.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotConfined {
    /// The kernel was started without Landlock.
    #[error("Landlock is off: add it to the kernel's lsm= option")]
    Off,
    /// The kernel was built without Landlock.
    #[error("this kernel has no Landlock")]
    Missing,
    /// The kernel refused.
    #[error("files are not confined: {0}")]
    Refused(#[from] RulesetError),
}

fn restrict(grants: Grants) -> Result<RestrictionStatus, RulesetError> {
    let rules = grants
        .into_iter()
        .map(|(place, rights)| Ok::<_, RulesetError>(PathBeneath::new(place, rights)));
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(rules)?
        .restrict_self()
}
