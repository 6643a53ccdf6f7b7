//! The kernel's version, and whether it has TLS.

use std::fmt::{self, Display, Formatter};

use crate::root::Root;

/// The first two numbers of a kernel's release. They determine its features, and compare as versions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// The 6 of 6.14.
    pub major: u32,
    /// The 14 of 6.14.
    pub minor: u32,
}

impl KernelVersion {
    pub(crate) fn probe(root: &Root) -> Option<Self> {
        Self::parse(&release(root)?)
    }

    /// Parses `6.1.0-32-amd64`: the part after the second number is the distribution's.
    fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { major, minor })
    }
}

impl Display for KernelVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The full release, if it begins with numbers.
pub(crate) fn release(root: &Root) -> Option<String> {
    let release = root.read("proc/sys/kernel/osrelease")?;
    KernelVersion::parse(&release).map(|_| release)
}

/// Whether the kernel has TLS. Either file exists once the code is there: the counters if TLS is built in or loaded, the module's folder even where
/// counters are hidden.
pub(crate) fn has_tls(root: &Root) -> bool {
    root.has("proc/net/tls_stat") || root.has("sys/module/tls")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_all_sorts_are_read() {
        for (release, major, minor) in
            [("6.1.0-32-amd64", 6, 1), ("6.18.44", 6, 18), ("7.0-rc1", 7, 0), ("6.14", 6, 14)]
        {
            assert_eq!(
                KernelVersion::parse(release),
                Some(KernelVersion { major, minor }),
                "{release}"
            );
        }
        assert_eq!(KernelVersion::parse("linux"), None);
        assert_eq!(KernelVersion::parse("6"), None);
    }

    #[test]
    fn versions_compare_by_number() {
        let version = |major, minor| KernelVersion { major, minor };
        assert!(version(6, 14) > version(6, 2));
        assert!(version(7, 0) > version(6, 18));
    }
}
