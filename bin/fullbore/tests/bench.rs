//! The bench itself: its output has the promised shape, it distinguishes bad servers from good ones, and it leaves nothing
//! behind. No test asserts a time of our own: the slow server is slow by construction.

use fullbore_tests::{namespace, program, tool};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The rate that `peer.py` sends per second of processor time in its slow mode, by construction: 64 KiB per 5 ms.
const SLOW_PEER_GBPS: f64 = 65_536.0 * 8e-9 / 0.005;

/// Comparisons need the same two cores: a server that gets neither does nothing in its half second.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A failed test leaves nothing invalid here.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The measured seconds to try, in turn: a machine that is busy with other tests may give a server, its clients or its disk no time in half a second.
const SECONDS: [&str; 4] = ["0.5", "2", "8", "32"];

/// What the bench says if nothing could be measured in its time.
const TOO_SHORT: [&str; 2] =
    ["it did no work in the measured time", "no response began in the measured time"];

/// Runs a comparison that writes its figures to `file`, for one of these times after the other, until each turn had something to measure.
fn measured(tries: &[&str], file: &Path, command: impl Fn(&str) -> Command) -> Output {
    for seconds in tries {
        let output = command(seconds).output().unwrap();
        let said = text(&output.stderr);
        let is_enough = match output.status.success() {
            true => has_first_bytes(&outcome(file)),
            false => !TOO_SHORT.iter().any(|words| said.contains(words)),
        };
        if is_enough {
            return output;
        }
    }
    panic!("nothing to measure in {tries:?} s");
}

/// Whether a response began in each turn of a comparison by bytes, if its client tells.
fn has_first_bytes(outcome: &serde_json::Value) -> bool {
    let is_told = ["curl", "wrk"].iter().all(|client| outcome["client"] != *client);
    let parts = ["cells", "parts"].iter().find_map(|name| outcome[*name].as_array());
    let parts = parts.map_or(std::slice::from_ref(outcome), Vec::as_slice);
    parts.iter().filter(|part| is_told && part["unit"] == "gbps_per_cpu_second").all(|part| {
        let sides = part["sides"].as_array().unwrap().iter();
        let mut rounds = sides.flat_map(|side| side["rounds"].as_array().unwrap());
        rounds.all(|round| round["first_byte_ms"]["p99"].is_number())
    })
}

/// A tiny comparison, unless `arguments` say otherwise, under the system's congestion control alone.
fn fullbore(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["bench", "versus"]);
    if !arguments.iter().any(|word| ["--wire", "--congestion-control"].contains(word)) {
        command.args(["--congestion-control", "system"]);
    }
    for [name, value] in [["--rounds", "1"], ["--seconds", "0.5"], ["--library", "16"]] {
        if !arguments.contains(&name) {
            command.args([name, value]);
        }
    }
    command.args(arguments);
    command
}

/// Compares with `peer.py` in a mode. `scratch` is where the bench works.
fn versus_test_server(mode: &str, scratch: &Path, more: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/peer.py");
    let server = format!("python3 '{script}' @PORT@ @LIBRARY@ {mode}");
    let scratch = scratch.to_str().unwrap();
    let arguments = ["--workload", "http-warm", "--scratch", scratch, "--peer-command", &server];
    let _alone = alone();
    fullbore(&[&arguments[..], &["--peer-name", mode], more].concat()).output().unwrap()
}

/// Asserts that the comparison failed, named the side and this fault, wrote no figures and left nothing behind.
fn assert_refused(mode: &str, fault: &str) {
    if !has("python3", "--version") {
        tool::skip(&format!("a server that {mode}: apt install python3"));
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("outcome.json");
    let output = versus_test_server(mode, scratch.path(), &["--json", file.to_str().unwrap()]);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{mode}: {told}{said}");
    let verdict = said.lines().find(|line| line.starts_with("fullbore: ")).unwrap_or_default();
    assert!(verdict.contains(mode), "the side is not named: {said}");
    assert!(said.contains(fault), "{fault} is not mentioned: {said}");
    assert!(!told.contains("ratio") && !file.exists(), "figures of a server that {mode}: {told}");
    assert_nothing_left(scratch.path());
}

fn assert_nothing_left(scratch: &Path) {
    let left: Vec<_> = fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "files are left: {left:?}");
    // A server of this folder has the folder in its command line.
    let marker = scratch.to_str().unwrap();
    let running: Vec<_> =
        command_lines().into_iter().filter(|line| line.contains(marker)).collect();
    assert!(running.is_empty(), "processes are left: {running:?}");
}

