//! The XDP program that decides which frames are ours. It is assembled here as bytecode, so loading it needs only the
//! kernel.
//!
//! A frame goes to the worker of its queue if it is plain TCP (no VLAN tag, no IPv4 options or fragments, no IPv6 extension headers) and its
//! destination, address and port, is in a map. So does a router's message that a packet from such a destination was too big. Everything else goes on
//! to the kernel: ARP, NDP, pings, ssh. So do frames for us whose queue has no worker.
//!
//! Read it together with `Documentation/bpf/standardization/instruction-set.rst` and `struct xdp_md` in linux/bpf.h.

use crate::kernel::bpf::{self, MapKind};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// How many destinations there can be.
pub(crate) const FLOWS_MAX: usize = 256;

/// Sixteen bytes of address (IPv4 as in RFC 4291 section 2.5.5.2), two bytes of port as in the segment, two zeroes.
type Key = [u8; 20];

/// The program and its maps.
pub(crate) struct Program {
    flows: OwnedFd,
    sockets: OwnedFd,
    program: OwnedFd,
}

impl Program {
    /// Makes the maps and loads the program.
    pub(crate) fn load(queues: u32, takes_fragments: bool) -> io::Result<Self> {
        let flows =
            bpf::create_map(MapKind::Hash, size_of::<Key>() as u32, 1, FLOWS_MAX as u32, "flows")?;
        let sockets = bpf::create_map(MapKind::Xsk, 4, 4, queues, "sockets")?;
        let instructions = instructions(bpf::number(&flows), bpf::number(&sockets));
        let program = bpf::load_xdp(&instructions, "fullbore", takes_fragments)?;
        Ok(Self { flows, sockets, program })
    }

    /// Redirects frames for this destination.
    pub(crate) fn add_flow(&self, destination: SocketAddr) -> io::Result<()> {
        bpf::update_map(&self.flows, &key(destination), &[1])
    }

    /// Redirects a queue's frames to this socket.
    pub(crate) fn add_socket(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let socket = bpf::number(socket).to_ne_bytes();
        bpf::update_map(&self.sockets, &queue.to_ne_bytes(), &socket)
    }

    /// Attaches the program to an interface, for as long as the returned descriptor is open.
    pub(crate) fn attach(&self, interface: u32, flags: u32) -> io::Result<OwnedFd> {
        bpf::link_xdp(&self.program, interface, flags)
    }
}

fn key(destination: SocketAddr) -> Key {
    let mut key = [0; 20];
    let address = match destination {
        SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped(),
        SocketAddr::V6(v6) => *v6.ip(),
    };
    key[..16].copy_from_slice(&address.octets());
    key[16..18].copy_from_slice(&destination.port().to_be_bytes());
    key
}

/// Registers: r0 result, r1 to r5 arguments and scratch, r6 the context over calls, r10 the end of the stack.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const R6: u8 = 6;
const R10: u8 = 10;

// Operation codes: class, size or source, operation.
const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF: u8 = 0x69;
const LOAD_WORD: u8 = 0x61;
const LOAD_DOUBLE: u8 = 0x79;
const STORE_WORD: u8 = 0x63;
const STORE_DOUBLE: u8 = 0x7b;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const MOVE_WORD_NUMBER: u8 = 0xb4;
const ADD_NUMBER: u8 = 0x07;
const AND_NUMBER: u8 = 0x57;
const JUMP: u8 = 0x05;
const JUMP_EQUAL_NUMBER: u8 = 0x15;
const JUMP_UNEQUAL_NUMBER: u8 = 0x55;
const JUMP_GREATER: u8 = 0x2d;
const LOAD_MAP: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// In the source register of [`LOAD_MAP`]: the number is a map's descriptor.
const PSEUDO_MAP: u8 = 1;

const HELPER_MAP_LOOKUP: i32 = 1;
const HELPER_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

/// Offsets in the context: the frame's first byte, the byte after its last one, the queue.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_DATA_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

/// The key's offset on the stack, below r10.
const KEY: i16 = -24;

/// A target of jumps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Ipv4,
    Icmp,
    Icmpv6,
    Lookup,
    Pass,
}

/// Instructions, and jumps whose distance is not known yet.
#[derive(Default)]
struct Assembler {
    instructions: Vec<u64>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn add(&mut self, code: u8, destination: u8, source: u8, offset: i16, number: i32) {
        let registers = if cfg!(target_endian = "little") {
            destination | source << 4
        } else {
            source | destination << 4
        };
        let [o0, o1] = offset.to_ne_bytes();
        let [n0, n1, n2, n3] = number.to_ne_bytes();
        self.instructions.push(u64::from_ne_bytes([code, registers, o0, o1, n0, n1, n2, n3]));
    }

