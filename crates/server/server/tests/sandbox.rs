//! The operations that a confined process can still do. Confinement cannot be undone, so each trial runs this test program again in a
//! process of its own, with [`TRIAL`] naming the trial.
//!
//! On a kernel without Landlock or seccomp these trials are skipped, loudly.

use config::Config;
use delivery::KernelOffload;
use fullbore_server::notify::notify;
use fullbore_server::sandbox::{SandboxReport, confine_calls, confine_files};
use reactor::{Fd, Reactor, RingOptions, op};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

const TRIAL: &str = "FULLBORE_SANDBOX_TRIAL";
const ROOM: &str = "FULLBORE_SANDBOX_ROOM";

/// The folders of a trial: a library and a state directory.
struct Room(PathBuf);

impl Room {
    fn library(&self) -> PathBuf {
        self.0.join("library")
    }

    fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    fn config(&self) -> Config {
        Config { library: vec![self.library()], state: self.state(), ..Config::default() }
    }
}

/// Runs `trial` confined, in a process of its own. Call it with the name of the calling test.
fn confined(test: &str, trial: impl FnOnce(&Room)) {
    confined_with(test, &[], trial);
}

fn confined_with(test: &str, environment: &[(&str, &str)], trial: impl FnOnce(&Room)) {
    if std::env::var(TRIAL).is_ok_and(|name| name == test) {
        return trial(&Room(std::env::var_os(ROOM).unwrap().into()));
    }
    let room = tempfile::tempdir().unwrap();
    for (folder, file) in [("library", "film"), ("state", "pair"), ("elsewhere", "secret")] {
        std::fs::create_dir(room.path().join(folder)).unwrap();
        std::fs::write(room.path().join(folder).join(file), file).unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(TRIAL, test)
        .env(ROOM, room.path())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| line.contains("SKIPPED")) {
        // Not by eprintln!, which is hidden if the test passes.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "the trial {test} did not run: {said}");
}

/// Confines files as the server does; false if this kernel cannot.
fn files_confined(room: &Room) -> bool {
    let report = confine_files(&room.config(), KernelOffload::default());
    said(&report, "files confined")
}

/// Confines calls as the server does; false if this kernel cannot.
fn calls_confined() -> bool {
    let mut report = SandboxReport::default();
    confine_calls(&mut report, KernelOffload::default());
    said(&report, "seccomp")
}

fn said(report: &SandboxReport, what: &str) -> bool {
    let report = report.to_string();
    if !report.contains(what) {
        fullbore_tests::tool::skip(&format!(
            "{report}: this kernel cannot be tried; run on Linux 6.7 or newer"
        ));
    }
    report.contains(what)
}

fn is_denied<T: std::fmt::Debug>(result: io::Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn files_outside_the_library_stay_closed_and_those_inside_open() {
    confined("files_outside_the_library_stay_closed_and_those_inside_open", |room| {
        if !files_confined(room) {
            return;
        }
        assert_eq!(std::fs::read(room.library().join("film")).unwrap(), b"film");
        assert_eq!(std::fs::read_dir(room.library()).unwrap().count(), 1);
        assert_eq!(errno(File::open("/etc/passwd")), Some(libc::EACCES));
        is_denied(File::open(room.0.join("elsewhere/secret")));
        is_denied(std::fs::read_dir("/"));
        is_denied(File::open("/proc/1/status"));
    });
}

#[test]
fn the_library_cannot_be_written() {
    confined("the_library_cannot_be_written", |room| {
        if !files_confined(room) {
            return;
        }
        is_denied(File::options().write(true).open(room.library().join("film")));
        is_denied(File::create(room.library().join("new")));
        is_denied(std::fs::remove_file(room.library().join("film")));
    });
}

#[test]
fn the_self_signed_pair_can_be_made_anew_by_renaming() {
    confined("the_self_signed_pair_can_be_made_anew_by_renaming", |room| {
        if !(files_confined(room) && calls_confined()) {
            return;
        }
        let pair = room.state().join("pair");
        std::fs::create_dir_all(room.state()).unwrap();
        files::replace(&pair, b"new", 0o600).unwrap();
        assert_eq!(std::fs::read(&pair).unwrap(), b"new");
    });
}

#[test]
fn what_is_open_stays_usable() {
    confined("what_is_open_stays_usable", |room| {
        use std::io::Write;
        let log = room.0.join("elsewhere/log");
        let mut open = File::options().create(true).append(true).open(&log).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _viewer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        if !(files_confined(room) && calls_confined()) {
            return;
        }
        open.write_all(b"line\n").unwrap();
        let _accepted = listener.accept().unwrap();
        is_denied(File::open(&log));
    });
}

#[test]
fn what_the_server_needs_of_proc_can_be_read() {
    confined("what_the_server_needs_of_proc_can_be_read", |room| {
        use std::os::fd::AsRawFd;
        if !(files_confined(room) && calls_confined()) {
            return;
        }
        // How the server opens a file a second time, for direct reads.
        let film = File::open(room.library().join("film")).unwrap();
        File::open(format!("/proc/self/fd/{}", film.as_raw_fd())).unwrap();
        assert!(!std::fs::read("/proc/self/statm").unwrap().is_empty());
        assert!(!std::fs::read("/proc/sys/kernel/hostname").unwrap().is_empty());
    });
}

#[test]
fn the_ring_opens_no_more_than_the_thread_may() {
    confined("the_ring_opens_no_more_than_the_thread_may", |room| {
        if !files_confined(room) {
            return;
        }
        let options = RingOptions { submission_entries: 8, completion_entries: 8 };
        let reactor = Reactor::new(options).unwrap();
        if !calls_confined() {
            return;
        }
        let film = room.library().join("film");
        let results = reactor.run(async move {
            let root = rustix::fs::open("/", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
            let root = Fd::from(root.unwrap());
            let film = ring_open(&root, &film).await.map(drop);
            (film, ring_open(&root, Path::new("/etc/passwd")).await.map(drop))
        });
        let (film, outside) = results.unwrap();
        film.unwrap();
        assert_eq!(errno(outside), Some(libc::EACCES));
    });
}

async fn ring_open(root: &Fd, path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let (result, _opening) = op::open_at(root, path, libc::O_RDONLY | libc::O_CLOEXEC, 0).await;
    op::opened(result)
}

#[test]
fn nothing_can_be_executed_and_nobody_new_be_listened_to_or_called() {
    confined("nothing_can_be_executed_and_nobody_new_be_listened_to_or_called", |_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        if !calls_confined() {
            return;
        }
        use std::os::unix::process::CommandExt;
        assert_eq!(Command::new("/bin/true").exec().raw_os_error(), Some(libc::EPERM));
        assert_eq!(errno(TcpStream::connect(address)), Some(libc::EPERM));
        assert_eq!(errno(TcpListener::bind("127.0.0.1:0")), Some(libc::EPERM));
        assert_eq!(errno(UdpSocket::bind("127.0.0.1:0")), Some(libc::EPERM));
        assert!(Reactor::new(RingOptions::default()).is_err());
    });
}

#[test]
fn landlock_alone_denies_tcp_sockets_made_through_whatever_call() {
    confined("landlock_alone_denies_tcp_sockets_made_through_whatever_call", |room| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let report = confine_files(&room.config(), KernelOffload::default());
        if !said(&report, "no new TCP") {
            return;
        }
        assert_eq!(errno(TcpStream::connect(address)), Some(libc::EACCES));
        assert_eq!(errno(TcpListener::bind("127.0.0.1:0")), Some(libc::EACCES));
    });
}

#[test]
fn memory_cannot_become_executable() {
    confined("memory_cannot_become_executable", |_| {
        if !calls_confined() {
            return;
        }
        let map = |protection| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping, placed by the kernel.
            unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) }
        };
        assert_eq!(map(libc::PROT_READ | libc::PROT_EXEC), libc::MAP_FAILED);
        let page = map(libc::PROT_READ | libc::PROT_WRITE);
        assert_ne!(page, libc::MAP_FAILED);
        // SAFETY: the page was mapped above, and nothing else uses it.
        let protected = |protection| unsafe { libc::mprotect(page, 4096, protection) };
        assert_eq!(protected(libc::PROT_READ | libc::PROT_EXEC), -1);
        assert_eq!(protected(libc::PROT_READ), 0);
    });
}

