//! A gateway whose configuration file makes it use TLS with all clients, with certificates from openssl.

use crate::house::Running;
use fullbore_tests::{PATIENCE, Signal, free_port, program, tool, within};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn openssl(folder: &Path, words: &str) {
    let mut command = tool::command("openssl");
    let ran = tool::run(command.current_dir(folder).args(words.split_whitespace()));
    assert!(ran.success, "{words}: {}", ran.stderr);
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

fn authority(folder: &Path, name: &str) {
    openssl(
        folder,
        &format!("req -x509 {KEY} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"),
    );
}

/// Signs `name.pem` with its key in `name.key`.
fn sign(folder: &Path, authority: &str, name: &str, extensions: &str) {
    std::fs::write(folder.join("extensions"), format!("basicConstraints=CA:FALSE\n{extensions}\n"))
        .unwrap();
    openssl(folder, &format!("req -new {KEY} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
    let signed = "-days 2 -CAcreateserial -extfile extensions";
    openssl(
        folder,
        &format!(
            "x509 -req {signed} -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -out signed.tmp"
        ),
    );
    // Whole or not at all, as renewal tools do it.
    std::fs::rename(folder.join("signed.tmp"), folder.join(format!("{name}.pem"))).unwrap();
}

const OF_GATEWAYS: &str = "extendedKeyUsage=serverAuth\nsubjectAltName=IP:127.0.0.1";
const OF_OPERATORS: &str = "extendedKeyUsage=clientAuth";

/// A folder with certificates and a file that names them.
struct Place {
    folder: TempDir,
    public: u16,
    admin: u16,
}

impl Place {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (public, admin) = (free_port(), free_port());
        authority(folder.path(), "web");
        authority(folder.path(), "people");
        sign(folder.path(), "web", "gw", OF_GATEWAYS);
        let own = Self { folder, public, admin };
        let cert = own.path("gw.pem").display().to_string();
        let key = own.path("gw.key").display().to_string();
        let (state, people) = (own.path("state"), own.path("people.pem"));
        let text = format!(
            "state = {state:?}\nmachines = \"127.0.0.1:0\"\npublic = \"127.0.0.1:{public}\"\nadmin = \"127.0.0.1:{admin}\"\n\
             public_cert = {cert:?}\npublic_key = {key:?}\nadmin_cert = [{cert:?}]\nadmin_key = [{key:?}]\noperators_ca = {people:?}\n"
        );
        std::fs::write(own.path("gateway.toml"), text).unwrap();
        own
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self, more: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(["control", "serve", "--config"]).arg(self.path("gateway.toml")).args(more);
        command
    }

    fn start(&self) -> Running {
        let running = Running::start(&mut self.serve(&[]));
        let ready = running.stdout.wait_for("ready ");
        let (public, admin) = (self.public, self.admin);
        let wanted =
            format!("ready https://127.0.0.1:{public}/ (admin https://127.0.0.1:{admin}/)");
        assert_eq!(ready, wanted);
        running
    }

    /// An operator on another machine, without the gateway's folder.
    fn control(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("control").args(words).args(["--json", "--state", "/nonexistent"]);
        command.env("FULLBORE_ADMIN", format!("https://127.0.0.1:{}", self.admin));
        command.env("FULLBORE_CA", self.path("web.pem"));
        command
    }
}

fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&[ran.stdout.as_slice(), &ran.stderr].concat()).into_owned()
}

fn are_here() -> bool {
    tool::are_here(&[("openssl", "openssl"), ("curl", "curl")])
}

#[test]
fn operators_command_a_gateway_over_tls_by_certificate_or_token() {
    if !are_here() {
        return;
    }
    let place = Place::make();
    let mut gateway = place.start();
    for name in ["admin", "eve"] {
        sign(place.folder.path(), "people", name, OF_OPERATORS);
    }
    let (cert, key) = (place.path("admin.pem"), place.path("admin.key"));
    let by_flags =
        place.control(&["nodes"]).arg("--cert").arg(&cert).arg("--key").arg(&key).output().unwrap();
    assert!(by_flags.status.success(), "{}", said(&by_flags));
    let by_environment = place
        .control(&["nodes"])
        .env("FULLBORE_CERT", &cert)
        .env("FULLBORE_KEY", &key)
        .output()
        .unwrap();
    assert!(by_environment.status.success(), "{}", said(&by_environment));
    let token = place.path("state/admin.token");
    let by_token = place.control(&["nodes"]).arg("--token-file").arg(token).output().unwrap();
    assert!(by_token.status.success(), "{}", said(&by_token));
    for (more, code, why) in [
        (vec!["--cert", "eve.pem", "--key", "eve.key"], 1, "eve, who is not an operator"),
        (vec!["--cert", "eve.pem"], 2, "--key"),
        (vec!["--cert", "eve.pem", "--key", "admin.key"], 2, "does not belong to the certificate"),
        (vec!["--cert", "admin.pem", "--key", "admin.key", "--ca", "people.pem"], 1, "--ca"),
        (
            vec!["--cert", "admin.pem", "--key", "admin.key", "--admin", "http://127.0.0.1:1"],
            2,
            "https://",
        ),
        (vec![], 2, "--token-file"),
    ] {
        let ran = place
            .control(&["nodes"])
            .args(&more)
            .current_dir(place.folder.path())
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(code), "{more:?}: {}", said(&ran));
        assert!(said(&ran).contains(why), "{more:?}: {}", said(&ran));
    }
    assert!(gateway.end(), "{:?}", gateway.stderr.lines());
}

