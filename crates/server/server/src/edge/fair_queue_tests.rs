//! Questions are numbers here, and clients are the last byte of an address.

use super::*;

const LIMITS: QueueLimits = QueueLimits {
    under_way_max: 4,
    under_way_by_client_max: 3,
    waiting_bytes_max: 20 * QUESTION_BYTES,
    waiting_bytes_by_client_max: 10 * QUESTION_BYTES,
};

fn queue() -> FairQueue<u32> {
    FairQueue::new(LIMITS)
}

fn client(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn ask(queue: &mut FairQueue<u32>, key: u32, last: u8) -> Result<Vec<u32>, QueueFull> {
    queue.ask(&key, 0, client(last))
}

/// Takes all questions whose turn it is.
fn all(queue: &mut FairQueue<u32>) -> Vec<u32> {
    std::iter::from_fn(|| queue.next()).collect()
}

/// Checks the invariants.
fn check(queue: &FairQueue<u32>) {
    let waiting = queue.questions.values().filter(|one| one.under_way.is_none());
    let bytes: usize = waiting.map(|one| one.bytes).sum();
    assert_eq!(bytes, queue.waiting_bytes);
    assert!(bytes <= LIMITS.waiting_bytes_max);
    let under_way = queue.lines.values().map(|line| line.under_way).sum::<usize>();
    assert_eq!(under_way, queue.under_way);
    assert!(under_way <= LIMITS.under_way_max);
    for (client, line) in &queue.lines {
        assert!(line.under_way <= LIMITS.under_way_by_client_max);
        assert!(line.waiting_bytes <= LIMITS.waiting_bytes_by_client_max);
        assert!(line.under_way > 0 || !line.waiting.is_empty(), "an idle line is forgotten");
        let places = queue.order.iter().filter(|other| *other == client).count();
        assert_eq!(places, usize::from(!line.waiting.is_empty()));
        assert_eq!(line.waiting_bytes, line.waiting.len() * QUESTION_BYTES);
    }
    assert!(queue.order.iter().all(|client| queue.lines.contains_key(client)));
}

#[test]
fn a_flood_from_one_client_leaves_places_and_turns_to_the_others() {
    let mut queue = queue();
    (0..10).for_each(|key| assert_eq!(ask(&mut queue, key, 1), Ok(vec![])));
    assert_eq!(ask(&mut queue, 10, 1), Err(QueueFull::ClientFull));
    assert_eq!(all(&mut queue), [0, 1, 2], "one place is left to others");
    assert_eq!(ask(&mut queue, 20, 2), Ok(vec![]));
    assert_eq!(ask(&mut queue, 21, 2), Ok(vec![]));
    assert_eq!(all(&mut queue), [20]);
    queue.finish(&0);
    assert_eq!(all(&mut queue), [3]);
    queue.finish(&1);
    assert_eq!(all(&mut queue), [21], "they take turns");
    check(&queue);
}

#[test]
fn who_asks_what_another_client_waits_for_does_not_wait_in_its_line() {
    let mut queue = queue();
    (0..10).for_each(|key| assert_eq!(ask(&mut queue, key, 1), Ok(vec![])));
    assert_eq!(all(&mut queue), [0, 1, 2]);
    assert_eq!(ask(&mut queue, 9, 2), Ok(vec![]));
    assert_eq!(queue.waiting(), 7, "it is one question");
    assert_eq!(all(&mut queue), [9]);
    check(&queue);
    queue.finish(&9);
    assert!(all(&mut queue).is_empty(), "the first client has its places");
    check(&queue);
}

#[test]
fn what_nobody_waits_for_leaves_its_line_and_what_is_under_way_keeps_its_place() {
    let mut queue = queue();
    (0..10).for_each(|key| assert_eq!(ask(&mut queue, key, 1), Ok(vec![])));
    assert_eq!(all(&mut queue), [0, 1, 2]);
    assert!(!queue.withdraw(&0), "the helper works on it");
    assert!((3..10).all(|key| queue.withdraw(&key)) && !queue.withdraw(&3));
    assert_eq!((queue.waiting(), queue.waiting_bytes), (0, 0));
    check(&queue);
    (0..3).for_each(|key| queue.finish(&key));
    assert!(queue.lines.is_empty() && queue.order.is_empty() && queue.questions.is_empty());
}

#[test]
fn when_all_lines_are_full_the_longest_gives_way_to_a_shorter_one() {
    let mut queue = queue();
    (0..10).for_each(|key| assert_eq!(ask(&mut queue, key, 1), Ok(vec![])));
    (20..30).for_each(|key| assert_eq!(ask(&mut queue, key, 2), Ok(vec![])));
    let displaced = ask(&mut queue, 30, 3).unwrap();
    assert!(matches!(displaced[..], [9 | 29]), "the newest of a longest one: {displaced:?}");
    check(&queue);
    for key in 31..60 {
        if ask(&mut queue, key, 3).is_err() {
            break;
        }
        check(&queue);
    }
    let lengths = [1, 2, 3].map(|last| queue.lines[&client(last)].waiting.len());
    assert!(lengths.iter().all(|length| (6..=7).contains(length)), "{lengths:?}");
    assert_eq!(ask(&mut queue, 60, 3), Err(QueueFull::Full));
}

#[test]
fn long_texts_are_fewer_questions() {
    let mut queue = queue();
    let longest = LIMITS.waiting_bytes_by_client_max - QUESTION_BYTES;
    assert_eq!(queue.ask(&1, longest + 1, client(1)), Err(QueueFull::ClientFull));
    assert_eq!(queue.ask(&1, longest, client(1)), Ok(vec![]));
    assert_eq!(queue.ask(&2, 0, client(1)), Err(QueueFull::ClientFull));
    assert_eq!(queue.next(), Some(1));
    assert_eq!(queue.ask(&2, 0, client(1)), Ok(vec![]), "what is under way does not wait");
}

#[test]
fn whatever_happens_the_bounds_hold_and_nothing_is_lost() {
    for seed in 1..200_u64 {
        let mut state = seed;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut queue = queue();
        for _ in 0..300 {
            let key = draw(40) as u32;
            match draw(8) {
                0..4 => drop(ask(&mut queue, key, draw(5) as u8)),
                4 => drop(queue.next()),
                5 => drop(queue.withdraw(&key)),
                _ if queue.questions.get(&key).is_some_and(|one| one.under_way.is_some()) => {
                    queue.finish(&key);
                }
                _ => {}
            }
            check(&queue);
        }
        while queue.waiting() > 0 {
            let under_way = queue.questions.iter().filter(|(_, one)| one.under_way.is_some());
            let under_way: Vec<u32> = under_way.map(|(key, _)| *key).collect();
            under_way.iter().for_each(|key| queue.finish(key));
            let waiting = queue.waiting();
            assert!(!all(&mut queue).is_empty(), "seed {seed}: {waiting} wait forever");
            check(&queue);
        }
    }
}
