//! The sizes that docs/memory.md lists. If one grows, a test here fails: change the document or the code.

use super::*;
use delivery::Protected;
use delivery::sealing::{KernelTls, Plaintext, UserTls};

/// Bytes of the future that `make` returns.
fn future_bytes<A, B, C, D, E, F: Future>(_make: impl Fn(A, B, C, D, E) -> F) -> usize {
    size_of::<F>()
}

/// Bytes of the future of a response.
fn response_bytes<'a, F: Future>(
    _make: impl Fn(&'a mut Session, &'a Request, Option<answer::Opened>, Instant) -> F,
) -> usize {
    size_of::<F>()
}

/// The size of a heap block: glibc keeps 8 bytes in front of it and rounds up to 16.
fn block_bytes(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16)
}

#[test]
fn an_idle_session_is_as_small_as_documented() {
    let session_bytes = future_bytes(run::<net::Socket>);
    let channel_bytes = size_of::<Protected<UserTls>>();
    println!("session {session_bytes}, channel {channel_bytes}");
    assert!(session_bytes <= 880, "the session's future takes {session_bytes} bytes");
    assert!(channel_bytes <= 344, "the channel takes {channel_bytes} bytes");
    assert!(block_bytes(session_bytes) + block_bytes(channel_bytes) <= 1248);
}

#[test]
fn a_response_takes_as_much_as_documented() {
    let bytes = response_bytes(Session::answer);
    println!("response {bytes}");
    assert!(bytes <= 2704, "the response's future takes {bytes} bytes");
}

#[test]
fn an_idle_session_keeps_the_halves_of_its_keys_and_no_more() {
    let (sealer_bytes, opener_bytes) = (size_of::<tls::Sealer>(), size_of::<tls::Opener>());
    assert!(sealer_bytes <= 144, "the sealer takes {sealer_bytes} bytes");
    assert!(opener_bytes <= 112, "the opener takes {opener_bytes} bytes");
}

/// State that only a connection encrypted by a network card needs is in a box of its own.
#[test]
fn connections_of_the_kernel_route_hold_nothing_for_cards() {
    let kernel_tls_bytes = size_of::<Protected<KernelTls>>();
    let plaintext_bytes = size_of::<Protected<Plaintext>>();
    println!("by kernel {kernel_tls_bytes}, unsealed {plaintext_bytes}");
    assert!(kernel_tls_bytes <= 296, "the channel takes {kernel_tls_bytes} bytes");
    assert!(plaintext_bytes <= 56, "the channel takes {plaintext_bytes} bytes");
}
