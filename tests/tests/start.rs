//! Starting: help, wrong usage, and everything that can prevent a start, each with its exit code and one line that says
//! what to do.

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Launch, Plain, Server, certificate, program};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::{TempDir, tempdir};

/// Runs the program with these arguments to its end.
fn fullbore(arguments: &[&str]) -> Ran {
    let program = program().to_str().expect("cargo's folders have plain names");
    tool::run(tool::command(program).args(arguments))
}

/// Runs `serve` on its own ports with these additional arguments, to its end.
fn serve(arguments: &[&str]) -> Ran {
    arguments.iter().fold(Launch::bare(), Launch::argument).run()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// Checks that it failed with `code`, never became ready, and printed one line that contains all of `parts`.
fn assert_fails(ran: &Ran, code: i32, parts: &[&str]) {
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    assert!(ran.stdout.is_empty(), "{}", ran.text());
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{part:?} is not in: {}", ran.stderr);
    }
}

#[test]
fn every_verb_has_help() {
    let all = fullbore(&["--help"]);
    assert!(all.success);
    let said = all.text();
    let verbs = said.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs: Vec<&str> = verbs
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(verbs.contains(&"serve"), "{said}");
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        let help = fullbore(&[verb, "--help"]);
        assert!(help.success && help.text().contains("Usage: fullbore"), "{verb}: {}", help.stderr);
    }
}

#[test]
fn the_command_line_reference_names_every_flag() {
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/serve.md");
    let reference = fs::read_to_string(reference).unwrap();
    let help = fullbore(&["serve", "--help"]).text();
    let flags = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
    for flag in flags.map(|word| word.trim_end_matches(|c: char| !c.is_alphanumeric())) {
        assert!(reference.contains(flag), "docs/serve.md does not know {flag}");
    }
}

#[test]
fn wrong_usage_is_exit_2() {
    let cases = [
        &["serve", "--no-such-flag"][..],
        &["no-such-verb"],
        &["serve", "--listen", "nonsense"],
        &["serve", "--tls", "maybe"],
        &["serve", "--off", "warp"],
        &["serve", "--cert", "only-one-half.pem"],
    ];
    for arguments in cases {
        let ran = fullbore(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{arguments:?}");
    }
    let said = fullbore(&["serve", "--listen", "8443"]).stderr;
    assert!(said.contains("\"8443\" is not") && said.contains("such as 127.0.0.1:8443"), "{said}");
}

/// A configuration file with this text.
fn config(text: &str) -> (TempDir, String) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("fullbore.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn a_bad_configuration_is_exit_2_and_says_where() {
    let cases = [
        ("workers = 1\nlisten = 7\n", &["fullbore.toml", "line 2", "listen"][..]),
        ("[net]\nwindow = 3\n", &["fullbore.toml", "line 2", "window"]),
        ("[net]\nwindow = 3\n", &["there is no setting `window` here, only `backlog`"]),
        ("workers = \n", &["fullbore.toml", "line 1"]),
        ("workers = \"two\"\n", &["line 1", "the text \"two\"; write a whole number"]),
        ("listen = \"8443\"\n", &["line 1", "such as \"127.0.0.1:8443\""]),
        ("[limits]\nhead_bytes_max = 1\n", &["limits.head_bytes_max"]),
        ("library = \"\"\n", &["library has \"\"; write the path of a folder"]),
        ("access_log = \"\"\n", &["access_log has \"\"; write the path of a file"]),
        (
            "page_url = \"tv.example.org\"\n",
            &["page_url has", "such as \"https://tv.example.org\""],
        ),
    ];
    for (text, parts) in cases {
        let (_folder, path) = config(text);
        for arguments in
            [&["serve", "--config", &path][..], &["serve", "--config", &path, "--check"]]
        {
            let ran = fullbore(arguments);
            assert_eq!(ran.code, Some(2), "{text}: {}", ran.stderr);
            assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
            for part in parts {
                assert!(ran.stderr.contains(part), "{part:?} is not in: {}", ran.stderr);
            }
        }
    }
    for path in ["/nowhere/fullbore.toml", "/dev/zero"] {
        assert_fails(&fullbore(&["serve", "--config", path]), 2, &[path]);
    }
}

#[test]
fn the_configuration_in_the_manual_serves() {
    let manual =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/serve.md")).unwrap();
    let section =
        manual.split("\n## Configuration file\n").nth(1).expect("the manual has that section");
    let section = section.split("\n## ").next().unwrap().lines();
    let settings: Vec<&str> = section.filter_map(|line| line.strip_prefix("    ")).collect();
    assert!(settings.len() > 30, "{settings:?}");
    let (_folder, path) = config(&settings.join("\n"));
    let library = tempdir().unwrap();
    // As printed, except for the ports and the state directory, which another test may use.
    let server = Launch::of(library.path()).argument("--config").argument(&path).start();
    assert!(server.url.starts_with("https://"), "{}", server.url);
    assert_eq!(Plain::connect(server.admin).fetch("/healthz").status, 200);
}

/// Without a screen, the user is at another machine: the printed address must be one that others can reach.
#[test]
fn the_address_that_is_printed_suits_who_reads_it() {
    let library = tempdir().unwrap();
    fs::write(library.path().join("a.txt"), "a film").unwrap();
    let start = |screen: &str| {
        let launch = Launch::of(library.path()).listen("[::]:0").arguments("--tls off");
        launch.variable("WAYLAND_DISPLAY", "").variable("DISPLAY", screen).start()
    };
    let seen = start(":0");
    assert!(seen.url.starts_with("http://localhost:"), "{}", seen.url);
    let unseen = start("");
    let lines = unseen.stdout.lines();
    let others: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("also ")).collect();
    if others.is_empty() {
        tool::skip("the rest: this machine has no address but loopback");
        assert!(unseen.url.contains("localhost"), "{}", unseen.url);
        return;
    }
    assert!(!unseen.address.ip().is_loopback(), "{}", unseen.url);
    assert!(others.iter().any(|url| url.contains("//localhost:")), "{others:?}");
    assert_eq!(Plain::connect(unseen.address).fetch("/a.txt").body, b"a film");
}

