//! A machine described by its files: two sockets, four NVMe disks, and two cards in a bond, without faults.

use fullbore_doctor::{Diagnosis, Evidence, Finding, NodeRate, TriedFilesystem, examine};
use machine::ethtool::{
    Coalescing, Ethtool, FirmwareVersion, NicFeatures, NicSettings, PauseFrames, QueueCounts,
    RingSizes,
};
use machine::{DiskLogs, LinkQuestion, SocketLinks};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// PCIe devices: their root complex and port, their node, and their kind.
const DISKS: [(&str, &str, &str); 4] = [
    ("pci0000:00/0000:00:01.0", "0000:01:00.0", "0"),
    ("pci0000:00/0000:00:02.0", "0000:02:00.0", "0"),
    ("pci0000:80/0000:80:01.0", "0000:81:00.0", "1"),
    ("pci0000:80/0000:80:02.0", "0000:82:00.0", "1"),
];
const CARDS: [(&str, &str, &str); 2] = [
    ("pci0000:00/0000:00:03.0", "0000:03:00.0", "0"),
    ("pci0000:80/0000:80:03.0", "0000:83:00.0", "1"),
];

/// A device's capabilities: 512 bytes, extended tags. Its settings: relaxed ordering, 512 bytes, extended tags, reads of 4096.
const CAPABLE: u32 = 0x22;
pub(crate) const SET: u16 = 0x5150;

#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    symlinks: BTreeMap<String, String>,
    /// The settings of each card; none if the kernel cannot be queried.
    pub(crate) cards: Option<BTreeMap<String, NicSettings>>,
    /// The health log of each disk.
    pub(crate) logs: BTreeMap<String, Vec<u8>>,
    /// The rates at which nodes copy each other's memory.
    pub(crate) rates: Vec<NodeRate>,
    pub(crate) ring_refused: Option<String>,
    pub(crate) refused: Vec<Finding>,
    pub(crate) library: Vec<PathBuf>,
    /// The answers of each socket; a query without one is refused.
    pub(crate) links: BTreeMap<(u16, LinkQuestion), [u32; 2]>,
    pub(crate) filesystems: Vec<TriedFilesystem>,
}

impl Sample {
    pub(crate) fn healthy() -> Self {
        let mut sample = Self::empty();
        sample.cards = Some(BTreeMap::new());
        sample.library = vec!["/srv/films".into()];
        sample.filesystems = vec![TriedFilesystem {
            film: "/srv/films/one.mp4".into(),
            block_bytes: Some(4096),
            read_once_refused: None,
        }];
        for socket in 0..2 {
            sample.links.insert((socket, LinkQuestion::Clocks), [1600, 2400]);
            sample.links.insert((socket, LinkQuestion::Widths), [0x0202, 0]);
        }
        sample.processor();
        sample.memory();
        sample.kernel();
        for (index, (port, address, node)) in DISKS.into_iter().enumerate() {
            sample.disk(index, port, address, node);
        }
        for (index, (port, address, node)) in CARDS.into_iter().enumerate() {
            sample.card(index, port, address, node);
        }
        sample.bond();
        sample
    }

    pub(crate) fn empty() -> Self {
        Self {
            files: BTreeMap::new(),
            symlinks: BTreeMap::new(),
            cards: None,
            logs: BTreeMap::new(),
            rates: Vec::new(),
            ring_refused: None,
            refused: Vec::new(),
            library: Vec::new(),
            links: BTreeMap::new(),
            filesystems: Vec::new(),
        }
    }

