use std::future::ready;

use super::*;
use crate::Descriptors;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn places(bounds: PlaceBounds) -> Arc<Places> {
    Places::new(bounds, Descriptors::of_limit(10_000).share(0), Arc::default())
}

fn few() -> PlaceBounds {
    PlaceBounds {
        connections_max: 6,
        fresh_max: 5,
        fresh_min: Duration::ZERO,
        per_address_max: 2,
        per_site_max: 3,
    }
}

async fn has_ended(place: &HeldPlace) -> bool {
    tokio::select! {
        biased;
        () = place.ended() => true,
        () = ready(()) => false,
    }
}

#[tokio::test]
async fn a_full_address_makes_room_by_its_own_oldest_connection() {
    let places = places(few());
    let one = places.enter(address("192.0.2.1")).unwrap();
    let two = places.enter(address("::ffff:192.0.2.1")).unwrap();
    let other = places.enter(address("192.0.2.2")).unwrap();
    let three = places.enter(address("192.0.2.1")).unwrap();
    assert!(has_ended(&one).await, "the same address in another form");
    assert!(!has_ended(&two).await && !has_ended(&other).await);
    assert_eq!(places.counts().count(ListenerRefusal::GaveWay), 1);
    two.is_busy();
    three.is_busy();
    assert!(places.enter(address("192.0.2.1")).is_none(), "all are busy");
    assert_eq!(places.counts().count(ListenerRefusal::NoPlace), 1);
    two.is_waiting();
    assert!(places.enter(address("192.0.2.1")).is_some());
    assert!(has_ended(&two).await);
}

#[tokio::test]
async fn addresses_of_ipv6_count_by_64_and_by_48() {
    let places = places(few());
    let one = places.enter(address("2001:db8::1")).unwrap();
    let _two = places.enter(address("2001:db8::2")).unwrap();
    let _three = places.enter(address("2001:db8::3")).unwrap();
    assert!(has_ended(&one).await, "the third of a /64");
    drop(one);
    let two_of_48 = places.enter(address("2001:db8:0:1::1")).unwrap();
    let _four = places.enter(address("2001:db8:0:2::1")).unwrap();
    assert!(!has_ended(&two_of_48).await, "the oldest of the /48 is in the first /64");
    assert_eq!(places.lock().all.len(), 3);
    let _elsewhere = places.enter(address("2001:db8:1::1")).unwrap();
    assert_eq!(places.lock().all.len(), 4);
}

#[tokio::test]
async fn half_sent_requests_give_way_before_idle_connections() {
    let places = places(few());
    let from = |last: u8| places.enter(IpAddr::from([192, 0, 2, last])).unwrap();
    let idle = from(1);
    idle.is_busy();
    idle.is_waiting();
    let busy = from(2);
    busy.is_busy();
    let fresh: Vec<_> = (3..7).map(from).collect();
    assert_eq!(places.lock().all.len(), 6);
    let _newest = from(7);
    assert!(has_ended(&fresh[0]).await);
    for (at, fresh) in fresh.iter().enumerate().skip(1) {
        assert!(!has_ended(fresh).await, "{at}");
        fresh.is_busy();
    }
    _newest.is_busy();
    let _next = from(8);
    assert!(has_ended(&idle).await, "there is no other");
    assert!(!has_ended(&busy).await);
    _next.is_busy();
    assert!(places.enter(address("192.0.2.9")).is_none());
}

#[tokio::test]
async fn without_descriptors_the_oldest_gives_way_and_others_keep_their_reserve() {
    let descriptors = Descriptors::of_limit(130);
    let (public, admin) = (descriptors.share(56), descriptors.share(0));
    let bounds = PlaceBounds { fresh_min: Duration::ZERO, ..PlaceBounds::default() };
    let public = Places::new(bounds, public, Arc::default());
    let admin = Places::new(PlaceBounds::default(), admin, Arc::default());
    let held: Vec<_> = (0..10).map(|_| public.enter(address("192.0.2.1")).unwrap()).collect();
    let more = public.enter(address("192.0.2.2")).unwrap();
    assert!(has_ended(&held[0]).await);
    let operator = admin.enter(address("192.0.2.1")).unwrap();
    assert!(!has_ended(&operator).await && !has_ended(&more).await);
}

#[tokio::test]
async fn a_known_peer_counts_by_name_and_stays() {
    let places = places(few());
    let known = |name: &str| {
        let mut place = places.enter(address("192.0.2.1")).unwrap();
        place.belongs_to(name, 2);
        place
    };
    let first = known("n1");
    let others = [known("n1"), known("n2"), known("n2"), known("n3")];
    assert!(!has_ended(&first).await);
    let again = known("n1");
    assert!(has_ended(&first).await, "its third connection ends its first");
    drop(first);
    // One place is left, for unknown peers.
    let stranger = places.enter(address("192.0.2.9")).unwrap();
    let next = places.enter(address("192.0.2.8")).unwrap();
    assert!(has_ended(&stranger).await);
    drop((others, again, next, stranger));
    let inner = places.lock();
    assert!(inner.all.is_empty() && inner.owners.is_empty() && inner.sources.is_empty());
    assert_eq!((inner.fresh, inner.closing), (0, 0));
}

#[tokio::test]
async fn those_that_came_first_get_through_when_many_come_at_once() {
    let bounds = PlaceBounds { fresh_min: Duration::from_secs(3600), ..few() };
    let places = places(bounds);
    let first = places.enter(address("192.0.2.1")).unwrap();
    let _second = places.enter(address("192.0.2.1")).unwrap();
    assert!(places.enter(address("192.0.2.1")).is_none());
    assert!(!has_ended(&first).await);
    first.is_busy();
    first.is_waiting();
    assert!(places.enter(address("192.0.2.1")).is_some(), "it has had its request");
    assert!(has_ended(&first).await);
}
