//! Operators' mistakes: one sentence that says what to do, and an exit code other than 0.

use crate::house::{Fleet, node_of};
use fullbore_tests::{program, tool, until};
use serde_json::{Value, json};

/// One fleet for everything. It has no node, because none of this reaches one.
#[test]
fn what_cannot_be_done_is_said_and_is_a_failure() {
    let fleet = Fleet::start(&[], 4);
    fleet.control(&["invite", "--cluster", "c", "--site", "s", "--region", "r"]);
    for (words, code, said) in [
        ("explain 1.2.3 nothing", 2, "write one such as 192.0.2.7"),
        ("explain 192.0.2.1 nothing", 1, "\"nothing\" was never published"),
        ("where nothing", 1, "\"nothing\" was never published"),
        ("gateways remove g9", 1, "there is no gateway \"g9\""),
        // They used to be dropped, and the request went to another gateway.
        ("gateways --admin http://127.0.0.1:1 remove g9", 2, "cannot be used with"),
        // The error used to ask only for --none, which removes pins.
        ("pin film", 2, "--everywhere <COPIES>"),
        ("pin film --everywhere 0", 2, "a number of copies"),
        ("allow s", 2, "--all"),
        ("publish film", 2, "--origin"),
        ("publish film --origin ftp://a", 2, "file:///FOLDER, s3://BUCKET/PREFIX or https://"),
        ("announce s /nowhere/file", 1, "/nowhere/file: cannot read it"),
        ("announce s /bin/true", 1, "/bin/true: it is not text: write a prefix on each line"),
        ("allow s --file /bin/true", 1, "/bin/true: it is not text: write a prefix on each line"),
        ("invite --cluster c --expires 0s", 1, "for 1 second to 30 days"),
        // It had no effect.
        ("invite --cluster c --site s --region other", 1, "site s is in region r, not other"),
        ("invite --cluster d --site s --region other", 1, "site s is in region r, not other"),
    ] {
        let ran = fleet.control_ends(&words.split(' ').collect::<Vec<_>>());
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(code) && stderr.contains(said), "{words}: {stderr}");
        assert!(ran.stdout.is_empty(), "{words}: {}", String::from_utf8_lossy(&ran.stdout));
    }
    let with_tls = fleet.admin.replace("http://", "https://");
    for (admin, said) in [
        (&*with_tls, "begin its address with http://"),
        (&*fleet.url, "is it a gateway's admin listener?"),
        ("http://127.0.0.1:1", "cannot reach the gateway at http://127.0.0.1:1"),
    ] {
        let ran = fleet.control_at(admin, &["nodes"]);
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(1) && stderr.contains(said), "{admin}: {stderr}");
    }
}

/// A gateway used to be `ready`, and in the list of all gateways, before it noticed that its host is invalid. A backup of a missing folder created
/// it, and so did a restore of a missing file.
#[test]
fn what_is_mistyped_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for (words, code, said) in [
        (
            "control backup FOLDER/b --state FOLDER/none",
            2,
            "there is no store in FOLDER/none/store",
        ),
        ("control backup - --state FOLDER/none", 2, "not written to standard output"),
        ("fleet simulate --json FOLDER/a --html FOLDER/a", 2, "both name FOLDER/a"),
        ("fleet simulate --json -", 2, "not to standard output"),
        ("fleet simulate --html FOLDER/none/a", 1, "cannot write FOLDER/none/a"),
        ("control restore FOLDER/b --state FOLDER/none", 1, "cannot read FOLDER/b"),
        ("control serve --state FOLDER/g --host https://a", 2, "without scheme and port"),
        ("control serve --state FOLDER/g --host a:8702", 2, "without scheme and port"),
        ("control serve --state FOLDER/g --host a --node-port 0", 2, "a port from 1 to 65535"),
        ("control serve --state FOLDER/g --host a --public-url a", 2, "such as https://tv.example"),
        ("control nodes --state FOLDER/none", 2, "or the gateway's folder with --state"),
        ("join https://a --host b:80 --token x --state FOLDER/n", 2, "without scheme and port"),
        ("node --state FOLDER/n --library FOLDER/l --library FOLDER/l", 1, "twice"),
    ] {
        let own = folder.path().to_str().unwrap();
        let (words, said) = (words.replace("FOLDER", own), said.replace("FOLDER", own));
        let mut command = tool::command(program().to_str().unwrap());
        let ran = tool::run(command.args(words.split(' ')));
        assert!(ran.code == Some(code) && ran.stderr.contains(&said), "{words}: {}", ran.stderr);
        assert_eq!(std::fs::read_dir(own).unwrap().count(), 0, "{words} made something");
    }
}

/// Its server's flags and the fleet's policy are two settings on two machines, and nothing used to report a difference.
#[test]
fn a_box_that_serves_where_no_viewer_is_sent_says_so() {
    let fleet = Fleet::start(&["a"], 4);
    let node = &fleet.nodes[0];
    let mut policy = fleet.api("GET", "/api/v1/policy", &Value::Null);
    policy.as_object_mut().expect("an object").remove("version");
    let own = json!({ "scheme": "http", "port": policy["port"] });
    let send_to = |scheme: &str| {
        let mut policy = policy.clone();
        policy["scheme"] = scheme.into();
        fleet.api("PUT", "/api/v1/policy", &policy);
    };
    let shown = || fleet.node(&node.name)["served_at"].clone();
    let in_status = || -> Value {
        let status = std::fs::read(node.state.join("agent.json")).unwrap_or_default();
        serde_json::from_slice::<Value>(&status).unwrap_or_default()["server"]["served_at"].clone()
    };
    assert_eq!((shown(), in_status()), (Value::Null, Value::Null));
    send_to("https");
    let log = &node.agent.stderr;
    log.wait_for(&format!("sends viewers to this box by https at port {}", own["port"]));
    until("its status to say so", || in_status() == own);
    until("the gateway to say so", || shown() == own);
    let on_page = || node_of(&fleet.page(), &node.name)["served_at"].clone();
    until("the page to say so", || on_page() == own);
    // A proxy in front of it may do TLS.
    assert_eq!(fleet.node(&node.name)["not_me"], json!([]));
    send_to("http");
    log.wait_for("the fleet now sends viewers to the address that this box's server serves");
    until("the gateway to say nothing", || shown() == Value::Null);
}
