//! The pool of large pages that the operator has reserved (kernel documentation: admin-guide/mm/hugetlbpage).
//!
//! The files are opened once, because a sandbox may forbid opening them later.

use crate::headroom::read;
use crate::root::Root;
use std::fs::File;
use std::path::Path;

const POOL: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";

/// More than the digits of a number, and the end of its line.
const NUMBER_BYTES_MAX: usize = 32;

/// The pool of pages of 2 MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargePagePool {
    /// All pages.
    pub count: u64,
    /// Pages that are unused and not reserved by any program.
    pub free: u64,
}

impl LargePagePool {
    /// Bytes of a page.
    pub const PAGE_BYTES: u64 = 2 << 20;

    /// The count at which `pages` of them would be free.
    pub fn count_for(&self, pages: u64) -> u64 {
        self.count.saturating_sub(self.free) + pages
    }
}

/// Reads the state of the pool.
#[derive(Debug)]
pub struct ReservedPages {
    count: Option<File>,
    free: Option<File>,
    claimed: Option<File>,
}

impl ReservedPages {
    /// Opens the kernel's files. Those that do not exist are left out.
    pub fn open() -> Self {
        Self::open_from(Path::new("/"))
    }

    /// As [`Self::open`], below another root than `/`.
    pub fn open_from(root: &Path) -> Self {
        let root = &Root::new(root);
        let open = |name: &str| root.open(format!("{POOL}/{name}"));
        Self {
            count: open("nr_hugepages"),
            free: open("free_hugepages"),
            claimed: open("resv_hugepages"),
        }
    }

    /// The pool's current state; empty if the kernel has none.
    pub fn now(&self) -> LargePagePool {
        let number = |file: &Option<File>| {
            let mut room = [0; NUMBER_BYTES_MAX];
            let text = read(file.as_ref()?, &mut room)?;
            text.trim().parse::<u64>().ok()
        };
        let (count, free) = (number(&self.count), number(&self.free));
        let free = free.unwrap_or(0).saturating_sub(number(&self.claimed).unwrap_or(0));
        LargePagePool { count: count.unwrap_or(0), free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_a_program_has_a_claim_to_are_not_free() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(ReservedPages::open_from(root.path()).now(), LargePagePool::default());
        let pool = root.path().join(POOL);
        std::fs::create_dir_all(&pool).unwrap();
        for (name, number) in [("nr_hugepages", 20), ("free_hugepages", 12), ("resv_hugepages", 5)]
        {
            std::fs::write(pool.join(name), format!("{number}\n")).unwrap();
        }
        let pages = ReservedPages::open_from(root.path());
        assert_eq!(pages.now(), LargePagePool { count: 20, free: 7 });
        assert_eq!(pages.now().count_for(10), 23, "13 are used by others");
        std::fs::write(pool.join("resv_hugepages"), "12\n").unwrap();
        assert_eq!(pages.now().free, 0, "the pool as it is now");
    }
}
