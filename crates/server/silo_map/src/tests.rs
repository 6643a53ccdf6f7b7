//! Maps of machines with several nodes, planted as files.

use super::*;
use delivery::Departure;
use machine::Node;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use tempfile::TempDir;

/// Four nodes in a square: a node's neighbours are nearer than the node across. Node 3 has no CPU that the server may use.
fn square() -> (TempDir, Machine) {
    let root = TempDir::new().unwrap();
    let file = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    file("sys/devices/system/node/online", "0-3");
    let rows = ["10 12 32 12", "12 10 12 32", "32 12 10 12", "12 32 12 10"];
    for (node, row) in rows.iter().enumerate() {
        file(&format!("sys/devices/system/node/node{node}/distance"), row);
        let cpus = format!("{}-{}", 2 * node, 2 * node + 1);
        file(&format!("sys/devices/system/node/node{node}/cpulist"), &cpus);
    }
    for (index, node) in [(10, "0"), (11, "2"), (13, "3"), (14, "3"), (15, "-1")] {
        let folder = format!("sys/devices/pci0/{index}");
        file(&format!("{folder}/numa_node"), node);
        file(&format!("{folder}/net/eth{index}/ifindex"), &index.to_string());
        let class = root.path().join("sys/class/net");
        fs::create_dir_all(&class).unwrap();
        symlink(format!("../../../{folder}/net/eth{index}"), class.join(format!("eth{index}")))
            .unwrap();
        symlink("../..", root.path().join(format!("{folder}/net/eth{index}/device"))).unwrap();
    }
    let node = |number: u32, cpus: &[u32]| Node { number, cpus: cpus.to_vec(), caches: Vec::new() };
    let machine = Machine {
        cpus: vec![0, 1, 2, 3, 4],
        nodes: vec![node(0, &[0, 1]), node(1, &[2, 3]), node(2, &[4])],
        ..Machine::probe()
    };
    (root, machine)
}

/// The kernel's numbers of the cards planted above.
fn index_of(name: &str) -> Option<u32> {
    name.strip_prefix("eth")?.parse().ok()
}

fn config(text: &str) -> Config {
    toml::from_str(text).unwrap()
}

fn silos_of_nics(
    config: &Config,
    root: &TempDir,
    machine: &Machine,
) -> Vec<(String, Option<usize>)> {
    let topology = Topology::open_from(root.path());
    let silos = worker_cpus::silos(config, machine, &topology, 5).unwrap();
    let nics = devices::nics(config, &topology, &silos, index_of).unwrap();
    nics.into_iter().map(|nic| (nic.name, nic.silo)).collect()
}

fn named(nics: &[(&str, Option<usize>)]) -> Vec<(String, Option<usize>)> {
    nics.iter().map(|(name, silo)| ((*name).to_owned(), *silo)).collect()
}

#[test]
fn workers_belong_to_the_silo_of_their_cpu() {
    let (root, machine) = square();
    let topology = Topology::open_from(root.path());
    let map = SiloMap::new(&Config::default(), &machine, &topology, &[], 6).unwrap();
    assert_eq!((0..6).map(|worker| map.of_worker(worker)).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 0]);
    assert_eq!(map.workers_of(0), [0, 1, 5]);
    assert_eq!(
        map.silos()[2].cpus,
        [4, 5],
        "interrupts may go to CPUs that the server may not use"
    );
    assert_eq!(map.placement(), "network");
    let map = SiloMap::new(&Config::default(), &machine, &topology, &[], 2).unwrap();
    assert_eq!((map.silos().len(), map.placement()), (1, "off"));
    assert_eq!(map.describe(), [""; 0], "one silo needs no words");
}

#[test]
fn a_card_on_a_node_without_workers_goes_to_the_nearest_and_ties_take_turns() {
    let (root, machine) = square();
    let expected = [
        ("eth10", Some(0)),
        ("eth11", Some(2)),
        // Nodes 0 and 2 are equally near.
        ("eth13", Some(0)),
        ("eth14", Some(2)),
        ("eth15", None),
    ];
    assert_eq!(silos_of_nics(&Config::default(), &root, &machine), named(&expected));
}

