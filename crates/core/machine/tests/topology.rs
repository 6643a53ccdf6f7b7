//! The nodes of disks and network cards, as the /sys of several kinds of machines reports them.

use fullbore_machine::{Mount, NicDevice, NicInterrupt, Topology};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A tree of files and links, as in `/`.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.made(path);
        fs::write(path, text).expect("a file");
    }

    fn folder(&self, path: &str) {
        fs::create_dir_all(self.0.path().join(path)).expect("a folder");
    }

    /// A relative link, as the kernel makes them.
    fn link(&self, path: &str, to: &str) {
        let ups = "../".repeat(path.matches('/').count());
        symlink(format!("{ups}{to}"), self.made(path)).expect("a link");
    }

    fn made(&self, path: &str) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("files lie below the root")).expect("a folder");
        path
    }

    fn topology(&self) -> Topology {
        Topology::open_from(self.0.path())
    }

    /// A disk on a PCIe device of this node.
    fn disk(&self, device: &str, name: &str, node: &str) -> String {
        let nic = format!("sys/devices/pci0000:00/0000:00:0{}.0", device.replace(':', "."));
        self.file(&format!("{nic}/numa_node"), node);
        let folder = format!("{nic}/virtio0/block/{name}");
        self.folder(&folder);
        self.link(&format!("sys/dev/block/{device}"), &folder);
        folder
    }

    fn nic(&self, name: &str, index: &str, node: &str) {
        let device = format!("sys/devices/pci0000:40/0000:40:0{index}.0");
        self.file(&format!("{device}/numa_node"), node);
        let folder = format!("{device}/virtio{index}/net/{name}");
        self.file(&format!("{folder}/ifindex"), index);
        self.link(&format!("{folder}/device"), &format!("{device}/virtio{index}"));
        self.link(&format!("sys/class/net/{name}"), &folder);
    }

    fn virtual_card(&self, name: &str, index: &str, over: &[&str]) {
        let folder = format!("sys/devices/virtual/net/{name}");
        self.file(&format!("{folder}/ifindex"), index);
        for lower in over {
            self.link(&format!("{folder}/lower_{lower}"), &format!("sys/class/net/{lower}"));
        }
        self.link(&format!("sys/class/net/{name}"), &folder);
    }
}

fn device(major: u32, minor: u32) -> u64 {
    rustix::fs::makedev(major, minor)
}

#[test]
fn a_machine_that_says_nothing_has_no_nodes() {
    let topology = Tree::new().topology();
    assert_eq!(topology.nodes(), []);
    assert_eq!(topology.distance(0, 1), None);
    assert_eq!(topology.node_of_disk(device(8, 0)), None);
    assert_eq!(topology.nics(), []);
    assert_eq!(topology.mounts_of(Path::new("/")), []);
}

#[test]
fn nodes_have_cpus_and_distances_in_the_order_of_those_online() {
    let tree = Tree::new();
    tree.file("sys/devices/system/node/online", "0,2-3\n");
    for (node, cpus, distances) in
        [(0, "0-1,4", "10 12 32"), (2, "2-3", "12 10 32"), (3, "", "32 32 10")]
    {
        tree.file(&format!("sys/devices/system/node/node{node}/cpulist"), cpus);
        tree.file(&format!("sys/devices/system/node/node{node}/distance"), distances);
    }
    let topology = tree.topology();
    let expected = [(0, vec![0, 1, 4]), (2, vec![2, 3]), (3, vec![])];
    assert_eq!(topology.nodes(), expected);
    assert_eq!(topology.distance(0, 2), Some(12));
    assert_eq!(topology.distance(3, 3), Some(10));
    assert_eq!(topology.distance(0, 1), None, "node 1 is not there");
    assert_eq!(topology.distance(1, 0), None);
}

