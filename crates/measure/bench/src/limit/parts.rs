//! Each part alone: on the server's core, with the server's sizes, in CPU seconds of its thread.

use super::fill_parts::skip_records;
use super::sockets::Sink;
use crate::library::Library;
use crate::versus::Workload;
use disk::{Heat, Policy, ReadMode, Reader};
use reactor::{
    Pool, PoolOptions, Reactor, RingOptions, copy_streaming, sleep, spawn, tasks_live, yield_now,
};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::client::{ClientHandshake, ClientOptions, ClientProgress, ClientTls, Trust};
use tls::{
    Handshake, Opener, PLAINTEXT_MAX, Progress, RECORD_BYTES_MAX, SealError, Sealer, Suite,
    TlsContext, TlsOptions, TlsVersions,
};

/// How much the server reads at once for a viewer who takes everything (`net.window_bytes_max`).
pub(super) const WINDOW_BYTES: usize = 512 << 10;

/// Connections, as for the server in the same run.
pub(super) const CONNECTIONS: usize = 8;

/// Reads in flight when reading from disk: two per connection.
const READS_IN_FLIGHT: usize = 16;

/// Number of windows. Together they take 512 MiB, more than almost any processor's caches hold.
const UNCACHED_WINDOWS: usize = 1024;

/// Bytes at a time for a viewer who takes only what it plays.
const PACED_BYTES: usize = 64 << 10;

/// A part of serving or of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    SealAes128,
    SealAes256,
    SealChaCha20,
    SealHot,
    SealPaced,
    SealCold,
    SealStreamed,
    ReadWarm,
    ReadOnce,
    ReadDirect,
    Send,
    Sendfile,
    SendPaced,
    Pipeline,
    Open,
    Sha256,
    WriteDirect,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) gbps_per_cpu_second: f64,
    /// Rate by the wall clock. For the disk, this is what it delivers.
    pub(crate) gbps: f64,
}

impl Rate {
    pub(crate) fn of(bytes: usize, wall: Duration, cpu: Duration) -> Self {
        let gigabits = bytes as f64 * 8e-9;
        Self {
            gbps_per_cpu_second: gigabits / cpu.as_secs_f64(),
            gbps: gigabits / wall.as_secs_f64(),
        }
    }
}

impl Part {
    pub(crate) const ALL: [Part; 17] = [
        Self::SealAes128,
        Self::SealAes256,
        Self::SealChaCha20,
        Self::SealHot,
        Self::SealPaced,
        Self::SealCold,
        Self::SealStreamed,
        Self::ReadWarm,
        Self::ReadOnce,
        Self::ReadDirect,
        Self::Send,
        Self::Sendfile,
        Self::SendPaced,
        Self::Pipeline,
        Self::Open,
        Self::Sha256,
        Self::WriteDirect,
    ];

