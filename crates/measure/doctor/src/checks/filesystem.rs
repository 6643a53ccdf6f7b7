//! The filesystems of the library, and their options.

use crate::TriedFilesystem;
use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use machine::{KernelVersion, Mount};
use std::io;
use std::path::Path;

/// Filesystems that support reads past the page cache and leases on files.
const GOOD: [&str; 2] = ["ext4", "xfs"];

/// The first kernel whose ext4 has large folios.
const EXT4_FOLIOS: KernelVersion = KernelVersion { major: 6, minor: 16 };

/// The first kernel with reads that leave nothing in the page cache.
const READS_ONCE: KernelVersion = KernelVersion { major: 6, minor: 14 };

/// The default of mkfs for all but the smallest disks: a page.
const BLOCK_BYTES_MIN: u64 = 4096;

pub(crate) fn check(visit: &mut Visit<'_>) {
    const WHAT: &str = "the filesystem of the library";
    let folders = visit.evidence.library;
    if folders.is_empty() {
        visit.unknown(WHAT, "name the library: fullbore doctor DIR", "and its files");
    }
    for folder in folders {
        let mounts = visit.topology.mounts_of(folder);
        if mounts.is_empty() {
            visit.unknown(WHAT, "the kernel does not report it", &folder.to_string_lossy());
        }
        for mount in mounts {
            kind(visit, &mount);
            options(visit, &mount);
            folios(visit, &mount);
            read_ahead(visit, &mount);
        }
        if !visit.evidence.filesystems.iter().any(|tried| tried.film.starts_with(folder)) {
            let why = "there is no film to try it on, or it cannot be read";
            visit.unknown("blocks and reads of the library", why, &folder.to_string_lossy());
        }
    }
    for tried in visit.evidence.filesystems {
        let mount = tried.film.parent().and_then(|folder| mount_of(visit, folder));
        // Another filesystem is a fault of its own.
        if let Some(mount) = mount.filter(|mount| GOOD.contains(&mount.kind.as_str())) {
            blocks(visit, &mount, tried);
            reads_once(visit, &mount, tried);
        }
    }
}

fn mount_of(visit: &Visit<'_>, folder: &Path) -> Option<Mount> {
    visit.topology.mounts_of(folder).into_iter().find(|mount| folder.starts_with(&mount.point))
}

fn blocks(visit: &mut Visit<'_>, mount: &Mount, tried: &TriedFilesystem) {
    const WHAT: &str = "block sizes of filesystems";
    // XFS takes 512 bytes to 64 KiB, ext4 1 to 64 KiB.
    let is_size = |bytes: &u64| bytes.is_power_of_two() && (512..=1 << 16).contains(bytes);
    let bytes = tried.block_bytes.filter(is_size);
    let Some(bytes) = visit.understood(WHAT, &mount.point.to_string_lossy(), bytes) else { return };
    if bytes >= BLOCK_BYTES_MIN {
        return;
    }
    visit.found(Finding {
        area: Area::Filesystem,
        name: "filesystem-blocks",
        on: vec![mount.point.display().to_string()],
        found: format!("blocks of {bytes} bytes"),
        wanted: format!("{BLOCK_BYTES_MIN} bytes or more"),
        cost: Cost::unmeasured(
            "a film is in more pieces, and the page cache keeps several blocks in each page",
        ),
        mend: "mkfs.xfs, or mkfs.ext4 -b 4096, for a new library".into(),
        check: "stat -f DIR".into(),
    });
}

fn reads_once(visit: &mut Visit<'_>, mount: &Mount, tried: &TriedFilesystem) {
    /// `EOPNOTSUPP` means that the filesystem has none, `EINVAL` that the kernel does not know the flag.
    const NOT_THERE: [i32; 2] = [95, 22];
    let Some(errno) = tried.read_once_refused else { return };
    let point = mount.point.display().to_string();
    let error = io::Error::from_raw_os_error(errno);
    if !NOT_THERE.contains(&errno) {
        visit.refused("reads that leave nothing in the page cache", &error, &point);
        return;
    }
    let Some(kernel) = visit.machine.kernel else { return };
    visit.found(Finding {
        area: Area::Filesystem,
        name: "reads-once",
        on: vec![point],
        found: format!("Linux {kernel} has no reads of {} that leave nothing in the page cache", mount.kind),
        wanted: format!("Linux {READS_ONCE} or newer, with XFS or ext4 (RWF_DONTCACHE)"),
        cost: Cost::unmeasured("nothing with disk = \"auto\", which reads past the page cache; with disk = \"once\" the server reads so, too"),
        mend: "a newer kernel".into(),
        check: "fullbore doctor DIR; uname -r".into(),
    });
}

