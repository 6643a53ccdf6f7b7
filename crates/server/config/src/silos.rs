//! How connections are assigned to the silos of a machine with several NUMA nodes, and the operator's own map of silos.

use super::{Config, Route, Switch};
use machine::parse_list;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Which connections a silo serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// By network card if there are several silos.
    Auto,
    /// Any connections: the kernel spreads them over all workers.
    Off,
    /// Connections that arrive on its own network cards.
    Network,
    /// As `Network`, but bytes are read into memory of the disk's silo, not of the connection's.
    MemoryAtDisk,
    /// Connections that request files on its own disks.
    Disk,
}

impl Placement {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Network => "network",
            Self::MemoryAtDisk => "memory-at-disk",
            Self::Disk => "disk",
        }
    }
}

/// A silo as the operator defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiloPlan {
    /// Its CPUs, in the kernel's notation: `0-7,16-23`.
    pub cpus: String,
    /// Its network interfaces.
    #[serde(default)]
    pub cards: Vec<String>,
    /// Folders of the library that lie on its disks.
    #[serde(default)]
    pub folders: Vec<PathBuf>,
    /// The mark of its connections, by which the operator's routes choose a network port (`SO_MARK`). Silos may share one.
    #[serde(default)]
    pub mark: Option<u32>,
}

/// An error in the silos.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiloError {
    /// A list of CPUs is invalid.
    #[error(
        "silos.cpus has {text:?}; write numbers of CPUs such as \"0-7,16-23\" (`lscpu -e` lists them)"
    )]
    NoCpus {
        /// The text as written.
        text: String,
    },
    /// A CPU is in two silos.
    #[error("CPU {0} is in two of the [[silos]]; a CPU belongs to one")]
    CpuTwice(u32),
    /// A network card is in two silos.
    #[error("the network card {0} is in two of the [[silos]]; a card belongs to one")]
    NicTwice(String),
    /// A folder is in two silos.
    #[error("the folder {0} is in two of the [[silos]]; a folder belongs to one")]
    FolderTwice(PathBuf),
    /// The machine does not have a CPU of a silo.
    #[error(
        "silos.cpus has {cpus:?}, and this machine has no CPU {cpu}, only {present}: leave out what is not there (`lscpu -e` lists the CPUs)"
    )]
    NoCpu {
        /// The CPU.
        cpu: u32,
        /// The silo's CPUs.
        cpus: String,
        /// The machine's CPUs.
        present: String,
    },
    /// The server may not use any CPU of a silo.
    #[error(
        "the server may not use any of the CPUs {cpus} of a silo; see Cpus_allowed_list in /proc/self/status"
    )]
    NoCpuAllowed {
        /// The silo's CPUs.
        cpus: String,
    },
    /// There are fewer workers than silos.
    #[error(
        "there are {silos} silos but only {workers} workers: each silo needs one; set workers to {silos} or more, or to 0"
    )]
    FewWorkers {
        /// How many workers.
        workers: usize,
        /// How many silos.
        silos: usize,
    },
    /// There is no such network interface.
    #[error("silos.cards has {0:?}, which is not a network card here (`ip link` lists them)")]
    NoNic(String),
    /// There is no such folder.
    #[error("silos.folders has {0}, which is not a folder")]
    NoFolder(PathBuf),
    /// A folder is not in the library.
    #[error("silos.folders has {0}, which is not in the library")]
    FolderOutside(PathBuf),
    /// Folders of two silos are on the same disk.
    #[error(
        "the folders {0} and {1} are on the same disk and in different silos; a disk belongs to one silo"
    )]
    DiskShared(PathBuf, PathBuf),
    /// Connections cannot be assigned to silos on this route, or with this switch off.
    #[error(
        "silo = \"{}\" needs a listening socket of the kernel for each worker, and {what} has none: leave one of the two out",
        .silo.name()
    )]
    NoListeners {
        /// The placement that needs it.
        silo: Placement,
        /// The route, or the switch.
        what: &'static str,
    },
    /// Connections of this route cannot move to other silos.
    #[error(
        "silo = \"disk\" moves connections between workers, and those of the bypass route cannot move: choose another route, or leave one of the two out"
    )]
    NoMoves,
    /// A silo's mark is 0, the number that means no mark.
    #[error(
        "silos.mark is 0, which means no mark; write the number that `ip rule` looks for, such as 1"
    )]
    MarkZero,
    /// Some silos have marks, and others have none.
    #[error(
        "some of the [[silos]] have a mark and others have none: write one for each (silos may share one), or for none"
    )]
    MarkMissing,
    /// Connections cannot be marked on this route, or with this switch off.
    #[error(
        "silos.mark needs a listening socket of the kernel for each worker, and {0} has none: leave one of the two out"
    )]
    MarkWithoutListeners(&'static str),
}

