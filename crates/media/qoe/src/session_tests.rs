//! Sessions given by their requests, each `(seconds, path, CMCD)`, and their results.

use super::*;
use crate::Cmcd;

/// A session's requests; returns it, and all its news added up.
fn session(requests: &[(f64, &str, &str)]) -> (Session, News) {
    let mut told: Option<Session> = None;
    for (seconds, path, text) in requests {
        let mut cmcd = Cmcd::default();
        cmcd.read(text.as_bytes());
        let report = QoeReport::new((seconds * 1e6) as u64, 1, path.as_bytes(), &cmcd);
        told.get_or_insert_with(|| Session::of(&report)).take(&report);
    }
    let session = told.expect("there is a request");
    let news = session.told;
    (session, news)
}

#[test]
fn play_delay_is_from_the_first_request_to_the_first_that_is_not_urgent() {
    let (session, news) = session(&[
        (10.0, "a/master.m3u8", "ot=m,su"),
        (10.2, "a/init.mp4", "ot=i,su"),
        (10.3, "a/1.m4s", "ot=v,su,d=2000"),
        (10.5, "a/sub.vtt", "ot=c"),
        (10.9, "a/2.m4s", "ot=v,d=2000"),
        (12.9, "a/3.m4s", "ot=v,su,d=2000"),
        (13.9, "a/4.m4s", "ot=v,d=2000"),
    ]);
    assert_eq!(news.play_delay_ms, Some(900));
    assert!(!session.outcome().never_started);
}

#[test]
fn what_the_player_says_of_its_start_is_believed() {
    let requests = [(0.0, "a/m.m3u8", "ot=m,su"), (3.0, "a/1.m4s", "ot=v,d=2000,msd=812")];
    assert_eq!(session(&requests).1.play_delay_ms, Some(812));
    let without_su = [(0.0, "a/1.m4s", "ot=v,d=2000"), (3.0, "a/2.m4s", "ot=v,d=2000,msd=812")];
    assert_eq!(session(&without_su).1.play_delay_ms, Some(812));
}

#[test]
fn a_start_that_was_not_seen_is_not_made_up() {
    let (session, news) =
        session(&[(0.0, "a/7.m4s", "ot=v,d=2000"), (2.0, "a/8.m4s", "ot=v,d=2000")]);
    assert_eq!(news.play_delay_ms, None);
    assert!(!session.outcome().never_started);
    assert_eq!(session.outcome().rebuffer_millionths, Some(0));
}

#[test]
fn a_viewer_who_left_before_the_start_did_not_play() {
    let (session, news) =
        session(&[(0.0, "a/m.m3u8", "ot=m,su"), (9.0, "a/1.m4s", "ot=v,su,d=2000,bs")]);
    let outcome = session.outcome();
    assert!(outcome.never_started && outcome.rebuffer_millionths.is_none());
    assert_eq!(news.stalls, 0, "what waits for its start does not stall");
}

#[test]
fn a_stall_is_from_when_the_buffer_was_empty_until_nothing_is_urgent() {
    let (session, news) = session(&[
        (0.0, "a/1.m4s", "ot=v,su,d=4000"),
        (1.0, "a/2.m4s", "ot=v,d=4000,bl=4000"),
        // Empty at 5; noticed at 6; over at 8.
        (6.0, "a/3.m4s", "ot=v,d=4000,bs,su,bl=0"),
        (8.0, "a/4.m4s", "ot=v,d=4000,bl=4000"),
        (10.0, "a/5.m4s", "ot=v,d=4000,bl=6000"),
    ]);
    assert_eq!((news.stalls, news.stalled_ms), (1, 3000));
    // Began at 1, last report at 10, stalled for 3.
    assert_eq!(news.played_ms, 6000);
    assert_eq!(session.outcome().rebuffer_millionths, Some(333_333));
}

