//! What both sides are asked to do.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// TLS 1.3, AES-128-GCM, large files that are in the page cache.
    TlsWarm,
    /// The same from disk: our `direct` against nginx's `directio` with threads.
    TlsCold,
    /// Plain HTTP, large files that are in the page cache.
    HttpWarm,
}

impl Workload {
    /// Every workload with its name.
    pub const ALL: [(Workload, &'static str); 3] =
        [(Self::TlsWarm, "tls-warm"), (Self::TlsCold, "tls-cold"), (Self::HttpWarm, "http-warm")];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::TlsWarm => "tls-warm",
            Self::TlsCold => "tls-cold",
            Self::HttpWarm => "http-warm",
        }
    }

    /// Whether it is over TLS.
    pub fn has_tls(self) -> bool {
        self != Self::HttpWarm
    }

    /// Whether files are to come from disk.
    pub fn is_cold(self) -> bool {
        self == Self::TlsCold
    }
}

impl std::str::FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(workload, _)| *workload).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("there is no workload {name:?}; there are {}", names.join(", "))
        })
    }
}

/// The byte at an offset of a file: told from every neighbour, so that a shifted answer is a wrong one.
pub(crate) fn byte_at(file: usize, offset: u64) -> u8 {
    let word = (offset / 8).wrapping_add(file as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> (offset % 8 * 8)) as u8
}

/// The name of a file of the library.
pub(crate) fn file_name(file: usize) -> String {
    format!("title-{file}.mp4")
}

/// Makes a library of `count` files.
///
/// # Errors
/// When the disk is full or may not be written.
pub(crate) fn make_library(root: &Path, count: usize, file_bytes: u64) -> io::Result<()> {
    for file in 0..count {
        let mut out = File::create(root.join(file_name(file)))?;
        let mut offset = 0;
        while offset < file_bytes {
            let end = file_bytes.min(offset + (1 << 20));
            let chunk: Vec<u8> = (offset..end).map(|offset| byte_at(file, offset)).collect();
            out.write_all(&chunk)?;
            offset = end;
        }
        out.sync_all()?;
    }
    Ok(())
}

/// Brings the library into the page cache, or puts it out.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn warm_up(root: &Path, count: usize, cold: bool) -> io::Result<()> {
    for file in 0..count {
        let mut opened = File::open(root.join(file_name(file)))?;
        if cold {
            rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed)?;
        } else {
            io::copy(&mut opened, &mut io::sink())?;
        }
    }
    Ok(())
}