/// Checks everything that does not depend on the machine.
pub(crate) fn check(config: &Config) -> Result<(), SiloError> {
    let silo = config.silo;
    if let (Placement::Network | Placement::MemoryAtDisk, Some(what)) =
        (silo, without_listeners(config))
    {
        return Err(SiloError::NoListeners { silo, what });
    }
    if (config.silo, config.route) == (Placement::Disk, Route::Bypass) {
        return Err(SiloError::NoMoves);
    }
    let (mut cpus, mut cards, mut folders) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for plan in &config.silos {
        for cpu in plan.cpu_numbers()? {
            if !cpus.insert(cpu) {
                return Err(SiloError::CpuTwice(cpu));
            }
        }
        if let Some(card) = plan.cards.iter().find(|card| !cards.insert(*card)) {
            return Err(SiloError::NicTwice(card.clone()));
        }
        if let Some(folder) = plan.folders.iter().find(|folder| !folders.insert(*folder)) {
            return Err(SiloError::FolderTwice(folder.clone()));
        }
    }
    check_marks(config)
}

fn check_marks(config: &Config) -> Result<(), SiloError> {
    let marks: Vec<_> = config.silos.iter().filter_map(|plan| plan.mark).collect();
    if marks.is_empty() {
        return Ok(());
    }
    if marks.contains(&0) {
        return Err(SiloError::MarkZero);
    }
    if marks.len() < config.silos.len() {
        return Err(SiloError::MarkMissing);
    }
    without_listeners(config).map_or(Ok(()), |what| Err(SiloError::MarkWithoutListeners(what)))
}

/// Whether a connection gets another mark while it is open, because it moves to another silo.
pub fn marks_when_moving(config: &Config) -> bool {
    config.silo == Placement::Disk && config.silos.iter().any(|plan| plan.mark.is_some())
}

/// The setting that keeps workers from having listening sockets of their own, if there is one.
pub fn without_listeners(config: &Config) -> Option<&'static str> {
    match config.route {
        Route::Bypass => Some("the bypass route"),
        _ if !config.is_on(Switch::Listeners) => Some("--off listeners"),
        _ => None,
    }
}

