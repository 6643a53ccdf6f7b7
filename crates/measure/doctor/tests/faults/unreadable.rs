//! A value that is missing, impossible or refused is unknown: never a fault, and never a crash.

use crate::sample::Sample;
use fullbore_doctor::Diagnosis;
use machine::LinkQuestion;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Files whose absence is an answer: a kernel that lacks a feature has no file for it, and a device without a known node
/// reports none, or -1.
const NOTHING_SAYS_SOMETHING: [(&str, &str); 3] = [
    ("proc/net/tls_stat", "tls"),
    ("proc/pressure/memory", "pressure"),
    ("/numa_node", "device-node"),
];

/// Content that no file should have.
const NONSENSE: [&[u8]; 6] = [
    b"\0\xff: -1 kB\n:\n[]",
    b"[[]] 0x 0-4294967295,,, / \\999 - x\n",
    b"",
    b"-1\n",
    b"99999999999999999999\n",
    &[0xff; 300],
];

fn invents_nothing(path: &str, how: &str, diagnosis: &Diagnosis) {
    for finding in &diagnosis.findings {
        let is_known = |(end, name): &(&str, &str)| path.ends_with(end) && *name == finding.name;
        assert!(NOTHING_SAYS_SOMETHING.iter().any(is_known), "{path} {how}: {finding:#?}");
    }
    // It can also be displayed.
    assert!(diagnosis.describe().ends_with('\n') && diagnosis.to_json().is_object());
}

fn write(root: &Path, path: &str, text: &[u8]) {
    fs::write(root.join(path), text).unwrap();
}

/// Removes each of the files that `is_chosen` names, makes it unreadable, and gives it each content in `nonsense`.
fn spoil(mut is_chosen: impl FnMut(&str) -> bool, nonsense: &[&[u8]]) {
    let sample = Sample::healthy();
    let root = sample.written();
    for (path, text) in sample.files.iter().filter(|(path, _)| is_chosen(path)) {
        fs::remove_file(root.path().join(path)).unwrap();
        invents_nothing(path, "missing", &sample.examine_at(root.path()));
        // Reading a folder fails with another error than that of a missing file, as does a refused file.
        fs::create_dir(root.path().join(path)).unwrap();
        invents_nothing(path, "refused", &sample.examine_at(root.path()));
        fs::remove_dir(root.path().join(path)).unwrap();
        for nonsense in nonsense {
            write(root.path(), path, nonsense);
            let how = String::from_utf8_lossy(nonsense);
            invents_nothing(path, &how, &sample.examine_at(root.path()));
        }
        write(root.path(), path, text);
    }
    assert_eq!(sample.examine_at(root.path()).findings, [], "everything is restored");
}

/// Disks, cards, CPUs and queues have the same files: one of each kind stands for all.
#[test]
fn files_that_are_missing_or_absurd_or_refused_are_unknown() {
    let mut seen = BTreeSet::new();
    let kind =
        |path: &str| path.replace("0000:03:00.0", "card").replace(|c: char| c.is_ascii_digit(), "");
    spoil(|path| seen.insert(kind(path)), &NONSENSE[..2]);
}

#[test]
#[ignore = "a minute for every file and all sorts of nonsense: ./run nightly"]
fn every_file_may_say_anything() {
    spoil(|_| true, &NONSENSE);
}

#[test]
fn a_machine_that_tells_nothing_has_no_fault_and_much_that_is_unknown() {
    let diagnosis = Sample::empty().examine();
    assert_eq!(diagnosis.findings, []);
    let what: Vec<_> = diagnosis.unread.iter().map(|unread| unread.what).collect();
    for expected in
        ["the filesystem of the library", "lists of CPUs", "the kernel's version", "memory modules"]
    {
        assert!(what.contains(&expected), "{what:?}");
    }
    assert!(diagnosis.describe().contains("Not known:"));
}

#[test]
fn what_only_root_may_read_is_said_with_the_remedy() {
    let mut sample = Sample::healthy();
    let config = sample.of_device("0000:03:00.0", "config");
    sample.files.get_mut(&config).unwrap().truncate(64);
    let diagnosis = sample.examine();
    assert_eq!(diagnosis.findings, []);
    let unread = &diagnosis.unread[0];
    assert_eq!((unread.what, &unread.of[..]), ("PCIe registers", &["0000:03:00.0".to_owned()][..]));
    assert!(unread.why.contains("run it as root"));
}