    /// The parts from which `fullbore plan` computes a core's rate.
    pub(crate) const PLANNED: [Part; 8] = [
        Self::SealAes128,
        Self::SealHot,
        Self::SealPaced,
        Self::ReadWarm,
        Self::ReadDirect,
        Self::Send,
        Self::Sendfile,
        Self::SendPaced,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SealAes128 => "seal aes128-gcm",
            Self::SealAes256 => "seal aes256-gcm",
            Self::SealChaCha20 => "seal chacha20",
            Self::SealHot => "seal from hot set",
            Self::SealPaced => "seal for viewers",
            Self::SealCold => "seal to cold memory",
            Self::SealStreamed => "the same, streamed",
            Self::ReadWarm => "read warm",
            Self::ReadOnce => "read once",
            Self::ReadDirect => "read direct",
            Self::Send => "send",
            Self::Sendfile => "sendfile",
            Self::SendPaced => "send to viewers",
            Self::Pipeline => "pipeline",
            Self::Open => "open aes128-gcm",
            Self::Sha256 => "sha-256",
            Self::WriteDirect => "write direct",
        }
    }

    /// A description for people.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::SealAes128 => {
                "TLS 1.3 records of 16 KiB from a warm buffer into another, AES-128-GCM"
            }
            Self::SealAes256 => "the same with AES-256-GCM",
            Self::SealChaCha20 => "the same with ChaCha20-Poly1305",
            Self::SealHot => {
                "AES-128-GCM from memory beyond the caches into a warm buffer, as from the hot set"
            }
            Self::SealPaced => {
                "the same, 64 KiB at a time for each of 1,000 viewers, with a key and a place of its own"
            }
            Self::SealCold => {
                "AES-128-GCM from a warm buffer into memory beyond the caches, as for a device that reads it later"
            }
            Self::SealStreamed => {
                "into a warm block of 16 KiB, from there into such memory past the caches (non-temporal stores)"
            }
            Self::ReadWarm => {
                "512 KiB at a time out of the page cache, as the server does under `auto`"
            }
            Self::ReadOnce => {
                "from disk through the page cache, leaving nothing in it (RWF_DONTCACHE)"
            }
            Self::ReadDirect => "from disk past the page cache (O_DIRECT), 16 reads in flight",
            Self::Send => {
                "a warm buffer into eight loopback connections, as much at a time as TCP takes"
            }
            Self::Sendfile => {
                "the page cache into eight loopback connections, with the server's calls for each window"
            }
            Self::SendPaced => {
                "a warm buffer to 1,000 viewers at 4 Mb/s, who request ranges as players do"
            }
            Self::Pipeline => {
                "read warm, seal, send in a bare loop: the chain without a server around it"
            }
            Self::Open => {
                "TLS 1.3 records of 16 KiB, AES-128-GCM, opened in place, as a fill gets them"
            }
            Self::Sha256 => "blocks of 4 MiB in memory, as a fill compares them",
            Self::WriteDirect => "blocks of 4 MiB to disk past the page cache, one after the other",
        }
    }
}

/// The cores and files that parts are measured with.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) library: Arc<Library>,
    pub(crate) scratch: PathBuf,
    pub(crate) cpu: u32,
    pub(crate) sink_cpu: u32,
    pub(crate) seconds: f64,
}

impl Stage {
    /// Runs one turn, on its own thread that is pinned to the server's core.
    ///
    /// # Errors
    /// If the part fails.
    ///
    /// # Panics
    /// If the part panics.
    pub(crate) fn measure(&self, part: Part) -> io::Result<Rate> {
        match part {
            Part::ReadOnce | Part::ReadDirect => self.library.prepare(0)?,
            _ => self.library.prepare(self.library.files)?,
        }
        let stage = self.clone();
        let thread = std::thread::Builder::new().name(part.name().to_owned());
        let turn = thread.spawn(move || {
            pin(stage.cpu)?;
            match part {
                Part::SealAes128 => stage.seal(Suite::Aes128Gcm, 1),
                Part::SealAes256 => stage.seal(Suite::Aes256Gcm, 1),
                Part::SealChaCha20 => stage.seal(Suite::ChaCha20Poly1305, 1),
                Part::SealHot => stage.seal(Suite::Aes128Gcm, UNCACHED_WINDOWS),
                Part::SealPaced => stage.seal_for_viewers(),
                Part::SealCold => stage.seal_to_cold(false),
                Part::SealStreamed => stage.seal_to_cold(true),
                Part::ReadWarm => stage.read(Policy::Auto, 1),
                Part::ReadOnce => stage.read(Policy::Always(ReadMode::Dontcache), READS_IN_FLIGHT),
                Part::ReadDirect => stage.read(Policy::Always(ReadMode::Direct), READS_IN_FLIGHT),
                Part::Send => stage.send(),
                Part::Sendfile => stage.sendfile(),
                Part::SendPaced => stage.send_paced(),
                Part::Pipeline => stage.pipeline(),
                Part::Open => stage.open(),
                Part::Sha256 => Ok(stage.sha256()),
                Part::WriteDirect => stage.write_direct(),
            }
        })?;
        turn.join().expect("a part does not panic")
    }

    pub(super) fn timer(&self) -> Timer {
        Timer::start(Duration::from_secs_f64(self.seconds))
    }