fn command_lines() -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn has(program: &str, version: &str) -> bool {
    Command::new(program).arg(version).output().is_ok()
}

fn outcome(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Runs a comparison that must succeed; returns its figures.
fn compare(arguments: &[&str]) -> serde_json::Value {
    compare_for(&SECONDS, arguments)
}

/// The same, with other times to try.
fn compare_for(tries: &[&str], arguments: &[&str]) -> serde_json::Value {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("outcome.json");
    let _alone = alone();
    let output = measured(tries, &file, |seconds| {
        let before = ["--json", file.to_str().unwrap(), "--seconds", seconds];
        fullbore(&[&before[..], arguments].concat())
    });
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {told}{said}");
    assert!(told.contains("ratio"), "{told}");
    outcome(&file)
}

/// Asserts that there are two sides of these names with a round each, and a ratio.
fn assert_shape(part: &serde_json::Value, names: [&str; 2]) {
    assert_shape_with("load", part, names);
}

/// The same with another client, which does not report when its responses began.
fn assert_shape_with(client: &str, part: &serde_json::Value, names: [&str; 2]) {
    assert!(part["unit"].is_string() && part["better"].is_string(), "{part:#}");
    assert!(part["ratio"].as_f64().unwrap() > 0.0 && part["ratio_deviation"].is_number());
    for (index, name) in names.into_iter().enumerate() {
        let side = &part["sides"][index];
        assert_eq!(side["name"], name);
        assert!(side["command"].is_string() && side["deviation"].is_number(), "{side:#}");
        assert!(side["median"].as_f64().unwrap() >= 0.0);
        let rounds = side["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 1);
        for round in rounds {
            for number in ["figure", "gbps", "cpu_seconds", "wall_seconds"] {
                assert!(round[number].is_number(), "{number}: {round:#}");
            }
            assert_eq!(round["requests_per_second"].is_number(), client == "load", "{round:#}");
            assert!(round["cpu_seconds"].as_f64().unwrap() > 0.0);
            assert!((0.0..=1.0).contains(&round["softirq_share"].as_f64().unwrap()));
            assert!(round["rss_bytes"].as_u64().unwrap() > 0);
            if part["unit"] == "gbps_per_cpu_second" {
                assert!(round["wakeups_per_mib"].as_f64().unwrap() >= 0.0, "{round:#}");
                let (cost, cpu) = (&round["cpu_us_per_wakeup"], &round["cpu_seconds"]);
                // Of 100 wake-ups at least; at exactly 100, the two sums differ in their last digit.
                let most = 1.000_001e4 * cpu.as_f64().unwrap();
                assert!(cost.as_f64().is_none_or(|us| us > 0.0 && us <= most), "{round:#}");
                assert_eq!(
                    round["first_byte_ms"]["p99"].is_number(),
                    client == "load",
                    "{round:#}"
                );
            }
            assert!(round.get("counters").is_some());
        }
    }
}

#[test]
fn a_comparison_with_nginx_reports_both_sides_and_their_ratio() {
    if !has("nginx", "-v") {
        tool::skip(
            "a comparison with nginx: apt install nginx-light, or ./run bench versus nginx once",
        );
        return;
    }
    for workload in ["tls-warm", "tls-cold", "http-warm", "http-cold"] {
        let outcome = compare(&["nginx", "--workload", workload]);
        assert_eq!((&outcome["version"], &outcome["kind"]), (&1.into(), &"versus".into()));
        assert_eq!(outcome["workload"], workload);
        assert_eq!(outcome["unit"], "gbps_per_cpu_second");
        assert!(outcome["machine"].is_object());
        assert_shape(&outcome, ["fullbore", "nginx"]);
        assert!(outcome["sides"][1]["version"].as_str().unwrap().contains("nginx/"));
    }
}

#[test]
fn other_clients_fetch_whole_files_from_both_sides() {
    for client in ["curl", "wrk"] {
        if !has(client, "--version") {
            tool::skip(&format!("a comparison with {client} as the client: apt install {client}"));
            continue;
        }
        for workload in ["tls-warm", "tls-cold", "http-warm", "http-cold"] {
            let outcome = compare(&["fullbore", "--client", client, "--workload", workload]);
            assert_eq!(outcome["client"], client);
            assert!(outcome["client_version"].as_str().unwrap().starts_with(client), "{outcome:#}");
            assert_shape_with(client, &outcome, ["fullbore", "fullbore (2)"]);
        }
    }
}

#[test]
fn every_client_is_compared_under_every_congestion_control_and_the_worst_is_named() {
    if !rustix::process::geteuid().is_root() || !namespace::mounts_can_be_apart() {
        tool::skip("several congestion controls: run as root, where namespaces are allowed");
        return;
    }
    // Every kernel has Reno. Whether it has BBR is up to its modules.
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("outcome.json");
    let json = ["fullbore", "--workload", "http-warm", "--json", file.to_str().unwrap()];
    let kinds = ["--client", "load,small-reads", "--congestion-control", "reno,cubic"];
    let output = {
        let _alone = alone();
        measured(&SECONDS, &file, |seconds| {
            fullbore(&[&json[..], &kinds, &["--seconds", seconds]].concat())
        })
    };
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}{said}");
    let grid = outcome(&file);
    assert_eq!((&grid["version"], &grid["kind"]), (&1.into(), &"versus-grid".into()));
    let cells = grid["cells"].as_array().unwrap();
    let how = |cell: &serde_json::Value| {
        [&cell["client"], &cell["congestion_control"]].map(|word| word.as_str().unwrap().to_owned())
    };
    let expected =
        [["load", "reno"], ["small-reads", "reno"], ["load", "cubic"], ["small-reads", "cubic"]];
    assert_eq!(cells.iter().map(how).collect::<Vec<_>>(), expected);
    for cell in cells {
        assert_eq!(cell["machine"]["congestion_control"], cell["congestion_control"]);
        assert_shape(cell, ["fullbore", "fullbore (2)"]);
    }
    let ratios = cells.iter().map(|cell| cell["ratio"].as_f64().unwrap());
    let least = ratios.fold(f64::INFINITY, f64::min);
    assert_eq!(grid["worst"]["ratio"].as_f64(), Some(least), "{grid:#}");
    let [client, control] = how(&grid["worst"]);
    assert!(told.contains("worst: ") && told.contains(&format!("({client}, {control})")), "{told}");
    // The report shows all four.
    let report = scratch.path().join("report");
    let words = ["bench", "report", "--from", scratch.path().to_str().unwrap()];
    let made = Command::new(program()).args(words).arg("--out").arg(&report).output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("with small-reads") && page.contains("that suit it least"), "{page}");
}