#[test]
fn the_memory_of_a_node_without_any_is_that_of_the_nearest_which_has_some() {
    let tree = Tree::new();
    tree.file("sys/devices/system/node/online", "0-3\n");
    for (node, distances) in ["10 20 12 32", "20 10 32 12", "12 32 10 20"].iter().enumerate() {
        tree.file(&format!("sys/devices/system/node/node{node}/distance"), distances);
    }
    assert_eq!(tree.topology().memory_near(2), Some(2), "the kernel does not say what has memory");
    tree.file("sys/devices/system/node/has_memory", "0-1\n");
    let near = |node| tree.topology().memory_near(node);
    assert_eq!([0, 1, 2, 3].map(near), [Some(0), Some(1), Some(0), None]);
}

#[test]
fn a_disk_is_on_the_node_of_what_it_is_plugged_into() {
    let tree = Tree::new();
    let whole = tree.disk("8:0", "vda", "1\n");
    tree.disk("8:16", "vdb", "-1\n");
    // A partition's folder lies in that of the disk.
    tree.file(&format!("{whole}/vda1/partition"), "1\n");
    tree.link("sys/dev/block/8:1", &format!("{whole}/vda1"));
    // The nearest statement counts.
    tree.file("sys/devices/pci0000:00/numa_node", "3\n");
    let topology = tree.topology();
    assert_eq!(topology.node_of_disk(device(8, 0)), Some(1));
    assert_eq!(topology.node_of_disk(device(8, 1)), Some(1));
    assert_eq!(
        topology.node_of_disk(device(8, 16)),
        Some(3),
        "the device does not know, the bus does"
    );
    assert_eq!(topology.node_of_disk(device(9, 9)), None);
    assert_eq!(topology.name_of_disk(device(8, 1)).as_deref(), Some("vda1"));
}

#[test]
fn what_lies_on_several_disks_is_on_a_node_only_if_they_agree() {
    let tree = Tree::new();
    let disks = [
        tree.disk("8:0", "vda", "1"),
        tree.disk("8:16", "vdb", "1"),
        tree.disk("8:32", "vdc", "2"),
    ];
    let array = |minor: u32, over: &[&String]| {
        let folder = format!("sys/devices/virtual/block/dm-{minor}");
        for (at, below) in over.iter().enumerate() {
            tree.link(&format!("{folder}/slaves/part{at}"), below);
        }
        tree.folder(&folder);
        tree.link(&format!("sys/dev/block/253:{minor}"), &folder);
        folder
    };
    let same = array(0, &[&disks[0], &disks[1]]);
    let mixed = array(1, &[&disks[0], &disks[2]]);
    array(2, &[&same]);
    array(3, &[&same, &mixed]);
    // A device that claims to be on top of itself.
    let round = array(4, &[]);
    tree.link(&format!("{round}/slaves/self"), &round);
    let nodes = |minor| tree.topology().node_of_disk(device(253, minor));
    assert_eq!((0..5).map(nodes).collect::<Vec<_>>(), [Some(1), None, Some(1), None, None]);
}

#[test]
fn a_disk_rotates_if_it_says_so_or_one_of_those_below_does() {
    let tree = Tree::new();
    // A disk of SCSI, such as SATA, with a partition.
    let disk = |minor: u32, name: &str, says: &str| {
        let folder = format!("sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/{name}");
        tree.file(&format!("{folder}/queue/rotational"), says);
        tree.file(&format!("{folder}/{name}1/partition"), "1\n");
        tree.link(&format!("sys/dev/block/8:{minor}"), &folder);
        tree.link(&format!("sys/dev/block/8:{}", minor + 1), &format!("{folder}/{name}1"));
        folder
    };
    let (hard, solid) = (disk(0, "sda", "1\n"), disk(16, "sdb", "0\n"));
    let strange = disk(32, "sdc", "perhaps\n");
    // virtio disks report 1, whatever they are.
    let virtual_disk = tree.disk("254:0", "vda", "0");
    tree.file(&format!("{virtual_disk}/queue/rotational"), "1\n");
    let array = |minor: u32, over: &[&str]| {
        let folder = format!("sys/devices/virtual/block/dm-{minor}");
        for (at, below) in over.iter().enumerate() {
            tree.link(&format!("{folder}/slaves/part{at}"), below);
        }
        // Device mapper's own value does not count.
        tree.file(&format!("{folder}/queue/rotational"), "1\n");
        tree.link(&format!("sys/dev/block/253:{minor}"), &folder);
        folder
    };
    let mixed = array(0, &[&solid, &hard]);
    array(1, &[&solid, &strange, &virtual_disk]);
    array(2, &[&mixed, &solid]);
    let round = array(3, &[]);
    tree.link(&format!("{round}/slaves/self"), &round);
    let rotates = |major, minor| tree.topology().rotates(device(major, minor));
    let of_disks = [0, 1, 16, 17, 32].map(|minor| rotates(8, minor));
    assert_eq!(of_disks, [true, true, false, false, false]);
    assert_eq!(
        (0..4).map(|minor| rotates(253, minor)).collect::<Vec<_>>(),
        [true, false, true, false]
    );
    assert!(!rotates(254, 0) && !rotates(9, 9));
}