#[test]
fn a_stall_of_a_player_without_su_ends_where_it_is_told() {
    let (_, news) = session(&[
        (0.0, "a/1.m4s", "ot=v,d=4000,bl=1000"),
        (3.0, "a/2.m4s", "ot=v,d=4000,bs"),
        (3.1, "a/2.m4a", "ot=a,d=4000,bs"),
        (9.0, "a/3.m4s", "ot=v,d=4000"),
    ]);
    assert_eq!((news.stalls, news.stalled_ms), (1, 2000), "sound and pictures tell one stall");
}

#[test]
fn what_the_player_says_of_its_stall_is_believed() {
    let start = (0.0, "a/1.m4s", "ot=v,d=4000,bl=1000");
    let guessed =
        [start, (3.0, "a/2.m4s", "ot=v,d=4000,bs"), (4.0, "a/3.m4s", "ot=v,d=4000,bsd=(700;v)")];
    let (told, news) = session(&guessed);
    assert_eq!(news.stalls, 1);
    assert_eq!(told.stalled_ms, 700);
    let only_told = [
        start,
        (4.0, "a/3.m4s", "ot=v,d=4000,bsd=(700;v)"),
        (4.1, "a/3.m4a", "ot=a,d=4000,bsd=(650;a)"),
    ];
    let (_, news) = session(&only_told);
    assert_eq!((news.stalls, news.stalled_ms), (1, 700));
}

#[test]
fn a_viewer_who_left_in_a_stall_has_waited() {
    let (session, _) = session(&[
        (0.0, "a/1.m4s", "ot=v,d=4000,bl=0"),
        (4.0, "a/2.m4s", "ot=v,d=4000,bl=0"),
        (5.0, "a/3.m4s", "ot=v,d=4000,bs,su,bl=0"),
        (9.0, "a/3.m4s", "ot=v,su,bl=0"),
    ]);
    // Played from 0 to 4, waited from 4 to 9.
    assert_eq!(session.outcome().rebuffer_millionths, Some(555_555));
}

#[test]
fn a_pause_is_not_play() {
    let (_, news) = session(&[
        (0.0, "a/1.m4s", "ot=v,d=4000"),
        (1.0, "a/2.m4s", "ot=v,d=4000"),
        (100.0, "a/3.m4s", "ot=v,d=4000"),
    ]);
    assert_eq!(news.played_ms, 12_000);
}

#[test]
fn the_bit_rate_is_weighted_by_how_long_it_plays() {
    let (pictures, _) = session(&[
        (0.0, "a/1.m4a", "ot=a,d=4000,br=128"),
        (0.1, "a/1.m4s", "ot=v,d=1000,br=1000"),
        (0.2, "a/2.m4s", "ot=v,d=3000,br=5000"),
        (0.3, "a/3.m4s", "ot=v,br=9000"),
    ]);
    assert_eq!(pictures.outcome().bitrate_kbps, Some(4000));
    let (radio, _) = session(&[(0.0, "a/1.m4a", "ot=a,d=4000,br=128")]);
    assert_eq!(radio.outcome().bitrate_kbps, Some(128));
    let (silent, _) = session(&[(0.0, "a/1.m4s", "ot=v")]);
    assert_eq!(silent.outcome().bitrate_kbps, None);
}

#[test]
fn quality_is_four_seconds_in_a_row_near_the_top() {
    let (good, news) = session(&[
        (0.0, "a/m.m3u8", "ot=m,su"),
        (1.0, "a/1.m4s", "ot=v,su,d=2000,br=1000,tb=5000"),
        (2.0, "a/2.m4s", "ot=v,d=2000,br=4000,tb=5000"),
        (3.0, "a/3.m4s", "ot=v,d=2000,br=3999,tb=5000"),
        (4.0, "a/4.m4s", "ot=v,d=2000,br=4000,tb=5000"),
        (5.0, "a/5.m4s", "ot=v,d=2000,br=5000,tb=5000"),
    ]);
    assert_eq!(news.time_to_quality_ms, Some(5000));
    assert!(!good.outcome().never_good);
    let (bad, news) = session(&[(0.0, "a/1.m4s", "ot=v,d=9000,br=1,tb=5000")]);
    assert!(news.time_to_quality_ms.is_none() && bad.outcome().never_good);
}