#[test]
fn cubic_and_bbr_are_the_default_congestion_controls_where_both_can_be_set() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("outcome.json");
    let words = ["bench", "versus", "fullbore", "--workload", "http-warm", "--rounds", "1"];
    let output = {
        let _alone = alone();
        measured(&SECONDS, &file, |seconds| {
            let mut command = Command::new(program());
            command.args(words).args(["--seconds", seconds, "--library", "16", "--json"]);
            command.arg(&file);
            command
        })
    };
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let outcome = outcome(&file);
    if said.contains("can't both be set here") {
        assert_eq!(outcome["kind"], "versus");
        tool::skip("CUBIC and BBR by default: run as root, on a kernel that has both");
        return;
    }
    let cells = outcome["cells"].as_array().unwrap();
    let controls: Vec<_> = cells.iter().map(|cell| &cell["congestion_control"]).collect();
    assert_eq!(controls, ["cubic", "bbr"]);
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_ends_the_comparison_with_its_name() {
    if !rustix::process::geteuid().is_root() || !namespace::mounts_can_be_apart() {
        tool::skip("an unknown congestion control: run as root, where namespaces are allowed");
        return;
    }
    let unknown = ["fullbore", "--congestion-control", "reno,no-such", "--workload", "http-warm"];
    let _alone = alone();
    let output = fullbore(&unknown).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot set the congestion control no-such"), "{said}");
    assert!(!said.contains("creating a library"), "work was done first: {said}");
}