#[test]
fn check_says_ok_to_what_would_start_and_no_to_what_would_not() {
    let library = tempdir().unwrap();
    let good = serve(&[text(library.path()), "--check"]);
    assert!(good.success && good.text() == "ok\n", "{}{}", good.text(), good.stderr);
    let (_folder, path) = config(&format!("library = {:?}\nworkers = 1\n", library.path()));
    assert!(serve(&["--config", &path, "--check"]).success);
    assert_fails(&serve(&["/nowhere/films", "--check"]), 1, &["/nowhere/films"]);
    let missing = ["--cert", "/nowhere/c.pem", "--key", "/nowhere/k.pem", "--check"];
    assert_fails(&serve(&missing), 1, &["/nowhere/c.pem"]);
    let log = [text(library.path()), "--access-log", "/nowhere/access.log", "--check"];
    assert_fails(&serve(&log), 1, &["/nowhere/access.log", "its directory is there"]);
    for check in [&["--check"][..], &[]] {
        let twice = ["serve", text(library.path()), "--listen", "[::]:7", "--admin", "127.0.0.1:7"];
        let ran = fullbore(&[&twice[..], check].concat());
        assert_fails(&ran, 2, &["admin has \"127.0.0.1:7\"; write an address with another port"]);
    }
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_refused_with_those_that_it_has() {
    let library = tempdir().unwrap();
    let (_folder, path) = config(&format!(
        "library = {:?}\n[net]\ncongestion_control = \"no-such\"\n",
        library.path()
    ));
    // Every kernel has reno.
    let parts = ["net.congestion_control = \"no-such\" is not available here", "reno"];
    assert_fails(&serve(&["--config", &path, "--check"]), 1, &parts);
    assert_fails(&serve(&["--config", &path]), 1, &parts);
}

#[test]
fn a_library_that_is_missing_or_no_folder_is_named() {
    assert_fails(&serve(&["/nowhere/films"]), 1, &["/nowhere/films"]);
    assert_fails(&serve(&["/dev/null"]), 1, &["/dev/null", "not a directory"]);
}

#[test]
fn a_library_that_the_user_may_not_enter_is_named() {
    if !rustix::process::geteuid().is_root() || !tool::are_here(&[("setpriv", "util-linux")]) {
        tool::skip("this needs root, to become another user");
        return;
    }
    let library = tempdir().unwrap();
    fs::set_permissions(library.path(), Permissions::from_mode(0o700)).unwrap();
    for flag in ["--tls=off", "--check"] {
        let nobody = Launch::bare().under("setpriv --reuid=65534 --regid=65534 --clear-groups");
        let ran = nobody.argument(text(library.path())).argument(flag).run();
        assert_fails(&ran, 1, &[text(library.path()), "Permission denied", "permissions"]);
    }
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    if !tool::are_here(&[("openssl", "openssl"), ("mkfifo", "coreutils")]) {
        return;
    }
    let (library, keys) = (tempdir().unwrap(), tempdir().unwrap());
    let one = certificate(keys.path(), "one.example", "ec");
    let other = certificate(keys.path(), "other.example", "ec");
    let garbage = keys.path().join("garbage.pem");
    fs::write(&garbage, "this is no certificate").unwrap();
    let missing = keys.path().join("missing.pem");
    // It has no writer, so a reader would wait forever.
    let pipe = keys.path().join("pipe.pem");
    assert!(tool::run(tool::command("mkfifo").arg(&pipe)).success);
    let endless = Path::new("/dev/zero").to_owned();
    let cases = [
        (&missing, &one.key, &missing),
        (&one.cert, &missing, &missing),
        (&garbage, &one.key, &garbage),
        (&one.cert, &garbage, &garbage),
        (&one.cert, &other.key, &other.key),
        (&pipe, &one.key, &pipe),
        (&one.cert, &pipe, &pipe),
        (&endless, &one.key, &endless),
    ];
    for (cert, key, culprit) in cases {
        let arguments = [text(library.path()), "--cert", text(cert), "--key", text(key)];
        assert_fails(&serve(&arguments), 1, &[text(culprit)]);
    }
}

#[test]
fn the_number_of_workers_is_as_asked() {
    let library = tempdir().unwrap();
    for count in [1, 3] {
        let server = Server::start(library.path(), &format!("--tls off --workers {count}"));
        assert!(server.stdout.wait_for("workers ").contains(&format!(" {count}, io_uring")));
        let (_, status) = server.admin_page("/status.json");
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["workers"].as_array().map(Vec::len), Some(count));
    }
}

