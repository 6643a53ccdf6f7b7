//! The sizes and limits that docs/memory.md lists for this route. If a change makes one of them grow, a test here fails: change the document, or the
//! code.

use super::stream::Stream;
use super::streamed::HELD_BYTES_MAX;
use super::supply::{REST_BYTES_MAX, SUPPLIERS_MAX};
use super::{OwnTcpConnection, OwnTcpSocket, RESTS_BYTES_MAX, Streamed};
use crate::outgoing::Outgoing;
use crate::protected::Protected;
use disk::Budget;
use std::rc::Rc;

#[test]
fn a_connection_is_as_small_as_documented() {
    let connection_bytes = size_of::<OwnTcpConnection>();
    let channel_bytes = size_of::<Protected<Streamed, OwnTcpSocket>>();
    let ledger_bytes = size_of::<tls::Ledger>();
    println!("connection {connection_bytes}, channel {channel_bytes}, ledger {ledger_bytes}");
    assert!(connection_bytes <= 304, "a connection takes {connection_bytes} bytes");
    assert!(channel_bytes <= 56, "the channel takes {channel_bytes} bytes");
    assert!(ledger_bytes <= 152, "the ledger takes {ledger_bytes} bytes");
}

#[test]
fn a_stream_holds_no_byte_of_what_it_sends_but_for_a_bounded_rest() {
    let mut stream = Stream::default();
    let file = tempfile::tempfile().unwrap();
    file.set_len(10 << 20).unwrap();
    let file = Some(Rc::new(disk::File::new(file.into()).unwrap()));
    let film = vec![fullbore_http::Part::Range(0..10 << 20)];
    stream.append(&Rc::new(Outgoing::new(Vec::new(), film, file)), 0, u64::MAX, u64::MAX).unwrap();
    let laid_out_bytes = stream.memory_bytes();
    assert!(laid_out_bytes <= 1024, "10 MiB laid out take {laid_out_bytes} bytes");
    let rests = Budget::new(RESTS_BYTES_MAX);
    let rest: Rc<[u8]> = vec![7; REST_BYTES_MAX as usize].into();
    for start in [0, REST_BYTES_MAX] {
        // The second rest replaces the first.
        stream.keep_rest(start, Rc::clone(&rest), rests.take(REST_BYTES_MAX).unwrap());
        assert_eq!(stream.memory_bytes(), laid_out_bytes + rest.len());
        assert_eq!(rests.left_bytes(), RESTS_BYTES_MAX - REST_BYTES_MAX);
    }
}

#[test]
fn what_a_worker_keeps_for_all_is_bounded() {
    assert_eq!((REST_BYTES_MAX, RESTS_BYTES_MAX, SUPPLIERS_MAX), (64 << 10, 64 << 20, 64));
    assert_eq!(HELD_BYTES_MAX, 64 << 10);
}