#[test]
fn an_nvme_disk_with_several_controllers_is_where_they_are() {
    let tree = Tree::new();
    for (index, node) in [(0, "1"), (1, "1"), (2, "0")] {
        tree.file(&format!("sys/devices/pci0000:00/0000:0{index}:00.0/numa_node"), node);
        tree.folder(&format!("sys/devices/pci0000:00/0000:0{index}:00.0/nvme/nvme{index}"));
    }
    for (subsystem, controllers) in [(0, &[0, 1][..]), (1, &[1, 2])] {
        let folder = format!("sys/devices/virtual/nvme-subsystem/nvme-subsys{subsystem}");
        for index in controllers {
            let to = format!("sys/devices/pci0000:00/0000:0{index}:00.0/nvme/nvme{index}");
            tree.link(&format!("{folder}/nvme{index}"), &to);
        }
        let disk = format!("{folder}/nvme{subsystem}n1");
        tree.folder(&disk);
        tree.link(&format!("sys/dev/block/259:{subsystem}"), &disk);
    }
    assert_eq!(tree.topology().node_of_disk(device(259, 0)), Some(1));
    assert_eq!(tree.topology().node_of_disk(device(259, 1)), None);
}

#[test]
fn links_are_those_that_are_up_and_none_counts_twice() {
    let tree = Tree::new();
    let up = |nic: &str, speed: &str| {
        tree.file(&format!("sys/class/net/{nic}/operstate"), "up\n");
        tree.file(&format!("sys/class/net/{nic}/speed"), speed);
    };
    for (nic, index) in [("eth0", "2"), ("eth1", "3"), ("eth2", "4"), ("eth3", "5"), ("eth4", "6")]
    {
        tree.nic(nic, index, "0");
    }
    tree.virtual_card("lo", "1", &[]);
    tree.virtual_card("bond0", "7", &["eth1", "eth2"]);
    tree.virtual_card("eth0.7", "8", &["eth0"]);
    tree.file("sys/devices/virtual/net/bond0/bonding/mode", "802.3ad 4\n");
    for (member, index) in [("eth1", "3"), ("eth2", "4")] {
        let device = format!("sys/devices/pci0000:40/0000:40:0{index}.0/virtio{index}");
        tree.link(&format!("{device}/net/{member}/master"), "sys/devices/virtual/net/bond0");
    }
    let speeds = [("eth0", "25000\n"), ("eth1", "10000\n"), ("eth2", "10000\n"), ("eth3", "-1\n")];
    speeds.iter().for_each(|(nic, speed)| up(nic, speed));
    up("bond0", "20000\n");
    up("eth0.7", "25000\n");
    tree.file("sys/class/net/eth4/operstate", "down\n");
    tree.file("sys/class/net/lo/operstate", "unknown\n");
    let links = tree.topology().links().into_iter();
    let seen: Vec<_> = links.map(|link| (link.nic, link.bits_per_second)).collect();
    let gigabits = |speed: u64| Some(speed * 1_000_000_000);
    let expected = [("bond0", gigabits(20)), ("eth0", gigabits(25)), ("eth3", None)];
    assert_eq!(seen, expected.map(|(nic, speed)| (nic.to_owned(), speed)));
}

