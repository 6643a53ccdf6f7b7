//! Runs work on all cores and returns the results in the order of the input, so that reports are the same on any machine.

use std::thread::{available_parallelism, scope};

/// Applies `make` to each item and keeps the order. Fewer than `least` items are not worth a thread.
pub(crate) fn map<I: Sync, O: Send>(
    items: &[I],
    least: usize,
    make: impl Fn(&I) -> O + Sync,
) -> Vec<O> {
    let cores = available_parallelism().map_or(1, usize::from);
    let part = items.len().div_ceil(cores).max(1);
    if cores == 1 || items.len() < least {
        return items.iter().map(make).collect();
    }
    let make = &make;
    scope(|scope| {
        let start = |part: &'_ [I]| part.iter().map(make).collect::<Vec<O>>();
        let parts: Vec<_> =
            items.chunks(part).map(|part| scope.spawn(move || start(part))).collect();
        let mut made = Vec::with_capacity(items.len());
        for part in parts {
            made.extend(part.join().expect("what answers does not panic"));
        }
        made
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_the_order_of_the_items() {
        for count in [0, 1, 63, 64, 1001] {
            let items: Vec<u64> = (0..count).collect();
            let squares: Vec<u64> = items.iter().map(|item| item * item).collect();
            assert_eq!(super::map(&items, 64, |item| item * item), squares);
        }
    }
}