#[test]
fn threads_that_exist_and_threads_to_come_are_confined() {
    confined("threads_that_exist_and_threads_to_come_are_confined", |room| {
        if !files_confined(room) {
            return;
        }
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let existing = std::thread::spawn(move || {
            wait.recv().unwrap();
            (TcpListener::bind("127.0.0.1:0").map(drop), File::open("/etc/passwd").map(drop))
        });
        if !calls_confined() {
            return;
        }
        go.send(()).unwrap();
        let (listener, file) = existing.join().unwrap();
        assert_eq!(errno(listener), Some(libc::EPERM));
        assert_eq!(errno(file), Some(libc::EACCES));
        let later = std::thread::spawn(|| TcpListener::bind("127.0.0.1:0").map(drop));
        assert_eq!(errno(later.join().unwrap()), Some(libc::EPERM));
    });
}

#[test]
fn a_kernel_that_confines_nothing_is_told_of_and_put_up_with() {
    confined("a_kernel_that_confines_nothing_is_told_of_and_put_up_with", |room| {
        if let Err(error) = take_confinement_away() {
            return fullbore_tests::tool::skip(&format!(
                "this kernel has no seccomp to take calls away: {error}"
            ));
        }
        let mut report = confine_files(&room.config(), KernelOffload::default());
        confine_calls(&mut report, KernelOffload::default());
        let report = report.to_string();
        assert!(report.contains("files not confined (this kernel has no Landlock)"), "{report}");
        assert!(report.contains("system calls not filtered"), "{report}");
        File::open("/etc/passwd").unwrap();
    });
}

