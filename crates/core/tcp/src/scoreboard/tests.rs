//! The bookkeeping against a model that keeps a state for each byte.

use super::*;
use proptest::prelude::*;

fn board() -> Scoreboard {
    let mut board = Scoreboard::default();
    for start in (0..10_000).step_by(1000) {
        board.sent(start..start + 1000, 1000, Time(start));
    }
    board
}

/// All bytes that the peer does not have, with their state.
fn missing(board: &Scoreboard) -> Vec<(u64, u64, State)> {
    let of = |flight: &Flight| {
        let state = flight.state;
        board.sacked.holes(flight.range()).map(move |hole| (hole.start, hole.end, state)).collect()
    };
    board.flights.iter().flat_map(|flight| -> Vec<_> { of(flight) }).collect()
}

/// No limits except these.
fn all_of(lost_bytes: u64, below: u64) -> Bounds {
    Bounds { lost_bytes, span_bytes: u64::MAX, gap_bytes: 0, below }
}

#[test]
fn sendings_close_in_time_are_one_range() {
    let mut board = Scoreboard::default();
    board.set_spread_us_max(10);
    board.sent(0..100, 100, Time(0));
    board.sent(100..200, 100, Time(8));
    assert_eq!(board.ranges(), 1);
    board.sent(200..300, 100, Time(11));
    assert_eq!(board.ranges(), 2, "the first bytes of the range left more than 10 us ago");
}

#[test]
fn a_partial_acknowledgement_tells_the_earliest_time() {
    let mut board = Scoreboard::default();
    board.set_spread_us_max(10);
    board.sent(0..100, 100, Time(100));
    board.sent(100..200, 100, Time(108));
    let mut times = Vec::new();
    board.acknowledge(50, |piece| times.push(piece.sent_at));
    board.acknowledge(200, |piece| times.push(piece.sent_at));
    assert_eq!(times, [Time(100), Time(108)]);
}

#[test]
fn what_was_sacked_is_news_only_once() {
    let mut board = board();
    let mut news = 0;
    board.sack(2000..3000, |piece| news += piece.bytes);
    board.sack(2000..4000, |piece| news += piece.bytes);
    assert_eq!((news, board.sacked_bytes(), board.outstanding_bytes()), (2000, 2000, 8000));
    board.acknowledge(4000, |piece| news += piece.bytes);
    assert_eq!((news, board.sacked_bytes(), board.outstanding_bytes()), (4000, 0, 6000));
}

#[test]
fn a_report_of_parts_of_segments_counts_for_the_whole_ones_in_it() {
    let mut board = board();
    assert!(board.sack(2500..5500, |_| {}));
    assert_eq!(board.sacked_bytes(), 2000);
    assert!(missing(&board).contains(&(2000, 3000, State::Outstanding)));
    assert!(missing(&board).contains(&(5000, 6000, State::Outstanding)));
    assert!(!board.sack(7001..8000, |_| {}) && !board.sack(7000..7999, |_| {}));
}

#[test]
fn lost_bytes_are_asked_for_once_until_declined() {
    let mut board = board();
    assert_eq!(board.mark_range_lost(1000..4000), 3000);
    assert_eq!(board.ask(&all_of(2000, 10_000)), Some((1000..3000, 2000)));
    assert_eq!(board.ask(&all_of(2000, 10_000)), Some((3000..4000, 1000)));
    assert_eq!(board.ask(&all_of(2000, 10_000)), None);
    board.decline(1500..1600);
    assert_eq!(board.ask(&all_of(2000, 10_000)), Some((1500..1600, 100)));
    assert_eq!(board.lost_within(&(0..10_000)), Some(1000..4000));
}

#[test]
fn holes_that_are_close_are_asked_for_together() {
    let mut board = board();
    for start in [1000, 3000, 4000, 5000, 7000] {
        board.sack(start..start + 1000, |_| {});
    }
    board.mark_range_lost(0..9000);
    let bounds = Bounds { gap_bytes: 1000, ..all_of(u64::MAX, u64::MAX) };
    assert_eq!(board.ask(&bounds), Some((0..3000, 2000)), "the next gap is larger");
    let bounds = Bounds { span_bytes: 2500, ..bounds };
    assert_eq!(board.ask(&bounds), Some((6000..8500, 1500)));
    assert_eq!(board.lost_within(&(0..10_000)), Some(0..1000));
    assert_eq!(board.lost_within(&(1000..10_000)), Some(2000..3000));
    assert_eq!((board.asked_bytes(), board.lost_bytes()), (3500, 500));
}

#[test]
fn a_lost_fin_is_not_asked_for() {
    let mut board = Scoreboard::default();
    board.sent(0..101, 100, Time(0));
    board.mark_range_lost(0..101);
    assert_eq!(board.ask(&all_of(1000, 100)), Some((0..100, 100)));
    assert_eq!(board.ask(&all_of(1000, 100)), None, "byte 100 is the FIN");
    assert!(board.has_lost());
}