#[test]
fn a_transfer_that_fails_is_said_in_the_clients_own_words() {
    if !has("curl", "--version") || !has("wrk", "-v") || !has("python3", "--version") {
        tool::skip("failing transfers: apt install curl wrk python3");
        return;
    }
    // It answers the bench's own check of the bytes, which requests ranges, but fails these clients.
    for (client, words) in [("curl", "curl: (22)"), ("wrk", "x status")] {
        let scratch = tempfile::tempdir().unwrap();
        let output = versus_test_server("choosy", scratch.path(), &["--client", client]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("choosy failed, nothing is compared") && said.contains(words),
            "{said}"
        );
        assert_nothing_left(scratch.path());
    }
}

#[test]
fn a_client_that_cannot_do_the_work_or_is_not_there_is_refused_before_anything_starts() {
    let refused = |arguments: &[&str]| {
        let output = fullbore(arguments).env("PATH", "/nowhere").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        text(&output.stderr)
    };
    for client in ["curl", "wrk"] {
        for workload in
            ["viewers", "idle", "handshakes", "mixed", "http-mixed", "http-beside", "swarm"]
        {
            let said = refused(&["nginx", "--client", client, "--workload", workload]);
            assert!(said.contains(&format!("{workload} needs --client load")), "{said}");
        }
        let said = refused(&["nginx", "--client", client]);
        assert!(said.contains(&format!("apt install {client}")), "{said}");
        assert!(!said.contains("making a library"), "{said}");
    }
    let said = refused(&["nginx", "--client", "curl", "--connections", "301"]);
    assert!(said.contains("300 transfers"), "{said}");
    let said = refused(&["nginx", "--client", "small-reads", "--workload", "swarm"]);
    assert!(said.contains("players of their own"), "{said}");
}

#[test]
fn a_comparison_with_h2o_agrees_on_the_same_cipher() {
    if !has("h2o", "-v") {
        tool::skip("a comparison with h2o: ./run bench versus h2o once, where apt has it");
        return;
    }
    // The clients offer one version, one cipher and one group only, so a server that answers has agreed to them.
    for workload in ["tls-warm", "handshakes"] {
        let outcome = compare(&["h2o", "--workload", workload]);
        assert_shape(&outcome, ["fullbore", "h2o"]);
        assert!(outcome["sides"][1]["version"].as_str().unwrap().contains("h2o version"));
    }
}

#[test]
fn a_server_compared_with_itself_has_the_right_shape_in_every_workload() {
    let few = ["fullbore", "--connections", "6"];
    for (workload, unit, better) in [
        ("tls-warm", "gbps_per_cpu_second", "higher"),
        ("handshakes", "handshakes_per_cpu_second", "higher"),
        ("viewers", "gbps_per_cpu_second", "higher"),
    ] {
        let outcome = compare(&[&few[..], &["--workload", workload]].concat());
        assert_shape(&outcome, ["fullbore", "fullbore (2)"]);
        assert_eq!((&outcome["unit"], &outcome["better"]), (&unit.into(), &better.into()));
        let viewers = &outcome["sides"][0]["rounds"][0]["viewer_mbps"]["p1"];
        assert_eq!(viewers.is_number(), workload != "handshakes", "{workload}: {viewers}");
    }
}

