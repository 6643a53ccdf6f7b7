//! Buffers that a device still reads.

use crate::Device;
use reactor::Buffer;
use std::rc::Rc;

/// Buffers, by the device's numbers. Whoever sent from one may let go of it; it goes back to its pool when the device has read it, too.
#[derive(Default)]
pub struct Kept(Vec<Option<Rc<Buffer>>>);

impl Kept {
    /// Keeps the buffer of `bytes`, which `device` was just given, if it reads them later.
    pub fn keep(&mut self, device: &Device, bytes: &[u8], buffer: &Rc<Buffer>) {
        let Some(number) = device.in_flight(bytes) else { return };
        if self.0.len() <= number {
            self.0.resize(number + 1, None);
        }
        self.0[number].get_or_insert_with(|| Rc::clone(buffer));
    }

    /// Lets go of the buffers that `device` has read.
    pub fn let_go(&mut self, device: &mut Device) {
        while let Some(number) = device.next_returned() {
            if let Some(buffer) = self.0.get_mut(number) {
                *buffer = None;
            }
        }
    }
}
