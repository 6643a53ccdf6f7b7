//! The part of bpf(2) that loads one program with its two maps, and attaches it to an interface.
//!
//! Descriptors hold everything that is made here. When the last one is closed, the kernel detaches the program and forgets it, however the process
//! ended.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

// linux/bpf.h
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// Length of a program's or map's name, with its terminating zero.
const NAME_BYTES: usize = 16;
/// Room for the verifier's log when it refuses a program.
const LOG_BYTES: usize = 64 * 1024;

/// The kinds of map used here.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum MapKind {
    /// `BPF_MAP_TYPE_HASH`
    Hash = 1,
    /// `BPF_MAP_TYPE_XSKMAP`
    Xsk = 17,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
    inner: u32,
    numa_node: u32,
    name: [u8; NAME_BYTES],
}

/// Makes a map.
///
/// # Errors
/// `EPERM` without `CAP_BPF` (or `CAP_SYS_ADMIN`), and for an XSKMAP `CAP_NET_ADMIN`.
pub(crate) fn create_map(
    kind: MapKind,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    name: &str,
) -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        kind: kind as u32,
        key_bytes,
        value_bytes,
        entries_max,
        flags: 0,
        inner: 0,
        numa_node: 0,
        name: padded(name),
    };
    // SAFETY: `MapCreate` is laid out as bpf(2) requires and points to nothing.
    unsafe { made(BPF_MAP_CREATE, &attributes) }
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Sets a map's entry. Key and value must have the map's sizes.
///
/// # Errors
/// The kernel's: `E2BIG` if the map is full.
pub(crate) fn update_map<const K: usize, const V: usize>(
    map: &OwnedFd,
    key: &[u8; K],
    value: &[u8; V],
) -> io::Result<()> {
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: `MapUpdate` is laid out as bpf(2) requires. Key and value live until the call is over, and have the map's sizes, which its only users
    // in `xdp::program` ensure.
    unsafe { call(BPF_MAP_UPDATE_ELEM, &attributes) }.map(|_| ())
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
    interface: u32,
    attach_type: u32,
}

/// Loads an XDP program. `takes_fragments` declares that it can handle frames in several pieces, as large ones are.
///
/// # Errors
/// The kernel's, with the verifier's message if the verifier refused the program.
pub(crate) fn load_xdp(
    instructions: &[u64],
    name: &str,
    takes_fragments: bool,
) -> io::Result<OwnedFd> {
    let license = c"Apache-2.0 OR MIT";
    let mut log = Vec::new();
    loop {
        let attributes = ProgramLoad {
            kind: BPF_PROG_TYPE_XDP,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kernel_version: 0,
            flags: if takes_fragments { BPF_F_XDP_HAS_FRAGS } else { 0 },
            name: padded(name),
            interface: 0,
            attach_type: BPF_XDP,
        };
        // SAFETY: `ProgramLoad` is laid out as bpf(2) requires; instructions, licence and log live until the call is over.
        match unsafe { made(BPF_PROG_LOAD, &attributes) } {
            Err(error) if log.is_empty() && error.raw_os_error() != Some(libc::EPERM) => {
                log = vec![0; LOG_BYTES];
            }
            Err(error) => return Err(explained(error, &log)),
            Ok(program) => return Ok(program),
        }
    }
}

/// The error with the end of the verifier's log.
fn explained(error: io::Error, log: &[u8]) -> io::Error {
    let words = String::from_utf8_lossy(log);
    let words = words.trim_end_matches(['\0', '\n']);
    match words.lines().rev().find(|line| !line.starts_with("processed")) {
        Some(last) => io::Error::new(error.kind(), format!("{error} ({last})")),
        None => error,
    }
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Attaches an XDP program to an interface, for as long as the descriptor is open. `flags` are `XDP_FLAGS_*`.
///
/// # Errors
/// `EBUSY` if another program is attached, `EOPNOTSUPP` if the driver does not support this mode.
pub(crate) fn link_xdp(program: &OwnedFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let attributes = LinkCreate { program, interface, attach_type: BPF_XDP, flags };
    // SAFETY: `LinkCreate` is laid out as bpf(2) requires and points to nothing.
    unsafe { made(BPF_LINK_CREATE, &attributes) }
}

fn padded(name: &str) -> [u8; NAME_BYTES] {
    let mut padded = [0; NAME_BYTES];
    assert!(name.len() < NAME_BYTES, "names are ours, and short");
    padded[..name.len()].copy_from_slice(name.as_bytes());
    padded
}

/// A bpf(2) call that returns a new descriptor.
///
/// # Safety
/// As for [`call`].
unsafe fn made<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { call(command, attributes) }?;
    // SAFETY: these commands return a descriptor (close-on-exec, as all of bpf(2)'s) that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// bpf(2).
///
/// # Safety
/// `T` is laid out like the command's attributes; its pointers are valid for what the command does with them.
unsafe fn call<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the caller's promise; the attributes live until the call is over.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// The number by which the program refers to a map, or a map to a socket.
pub(crate) fn number(fd: &impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd() as u32
}
