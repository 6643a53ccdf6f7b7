//! Slots that are reused, each time with a new generation.

use crate::Id;

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// A table with a limited number of values.
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    most: usize,
}

impl<T> Table<T> {
    pub(crate) fn new(most: usize) -> Self {
        Table { entries: Vec::new(), free: Vec::new(), most: most.min(u32::MAX as usize) }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// None: full.
    pub(crate) fn insert(&mut self, value: T) -> Option<Id> {
        if self.is_full() {
            return None;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        Some(Id { index, generation: entry.generation })
    }

    /// Slots that were ever used.
    pub(crate) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// The values in these slots.
    pub(crate) fn within(&self, slots: std::ops::Range<usize>) -> impl Iterator<Item = &T> {
        let end = slots.end.min(self.entries.len());
        let entries = &self.entries[slots.start.min(end)..end];
        entries.iter().filter_map(|entry| entry.value.as_ref())
    }

    /// Memory of the table itself, without memory that its values hold elsewhere.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.len() * size_of::<Entry<T>>()
    }

    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        self.entries
            .get(id.index())
            .filter(|entry| entry.generation == id.generation)?
            .value
            .as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index())?;
        entry.value.as_mut().filter(|_| entry.generation == id.generation)
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        let entry = self.entries.get_mut(id.index())?;
        if entry.generation != id.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_does_not_reach_what_came_after() {
        let mut table = Table::new(1);
        let first = table.insert('a').unwrap();
        assert!(table.insert('b').is_none(), "full");
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b').unwrap();
        assert_eq!((table.get(first), table.get(second)), (None, Some(&'b')));
        assert_eq!((table.remove(first), table.len()), (None, 1));
    }
}
