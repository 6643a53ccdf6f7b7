//! The machines that ship with the program, and invalid files.

use fullbore_capacity::{Scarce, SealedBy, read_machine};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

const SMALL: &str = r#"
name = "small"
[[node]]
cores = 8
memory_gbytes_per_second = 40
[[disk]]
count = 4
gbytes_per_second = 3.2
[[card]]
ports = 1
gbits_per_second = 10
lanes = 8
pcie_generation = 3
tls = true
[workload]
tls = "software"
"#;

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/machines");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn each_shipped_machine_is_planned_in_software_and_by_card() {
    let paths = shipped();
    assert!(paths.len() >= 4, "{paths:?}");
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        for tls in [SealedBy::Software, SealedBy::Card] {
            let specified = read_machine(&text).unwrap().with_tls(Some(tls)).unwrap();
            let plan =
                fullbore_capacity::plan(&specified.hardware, &specified.demand, &specified.costs);
            // The name states what the ports carry. The plan is never above it, and above a third of it in the worse case.
            let named: f64 = specified.hardware.name.split('G').next().unwrap().parse().unwrap();
            assert!(
                plan.gbps <= named && plan.gbps > named / 3.0,
                "{} {tls:?}: {}",
                path.display(),
                plan.gbps
            );
            assert!(plan.limits.iter().all(|limit| limit.gbps.is_finite()));
            let said = plan.describe();
            for part in [
                "Scarce first",
                "The arithmetic",
                "What a change would bring",
                plan.scarce().scarce.name(),
            ] {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
    }
}

fn scarce(text: &str) -> (Scarce, f64) {
    let specified = read_machine(text).unwrap();
    let plan = fullbore_capacity::plan(&specified.hardware, &specified.demand, &specified.costs);
    (plan.scarce().scarce, plan.gbps)
}

#[test]
fn each_part_can_be_the_scarce_one() {
    let with = |from: &str, to: &str| scarce(&SMALL.replace(from, to));
    assert_eq!(scarce(SMALL), (Scarce::Ports, 9.5));
    let fast = SMALL.replace("gbits_per_second = 10", "gbits_per_second = 100");
    let with_fast = |from: &str, to: &str| scarce(&fast.replace(from, to)).0;
    assert_eq!(
        with("count = 4\ngbytes_per_second = 3.2", "gbytes_per_second = 0.2").0,
        Scarce::Disks
    );
    assert_eq!(with_fast("cores = 8", "cores = 1"), Scarce::Cores);
    assert_eq!(
        with_fast("memory_gbytes_per_second = 40", "memory_gbytes_per_second = 10"),
        Scarce::Memory
    );
    assert_eq!(with_fast("lanes = 8", "lanes = 1"), Scarce::CardBus);
    let by_card = fast.replace("[workload]\ntls = \"software\"", "[workload]\ntls = \"card\"");
    let limited = by_card.replace("tls = true", "tls = true\ntls_gbits_per_second_max = 20");
    assert_eq!(scarce(&limited), (Scarce::CardSealing, 20.0));
    let few = by_card.replace("tls = true", "tls = true\npcie_reads_in_flight = 1");
    assert_eq!(scarce(&few).0, Scarce::CardReads);
}

#[test]
fn more_of_what_is_scarce_brings_more_and_more_of_the_rest_nothing() {
    let specified = read_machine(SMALL).unwrap();
    let plan = fullbore_capacity::plan(&specified.hardware, &specified.demand, &specified.costs);
    let gained = |change: &str| {
        plan.what_if.iter().find(|one| one.change == change).expect(change).gained_gbps
    };
    assert!(gained("one more port") > 9.0);
    assert_eq!(gained("one more core"), 0.0);
    assert_eq!(gained("one more disk"), 0.0);
}

