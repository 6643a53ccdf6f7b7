//! Attacks by slow clients, with slowhttptest.

use std::process::{Child, Command, Stdio};

/// slowhttptest's flags for slow heads, slow bodies, endless ranges, and slow reading.
const MODES: [&[&str]; 4] = [
    &["-H", "-i", "2"],
    &["-B", "-i", "2", "-s", "1000000"],
    &["-R", "-a", "10", "-b", "3000"],
    &["-X", "-n", "1", "-w", "10", "-y", "20", "-z", "5", "-k", "3"],
];

/// One slowhttptest against one listener, for 12 seconds. Dropping it ends it.
pub struct SlowAttack(Child);

impl SlowAttack {
    /// Starts one for each mode, with this many connections, of which `per_second` begin in a second.
    ///
    /// # Panics
    /// If slowhttptest is missing.
    pub fn in_all_modes(url: &str, connections: u32, per_second: u32) -> Vec<Self> {
        let bounds = format!("-c {connections} -r {per_second} -l 12 -p 3 -u {url}");
        let start = |mode: &&[&str]| {
            let mut command = Command::new("slowhttptest");
            command.args(*mode).args(bounds.split(' ')).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            Self(command.spawn().expect("slowhttptest starts"))
        };
        MODES.iter().map(start).collect()
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If the system doesn't report a child's state.
    pub fn is_over(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_some()
    }
}

impl Drop for SlowAttack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