#[test]
fn certificates_are_loaded_again_when_they_change_and_on_sighup() {
    if !are_here() {
        return;
    }
    let place = Place::make();
    let gateway = place.start();
    let hears = |what: &str, count: usize| {
        within(PATIENCE, what, || {
            let lines = gateway.stderr.lines();
            (lines.iter().filter(|line| line.contains(what)).count() >= count).then_some(())
        });
    };
    let works = |authority: &str| {
        let mut curl = tool::command("curl");
        curl.args(["-sS", "-o", "/dev/null", "--max-time", "60", "--cacert"])
            .arg(place.path(authority));
        tool::run(curl.arg(format!("https://127.0.0.1:{}/watch", place.public))).success
    };
    assert!(works("web.pem"));
    // Half of a renewal: the key does not belong to the certificate.
    std::fs::copy(place.path("people.key"), place.path("gw.key")).unwrap();
    hears("public listener: ", 1);
    hears("stay in use", 2);
    gateway.signal(Signal::HUP);
    hears("stay in use", 4);
    assert!(works("web.pem"));
    authority(place.folder.path(), "new");
    sign(place.folder.path(), "new", "gw", OF_GATEWAYS);
    hears("certificates reloaded because they changed on disk", 2);
    assert!(works("new.pem") && !works("web.pem"));
    gateway.signal(Signal::HUP);
    hears("certificates reloaded on request", 2);
    // Both versions, and both protocols of HTTP, as openssl sees it.
    for (words, expected) in [
        ("-tls1_2 -alpn http/1.1", ["TLSv1.2", "ALPN protocol: http/1.1"]),
        ("-tls1_3 -alpn h2,http/1.1", ["TLSv1.3", "ALPN protocol: h2"]),
    ] {
        let mut client = tool::command("openssl");
        client.args(["s_client", "-connect", &format!("127.0.0.1:{}", place.public), "-CAfile"]);
        let ran = tool::run(client.arg(place.path("new.pem")).args(words.split(' ')));
        let text = ran.text();
        assert!(expected.iter().all(|part| text.contains(part)), "{words}: {text}");
        assert!(text.contains("Verify return code: 0"), "{words}: {text}");
    }
    let mut client = tool::command("openssl");
    client.args(["s_client", "-tls1_1", "-connect", &format!("127.0.0.1:{}", place.public)]);
    assert!(!tool::run(&mut client).success, "TLS 1.1");
}

#[test]
fn a_second_gateway_does_not_get_the_folder_of_the_first() {
    if !are_here() {
        return;
    }
    let place = Place::make();
    let running = place.start();
    let elsewhere = "--public 127.0.0.1:0 --machines 127.0.0.1:0 --admin 127.0.0.1:0";
    let elsewhere: Vec<_> = elsewhere.split(' ').collect();
    let second = place.serve(&elsewhere).output().unwrap();
    assert_eq!(second.status.code(), Some(1), "{}", said(&second));
    assert!(said(&second).contains("another gateway uses this folder"), "{}", said(&second));
    drop(running);
    place.start();
}

#[test]
fn mistakes_in_the_file_are_told_before_anything_starts() {
    if !are_here() {
        return;
    }
    let place = Place::make();
    let text = std::fs::read_to_string(place.path("gateway.toml")).unwrap();
    let plain =
        text.lines().filter(|line| !line.starts_with("admin_") && !line.starts_with("operators"));
    let plain = plain.collect::<Vec<_>>().join("\n");
    for (text, more, why) in [
        (format!("{text}pubilc = 1\n"), &[][..], "pubilc"),
        (format!("{text}signed = \"yes\"\n"), &[], "signed"),
        (plain, &["--admin", "0.0.0.0:0"], "--admin-behind-tls"),
        (text.replace("admin_key", "# admin_key"), &[], "--admin-key"),
        (text.replace("gw.key", "web.key"), &[], "does not belong to the certificate"),
    ] {
        std::fs::write(place.path("gateway.toml"), text).unwrap();
        let ran = place.serve(more).output().unwrap();
        let code = if why.starts_with("does") { 1 } else { 2 };
        assert_eq!(ran.status.code(), Some(code), "{why}: {}", said(&ran));
        assert!(said(&ran).contains(why), "{why}: {}", said(&ran));
        assert!(!place.path("state").exists(), "{why}: something was made");
    }
    let missing = Command::new(program())
        .args(["control", "serve", "--config", "/nonexistent"])
        .output()
        .unwrap();
    assert!(
        missing.status.code() == Some(2) && said(&missing).contains("/nonexistent"),
        "{}",
        said(&missing)
    );
}
