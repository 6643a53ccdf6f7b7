//! `fullbore config diff`: asks the running server what an upgrade would change.

use crate::stage::Stage;
use fullbore_tests::{program, tool, until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

/// Asks as an upgrade with the same arguments would.
fn diff(stage: &Stage, options: &[&str], more: &str) -> (i32, String, String) {
    let mut command = Command::new(program());
    command.args(["config", "diff"]).args(options).args(stage.arguments(more));
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn what_an_upgrade_would_change_is_told_and_after_it_nothing_is() {
    let stage = Stage::new("--tls off");
    let mut server = stage.launch().start();
    assert_eq!(diff(&stage, &[], ""), (0, String::new(), String::new()));
    stage.configure("admin_hosts = [\"video.example\"]\n[timeouts]\nhold_seconds = 0.3\n[tls]\nhsts_seconds = 60");
    let expected = "admin_hosts: [] -> [\"video.example\"] (takes an upgrade)\n\
                    timeouts.hold_seconds: 0.25 -> 0.3 (takes an upgrade)\n\
                    tls.hsts_seconds: 0 -> 60 (has no effect: not in use)\n";
    assert_eq!(diff(&stage, &[], ""), (1, expected.to_owned(), String::new()));
    let (code, document, _) = diff(&stage, &["--json"], "--workers 1");
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let changes = document["changes"].as_array().unwrap();
    assert_eq!((code, changes.len()), (1, 4), "{document}");
    assert_eq!(changes[3]["key"], "workers");
    assert_eq!(changes[3]["configured"], 1);
    assert!(server.is_running());
    stage.upgrade("");
    // The new server owns the upgrade socket as soon as the old one has released it.
    until("the new server to be asked", || diff(&stage, &[], "").0 == 0);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let stage = Stage::new("--tls off");
    let (code, shown, said) = diff(&stage, &[], "");
    assert!(code == 2 && shown.is_empty() && said.contains("no server answers at"), "{said}");
    let _server = stage.launch().start();
    stage.configure("no_such_key = 1");
    let (code, _, said) = diff(&stage, &[], "");
    assert!(code == 2 && said.contains("no_such_key"), "{said}");
    assert_eq!(diff(&stage, &[], "--no-such-flag").0, 2);
}

#[test]
fn nobody_else_is_told() {
    if !rustix::process::geteuid().is_root() || !tool::are_here(&[("setpriv", "util-linux")]) {
        return tool::skip("only root can be two users");
    }
    let stage = Stage::new("--tls off --workers 1");
    for folder in ["", "library", "state"] {
        let path = stage.path(folder);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    // Not the user of any other test: the kernel bounds the memory of all rings of a user.
    let user = 20_000 + std::process::id() % 20_000;
    let user = format!("setpriv --reuid={user} --regid={user} --clear-groups");
    let _server = stage.launch().under(&user).start();
    let (code, shown, said) = diff(&stage, &[], "");
    assert!(code == 2 && shown.is_empty() && said.contains("only the user who runs it"), "{said}");
}