#[test]
fn a_peer_who_sacks_every_other_byte_says_nothing() {
    let mut board = board();
    let refused = (0..5000).filter(|byte| !board.sack(2 * byte..2 * byte + 1, |_| {})).count();
    assert_eq!((refused, board.ranges(), board.sacked_bytes()), (5000, 10, 0));
}

/// An overflowing queue drops every other segment of a window.
#[test]
fn thousands_of_holes_are_remembered_each() {
    let mut board = Scoreboard::default();
    board.set_spread_us_max(10);
    board.sent(0..16_000_000, 1000, Time(0));
    for start in (1000..16_000_000).step_by(2000) {
        assert!(board.sack(start..start + 1000, |_| {}));
    }
    board.mark_lost(|_| true);
    assert_eq!((board.sacked_bytes(), board.lost_bytes()), (8_000_000, 8_000_000));
    for start in (0..16_000_000).step_by(2000) {
        assert_eq!(board.ask(&all_of(5000, u64::MAX)), Some((start..start + 1000, 1000)));
        board.resent(start..start + 1000, Time(start));
    }
    assert_eq!((board.sacked_bytes(), board.outstanding_bytes()), (8_000_000, 8_000_000));
    assert!(board.memory_bytes() <= 6144, "{} bytes", board.memory_bytes());
    assert_eq!(board.take_forgotten(), 0);
}

#[test]
fn our_own_sendings_always_find_room() {
    let mut board = Scoreboard::default();
    for start in 0..1000 {
        board.sent(start * 10..start * 10 + 10, 5, Time(start * 1_000_000));
        board.sack(start * 10..start * 10 + 5, |_| {});
    }
    assert!(board.ranges() <= RANGES_MAX);
    assert_eq!((board.outstanding_bytes(), board.sacked_bytes()), (5000, 5000));
    assert_eq!(board.take_forgotten(), 0, "exact times go first");
    for start in 0..1000 {
        board.mark_range_lost(start * 10 + 5..start * 10 + 6);
    }
    assert!(board.ranges() <= RANGES_MAX && board.take_forgotten() > 0);
    assert_eq!(
        (board.outstanding_bytes() + board.lost_bytes(), board.sacked_bytes()),
        (5000, 5000)
    );
}

/// Irregular segments: each send makes a grid, and there are more grids than can be remembered.
#[test]
fn many_short_segments_are_remembered_as_far_as_there_is_room() {
    let mut board = Scoreboard::default();
    board.set_spread_us_max(10);
    let starts = (0..300).map(|at| at * 2500).collect::<Vec<u64>>();
    for start in &starts {
        board.sent(*start..start + 2500, 1000, Time(0));
        board.sack(start + 2000..start + 2500, |_| {});
    }
    assert_eq!(board.sacked_bytes(), 127 * 500, "the end of the last grid is not known");
    let all = 0..300 * 2500;
    board.sack(all.clone(), |_| {});
    assert!(board.sacked_bytes() > 749_000, "all except segments that may not end a cell");
    board.acknowledge(all.end, |_| {});
    assert_eq!((board.sacked_bytes(), board.outstanding_bytes()), (0, 0));
}

#[derive(Debug, Clone)]
enum Step {
    Send(u16),
    Acknowledge(u16),
    Sack(u16, u16),
    Lose(u16, u16),
    Ask(u16),
    Decline(u16, u16),
    Resend(u16, u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..200u16).prop_map(Step::Send),
        (0..400u16).prop_map(Step::Acknowledge),
        (0..900u16, 1..100u16).prop_map(|(at, bytes)| Step::Sack(at, bytes)),
        (0..900u16, 1..300u16).prop_map(|(at, bytes)| Step::Lose(at, bytes)),
        (1..300u16).prop_map(Step::Ask),
        (0..900u16, 1..300u16).prop_map(|(at, bytes)| Step::Decline(at, bytes)),
        (0..900u16, 1..300u16).prop_map(|(at, bytes)| Step::Resend(at, bytes)),
    ];
    prop::collection::vec(step, 0..60)
}

/// Size of all segments: small, to get near the limits of sends and of SACKs.
const SEGMENT_BYTES: usize = 40;

/// The model's state of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Byte {
    Acknowledged,
    Sacked,
    In(State),
}

/// One state for each byte that was ever sent.
#[derive(Default)]
struct Model {
    bytes: Vec<Byte>,
    acknowledged: usize,
    /// Where segments begin.
    segments: Vec<usize>,
}

impl Model {
    fn clip(&self, at: u16, bytes: u16) -> Range<usize> {
        let start = (self.acknowledged + usize::from(at)).min(self.bytes.len());
        start..(start + usize::from(bytes)).min(self.bytes.len())
    }

