//! Pebble, Let's Encrypt's test server, with its name server. Both have addresses of this process on the loopback network.

use fullbore_tests::{Plain, tool, until};
use rcgen::{CertificateParams, KeyPair, SanType};
use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use tempfile::TempDir;

/// The ports of one Pebble, counted from its first one.
const DIRECTORY: u16 = 0;
const MANAGEMENT: u16 = 1;
const NAMES: u16 = 2;
const NAMES_MANAGEMENT: u16 = 3;
const HTTP: u16 = 4;
const NOBODY: u16 = 5;
const HTTPS: u16 = 6;
const PORTS: u16 = 10;

/// A running Pebble and its name server, which resolves every name to this Pebble's address. Both are ended when dropped.
pub(crate) struct Pebble {
    children: Vec<Child>,
    first_port: u16,
    folder: TempDir,
}

impl Pebble {
    /// Starts it. If there is none on this machine, reports that and returns `None`.
    pub(crate) fn if_here() -> Option<Self> {
        Self::if_here_and_waits(0)
    }

    /// As [`Self::if_here`], but it waits up to this many seconds before it checks a challenge.
    pub(crate) fn if_here_and_waits(seconds: u32) -> Option<Self> {
        let wanted = [("pebble", "pebble"), ("pebble-challtestsrv", "pebble"), ("curl", "curl")];
        tool::are_here(&wanted).then(|| Self::start(seconds, None))
    }

    /// As [`Self::if_here`], but it accepts only accounts bound to this key, given by its name and in base64.
    pub(crate) fn if_here_and_binds(key: (&str, &str)) -> Option<Self> {
        let wanted = [("pebble", "pebble"), ("pebble-challtestsrv", "pebble"), ("curl", "curl")];
        tool::are_here(&wanted).then(|| Self::start(0, Some(key)))
    }

    fn start(waits_seconds: u32, binds_to: Option<(&str, &str)>) -> Self {
        // No connection gets such a port.
        static NEXT: AtomicU16 = AtomicU16::new(22_000);
        let first_port = NEXT.fetch_add(PORTS, Ordering::Relaxed);
        let folder = tempfile::tempdir().unwrap();
        let mut pebble = Self { children: Vec::new(), first_port, folder };
        pebble.write_certificate();
        let config = serde_json::json!({ "pebble": {
            "listenAddress": pebble.at(DIRECTORY).to_string(),
            "managementListenAddress": pebble.at(MANAGEMENT).to_string(),
            "certificate": pebble.file("own.pem"),
            "privateKey": pebble.file("own.key"),
            "httpPort": pebble.at(HTTP).port(),
            "tlsPort": pebble.at(HTTPS).port(),
            "ocspResponderURL": "",
            "externalAccountBindingRequired": binds_to.is_some(),
            "externalAccountMACKeys": binds_to.into_iter().collect::<HashMap<_, _>>(),
        } });
        fs::write(pebble.file("config.json"), config.to_string()).unwrap();
        pebble.run_names();
        pebble.run(waits_seconds);
        pebble
    }

    fn run(&mut self, waits_seconds: u32) {
        let mut command = tool::command("pebble");
        command.arg("-config").arg(self.file("config.json"));
        command.args(["-dnsserver", &self.at(NAMES).to_string()]);
        // Each certificate has two chains.
        command.env("PEBBLE_ALTERNATE_ROOTS", "1");
        // It would wait up to 15 s before it checks a challenge.
        match waits_seconds {
            0 => command.env("PEBBLE_VA_NOSLEEP", "1"),
            seconds => command.env("PEBBLE_VA_SLEEPTIME", seconds.to_string()),
        };
        self.spawn(command, DIRECTORY);
    }

    fn run_names(&mut self) {
        let mut command = tool::command("pebble-challtestsrv");
        command.args(["-dns01", &self.at(NAMES).to_string()]);
        command.args(["-management", &self.at(NAMES_MANAGEMENT).to_string()]);
        command.args(["-defaultIPv4", &host().to_string(), "-defaultIPv6", ""]);
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", ""]);
        self.spawn(command, NAMES_MANAGEMENT);
    }