/// Node 0 has memory, a card and no CPU; node 1 has CPUs and no memory.
#[test]
fn a_node_may_lack_cpus_or_memory() {
    let (root, mut machine) = square();
    let node = |path: &str| root.path().join("sys/devices/system/node").join(path);
    fs::write(node("node0/cpulist"), "\n").unwrap();
    fs::write(node("has_memory"), "0,2-3").unwrap();
    machine.cpus = vec![2, 3, 4];
    machine.nodes.remove(0);
    let topology = Topology::open_from(root.path());
    let map = SiloMap::new(&Config::default(), &machine, &topology, &[], 3).unwrap();
    let nodes: Vec<_> = map.silos().iter().map(|silo| (silo.node, silo.memory_node)).collect();
    // Nodes 0 and 2 are equally near to node 1.
    assert_eq!(nodes, [(Some(1), Some(0)), (Some(2), Some(2))]);
    let lines = map.describe();
    assert!(lines[1].contains("node 1, memory of node 0; CPUs 2-3"), "{lines:?}");
    assert!(lines[2].contains("node 2; CPUs 4"), "{lines:?}");
    let expected = [("eth10", Some(0)), ("eth11", Some(1)), ("eth13", Some(1))];
    let nics = devices::nics(&Config::default(), &topology, map.silos(), index_of).unwrap();
    let nics: Vec<_> = nics.into_iter().map(|nic| (nic.name, nic.silo)).collect();
    assert_eq!(nics[..3], named(&expected), "the card of node 0 goes to the nearest silo");
    // All CPUs on node 1: a machine with one silo.
    machine.cpus.pop();
    machine.nodes.pop();
    let map = SiloMap::new(&Config::default(), &machine, &topology, &[], 2).unwrap();
    assert_eq!((map.silos().len(), map.silos()[0].node), (1, Some(1)));
    assert_eq!((map.placement(), map.describe()), ("off", Vec::new()));
}

#[test]
fn a_node_whose_distances_nobody_knows_belongs_to_no_silo() {
    let (root, machine) = square();
    fs::remove_file(root.path().join("sys/devices/system/node/node3/distance")).unwrap();
    let nics = silos_of_nics(&Config::default(), &root, &machine);
    assert_eq!(nics[1..4], named(&[("eth11", Some(2)), ("eth13", None), ("eth14", None)]));
}

#[test]
fn a_card_of_another_network_namespace_is_left_out() {
    let (root, machine) = square();
    let topology = Topology::open_from(root.path());
    let config = Config::default();
    let silos = worker_cpus::silos(&config, &machine, &topology, 5).unwrap();
    let elsewhere = |name: &str| index_of(name).map(|index| index + u32::from(index != 11));
    let nics = devices::nics(&config, &topology, &silos, elsewhere).unwrap();
    assert_eq!(nics.iter().map(|nic| nic.index).collect::<Vec<_>>(), [11]);
}

