//! Sizes a silo's hot set, and adjusts the size once a second.
//!
//! The most that a set may use is the configured size, or a quarter of the memory that is available at startup: the page
//! cache, viewers' sockets and other programs need the rest. It takes that memory only as it fills. Once a second the silo's first worker
//! checks whether memory is short. If it is, the set gives some back, and grows again only when memory has not been short for a while.

use config::{self, Config, Switch};
use delivery::memory_budget::reserve_bytes;
use disk::{HotSet, Policy};
use machine::{Headroom, LargePagePool, MemoryLimit, MemoryPressure, ReservedPages};
use reactor::blocks::Pages;
use reactor::yield_now;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The part of the available memory that hot sets may use by default.
const SHARE_OF_AVAILABLE: u64 = 4;

/// The smallest set by default. A smaller one holds no more than a minute of a film, which is not worth a lookup.
const BYTES_MIN: u64 = 64 << 20;

/// Memory is short if threads wait for it in this percentage of the time and little is left. An assumption: at 10% an operator would
/// notice.
const STALLED_PERCENT_MAX: f64 = 10.0;

/// The part of the machine's memory that is kept free for viewers and other programs.
const LEFT_SHARE_MIN: u64 = 16;

/// The fraction of the set that is given back in each second in which memory is short.
const GIVEN_BACK_SHARE: u64 = 8;

/// The fraction of the remaining room to grow that the set may take in a second.
const GROWTH_SHARE: u64 = 4;

/// How long memory must not have been short before the set grows again: the shortest period over which the kernel averages pressure.
const QUIET_FOR: Duration = Duration::from_secs(10);

/// A silo's hot set, or why there is none.
pub(crate) enum HotMemory {
    /// The hot set, and why it lacks the large pages that were configured, if it does.
    Set(Arc<HotSet>, Option<String>),
    /// None, because it is switched off or too little memory is available.
    Off,
    /// None, for this reason.
    Unavailable(String),
}

/// The large pages that are reserved, for the hot sets of all silos.
pub(crate) struct Reserved<'a> {
    /// The pool's current state: each silo takes some.
    pages: &'a ReservedPages,
    /// The pool's size at which all silos would get enough.
    count_enough: u64,
}

impl<'a> Reserved<'a> {
    /// For sets with this total of `bytes`. None has been made yet.
    pub(crate) fn new(pages: &'a ReservedPages, bytes: u64) -> Self {
        let count_enough = pages.now().count_for(bytes / LargePagePool::PAGE_BYTES);
        Self { pages, count_enough }
    }
}

/// Bytes for all hot sets together; 0 for none. There is a hot set only under `disk = "auto"`: the other policies prescribe how every byte is read
/// from the disk, and a hot set would bypass them.
pub(crate) fn bytes_of(
    config: &Config,
    memory_bytes: u64,
    bound: Option<MemoryLimit>,
    pressure: &MemoryPressure,
    pool: LargePagePool,
) -> u64 {
    if !config.is_on(Switch::Hot) || config.read_policy() != Policy::Auto {
        return 0;
    }
    let reserved = if pages(config) == Pages::Reserved { pool.free } else { 0 };
    config.memory.hot_bytes.map(|bytes| bytes.min(memory_bytes)).unwrap_or_else(|| {
        // Pages that were reserved for it are not part of the available memory, and nothing else can use them.
        if reserved > 0 {
            return reserved * LargePagePool::PAGE_BYTES;
        }
        let of_bound = bound.map(|bound| bound.left_bytes.saturating_sub(reserve_bytes(bound)));
        let available = [of_bound, pressure.available_bytes()].into_iter().flatten().min();
        let bytes = available.unwrap_or(0) / SHARE_OF_AVAILABLE;
        if bytes < BYTES_MIN { 0 } else { bytes }
    })
}

impl HotMemory {
    /// Makes a set of at most `bytes`, whose memory is on this NUMA node as long as that has some.
    pub(crate) fn new(
        config: &Config,
        bytes: u64,
        node: Option<u32>,
        reserved: &Reserved<'_>,
    ) -> Self {
        if bytes == 0 {
            return Self::Off;
        }
        let pages = pages(config);
        let (made, complaint) = match make(bytes, pages, node) {
            Err(why) if pages == Pages::Reserved => {
                let complaint = refused(bytes, reserved.pages.now(), reserved.count_enough, &why);
                (make(bytes, Pages::Transparent, node), Some(complaint))
            }
            made => (made, None),
        };
        match made {
            Ok(set) => Self::Set(set, complaint),
            Err(why) => Self::Unavailable(why.to_string()),
        }
    }

