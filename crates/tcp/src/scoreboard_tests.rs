//! The bookkeeping against a model that keeps a state for each byte.

use super::*;
use proptest::prelude::*;

fn board() -> Scoreboard {
    let mut board = Scoreboard::default();
    for start in (0..10_000).step_by(1000) {
        board.sent(start..start + 1000, Time(start));
    }
    board
}

fn states(board: &Scoreboard) -> Vec<(u64, u64, State)> {
    board.iter().map(|flight| (flight.start, flight.end(), flight.state)).collect()
}

#[test]
fn sendings_close_in_time_are_one_range() {
    let mut board = Scoreboard::default();
    board.set_spread_us_max(10);
    board.sent(0..100, Time(0));
    board.sent(100..200, Time(8));
    assert_eq!(board.ranges(), 1);
    board.sent(200..300, Time(11));
    assert_eq!(board.ranges(), 2, "the first of the range left more than 10 us ago");
}

#[test]
fn a_partial_acknowledgement_tells_the_earliest_time() {
    let mut board = Scoreboard::default();
    board.set_spread_us_max(10);
    board.sent(0..100, Time(100));
    board.sent(100..200, Time(108));
    let mut times = Vec::new();
    board.acknowledge(50, |piece| times.push(piece.sent_at));
    board.acknowledge(200, |piece| times.push(piece.sent_at));
    assert_eq!(times, [Time(100), Time(108)]);
}

#[test]
fn a_sack_splits_and_neighbours_join() {
    let mut board = board();
    let mut news = 0;
    board.sack(2500..3500, |piece| news += piece.bytes);
    board.sack(3000..4000, |piece| news += piece.bytes);
    assert_eq!((news, board.sacked_bytes(), board.outstanding_bytes()), (1500, 1500, 8500));
    assert!(states(&board).contains(&(2500, 4000, State::Sacked)));
    board.acknowledge(4000, |piece| news += piece.bytes);
    assert_eq!(news, 4000, "what was SACKed is news only once");
}

#[test]
fn lost_bytes_are_asked_for_once_until_declined() {
    let mut board = board();
    assert_eq!(board.mark_range_lost(1000..4000), 3000);
    assert_eq!(board.ask(2000, 10_000), Some(1000..3000));
    assert_eq!(board.ask(2000, 10_000), Some(3000..4000));
    assert_eq!(board.ask(2000, 10_000), None);
    board.decline(1500..1600);
    assert_eq!(board.ask(2000, 10_000), Some(1500..1600));
    assert_eq!(board.lost_within(&(0..10_000)), Some(1000..4000));
}

#[test]
fn a_lost_fin_is_not_asked_for() {
    let mut board = Scoreboard::default();
    board.sent(0..101, Time(0));
    board.mark_range_lost(0..101);
    assert_eq!(board.ask(1000, 100), Some(0..100));
    assert_eq!(board.ask(1000, 100), None, "byte 100 is the FIN");
    assert!(board.has_lost());
}

#[test]
fn a_peer_who_sacks_every_other_byte_cannot_make_it_grow() {
    let mut board = board();
    let refused = (0..5000).filter(|byte| !board.sack(2 * byte..2 * byte + 1, |_| {})).count();
    assert!(refused > 4000);
    assert!(board.ranges() <= RANGES_MAX && board.memory_bytes() <= 4096);
}

#[test]
fn short_of_room_small_gaps_are_sent_again_with_their_neighbours() {
    let mut board = Scoreboard::default();
    for start in (0..90_000).step_by(1000) {
        board.sent(start..start + 1000, Time(start));
    }
    for start in (1000..90_000).step_by(2000) {
        board.sack(start..start + 1000, |_| {});
    }
    board.sack(60_000..64_000, |_| {});
    board.mark_lost(|_| true);
    let lost = |from, to| (from, to, State::Lost);
    let expected = [lost(0, 59_000), (59_000, 64_000, State::Sacked), lost(64_000, 89_000)];
    assert_eq!(states(&board)[..3], expected, "what is more than its neighbours is kept");
}