#[test]
fn what_it_suggests_to_play_is_not_an_empty_file() {
    let library = tempdir().unwrap();
    for (name, content) in [("a.mp4", ""), ("b.mp4", "x"), ("c.mp4", "")] {
        fs::write(library.path().join(name), content).unwrap();
    }
    let server = Server::start(library.path(), "--tls off");
    for line in ["play      ffplay", "fetch     curl"] {
        let said = server.stdout.wait_for(line);
        assert!(said.ends_with("/b.mp4"), "{said}");
    }
}

/// Behind a proxy, people open the proxy's address, and a program that waits for the server needs the server's.
#[test]
fn links_for_people_begin_with_the_page_url() {
    let library = tempdir().unwrap();
    fs::write(library.path().join("a.mp4"), "x").unwrap();
    let (_folder, path) = config("page_url = \"https://tv.example.org/\"\n");
    let launch = Launch::of(library.path()).arguments("--tls off");
    let server = launch.argument("--config").argument(&path).start();
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    for line in [
        "public    https://tv.example.org/",
        "          file  https://tv.example.org/a.mp4",
        "play      ffplay https://tv.example.org/a.mp4",
        "fetch     curl -O https://tv.example.org/a.mp4",
    ] {
        assert_eq!(server.stdout.wait_for(line), line);
    }
}

#[test]
fn without_a_library_a_sample_is_made_once() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg")]) {
        return;
    }
    let state = tempdir().unwrap();
    let title = state.path().join("sample-library/sample");
    let start = || {
        // Encoding a minute of film takes 20 s on two idle cores, and these may be busy.
        let patience = Duration::from_secs(400);
        Launch::bare().arguments("--tls off").state(state.path()).patience(patience).start()
    };
    let server = start();
    for line in ["master.m3u8", "manifest.mpd", "play      ffplay http", "fetch     curl "] {
        server.stdout.wait_for(line);
    }
    assert_eq!(Plain::connect(server.address).fetch("/sample/master.m3u8").status, 200);
    let made = fs::metadata(&title).unwrap().modified().unwrap();
    drop(server);
    let server = start();
    assert_eq!(Plain::connect(server.address).fetch("/sample/manifest.mpd").status, 200);
    assert_eq!(fs::metadata(&title).unwrap().modified().unwrap(), made, "it was made again");
}
