//! Each fault, with the change that causes it in the healthy sample.

use crate::sample::{SET, Sample};
use fullbore_doctor::{Area, Cost, Finding, Worth};
use machine::LinkQuestion;
use machine::ethtool::FirmwareVersion;

type Fault = (&'static str, fn(&mut Sample));

const FAULTS: &[Fault] = &[
    // PCIe
    ("relaxed-ordering", |s| s.registers("0000:03:00.0", 0x22, SET & !0x10)),
    ("extended-tags", |s| s.registers("0000:01:00.0", 0x22, SET & !0x100)),
    ("max-payload", |s| s.registers("0000:01:00.0", 0x22, SET & !0xe0)),
    ("max-read-request", |s| s.registers("0000:83:00.0", 0x22, SET & !0x7000)),
    ("atomics", |s| s.atomics("0000:03:00.0", 0, 0x40)),
    ("atomics", |s| {
        // A root port that carries them out, and a switch on the way that stops them.
        let port = "pci0000:80/0000:80:03.0";
        s.move_device(
            &format!("{port}/0000:83:00.0"),
            &format!("{port}/0000:80:02.0/0000:83:00.0"),
        );
        s.atomics("0000:80:03.0", 0x80, 0);
        s.atomics("0000:80:02.0", 0x40, 0x80);
        s.atomics("0000:83:00.0", 0, 0x40);
    }),
    ("iommu-strict", |s| s.change(&s.of_device("0000:03:00.0", "iommu_group/type"), "DMA\n")),
    ("disk-link", |s| s.change(&s.of_device("0000:01:00.0", "current_link_width"), "2\n")),
    ("disk-link", |s| {
        s.change(&s.of_device("0000:81:00.0", "current_link_speed"), "8.0 GT/s PCIe\n")
    }),
    ("card-link", |s| s.change(&s.of_device("0000:03:00.0", "current_link_width"), "8\n")),
    ("disks-share-port", |s| {
        s.move_device(
            "pci0000:00/0000:00:02.0/0000:02:00.0",
            "pci0000:00/0000:00:01.0/0000:02:00.0",
        )
    }),
    ("cards-share-port", |s| {
        s.move_device(
            "pci0000:80/0000:80:03.0/0000:83:00.0",
            "pci0000:00/0000:00:03.0/0000:83:00.0",
        )
    }),
    ("root-complexes", |s| {
        s.disk(4, "pci0000:00/0000:00:04.0", "0000:04:00.0", "0");
        s.disk(5, "pci0000:00/0000:00:05.0", "0000:05:00.0", "0");
        // The node's other root complex has only a card.
        s.move_device("pci0000:00/0000:00:03.0", "pci0000:40/0000:00:03.0");
    }),
    ("node-links", |s| (s.rates[1].gbytes_per_second, s.rates[2].gbytes_per_second) = (30.0, 32.0)),
    ("socket-link-width", |s| s.links_are(LinkQuestion::Widths, [0x0101, 0])),
    ("socket-link-width-changes", |s| s.links_are(LinkQuestion::Widths, [0x0002, 0])),
    ("fabric-clock", |s| s.links_are(LinkQuestion::Clocks, [800, 2400])),
    ("uneven-node-links", |s| s.rates[2].gbytes_per_second = 140.0),
    ("device-node", |s| s.change(&s.of_device("0000:03:00.0", "numa_node"), "-1\n")),
    ("uneven-disks", |s| {
        for disk in ["0000:81:00.0", "0000:82:00.0"] {
            s.change(&s.of_device(disk, "numa_node"), "0\n");
        }
    }),
    ("cards-on-some-nodes", |s| {
        s.change(&s.of_device("0000:83:00.0", "numa_node"), "0\n");
        (44..48).for_each(|irq| s.change(&format!("proc/irq/{irq}/smp_affinity_list"), "2\n"));
    }),
    // NVMe
    ("scheduler", |s| {
        s.change(&s.of_disk("nvme0n1", "queue/scheduler"), "none [mq-deadline] kyber\n")
    }),
    ("queues", |s| {
        (1..8).for_each(|queue| s.remove(&s.of_disk("nvme1n1", &format!("mq/{queue}/cpu_list"))))
    }),
    ("block-size", |s| s.change(&s.of_disk("nvme0n1", "queue/logical_block_size"), "512\n")),
    ("temperature", |s| {
        s.change(
            &s.of_disk("nvme0n1", "../hwmon0/temp1_input").replace("nvme0n1/../", ""),
            "82850\n",
        )
    }),
    ("wear", |s| s.log_says(5, 97)),
    ("disk-warning", |s| s.log_says(0, 0b100)),
    // The filesystem
    ("filesystem", |s| {
        s.change("proc/self/mountinfo", "1 0 0:40 / / rw,relatime - overlay overlay rw\n")
    }),
    ("data-journal", |s| {
        s.change(
            "proc/self/mountinfo",
            "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw,data=journal\n",
        )
    }),
    ("strictatime", |s| {
        s.change("proc/self/mountinfo", "1 0 8:1 / / rw,strictatime - ext4 /dev/sda1 rw\n")
    }),
    ("filesystem-blocks", |s| s.filesystems[0].block_bytes = Some(1024)),
    ("reads-once", |s| s.filesystems[0].read_once_refused = Some(95)),
    ("reads-once", |s| s.filesystems[0].read_once_refused = Some(22)),
    ("small-folios", |s| {
        s.change("proc/sys/kernel/osrelease", "6.12.1-1-amd64\n");
        s.change("proc/self/mountinfo", "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n");
    }),
    ("read-ahead", |s| s.change("sys/class/bdi/259:0/read_ahead_kb", "8192\n")),
    ("read-ahead", |s| {
        // A library on a partition.
        s.change("proc/self/mountinfo", "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n");
        s.set("sys/devices/sda/sda1/partition", "1\n");
        s.set("sys/devices/sda/queue/read_ahead_kb", "16384\n");
        s.link("sys/dev/block/8:1", "sys/devices/sda/sda1");
    }),
    // Cards
    ("tso", |s| s.feature_is("tx-tcp-segmentation", false)),
    ("scatter-gather", |s| s.feature_is("tx-scatter-gather", false)),
    ("gro", |s| s.feature_is("rx-gro", false)),
    ("tls-offload-in-bond", |s| s.feature_is("tls-hw-tx-offload", true)),
    ("rings", |s| s.card_is(|card| card.rings.as_mut().unwrap().receive = 256)),
    ("coalescing", |s| {
        s.card_is(|card| {
            let coalescing = card.coalescing.as_mut().unwrap();
            (coalescing.receive_us, coalescing.is_adaptive) = (0, false);
        });
    }),
    ("pause", |s| s.card_is(|card| card.pause.as_mut().unwrap().heeds = true)),
    ("firmware", |s| {
        s.card_is(|card| card.firmware.as_mut().unwrap()[0].stored = Some("26.40.1000".into()))
    }),
    ("firmware", |s| {
        // mlx5 has two names for it.
        s.card_is(|card| {
            let firmware = card.firmware.as_mut().unwrap();
            firmware[0].stored = Some("26.40.1000".into());
            firmware
                .insert(0, FirmwareVersion { name: "fw.version".into(), ..firmware[0].clone() });
        })
    }),
    ("queueing", |s| s.card_is(|card| card.queueing = Some(vec!["pfifo_fast".into()]))),
    ("queueing", |s| s.card_is(|card| card.queueing.as_mut().unwrap()[3] = "fq_codel".into())),
    ("mtu", |s| s.change(&s.of_card("eth0", "mtu"), "1280\n")),
    ("channels", |s| {
        s.card_is(|card| {
            card.channels.as_mut().unwrap().receive = 1;
            card.spread = Some(vec![0; 128]);
        });
    }),
    ("rss", |s| s.card_is(|card| card.spread = Some((0..128).map(|entry| entry % 2).collect()))),
    ("interrupts-elsewhere", |s| {
        (40..44).for_each(|irq| s.change(&format!("proc/irq/{irq}/smp_affinity_list"), "4-7\n"))
    }),
    ("xps", |s| {
        (0..4).for_each(|queue| {
            s.change(&s.of_card("eth0", &format!("queues/tx-{queue}/xps_cpus")), "00\n")
        })
    }),
    ("bond-mode", |s| s.change(&s.of_card("bond0", "bonding/mode"), "active-backup 1\n")),
    ("bond-mode", |s| s.change(&s.of_card("bond0", "bonding/mode"), "balance-rr 0\n")),
    ("bond-hash", |s| s.change(&s.of_card("bond0", "bonding/xmit_hash_policy"), "layer2 0\n")),
    ("bond-hash", |s| s.change(&s.of_card("bond0", "bonding/xmit_hash_policy"), "layer2+3 2\n")),
    ("bond-member-down", |s| s.change(&s.of_card("eth1", "operstate"), "down\n")),
    // Processors
    ("aes", |s| {
        s.change("proc/cpuinfo", "processor\t: 0\nmodel name\t: A processor\nflags\t\t: fpu\n")
    }),
    ("vector-aes", |s| {
        s.change("proc/cpuinfo", "processor\t: 0\nmodel name\t: A processor\nflags\t\t: fpu aes avx512f avx512bw avx512vl\n")
    }),
    ("offline", |s| s.change("sys/devices/system/cpu/present", "0-15\n")),
    ("cpus-allowed", |s| {
        s.change("proc/thread-self/status", "Cpus_allowed_list:\t0-3\nCapEff:\t0000000000000000\n")
    }),
    ("cpu-quota", |s| s.set("sys/fs/cgroup/cpu.max", "400000 100000\n")),
    ("smt", |s| s.change("sys/devices/system/cpu/smt/control", "off\n")),
    ("governor", |s| {
        s.change("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    }),
    ("governor", |s| {
        s.change("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "ondemand\n")
    }),
    ("clock-limit", |s| {
        s.change("sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "2000000\n")
    }),
    ("deep-sleep", |s| s.change("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "890\n")),
    ("clock", |s| {
        s.change("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
    }),
    ("mitigation", |s| {
        s.change("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n")
    }),
    // Memory
    ("large-pages", |s| {
        s.change("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    }),
    ("pressure", |s| s.remove("proc/pressure/memory")),
    ("memory-limit", |s| s.set("sys/fs/cgroup/memory.max", "8589934592\n")),
    ("uneven-memory", |s| {
        s.change("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:   32000000 kB\n")
    }),
    ("zone-reclaim", |s| s.change("proc/sys/vm/zone_reclaim_mode", "0\n")),
    ("numa-balancing", |s| s.change("proc/sys/kernel/numa_balancing", "1\n")),
    ("memory-speed", |s| s.modules(&[("P0 CHANNEL A", 32, 4000), ("P1 CHANNEL A", 32, 4000)])),
    ("memory-channels", |s| s.modules(&[("P0 CHANNEL A", 32, 4800), ("P0 CHANNEL B", 0, 4800)])),
    // The kernel
    ("version", |s| s.change("proc/sys/kernel/osrelease", "5.10.0-1-amd64\n")),
    ("io-uring", |s| s.change("proc/sys/kernel/io_uring_disabled", "2\n")),
    ("io-uring", |s| s.ring_refused = Some("Operation not permitted".into())),
    ("tls", |s| s.remove("proc/net/tls_stat")),
    ("congestion-control", |s| s.change("proc/sys/net/ipv4/tcp_congestion_control", "reno\n")),
    ("fq", |s| s.change("proc/sys/net/core/default_qdisc", "pfifo_fast\n")),
    ("somaxconn", |s| s.change("proc/sys/net/core/somaxconn", "128\n")),
    ("tcp-wmem", |s| s.change("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t212992\n")),
    ("tcp-mem", |s| s.change("proc/sys/net/ipv4/tcp_mem", "3000\t4000\t6000\n")),
    ("leases", |s| s.change("proc/sys/fs/leases-enable", "0\n")),
    ("lease-break-time", |s| s.change("proc/sys/fs/lease-break-time", "1\n")),
    // Rights
    ("nofile", |s| limits(s, "Max open files", "1024 4096 files")),
    ("memlock", |s| limits(s, "Max locked memory", "8388608 8388608 bytes")),
    ("read-leases", |s| s.refused.push(refused())),
];

fn limits(sample: &mut Sample, name: &str, text: &str) {
    let path = "proc/self/limits";
    let old = String::from_utf8(sample.files[path].clone()).unwrap();
    let line = |line: &str| match line.starts_with(name) {
        true => format!("{name} {text}\n"),
        false => format!("{line}\n"),
    };
    sample.change(path, &old.lines().map(line).collect::<String>());
}

fn refused() -> Finding {
    Finding {
        area: Area::Rights,
        name: "read-leases",
        on: Vec::new(),
        found: "no".into(),
        wanted: "yes".into(),
        cost: Cost::percent(60.0, "much", "a note"),
        mend: "be the owner".into(),
        check: "look".into(),
    }
}

fn names(sample: &Sample) -> Vec<&'static str> {
    sample.examine().findings.iter().map(|finding| finding.name).collect()
}

fn only(change: fn(&mut Sample)) -> Finding {
    let mut sample = Sample::healthy();
    change(&mut sample);
    let mut findings = sample.examine().findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

fn percent(finding: &Finding) -> f64 {
    match finding.cost.worth {
        Worth::Percent(percent) => percent,
        worth => panic!("{worth:?}"),
    }
}

#[test]
fn a_healthy_machine_has_no_fault_and_tells_everything() {
    let diagnosis = Sample::healthy().examine();
    assert_eq!(diagnosis.findings, []);
    assert_eq!(diagnosis.unread, []);
    assert!(!diagnosis.is_large());
    assert!(diagnosis.describe().contains("Nothing to change"), "{}", diagnosis.describe());
}

#[test]
fn each_fault_is_found_alone_and_says_what_it_may_cost_and_what_to_do() {
    for (name, change) in FAULTS {
        let finding = only(*change);
        assert_eq!(finding.name, *name);
        let texts =
            [&finding.found, &finding.wanted, &finding.mend, &finding.check, &finding.cost.what];
        assert!(texts.iter().all(|text| !text.is_empty()), "{name}: {finding:?}");
        assert_ne!(finding.found, finding.wanted);
        match finding.cost.worth {
            Worth::Percent(percent) => {
                assert!((0.0..=100.0).contains(&percent), "{name}: {percent}");
                assert_ne!(finding.cost.source, "", "{name}: a figure has a source");
            }
            Worth::Safety => assert_eq!(*name, "tls-offload-in-bond"),
            Worth::Unmeasured => {}
        }
    }
}

#[test]
fn half_of_the_vector_instructions_have_no_measured_worth() {
    let flags = |s: &mut Sample, flags: &str| {
        let text = format!("processor\t: 0\nmodel name\t: A processor\nflags\t\t: {flags}\n");
        s.change("proc/cpuinfo", &text);
    };
    let mut sample = Sample::healthy();
    flags(&mut sample, "fpu aes vaes vpclmulqdq");
    assert_eq!(sample.examine().findings[0].cost.worth, Worth::Unmeasured);
    flags(&mut sample, "fpu aes");
    assert_eq!(sample.examine().findings[0].cost.worth, Worth::Percent(42.0));
    flags(&mut sample, "fpu aes vaes avx512f avx512bw avx512vl");
    assert_eq!(sample.examine().findings[0].name, "vector-aes", "VPCLMULQDQ is missing");
}

#[test]
fn costs_by_arithmetic_are_those_of_what_was_found() {
    let near = |change: fn(&mut Sample), expected: f64| {
        let percent = percent(&only(change));
        assert!((percent - expected).abs() < 0.5, "{percent} is not {expected}");
    };
    // 128 of 152 bytes instead of 512 of 536.
    near(|s| s.registers("0000:01:00.0", 0x22, SET & !0xe0), 11.8);
    near(|s| s.set("sys/fs/cgroup/cpu.max", "400000 100000\n"), 50.0);
    near(|s| s.change("sys/devices/system/cpu/present", "0-15\n"), 50.0);
    near(|s| s.change("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"), 57.1);
    near(|s| s.change(&s.of_card("eth1", "operstate"), "down\n"), 50.0);
    near(|s| s.modules(&[("P0 CHANNEL A", 32, 4000), ("P1 CHANNEL A", 32, 4000)]), 16.7);
    // Three disks of 63 Gb/s are left to a network of 200.
    near(
        |s| {
            s.move_device(
                "pci0000:00/0000:00:02.0/0000:02:00.0",
                "pci0000:00/0000:00:01.0/0000:02:00.0",
            )
        },
        5.5,
    );
}

#[test]
fn disks_with_slow_links_cost_nothing_while_the_network_is_slower() {
    let one = only(|s| s.change(&s.of_device("0000:01:00.0", "current_link_width"), "2\n"));
    assert_eq!(one.cost.worth, Worth::Unmeasured);
    assert!(one.cost.what.contains("the network has 200"), "{one:?}");
    let all = only(|s| {
        for disk in ["0000:01:00.0", "0000:02:00.0", "0000:81:00.0", "0000:82:00.0"] {
            s.change(&s.of_device(disk, "current_link_width"), "2\n");
        }
    });
    assert_eq!(all.on.len(), 4, "one fault of four disks");
    assert!((percent(&all) - 37.0).abs() < 0.5, "{all:?}");
}

#[test]
fn the_most_costly_comes_first_and_decides_the_exit_code() {
    let mut sample = Sample::healthy();
    sample.change("proc/sys/net/core/somaxconn", "128\n");
    sample.feature_is("rx-gro", false);
    assert!(!sample.examine().is_large(), "7% and unmeasured costs");
    sample.change("proc/sys/kernel/io_uring_disabled", "2\n");
    sample.feature_is("tls-hw-tx-offload", true);
    sample.registers("0000:03:00.0", 0x22, SET & !0x10);
    let expected = ["tls-offload-in-bond", "io-uring", "relaxed-ordering", "gro", "somaxconn"];
    assert_eq!(names(&sample), expected);
    let diagnosis = sample.examine();
    assert!(diagnosis.is_large());
    let json = diagnosis.to_json();
    assert_eq!(json["costs_more_than_10_percent"], true);
    let row = |index: usize| &json["findings"][index]["cost"];
    assert_eq!((&row(0)["safety"], &row(0)["percent"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(row(2)["percent"], 22.0);
    let text = diagnosis.describe();
    let places: Vec<_> =
        expected.iter().map(|name| text.find(&format!(" {name}")).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn the_same_fault_of_several_devices_is_one() {
    let both = only(|s| {
        for card in ["0000:03:00.0", "0000:83:00.0"] {
            s.registers(card, 0x22, SET & !0x10);
        }
    });
    assert_eq!(both.on, ["0000:03:00.0", "0000:83:00.0"]);
}

#[test]
fn disks_and_cards_are_told_with_their_node_and_firmware() {
    let diagnosis = Sample::healthy().examine();
    let text = diagnosis.describe();
    for line in [
        "disk      nvme2: A DISK 3.84TB, firmware GDC5602Q, node 1, IOMMU DMA-FQ, 3% worn\n",
        "card      eth0: mlx5_core, firmware 26.38.1002, node 0, IOMMU DMA-FQ\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(diagnosis.machine.contains(", sockets: 2, nodes: 2;"), "{}", diagnosis.machine);
    let mut one = Sample::healthy();
    (4..8).for_each(|cpu| {
        one.change(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), "0\n");
    });
    let machine = one.examine().machine;
    assert!(machine.contains("sockets: 1, nodes: 2 (2 in each socket);"), "{machine}");
    let json = diagnosis.to_json();
    assert_eq!(json["devices"].as_array().map(Vec::len), Some(6));
    assert_eq!(json["devices"][4]["firmware"], "26.38.1002");
    let mut sample = Sample::healthy();
    sample.card_is(|card| {
        let can = &mut card.features.as_mut().unwrap().switchable;
        can.insert("tls-hw-tx-offload".into());
    });
    let text = sample.examine().describe();
    assert!(text.contains("IOMMU DMA-FQ, TLS offload off\n"), "{text}");
}

#[test]
fn atomic_operations_that_reach_memory_are_no_fault_and_are_told() {
    let mut sample = Sample::healthy();
    sample.atomics("0000:03:00.0", 0, 0x40);
    sample.atomics("0000:00:03.0", 0x100, 0);
    let diagnosis = sample.examine();
    assert_eq!(diagnosis.findings, []);
    let text = diagnosis.describe();
    assert!(
        text.contains(
            "eth0: mlx5_core, firmware 26.38.1002, node 0, IOMMU DMA-FQ, atomic operations on\n"
        ),
        "{text}"
    );
    assert_eq!(diagnosis.to_json()["devices"][5]["atomics"], false);
}

#[test]
fn a_card_that_joins_packets_by_itself_needs_nobody_else_to() {
    let mut sample = Sample::healthy();
    sample.feature_is("rx-gro", false);
    sample.feature_is("rx-lro", true);
    assert_eq!(sample.examine().findings, []);
}
