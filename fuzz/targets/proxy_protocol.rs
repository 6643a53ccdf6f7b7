//! The header of the PROXY protocol, version 2, in which a proxy gives the viewer's address of a connection.
//!
//! The server trusts the proxy, but another program may use the proxy's address. Checks that nothing panics; that the result depends neither on how
//! the bytes are cut nor on what follows; that no byte after a header is needed; and that the viewer's address is the one that a simple parser finds.

#![no_main]

use std::net::{IpAddr, SocketAddr};

use fullbore_fuzz::choices::Derived;
use libfuzzer_sys::fuzz_target;
use net::proxy_protocol::{HEADER_BYTES_MAX, parse};
use net::{Introduced, Introduction, ProxyFault};

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    let mut known = 0;
    for piece in Derived::of(bytes).pieces(bytes) {
        known += piece.len();
        match parse(&bytes[..known]) {
            Ok(Introduction::Partial { needed }) => {
                assert!(known < needed && needed <= HEADER_BYTES_MAX, "{known} of {needed}");
            }
            done => {
                assert_eq!(done, whole, "it matters how the bytes were cut, or what follows");
                break;
            }
        }
    }
    if let Ok(Introduction::Complete { introduced, consumed }) = whole {
        assert_eq!(introduced, plain(&bytes[..consumed]));
        assert_eq!(parse(&bytes[..consumed]), whole);
        let partial = Introduction::Partial { needed: consumed };
        assert_eq!(parse(&bytes[..consumed - 1]), Ok(partial));
    }
    if let Err(ProxyFault::Signature) = whole {
        assert!(!bytes.starts_with(b"\r\n\r\n\0\r\nQUIT\n"));
    }
});

/// A simple parser of a complete header.
fn plain(header: &[u8]) -> Introduced {
    assert_eq!(header[..12], *b"\r\n\r\n\0\r\nQUIT\n");
    let length = usize::from(header[14]) << 8 | usize::from(header[15]);
    assert_eq!(header.len(), 16 + length);
    let port = |at: usize| u16::from(header[at]) << 8 | u16::from(header[at + 1]);
    match (header[12], header[13]) {
        (0x20, _) => Introduced::Proxy,
        (0x21, 0x11) => {
            let source: [u8; 4] = header[16..20].try_into().expect("four bytes");
            Introduced::Viewer(SocketAddr::new(source.into(), port(24)))
        }
        (0x21, 0x21) => {
            let source: [u8; 16] = header[16..32].try_into().expect("sixteen bytes");
            Introduced::Viewer(SocketAddr::new(IpAddr::from(source).to_canonical(), port(48)))
        }
        other => panic!("{other:?} was accepted"),
    }
}
