//! What operators get who are mistaken: one sentence that says what to do, and an exit code that is not 0.

use crate::house::{Fleet, node_of};
use fullbore_tests::{program, tool, until};
use serde_json::{Value, json};

/// A backup of a folder that is not there made it, and so did a restore of a file that is not there.
#[test]
fn what_is_mistyped_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for (words, code, said) in [
        (
            "control backup FOLDER/b --state FOLDER/none",
            2,
            "there is no store in FOLDER/none/store",
        ),
        ("control restore FOLDER/b --state FOLDER/none", 1, "cannot read FOLDER/b"),
    ] {
        let own = folder.path().to_str().unwrap();
        let (words, said) = (words.replace("FOLDER", own), said.replace("FOLDER", own));
        let mut command = tool::command(program().to_str().unwrap());
        let ran = tool::run(command.args(words.split(' ')));
        assert!(ran.code == Some(code) && ran.stderr.contains(&said), "{words}: {}", ran.stderr);
        assert_eq!(std::fs::read_dir(own).unwrap().count(), 0, "{words} made something");
    }
}

/// Its server's flags and the fleet's policy are two settings on two machines, and nothing said when they differ.
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
    let page = node_of(&fleet.page(), &node.name);
    assert_eq!(page["served_at"], own, "{page}");
    // Something in front of it may do TLS.
    assert_eq!(fleet.node(&node.name)["not_me"], json!([]));
    send_to("http");
    log.wait_for("the fleet sends viewers to where this box's server serves");
    until("the gateway to say nothing", || shown() == Value::Null);
}
