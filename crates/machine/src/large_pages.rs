//! The pool of large pages that the operator has reserved (kernel documentation: admin-guide/mm/hugetlbpage).

use crate::root::Root;

const POOL: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";

/// The pool of pages of 2 MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargePagePool {
    /// All of them.
    pub count: u64,
    /// Those that nobody uses and no program has a claim to.
    pub free: u64,
}

impl LargePagePool {
    /// Bytes of a page.
    pub const PAGE_BYTES: u64 = 2 << 20;

    /// The pool as it is now; empty if the kernel has none.
    pub(crate) fn probe(root: &Root) -> Self {
        let number = |name: &str| root.read_value::<u64>(format!("{POOL}/{name}")).unwrap_or(0);
        let free = number("free_hugepages").saturating_sub(number("resv_hugepages"));
        Self { count: number("nr_hugepages"), free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_a_program_has_a_claim_to_are_not_free() {
        let root = tempfile::tempdir().unwrap();
        let probe = || LargePagePool::probe(&Root::new(root.path()));
        assert_eq!(probe(), LargePagePool::default());
        let pool = root.path().join(POOL);
        std::fs::create_dir_all(&pool).unwrap();
        for (name, number) in [("nr_hugepages", 20), ("free_hugepages", 12), ("resv_hugepages", 5)]
        {
            std::fs::write(pool.join(name), format!("{number}\n")).unwrap();
        }
        assert_eq!(probe(), LargePagePool { count: 20, free: 7 });
    }
}