    fn jump(&mut self, code: u8, destination: u8, source: u8, number: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.add(code, destination, source, 0, number);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.instructions.len()));
    }

    fn load_map(&mut self, register: u8, map: u32) {
        self.add(LOAD_MAP, register, PSEUDO_MAP, 0, map as i32);
        self.add(0, 0, 0, 0, 0);
    }

    /// Fills in the distances of the jumps.
    fn finish(self) -> Vec<u64> {
        let Self { mut instructions, jumps, labels } = self;
        for (from, label) in jumps {
            let (_, to) =
                labels.iter().find(|(known, _)| *known == label).expect("each label is set");
            let distance = (*to as i64 - from as i64 - 1) as i16;
            let mut bytes = instructions[from].to_ne_bytes();
            bytes[2..4].copy_from_slice(&distance.to_ne_bytes());
            instructions[from] = u64::from_ne_bytes(bytes);
        }
        instructions
    }
}

/// A number whose bytes in memory are these.
fn half(bytes: [u8; 2]) -> i32 {
    u16::from_ne_bytes(bytes).into()
}

/// The whole program.
fn instructions(flows: u32, sockets: u32) -> Vec<u64> {
    let mut program = Assembler::default();
    program.add(MOVE, R6, R1, 0, 0);
    program.add(LOAD_WORD, R2, R1, CONTEXT_DATA, 0);
    program.add(LOAD_WORD, R3, R1, CONTEXT_DATA_END, 0);
    // Ethernet, IPv4 and TCP headers: a shorter frame is neither that nor IPv6.
    check_length(&mut program, 14 + 20 + 20);
    program.add(LOAD_HALF, R5, R2, 12, 0);
    program.jump(JUMP_EQUAL_NUMBER, R5, 0, half([0x08, 0x00]), Label::Ipv4);
    program.jump(JUMP_UNEQUAL_NUMBER, R5, 0, half([0x86, 0xdd]), Label::Pass);
    ipv6(&mut program);
    icmpv6(&mut program);
    ipv4(&mut program);
    icmp(&mut program);
    look_up(&mut program, flows, sockets);
    program.finish()
}

/// Goes to the kernel if the frame ends before `bytes`.
fn check_length(program: &mut Assembler, bytes: i32) {
    program.add(MOVE, R4, R2, 0, 0);
    program.add(ADD_NUMBER, R4, 0, 0, bytes);
    program.jump(JUMP_GREATER, R4, R3, 0, Label::Pass);
}

/// Goes to the kernel if the byte at `at` is not `value`.
fn check_byte(program: &mut Assembler, at: i16, value: i32) {
    program.add(LOAD_BYTE, R5, R2, at, 0);
    program.jump(JUMP_UNEQUAL_NUMBER, R5, 0, value, Label::Pass);
}

/// Sets the key: an IPv6 address, and a port.
fn set_key_v6(program: &mut Assembler, address_at: i16, port_at: i16) {
    program.add(LOAD_DOUBLE, R5, R2, address_at, 0);
    program.add(STORE_DOUBLE, R10, R5, KEY, 0);
    program.add(LOAD_DOUBLE, R5, R2, address_at + 8, 0);
    program.add(STORE_DOUBLE, R10, R5, KEY + 8, 0);
    program.add(LOAD_HALF, R5, R2, port_at, 0);
    program.add(STORE_WORD, R10, R5, KEY + 16, 0);
}