    /// The start line's text. `None` if the hot set is off.
    pub(crate) fn describe(&self) -> Option<String> {
        match self {
            Self::Off => None,
            Self::Unavailable(why) => {
                Some(format!("none, because its memory cannot be mapped: {why}"))
            }
            Self::Set(set, complaint) => {
                let how = match (set.gives_back(), set.is_locked()) {
                    (false, _) => "in reserved large pages",
                    (true, true) => "locked",
                    (true, false) => "not locked (RLIMIT_MEMLOCK)",
                };
                let complaint =
                    complaint.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
                let mib = set.bytes_max() >> 20;
                Some(format!("up to {mib} MiB of popular parts of films, {how}{complaint}"))
            }
        }
    }

    /// The set, if there is one.
    pub(crate) fn set(&self) -> Option<&Arc<HotSet>> {
        match self {
            Self::Set(set, _) => Some(set),
            Self::Off | Self::Unavailable(_) => None,
        }
    }
}

/// The start line's text if the configured size exceeds `memory_bytes`, the total memory. Then [`bytes_of`] cuts it to that.
pub(crate) fn describe_cut(config: &Config, memory_bytes: u64) -> Option<String> {
    let wanted = config.memory.hot_bytes.filter(|bytes| *bytes > memory_bytes)?;
    Some(format!(
        "memory.hot_bytes is {} MiB, and there are {} MiB of memory, so that is the limit; the set stops growing before memory is short. \
         To silence this, lower memory.hot_bytes or leave it out (docs/memory.md)",
        wanted >> 20,
        memory_bytes >> 20
    ))
}

/// The configured kind of pages for the set's memory.
fn pages(config: &Config) -> Pages {
    match config.memory.large_pages {
        _ if !config.is_on(Switch::Hugepages) => Pages::Small,
        config::LargePages::Off => Pages::Small,
        config::LargePages::Transparent => Pages::Transparent,
        config::LargePages::Hugetlb => Pages::Reserved,
    }
}

fn make(bytes: u64, pages: Pages, node: Option<u32>) -> io::Result<Arc<HotSet>> {
    let set = HotSet::new(bytes, pages)?;
    if let Some(node) = node {
        // If the kernel refuses, memory is allocated on the node that uses it first, which is mostly the same one.
        let _ = set.prefer_node(node);
    }
    set.take_reserved()?;
    Ok(set)
}

/// Why a set of `bytes` cannot have reserved pages, and how to fix it. With `count_enough` pages, the `pool` would have enough for the
/// sets of all silos.
fn refused(bytes: u64, pool: LargePagePool, count_enough: u64, why: &io::Error) -> String {
    let wanted = bytes / LargePagePool::PAGE_BYTES;
    if pool.free >= wanted {
        return format!(
            "the kernel does not give it {wanted} of {} free reserved pages of 2 MiB ({why}), so it uses transparent ones: raise hugetlb.2MB.max and \
             hugetlb.2MB.rsvd.max of the control group, and check that the nodes in its cpuset.mems have as many",
            pool.free
        );
    }
    format!(
        "it takes {wanted} reserved pages of 2 MiB, and {} of {} are free, so it uses transparent ones: sysctl vm.nr_hugepages={count_enough}",
        pool.free, pool.count
    )
}

/// Adjusts a hot set's size to the remaining memory.
pub(crate) struct Keeper {
    set: Arc<HotSet>,
    headroom: Arc<Headroom>,
    pressure: Arc<MemoryPressure>,
    memory_bytes: u64,
    silos: u64,
    short_at: Cell<Option<Instant>>,
}

/// The remaining memory, and how long threads wait for memory.
#[derive(Clone, Copy, Debug)]
struct Seen {
    bound: Option<MemoryLimit>,
    available_bytes: Option<u64>,
    stalled_percent: f64,
}

