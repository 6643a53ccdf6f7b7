//! Which titles the bytes go to, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi: Efficient computation of
//! frequent and top-k elements in data streams, ICDT 2005). Counted once per response, never per window.
//!
//! Any title that has more than 1/64 of a worker's bytes is in its list. The list is taken and begun anew each second, so what
//! a rare title inherits from the one that it displaced is a second's worth at most.

/// Titles that a list holds.
const TITLES_MAX: usize = 64;

/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 120;

/// A title and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The title: the first folder of the path, or the file itself where it lies in none.
    pub title: Box<[u8]>,
    /// Bytes sent for it.
    pub bytes: u64,
}

/// The titles of one worker in the present second.
#[derive(Debug, Default)]
pub struct Busiest(Vec<Share>);

impl Busiest {
    /// Counts the bytes of one response with the file at `path`.
    pub fn note(&mut self, path: &[u8], bytes: u64) {
        let title = title_of(path);
        if let Some(share) = self.0.iter_mut().find(|share| *share.title == *title) {
            share.bytes += bytes;
            return;
        }
        if self.0.len() < TITLES_MAX {
            self.0.push(Share { title: title.into(), bytes });
            return;
        }
        let least = self.0.iter_mut().min_by_key(|share| share.bytes);
        let least = least.expect("the list is full, so it is not empty");
        *least = Share { title: title.into(), bytes: least.bytes + bytes };
    }

    /// Takes the list, and begins a new one.
    pub fn take(&mut self) -> Vec<Share> {
        std::mem::take(&mut self.0)
    }
}

fn title_of(path: &[u8]) -> &[u8] {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or(path);
    &first[..first.len().min(NAME_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_folder_are_one_title() {
        let mut busiest = Busiest::default();
        busiest.note(b"film/video/1.m4s", 10);
        busiest.note(b"film/index.m3u8", 1);
        busiest.note(b"alone.mp4", 5);
        let taken = busiest.take();
        let found: Vec<_> = taken.iter().map(|share| (&*share.title, share.bytes)).collect();
        assert_eq!(found, [(&b"film"[..], 11), (b"alone.mp4", 5)]);
        assert!(busiest.take().is_empty(), "a new list has begun");
    }

    #[test]
    fn what_is_asked_for_most_stays_among_many_others() {
        let mut busiest = Busiest::default();
        for index in 0..10_000 {
            busiest.note(format!("rare-{index}/a").as_bytes(), 100);
            busiest.note(b"hit/a", 50);
        }
        let taken = busiest.take();
        assert_eq!(taken.len(), TITLES_MAX);
        let hit = taken.iter().find(|share| *share.title == *b"hit").unwrap();
        assert!(hit.bytes >= 500_000);
    }

    #[test]
    fn long_names_are_cut() {
        let mut busiest = Busiest::default();
        busiest.note(&[b'x'; 4000], 1);
        assert_eq!(busiest.take()[0].title.len(), NAME_BYTES_MAX);
    }
}