    /// Encrypts `windows` windows in turn, again and again.
    fn seal(&self, suite: Suite, windows: usize) -> io::Result<Rate> {
        let mut sealer = self.sealer(suite)?;
        let plaintext = vec![7; windows * WINDOW_BYTES];
        let mut sealed = vec![0; sealed_bytes(&sealer)];
        let timer = self.timer();
        let mut bytes = 0;
        for window in plaintext.chunks_exact(WINDOW_BYTES).cycle() {
            if timer.is_over() {
                break;
            }
            sealer.seal(window, &mut sealed).map_err(io::Error::other)?;
            bytes += WINDOW_BYTES;
        }
        Ok(timer.rate(bytes))
    }

    /// Encrypts for each of many viewers in turn. Their keys together exceed the first-level caches, and their positions are spread over
    /// memory.
    fn seal_for_viewers(&self) -> io::Result<Rate> {
        let viewers = Workload::Viewers.connections();
        let tls = self.tls()?;
        let sealers = (0..viewers).map(|_| Ok(ends(&tls, Suite::Aes128Gcm)?.0));
        let mut sealers = sealers.collect::<io::Result<Vec<_>>>()?;
        let plaintext = vec![7; UNCACHED_WINDOWS * WINDOW_BYTES];
        let places = plaintext.len() / PACED_BYTES;
        let mut sealed = vec![0; sealed_bytes(&sealers[0])];
        let timer = self.timer();
        let mut bytes = 0;
        for pass in 0.. {
            for (index, sealer) in sealers.iter_mut().enumerate() {
                // Each viewer continues at its own position, as far from the others' as there is room.
                let place = (index * places / viewers + pass) % places * PACED_BYTES;
                sealer
                    .seal(&plaintext[place..place + PACED_BYTES], &mut sealed)
                    .map_err(io::Error::other)?;
                bytes += PACED_BYTES;
            }
            if timer.is_over() {
                break;
            }
        }
        Ok(timer.rate(bytes))
    }

    /// Encrypts a window again and again, each time to another place in memory that no cache holds; `streamed` chooses non-temporal stores.
    fn seal_to_cold(&self, streamed: bool) -> io::Result<Rate> {
        let mut sealer = self.sealer(Suite::Aes128Gcm)?;
        let plaintext = vec![7; WINDOW_BYTES];
        // Written once up front, so that all pages exist.
        let mut cold = vec![1; UNCACHED_WINDOWS * sealed_bytes(&sealer)];
        let mut block = vec![0; RECORD_BYTES_MAX];
        let timer = self.timer();
        let mut bytes = 0;
        while !timer.is_over() {
            for sealed in cold.chunks_exact_mut(sealed_bytes(&sealer)) {
                let made = match streamed {
                    true => seal_streamed(&mut sealer, &plaintext, &mut block, sealed),
                    false => sealer.seal(&plaintext, sealed).map(drop),
                };
                made.map_err(io::Error::other)?;
                bytes += WINDOW_BYTES;
                if timer.is_over() {
                    break;
                }
            }
        }
        Ok(timer.rate(bytes))
    }

    /// A sealer like the server's, from an in-memory handshake.
    fn sealer(&self, suite: Suite) -> io::Result<Sealer> {
        Ok(self.ends(suite)?.0)
    }

    /// The server's sealer and its client's opener, from such a handshake.
    pub(super) fn ends(&self, suite: Suite) -> io::Result<(Sealer, Opener)> {
        ends(&self.tls()?, suite)
    }

    fn tls(&self) -> io::Result<TlsContext> {
        TlsContext::load(TlsOptions::new(self.scratch.join("state"))).map_err(io::Error::other)
    }

