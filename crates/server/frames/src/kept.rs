//! Buffers that a device still reads.

use crate::Device;
use reactor::Buffer;
use std::rc::Rc;

/// Buffers, by the device's numbers. A sender may release its buffer; the buffer returns to its pool once the device has read it too.
#[derive(Default)]
pub struct Kept {
    buffers: Vec<Option<Rc<Buffer>>>,
    /// The number of buffers.
    count: usize,
}

impl Kept {
    /// Keeps the buffer of `bytes`, which `device` was just given, if the device reads them later.
    pub fn keep(&mut self, device: &Device, bytes: &[u8], buffer: &Rc<Buffer>) {
        let Some(number) = device.in_flight(bytes) else { return };
        if self.buffers.len() <= number {
            self.buffers.resize(number + 1, None);
        }
        if self.buffers[number].is_none() {
            self.buffers[number] = Some(Rc::clone(buffer));
            self.count += 1;
        }
    }

    /// Releases the buffers that `device` has read.
    pub fn let_go(&mut self, device: &mut Device) {
        while let Some(number) = device.next_returned() {
            let kept = self.buffers.get_mut(number).and_then(Option::take);
            self.count -= usize::from(kept.is_some());
        }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
