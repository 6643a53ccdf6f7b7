//! When connections are accepted: from the start to the shutdown, but not while another process accepts from the same listeners.

use crate::drain::Drain;
use reactor::Fd;
use std::cell::RefCell;
use std::rc::Rc;

/// A thread's listeners, and its present shift at them.
pub(crate) struct Shifts {
    listeners: Vec<Fd>,
    present: RefCell<Option<Rc<Drain>>>,
}

impl Shifts {
    /// No shift has begun.
    pub(crate) fn new(listeners: impl IntoIterator<Item = Fd>) -> Self {
        let listeners = listeners.into_iter().collect();
        Self { listeners, present: RefCell::default() }
    }

    /// Begins a shift at each listener, or ends the present one, unless that was done before. A shift lasts until its `Drain` begins.
    pub(crate) fn set(&self, is_on: bool, begin: impl Fn(Fd, Rc<Drain>)) {
        let mut present = self.present.borrow_mut();
        match (&*present, is_on) {
            (None, true) => {
                let shift = Rc::new(Drain::default());
                self.listeners.iter().for_each(|at| begin(at.clone(), Rc::clone(&shift)));
                *present = Some(shift);
            }
            (Some(shift), false) => {
                shift.begin();
                *present = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_shift_begins_once_at_each_listener_and_ends_for_all() {
        let fd = || Fd::from(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let shifts = Shifts::new([fd(), fd()]);
        let begun = RefCell::new(Vec::new());
        let set = |is_on| shifts.set(is_on, |_, shift| begun.borrow_mut().push(shift));
        set(false);
        assert!(begun.borrow().is_empty());
        set(true);
        set(true);
        assert_eq!(begun.borrow().len(), 2, "once at each");
        assert!(begun.borrow().iter().all(|shift| !shift.has_begun()));
        set(false);
        assert!(begun.borrow().iter().all(|shift| shift.has_begun()), "ended for all");
        set(true);
        assert_eq!(begun.borrow().len(), 4, "another shift");
        assert!(begun.borrow()[2..].iter().all(|shift| !shift.has_begun()));
    }
}