/// A session with events among its requests, in the order of their arrival: requests are `(seconds, CMCD)`, events are posts.
fn with_posts(steps: &[(f64, &str)]) -> (Session, News) {
    let mut told: Option<Session> = None;
    for (seconds, text) in steps {
        let at_us = (seconds * 1e6) as u64;
        let posted = crate::CmcdEvents::read(text.as_bytes());
        if let [event] = &posted.events[..] {
            let event = QoeEvent::new(at_us, 1, 0, event).expect("it is of use");
            told.as_mut().expect("a request comes first").take_event(&event);
            continue;
        }
        let mut cmcd = Cmcd::default();
        cmcd.read(text.as_bytes());
        let report = QoeReport::new(at_us, 1, b"a/1.m4s", &cmcd);
        told.get_or_insert_with(|| Session::of(&report)).take(&report);
    }
    let session = told.expect("there is a request");
    let news = session.told;
    (session, news)
}

#[test]
fn what_requests_and_events_both_tell_counts_once() {
    let steps = [
        (0.0, "ot=m,su"),
        (0.1, "e=ps,sid=\"x\",sta=s,ts=1790000000000"),
        (0.2, "ot=v,su,d=4000,bl=0"),
        (0.9, "e=ps,sid=\"x\",sta=p,ts=1790000000750"),
        (1.0, "ot=v,d=4000,bl=4000"),
        (5.1, "e=ps,sid=\"x\",sta=r,ts=1790000005000"),
        (5.2, "ot=v,d=4000,bs,su,bl=0"),
        (7.1, "e=ps,sid=\"x\",sta=p,ts=1790000007000"),
        (7.2, "ot=v,d=4000,bsd=(2100;v)"),
        (7.3, "ot=a,d=4000,bsd=(2100;a),msd=800"),
        (11.1, "e=ps,sid=\"x\",sta=e,ts=1790000011000"),
    ];
    let (session, news) = with_posts(&steps);
    assert_eq!((news.play_delay_ms, news.stalls), (Some(750), 1));
    assert_eq!((news.stalled_ms, news.played_ms), (2000, 8250));
    let outcome = session.outcome();
    assert!(outcome.has_events && outcome.has_finished && !outcome.gave_up);
    assert_eq!(outcome.rebuffer_millionths, Some(2000 * 1_000_000 / 10_250));
    // Without the events, the requests say nearly the same.
    let requests = steps.into_iter().filter(|(_, text)| !text.starts_with("e="));
    let (session, news) = with_posts(&requests.collect::<Vec<_>>());
    assert_eq!((news.play_delay_ms, news.stalls, news.stalled_ms), (Some(1000), 1, 2100));
    assert!(!session.outcome().has_events);
}

#[test]
fn events_that_come_after_their_requests_correct_them_but_take_nothing_back() {
    // A batch of a player that posts once a minute: the requests have told of two stalls, the events tell of three.
    let (_, news) = with_posts(&[
        (0.0, "ot=v,d=4000"),
        (9.0, "ot=v,d=4000,bsd=(500;v)"),
        (20.0, "ot=v,d=4000,bsd=(700;v)"),
        (60.0, "e=ps,sid=\"x\",sta=p,ts=1790000000000"),
        (60.0, "e=ps,sid=\"x\",sta=r,ts=1790000008000"),
        (60.0, "e=ps,sid=\"x\",sta=p,ts=1790000008100"),
        (60.0, "e=ps,sid=\"x\",sta=r,ts=1790000019000"),
        (60.0, "e=ps,sid=\"x\",sta=p,ts=1790000019100"),
        (60.0, "e=ps,sid=\"x\",sta=r,ts=1790000030000"),
        (60.0, "e=ps,sid=\"x\",sta=p,ts=1790000030100"),
    ]);
    assert_eq!((news.stalls, news.stalled_ms), (3, 1200));
}

