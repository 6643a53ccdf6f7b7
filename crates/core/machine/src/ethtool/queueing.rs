//! The kernel's queues for a card's packets (tc(8)).

use crate::netlink::attributes::text;
use crate::netlink::{Message, Netlink};
use std::fs;

/// `RTM_NEWQDISC`, `RTM_GETQDISC` (linux/rtnetlink.h).
const NEW_QUEUE: u16 = 36;
const GET_QUEUE: u16 = 38;

/// `struct tcmsg`.
const HEAD_BYTES: usize = 20;

/// `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;

/// Kinds that have a child queue per hardware queue, in which packets wait.
const ONE_FOR_EACH: [&str; 2] = ["mq", "mqprio"];

/// A queue: its kind, its handle, and its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Queue {
    device: u32,
    kind: String,
    handle: u32,
    parent: u32,
}

/// The kinds of the queues that hold a card's packets; `None` if the kernel does not report them.
pub(crate) fn of(nic: &str) -> Option<Vec<String>> {
    let device = fs::read_to_string(format!("/sys/class/net/{nic}/ifindex")).ok()?;
    let device = device.trim().parse().ok()?;
    let mut queues = Vec::new();
    let mut each = |message: Message<'_>| queues.extend(queue(message));
    Netlink::route(0).ok()?.list(GET_QUEUE, &[0; HEAD_BYTES], &mut each).ok()?;
    waiting_in(&queues, device)
}

fn queue(message: Message<'_>) -> Option<Queue> {
    let (head, told) = message.payload.split_at_checked(HEAD_BYTES)?;
    let number =
        |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    // TCA_KIND.
    let kind = text(told, 1)?;
    let queue = Queue { device: number(4), kind, handle: number(8), parent: number(12) };
    (message.kind == NEW_QUEUE).then_some(queue)
}

fn waiting_in(queues: &[Queue], device: u32) -> Option<Vec<String>> {
    let own = || queues.iter().filter(|queue| queue.device == device);
    let root = own().find(|queue| queue.parent == ROOT)?;
    if !ONE_FOR_EACH.contains(&root.kind.as_str()) {
        return Some(vec![root.kind.clone()]);
    }
    // A handle has the parent's number in its upper half.
    let is_below = |queue: &&Queue| {
        queue.parent != ROOT && queue.parent >> 16 == root.handle >> 16 && *queue != root
    };
    let kinds: Vec<_> = own().filter(is_below).map(|queue| queue.kind.clone()).collect();
    (!kinds.is_empty()).then_some(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attributes::put;

    fn told(device: u32, kind: &str, handle: u32, parent: u32) -> Vec<u8> {
        let mut payload = vec![0; HEAD_BYTES];
        payload[4..8].copy_from_slice(&device.to_ne_bytes());
        payload[8..12].copy_from_slice(&handle.to_ne_bytes());
        payload[12..16].copy_from_slice(&parent.to_ne_bytes());
        put(&mut payload, 1, format!("{kind}\0").as_bytes());
        payload
    }

    fn kinds(of: &[(u32, &str, u32, u32)], device: u32) -> Option<Vec<String>> {
        let message = |payload| Message { kind: NEW_QUEUE, payload, ..Message::default() };
        let told: Vec<_> = of.iter().map(|(d, kind, h, p)| told(*d, kind, *h, *p)).collect();
        let queues: Vec<_> = told.iter().filter_map(|payload| queue(message(payload))).collect();
        assert_eq!(queues.len(), of.len());
        waiting_in(&queues, device)
    }

    #[test]
    fn packets_wait_at_the_root_or_in_one_queue_for_each_of_the_card() {
        let fq = Some(vec!["fq".to_owned()]);
        // Only the queues of the requested card count, in any order.
        let two = [(3, "cake", 0, ROOT), (2, "fq", 0x8001_0000, ROOT), (4, "sfq", 0, ROOT)];
        assert_eq!(kinds(&two, 2), fq);
        let several = [(2, "mq", 0, ROOT), (2, "fq", 0, 1), (2, "fq_codel", 0, 2), (3, "fq", 0, 1)];
        assert_eq!(kinds(&several, 2), Some(vec!["fq".to_owned(), "fq_codel".to_owned()]));
        let numbered = [(2, "mq", 7 << 16, ROOT), (2, "fq", 9 << 16, 7 << 16 | 1)];
        assert_eq!(kinds(&numbered, 2), fq);
        assert_eq!(kinds(&[(2, "ingress", 0xffff_0000, 0xffff_fff1)], 2), None);
        assert_eq!(kinds(&[(2, "mq", 0, ROOT)], 2), None, "a card that is down");
        assert_eq!(kinds(&[(2, "fq", 0, ROOT)], 9), None);
    }

    #[test]
    fn messages_cut_short_are_read_without_harm() {
        let told = told(2, "fq", 0, ROOT);
        for end in 0..told.len() {
            let message = Message { kind: NEW_QUEUE, payload: &told[..end], ..Message::default() };
            assert!(queue(message).is_none_or(|queue| queue.kind != "fq" || end > HEAD_BYTES + 6));
        }
    }

    /// The loopback of a namespace has a queue of kind noqueue, or reports none.
    #[test]
    fn the_kernel_tells_the_queues_of_the_loopback() {
        let kinds = of("lo");
        assert!(kinds.as_ref().is_none_or(|kinds| !kinds.is_empty()), "{kinds:?}");
        assert_eq!(of("nobody0"), None);
    }
}