    fn turn(&mut self, range: Range<usize>, from: &[State], to: Byte) -> u64 {
        let mut turned = 0;
        for byte in &mut self.bytes[range] {
            if matches!(byte, Byte::In(state) if from.contains(state)) {
                *byte = to;
                turned += 1;
            }
        }
        turned
    }

    fn send(&mut self, bytes: usize) {
        let start = self.bytes.len();
        self.bytes.extend(std::iter::repeat_n(Byte::In(State::Outstanding), bytes));
        self.segments.extend((start..start + bytes).step_by(SEGMENT_BYTES));
    }

    fn whole_segments(&self, range: Range<usize>) -> Range<usize> {
        let start = self.segments.iter().find(|start| **start >= range.start);
        let mut ends = self.segments.iter().copied().chain([self.bytes.len()]);
        let end = ends.rfind(|end| *end <= range.end).unwrap_or(0);
        let start = start.copied().unwrap_or(end);
        start..end.max(start)
    }
}

fn play(board: &mut Scoreboard, model: &mut Model, step: &Step, now: Time) {
    use State::{Asked, Lost, Outstanding};
    let wide = |range: &Range<usize>| range.start as u64..range.end as u64;
    match *step {
        Step::Send(bytes) => {
            let start = model.bytes.len() as u64;
            board.sent(start..start + u64::from(bytes), SEGMENT_BYTES as u64, now);
            model.send(usize::from(bytes));
        }
        Step::Acknowledge(bytes) => {
            let range = model.clip(0, bytes);
            let (mut news, mut end) = (0, None);
            board.acknowledge(range.end as u64, |piece| {
                news += piece.bytes;
                end = Some(piece.end as usize);
            });
            let is_news = |at: &usize| matches!(model.bytes[*at], Byte::In(_));
            assert_eq!(news, range.clone().filter(is_news).count() as u64);
            assert_eq!(end, range.clone().rfind(is_news).map(|at| at + 1));
            model.bytes[range.clone()].fill(Byte::Acknowledged);
            model.acknowledged = range.end;
        }
        Step::Sack(at, bytes) => {
            let range = model.clip(at, bytes);
            let mut news = 0;
            board.sack(wide(&range), |piece| news += piece.bytes);
            let whole = model.whole_segments(range);
            assert_eq!(news, model.turn(whole, &[Outstanding, Lost, Asked], Byte::Sacked));
        }
        Step::Lose(at, bytes) => {
            let range = model.clip(at, bytes);
            let lost = board.mark_range_lost(wide(&range));
            assert_eq!(lost, model.turn(range, &[Outstanding], Byte::In(Lost)));
        }
        Step::Ask(bytes) => {
            let asked = board.ask(&all_of(u64::from(bytes), u64::MAX));
            let first = model.bytes.iter().position(|byte| *byte == Byte::In(Lost));
            assert_eq!(asked.as_ref().map(|(range, _)| range.start as usize), first);
            if let Some((range, lost)) = asked {
                let range = range.start as usize..range.end as usize;
                assert_eq!(lost, model.turn(range, &[Lost], Byte::In(Asked)));
            }
        }
        Step::Decline(at, bytes) => {
            let range = model.clip(at, bytes);
            board.decline(wide(&range));
            model.turn(range, &[Asked], Byte::In(Lost));
        }
        Step::Resend(at, bytes) => {
            let range = model.clip(at, bytes);
            if let Some(lost) = board.lost_within(&wide(&range)) {
                board.resent(lost.clone(), now);
                let lost = lost.start as usize..lost.end as usize;
                let bytes = lost.len() as u64;
                assert_eq!(model.turn(lost, &[Lost, Asked], Byte::In(Outstanding)), bytes);
            }
        }
    }
}

proptest! {
    #[test]
    fn it_agrees_with_a_state_for_each_byte(steps in steps()) {
        let (mut board, mut model) = (Scoreboard::default(), Model::default());
        for (at, step) in steps.iter().enumerate() {
            play(&mut board, &mut model, step, Time(at as u64 * 100));
            let mut bytes = vec![Byte::Acknowledged; model.acknowledged];
            bytes.resize(model.bytes.len(), Byte::Sacked);
            for (start, end, state) in missing(&board) {
                bytes[start as usize..end as usize].fill(Byte::In(state));
            }
            prop_assert_eq!(&bytes, &model.bytes);
            let sums = board.outstanding_bytes() + board.sacked_bytes() + board.lost_bytes() + board.asked_bytes();
            prop_assert_eq!(sums, (model.bytes.len() - model.acknowledged) as u64);
            for flight in &board.flights {
                prop_assert_eq!(u64::from(flight.sacked_bytes), board.sacked.bytes_in(flight.range()));
            }
        }
    }
}
