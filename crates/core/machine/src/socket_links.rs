//! The links between AMD processors' sockets, through `/dev/hsmp` (kernel documentation: arch/x86/amd_hsmp; asm/amd_hsmp.h).
//!
//! The device is opened for reading. The kernel then rejects every message that sets something, whatever its content.

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{self, Updater, opcode};
use std::io;

/// A query to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkQuestion {
    /// The clocks of its fabric and of its memory ([`FabricClocks`]).
    Clocks,
    /// The range in which the width of its links may change ([`LinkWidths`]). Send it only to processors that answer it: to the firmware of others
    /// the same message is a command to make the links narrow ([`LinkWidths::is_told_by`]).
    Widths,
}

/// Answers queries about links between sockets.
pub trait SocketLinks {
    /// The words of a socket's answer, from 0 on.
    ///
    /// # Errors
    /// If there is no such device, socket or message.
    fn ask(&self, socket: u16, question: LinkQuestion) -> io::Result<[u32; 2]>;
}

/// The links of this machine.
#[derive(Debug, Default)]
pub struct KernelSocketLinks;

/// `struct hsmp_message`.
#[repr(C)]
#[derive(Default)]
struct Message {
    id: u32,
    argument_words: u16,
    answer_words: u16,
    words: [u32; 8],
    socket: u16,
}

const _: () = assert!(size_of::<Message>() == 44);

impl SocketLinks for KernelSocketLinks {
    fn ask(&self, socket: u16, question: LinkQuestion) -> io::Result<[u32; 2]> {
        /// `HSMP_IOCTL_CMD`.
        const COMMAND: ioctl::Opcode = opcode::read_write::<Message>(0xf8, 0);
        /// Without it the message sets the width.
        const IS_QUESTION: u32 = 1 << 31;
        let (id, arguments, answer_words) = match question {
            LinkQuestion::Clocks => (0x0f, &[][..], 2),
            LinkQuestion::Widths => (0x0c, &[IS_QUESTION][..], 1),
        };
        let device = open("/dev/hsmp", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let argument_words = arguments.len() as u16;
        let mut message =
            Message { id, argument_words, answer_words, socket, ..Message::default() };
        message.words[..arguments.len()].copy_from_slice(arguments);
        // SAFETY: the opcode is that of `Message`, whose layout is the kernel's; the kernel writes into it and nowhere else.
        unsafe { ioctl::ioctl(&device, Updater::<COMMAND, Message>::new(&mut message))? };
        Ok([message.words[0], message.words[1]])
    }
}

/// The clocks of a socket, in MHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricClocks {
    /// The fabric, which connects cores, memory, PCIe and other sockets.
    pub fabric_mhz: u32,
    /// The memory, which moves two words per cycle.
    pub memory_mhz: u32,
}

impl FabricClocks {
    /// Parses an answer. `None` for values that no socket would report.
    pub fn parse([fabric_mhz, memory_mhz]: [u32; 2]) -> Option<Self> {
        const MHZ: std::ops::RangeInclusive<u32> = 100..=10_000;
        let is_sane = MHZ.contains(&fabric_mhz) && MHZ.contains(&memory_mhz);
        is_sane.then_some(Self { fabric_mhz, memory_mhz })
    }
}

/// The range in which the width of links between sockets may change with the load, in lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkWidths {
    /// The width under low load.
    pub lanes_min: u32,
    /// The maximum width.
    pub lanes_max: u32,
}

impl LinkWidths {
    /// All lanes of a link.
    pub const LANES: u32 = 16;

    /// Whether the processor supports the query: AMD documents it from family 0x1a, model 0x50 on.
    pub fn is_told_by(family: u32, model: u32) -> bool {
        family == 0x1a && (0x50..=0x5f).contains(&model)
    }

    /// Parses an answer. `None` for values that no socket would report.
    pub fn parse([word, _]: [u32; 2]) -> Option<Self> {
        let lanes = |code: u32| [4, 8, Self::LANES].get((code & 0xff) as usize).copied();
        let (lanes_min, lanes_max) = (lanes(word >> 8)?, lanes(word)?);
        (word >> 16 == 0 && lanes_min <= lanes_max).then_some(Self { lanes_min, lanes_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_what_no_socket_would_say_is_not_believed() {
        let widths = |word| LinkWidths::parse([word, 0]);
        assert_eq!(widths(0x0202), Some(LinkWidths { lanes_min: 16, lanes_max: 16 }));
        assert_eq!(widths(0x0002), Some(LinkWidths { lanes_min: 4, lanes_max: 16 }));
        for absurd in [0x0201, 0x0303, 0xffff_ffff, 0x8000_0202] {
            assert_eq!(widths(absurd), None, "{absurd:#x}");
        }
        let clocks = FabricClocks::parse([1600, 1600]).unwrap();
        assert_eq!((clocks.fabric_mhz, clocks.memory_mhz), (1600, 1600));
        for absurd in [[0, 0], [1600, 0], [u32::MAX, 1600], [1600, 99_999]] {
            assert_eq!(FabricClocks::parse(absurd), None, "{absurd:?}");
        }
    }

    #[test]
    fn only_processors_that_have_the_question_are_asked_for_widths() {
        // Zen 3, Zen 4, Zen 5; then Zen 6.
        assert!(
            ![(0x19, 1), (0x19, 0x11), (0x1a, 2)]
                .iter()
                .any(|(f, m)| LinkWidths::is_told_by(*f, *m))
        );
        assert!(LinkWidths::is_told_by(0x1a, 0x50));
    }
}