#[test]
fn what_is_watched_after_the_last_event_is_play() {
    let start = [
        (0.0, "ot=m,su"),
        (1.0, "e=ps,sid=\"x\",sta=s,ts=1790000000000"),
        (2.0, "e=ps,sid=\"x\",sta=p,ts=1790000001000"),
    ];
    let (_, news) = with_posts(&[&start[..], &[(22.0, "ot=v,d=4000")]].concat());
    assert_eq!(news.played_ms, 20_000);
    let (_, news) = with_posts(&[&start[..], &[(602.0, "ot=v,d=4000")]].concat());
    assert_eq!(news.played_ms, 35_000, "an event may have been lost");
    let end = (603.0, "e=ps,sid=\"x\",sta=e,ts=1790000602000");
    let (_, news) = with_posts(&[&start[..], &[(602.0, "ot=v,d=4000"), end]].concat());
    assert_eq!(news.played_ms, 601_000, "it has not");
    let waits = [(3.0, "e=e,ec=(\"x\"),sid=\"x\",sta=f,ts=1790000001500")];
    let (session, news) = with_posts(&[&start[..2], &waits].concat());
    let outcome = session.outcome();
    assert!(outcome.never_started && outcome.has_failed && !outcome.gave_up);
    assert_eq!((news.errors, news.play_delay_ms, news.played_ms), (1, None, 0));
    let (session, _) = with_posts(&start[..2]);
    assert!(session.outcome().never_started && session.outcome().gave_up);
}

#[test]
fn an_event_that_is_lost_or_late_makes_no_stall_of_what_is_watched() {
    let mut steps = vec![
        (0.0, "ot=m,su"),
        (1.0, "e=ps,sid=\"x\",sta=p,ts=1790000001000"),
        (5.0, "e=ps,sid=\"x\",sta=r,ts=1790000005000"),
    ];
    steps.extend((3..300).map(|count| (f64::from(count) * 2.0, "ot=v,d=2000,bl=9000")));
    let (session, news) = with_posts(&steps);
    assert_eq!((news.stalls, news.stalled_ms, session.stalled_ms()), (1, 0, 0));
    assert_eq!(session.outcome().rebuffer_millionths, Some(0));
    // The event that ended it comes at last.
    steps.push((600.0, "e=ps,sid=\"x\",sta=p,ts=1790000007000"));
    let (_, news) = with_posts(&steps);
    assert_eq!((news.stalls, news.stalled_ms, news.played_ms), (1, 2000, 4000));
}

#[test]
fn a_report_that_comes_late_does_no_harm() {
    let (session, news) = session(&[
        (5.0, "a/m.m3u8", "ot=m,su"),
        (9.0, "a/1.m4s", "ot=v,d=2000"),
        (7.0, "a/2.m4s", "ot=v,d=2000,bs"),
    ]);
    assert_eq!((news.play_delay_ms, session.last_ms()), (Some(4000), 9000));
    assert_eq!((news.stalls, news.stalled_ms), (1, 0));
}

proptest::proptest! {
    #[test]
    fn any_order_of_any_requests_is_survived(
        requests in proptest::collection::vec((0u64..100_000, "[amvi]{1}", "(su,)?(bs,)?(d=[0-9]{1,8},)?(bl=[0-9]{1,8},)?(bsd=[0-9]{1,7},)?(msd=[0-9]{1,8},)?(br=[0-9]{1,7},)?(tb=[0-9]{1,7},)?"), 1..40)
    ) {
        let texts: Vec<_> = requests.iter().map(|(ms, ot, rest)| (*ms as f64 / 1e3, format!("ot={ot},{rest}"))).collect();
        let requests: Vec<_> = texts.iter().map(|(at, text)| (*at, "a/1.m4s", text.as_str())).collect();
        let (session, _) = session(&requests);
        let outcome = session.outcome();
        proptest::prop_assert!(outcome.rebuffer_millionths.is_none_or(|part| part <= 1_000_000));
    }
}