#[test]
fn memory_is_compared_per_idle_connection() {
    let outcome = compare(&["fullbore", "--workload", "idle", "--connections", "300"]);
    assert_eq!(outcome["unit"], "rss_bytes_per_connection");
    assert_eq!(outcome["better"], "lower");
    assert_eq!(outcome["connections"], 300);
    assert!(outcome["sides"][0]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn tcp_of_our_own_is_compared_with_sockets_over_a_wire() {
    if !rustix::process::geteuid().is_root() || !has("ethtool", "--version") {
        tool::skip("a comparison over Ethernet: run as root; apt install ethtool");
        return;
    }
    if !namespace::mounts_can_be_apart() {
        return;
    }
    for wire in ["ethernet", "xdp"] {
        for workload in ["tls-cold", "http-cold"] {
            let outcome = compare(&[
                "fullbore",
                "--wire",
                wire,
                "--workload",
                workload,
                "--",
                "--route",
                "bypass",
            ]);
            assert_shape(&outcome, ["fullbore", "fullbore (2)"]);
            assert_eq!(
                (&outcome["wire"], &outcome["cpu_of"]),
                (&wire.into(), &"the server's core".into())
            );
            assert_eq!(outcome["congestion_control"], "cubic");
            let [ours, theirs] = [0, 1].map(|side| outcome["sides"][side]["command"].to_string());
            assert!(
                ours.contains("--route bypass") && !theirs.contains("bypass"),
                "{ours} {theirs}"
            );
        }
    }
    // Each turn has a fresh server, and a TAP of the same name.
    let mixed = ["--workload", "http-mixed", "--hit-ratio", "50", "--", "--route", "bypass"];
    let outcome = compare(&[&["fullbore", "--wire", "ethernet"], &mixed[..]].concat());
    assert_shape(&outcome["parts"][0], ["fullbore", "fullbore (2)"]);
    let refused = fullbore(&["fullbore", "--", "--route", "bypass"]).output().unwrap();
    assert!(text(&refused.stderr).contains("--wire ethernet"), "{}", text(&refused.stderr));
}

#[test]
fn viewers_are_compared_while_others_wait_for_the_disk() {
    // Many enough that each one, with its share of the rate, sends a request within the time.
    let viewers = ["--connections", "64"];
    let arguments = [&["fullbore", "--workload", "http-beside"], &viewers[..]].concat();
    let outcome = compare_for(&["3", "12", "48"], &arguments);
    assert_eq!(outcome["unit"], "slowest_first_byte_ms");
    assert_eq!(outcome["better"], "lower");
    assert!(outcome["rate_bits_per_second"].as_u64().unwrap() > 1_000_000);
    assert_shape(&outcome, ["fullbore", "fullbore (2)"]);
}

#[test]
fn viewers_who_play_are_searched_for_on_both_sides() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("outcome.json");
    // Long enough that a segment more or less at either end hardly matters.
    let few = ["--workload", "swarm", "--connections", "6", "--seconds", "4"];
    let json = ["fullbore", "--json", file.to_str().unwrap()];
    let output = {
        let _alone = alone();
        let mut tries = (0..3).map(|_| fullbore(&[&json[..], &few].concat()).output().unwrap());
        let mut output = tries.next().unwrap();
        // A server that gets no processor for a while lets even a single viewer stall.
        while text(&output.stderr).contains("not even one viewer plays") {
            let Some(next) = tries.next() else { break };
            output = next;
        }
        output
    };
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    // A machine that is busy with something else may be too slow even for six viewers; the bench then reports that.
    if said.contains("not even one viewer plays: the swarm itself was the limit") {
        assert!(output.status.code() == Some(1) && !file.exists(), "{told}{said}");
        tool::skip("six viewers who play: this machine is too busy");
        return;
    }
    assert!(output.status.success() && told.contains("viewers at 0 stalls"), "{told}{said}");
    let outcome = outcome(&file);
    assert_shape(&outcome, ["fullbore", "fullbore (2)"]);
    assert_eq!(
        (&outcome["unit"], &outcome["better"]),
        (&"viewers_per_cpu_second".into(), &"higher".into())
    );
    assert_eq!(
        (&outcome["connections"], &outcome["rate_bits_per_second"]),
        (&6.into(), &4_000_000.into())
    );
    for side in outcome["sides"].as_array().unwrap() {
        let round = &side["rounds"][0];
        // Viewers who play 4 Mb/s get about that: a segment each two seconds.
        let viewers = round["swarm"]["viewers"].as_f64().unwrap();
        assert!((1.0..=6.0).contains(&viewers), "{round:#}");
        if viewers == 6.0 {
            let each_mbps = round["gbps"].as_f64().unwrap() * 1000.0 / viewers;
            assert!((2.0..=7.0).contains(&each_mbps), "{round:#}");
            assert_eq!(round["swarm"]["at_least"], true, "{round:#}");
        }
        assert!(
            round["swarm"]["stopped_by"].is_string()
                && round["swarm"]["trials"].as_u64() >= Some(1)
        );
    }
}

#[test]
fn open_dashboards_are_told_something_on_a_server_that_has_one() {
    let outcome = compare(&["fullbore", "--workload", "http-warm", "--dashboards", "2"]);
    assert_shape(&outcome, ["fullbore", "fullbore (2)"]);
    let refused = fullbore(&["nginx", "--dashboards", "2"]).output().unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("versus fullbore"));
}

