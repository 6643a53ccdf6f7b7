use super::*;

const LIMITS: LossLimits = LossLimits { bytes_percent: 1.0, segments_percent: 5.0 };

/// A MiB with some retransmitted, in segments of about 1,000 bytes.
fn window(retransmitted_bytes: u64, retransmitted_segments: u64) -> SendProgress {
    SendProgress {
        sent_bytes: WINDOW_BYTES,
        retransmitted_bytes,
        sent_segments: 1000,
        retransmitted_segments,
    }
}

fn verdict(windows: &[SendProgress]) -> Option<Costly> {
    let mut watch = Watch::default();
    let mut progress = SendProgress::default();
    for window in windows {
        progress = progress.with(*window);
        assert_eq!(watch.look(progress, LIMITS), Some(*window));
    }
    watch.verdict()
}

#[test]
fn a_path_that_loses_more_than_the_limit_in_any_window_costs_too_much() {
    let percent = WINDOW_BYTES / 100;
    assert_eq!(verdict(&[window(percent, 10), window(0, 0)]), None, "a hundredth, rounded down");
    assert_eq!(verdict(&[window(0, 0), window(percent + 1, 10)]), Some(Costly::Bytes));
    assert_eq!(verdict(&[window(2 * percent, 10), window(0, 0)]), Some(Costly::Bytes), "it stays");
}

#[test]
fn tiny_holes_cost_too_much_although_they_are_few_bytes() {
    assert_eq!(verdict(&[window(51, 51)]), Some(Costly::Segments));
    assert_eq!(verdict(&[window(50, 50)]), None);
}

#[test]
fn too_few_bytes_say_nothing() {
    let mut watch = Watch::default();
    let lost_all = SendProgress { retransmitted_bytes: WINDOW_BYTES - 1, ..window(0, 900) };
    assert_eq!(watch.look(SendProgress { sent_bytes: WINDOW_BYTES - 1, ..lost_all }, LIMITS), None);
    assert_eq!(watch.verdict(), None);
    // A kernel without these numbers, or one whose counters went backwards.
    assert_eq!(watch.look(SendProgress::default(), LIMITS), None);
}

#[test]
fn viewers_are_forgotten_after_a_time_and_when_there_are_too_many() {
    let start = Instant::now();
    let mut paths = LossyPaths::default();
    let at = |address: &str| Whose::of_address(address.parse().unwrap());
    let four = at("192.0.2.1");
    paths.note(four, start);
    assert!(paths.has(four, start) && paths.has(at("::ffff:192.0.2.1"), start));
    assert!(!paths.has(at("192.0.2.2"), start));
    assert!(!paths.has(four, start + LossyPaths::FOR));
    paths.note(at("2001:db8::1"), start);
    assert!(paths.has(at("2001:db8::2"), start), "the same network");
    assert!(!paths.has(at("2001:db8:0:1::1"), start));
    paths.note(Whose::Viewer(7), start);
    assert!(paths.has(Whose::Viewer(7), start) && !paths.has(Whose::Viewer(8), start));
    for number in 0..2 * LossyPaths::ENTRIES_MAX as u32 {
        let address = IpAddr::from(number.to_be_bytes());
        paths.note(Whose::of_address(address), start + Duration::from_secs(1));
    }
    assert_eq!(paths.0.len(), LossyPaths::ENTRIES_MAX);
    assert!(!paths.has(four, start + Duration::from_secs(2)), "the oldest entry is dropped first");
}