    pub(crate) fn set(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned(), text.as_bytes().to_vec());
    }

    /// Changes an existing file.
    pub(crate) fn change(&mut self, path: &str, text: &str) {
        assert!(self.files.contains_key(path), "{path} is not in the sample");
        self.set(path, text);
    }

    pub(crate) fn remove(&mut self, path: &str) {
        assert!(self.files.remove(path).is_some(), "{path} is not in the sample");
    }

    /// Changes the settings of the first card.
    pub(crate) fn card_is(&mut self, change: impl FnOnce(&mut NicSettings)) {
        change(self.cards.as_mut().unwrap().get_mut("eth0").unwrap());
    }

    /// Switches a feature of the first card.
    pub(crate) fn feature_is(&mut self, name: &str, is_on: bool) {
        self.card_is(|card| {
            let on = &mut card.features.as_mut().unwrap().on;
            on.remove(name);
            on.extend(is_on.then(|| name.to_owned()));
        });
    }

    /// Plugs a device into another port.
    pub(crate) fn move_device(&mut self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|path| format!("sys/devices/{path}"));
        let moved = |path: &String| path.replace(&from, &to);
        self.files = self.files.iter().map(|(path, text)| (moved(path), text.clone())).collect();
        let links = self.symlinks.iter().map(|(path, to)| (moved(path), moved(to)));
        self.symlinks = links.collect();
    }

    /// The registers of a device.
    pub(crate) fn registers(&mut self, address: &str, capability: u32, control: u16) {
        let mut config = vec![0; 256];
        config[0x06] = 0x10;
        config[0x34] = 0x40;
        config[0x40] = 0x10;
        config[0x44..0x48].copy_from_slice(&capability.to_le_bytes());
        config[0x48..0x4a].copy_from_slice(&control.to_le_bytes());
        let folder = self.symlinks[&format!("sys/bus/pci/devices/{address}")].clone();
        self.files.insert(format!("{folder}/config"), config);
    }

    /// Sets a device's support for atomic operations: its second capabilities, and their settings.
    pub(crate) fn atomics(&mut self, address: &str, capability: u16, control: u8) {
        let config = self.of_device(address, "config");
        let config = self.files.get_mut(&config).unwrap();
        config[0x42] = 2;
        config[0x64..0x66].copy_from_slice(&capability.to_le_bytes());
        config[0x68] = control;
    }

    /// Sets the answer of all sockets to a query.
    pub(crate) fn links_are(&mut self, question: LinkQuestion, answer: [u32; 2]) {
        self.links.extend((0..2).map(|socket| ((socket, question), answer)));
    }

    /// The path of a file of a PCIe device.
    pub(crate) fn of_device(&self, address: &str, name: &str) -> String {
        format!("{}/{name}", self.symlinks[&format!("sys/bus/pci/devices/{address}")])
    }

    /// The path of a file of an interface.
    pub(crate) fn of_card(&self, card: &str, name: &str) -> String {
        format!("{}/{name}", self.symlinks[&format!("sys/class/net/{card}")])
    }

    /// The path of a file of a disk.
    pub(crate) fn of_disk(&self, disk: &str, name: &str) -> String {
        format!("{}/{name}", self.symlinks[&format!("sys/block/{disk}")])
    }

    pub(crate) fn examine(&self) -> Diagnosis {
        let root = self.written();
        self.examine_at(root.path())
    }

    pub(crate) fn examine_at(&self, root: &Path) -> Diagnosis {
        examine(Evidence {
            root,
            ethtool: self,
            disk_logs: self,
            socket_links: self,
            node_rates: &self.rates,
            library: &self.library,
            filesystems: &self.filesystems,
            ring_refused: self.ring_refused.clone(),
            refused: self.refused.clone(),
        })
    }

    pub(crate) fn written(&self) -> TempDir {
        // In memory, where making hundreds of small files takes no time.
        let root = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        for (path, text) in &self.files {
            fs::write(made(root.path(), path), text).unwrap();
        }
        for (path, to) in &self.symlinks {
            let ups = "../".repeat(path.matches('/').count());
            symlink(format!("{ups}{to}"), made(root.path(), path)).unwrap();
        }
        root
    }

    pub(crate) fn link(&mut self, path: &str, to: &str) {
        self.symlinks.insert(path.to_owned(), to.to_owned());
    }

    fn processor(&mut self) {
        let flags = "fpu aes vaes vpclmulqdq avx512f avx512bw avx512vl";
        self.set("proc/cpuinfo", &format!("processor\t: 0\ncpu family\t: 26\nmodel\t\t: 80\nmodel name\t: A processor\nflags\t\t: {flags}\n"));
        self.set(
            "proc/thread-self/status",
            "Name:\tx\nCpus_allowed_list:\t0-7\nCapEff:\t0000000000000000\n",
        );
        let cpus = "sys/devices/system/cpu";
        self.set(&format!("{cpus}/present"), "0-7\n");
        self.set(&format!("{cpus}/online"), "0-7\n");
        self.set(&format!("{cpus}/smt/control"), "on\n");
        for cpu in 0..8 {
            let socket = if cpu < 4 { "0\n" } else { "1\n" };
            self.set(&format!("{cpus}/cpu{cpu}/topology/physical_package_id"), socket);
        }
        for cpu in 0..2 {
            let mut file =
                |name: &str, text| self.set(&format!("{cpus}/cpu{cpu}/cpufreq/{name}"), text);
            file("scaling_governor", "performance\n");
            file("scaling_driver", "acpi-cpufreq\n");
            file("cpuinfo_max_freq", "3500000\n");
            file("scaling_max_freq", "3500000\n");
            file("cpuinfo_min_freq", "1500000\n");
        }
        for (state, name, latency) in [(0, "POLL", "0\n"), (1, "C1", "1\n"), (2, "C2", "18\n")] {
            let mut file = |name: &str, text| {
                self.set(&format!("{cpus}/cpu0/cpuidle/state{state}/{name}"), text)
            };
            file("name", name);
            file("latency", latency);
            file("disable", "0\n");
        }
        self.set(&format!("{cpus}/vulnerabilities/meltdown"), "Not affected\n");
        let spectre = "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; RSB filling\n";
        self.set(&format!("{cpus}/vulnerabilities/spectre_v2"), spectre);
        self.set("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    }

    fn memory(&mut self) {
        let nodes = "sys/devices/system/node";
        self.set(&format!("{nodes}/online"), "0-1\n");
        for (node, cpus) in [(0, "0-3\n"), (1, "4-7\n")] {
            self.set(&format!("{nodes}/node{node}/cpulist"), cpus);
            let text =
                format!("Node {node} MemTotal:       131845612 kB\nNode {node} MemFree: 7 kB\n");
            self.set(&format!("{nodes}/node{node}/meminfo"), &text);
            let distance = if node == 0 { "10 32\n" } else { "32 10\n" };
            self.set(&format!("{nodes}/node{node}/distance"), distance);
        }
        self.rates = [(0, 0, 150.0), (0, 1, 60.0), (1, 0, 62.0), (1, 1, 148.0)]
            .map(|(cpus, memory, gbytes_per_second)| NodeRate { cpus, memory, gbytes_per_second })
            .into();
        self.set("proc/meminfo", "MemTotal:       263691224 kB\n");
        self.set("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        self.set("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        self.set("proc/sys/vm/zone_reclaim_mode", "1\n");
        self.set("proc/sys/kernel/numa_balancing", "0\n");
        self.modules(&[
            ("P0 CHANNEL A", 32, 4800),
            ("P0 CHANNEL B", 32, 4800),
            ("P1 CHANNEL A", 32, 4800),
            ("P1 CHANNEL B", 32, 4800),
        ]);
    }

    /// Memory modules: channel, GiB, and the current speed. Each is for 4800 MT/s.
    pub(crate) fn modules(&mut self, modules: &[(&str, u16, u16)]) {
        let mut table = Vec::new();
        for (channel, gib, set_mt) in modules {
            let mut device = vec![0; 0x28];
            (device[0], device[1]) = (17, 0x28);
            device[0x0c..0x0e].copy_from_slice(&(gib * 1000).to_le_bytes());
            (device[0x10], device[0x11]) = (1, 2);
            device[0x15..0x17].copy_from_slice(&4800_u16.to_le_bytes());
            device[0x20..0x22].copy_from_slice(&set_mt.to_le_bytes());
            table.extend(device);
            table.extend(format!("DIMM 0\0{channel}\0\0").as_bytes());
        }
        // The end of the table.
        table.extend([127, 4, 0, 0, 0, 0]);
        self.files.insert("sys/firmware/dmi/tables/DMI".into(), table);
    }

    fn kernel(&mut self) {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max locked memory         unlimited            unlimited            bytes     \n\
                      Max open files            1024                 1048576              files     \n";
        self.set("proc/self/limits", limits);
        self.set("proc/self/cgroup", "0::/\n");
        self.set("sys/class/bdi/259:0/read_ahead_kb", "128\n");
        self.set("proc/self/mountinfo", "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n2 1 259:0 / /srv/films rw,noatime - xfs /dev/nvme0n1 rw\n");
        self.set("proc/net/tls_stat", "TlsCurrTxSw 0\n");
        for (name, text) in [
            ("kernel/osrelease", "6.18.1-1-amd64\n"),
            ("kernel/io_uring_disabled", "0\n"),
            ("net/ipv4/tcp_congestion_control", "bbr\n"),
            ("net/core/default_qdisc", "fq\n"),
            ("net/core/somaxconn", "4096\n"),
            ("net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
            ("net/ipv4/tcp_mem", "3000000\t4000000\t6000000\n"),
            ("fs/leases-enable", "1\n"),
            ("fs/lease-break-time", "45\n"),
        ] {
            self.set(&format!("proc/sys/{name}"), text);
        }
    }

    /// A device of this kind, and the port that it is plugged into. Returns its folder.
    fn device(
        &mut self,
        port: &str,
        address: &str,
        class: &str,
        lanes: &str,
        node: &str,
    ) -> String {
        let (root_port, above) = (port.split('/').nth(1).unwrap(), format!("sys/devices/{port}"));
        let folder = format!("{above}/{address}");
        for (name, folder, class) in [(root_port, &above, "0x060400\n"), (address, &folder, class)]
        {
            self.link(&format!("sys/bus/pci/devices/{name}"), folder);
            self.set(&format!("{folder}/class"), class);
            self.set(&format!("{folder}/numa_node"), node);
            for which in ["current", "max"] {
                self.set(&format!("{folder}/{which}_link_speed"), "16.0 GT/s PCIe\n");
                self.set(&format!("{folder}/{which}_link_width"), lanes);
            }
            self.registers(name, CAPABLE, SET);
        }
        self.set(&format!("{folder}/iommu_group/type"), "DMA-FQ\n");
        folder
    }

    /// Changes a byte in the health log of the first disk.
    pub(crate) fn log_says(&mut self, at: usize, byte: u8) {
        self.logs.get_mut("nvme0").unwrap()[at] = byte;
    }

    /// An NVMe disk.
    pub(crate) fn disk(&mut self, index: usize, port: &str, address: &str, node: &str) {
        let folder = self.device(port, address, "0x010802\n", "4\n", node);
        let controller = format!("{folder}/nvme/nvme{index}");
        self.link(&format!("sys/class/nvme/nvme{index}"), &controller);
        self.link(&format!("{controller}/device"), &folder);
        self.set(&format!("{controller}/model"), "A DISK 3.84TB    \n");
        self.set(&format!("{controller}/firmware_rev"), "GDC5602Q\n");
        self.set(&format!("{controller}/hwmon{index}/temp1_input"), "41850\n");
        self.set(&format!("{controller}/hwmon{index}/temp1_max"), "81850\n");
        // No warning, 300 K, 100% of the spare blocks, warns from 10% on, 3% used.
        let log = [&[0, 0x2c, 0x01, 100, 10, 3], &[0; 506][..]].concat();
        self.logs.insert(format!("nvme{index}"), log);
        let disk = format!("{controller}/nvme{index}n1");
        self.link(&format!("sys/block/nvme{index}n1"), &disk);
        self.set(&format!("{disk}/queue/scheduler"), "[none] mq-deadline kyber\n");
        self.set(&format!("{disk}/queue/logical_block_size"), "4096\n");
        self.set(&format!("{disk}/queue/physical_block_size"), "4096\n");
        for queue in 0..8 {
            self.set(&format!("{disk}/mq/{queue}/cpu_list"), "0\n");
        }
    }

    fn card(&mut self, index: usize, port: &str, address: &str, node: &str) {
        let device = self.device(port, address, "0x020000\n", "16\n", node);
        let (card, folder) = (format!("eth{index}"), format!("{device}/net/eth{index}"));
        self.link(&format!("sys/class/net/{card}"), &folder);
        self.link(&format!("{folder}/device"), &device);
        self.link(&format!("{device}/driver"), "sys/bus/pci/drivers/mlx5_core");
        self.set("sys/bus/pci/drivers/mlx5_core/uevent", "\n");
        self.link(&format!("{folder}/master"), "sys/devices/virtual/net/bond0");
        for (name, text) in [("ifindex", index + 2), ("mtu", 1500), ("speed", 100_000)] {
            self.set(&format!("{folder}/{name}"), &format!("{text}\n"));
        }
        self.set(&format!("{folder}/operstate"), "up\n");
        for queue in 0..4 {
            let cpu = 4 * index + queue;
            self.set(
                &format!("{folder}/queues/tx-{queue}/xps_cpus"),
                &format!("{:02x}\n", 1 << cpu),
            );
            self.set(&format!("{device}/msi_irqs/{}", 40 + cpu), "msix\n");
            self.set(&format!("proc/irq/{}/smp_affinity_list", 40 + cpu), &format!("{cpu}\n"));
        }
        self.cards.as_mut().unwrap().insert(card, settings());
    }

    fn bond(&mut self) {
        let folder = "sys/devices/virtual/net/bond0";
        self.link("sys/class/net/bond0", folder);
        for (name, text) in [
            ("ifindex", "9\n"),
            ("operstate", "up\n"),
            ("speed", "200000\n"),
            ("bonding/mode", "802.3ad 4\n"),
            ("bonding/xmit_hash_policy", "layer3+4 1\n"),
            ("bonding/slaves", "eth0 eth1\n"),
        ] {
            self.set(&format!("{folder}/{name}"), text);
        }
    }
}

fn made(root: &Path, path: &str) -> PathBuf {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn settings() -> NicSettings {
    let names = ["tx-tcp-segmentation", "tx-scatter-gather", "rx-gro"];
    let names: BTreeSet<_> = names.map(str::to_owned).into();
    NicSettings {
        rings: Some(RingSizes { receive: 1024, receive_max: 8192, send: 1024, send_max: 8192 }),
        channels: Some(QueueCounts { receive: 4, receive_max: 8 }),
        features: Some(NicFeatures { switchable: names.clone(), on: names }),
        coalescing: Some(Coalescing { receive_us: 8, is_adaptive: true }),
        pause: Some(PauseFrames::default()),
        spread: Some((0..128).map(|entry| entry % 4).collect()),
        firmware: Some(vec![FirmwareVersion {
            name: "fw".into(),
            running: "26.38.1002".into(),
            stored: Some("26.38.1002".into()),
        }]),
        queueing: Some(vec!["fq".into(); 4]),
    }
}

impl Ethtool for Sample {
    fn settings(&self, card: &str) -> io::Result<NicSettings> {
        let cards = self.cards.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(cards.get(card).cloned().unwrap_or_default())
    }
}

impl SocketLinks for Sample {
    fn ask(&self, socket: u16, question: LinkQuestion) -> io::Result<[u32; 2]> {
        self.links.get(&(socket, question)).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl DiskLogs for Sample {
    fn health(&self, controller: &str) -> io::Result<Vec<u8>> {
        self.logs.get(controller).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