/// The text to replace, the replacement, and the parts that the error must contain.
const WRONG: [(&str, &str, &[&str]); 23] = [
    ("lanes = 8\n", "", &["[[card]] 1", "lanes is missing", "lanes = 16"]),
    (
        "memory_gbytes_per_second = 40\n",
        "",
        &["[[node]] 1", "memory_gbytes_per_second is missing", "GB/s"],
    ),
    ("[[node]]", "[[knot]]", &["node is missing"]),
    (
        "[[disk]]\ncount = 4\ngbytes_per_second = 3.2",
        "",
        &["disk is missing", "gbytes_per_second = 3.2"],
    ),
    ("cores = 8", "cores = -8", &["cores = -8 is not within", "cores = 8"]),
    ("cores = 8", "cores = 0", &["cores = 0 is not within"]),
    ("cores = 8", "cores = 7.5", &["cores = 7.5 is not whole"]),
    ("cores = 8", "cores = nan", &["cores = nan"]),
    (
        "cores = 8",
        "cores = \"8 cores\"",
        &["cores = \"8 cores\" is not a number", "without a unit"],
    ),
    (
        "gbytes_per_second = 3.2",
        "gbytes_per_second = 3200",
        &["3200 is more than 64", "is the unit right", "GB/s"],
    ),
    ("gbits_per_second = 10", "gbits_per_second = 10000", &["10000 is more than 1600", "Gb/s"]),
    ("gbits_per_second = 10", "mbits_per_second = 10000", &["gbits_per_second is missing"]),
    ("count = 4", "cuont = 4", &["[[disk]] 1", "cuont is not a key", "count"]),
    ("tls = \"software\"", "tls = \"hardware\"", &["tls = \"hardware\" is not one of", "\"card\""]),
    ("tls = \"software\"", "tls = \"card\"\nroute = \"userspace\"", &["route = \"kernel\""]),
    ("tls = \"software\"", "silo = \"disk\"", &["silo is for machines with several nodes"]),
    ("tls = \"software\"", "hit_percent = 101", &["hit_percent = 101 is more than 100"]),
    ("tls = \"software\"", "viewers = 100", &["viewer_mbits_per_second is missing"]),
    ("tls = \"software\"", "software_percent = 30", &["software_percent is for tls = \"card\""]),
    ("ports = 1", "ports = 1\nnode = 1", &["node = 1 is not there", "node = 0"]),
    ("tls = true", "tls = \"yes\"", &["neither true nor false"]),
    ("cores = 8", "cores 8", &["line 4 is not TOML", "KEY = VALUE"]),
    ("cores = 8", "cores = 8\ncount = 100", &["100 times, more than 64"]),
];

