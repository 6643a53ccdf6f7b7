//! The file or device to read, its disk, and the ways in which it can be read.

use super::{Options, Way};
use reactor::Asked;
use rustix::fs::{OFlags, SeekFrom};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file or a block device.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    is_device: bool,
    bytes: u64,
    /// `None` if the kernel names none: memory, a network, a filesystem over several disks.
    disk: Option<Disk>,
}

/// A disk, as described in sysfs.
#[derive(Debug)]
struct Disk {
    name: String,
    /// Its folder in sysfs.
    folder: PathBuf,
    /// The path is a partition of it.
    is_partition: bool,
    /// Numbers of its interrupts.
    interrupts: Vec<String>,
}

impl Target {
    /// # Errors
    /// If it cannot be opened, is neither, or is too small for a read in each slot.
    pub(super) fn open(path: &Path, options: &Options) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
        };
        let file = File::open(path).map_err(named)?;
        let metadata = file.metadata()?;
        let is_device = metadata.file_type().is_block_device();
        if !is_device && !metadata.is_file() {
            return Err(named(io::Error::other("it is neither a file nor a block device")));
        }
        // For a device, seeking to the end gives the size.
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0))?;
        let needed = u64::from(options.read_bytes) * u64::from(options.in_flight);
        if bytes < needed {
            let why =
                format!("it has {bytes} bytes, fewer than the {needed} of the reads in flight");
            return Err(named(io::Error::other(why)));
        }
        let number = if is_device { metadata.rdev() } else { metadata.dev() };
        Ok(Self { path: path.to_owned(), is_device, bytes, disk: Disk::of(number) })
    }

    /// The file to read by this way, and what kind of read; or why it is impossible.
    pub(super) fn way(&self, way: Way) -> Result<(File, Asked), String> {
        let found = if way.is_command() { self.commands() } else { self.direct_reads() }?;
        if way.is_polled() {
            self.check_polls()?;
        }
        Ok(found)
    }

    fn direct_reads(&self) -> Result<(File, Asked), String> {
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
        let file = options.open(&self.path);
        file.map(|file| (file, Asked::Read))
            .map_err(|error| format!("{} takes no direct reads: {error}", self.path.display()))
    }

    fn commands(&self) -> Result<(File, Asked), String> {
        let disk = match &self.disk {
            Some(disk) if self.is_device && disk.name.starts_with("nvme") => disk,
            _ => return Err("it reads a whole NVMe disk, such as /dev/nvme0n1: name one".into()),
        };
        if disk.is_partition {
            return Err(format!("it reads a whole disk: name /dev/{}", disk.name));
        }
        let number = |name: &str| {
            let said = std::fs::read_to_string(disk.folder.join(name));
            let number = said.ok().and_then(|said| said.trim().parse().ok());
            number.ok_or_else(|| format!("the kernel does not report the {name} of {}", disk.name))
        };
        let (namespace, block_bytes) = (number("nsid")?, number("queue/logical_block_size")?);
        let device = format!("/dev/ng{}", &disk.name["nvme".len()..]);
        let file = File::open(&device).map_err(|error| format!("cannot open {device}: {error}"))?;
        Ok((file, Asked::Nvme { namespace, block_bytes }))
    }

    /// Without queues for polling, some kernels would refuse a polled read and others would wait for an interrupt.
    fn check_polls(&self) -> Result<(), String> {
        let disk = self
            .disk
            .as_ref()
            .ok_or_else(|| format!("the kernel names no disk for {}", self.path.display()))?;
        let said = std::fs::read_to_string(disk.folder.join("queue/io_poll"));
        if said.is_ok_and(|said| said.trim() == "1") {
            return Ok(());
        }
        let parameter = match disk.name.as_str() {
            name if name.starts_with("nvme") => {
                "; nvme.poll_queues=2 on the kernel's command line makes two"
            }
            name if name.starts_with("vd") => {
                "; virtio_blk.poll_queues=2 on the kernel's command line makes two"
            }
            _ => "",
        };
        Err(format!("{} has no queues to poll{parameter}", disk.name))
    }

    /// How many interrupts the disk has raised, if the kernel reports them.
    pub(super) fn interrupts(&self) -> Option<u64> {
        let disk = self.disk.as_ref().filter(|disk| !disk.interrupts.is_empty())?;
        let said = std::fs::read_to_string("/proc/interrupts").ok()?;
        Some(raised(&said, &disk.interrupts))
    }

    /// Offsets of reads, one after the other, starting over at the end.
    pub(super) fn offsets(&self, read_bytes: u32) -> impl Iterator<Item = u64> + use<> {
        let read_bytes = u64::from(read_bytes);
        (0..self.bytes / read_bytes).map(move |read| read * read_bytes).cycle()
    }

    /// The offsets of `count` reads spread over the file.
    pub(super) fn places(&self, read_bytes: u32, count: u16) -> Vec<u64> {
        let (read_bytes, count) = (u64::from(read_bytes), u64::from(count));
        let reads = self.bytes / read_bytes;
        (0..count).map(|place| place * reads / count * read_bytes).collect()
    }

    pub(super) fn describe(&self) -> String {
        let disk = self.disk.as_ref().map_or("a disk that the kernel does not name", |d| &d.name);
        match self.is_device {
            true => format!("{}, all of the disk's {} MiB", self.path.display(), self.bytes >> 20),
            false => format!("a file of {} MiB on {disk}", self.bytes >> 20),
        }
    }
}