#[test]
fn cards_have_nodes_and_what_lies_on_cards_has_theirs() {
    let tree = Tree::new();
    tree.nic("eth0", "2", "0");
    tree.nic("eth1", "3", "0");
    tree.nic("eth2", "4", "1");
    tree.nic("eth3", "5", "-1");
    tree.virtual_card("lo", "1", &[]);
    tree.virtual_card("bond0", "6", &["eth0", "eth1"]);
    tree.virtual_card("bond1", "7", &["eth1", "eth2"]);
    tree.virtual_card("bond0.7", "8", &["bond0"]);
    tree.file("sys/class/net/bonding_masters", "bond0 bond1\n");
    let seen: Vec<_> = tree
        .topology()
        .nics()
        .into_iter()
        .map(|NicDevice { name, index, node, is_device }| (name, index, node, is_device))
        .collect();
    let expected = [
        ("bond0", 6, Some(0), true),
        ("bond0.7", 8, Some(0), true),
        ("bond1", 7, None, true),
        ("eth0", 2, Some(0), true),
        ("eth1", 3, Some(0), true),
        ("eth2", 4, Some(1), true),
        ("eth3", 5, None, true),
        ("lo", 1, None, false),
    ];
    let expected = expected.map(|(name, index, node, is)| (name.to_owned(), index, node, is));
    assert_eq!(seen, expected);
}

#[test]
fn interrupts_are_those_of_the_device_above_and_go_where_they_went_last() {
    let tree = Tree::new();
    tree.nic("eth0", "2", "0");
    for number in ["24", "25", "100"] {
        tree.file(&format!("sys/devices/pci0000:40/0000:40:02.0/msi_irqs/{number}"), "msix\n");
        tree.file(&format!("proc/irq/{number}/smp_affinity_list"), "0-7\n");
    }
    tree.file("proc/irq/25/effective_affinity_list", "5\n");
    tree.file("proc/irq/100/effective_affinity_list", "\n");
    let expected = [
        NicInterrupt { number: 24, cpus: (0..8).collect() },
        NicInterrupt { number: 25, cpus: vec![5] },
    ];
    assert_eq!(tree.topology().interrupts("eth0"), expected);
    assert_eq!(tree.topology().interrupts("eth9"), []);
}

#[test]
fn mounts_are_the_one_around_a_folder_and_those_below() {
    let tree = Tree::new();
    tree.file(
        "proc/self/mountinfo",
        "1 0 8:1 / / rw - ext4 /dev/vda1 rw\n\
         2 1 259:0 / /srv rw,noatime shared:1 master:2 - xfs /dev/nvme0n1 rw\n\
         3 2 0:40 /films /srv/films rw - btrfs /dev/nvme1n1 rw\n\
         4 2 259:2 / /srv/films/old\\040ones rw - xfs /dev/nvme2n1 rw\n\
         5 1 0:5 / /srvother rw - tmpfs none rw\n\
         broken\n",
    );
    let points = |folder: &str| {
        let mounts = tree.topology().mounts_of(Path::new(folder));
        let each =
            |Mount { point, source, .. }| format!("{}={}", point.display(), source.display());
        mounts.into_iter().map(each).collect::<Vec<_>>()
    };
    assert_eq!(
        points("/srv/films"),
        ["/srv/films=/dev/nvme1n1", "/srv/films/old ones=/dev/nvme2n1"]
    );
    assert_eq!(points("/srv/live"), ["/srv=/dev/nvme0n1"]);
    assert_eq!(points("/home"), ["/=/dev/vda1"]);
    assert_eq!(points("/srv").len(), 3);
    let own = tree.topology().mounts_of(Path::new("/srv")).remove(0);
    assert_eq!(own.kind, "xfs");
    assert_eq!(own.options, ["rw", "noatime", "rw"]);
}

#[test]
fn this_machine_is_read_without_harm() {
    let topology = Topology::open();
    for (node, _) in topology.nodes() {
        assert_eq!(topology.distance(node, node), Some(10));
    }
    assert!(topology.nics().iter().any(|nic| nic.name == "lo" && !nic.is_device));
    assert!(!topology.mounts_of(Path::new("/")).is_empty());
}
