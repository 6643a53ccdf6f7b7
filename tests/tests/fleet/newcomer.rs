//! `./run fleet`, as a newcomer starts it.

use crate::house::{Running, get};
use fullbore_tests::{Signal, program, tool, within};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// It makes a film first.
const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn one_command_starts_a_fleet_that_plays_a_film() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("ffprobe", "ffmpeg"), ("curl", "curl")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(top.join("run"));
    command.arg("fleet").arg(folder.path()).env("FULLBORE", program());
    for (name, port) in
        ["FLEET_NODE_PORT", "FLEET_PUBLIC_PORT", "FLEET_ADMIN_PORT", "FLEET_MACHINES_PORT"]
            .iter()
            .zip(19_443..)
    {
        command.env(name, port.to_string());
    }
    command.env("FLEET_FILM_MINUTES", "1");
    let run = Running::start(&mut command);
    let ready = within(PATIENCE, "the fleet", || run.stdout.line_with("ready "));
    let url = ready["ready ".len()..].trim_end_matches('/').to_owned();
    let (status, titles) = get(&format!("{url}/api/v1/titles"));
    assert!(status == 200 && titles.contains("sample-1"), "{titles}");
    let (_, route) = get(&format!("{url}/api/v1/route?title=sample-1"));
    assert_eq!(route.matches("\"node\":").count(), 3, "{route}");
    for manifest in ["master.m3u8", "manifest.mpd"] {
        let mut probe = tool::command("ffprobe");
        probe.args(["-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0"]);
        let ran = tool::run(probe.arg(format!("{url}/play/sample-1/{manifest}")));
        assert!(
            ran.success && ran.text().starts_with("60"),
            "{manifest}: {}{}",
            ran.text(),
            ran.stderr
        );
    }
    run.signal(Signal::TERM);
    within(Duration::from_secs(60), "the fleet to end", || (get(&url).0 == 0).then_some(()));
}
