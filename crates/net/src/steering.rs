//! Which of the listeners on one address gets a connection: a program that the kernel runs for each first packet
//! (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)).
//!
//! It is classic BPF, which takes no privileges. It asks for the network interface on which the packet came, then for the CPU that handles
//! its interrupt, and picks at random among the listeners that belong there. For any other packet it returns a number that no listener has:
//! the kernel then spreads connections as it does without a program.
//!
//! Listeners are numbered in the order in which they began to listen. When one stops, the last one takes its number: while a server stops,
//! connections may go to listeners of other groups.

use libc::sock_filter;
use std::ops::RangeInclusive;

/// Listeners that began to listen one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerGroup {
    /// The number of the first one.
    pub first: u32,
    /// How many there are: at least one.
    pub count: u32,
}

/// Who gets which connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Numbers of network interfaces, each with the listeners for what arrives there.
    pub cards: Vec<(u32, ListenerGroup)>,
    /// CPUs, with the listeners for what arrives anywhere else and is handled by them.
    pub cpus: Vec<(RangeInclusive<u32>, ListenerGroup)>,
}

/// The longest program that the kernel takes (`BPF_MAXINSNS`).
const INSTRUCTIONS_MAX: usize = 4096;

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

/// What can be loaded besides the packet (`SKF_AD_OFF` and what is added to it).
const ANCILLARY: u32 = -0x1000i32 as u32;
const INTERFACE: u32 = ANCILLARY + 8;
const CPU: u32 = ANCILLARY + 36;
const RANDOM: u32 = ANCILLARY + 56;

impl Steering {
    /// The program. CPUs for which it has no room are left out.
    pub fn program(&self) -> Vec<sock_filter> {
        let mut program = vec![plain(LOAD, INTERFACE)];
        for (card, group) in &self.cards {
            program.push(jump(IF_EQUAL, *card, 0, CHOICE));
            program.extend(choice(*group));
        }
        program.push(plain(LOAD, CPU));
        for (cpus, group) in &self.cpus {
            if program.len() + 3 + usize::from(CHOICE) > INSTRUCTIONS_MAX {
                break;
            }
            program.push(jump(IF_NOT_LESS, *cpus.start(), 0, CHOICE + 1));
            program.push(jump(IF_GREATER, *cpus.end(), CHOICE, 0));
            program.extend(choice(*group));
        }
        program.push(plain(RETURN, NOBODY));
        program
    }
}

/// How many instructions a choice has.
const CHOICE: u8 = 4;

/// Returns one of the group.
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

/// Goes on after `jt` further instructions if the comparison with `k` holds, else after `jf`.
fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            cards: vec![(2, group(0, 3)), (7, group(3, 1))],
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

    #[test]
    fn a_machine_with_more_cpus_than_fit_still_has_a_program() {
        let cpus = (0..2000).map(|cpu| (2 * cpu..=2 * cpu, group(cpu % 2, 1))).collect();
        let steering = Steering { cards: vec![(9, group(1, 1))], cpus };
        let program = steering.program();
        assert!(program.len() <= INSTRUCTIONS_MAX);
        assert_eq!(run(&program, 9, 0, 0), 1);
        assert_eq!(run(&program, 1, 2, 0), 1);
        assert_eq!(run(&program, 1, 3998, 0), NOBODY, "it was left out");
    }
}