impl Keeper {
    /// For one of `silos` silos on a machine with `memory_bytes`.
    pub(crate) fn new(
        set: Arc<HotSet>,
        headroom: Arc<Headroom>,
        pressure: Arc<MemoryPressure>,
        memory_bytes: u64,
        silos: u64,
    ) -> Self {
        Self { set, headroom, pressure, memory_bytes, silos, short_at: Cell::default() }
    }

    /// The hot set.
    pub(crate) fn set(&self) -> &HotSet {
        &self.set
    }

    /// Leaves the set's memory to the process that replaces this one: few viewers send requests here any more.
    pub(crate) async fn give_all_back(&self) {
        self.set.let_grow(0);
        while self.set.gives_back() && self.set.give_back_block() > 0 {
            // As below.
            yield_now().await;
        }
    }

    /// Checks the memory and adjusts the set. Call it once a second.
    pub(crate) async fn look(&self) {
        // All of its memory was taken at startup, and giving it back would help no other program.
        if !self.set.gives_back() {
            return self.set.let_grow(self.set.bytes_max());
        }
        let seen = Seen {
            bound: self.headroom.of_groups(),
            available_bytes: self.pressure.available_bytes(),
            stalled_percent: self.pressure.stalled_percent(),
        };
        let now = Instant::now();
        if is_short(seen, self.memory_bytes) {
            self.short_at.set(Some(now));
            self.set.let_grow(0);
            let mut left = self.set.used_bytes() / GIVEN_BACK_SHARE;
            while left > 0 {
                match self.set.give_back_block() {
                    0 => break,
                    given => left = left.saturating_sub(given),
                }
                // The kernel takes a while for each block, so let viewers' tasks run in between.
                yield_now().await;
            }
        }
        let is_quiet = self.short_at.get().is_none_or(|at| now.duration_since(at) > QUIET_FOR);
        // All silos see the same remaining memory.
        let growth = growth_bytes(seen, self.memory_bytes) / self.silos;
        self.set.let_grow(if is_quiet { growth } else { 0 });
    }
}

/// Whether less memory is left than `times` the reserve for viewers and other programs.
fn is_tight(seen: Seen, memory_bytes: u64, times: u64) -> bool {
    let of_bound = seen.bound.is_some_and(|bound| bound.left_bytes < times * reserve_bytes(bound));
    let of_machine =
        seen.available_bytes.is_some_and(|bytes| bytes < times * (memory_bytes / LEFT_SHARE_MIN));
    of_bound || of_machine
}

/// How much the set may grow in the next second: a fraction of the memory beyond twice the reserve, because new viewers need memory in that
/// second, too, and a limit may be lowered.
fn growth_bytes(seen: Seen, memory_bytes: u64) -> u64 {
    let of_bound =
        seen.bound.map(|bound| bound.left_bytes.saturating_sub(2 * reserve_bytes(bound)));
    let of_machine =
        seen.available_bytes.map(|bytes| bytes.saturating_sub(2 * (memory_bytes / LEFT_SHARE_MIN)));
    [of_bound, of_machine].into_iter().flatten().min().unwrap_or(0) / GROWTH_SHARE
}