#[test]
fn a_mix_of_hot_and_cold_has_a_part_with_its_ratio_for_each_hit_ratio() {
    let outcome = compare(&["fullbore", "--workload", "mixed", "--hit-ratio", "0,100"]);
    let parts = outcome["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    for (part, hit) in parts.iter().zip([0, 100]) {
        assert_eq!(part["hit_percent"], hit);
        assert_shape(part, ["fullbore", "fullbore (2)"]);
        for round in part["sides"][0]["rounds"].as_array().unwrap() {
            let left = round["left_in_page_cache_share"].as_f64();
            match left {
                None => tool::skip("this kernel does not count cached pages"),
                Some(share) if hit == 100 => assert_eq!(share, 0.0, "nothing cold is requested"),
                // What is requested again is cached, and the bench requests a small library many times.
                Some(share) => assert!((0.0..1.5).contains(&share), "{round:#}"),
            }
        }
    }
}

#[test]
fn another_server_is_compared_by_its_command_line_and_configuration() {
    if !has("python3", "--version") {
        tool::skip("another server: apt install python3");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let template = scratch.path().join("template");
    fs::write(&template, "@PORT@ @LIBRARY@ honest").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/peer.py");
    let server = format!("sh -c \"exec python3 '{script}' $(cat @CONFIG@)\"");
    let template = template.to_str().unwrap();
    let outcome = compare(&[
        "--peer-command",
        &server,
        "--peer-config",
        template,
        "--peer-name",
        "snake",
        "--workload",
        "http-warm",
    ]);
    assert_shape(&outcome, ["fullbore", "snake"]);
}

#[test]
fn a_server_that_sends_a_wrong_byte_is_not_compared() {
    assert_refused("wrong", "wrong_bytes");
}

#[test]
fn a_server_that_sends_too_little_is_not_compared() {
    assert_refused("short", "short");
}

#[test]
fn a_server_that_ends_is_not_compared_and_its_last_words_are_shown() {
    assert_refused("refuses", "this server has had enough");
    assert_refused("ends", "this server has had enough");
}

#[test]
fn a_server_that_does_not_listen_where_it_should_is_not_compared() {
    assert_refused("elsewhere", "does not listen on 127.0.0.1:");
}

#[test]
fn a_slow_server_is_reported_as_slow() {
    if !has("python3", "--version") {
        tool::skip("a slow server: apt install python3");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("outcome.json");
    let more = ["--seconds", "4", "--json", file.to_str().unwrap()];
    let output = versus_test_server("slow", scratch.path(), &more);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let outcome = outcome(&file);
    // Data in the sockets' buffers at the beginning is added: a few chunks of each of eight connections, or what the server sent in the half second
    // before, if the clients had no processor then. Both are small compared with four seconds.
    let at_most = SLOW_PEER_GBPS * 1.5;
    for round in outcome["sides"][1]["rounds"].as_array().unwrap() {
        assert!(round["gbps"].as_f64().unwrap() <= at_most, "{round:#}");
        assert!(round["figure"].as_f64().unwrap() <= at_most, "{round:#}");
    }
    assert!(outcome["ratio"].as_f64().unwrap() > 1.0, "{outcome:#}");
}

#[test]
fn a_missing_server_is_said_with_a_way_to_get_it() {
    let tools = tempfile::tempdir().unwrap();
    for tool in ["taskset", "setpriv"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{tool}"), tools.path().join(tool)).unwrap();
    }
    for (peer, advice) in [("nginx", "apt install nginx"), ("h2o", "apt install h2o")] {
        let output = fullbore(&[peer]).env("PATH", tools.path()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains(&format!("cannot start {peer}")), "{said}");
        assert!(said.contains(advice), "{said}");
    }
    let output = fullbore(&["--peer-command", "no-such-server @PORT@"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("cannot start no-such-server"), "{said}");
}

#[test]
fn a_library_that_does_not_fit_is_refused_before_it_is_made() {
    let scratch = tempfile::tempdir().unwrap();
    let started =
        fullbore(&["fullbore", "--library", "99999999", "--scratch"]).arg(scratch.path()).output();
    let output = started.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--library"), "{}", text(&output.stderr));
    assert_nothing_left(scratch.path());
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    for arguments in [
        &["apache"][..],
        &[],
        &["nginx", "--workload", "warp"],
        &["nginx", "--peer-command", "x"],
        &["nginx", "--peer-config", "x"],
        &["nginx", "--rounds", "0"],
        &["nginx", "--client", "fetch"],
    ] {
        assert_eq!(fullbore(arguments).output().unwrap().status.code(), Some(2), "{arguments:?}");
    }
}

/// The processes that descend from one, as far as one look shows: proc(5) promises all of them only while they stand
/// still.
fn descendants(process: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut waiting = vec![process];
    while let Some(process) = waiting.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children: Vec<u32> = children.split(' ').flat_map(str::parse).collect();
            found.extend_from_slice(&children);
            waiting.extend(children);
        }
    }
    found
}

/// The processes that descend from one, once there are `count`.
fn descendants_once(count: usize, process: u32) -> Vec<u32> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = descendants(process);
        if found.len() >= count {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "not {count} processes descend from {process}: {found:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a long comparison, waits for its first rounds and sends it a signal. Returns how it ended and what it wrote,
/// once none of its servers is left.
fn end_with(
    signal: Signal,
    scratch: &Path,
    peer: &[&str],
    servers_min: usize,
) -> (Option<i32>, String) {
    let _alone = alone();
    // A machine that is busy with other tests may give a server nothing of half a second.
    let long = ["--workload", "http-warm", "--rounds", "1000", "--seconds", "2", "--scratch"];
    let mut bench = fullbore(&long)
        .arg(scratch)
        .args(peer)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(bench.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.contains("round 2")) {
        let line = progress.next();
        said.push(line.unwrap_or_else(|| panic!("it ended: {said:#?}")).unwrap());
    }
    let servers = descendants_once(servers_min, bench.id());
    kill_process(Pid::from_child(&bench), signal).unwrap();
    drop(progress);
    let output = bench.wait_with_output().unwrap();
    // The kernel signals the servers when their parent dies; they need a moment to end.
    let deadline = Instant::now() + Duration::from_secs(60);
    let alive = || servers.iter().filter(|server| is_running(**server)).count();
    while alive() > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(alive(), 0, "servers are left: {servers:?}");
    (output.status.code(), text(&output.stdout))
}

/// Neither gone nor a zombie.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn ctrl_c_ends_with_the_rounds_so_far_and_leaves_nothing() {
    if !has("python3", "--version") {
        tool::skip("Ctrl-C: apt install python3");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/peer.py");
    let server = format!("python3 '{script}' @PORT@ @LIBRARY@ honest");
    // Two servers, and a child that one of them has.
    let (code, told) = end_with(Signal::INT, scratch.path(), &["--peer-command", &server], 3);
    assert_eq!(code, Some(130), "{told}");
    assert!(told.contains("interrupted") && told.contains("ratio"), "{told}");
    assert_nothing_left(scratch.path());
}

#[test]
fn a_bench_that_is_killed_takes_its_servers_with_it() {
    let scratch = tempfile::tempdir().unwrap();
    let (code, _) = end_with(Signal::KILL, scratch.path(), &["fullbore"], 2);
    assert_eq!(code, None);
}

#[test]
fn caching_edges_take_turns_with_empty_and_with_full_caches() {
    if !has("nginx", "-v") {
        tool::skip("caching edges: apt install nginx-light, or ./run bench edge once");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("outcome.json");
    let work = tempfile::tempdir().unwrap();
    let _alone = alone();
    let output = measured(&SECONDS, &file, |seconds| {
        let mut command = Command::new(program());
        command.args(["bench", "edge", "--rounds", "1", "--seconds", seconds, "--library", "16"]);
        command.args(["--viewers", "40", "--peers", "nginx"]);
        command.arg("--scratch").arg(work.path()).arg("--json").arg(&file);
        command
    });
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}{said}");
    assert!(told.contains("ratio fullbore edge / fullbore serve"), "{told}");
    let outcome = outcome(&file);
    assert_eq!((&outcome["kind"], &outcome["tls"]), (&"edge".into(), &true.into()));
    let states = [("cold", &["fullbore edge", "nginx"][..]), ("warm", &ALL_EDGES[..])];
    for (part, (state, names)) in outcome["parts"].as_array().unwrap().iter().zip(states) {
        assert_eq!(part["state"], state);
        let sides = part["sides"].as_array().unwrap();
        assert!(sides.iter().map(|side| side["name"].as_str().unwrap()).eq(names.iter().copied()));
        assert!(sides.iter().all(|side| side["median"].as_f64().unwrap() > 0.0), "{part:#}");
        let ratios = part["ratios"].as_array().unwrap();
        assert_eq!(ratios.len(), names.len() - 1);
        assert!(ratios.iter().all(|ratio| ratio["ratio"].as_f64().unwrap() > 0.0), "{part:#}");
    }
    let trials = outcome["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3);
    for (trial, name) in trials.iter().zip(["miss", "stampede", "flaky"]) {
        assert_eq!(trial["name"], name);
        let sides = trial["sides"].as_array().unwrap();
        let names = sides.iter().map(|side| side["name"].as_str().unwrap());
        assert!(names.eq(["fullbore edge", "nginx"]), "{trial:#}");
        let rounds = sides.iter().map(|side| &side["rounds"][0]);
        assert!(rounds.clone().all(|round| round["right"].as_u64() > Some(0)), "{trial:#}");
        let first_byte = |round: &serde_json::Value| round["first_byte_ms"]["p50"].as_f64();
        // The origin's own delay, which each request of this part has to wait for.
        let has_waited = rounds.clone().all(|round| first_byte(round) >= Some(100.0));
        assert!(has_waited || name != "miss", "{trial:#}");
        // nginx's own figures don't matter here.
        let [wrong, again] = ["wrong", "ranges_asked_again"].map(|of| &sides[0]["rounds"][0][of]);
        assert_eq!((wrong, again), (&0.into(), &0.into()), "{trial:#}");
    }
    assert_nothing_left(work.path());
}

const ALL_EDGES: [&str; 3] = ["fullbore edge", "nginx", "fullbore serve"];

#[test]
fn the_start_is_measured_to_the_first_byte() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("outcome.json");
    let mut command = Command::new(program());
    command.args(["bench", "start", "--rounds", "2", "--json"]).arg(&file);
    let output = command.output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success() && said.contains("first byte served after"), "{said}");
    let outcome = outcome(&file);
    assert_eq!((&outcome["version"], &outcome["kind"]), (&1.into(), &"start".into()));
    assert_eq!(outcome["milliseconds"].as_array().unwrap().len(), 2);
    assert!(outcome["median"].as_f64().unwrap() > 0.0);
}