#[test]
fn what_is_wrong_is_one_line_with_the_key_and_an_example() {
    for (from, to, named) in WRONG {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "{from}");
        let said = read_machine(&text).expect_err(to).to_string();
        assert!(!said.contains('\n'), "{said}");
        for part in named {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn several_nodes_need_links_and_say_where_things_are() {
    let two = SMALL.replace("cores = 8", "cores = 8\ncount = 2");
    assert!(read_machine(&two).unwrap_err().to_string().contains("fabric is missing"));
    let somewhere = format!("{two}\n[fabric]\nlinks = 1\nlink_gbytes_per_second = 20\n");
    assert!(read_machine(&somewhere).unwrap_err().to_string().contains("node is missing"));
    let linked = somewhere
        .replace("[[disk]]", "[[disk]]\nnode = 0")
        .replace("[[card]]", "[[card]]\nnode = 1");
    let plan = read_machine(&linked)
        .map(|found| fullbore_capacity::plan(&found.hardware, &found.demand, &found.costs))
        .unwrap();
    assert!(plan.limits.iter().any(|limit| limit.scarce == Scarce::Fabric));
    // A node without a card is served by the nearest one.
    assert!(plan.nodes[0].cores_busy > 0.0 && plan.nodes[0].card_gbps == 0.0);
    let one = linked.replace("links = 1", "links = 4\nhottest_link_percent = 10");
    assert!(read_machine(&one).unwrap_err().to_string().contains("at least 25 percent"));
}

#[test]
fn costs_of_a_processor_come_from_what_the_bench_wrote() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference_run/limit.json");
    let limit: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let (costs, missing) = fullbore_capacity::CostTable::USUAL.with_measured(&limit).unwrap();
    assert_eq!(missing, ["seal from hot set", "seal for viewers", "send to viewers"]);
    assert_eq!(costs.seal, limit["parts"][0]["gbps"].as_f64());
    // The model's rate of a core, compared with the server's rate in the same run.
    let cold = SMALL.to_owned();
    let plain = format!("{SMALL}hit_percent = 100\nroute = \"userspace\"\n")
        .replace("tls = \"software\"", "tls = \"none\"");
    for (workload, text) in [("tls-cold", cold), ("http-warm", plain)] {
        let specified = read_machine(&text).unwrap();
        let planned = fullbore_capacity::plan(&specified.hardware, &specified.demand, &costs)
            .gbps_per_core
            .unwrap();
        let chains = limit["chains"].as_array().unwrap();
        let chain = chains.iter().find(|chain| chain["workload"] == workload).unwrap();
        let measured = chain["server"]["gbps_per_cpu_second"].as_f64().unwrap();
        assert!(
            (planned / measured - 1.0).abs() <= 0.15,
            "{workload}: {planned} beside {measured}"
        );
    }
    // The doctor measures fewer parts, under the same names.
    let doctor =
        json!({ "kind": "doctor", "version": 1, "measured": { "parts": [limit["parts"][0]] } });
    let (costs, missing) = fullbore_capacity::CostTable::USUAL.with_measured(&doctor).unwrap();
    assert_eq!((costs.seal, missing.len()), (limit["parts"][0]["gbps"].as_f64(), 7));
    for (wrong, why) in [
        (json!({}), "not what a bench"),
        (json!({ "kind": "limit", "version": 1, "parts": [] }), "interrupted"),
        (json!({ "kind": "doctor", "version": 1, "measured": null }), "add --measure"),
    ] {
        let error = fullbore_capacity::CostTable::USUAL.with_measured(&wrong).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

/// Every combination of options either has a plan with figures or is refused.
#[test]
fn whatever_is_accepted_has_a_plan() {
    let text =
        fs::read_to_string(shipped().into_iter().find(|path| path.ends_with("400g.toml")).unwrap())
            .unwrap();
    let machine = text.split("[workload]").next().unwrap();
    let (mut planned, mut refused) = (0, 0);
    for tls in ["software", "card", "none"] {
        for route in ["userspace", "kernel", "copies"] {
            for silo in ["off", "network", "memory-at-disk", "disk"] {
                for more in [
                    "",
                    "hit_percent = 100",
                    "software_percent = 30",
                    "handshakes_per_second = 1e6",
                    "extra_copies = 8",
                ] {
                    let workload = format!(
                        "[workload]\ntls = \"{tls}\"\nroute = \"{route}\"\nsilo = \"{silo}\"\n{more}\n"
                    );
                    let Ok(found) = read_machine(&format!("{machine}{workload}")) else {
                        refused += 1;
                        continue;
                    };
                    let plan =
                        fullbore_capacity::plan(&found.hardware, &found.demand, &found.costs);
                    assert!(plan.gbps >= 0.0 && plan.gbps <= 400.0, "{workload}: {}", plan.gbps);
                    assert!(plan.limits.iter().all(|limit| !limit.gbps.is_nan()), "{workload}");
                    assert!(plan.crossing.average <= plan.crossing.worst, "{workload}");
                    assert!(!plan.describe().contains("NaN"), "{workload}");
                    planned += 1;
                }
            }
        }
    }
    assert!(planned >= 120 && refused >= 20, "{planned} {refused}");
}