impl Disk {
    fn of(device: u64) -> Option<Self> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let folder = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let is_partition = folder.join("partition").exists();
        let folder = if is_partition { folder.parent()?.to_owned() } else { folder };
        let name = folder.file_name()?.to_str()?.to_owned();
        let mut interrupts = Vec::new();
        // The disk's own device is a few folders up: a PCI function, with its interrupts.
        if let Some(numbers) =
            folder.ancestors().map(|up| up.join("msi_irqs")).find(|up| up.exists())
        {
            let numbers = std::fs::read_dir(numbers).ok()?.flatten();
            interrupts =
                numbers.filter_map(|number| number.file_name().into_string().ok()).collect();
        }
        Some(Self { name, folder, is_partition, interrupts })
    }
}

/// The sum of these interrupts over all processors, from /proc/interrupts.
fn raised(said: &str, numbers: &[String]) -> u64 {
    let lines = said.lines().filter_map(|line| line.trim().split_once(':'));
    let ours = lines.filter(|(number, _)| numbers.iter().any(|ours| ours == number));
    let counts = ours.flat_map(|(_, counts)| {
        counts.split_whitespace().map_while(|count| count.parse::<u64>().ok())
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_disks_interrupts_are_added_up_over_all_processors() {
        let said = "\
           CPU0       CPU1
  1:          9          0   IO-APIC    1-edge      i8042
 24:          5          1   PCI-MSIX-0000:01:00.0   0-edge      nvme0q0
 25:        300         20   PCI-MSIX-0000:01:00.0   1-edge      nvme0q1
 26:          7          7   PCI-MSIX-0000:02:00.0   0-edge      virtio0-config
NMI:          0          0   Non-maskable interrupts
";
        let numbers = ["24".to_owned(), "25".to_owned(), "250".to_owned()];
        assert_eq!(raised(said, &numbers), 326);
        assert_eq!(raised(said, &[]), 0);
    }

    fn target(bytes: u64) -> Target {
        Target { path: "/a/film.mp4".into(), is_device: false, bytes, disk: None }
    }

    #[test]
    fn reads_stay_within_the_file() {
        let target = target(10 * 4096 + 100);
        let offsets: Vec<_> = target.offsets(8192).take(6).collect();
        assert_eq!(offsets, [0, 8192, 16384, 24576, 32768, 0]);
        assert_eq!(target.places(8192, 2), [0, 16384]);
        assert_eq!(target.places(8192, 5), [0, 8192, 16384, 24576, 32768]);
    }

    #[test]
    fn ways_that_are_not_there_say_what_to_do() {
        let mut target = target(1 << 20);
        let why = |target: &Target, way| target.way(way).unwrap_err();
        for way in [Way::Passthrough, Way::PassthroughPolled] {
            assert!(why(&target, way).contains("such as /dev/nvme0n1"), "a file is no disk");
        }
        assert!(why(&target, Way::Interrupts).contains("/a/film.mp4 takes no direct reads"));
        let why_not_polled = |target: &Target| target.check_polls().unwrap_err();
        assert!(why_not_polled(&target).contains("no disk for /a/film.mp4"));
        target.disk = Some(Disk {
            name: "nvme0n1".into(),
            folder: "/nonexistent".into(),
            is_partition: true,
            interrupts: Vec::new(),
        });
        assert!(why_not_polled(&target).contains("nvme.poll_queues=2"));
        target.is_device = true;
        assert!(why(&target, Way::Passthrough).contains("name /dev/nvme0n1"));
        assert_eq!(target.interrupts(), None);
    }
}
