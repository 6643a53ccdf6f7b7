//! Two ports and two links: a frame that arrives at one port leaves by the other when its link says so. One thread, one epoll.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use fullbore_middlebox::frame::{self, OFFLOAD_BYTES, Offload, flow_of};
use fullbore_middlebox::{Counters, Impairment, SimulatedLink};
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::port::{Arrived, Port};

/// Frames to take from one port before checking the links for due packets: a batch, so that neither side starves the other.
const BATCH: usize = 64;

/// Event numbers in epoll; 0 and 1 are ports.
const TIMER: u64 = 2;
const SIGNAL: u64 = 3;

/// Counts of frames that the links never see.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lapses {
    /// Frames that could not be cut into packets for a wire.
    pub(crate) unusable_frames: u64,
    /// Packets that the outgoing interface did not take: it was full, or they were larger than its MTU.
    pub(crate) refused_by_interface_packets: u64,
    /// Frames that the kernel dropped because this process was too slow.
    pub(crate) dropped_by_kernel_frames: u64,
}

/// One direction: from the port with the same number to the other.
struct Direction {
    link: SimulatedLink<Vec<u8>>,
    lapses: Lapses,
}

impl Direction {
    fn offer(&mut self, now: Instant, flow: Option<u64>, packet: Vec<u8>, bytes: usize) {
        match flow {
            Some(flow) => self.link.offer_in_flow(now, flow, packet, bytes),
            None => self.link.offer(now, packet, bytes),
        };
    }
}

/// The middlebox.
pub(crate) struct Bridge {
    ports: [Port; 2],
    ways: [Direction; 2],
    /// Flows are numbered with it.
    seed: u64,
    keep_super_segments: bool,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Readable once the process has received SIGTERM or SIGINT.
    _signals: UnixStream,
}

impl Bridge {
    /// Connects `ports` with links, the first from the first port to the second.
    pub(crate) fn new(
        ports: [Port; 2],
        impairments: [Impairment; 2],
        seed: u64,
        keep_super_segments: bool,
    ) -> io::Result<Self> {
        let [there, back] = impairments;
        let way = |impairment, seed| Direction {
            link: SimulatedLink::new(impairment, seed),
            lapses: Lapses::default(),
        };
        // The two directions draw different fates from one seed.
        let ways = [way(there, seed), way(back, !seed)];
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let (signals, writer) = UnixStream::pair()?;
        for signal in [libc::SIGTERM, libc::SIGINT] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        for (number, port) in (0_u64..).zip(&ports) {
            epoll::add(&epoll, port, epoll::EventData::new_u64(number), readable)?;
        }
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), readable)?;
        epoll::add(&epoll, &signals, epoll::EventData::new_u64(SIGNAL), readable)?;
        Ok(Self { ports, ways, seed, keep_super_segments, epoll, timer, _signals: signals })
    }

    /// Carries frames until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// If an interface has gone.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let ended = self.carry();
        for (port, way) in self.ports.iter_mut().zip(&mut self.ways) {
            way.lapses.dropped_by_kernel_frames = port.dropped_by_kernel();
        }
        ended
    }

    /// Counts of the frames that arrived at the port with this number.
    pub(crate) fn counters(&self, from: usize) -> (&Counters, &Lapses) {
        (self.ways[from].link.counters(), &self.ways[from].lapses)
    }

    fn carry(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(8);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    SIGNAL => return Ok(()),
                    TIMER => {}
                    0 => self.take_in(0)?,
                    _ => self.take_in(1)?,
                }
            }
            let now = Instant::now();
            self.hand_out(0, now)?;
            self.hand_out(1, now)?;
            self.set_timer(now)?;
        }
    }

    /// Puts the frames that wait at a port on its link.
    fn take_in(&mut self, from: usize) -> io::Result<()> {
        let now = Instant::now();
        let (way, seed) = (&mut self.ways[from], self.seed);
        for _ in 0..BATCH {
            let bytes = match self.ports[from].receive()? {
                Arrived::Frame(bytes) => bytes,
                Arrived::Unusable => {
                    way.lapses.unusable_frames += 1;
                    continue;
                }
                Arrived::Nothing => break,
            };
            let packet = self.ports[from].bytes(bytes);
            if self.keep_super_segments {
                let flow = flow_of(&packet[OFFLOAD_BYTES..], seed);
                way.offer(now, flow, packet.to_vec(), bytes - OFFLOAD_BYTES);
                continue;
            }
            let (header, frame) = packet.split_at_mut(OFFLOAD_BYTES);
            let header: &[u8; OFFLOAD_BYTES] = (&*header).try_into().expect("split there");
            let whole = frame::make_whole(&Offload::parse(header), frame, |frame| {
                let packet = [&[0; OFFLOAD_BYTES], frame].concat();
                way.offer(now, flow_of(frame, seed), packet, frame.len());
            });
            way.lapses.unusable_frames += u64::from(whole.is_err());
        }
        Ok(())
    }

    /// Sends the packets that have arrived at the far end of a link.
    fn hand_out(&mut self, from: usize, now: Instant) -> io::Result<()> {
        let way = &mut self.ways[from];
        while let Some(delivered) = way.link.poll(now) {
            if !self.ports[1 - from].send(&delivered.packet)? {
                way.lapses.refused_by_interface_packets += 1;
            }
        }
        Ok(())
    }

    /// Sets the timer to the next due packet; a time in the past fires at once. Setting it clears its readable state.
    fn set_timer(&self, now: Instant) -> io::Result<()> {
        let due = self.ways.iter().filter_map(|way| way.link.next_due()).min();
        // 0 would disarm it.
        let nanoseconds = due.map_or(0, |due| due.saturating_duration_since(now).as_nanos().max(1));
        let value = Timespec {
            tv_sec: i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanoseconds % 1_000_000_000) as _,
        };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: never, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)?;
        Ok(())
    }
}
