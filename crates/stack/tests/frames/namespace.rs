//! Network namespaces: each belongs to a thread, and disappears with it.

use std::process::Command;
use std::sync::mpsc::{Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own.
pub(crate) struct Namespace {
    jobs: Sender<Job>,
    thread_id: i32,
}

impl Namespace {
    /// A new one, with its loopback interface up; `None` if this process may not make any.
    pub(crate) fn new() -> Option<Self> {
        let (jobs, inbox) = channel::<Job>();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            // SAFETY: only this thread's network namespace changes, on which no memory depends.
            let made = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
            let thread_id = rustix::thread::gettid().as_raw_nonzero().get();
            if tell.send(made.then_some(thread_id)).is_ok() && made {
                inbox.into_iter().for_each(|job| job());
            }
        });
        let Some(thread_id) = told.recv().unwrap() else {
            eprintln!("SKIPPED: network namespaces need root");
            return None;
        };
        let namespace = Self { jobs, thread_id };
        // Addresses are usable at once, including link-local ones, from which routers ask for their neighbours.
        namespace.set("ipv6/conf/all/accept_dad", "0");
        namespace.set("ipv6/conf/default/accept_dad", "0");
        namespace.ip("link set lo up");
        Some(namespace)
    }

    /// Runs a job in it, and waits for the result.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.start(job).recv().expect("what ran in the namespace has panicked")
    }

    /// Starts a job in it; its result can be received. Later jobs wait for it.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> std::sync::mpsc::Receiver<T> {
        let (tell, told) = channel();
        let job = Box::new(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            if let Ok(result) = result {
                let _ = tell.send(result);
            }
        });
        self.jobs.send(job).unwrap();
        told
    }

    /// Runs `ip ARGUMENTS` in it.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        self.command("ip", arguments)
    }

    /// Runs a command in it.
    pub(crate) fn command(&self, program: &'static str, arguments: &str) -> String {
        let arguments = arguments.to_owned();
        self.run(move || {
            let output = Command::new(program).args(arguments.split(' ')).output();
            let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
            assert!(output.status.success(), "{program} {arguments}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
    }

    /// Writes into a file below `/proc/sys/net`.
    pub(crate) fn set(&self, name: &str, value: &'static str) {
        let path = format!("/proc/sys/net/{name}");
        self.run(move || std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}")));
    }

    /// Moves a network card here. It comes back to the program's namespace shortly after this one is gone.
    pub(crate) fn take_card(&self, name: &str) {
        let thread_id = self.thread_id.to_string();
        let is_taken = (0..200).any(|_| {
            let output =
                Command::new("ip").args(["link", "set", name, "netns", &thread_id]).output();
            let is_taken = output.expect("there is `ip`").status.success();
            if !is_taken {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            is_taken
        });
        assert!(is_taken, "there is no network card {name}");
    }

    /// The number by which `ip link ... netns` knows it.
    pub(crate) fn thread_id(&self) -> i32 {
        self.thread_id
    }
}
