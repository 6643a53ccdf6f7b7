//! The filesystems of the library, and their options.

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use machine::{KernelVersion, Mount};

/// Filesystems that read past the page cache, and whose files can be leased.
const GOOD: [&str; 2] = ["ext4", "xfs"];

/// The first kernel whose ext4 has large folios.
const EXT4_FOLIOS: KernelVersion = KernelVersion { major: 6, minor: 16 };

pub(crate) fn check(visit: &mut Visit<'_>) {
    const WHAT: &str = "the filesystem of the library";
    let folders = visit.evidence.library;
    if folders.is_empty() {
        visit.unknown(WHAT, "name the library: fullbore doctor DIR", "and its files");
    }
    for folder in folders {
        let mounts = visit.topology.mounts_of(folder);
        if mounts.is_empty() {
            visit.unknown(WHAT, "the kernel does not say", &folder.to_string_lossy());
        }
        for mount in mounts {
            kind(visit, &mount);
            options(visit, &mount);
            folios(visit, &mount);
        }
    }
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
        cost: Cost::unmeasured("reads past the page cache and read leases are tried on ext4 and XFS; with others the server falls back to slower ways, and says so"),
        mend: "keep the library on XFS or ext4: mkfs.xfs, or mkfs.ext4".into(),
        check: "findmnt -T DIR".into(),
    });
}

/// XFS keeps files in large pieces since Linux 5.18, before what the server needs.
fn folios(visit: &mut Visit<'_>, mount: &Mount) {
    let Some(kernel) = visit.machine.kernel else { return };
    if mount.kind != "ext4" || kernel >= EXT4_FOLIOS {
        return;
    }
    visit.found(Finding {
        area: Area::Filesystem,
        name: "small-folios",
        on: vec![mount.point.display().to_string()],
        found: format!("ext4 on Linux {kernel}, whose page cache is of single pages"),
        wanted: format!("XFS, or Linux {EXT4_FOLIOS}: large folios"),
        cost: Cost::unmeasured(
            "the page cache looks each 4 KiB up alone; nothing for reads past it",
        ),
        mend: "a newer kernel; or mkfs.xfs for a new library".into(),
        check: "findmnt -T DIR -o FSTYPE; uname -r".into(),
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
                "no reads past the page cache: films that nobody asks for again push popular ones out",
                source::PERFORMANCE,
            ),
            "take data=journal out of /etc/fstab, and mount it anew (tune2fs -o ^journal_data if it is set there)",
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