    /// Reads through the server's own reader.
    fn read(&self, policy: Policy, in_flight: usize) -> io::Result<Rate> {
        let reactor = Reactor::new(RingOptions::default())?;
        let library = Arc::clone(&self.library);
        let timer = self.timer();
        reactor.run(async move {
            let buffer_bytes = WINDOW_BYTES + 2 * disk::DIRECT_ALIGNMENT;
            let options = PoolOptions {
                buffer_bytes,
                count: in_flight,
                register: true,
                fifo: false,
                large_pages: true,
            };
            let reader = Rc::new(Reader::new(Pool::new(options)?, policy, Heat::new(1 << 30)));
            let files: Vec<_> = (0..library.files)
                .map(|file| {
                    disk::File::new(File::open(library.path(file))?.into())
                        .map_err(io::Error::other)
                })
                .collect::<io::Result<_>>()?;
            let next = Rc::new(Cursor::new(&library, files));
            let failure = Rc::new(Cell::new(None));
            for _ in 0..in_flight {
                let (reader, next) = (Rc::clone(&reader), Rc::clone(&next));
                let (timer, failure) = (timer.clone(), Rc::clone(&failure));
                spawn(async move {
                    if let Err(error) = next.read_on(&reader, &timer).await {
                        failure.set(Some(error));
                    }
                });
            }
            while tasks_live() > 1 {
                // Sleep instead of spinning, because this thread's CPU time is measured.
                sleep(Duration::from_millis(1)).await;
            }
            failure.take().map_or_else(|| Ok(timer.rate(next.bytes.get())), Err)
        })?
    }

    /// Does the server's work for a byte and nothing else: no requests, no shared buffers, no timeouts.
    fn pipeline(&self) -> io::Result<Rate> {
        let sink = Sink::start(CONNECTIONS, self.sink_cpu)?;
        let mut sockets = sink.connect()?;
        let mut films = self.films()?;
        let mut sealers = (0..CONNECTIONS)
            .map(|_| self.sealer(Suite::Aes128Gcm))
            .collect::<io::Result<Vec<_>>>()?;
        let mut plaintext = vec![0; WINDOW_BYTES];
        // Holds what TCP did not take.
        let mut sealed = vec![vec![0; sealed_bytes(&sealers[0])]; CONNECTIONS];
        let mut owed: Vec<_> = sealed.iter().map(|sealed| sealed.len()..sealed.len()).collect();
        let timer = self.timer();
        let mut bytes = 0;
        while !timer.is_over() {
            bytes += sockets.each(|socket, index| {
                if owed[index].is_empty() {
                    films[index].read(&mut plaintext)?;
                    let made = sealers[index].seal(&plaintext, &mut sealed[index]);
                    owed[index] = 0..made.map_err(io::Error::other)?;
                }
                let sent = socket.send(&sealed[index][owed[index].clone()])?;
                owed[index].start += sent;
                Ok(sent)
            })?;
        }
        Ok(timer.rate(bytes))
    }

    fn films(&self) -> io::Result<Vec<Film>> {
        let film = |index| {
            let file = File::open(self.library.path(index % self.library.files))?;
            Ok(Film { file, offset: 0, bytes: self.library.file_bytes })
        };
        (0..CONNECTIONS).map(film).collect()
    }
}

/// Does a handshake in memory, and returns what each end then has.
fn ends(tls: &TlsContext, suite: Suite) -> io::Result<(Sealer, Opener)> {
    let options = ClientOptions {
        trust: Trust::AnyCertificate,
        versions: TlsVersions::Tls13,
        suites: vec![suite],
        ..ClientOptions::default()
    };
    let client = ClientTls::load(&options).map_err(io::Error::other)?;
    let mut client = ClientHandshake::new(&client, "localhost").map_err(io::Error::other)?;
    let mut server = Handshake::new(tls).map_err(io::Error::other)?;
    let (mut from_client, mut from_server) = (Vec::new(), Vec::new());
    let mut opener = None;
    loop {
        if opener.is_none() {
            let advanced = client.advance(&from_server, &mut from_client);
            let (consumed, progress) = advanced.map_err(io::Error::other)?;
            from_server.drain(..consumed);
            if let ClientProgress::Done(established) = progress {
                opener = Some(established.opener);
            }
        }
        let advanced = server.advance(&from_client, &mut from_server);
        let (consumed, progress) = advanced.map_err(io::Error::other)?;
        from_client.drain(..consumed);
        if let Progress::Done(established) = progress {
            let mut opener = opener.ok_or_else(|| io::Error::other("the client is not done"))?;
            // These are session tickets.
            skip_records(&mut opener, &mut from_server)?;
            return Ok((established.sealer, opener));
        }
    }
}