    fn spawn(&mut self, mut command: std::process::Command, port: u16) {
        let log = fs::File::create(self.file(&format!("{port}.log"))).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(Stdio::from(log));
        self.children.push(command.spawn().unwrap());
        let address = self.at(port);
        until("Pebble to listen", || TcpStream::connect(address).is_ok());
    }

    fn write_certificate(&self) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([]).unwrap();
        parameters.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(host()))];
        let certificate = parameters.self_signed(&key).unwrap();
        fs::write(self.file("own.pem"), certificate.pem()).unwrap();
        fs::write(self.file("own.key"), key.serialize_pem()).unwrap();
    }

    fn at(&self, port: u16) -> SocketAddr {
        (host(), self.first_port + port).into()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The section of a server's configuration that uses it, for these names, with additional lines.
    pub(crate) fn section(&self, domains: &[&str], lines: &str) -> String {
        let (directory, roots) = (self.at(DIRECTORY), self.file("own.pem"));
        format!(
            "[tls.acme]\ndomains = {domains:?}\ndirectory = \"https://{directory}/dir\"\nroots = {roots:?}\n{lines}\n"
        )
    }

    /// The address where it checks answers over HTTP.
    pub(crate) fn http(&self) -> SocketAddr {
        self.at(HTTP)
    }

    /// An address where a server may serve viewers.
    pub(crate) fn https(&self) -> SocketAddr {
        self.at(HTTPS)
    }

    /// An address without a listener.
    pub(crate) fn nobody(&self) -> SocketAddr {
        self.at(NOBODY)
    }

    /// The root of its certificates, fetched from it.
    pub(crate) fn root(&self) -> PathBuf {
        self.root_of_chain(0)
    }

    /// As [`Self::root`], for the authority's first chain (0) or its second (1).
    pub(crate) fn root_of_chain(&self, number: usize) -> PathBuf {
        let root = self.file(&format!("root{number}.pem"));
        let mut curl = tool::command("curl");
        curl.args(["-fsS", "--cacert"]).arg(self.file("own.pem")).arg("-o").arg(&root);
        let ran = tool::run(curl.arg(format!("https://{}/roots/{number}", self.at(MANAGEMENT))));
        assert!(ran.success, "{}", ran.stderr);
        root
    }

    /// Makes the name server resolve the host `name` to another address without a listener, which it returns.
    pub(crate) fn mislead(&self, name: &str) -> Ipv4Addr {
        let elsewhere = Ipv4Addr::new(127, 2, 0, 9);
        let said = serde_json::json!({ "host": format!("{name}."), "addresses": [elsewhere] });
        let mut curl = tool::command("curl");
        curl.args(["-fsS", "-d", &said.to_string()]);
        let ran = tool::run(curl.arg(format!("http://{}/add-a", self.at(NAMES_MANAGEMENT))));
        assert!(ran.success, "{}", ran.stderr);
        elsewhere
    }

    /// A hook program that sets the name server's records, and notes each of its calls in the file `calls`.
    pub(crate) fn hook(&self) -> PathBuf {
        let (hook, calls) = (self.file("hook"), self.file("calls"));
        let script = format!(
            "#!/bin/sh\necho \"$1 $2 $3\" >>{}\n\
             case $1 in present) verb=set ;; cleanup) verb=clear ;; esac\n\
             exec curl -fsS -d \"{{\\\"host\\\":\\\"$3.\\\",\\\"value\\\":\\\"$4\\\"}}\" http://{}/$verb-txt\n",
            calls.display(),
            self.at(NAMES_MANAGEMENT)
        );
        fs::write(&hook, script).unwrap();
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        hook
    }

    /// The hook's calls.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.children {
            // `timeout` passes it on.
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(child),
                fullbore_tests::Signal::TERM,
            );
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.file("0.log")).unwrap_or_default();
            eprintln!("Pebble said: {log}");
        }
    }
}

/// This process's own address on the loopback network.
fn host() -> Ipv4Addr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}

/// Sends a request to the server's listener for challenges over plain HTTP.
pub(crate) fn ask(address: SocketAddr, path: &str) -> (u16, String) {
    let mut plain = Plain::connect(address);
    let response = plain.fetch(path);
    (response.status, response.head)
}