#[test]
fn our_own_sendings_always_find_room() {
    let mut board = Scoreboard::default();
    for start in 0..1000 {
        board.sent(start * 10..start * 10 + 10, Time(start * 1_000_000));
        board.sack(start * 10..start * 10 + 5, |_| {});
    }
    assert!(board.ranges() <= RANGES_MAX);
    assert_eq!(board.outstanding_bytes() + board.sacked_bytes() + board.lost_bytes(), 10_000);
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

/// One state for each byte that was ever sent; None: acknowledged.
#[derive(Default)]
struct Model {
    bytes: Vec<Option<State>>,
    acknowledged: usize,
}

impl Model {
    fn clip(&self, at: u16, bytes: u16) -> Range<usize> {
        let start = (self.acknowledged + usize::from(at)).min(self.bytes.len());
        start..(start + usize::from(bytes)).min(self.bytes.len())
    }

    fn turn(&mut self, range: Range<usize>, from: &[State], to: State) -> u64 {
        let mut turned = 0;
        for byte in &mut self.bytes[range] {
            if byte.is_some_and(|state| from.contains(&state)) {
                *byte = Some(to);
                turned += 1;
            }
        }
        turned
    }
}

fn play(board: &mut Scoreboard, model: &mut Model, step: &Step, now: Time) {
    use State::{Asked, Lost, Outstanding, Sacked};
    let wide = |range: &Range<usize>| range.start as u64..range.end as u64;
    match *step {
        Step::Send(bytes) => {
            let start = model.bytes.len() as u64;
            board.sent(start..start + u64::from(bytes), now);
            model.bytes.extend(std::iter::repeat_n(Some(Outstanding), usize::from(bytes)));
        }
        Step::Acknowledge(bytes) => {
            let range = model.clip(0, bytes);
            let mut news = 0;
            board.acknowledge(range.end as u64, |piece| news += piece.bytes);
            let expected =
                model.bytes[range.clone()].iter().filter(|byte| **byte != Some(Sacked)).count();
            assert_eq!(news, expected as u64);
            model.bytes[range.clone()].fill(None);
            model.acknowledged = range.end;
        }
        Step::Sack(at, bytes) => {
            let range = model.clip(at, bytes);
            let mut news = 0;
            if board.sack(wide(&range), |piece| news += piece.bytes) {
                assert_eq!(news, model.turn(range, &[Outstanding, Lost, Asked], Sacked));
            }
        }
        Step::Lose(at, bytes) => {
            let range = model.clip(at, bytes);
            assert_eq!(
                board.mark_range_lost(wide(&range)),
                model.turn(range, &[Outstanding], Lost)
            );
        }
        Step::Ask(bytes) => {
            let asked = board.ask(u64::from(bytes), u64::MAX);
            let first = model.bytes.iter().position(|byte| *byte == Some(Lost));
            assert_eq!(asked.as_ref().map(|range| range.start as usize), first);
            if let Some(range) = asked {
                let turned = model.turn(range.start as usize..range.end as usize, &[Lost], Asked);
                assert_eq!(turned, range.end - range.start);
            }
        }
        Step::Decline(at, bytes) => {
            let range = model.clip(at, bytes);
            board.decline(wide(&range));
            model.turn(range, &[Asked], Lost);
        }
        Step::Resend(at, bytes) => {
            let range = model.clip(at, bytes);
            if let Some(lost) = board.lost_within(&wide(&range)) {
                board.resent(lost.clone(), now);
                let turned =
                    model.turn(lost.start as usize..lost.end as usize, &[Lost, Asked], Outstanding);
                assert_eq!(turned, lost.end - lost.start);
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
            let mut bytes = vec![None; model.acknowledged];
            for flight in board.iter() {
                prop_assert_eq!(flight.start as usize, bytes.len());
                bytes.extend(std::iter::repeat_n(Some(flight.state), flight.bytes as usize));
            }
            prop_assert_eq!(&bytes, &model.bytes);
            let sums = board.outstanding_bytes() + board.sacked_bytes() + board.lost_bytes() + board.asked_bytes();
            prop_assert_eq!(sums, (model.bytes.len() - model.acknowledged) as u64);
        }
    }
}
