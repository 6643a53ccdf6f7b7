//! Chooses which of the listeners on one address gets a connection, by a program that the kernel runs for each first packet
//! (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)).
//!
//! It is classic BPF, which needs no privileges. It looks up the network interface on which the packet came, then the CPU that handles its interrupt,
//! and picks at random among the listeners that belong there. For any other packet it returns a number that no listener has: the kernel then spreads
//! connections as it does without a program.
//!
//! Listeners are numbered in the order in which they began to listen. When one stops, the last one takes its number: while a server stops,
//! connections may go to listeners of other groups.

use libc::sock_filter;
use std::ops::RangeInclusive;

/// Listeners that began to listen one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerGroup {
    /// The number of the first listener.
    pub first: u32,
    /// The number of listeners: at least one.
    pub count: u32,
}

/// Assigns connections to listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Numbers of network interfaces, each with the listeners for packets that arrive there.
    pub nics: Vec<(u32, ListenerGroup)>,
    /// CPUs, with the listeners for packets that arrive anywhere else and are handled by them.
    pub cpus: Vec<(RangeInclusive<u32>, ListenerGroup)>,
}

/// The most instructions of a program after the kernel has converted it to its own instructions of 8 bytes. It takes `net.core.optmem_max` bytes of
/// them, 20,480 by default before Linux 6.8; a little is left for the kernel's additions. A program of classic BPF this long is below `BPF_MAXINSNS`
/// (4096).
const CONVERTED_MAX: usize = 2400;

/// Ranges that share a choice: a jump passes over at most 255 instructions, and a range takes up to two.
const RANGES_PER_CHOICE: usize = 120;

/// No listener has this number.
const NOBODY: u32 = u32::MAX;

/// Instructions as linux/bpf_common.h and linux/filter.h have them.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER: u16 = 0x25;
const IF_NOT_LESS: u16 = 0x35;
const REMAINDER: u16 = 0x94;
const ADD: u16 = 0x04;
const RETURN: u16 = 0x06;
const RETURN_ACCUMULATOR: u16 = 0x16;

/// The base of loads other than the packet (`SKF_AD_OFF` plus an offset).
const ANCILLARY: u32 = -0x1000i32 as u32;
const INTERFACE: u32 = ANCILLARY + 8;
const CPU: u32 = ANCILLARY + 36;
const RANDOM: u32 = ANCILLARY + 56;

impl Steering {
    /// The program. Rules that do not fit are left out; NICs come before CPUs.
    pub fn program(&self) -> Vec<sock_filter> {
        let nics = self.nics.iter().map(|(nic, group)| (*nic..=*nic, *group));
        let mut room = CONVERTED_MAX;
        let mut program = vec![plain(LOAD, INTERFACE)];
        program.extend(rules(nics.collect(), &mut room));
        program.push(plain(LOAD, CPU));
        program.extend(rules(self.cpus.clone(), &mut room));
        program.push(plain(RETURN, NOBODY));
        program
    }
}

/// Returns one listener of the group in whose ranges the accumulator is, or continues. Takes its instructions from `room`.
fn rules(
    mut ranges: Vec<(RangeInclusive<u32>, ListenerGroup)>,
    room: &mut usize,
) -> Vec<sock_filter> {
    ranges.sort_by_key(|(range, group)| (group.first, group.count, *range.start()));
    let same_group = ranges.chunk_by(|(_, one), (_, other)| one == other);
    let mut rules = Vec::new();
    for some in same_group.flat_map(|ranges| ranges.chunks(RANGES_PER_CHOICE)) {
        let tests = tests(some);
        let Some(left) = room.checked_sub(tests.len() + CHOICE_CONVERTED) else { break };
        *room = left;
        rules.extend(tests);
        rules.extend(choice(some[0].1));
    }
    rules
}

/// Jumps to the following choice if the accumulator is in one of the ranges, else past it.
fn tests(ranges: &[(RangeInclusive<u32>, ListenerGroup)]) -> Vec<sock_filter> {
    let mut tests = Vec::new();
    // From the end, because jumps go forward.
    for (range, _) in ranges.iter().rev() {
        let to_choice = u8::try_from(tests.len()).expect("few ranges share a choice");
        let past = if tests.is_empty() { CHOICE } else { 0 };
        if range.start() == range.end() {
            tests.push(jump(IF_EQUAL, *range.start(), to_choice, past));
        } else {
            tests.push(jump(IF_GREATER, *range.end(), past, to_choice));
            tests.push(jump(IF_NOT_LESS, *range.start(), 0, past + 1));
        }
    }
    tests.reverse();
    tests
}

/// The number of instructions of a choice.
const CHOICE: u8 = 4;

/// The most instructions that the kernel makes of them: loading a random number is a call.
const CHOICE_CONVERTED: usize = 8;

/// Returns one listener of the group.
fn choice(group: ListenerGroup) -> [sock_filter; CHOICE as usize] {
    debug_assert!(group.count > 0, "the kernel refuses to divide by zero");
    [
        plain(LOAD, RANDOM),
        plain(REMAINDER, group.count),
        plain(ADD, group.first),
        plain(RETURN_ACCUMULATOR, 0),
    ]
}

