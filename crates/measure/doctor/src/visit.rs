//! An examination of one machine: the checks' access to its files, and their results.

use crate::Evidence;
use crate::diagnosis::{Diagnosis, describe};
use crate::finding::{Finding, Unread};
use crate::inventory;
use crate::tree::Tree;
use machine::{Machine, Topology};
use std::collections::BTreeSet;
use std::io;
use std::str::FromStr;

pub(crate) struct Visit<'a> {
    pub(crate) evidence: Evidence<'a>,
    pub(crate) tree: Tree,
    pub(crate) machine: Machine,
    pub(crate) topology: Topology,
    findings: Vec<Finding>,
    unread: Vec<Unread>,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(evidence: Evidence<'a>) -> Self {
        Self {
            tree: Tree::new(evidence.root),
            machine: Machine::probe_from(evidence.root),
            topology: Topology::open_from(evidence.root),
            evidence,
            findings: Vec::new(),
            unread: Vec::new(),
        }
    }

    pub(crate) fn into_diagnosis(mut self) -> Diagnosis {
        let (devices, sockets) = (inventory::all(&mut self), self.sockets());
        Diagnosis::new(describe(&self.machine, sockets), devices, self.findings, self.unread)
    }

    /// How many sockets the CPUs are on; 0 if unknown.
    pub(crate) fn sockets(&self) -> usize {
        const CPUS: &str = "sys/devices/system/cpu";
        let cpus = self.tree.names(CPUS).into_iter().filter(|name| name.starts_with("cpu"));
        let socket = |cpu| {
            let path = format!("{CPUS}/{cpu}/topology/physical_package_id");
            self.tree.text(path).ok()?.parse::<u32>().ok()
        };
        cpus.filter_map(socket).collect::<BTreeSet<_>>().len()
    }

    /// Adds a fault. The same fault of several devices becomes one.
    pub(crate) fn found(&mut self, finding: Finding) {
        match self.findings.iter_mut().find(|known| known.is_same_as(&finding)) {
            Some(known) => known.on.extend(finding.on),
            None => self.findings.push(finding),
        }
    }

    /// Adds a value that could not be read. The same value of several devices becomes one entry.
    pub(crate) fn unknown(&mut self, what: &'static str, why: impl Into<String>, of: &str) {
        let why = why.into();
        match self.unread.iter_mut().find(|known| (known.what, &known.why) == (what, &why)) {
            // Several checks read from the same device.
            Some(known) if known.of.iter().any(|known| known == of) => {}
            Some(known) => known.of.push(of.to_owned()),
            None => self.unread.push(Unread { what, why, of: vec![of.to_owned()] }),
        }
    }

    pub(crate) fn refused(&mut self, what: &'static str, error: &io::Error, of: &str) {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "the kernel does not say".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied: run it as root".to_owned(),
            _ => error.to_string(),
        };
        self.unknown(what, why, of);
    }

    fn nonsense(&mut self, what: &'static str, path: &str) {
        self.unknown(what, "the kernel reports impossible values", path);
    }

    /// A file that every machine of this kind has.
    pub(crate) fn needed(&mut self, what: &'static str, path: &str) -> Option<String> {
        match self.tree.text(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.refused(what, &error, path);
                None
            }
        }
    }

    /// A file that may be missing.
    pub(crate) fn optional(&mut self, what: &'static str, path: &str) -> Option<String> {
        match self.tree.text(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            _ => self.needed(what, path),
        }
    }

    /// The result of `parse` for a text from `path`.
    pub(crate) fn understood<T>(
        &mut self,
        what: &'static str,
        path: &str,
        parsed: Option<T>,
    ) -> Option<T> {
        if parsed.is_none() {
            self.nonsense(what, path);
        }
        parsed
    }

    /// A number that every machine of this kind has.
    pub(crate) fn number<T: FromStr>(&mut self, what: &'static str, path: &str) -> Option<T> {
        let text = self.needed(what, path)?;
        self.understood(what, path, text.parse().ok())
    }

    /// A number that may be missing.
    pub(crate) fn optional_number<T: FromStr>(
        &mut self,
        what: &'static str,
        path: &str,
    ) -> Option<T> {
        let text = self.optional(what, path)?;
        self.understood(what, path, text.parse().ok())
    }

    /// The choice that the kernel marks: `always [madvise] never`.
    pub(crate) fn chosen(&mut self, what: &'static str, path: &str) -> Option<String> {
        let text = self.optional(what, path)?;
        let marked = text.split_whitespace().find_map(|word| {
            let word = word.strip_prefix('[')?.strip_suffix(']')?;
            Some(word.to_owned())
        });
        self.understood(what, path, marked)
    }
}