/// Whether the set has to give memory back. Waiting threads alone are not enough: they also wait when only the page cache wants more memory.
fn is_short(seen: Seen, memory_bytes: u64) -> bool {
    let is_stalled = seen.stalled_percent >= STALLED_PERCENT_MAX;
    is_tight(seen, memory_bytes, 1) || (is_stalled && is_tight(seen, memory_bytes, 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Disk;

    const GIB: u64 = 1 << 30;

    fn seen(left: u64, available: u64, stalled_percent: f64) -> Seen {
        let bound = MemoryLimit { name: "a control group", bytes: 8 * GIB, left_bytes: left };
        Seen { bound: Some(bound), available_bytes: Some(available), stalled_percent }
    }

    #[test]
    fn a_set_is_no_larger_than_memory_and_is_there_only_where_heat_decides() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/meminfo"), "MemAvailable: 4194304 kB\n").unwrap();
        let pressure = MemoryPressure::open_from(root.path());
        let bytes = |adjust: fn(&mut Config), bound| {
            let mut config = Config::default();
            adjust(&mut config);
            bytes_of(&config, 8 * GIB, bound, &pressure, LargePagePool { count: 9, free: 6 })
        };
        assert_eq!(bytes(|_| {}, None), GIB);
        assert_eq!(bytes(|config| config.memory.hot_bytes = Some(u64::MAX), None), 8 * GIB);
        assert_eq!(bytes(|config| config.memory.hot_bytes = Some(0), None), 0);
        assert_eq!(bytes(|config| config.disk = Disk::Direct, None), 0);
        assert_eq!(bytes(|config| config.off = vec![Switch::Heat], None), 0);
        assert_eq!(bytes(|config| config.off = vec![Switch::Hot], None), 0);
        let reserved =
            bytes(|config| config.memory.large_pages = config::LargePages::Hugetlb, None);
        assert_eq!(reserved, 12 << 20, "the whole pool");
        let bound =
            |left_bytes| MemoryLimit { name: "a control group", bytes: 8 * GIB, left_bytes };
        assert_eq!(bytes(|_| {}, Some(bound(640 << 20))), 128 << 20);
        assert_eq!(bytes(|_| {}, Some(bound(200 << 20))), 0, "too small to be worth anything");
    }

    #[test]
    fn a_set_that_is_wanted_larger_than_memory_is_cut_and_that_is_told() {
        let mut config = Config::default();
        assert_eq!(describe_cut(&config, 8 * GIB), None, "the default is a part of memory");
        config.memory.hot_bytes = Some(8 * GIB);
        assert_eq!(describe_cut(&config, 8 * GIB), None);
        config.memory.hot_bytes = Some(24 * GIB);
        let told = describe_cut(&config, 8 * GIB).unwrap();
        assert!(
            told.starts_with("memory.hot_bytes is 24576 MiB, and there are 8192 MiB"),
            "{told}"
        );
        assert!(told.contains("lower memory.hot_bytes"), "{told}");
    }

    #[test]
    fn too_few_reserved_pages_are_told_with_the_remedy() {
        let why = io::Error::from_raw_os_error(libc::ENOMEM);
        // Of two sets of 50 pages, the first one has taken its share. 18 pages are used by others.
        let enough = LargePagePool { count: 80, free: 62 }.count_for(100);
        let told = refused(100 << 20, LargePagePool { count: 80, free: 12 }, enough, &why);
        assert!(told.contains("takes 50 reserved") && told.contains("12 of 80 are free"), "{told}");
        assert!(told.ends_with("sysctl vm.nr_hugepages=118"), "{told}");
        let told = refused(100 << 20, LargePagePool { count: 90, free: 60 }, 90, &why);
        assert!(told.contains("raise hugetlb.2MB.max and hugetlb.2MB.rsvd.max"), "{told}");
        assert!(told.contains("transparent ones") && told.contains("cpuset.mems"), "{told}");
        let mut config = Config::default();
        config.memory.large_pages = config::LargePages::Hugetlb;
        assert_eq!(pages(&config), Pages::Reserved);
        config.off = vec![Switch::Hugepages];
        assert_eq!(pages(&config), Pages::Small);
    }

    #[test]
    fn memory_is_short_when_little_is_left_or_threads_wait_for_it() {
        let (plenty, memory) = (4 * GIB, 16 * GIB);
        assert!(!is_short(seen(plenty, plenty, 0.0), memory));
        assert!(!is_short(seen(plenty, 8 * GIB, 50.0), memory), "only the page cache is busy");
        assert!(is_short(seen(100 << 20, plenty, 0.0), memory), "the group is full");
        assert!(is_short(seen(plenty, GIB - 1, 0.0), memory), "the machine is full");
        assert!(is_short(seen(plenty, 3 * GIB, 10.0), memory), "others wait");
        assert!(!is_short(seen(plenty, 3 * GIB, 9.0), memory));
        let unbounded = Seen { bound: None, ..seen(0, plenty, 0.0) };
        assert!(!is_short(unbounded, memory));
    }

    #[test]
    fn the_set_stops_growing_before_it_has_to_give_back() {
        let memory = 16 * GIB;
        assert_eq!(growth_bytes(seen(200 << 20, 8 * GIB, 0.0), memory), 0);
        assert!(!is_short(seen(200 << 20, 8 * GIB, 0.0), memory));
        assert_eq!(growth_bytes(seen(4 * GIB, 3 * GIB, 0.0), memory), GIB / 4);
        assert_eq!(growth_bytes(seen((256 << 20) + 400, 8 * GIB, 0.0), memory), 100);
    }
}