#[test]
fn the_operators_map_comes_before_the_kernels() {
    let (root, machine) = square();
    let config = config(
        "[[silos]]\ncpus = \"4,0\"\ncards = [\"eth15\"]\n[[silos]]\ncpus = \"2-3\"\ncards = [\"eth10\"]\n",
    );
    let topology = Topology::open_from(root.path());
    let map = SiloMap::new(&config, &machine, &topology, &[], 3).unwrap_err();
    assert_eq!(map, SiloError::NoNic("eth15".into()), "it is not on this machine");
    let silos = worker_cpus::silos(&config, &machine, &topology, 4).unwrap();
    let seen: Vec<_> = silos
        .iter()
        .map(|silo| {
            (
                silo.node,
                silo.worker_cpus.iter().map(|worker_cpu| worker_cpu.cpu).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(seen, [(None, vec![4, 0]), (Some(1), vec![2, 3])]);
    // Nodes 2 and 3 are no silo of this map.
    let expected =
        [("eth15", Some(0)), ("eth10", Some(1)), ("eth11", None), ("eth13", None), ("eth14", None)];
    assert_eq!(silos_of_nics(&config, &root, &machine), named(&expected));
}

#[test]
fn a_node_that_the_operator_divided_decides_for_none_of_its_parts() {
    let (root, machine) = square();
    let config =
        config("[[silos]]\ncpus = \"0\"\n[[silos]]\ncpus = \"1\"\n[[silos]]\ncpus = \"4\"\n");
    let nics = silos_of_nics(&config, &root, &machine);
    assert_eq!(nics[0], ("eth10".to_owned(), None));
    assert_eq!(nics[1], ("eth11".to_owned(), Some(2)));
}

#[test]
fn each_silo_of_the_operator_has_a_worker_or_the_server_does_not_start() {
    let (root, machine) = square();
    let topology = Topology::open_from(root.path());
    let new = |text: &str, workers| {
        SiloMap::new(&config(text), &machine, &topology, &[], workers).map(|map| map.of_worker)
    };
    let two = "[[silos]]\ncpus = \"0-3\"\n[[silos]]\ncpus = \"4\"\n";
    assert_eq!(new(two, 2).unwrap(), [0, 1]);
    assert_eq!(new(two, 5).unwrap(), [0, 1, 0, 0, 0]);
    assert_eq!(new(two, 1).unwrap_err(), SiloError::FewWorkers { workers: 1, silos: 2 });
    let gone = "[[silos]]\ncpus = \"0\"\n[[silos]]\ncpus = \"7\"\n";
    assert_eq!(new(gone, 2).unwrap_err(), SiloError::NoCpuAllowed { cpus: "7".into() });
}

#[test]
fn a_cpu_that_the_machine_lacks_is_refused_and_one_that_the_server_may_not_use_is_not() {
    let (root, machine) = square();
    let folder = root.path().join("sys/devices/system/cpu");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("present"), "0-7\n").unwrap();
    let topology = Topology::open_from(root.path());
    let new = |text: &str| SiloMap::new(&config(text), &machine, &topology, &[], 2).map(drop);
    assert_eq!(new("[[silos]]\ncpus = \"0-7\"\n"), Ok(()));
    let said = new("[[silos]]\ncpus = \"0-99\"\n").unwrap_err().to_string();
    assert!(said.contains("\"0-99\"") && said.contains("no CPU 8, only 0-7"), "{said}");
}

#[test]
fn disks_are_found_by_the_device_number_of_their_files() {
    let (root, machine) = square();
    let library = TempDir::new().unwrap();
    let device = library.path().metadata().unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let folder = root.path().join("sys/devices/pci0/10/block/vdx");
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
    symlink(&folder, root.path().join(format!("sys/dev/block/{major}:{minor}"))).unwrap();
    fs::write(root.path().join("sys/devices/pci0/10/numa_node"), "2").unwrap();
    let topology = Topology::open_from(root.path());
    let new = |text: &str| SiloMap::new(&config(text), &machine, &topology, &[library.path()], 5);
    let map = new("").unwrap();
    if major != 0 {
        assert_eq!(map.of_device(device), Some(2));
        let disk = format!("disks {} (vdx)", library.path().display());
        assert!(map.describe()[3].ends_with(&disk), "{:?}", map.describe());
    }
    assert_eq!(map.of_device(device + 1), None);
    let shown = library.path().display();
    let planned =
        format!("[[silos]]\ncpus = \"0\"\n[[silos]]\ncpus = \"2\"\nfolders = [\"{shown}\"]\n");
    assert_eq!(new(&planned).unwrap().of_device(device), Some(1), "the operator knows better");
}

#[test]
fn folders_that_cannot_be_placed_are_named() {
    let (root, machine) = square();
    let library = TempDir::new().unwrap();
    for folder in ["a", "b"] {
        fs::create_dir(library.path().join(folder)).unwrap();
    }
    let topology = Topology::open_from(root.path());
    let said = |one: &Path, other: &Path| {
        let (one, other) = (one.display(), other.display());
        let text = format!(
            "[[silos]]\ncpus = \"0\"\nfolders = [\"{one}\"]\n[[silos]]\ncpus = \"2\"\nfolders = [\"{other}\"]\n"
        );
        let map = SiloMap::new(&config(&text), &machine, &topology, &[library.path()], 5).unwrap();
        let told = map.misfits[0].to_string();
        assert!(map.describe().iter().any(|line| line.contains(&told)), "{:?}", map.describe());
        map.check_folders().unwrap_err()
    };
    let (a, b) = (library.path().join("a"), library.path().join("b"));
    assert_eq!(said(&a, &b), SiloError::DiskShared(a.clone(), b.clone()));
    let unmounted = format!(
        "[[silos]]\ncpus = \"0\"\nfolders = [{a:?}]\n[[silos]]\ncpus = \"2\"\nfolders = [{b:?}]\n"
    );
    let map = SiloMap::new(&config(&unmounted), &machine, &topology, &[&a, &b], 5).unwrap();
    let device = a.metadata().unwrap().dev();
    assert_eq!(
        map.of_device(device),
        None,
        "the map contradicts itself, and the kernel knows nothing"
    );
    let gone = library.path().join("c");
    assert_eq!(said(&gone, &a), SiloError::NoFolder(gone.clone()));
    // A whole folder of the library that is missing means a dead disk: that is reported elsewhere, and the others are served.
    let mut dead = config(&format!("[[silos]]\ncpus = \"0\"\nfolders = [{gone:?}]\n"));
    dead.library = vec![a.clone(), gone];
    SiloMap::new(&dead, &machine, &topology, &[&a], 1).unwrap().check_folders().unwrap();
    assert_eq!(said(Path::new("/"), &a), SiloError::FolderOutside("/".into()));
}

#[test]
fn interrupts_on_other_nodes_are_told_with_what_to_do() {
    let (root, machine) = square();
    let interrupt = |number: u32, cpu: &str| {
        fs::create_dir_all(root.path().join(format!("proc/irq/{number}"))).unwrap();
        fs::write(root.path().join(format!("proc/irq/{number}/smp_affinity_list")), cpu).unwrap();
        let folder = root.path().join("sys/devices/pci0/10/msi_irqs");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(number.to_string()), "msix").unwrap();
    };
    let complaint = || {
        let topology = Topology::open_from(root.path());
        let silos = worker_cpus::silos(&Config::default(), &machine, &topology, 5).unwrap();
        let nics = devices::nics(&Config::default(), &topology, &silos, index_of).unwrap();
        nics[0].complaint(&silos[0])
    };
    assert_eq!(complaint(), None);
    for (number, cpu) in [(30, "0"), (31, "4"), (32, "0-7"), (33, "1")] {
        interrupt(number, cpu);
    }
    assert_eq!(complaint(), None, "one of four");
    for (number, cpu) in [(33, "5"), (34, "3")] {
        interrupt(number, cpu);
    }
    let said = complaint().unwrap();
    assert!(
        said.starts_with("3 of the 5 interrupts of eth10") && said.contains("31 to CPU 4"),
        "{said}"
    );
    assert!(said.contains("write 0-1 to"), "{said}");
}

#[test]
fn lists_of_cpus_are_written_as_the_kernel_writes_them() {
    assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
    assert_eq!(ranges(&[5, 4, 5]), "4-5");
    assert_eq!(ranges(&[]), "");
}

#[test]
fn workers_without_cards_share_those_of_the_nearest_silo() {
    let (root, machine) = square();
    let topology = Topology::open_from(root.path());
    let config = Config::default();
    let silos = worker_cpus::silos(&config, &machine, &topology, 5).unwrap();
    let nics = devices::nics(&config, &topology, &silos, index_of).unwrap();
    // Node 1 has none, and is equally near to nodes 0 and 2.
    assert_eq!(network::hosts(&topology, &silos, &nics), [0, 0, 2]);
    assert_eq!(network::hosts(&topology, &silos, &[]), [0, 1, 2]);
    let map = SiloMap {
        placement: Placement::Network,
        hosts: vec![0, 2, 2],
        of_worker: vec![0, 0, 1, 1, 2],
        disks: Vec::new(),
        silos,
        nics,
        misfits: Vec::new(),
        unsteered: None,
        marks: vec![1, 2, 3],
        unmarked: None,
    };
    let said = map.describe();
    let homeless =
        said.iter().filter(|line| line.contains("eth15 belongs to none: its node is unknown"));
    assert_eq!(homeless.count(), 1, "{said:?}");
    assert_eq!(map.listening_order(), [0, 1, 4, 2, 3]);
    let group = |first, count| net::steering::ListenerGroup { first, count };
    let steering = map.steering().unwrap();
    let expected = [(10, group(0, 2)), (11, group(2, 3)), (13, group(0, 2)), (14, group(2, 3))];
    assert_eq!(steering.nics, expected);
    let expected = [(0..=1, group(0, 2)), (2..=3, group(3, 2)), (4..=5, group(2, 3))];
    assert_eq!(steering.cpus, expected);
    let known = map.for_worker(4, true).unwrap();
    assert_eq!((known.own, known.nics), (2, vec![(10, 0), (11, 2), (13, 0), (14, 2)]));
    let of_host = Departure { mark: 3, nic: Some(2) };
    assert_eq!(map.departure(2), Some(of_host), "it serves the connections of the third silo");
    let mut map = map;
    map.give_up_network("the kernel refused".into());
    assert_eq!((map.placement(), map.steering()), ("off", None));
    assert_eq!(map.describe().last().unwrap(), "silos     the kernel refused");
}

/// Two silos of which only the first has a card, and both have marks.
fn marked(placement: &str, marks: [u32; 2]) -> SiloMap {
    let (root, machine) = square();
    let topology = Topology::open_from(root.path());
    let [one, other] = marks;
    let text = format!(
        "silo = \"{placement}\"\n[[silos]]\ncpus = \"0-1\"\nmark = {one}\n[[silos]]\ncpus = \"2-3\"\nmark = {other}\n"
    );
    let config = config(&text);
    let mut map = SiloMap::new(&config, &machine, &topology, &[], 2).unwrap();
    map.nics = devices::nics(&config, &topology, &map.silos, index_of).unwrap();
    map.nics.retain(|nic| nic.silo == Some(0));
    map.hosts = network::hosts(&topology, &map.silos, &map.nics);
    map
}

#[test]
fn a_connection_leaves_by_the_mark_of_its_silo_and_the_card_of_that_mark() {
    let departures = |map: &SiloMap| [0, 1].map(|worker| map.departure(worker).unwrap());
    let own = Departure { mark: 5, nic: Some(0) };
    assert_eq!(departures(&marked("disk", [5, 6])), [own, Departure { mark: 6, nic: None }]);
    assert_eq!(departures(&marked("disk", [5, 5])), [own, own], "it shares the port of the other");
    assert_eq!(departures(&marked("network", [5, 6])), [own, own], "it serves the other's viewers");
    assert_eq!(departures(&marked("off", [5, 6]))[1].mark, 6);
    let map = marked("disk", [5, 6]);
    assert!(map.describe().iter().any(|line| line.ends_with("; mark 6")), "{:?}", map.describe());
    assert_eq!(map.json()[1]["mark"], 6);
}

#[test]
fn without_the_privilege_for_marks_there_are_none_and_a_line_says_so() {
    let mut map = marked("disk", [5, 6]);
    map.give_up_marks("Operation not permitted".into());
    assert_eq!((map.departure(0), map.for_worker(1, false).unwrap().departure), (None, None));
    let said = map.describe().join("\n");
    assert!(
        said.contains("no marks (Operation not permitted)") && !said.contains("; mark"),
        "{said}"
    );
    assert_eq!(map.json()[1]["mark"], Value::Null);
}