/// Encrypts one record after the other into `block`, and streams each to its place in `sealed`.
fn seal_streamed(
    sealer: &mut Sealer,
    plaintext: &[u8],
    block: &mut [u8],
    sealed: &mut [u8],
) -> Result<(), SealError> {
    let mut at = 0;
    for record in plaintext.chunks(PLAINTEXT_MAX) {
        let bytes = sealer.seal(record, block)?;
        copy_streaming(&block[..bytes], &mut sealed[at..at + bytes]);
        at += bytes;
    }
    Ok(())
}

/// A file that a connection reads again and again.
struct Film {
    file: File,
    offset: u64,
    bytes: u64,
}

impl Film {
    fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        if self.offset + WINDOW_BYTES as u64 > self.bytes {
            self.offset = 0;
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, self.offset)?;
        self.advance(into.len());
        Ok(())
    }
}

/// The next position to read: window after window, file after file.
struct Cursor {
    files: Vec<disk::File>,
    windows_per_file: u64,
    next: Cell<u64>,
    bytes: Cell<usize>,
}

impl Cursor {
    fn new(library: &Library, files: Vec<disk::File>) -> Self {
        let windows_per_file = (library.file_bytes / WINDOW_BYTES as u64).max(1);
        Self { files, windows_per_file, next: Cell::new(0), bytes: Cell::new(0) }
    }

    async fn read_on(&self, reader: &Reader, timer: &Timer) -> io::Result<()> {
        while !timer.is_over() {
            let next = self.next.replace(self.next.get() + 1);
            let file = &self.files[(next / self.windows_per_file) as usize % self.files.len()];
            let start = next % self.windows_per_file * WINDOW_BYTES as u64;
            let end = (start + WINDOW_BYTES as u64).min(file.size());
            let plain = reader.read(file, start..end).await.map_err(io::Error::other)?;
            self.bytes.set(self.bytes.get() + plain.len());
            drop(plain);
            yield_now().await;
        }
        Ok(())
    }
}

/// A turn's clocks: wall clock and this thread's CPU time.
#[derive(Clone)]
pub(super) struct Timer {
    began: Instant,
    began_cpu: Duration,
    length: Duration,
}

impl Timer {
    fn start(length: Duration) -> Self {
        Self { began: Instant::now(), began_cpu: thread_time(), length }
    }

    pub(super) fn is_over(&self) -> bool {
        self.began.elapsed() >= self.length
    }

    pub(super) fn rate(&self, bytes: usize) -> Rate {
        let (wall, cpu) = (self.began.elapsed(), thread_time().saturating_sub(self.began_cpu));
        Rate::of(bytes, wall, cpu)
    }
}

pub(crate) fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Neither clock is ever negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Pins this thread to a core.
///
/// # Errors
/// If there is no such core.
pub(crate) fn pin(cpu: u32) -> io::Result<()> {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu as usize);
    Ok(rustix::thread::sched_setaffinity(None, &cpus)?)
}

pub(super) fn sealed_bytes(sealer: &Sealer) -> usize {
    WINDOW_BYTES + WINDOW_BYTES.div_ceil(PLAINTEXT_MAX) * sealer.record_overhead()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tls::made_up;

    #[test]
    fn what_is_streamed_is_what_is_sealed() {
        let plaintext: Vec<u8> = (0..100_000u32).map(|byte| (byte % 251) as u8).collect();
        let [mut plain, mut streaming] = [7, 7].map(|number| made_up::server_end(number).sealer);
        let bytes = plain.sealed_bytes(plaintext.len() as u64) as usize;
        let mut sealed = [vec![0; bytes], vec![0; bytes]];
        plain.seal(&plaintext, &mut sealed[0]).unwrap();
        let mut block = vec![0; RECORD_BYTES_MAX];
        seal_streamed(&mut streaming, &plaintext, &mut block, &mut sealed[1]).unwrap();
        assert!(sealed[0] == sealed[1]);
    }
}
