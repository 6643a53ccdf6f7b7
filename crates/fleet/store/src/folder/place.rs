//! Which folders may contain a store: one of its own that only its owner can read, on a disk of this machine.
//!
//! SQLite's WAL mode shares memory between processes, so it works on one machine only. On a network file system, or a disk attached to two
//! machines, both would overwrite each other's changes without an error. So such folders are refused before SQLite opens anything.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use fleet_protocol::Digest;
use rustix::fs::statfs;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::objects::write;

/// The file that records which machine uses the folder.
pub(super) const MACHINE: &str = "machine.json";

/// The alternative for several machines.
const ADVICE: &str = "gateways on several machines share a store in etcd: --store etcd://HOST:2379";

/// File systems that other machines may mount as well: their numbers are in statfs(2) and linux/magic.h.
const SHARED: [(u32, &str); 14] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x786f_4256, "a folder shared by VirtualBox"),
];

/// Identifies the machine that uses a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    /// A hash of the machine's ID, because machine-id(5) asks for the ID itself to stay private. Empty without one, as in many containers.
    machine: String,
    /// A hash of the kernel's boot ID. Containers on one machine share it.
    boot: String,
}

impl Machine {
    /// This machine.
    pub(super) fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let id = read("/etc/machine-id");
        let machine = if id.is_empty() {
            id
        } else {
            Digest::of(format!("fullbore store {id}").as_bytes()).to_string()
        };
        Self { machine, boot: read("/proc/sys/kernel/random/boot_id") }
    }

    /// The hash of the kernel's boot ID.
    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    /// Whether both are known, and differ.
    fn is_other_than(&self, other: &Self) -> bool {
        self.boot != other.boot
            && !self.machine.is_empty()
            && !other.machine.is_empty()
            && self.machine != other.machine
    }
}

fn not_usable(what: impl std::fmt::Display) -> StoreError {
    StoreError::NotUsable(what.to_string())
}

/// Creates `folder` if needed, and checks that it may contain a store. Returns the machine that used it before.
pub(super) fn prepare(folder: &Path, this: &Machine) -> Result<Option<Machine>, StoreError> {
    let shown = folder.display();
    let failed =
        |error: io::Error| not_usable(format_args!("cannot use the store {shown}: {error}"));
    if !folder.exists() {
        files::make_folders(folder, 0o700).map_err(failed)?;
    }
    let is_new = fs::read_dir(folder).map_err(failed)?.next().is_none();
    let mode = fs::metadata(folder).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        if !is_new {
            return Err(not_usable(format_args!(
                "other users can look into the store {shown}, and its secrets are in it: chmod 0700 {shown}"
            )));
        }
        fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).map_err(failed)?;
    }
    let kind = statfs(folder).map_err(|errno| failed(errno.into()))?.f_type;
    if let Some(name) = shared_kind(kind as u32) {
        return Err(StoreError::SecondMachine(format!(
            "the store {shown} is on {name}, which other machines can write to: put it on a disk of this machine; {ADVICE}"
        )));
    }
    let before = read(folder).map_err(failed)?;
    if before.as_ref().is_some_and(|before| before.is_other_than(this)) {
        return Err(StoreError::SecondMachine(format!(
            "the store {shown} belongs to another machine: {ADVICE}. If the folder has moved here for good, remove {shown}/{MACHINE}"
        )));
    }
    Ok(before)
}

/// The kind of shared file system, by the kernel's number for it (the lower 32 bits).
fn shared_kind(magic: u32) -> Option<&'static str> {
    SHARED.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
}

fn read(folder: &Path) -> io::Result<Option<Machine>> {
    match files::read_text(&folder.join(MACHINE), 4096) {
        // An unreadable note still proves that there has been a store.
        Ok(text) => Ok(Some(serde_json::from_str(&text).unwrap_or_default())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Records that this machine uses the folder.
pub(super) fn claim(folder: &Path, this: &Machine) -> io::Result<()> {
    write(&folder.join(MACHINE), &serde_json::to_vec(this)?)
}

/// Opens a file for writing that only its owner can read, and creates it if needed.
pub(super) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::{Machine, shared_kind};

    #[test]
    fn file_systems_that_other_machines_write_to_are_known() {
        assert_eq!(shared_kind(0x6969), Some("NFS"));
        assert_eq!(shared_kind(0xff53_4d42), Some("CIFS"));
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(shared_kind(local), None, "ext4, XFS, btrfs, tmpfs, overlayfs");
        }
    }

    #[test]
    fn a_machine_is_another_one_only_if_both_are_known_and_running_apart() {
        let machine = |machine: &str, boot: &str| Machine {
            machine: machine.to_owned(),
            boot: boot.to_owned(),
        };
        let this = machine("a", "1");
        assert!(!this.is_other_than(&machine("a", "2")), "it was started again");
        assert!(!this.is_other_than(&machine("b", "1")), "containers of one machine");
        assert!(!this.is_other_than(&machine("", "2")), "a container without identity");
        assert!(this.is_other_than(&machine("b", "2")));
    }
}