fn kind(visit: &mut Visit<'_>, mount: &Mount) {
    if GOOD.contains(&mount.kind.as_str()) {
        return;
    }
    visit.found(Finding {
        area: Area::Filesystem,
        name: "filesystem",
        on: vec![mount.point.display().to_string()],
        found: format!("the filesystem {}", mount.kind),
        wanted: "XFS or ext4 on a disk of this machine".into(),
        cost: Cost::unmeasured("reads past the page cache and read leases are tried on ext4 and XFS; with others the server falls back to slower ways, and reports it"),
        mend: "keep the library on XFS or ext4: mkfs.xfs, or mkfs.ext4".into(),
        check: "findmnt -T DIR".into(),
    });
}

/// XFS has kept files in large folios since Linux 5.18, which is older than the server's minimum.
fn folios(visit: &mut Visit<'_>, mount: &Mount) {
    let Some(kernel) = visit.machine.kernel else { return };
    if mount.kind != "ext4" || kernel >= EXT4_FOLIOS {
        return;
    }
    visit.found(Finding {
        area: Area::Filesystem,
        name: "small-folios",
        on: vec![mount.point.display().to_string()],
        found: format!("ext4 on Linux {kernel}, whose page cache has only single pages"),
        wanted: format!("XFS, or Linux {EXT4_FOLIOS}: large folios"),
        cost: Cost::unmeasured(
            "the page cache looks each 4 KiB up alone; nothing for reads past it",
        ),
        mend: "a newer kernel; or mkfs.xfs for a new library".into(),
        check: "findmnt -T DIR -o FSTYPE; uname -r".into(),
    });
}

/// Eight times the kernel's default; an assumption.
const READ_AHEAD_KIB_MAX: u64 = 1024;

/// The server's allowance for a film that is partly in the page cache (`disk::misses`).
const READ_AHEAD_ALLOWED_KIB: u64 = 8192;

fn read_ahead(visit: &mut Visit<'_>, mount: &Mount) {
    const WHAT: &str = "how far the kernel reads ahead";
    let device = &mount.device;
    // A partition has no setting of its own.
    let places = [
        format!("sys/class/bdi/{device}/read_ahead_kb"),
        format!("sys/dev/block/{device}/../queue/read_ahead_kb"),
    ];
    let Some(kib) = places.iter().find_map(|path| visit.optional_number::<u64>(WHAT, path)) else {
        return;
    };
    if kib <= READ_AHEAD_KIB_MAX {
        return;
    }
    let cost = match kib > READ_AHEAD_ALLOWED_KIB {
        false => {
            "a program that reads the beginning of a film through the page cache fills the cache with that much of it; with disk = \"auto\", viewers of films do not"
        }
        true => {
            "once a program has read the beginning of a film, a single viewer fills the page cache with all of it, and evicts popular ones"
        }
    };
    visit.found(Finding {
        area: Area::Filesystem,
        name: "read-ahead",
        on: vec![mount.point.display().to_string()],
        found: format!("the kernel reads {kib} KiB ahead"),
        wanted: format!("{READ_AHEAD_KIB_MAX} KiB or less; 128 is the kernel's default"),
        cost: Cost::unmeasured(cost),
        mend: "blockdev --setra 256 DISK, in sectors of 512 bytes; to keep it: ACTION==\"add|change\", SUBSYSTEM==\"block\", ATTR{queue/read_ahead_kb}=\"128\" in /etc/udev/rules.d".into(),
        check: "cat /sys/block/DISK/queue/read_ahead_kb".into(),
    });
}

fn options(visit: &mut Visit<'_>, mount: &Mount) {
    let has = |option: &str| mount.options.iter().any(|known| known == option);
    let mut found = |name, found: &str, wanted: &str, cost, mend: &str| {
        visit.found(Finding {
            area: Area::Filesystem,
            name,
            on: vec![mount.point.display().to_string()],
            found: found.into(),
            wanted: wanted.into(),
            cost,
            mend: mend.into(),
            check: "findmnt -T DIR -o OPTIONS".into(),
        });
    };
    if has("data=journal") {
        found(
            "data-journal",
            "ext4 with data=journal",
            "data=ordered, which is the default",
            Cost::percent(
                35.0,
                "no reads past the page cache: films that are requested once evict popular ones",
                source::PERFORMANCE,
            ),
            "take data=journal out of /etc/fstab, and remount it (tune2fs -o ^journal_data if it is set there)",
        );
    }
    if has("strictatime") {
        found(
            "strictatime",
            "each read changes the time of the last access",
            "noatime",
            Cost::unmeasured("a write for each file that is read"),
            "mount -o remount,noatime DIR, and the same in /etc/fstab",
        );
    }
}
