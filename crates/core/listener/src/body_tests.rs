use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::*;

const SMALL: BodyBounds = BodyBounds::small(8);

/// A body whose pieces come from a channel.
struct Piecewise(mpsc::Receiver<&'static [u8]>);

impl HttpBody for Piecewise {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let next = self.0.poll_recv(context);
        next.map(|piece| piece.map(|piece| Ok(Frame::data(Bytes::from_static(piece)))))
    }
}

#[tokio::test]
async fn a_body_has_its_largest_size() {
    let budget = BodyBudget::new(100);
    let read = read_body(Body::from("12345678"), SMALL, &budget).await.unwrap();
    assert_eq!((&*read, budget.taken_bytes()), (&b"12345678"[..], 8));
    drop(read);
    assert_eq!(budget.taken_bytes(), 0);
    let large = read_body(Body::from("123456789"), SMALL, &budget).await;
    assert_eq!(large.unwrap_err(), BodyFault::TooLarge);
    assert!(read_body(Body::empty(), SMALL, &budget).await.unwrap().is_empty());
}

#[tokio::test]
async fn all_bodies_together_have_a_bound() {
    let budget = BodyBudget::new(12);
    let first = read_body(Body::from("12345678"), SMALL, &budget).await.unwrap();
    let second = read_body(Body::from("12345"), SMALL, &budget).await;
    assert_eq!(second.unwrap_err(), BodyFault::NoMemory);
    assert_eq!(budget.taken_bytes(), 8, "the second has given back what it had");
    drop(first);
    assert!(read_body(Body::from("12345"), SMALL, &budget).await.is_ok());
}

/// The sender never stops, so only the reader can end this.
#[tokio::test]
async fn a_body_that_trickles_is_given_up_and_holds_no_more_than_it_sent() {
    let budget = BodyBudget::new(1 << 20);
    let (pieces, receiver) = mpsc::channel(1);
    let sender = tokio::spawn(async move {
        while pieces.send(&b"x"[..]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let body = Body::new(Piecewise(receiver));
    let bounds = BodyBounds { grace: Duration::from_millis(100), ..BodyBounds::large(1 << 20) };
    assert_eq!(read_body(body, bounds, &budget).await.unwrap_err(), BodyFault::Slow);
    assert_eq!(budget.taken_bytes(), 0);
    sender.await.unwrap();
}

#[test]
fn a_large_body_may_take_as_long_as_its_rate_says_and_a_small_one_may_not() {
    let began = Instant::now();
    let large = BodyBounds::large(32 << 20);
    assert_eq!(large.deadline(began, 0) - began, GRACE);
    assert_eq!(large.deadline(began, 1 << 20) - began, GRACE + Duration::from_secs(16));
    let small = BodyBounds::small(64 << 10);
    assert!(small.deadline(began, 64 << 10) - began < GRACE + Duration::from_millis(1));
}
