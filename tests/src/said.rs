//! A running program's output, line by line, while it runs.

use crate::wait::eventually;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Long enough for a busy machine to read what is in a pipe.
const REST_WITHIN: Duration = Duration::from_secs(10);

/// The lines of one of a program's outputs so far.
#[derive(Clone, Default)]
pub struct Said {
    lines: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicBool>,
}

impl Said {
    /// Reads `output` on a thread that ends with it.
    pub fn listen(output: impl Read + Send + 'static) -> Self {
        let said = Self::default();
        let (lines, ended) = (Arc::clone(&said.lines), Arc::clone(&said.ended));
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                lines.lock().expect("no holder of this lock can panic").push(text);
                line.clear();
            }
            ended.store(true, Ordering::Release);
        });
        said
    }

    /// Every line so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no holder of this lock can panic").clone()
    }

    /// Whether the output has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Waits for the last lines of a process that has ended: they may still be in the pipe. Not forever, because another process may keep the
    /// output open.
    pub fn wait_for_rest(&self) {
        let deadline = Instant::now() + REST_WITHIN;
        while !self.has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The first line that contains `part`, if there is one yet.
    pub fn line_with(&self, part: &str) -> Option<String> {
        self.lines().into_iter().find(|line| line.contains(part))
    }

    /// Waits for a line that contains `part`.
    ///
    /// # Panics
    /// If none comes.
    pub fn wait_for(&self, part: &str) -> String {
        eventually(&format!("a line with {part:?}"), || self.line_with(part))
    }
}
