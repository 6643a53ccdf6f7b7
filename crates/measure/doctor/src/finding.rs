//! A check's findings, and values that it could not read.

use std::cmp::Ordering;

/// A part of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// How devices are connected, and on which node they are.
    Pcie,
    /// NVMe disks.
    Nvme,
    /// The filesystem of the library.
    Filesystem,
    /// Network cards and bonds.
    Card,
    /// Processors.
    Cpu,
    /// Memory.
    Memory,
    /// The kernel's settings.
    Kernel,
    /// Limits of this process, and its rights to the library.
    Rights,
}

impl Area {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcie => "pcie",
            Self::Nvme => "nvme",
            Self::Filesystem => "filesystem",
            Self::Card => "card",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Kernel => "kernel",
            Self::Rights => "rights",
        }
    }
}

/// The amount at stake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worth {
    /// Films may leave unprotected.
    Safety,
    /// At most this part of the machine's possible rate, in percent.
    Percent(f64),
    /// There is no measurement.
    Unmeasured,
}

impl Worth {
    /// Above this the program's exit code is 1.
    const LARGE_PERCENT: f64 = 10.0;

    /// Whether it should be fixed without delay.
    pub fn is_large(self) -> bool {
        match self {
            Self::Safety => true,
            Self::Percent(percent) => percent > Self::LARGE_PERCENT,
            Self::Unmeasured => false,
        }
    }

    /// Orders the largest first.
    pub(crate) fn order(self, other: Self) -> Ordering {
        let rank = |worth| match worth {
            Self::Safety => f64::INFINITY,
            Self::Percent(percent) => percent,
            Self::Unmeasured => -1.0,
        };
        rank(other).total_cmp(&rank(self))
    }
}

/// The possible cost of a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The amount.
    pub worth: Worth,
    /// The loss, and its conditions.
    pub what: String,
    /// The source of the figure; empty if there is none.
    pub source: &'static str,
}

impl Cost {
    /// A part of the machine's possible rate, with the source of that figure.
    pub fn percent(percent: f64, what: impl Into<String>, source: &'static str) -> Self {
        Self { worth: Worth::Percent(percent), what: what.into(), source }
    }

    /// A cost without a measurement.
    pub fn unmeasured(what: impl Into<String>) -> Self {
        Self { worth: Worth::Unmeasured, what: what.into(), source: "" }
    }
}

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The part of the machine.
    pub area: Area,
    /// Its name, the same on every machine.
    pub name: &'static str,
    /// The devices or files that have it; none if it is a fault of the whole machine.
    pub on: Vec<String>,
    /// The current state.
    pub found: String,
    /// The recommended state.
    pub wanted: String,
    /// The possible cost.
    pub cost: Cost,
    /// How to fix it: a command, or a setting of the firmware.
    pub mend: String,
    /// How to check the fix.
    pub check: String,
}

impl Finding {
    /// A fault of the whole machine.
    pub(crate) fn of_machine(
        area: Area,
        name: &'static str,
        [found, wanted]: [String; 2],
        cost: Cost,
        [mend, check]: [&str; 2],
    ) -> Self {
        let (mend, check) = (mend.to_owned(), check.to_owned());
        Self { area, name, on: Vec::new(), found, wanted, cost, mend, check }
    }

    /// Whether `other` is the same fault of another device.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let of = |finding: &Self| (finding.name, finding.found.clone(), finding.wanted.clone());
        !self.on.is_empty() && of(self) == of(other)
    }
}

/// A value that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The kind of information that is missing.
    pub what: &'static str,
    /// Why it is unknown.
    pub why: String,
    /// The files or devices.
    pub of: Vec<String>,
}
