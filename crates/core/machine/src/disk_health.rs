//! An NVMe disk's health (NVM Express Base Specification, "SMART / Health Information", log page 2).

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{self, Ioctl, IoctlOutput, opcode};
use std::ffi::c_void;
use std::io;

/// The log page's size.
const LOG_BYTES: usize = 512;

/// A source of the health logs of NVMe disks.
pub trait DiskLogs {
    /// The log page of a controller, such as `nvme0`.
    ///
    /// # Errors
    /// If it cannot be read; reading it takes root.
    fn health(&self, controller: &str) -> io::Result<Vec<u8>>;
}

/// The disks of this machine.
#[derive(Debug, Default)]
pub struct KernelDiskLogs;

/// `struct nvme_passthru_cmd` (linux/nvme_ioctl.h).
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_and_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<Command>() == 72);

/// `NVME_IOCTL_ADMIN_CMD`. Its value is the disk's status, 0 for success.
struct Admin<'a>(&'a mut Command);

// SAFETY: the opcode is that of `Command`, whose layout is the kernel's, and the pointer is that of one. The kernel writes to its `result`, and
// to the memory that it points to: the code that makes a command answers for that.
unsafe impl Ioctl for Admin<'_> {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> ioctl::Opcode {
        opcode::read_write::<Command>(b'N', 0x41)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(
        status: IoctlOutput,
        _: *mut c_void,
    ) -> rustix::io::Result<Self::Output> {
        Ok(status)
    }
}

/// Checks the disk's status: the disk may fail the command, or not carry it out, even if the kernel has passed it on.
fn answered(status: IoctlOutput) -> io::Result<()> {
    let refused = || {
        // The upper bits tell whether to retry and whether there is more information.
        io::Error::other(format!("the disk refused it with status {:#x}", status & 0x7ff))
    };
    if status == 0 { Ok(()) } else { Err(refused()) }
}

impl DiskLogs for KernelDiskLogs {
    fn health(&self, controller: &str) -> io::Result<Vec<u8>> {
        /// "Get Log Page", of the whole controller.
        const GET_LOG: u8 = 2;
        const ALL_NAMESPACES: u32 = u32::MAX;
        /// An assumption: a disk that does not answer such a simple command in this time is failing.
        const TIMEOUT_MS: u32 = 5000;
        let device = open(format!("/dev/{controller}"), OFlags::RDONLY, Mode::empty())?;
        let mut log = vec![0_u8; LOG_BYTES];
        let mut command = Command {
            opcode: GET_LOG,
            namespace: ALL_NAMESPACES,
            address: log.as_mut_ptr() as u64,
            data_bytes: LOG_BYTES as u32,
            // The number of the page, and that of its last word.
            words_10_to_15: [2 | (LOG_BYTES as u32 / 4 - 1) << 16, 0, 0, 0, 0, 0],
            timeout_ms: TIMEOUT_MS,
            ..Command::default()
        };
        // SAFETY: the kernel writes at most `data_bytes` bytes to `address`, where `log` has as many until the call is over.
        answered(unsafe { ioctl::ioctl(&device, Admin(&mut command))? })?;
        Ok(log)
    }
}

/// The parts of the log that tell whether to replace a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskHealth {
    /// The disk's warnings, as bits ([`Self::warnings`]).
    warnings: u8,
    /// Spare blocks that are left, in percent.
    pub spare_percent: u8,
    /// The used part of its life, by the maker's estimate. It may exceed 100.
    pub used_percent: u8,
}

impl DiskHealth {
    /// Parses a log page. `None` for values that no disk would report.
    pub fn parse(log: &[u8]) -> Option<Self> {
        /// Kelvin. If a disk reports another value, the log is not valid.
        const TEMPERATURES: std::ops::Range<u16> = 200..500;
        let temperature = u16::from_le_bytes([*log.get(1)?, *log.get(2)?]);
        let health =
            Self { warnings: log[0], spare_percent: *log.get(3)?, used_percent: *log.get(5)? };
        (TEMPERATURES.contains(&temperature) && health.spare_percent <= 100).then_some(health)
    }

    /// Whether it warns only of its temperature.
    pub fn warnings_are_of_heat(self) -> bool {
        self.warnings == 1 << 1
    }

    /// The disk's warnings, in words.
    pub fn warnings(self) -> Vec<&'static str> {
        const NAMES: [&str; 5] = [
            "spare blocks run out",
            "too hot or too cold",
            "no longer reliable",
            "it takes no more writes",
            "its memory is no longer backed up",
        ];
        let is_set = |bit: &usize| self.warnings >> bit & 1 == 1;
        NAMES.into_iter().enumerate().filter(|(bit, _)| is_set(bit)).map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_what_is_left_of_a_disk() {
        let mut log = vec![0; LOG_BYTES];
        log[..6].copy_from_slice(&[0b1001, 0x2c, 0x01, 7, 10, 104]);
        let health = DiskHealth::parse(&log).unwrap();
        assert_eq!((health.spare_percent, health.used_percent), (7, 104));
        assert_eq!(health.warnings(), ["spare blocks run out", "it takes no more writes"]);
        assert!(!health.warnings_are_of_heat());
        log[0] = 0b10;
        assert!(DiskHealth::parse(&log).unwrap().warnings_are_of_heat());
    }

    #[test]
    fn what_no_disk_would_say_is_not_believed() {
        assert_eq!(DiskHealth::parse(&[0xff; LOG_BYTES]), None);
        assert_eq!(DiskHealth::parse(&[0; LOG_BYTES]), None, "a disk that did not answer");
        for end in 0..6 {
            assert_eq!(DiskHealth::parse(&[0, 0x2c, 0x01, 100, 10, 0][..end]), None);
        }
    }

    #[test]
    fn a_command_that_the_disk_refused_is_an_error() {
        assert!(answered(0).is_ok());
        // "Invalid Field in Command", and "do not retry".
        let error = answered(0x4002).unwrap_err().to_string();
        assert!(error.ends_with("status 0x2"), "{error}");
    }

    #[test]
    fn a_disk_that_is_not_there_is_an_error() {
        let error = KernelDiskLogs.health("nvme999").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
