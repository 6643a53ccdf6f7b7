//! Network namespaces of the tests' own. Each is a thread that has left for one, and the processes that it starts; the kernel
//! takes all of it apart when they have ended.

use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

type Errand = Box<dyn FnOnce() + Send>;

/// A namespace, and the thread that runs errands there.
pub(crate) struct Space {
    errands: Option<Sender<Errand>>,
    thread: Option<JoinHandle<()>>,
    thread_id: i32,
}

impl Space {
    /// A new one, its loopback up. `None`, and why on standard error, where this process may not make any.
    pub(crate) fn new() -> Option<Self> {
        let (errands, to_do) = channel::<Errand>();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let flags = rustix::thread::UnshareFlags::NEWNET;
            // SAFETY: only the network namespace of this thread is left, which no memory and no descriptor depends on.
            let left = unsafe { rustix::thread::unshare_unsafe(flags) };
            let is_there = left.is_ok();
            tell.send(left.map(|()| rustix::thread::gettid().as_raw_nonzero().get())).unwrap();
            if is_there {
                to_do.into_iter().for_each(|errand| errand());
            }
        });
        match told.recv().unwrap() {
            Ok(thread_id) => {
                let space = Self { errands: Some(errands), thread: Some(thread), thread_id };
                space.ip("link set lo up");
                Some(space)
            }
            Err(error) => {
                eprintln!("SKIPPED: no network namespace to be had ({error}): run as root");
                None
            }
        }
    }

    /// Runs `errand` there and waits for it. Sockets that it makes and processes that it starts are there for good.
    #[track_caller]
    pub(crate) fn run<R: Send + 'static>(&self, errand: impl FnOnce() -> R + Send + 'static) -> R {
        let (tell, told) = channel();
        let errand = Box::new(move || drop(tell.send(errand())));
        self.errands.as_ref().expect("it is taken only in drop").send(errand).unwrap();
        told.recv().expect("the errand panicked; its message is above")
    }

    /// Runs a command there to its end.
    #[track_caller]
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        self.run(move || command.output()).unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    /// Runs a command there, which has to succeed; what it wrote.
    #[track_caller]
    pub(crate) fn succeed(&self, program: &str, arguments: &[&str]) -> Vec<u8> {
        let Output { status, stdout, stderr } = self.output(program, arguments);
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{program} {arguments:?}: {status}: {said}");
        stdout
    }

    /// `ip`, its arguments separated by spaces.
    #[track_caller]
    pub(crate) fn ip(&self, arguments: &str) {
        self.succeed("ip", &arguments.split(' ').collect::<Vec<_>>());
    }

    /// How others name it, for `ip link ... netns`.
    pub(crate) fn name(&self) -> String {
        self.thread_id.to_string()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        drop(self.errands.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a tool is here; says so if not.
pub(crate) fn is_here(tool: &str, package: &str) -> bool {
    let is_here = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !is_here {
        eprintln!("SKIPPED: there is no {tool}: apt install {package}");
    }
    is_here
}