/// Sets the key: an IPv4 address, and a port.
fn set_key_v4(program: &mut Assembler, address_at: i16, port_at: i16) {
    program.add(MOVE_NUMBER, R5, 0, 0, 0);
    program.add(STORE_DOUBLE, R10, R5, KEY, 0);
    program.add(MOVE_WORD_NUMBER, R5, 0, 0, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
    program.add(STORE_WORD, R10, R5, KEY + 8, 0);
    program.add(LOAD_WORD, R5, R2, address_at, 0);
    program.add(STORE_WORD, R10, R5, KEY + 12, 0);
    program.add(LOAD_HALF, R5, R2, port_at, 0);
    program.add(STORE_WORD, R10, R5, KEY + 16, 0);
}

/// Checks the next header, then takes destination and port.
fn ipv6(program: &mut Assembler) {
    check_length(program, 14 + 40 + 20);
    program.add(LOAD_BYTE, R5, R2, 14 + 6, 0);
    program.jump(JUMP_EQUAL_NUMBER, R5, 0, 58, Label::Icmpv6);
    program.jump(JUMP_UNEQUAL_NUMBER, R5, 0, 6, Label::Pass);
    set_key_v6(program, 14 + 24, 14 + 40 + 2);
    program.jump(JUMP, 0, 0, 0, Label::Lookup);
}

/// "Packet too big" (type 2). Checks the next header of the packet quoted after eight bytes, then takes source and port.
fn icmpv6(program: &mut Assembler) {
    program.label(Label::Icmpv6);
    check_length(program, 14 + 40 + 8 + 40 + 8);
    check_byte(program, 14 + 40, 2);
    check_byte(program, 14 + 48 + 6, 6);
    set_key_v6(program, 14 + 48 + 8, 14 + 48 + 40);
    program.jump(JUMP, 0, 0, 0, Label::Lookup);
}

/// Checks version and header length, fragmentation and protocol, then takes destination and port.
fn ipv4(program: &mut Assembler) {
    program.label(Label::Ipv4);
    check_byte(program, 14, 0x45);
    program.add(LOAD_HALF, R5, R2, 14 + 6, 0);
    program.add(AND_NUMBER, R5, 0, 0, half([0x3f, 0xff]));
    program.jump(JUMP_UNEQUAL_NUMBER, R5, 0, 0, Label::Pass);
    program.add(LOAD_BYTE, R5, R2, 14 + 9, 0);
    program.jump(JUMP_EQUAL_NUMBER, R5, 0, 1, Label::Icmp);
    program.jump(JUMP_UNEQUAL_NUMBER, R5, 0, 6, Label::Pass);
    set_key_v4(program, 14 + 16, 14 + 20 + 2);
    program.jump(JUMP, 0, 0, 0, Label::Lookup);
}

/// "Fragmentation needed" (type 3, code 4). Checks version, header length and protocol of the packet quoted after eight
/// bytes, then takes source and port.
fn icmp(program: &mut Assembler) {
    program.label(Label::Icmp);
    check_length(program, 14 + 20 + 8 + 20 + 8);
    check_byte(program, 14 + 20, 3);
    check_byte(program, 14 + 21, 4);
    check_byte(program, 14 + 28, 0x45);
    check_byte(program, 14 + 28 + 9, 6);
    set_key_v4(program, 14 + 28 + 12, 14 + 28 + 20);
}

/// Goes to the worker of the queue, if the key is in the map.
fn look_up(program: &mut Assembler, flows: u32, sockets: u32) {
    program.label(Label::Lookup);
    program.load_map(R1, flows);
    program.add(MOVE, R2, R10, 0, 0);
    program.add(ADD_NUMBER, R2, 0, 0, KEY.into());
    program.add(CALL, 0, 0, 0, HELPER_MAP_LOOKUP);
    program.jump(JUMP_EQUAL_NUMBER, R0, 0, 0, Label::Pass);
    program.load_map(R1, sockets);
    program.add(LOAD_WORD, R2, R6, CONTEXT_QUEUE, 0);
    program.add(MOVE_NUMBER, R3, 0, 0, XDP_PASS);
    program.add(CALL, 0, 0, 0, HELPER_REDIRECT_MAP);
    program.add(EXIT, 0, 0, 0, 0);
    program.label(Label::Pass);
    program.add(MOVE_NUMBER, R0, 0, 0, XDP_PASS);
    program.add(EXIT, 0, 0, 0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_told_apart() {
        let keys = ["192.0.2.1:443", "192.0.2.1:444", "192.0.2.2:443", "[2001:db8::1]:443"]
            .map(|destination| key(destination.parse().unwrap()));
        for (index, first) in keys.iter().enumerate() {
            assert!(keys[..index].iter().all(|second| second != first));
        }
        let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1, 1, 187, 0, 0];
        assert_eq!(keys[0], expected);
    }

    #[test]
    fn every_jump_leads_forward_into_the_program() {
        let program = instructions(3, 4);
        for (at, instruction) in program.iter().enumerate() {
            let bytes = instruction.to_ne_bytes();
            if bytes[0] & 7 == 5 && bytes[0] != CALL && bytes[0] != EXIT {
                let distance = i16::from_ne_bytes([bytes[2], bytes[3]]);
                assert!(distance >= 0 && at + 1 + (distance as usize) < program.len(), "at {at}");
            }
        }
    }
}
