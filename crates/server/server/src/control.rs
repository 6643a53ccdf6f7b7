//! How the main thread controls workers: the only state that both write.

use crate::address_lists::AddressLists;
use disk::Inode;
use reactor::Remote;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tls::TlsContext;
use token::{CopyRing, KeyRing};

/// The main thread's requests to one worker. The worker checks them when it is woken.
pub struct Control {
    drain: AtomicBool,
    standby: AtomicBool,
    left: AtomicBool,
    tls: Mutex<Option<TlsContext>>,
    keys: Mutex<Option<Arc<KeyRing>>>,
    copies: Mutex<Option<Arc<CopyRing>>>,
    lists: Mutex<Option<Arc<AddressLists>>>,
    withheld: Mutex<Option<Arc<[Inode]>>>,
    remote: Remote,
}

impl Control {
    /// Controls the worker that `remote` wakes. If it `is_standby`, it accepts nothing until asked to.
    pub fn new(remote: Remote, is_standby: bool) -> Self {
        Self {
            drain: AtomicBool::new(false),
            standby: AtomicBool::new(is_standby),
            left: AtomicBool::new(false),
            tls: Mutex::new(None),
            keys: Mutex::new(None),
            copies: Mutex::new(None),
            lists: Mutex::new(None),
            withheld: Mutex::new(None),
            remote,
        }
    }

    /// Asks the worker to stop accepting, finish its current responses and end.
    pub fn drain(&self) {
        self.drain.store(true, Ordering::Release);
        self.remote.wake();
    }

    /// Asks the worker to leave its listeners to another process, or to accept again. While away, it still answers its viewers, but announces that
    /// each connection ends with the response.
    pub(crate) fn set_standby(&self, is_standby: bool) {
        self.standby.store(is_standby, Ordering::Release);
        self.remote.wake();
    }

    /// Gives the worker certificates for its next connections.
    pub fn renew(&self, tls: TlsContext) {
        *self.tls.lock().expect("no holder of this lock can panic") = Some(tls);
        self.remote.wake();
    }

    /// Gives the worker keys for the tokens of its next requests.
    pub fn renew_keys(&self, keys: Arc<KeyRing>) {
        *self.keys.lock().expect("no holder of this lock can panic") = Some(keys);
        self.remote.wake();
    }

    /// Gives the worker keys for the proofs in nodes' next requests.
    pub(crate) fn renew_copies(&self, copies: Arc<CopyRing>) {
        *self.copies.lock().expect("no holder of this lock can panic") = Some(copies);
        self.remote.wake();
    }

    /// Gives the worker the address lists for its next connections.
    pub(crate) fn renew_lists(&self, lists: Arc<AddressLists>) {
        *self.lists.lock().expect("no holder of this lock can panic") = Some(lists);
        self.remote.wake();
    }

    /// Gives the worker the files that it must not serve.
    pub fn withhold(&self, inodes: Arc<[Inode]>) {
        *self.withheld.lock().expect("no holder of this lock can panic") = Some(inodes);
        self.remote.wake();
    }

    /// Whether the worker was asked to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.load(Ordering::Acquire)
    }

    /// Whether the worker leaves its listeners to another process.
    pub(crate) fn is_standby(&self) -> bool {
        self.standby.load(Ordering::Acquire)
    }

    /// Records whether the worker has accepted its last connection, and has published their number.
    pub(crate) fn note_left(&self, has_left: bool) {
        self.left.store(has_left, Ordering::Release);
    }

    /// Whether the worker's published number of connections can only fall from now on.
    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// New keys; each set is returned once.
    pub(crate) fn take_keys(&self) -> Option<Arc<KeyRing>> {
        self.keys.lock().expect("no holder of this lock can panic").take()
    }

    /// New keys for nodes' copies; each set is returned once.
    pub(crate) fn take_copies(&self) -> Option<Arc<CopyRing>> {
        self.copies.lock().expect("no holder of this lock can panic").take()
    }

    /// New address lists; each pair is returned once.
    pub(crate) fn take_lists(&self) -> Option<Arc<AddressLists>> {
        self.lists.lock().expect("no holder of this lock can panic").take()
    }

    /// Files that must not be served; each list is returned once.
    pub(crate) fn take_withheld(&self) -> Option<Arc<[Inode]>> {
        self.withheld.lock().expect("no holder of this lock can panic").take()
    }

    /// New certificates; each set is returned once.
    pub(crate) fn take_tls(&self) -> Option<TlsContext> {
        self.tls.lock().expect("no holder of this lock can panic").take()
    }
}