/// From here on the kernel appears to have neither Landlock nor seccomp.
fn take_confinement_away() -> Result<(), seccompiler::Error> {
    let missing = [libc::SYS_landlock_create_ruleset, libc::SYS_seccomp];
    let rules = missing.into_iter().map(|call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}

#[test]
fn the_service_manager_is_told_on_a_socket_with_a_path() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    tells_the_manager("the_service_manager_is_told_on_a_socket_with_a_path", &path, &manager);
}

#[test]
fn the_service_manager_is_told_on_an_abstract_socket() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("fullbore-sandbox-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let test = "the_service_manager_is_told_on_an_abstract_socket";
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    tells_the_manager(test, Path::new(&format!("@{name}")), &manager);
}

fn tells_the_manager(test: &str, socket: &Path, manager: &UnixDatagram) {
    if std::env::var_os(TRIAL).is_some() {
        return confined(test, |room| {
            let _ = files_confined(room) && calls_confined();
            notify("READY=1");
        });
    }
    confined_with(test, &[("NOTIFY_SOCKET", socket.to_str().unwrap())], |_| {});
    let mut heard = [0; 16];
    manager.set_nonblocking(true).unwrap();
    let bytes = manager.recv(&mut heard).unwrap();
    assert_eq!(&heard[..bytes], b"READY=1");
}

#[test]
fn a_panic_still_prints_where_it_came_through() {
    let test = "a_panic_still_prints_where_it_came_through";
    if std::env::var_os(TRIAL).is_some() {
        return confined(test, |room| {
            let _ = files_confined(room) && calls_confined();
            let panicked = std::thread::spawn(|| panic!("told")).join();
            assert!(panicked.is_err());
        });
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .envs([(TRIAL, test), (ROOM, "/nonexistent"), ("RUST_BACKTRACE", "1")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("told"), "{said}");
    assert!(said.contains("sandbox::"), "no function is named: {said}");
}
