//! Starts and stops accepting at a thread's listeners: from startup to shutdown, except while another process accepts from them.

use crate::drain::Drain;
use reactor::Fd;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A thread's listeners, and the switch that stops the current accept loops.
pub(crate) struct Accepting {
    listeners: Vec<Fd>,
    stop: RefCell<Option<Rc<Drain>>>,
    /// The accept loops that were asked to stop. Each entry is gone once its loop has handed over its listener's last connection.
    stopped: RefCell<Vec<Weak<Drain>>>,
}

impl Accepting {
    /// No accept loop has started yet.
    pub(crate) fn new(listeners: impl IntoIterator<Item = Fd>) -> Self {
        let listeners = listeners.into_iter().collect();
        Self { listeners, stop: RefCell::default(), stopped: RefCell::default() }
    }

    /// Starts accepting at each listener, or stops it at all of them; does nothing if that was done before. `begin` accepts until its `Drain` begins.
    pub(crate) fn set(&self, is_on: bool, begin: impl Fn(Fd, Rc<Drain>)) {
        if !is_on {
            return self.stop();
        }
        self.stop.borrow_mut().get_or_insert_with(|| {
            let stop = Rc::new(Drain::default());
            self.listeners.iter().for_each(|at| begin(at.clone(), Rc::clone(&stop)));
            stop
        });
    }

    /// Stops accepting.
    pub(crate) fn stop(&self) {
        if let Some(stop) = self.stop.take() {
            stop.begin();
            let mut stopped = self.stopped.borrow_mut();
            stopped.retain(|stopped| stopped.strong_count() > 0);
            stopped.push(Rc::downgrade(&stop));
        }
    }

    /// Whether all accept loops have ended. Until then, loops that were stopped may still hand connections over.
    pub(crate) fn has_ended(&self) -> bool {
        let has_stopped = self.stop.borrow().is_none();
        has_stopped && self.stopped.borrow().iter().all(|stopped| stopped.strong_count() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn accepting_begins_once_at_each_listener_and_stops_at_all() {
        let fd = || Fd::from(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let accepting = Accepting::new([fd(), fd()]);
        let begun = RefCell::new(Vec::new());
        let set = |is_on| accepting.set(is_on, |_, stop| begun.borrow_mut().push(stop));
        set(false);
        assert!(begun.borrow().is_empty());
        set(true);
        set(true);
        assert_eq!(begun.borrow().len(), 2, "once at each");
        assert!(begun.borrow().iter().all(|stop| !stop.has_begun()));
        set(false);
        assert!(begun.borrow().iter().all(|stop| stop.has_begun()), "stopped at all");
        set(true);
        assert_eq!(begun.borrow().len(), 4, "begun again");
        assert!(begun.borrow()[2..].iter().all(|stop| !stop.has_begun()));
    }

    #[test]
    fn accepting_has_ended_when_the_last_one_that_was_stopped_is_gone() {
        let fd = || Fd::from(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let accepting = Accepting::new([fd(), fd()]);
        let begun = RefCell::new(Vec::new());
        let set = |is_on| accepting.set(is_on, |_, stop| begun.borrow_mut().push(stop));
        assert!(accepting.has_ended(), "no loop has begun");
        set(true);
        assert!(!accepting.has_ended());
        set(false);
        set(true);
        set(false);
        for left in (0..4).rev() {
            assert!(!accepting.has_ended(), "{} still hand over", left + 1);
            begun.borrow_mut().pop();
        }
        assert!(accepting.has_ended());
    }
}
