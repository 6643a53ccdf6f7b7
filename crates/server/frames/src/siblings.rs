//! Messages between the workers of one device.
//!
//! All segments of a connection arrive at one worker's queue. A router's message about them has another source address, so it may arrive at another
//! queue; a worker without that connection passes it on. There is a second use. During a shutdown, a worker without viewers stays until no worker has
//! any: if its queue were closed, the kernel would redistribute the device's packets over the remaining queues, and viewers would lose their worker.

use crate::icmp::TooBig;
use reactor::{Remote, Woken, remote};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// How many messages may wait for one worker. Routers send few, and strangers who pretend to be routers must not fill memory.
const WAITING_MAX: usize = 64;

/// One worker's place among the workers of a device.
pub struct Sibling {
    index: usize,
    all: Arc<Siblings>,
    has_left: bool,
}

struct Siblings {
    mailboxes: Vec<Mailbox>,
    /// Workers that may still have viewers.
    staying: AtomicUsize,
}

struct Mailbox {
    waiting: Mutex<Vec<TooBig>>,
    remote: Remote,
}

/// Creates the places of `workers` workers, each with its wake-up.
///
/// # Errors
/// If no descriptor is left.
pub fn siblings(workers: usize) -> io::Result<Vec<(Sibling, Woken)>> {
    let (mut mailboxes, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..workers {
        let (remote, woken) = remote()?;
        mailboxes.push(Mailbox { waiting: Mutex::default(), remote });
        ends.push(woken);
    }
    let all = Arc::new(Siblings { mailboxes, staying: AtomicUsize::new(workers) });
    let place = |(index, woken)| (Sibling { index, all: Arc::clone(&all), has_left: false }, woken);
    Ok(ends.into_iter().enumerate().map(place).collect())
}

impl Sibling {
    /// Sends a message to all others. If a mailbox is full, the message is lost, as on any wire.
    pub fn tell_others(&self, too_big: &TooBig) {
        let others =
            self.all.mailboxes.iter().enumerate().filter(|(index, _)| *index != self.index);
        for (_, mailbox) in others {
            let mut waiting = mailbox.waiting.lock().expect("no holder of this lock can panic");
            if waiting.len() < WAITING_MAX {
                waiting.push(*too_big);
                mailbox.remote.wake();
            }
        }
    }

    /// Takes the messages from other workers.
    pub fn told(&self) -> Vec<TooBig> {
        let mut waiting = self.all.mailboxes[self.index]
            .waiting
            .lock()
            .expect("no holder of this lock can panic");
        std::mem::take(&mut *waiting)
    }

    /// Records that this worker has no viewers left, and gets no more.
    pub fn leave(&mut self) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.all.staying.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns true if any worker may still have viewers.
    pub fn anybody_stays(&self) -> bool {
        self.all.staying.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Sibling {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_big(mtu_bytes: u32) -> TooBig {
        let address = "192.0.2.1:80".parse().unwrap();
        TooBig { local: address, remote: address, sequence: 7, mtu_bytes }
    }

    #[test]
    fn who_tells_is_heard_by_all_others_up_to_a_bound() {
        let places: Vec<_> = siblings(3).unwrap().into_iter().map(|(place, _)| place).collect();
        for number in 0..WAITING_MAX + 5 {
            places[1].tell_others(&too_big(number as u32));
        }
        assert!(places[1].told().is_empty());
        for listener in [&places[0], &places[2]] {
            let heard: Vec<_> = listener.told().iter().map(|told| told.mtu_bytes).collect();
            assert_eq!(heard, (0..WAITING_MAX as u32).collect::<Vec<_>>());
            assert!(listener.told().is_empty());
        }
    }

    #[test]
    fn all_have_left_when_the_last_one_has_or_is_no_more() {
        let mut places: Vec<_> = siblings(2).unwrap().into_iter().map(|(place, _)| place).collect();
        places[0].leave();
        places[0].leave();
        assert!(places[0].anybody_stays());
        drop(places.pop());
        assert!(!places[0].anybody_stays());
    }
}