fn plain(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Continues after `jt` further instructions if the comparison with `k` holds, else after `jf`.
fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener;

    /// Runs a program as the kernel does.
    fn run(program: &[sock_filter], interface: u32, cpu: u32, random: u32) -> u32 {
        let (mut at, mut a) = (0, 0u32);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let mut jump = |holds| at += usize::from(if holds { jt } else { jf });
            match code {
                LOAD if k == INTERFACE => a = interface,
                LOAD if k == CPU => a = cpu,
                LOAD if k == RANDOM => a = random,
                IF_EQUAL => jump(a == k),
                IF_GREATER => jump(a > k),
                IF_NOT_LESS => jump(a >= k),
                REMAINDER => a %= k,
                ADD => a += k,
                RETURN => return k,
                RETURN_ACCUMULATOR => return a,
                _ => panic!("{code:#x} {k:#x} is no instruction of ours"),
            }
        }
    }

    fn group(first: u32, count: u32) -> ListenerGroup {
        ListenerGroup { first, count }
    }

    #[test]
    fn a_card_decides_first_then_the_cpu_and_the_rest_is_left_to_the_kernel() {
        let steering = Steering {
            nics: vec![(2, group(0, 3)), (7, group(3, 1))],
            cpus: vec![(0..=3, group(0, 2)), (8..=8, group(3, 1))],
        };
        let program = steering.program();
        let got = |interface, cpu, random| run(&program, interface, cpu, random);
        assert_eq!((0..6).map(|random| got(2, 9, random)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        assert_eq!(got(7, 0, 5), 3);
        assert_eq!([got(1, 0, 4), got(1, 3, 5), got(1, 8, 5)], [0, 1, 3]);
        assert_eq!([got(1, 4, 0), got(1, 7, 0), got(1, 9, 0)], [NOBODY; 3]);
    }

    #[test]
    fn without_anything_to_go_by_the_kernel_decides() {
        assert_eq!(run(&Steering::default().program(), 2, 0, 0), NOBODY);
    }

    fn interleaved(cpus: u32) -> Vec<(RangeInclusive<u32>, ListenerGroup)> {
        (0..cpus).map(|cpu| (cpu..=cpu, group(cpu % 2, 1))).collect()
    }

    /// Lets the kernel run the program.
    fn attach(program: &[sock_filter]) {
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = listener::bind(address, &listener::ListenerOptions::default()).unwrap();
        listener::steer(&listener, program).unwrap();
    }

    #[test]
    fn interleaved_cpus_share_their_choices() {
        let steering = Steering { nics: Vec::new(), cpus: interleaved(384) };
        let program = steering.program();
        assert!(program.len() < 384 + 20, "{}", program.len());
        (0..384).for_each(|cpu| assert_eq!(run(&program, 1, cpu, 5), cpu % 2));
        assert_eq!(run(&program, 1, 384, 5), NOBODY);
        attach(&program);
    }

    #[test]
    fn a_thousand_cards_and_long_ranges_of_cpus_decide() {
        let nics = (1..=1000).map(|nic| (nic, group(nic % 3, 1))).collect();
        let cpus = (0..300).map(|run| (4 * run..=4 * run + 2, group(run % 2, 1))).collect();
        let program = Steering { nics, cpus }.program();
        assert!(program.len() < 1000 + 600 + 80, "{}", program.len());
        (1..=1000).for_each(|nic| assert_eq!(run(&program, nic, 0, 7), nic % 3));
        let expected = |cpu: u32| if cpu % 4 == 3 { NOBODY } else { cpu / 4 % 2 };
        (0..1200).for_each(|cpu| assert_eq!(run(&program, 0, cpu, 7), expected(cpu)));
        attach(&program);
    }

    #[test]
    fn what_does_not_fit_is_left_out_cpus_first() {
        let nics = |count| (0..count).map(|nic| (nic, group(9, 1))).collect();
        let program = Steering { nics: nics(2000), cpus: interleaved(2000) }.program();
        assert!(program.len() <= CONVERTED_MAX, "{}", program.len());
        (0..2000).for_each(|nic| assert_eq!(run(&program, nic, 0, 0), 9));
        assert_eq!(run(&program, 2000, 0, 0), 0);
        assert_eq!(run(&program, 2000, 1999, 0), NOBODY, "it was left out");
        attach(&program);
        let program = Steering { nics: nics(5000), cpus: interleaved(2) }.program();
        assert!(program.len() <= CONVERTED_MAX, "{}", program.len());
        assert_eq!(run(&program, 0, 0, 0), 9);
        assert_eq!(run(&program, 4999, 2, 0), NOBODY, "it was left out");
        attach(&program);
    }

    #[test]
    fn a_thousand_silos_have_a_program() {
        let cpus = (0..1000).map(|cpu| (cpu..=cpu, group(cpu, 1))).collect();
        let program = Steering { nics: Vec::new(), cpus }.program();
        assert_eq!(run(&program, 1, 0, 0), 0);
        attach(&program);
    }
}