impl SiloPlan {
    /// The numbers of its CPUs.
    ///
    /// # Errors
    /// If the list of CPUs is invalid.
    pub fn cpu_numbers(&self) -> Result<Vec<u32>, SiloError> {
        parse_list(&self.cpus).ok_or_else(|| SiloError::NoCpus { text: self.cpus.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigError;

    /// The fault of a configuration, if it has one.
    fn fault(text: &str) -> Option<ConfigError> {
        let malformed = |why| ConfigError::Malformed { file: "it".into(), why: Box::new(why) };
        toml::from_str(text).map_err(malformed).and_then(|config: Config| config.check()).err()
    }

    fn error_text(text: &str) -> String {
        fault(text).expect("something is wrong with it").to_string()
    }

    #[test]
    fn a_map_of_silos_is_read_and_only_the_cpus_are_needed() {
        let text = "silo = \"network\"\n[[silos]]\ncpus = \"0-1,4\"\ncards = [\"eth0\"]\nfolders = [\"/d0\"]\n[[silos]]\ncpus = \"2\"\n";
        let config: Config = toml::from_str(text).unwrap();
        config.check().unwrap();
        assert_eq!(config.silo, Placement::Network);
        assert_eq!(config.silos[0].cpu_numbers(), Ok(vec![0, 1, 4]));
        assert_eq!(config.silos[1].cards, [""; 0]);
        assert!(error_text("[[silos]]\ncards = [\"eth0\"]\n").contains("cpus"));
        assert!(error_text("[[silos]]\ncpus = \"0\"\ndisks = []\n").contains("disks"));
        assert!(error_text("silo = \"nearby\"\n").contains("network"));
    }

    #[test]
    fn what_is_in_two_silos_is_named() {
        let two =
            |one: &str, other: &str| error_text(&format!("[[silos]]\n{one}\n[[silos]]\n{other}\n"));
        assert!(two("cpus = \"0-3\"", "cpus = \"3\"").contains("CPU 3 is in two"));
        let with = |cpu: u32, more: &str| format!("cpus = \"{cpu}\"\n{more}");
        let (card, folder) = ("cards = [\"eth7\"]", "folders = [\"/d7\"]");
        assert!(two(&with(0, card), &with(1, card)).contains("card eth7 is in two"));
        assert!(two(&with(0, folder), &with(1, folder)).contains("folder /d7 is in two"));
        assert!(two("cpus = \"0\"", "cpus = \"all\"").contains("\"all\""));
    }

    #[test]
    fn placement_by_card_needs_a_listener_for_each_worker() {
        let said = error_text("silo = \"network\"\noff = [\"listeners\"]\n");
        assert!(said.contains("--off listeners"), "{said}");
        assert!(fault("silo = \"auto\"\noff = [\"listeners\"]\n").is_none());
        for silo in [Placement::Network, Placement::MemoryAtDisk] {
            let bypass = Config { route: Route::Bypass, silo, ..Config::default() };
            let what = "the bypass route";
            assert_eq!(check(&bypass), Err(SiloError::NoListeners { silo, what }));
        }
        let said = error_text("silo = \"memory-at-disk\"\noff = [\"listeners\"]\n");
        assert!(said.starts_with("silo = \"memory-at-disk\" needs"), "{said}");
    }

    #[test]
    fn placement_by_disk_needs_connections_that_can_move() {
        let config = Config { silo: Placement::Disk, ..Config::default() };
        assert_eq!(check(&config), Ok(()));
        assert_eq!(check(&Config { route: Route::Bypass, ..config }), Err(SiloError::NoMoves));
    }

    #[test]
    fn marks_are_for_all_silos_or_for_none_and_may_be_shared() {
        let marked = |one: &str, other: &str| {
            fault(&format!("[[silos]]\ncpus = \"0\"\n{one}\n[[silos]]\ncpus = \"1\"\n{other}\n"))
        };
        let said_of = |one: &str, other: &str| marked(one, other).unwrap().to_string();
        assert!(marked("mark = 1", "mark = 0x20").is_none());
        assert!(marked("mark = 1", "mark = 1").is_none(), "a silo without a port uses another's");
        assert!(said_of("mark = 0", "mark = 1").contains("silos.mark is 0"));
        assert!(said_of("mark = 1", "").contains("others have none"));
        assert!(said_of("mark = -1", "mark = 1").contains("mark = -1"));
        assert!(error_text("mark = 1\n").contains("no setting `mark`"));
    }

    #[test]
    fn marks_need_a_listener_for_each_worker() {
        let map = "[[silos]]\ncpus = \"0\"\nmark = 1\n";
        let said = error_text(&format!("off = [\"listeners\"]\n{map}"));
        assert!(said.contains("silos.mark needs") && said.contains("--off listeners"), "{said}");
        let config: Config = toml::from_str(map).unwrap();
        let bypass = Config { route: Route::Bypass, ..config };
        assert_eq!(check(&bypass), Err(SiloError::MarkWithoutListeners("the bypass route")));
    }

    #[test]
    fn only_connections_that_move_are_marked_again() {
        let map = |silo: &str, mark: &str| -> Config {
            toml::from_str(&format!("silo = \"{silo}\"\n[[silos]]\ncpus = \"0\"\n{mark}")).unwrap()
        };
        assert!(marks_when_moving(&map("disk", "mark = 1")));
        assert!(!marks_when_moving(&map("disk", "")));
        assert!(!marks_when_moving(&map("network", "mark = 1")));
    }
}
