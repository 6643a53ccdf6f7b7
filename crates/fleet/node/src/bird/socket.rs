//! A connection to BIRD's control socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::reply::{BirdError, BirdRoutes, LINE_BYTES_MAX, ReplyReader, RoutesReader, started};

/// A BIRD that sends nothing for this long hangs. It answers between two pieces of its work, which take less.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The most that a whole table of routes takes: 100,000 take a second or two.
const REPLY_MAX: Duration = Duration::from_secs(20);

/// BIRD's control socket, read-only.
pub(super) struct BirdSocket {
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
}

/// Why BIRD gives no routes.
#[derive(Debug)]
pub(super) enum BirdTrouble {
    /// The socket cannot be used.
    Socket(io::Error),
    /// BIRD hangs.
    Silent,
    /// Its reply cannot be used.
    Said(BirdError),
}

impl std::fmt::Display for BirdTrouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "{error}: this user may not connect to BIRD (add it to the group of bird.ctl)"
                )
            }
            Self::Socket(error) => write!(f, "{error}"),
            Self::Silent => f.write_str("BIRD does not answer"),
            Self::Said(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for BirdTrouble {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl From<BirdError> for BirdTrouble {
    fn from(error: BirdError) -> Self {
        Self::Said(error)
    }
}

impl BirdSocket {
    /// Connects, and gives up the right to change anything.
    pub(super) async fn connect(path: &Path) -> Result<Self, BirdTrouble> {
        let stream = timeout(SILENCE_MAX, UnixStream::connect(path));
        let stream = stream.await.map_err(|_| BirdTrouble::Silent)??;
        let mut own = Self { stream: BufReader::with_capacity(64 << 10, stream), line: Vec::new() };
        // BIRD greets first, with an unsolicited reply.
        own.pass().await?;
        own.send("restrict").await?;
        own.pass().await?;
        Ok(own)
    }

    /// When BIRD started, in its own words.
    pub(super) async fn started(&mut self) -> Result<String, BirdTrouble> {
        self.send("show status").await?;
        let (mut reply, mut found) = (ReplyReader::default(), String::new());
        loop {
            let line = reply.line(self.next_line().await?)?;
            let Some(line) = line else { continue };
            if let Some(since) = started(&line) {
                since.clone_into(&mut found);
            }
            if line.is_last {
                return Ok(found);
            }
        }
    }

    /// The best route to each prefix in these tables, or in BIRD's default tables.
    pub(super) async fn routes(&mut self, tables: &[String]) -> Result<BirdRoutes, BirdTrouble> {
        let reading = async {
            let mut reader = RoutesReader::default();
            let named = tables.iter().map(|table| format!("show route table {table} all primary"));
            let mut commands: Vec<_> = named.collect();
            if commands.is_empty() {
                commands.push("show route all primary".to_owned());
            }
            for command in commands {
                self.send(&command).await?;
                while !reader.line(self.next_line().await?)? {}
            }
            // Sorting many routes would block an async thread.
            let sorted = tokio::task::spawn_blocking(move || reader.routes());
            sorted.await.map_err(|error| BirdTrouble::Socket(io::Error::other(error)))
        };
        timeout(REPLY_MAX, reading).await.map_err(|_| BirdTrouble::Silent)?
    }

    async fn send(&mut self, command: &str) -> Result<(), BirdTrouble> {
        let line = format!("{command}\n");
        let sent = timeout(SILENCE_MAX, self.stream.write_all(line.as_bytes()));
        Ok(sent.await.map_err(|_| BirdTrouble::Silent)??)
    }

    /// Reads a reply and ignores its text.
    async fn pass(&mut self) -> Result<(), BirdTrouble> {
        let mut reply = ReplyReader::default();
        while !reply.line(self.next_line().await?)?.is_some_and(|line| line.is_last) {}
        Ok(())
    }

    /// The next line, without its end.
    async fn next_line(&mut self) -> Result<&[u8], BirdTrouble> {
        self.line.clear();
        let mut bounded = (&mut self.stream).take(LINE_BYTES_MAX as u64 + 1);
        let read = timeout(SILENCE_MAX, bounded.read_until(b'\n', &mut self.line));
        read.await.map_err(|_| BirdTrouble::Silent)??;
        match self.line.strip_suffix(b"\n") {
            Some(line) => Ok(line),
            None if self.line.len() > LINE_BYTES_MAX => {
                Err(BirdError::NotBird("a line has no end").into())
            }
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "BIRD hung up").into()),
        }
    }
}