#[test]
fn cards_that_tell_nothing_are_unknown() {
    let mut sample = Sample::healthy();
    sample.card_is(|card| *card = Default::default());
    let diagnosis = sample.examine();
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.unread.iter().any(|unread| unread.of == ["eth0"]), "{diagnosis:?}");
    sample.cards = None;
    let diagnosis = sample.examine();
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.unread.iter().any(|unread| unread.of == ["eth0", "eth1"]), "{diagnosis:?}");
}

#[test]
fn what_a_hypervisor_shows_of_registers_is_not_believed() {
    let mut sample = Sample::healthy();
    sample.registers("0000:03:00.0", 0x22, 0);
    assert!(!sample.examine().findings.is_empty());
    let text = String::from_utf8(sample.files["proc/cpuinfo"].clone()).unwrap();
    sample.change("proc/cpuinfo", &text.replace("fpu", "fpu hypervisor"));
    let diagnosis = sample.examine();
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.unread[0].why.contains("virtual machine"), "{diagnosis:?}");
}

#[test]
fn health_logs_that_are_absurd_or_refused_are_unknown() {
    for log in [vec![], vec![0; 512], vec![0xff; 512], vec![1, 2]] {
        let mut sample = Sample::healthy();
        sample.logs.insert("nvme0".into(), log);
        let diagnosis = sample.examine();
        assert_eq!(diagnosis.findings, []);
        let unread = &diagnosis.unread[0];
        assert_eq!((unread.what, &unread.of[..]), ("health of disks", &["nvme0".to_owned()][..]));
    }
    let mut sample = Sample::healthy();
    sample.logs.clear();
    let diagnosis = sample.examine();
    assert_eq!((diagnosis.findings.len(), diagnosis.unread[0].of.len()), (0, 4));
}

#[test]
fn rates_between_nodes_that_make_no_sense_say_nothing() {
    let mut sample = Sample::healthy();
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        sample.rates[1].gbytes_per_second = rate;
        assert_eq!(sample.examine().findings, [], "{rate}");
    }
    sample.rates.retain(|rate| rate.cpus != rate.memory);
    assert_eq!(sample.examine().findings, [], "nothing to compare with");
}

#[test]
fn links_between_sockets_that_nobody_tells_of_are_unknown() {
    let asked = |links: &[((u16, LinkQuestion), [u32; 2])]| {
        let mut sample = Sample::healthy();
        sample.links = links.iter().copied().collect();
        sample
    };
    // Without the device; measurements between nodes are enough.
    let mut without = asked(&[]);
    assert_eq!(without.examine().unread, []);
    without.rates.clear();
    let unread = without.examine().unread;
    assert!(unread[0].why.contains("/dev/hsmp"), "{unread:?}");
    // Impossible values.
    for clocks in [[0, 0], [u32::MAX; 2]] {
        let mut sample = Sample::healthy();
        sample.links_are(LinkQuestion::Clocks, clocks);
        sample.links_are(LinkQuestion::Widths, [0xff, 7]);
        let diagnosis = sample.examine();
        assert_eq!(diagnosis.findings, []);
        assert_eq!(diagnosis.unread[0].of, ["socket 0", "socket 1"]);
    }
    // For older processors the query for widths would be a command, so they are not queried.
    let mut older = Sample::healthy();
    let text = String::from_utf8(older.files["proc/cpuinfo"].clone()).unwrap();
    older.change("proc/cpuinfo", &text.replace(": 80\n", ": 2\n"));
    older.links_are(LinkQuestion::Widths, [0x0000, 0]);
    assert_eq!(older.examine().findings, []);
}

#[test]
fn what_was_not_tried_on_the_library_is_unknown() {
    let mut sample = Sample::healthy();
    sample.filesystems[0].block_bytes = Some(4000);
    // EACCES, which says nothing about the filesystem.
    sample.filesystems[0].read_once_refused = Some(13);
    let diagnosis = sample.examine();
    assert_eq!(diagnosis.findings, []);
    assert_eq!(diagnosis.unread.len(), 2, "{diagnosis:?}");
    assert!(diagnosis.unread.iter().all(|unread| unread.of == ["/srv/films"]), "{diagnosis:?}");
    sample.filesystems.clear();
    let diagnosis = sample.examine();
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.unread[0].why.contains("no film"), "{diagnosis:?}");
}
