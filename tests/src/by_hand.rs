//! A viewer's end of TLS whose records a test seals and opens itself. It accepts any certificate.

use std::io::{Read, Write};
use std::net::TcpStream;
use tls::client::{
    ClientEstablished, ClientHandshake, ClientOptions, ClientProgress, ClientTls, Trust,
};

/// Makes the handshake over a blocking stream. Returns the client's end, and bytes that have arrived since, for its opener.
///
/// # Panics
/// If the handshake fails, or the server hangs up.
pub fn shake_hands(stream: &mut TcpStream) -> (ClientEstablished, Vec<u8>) {
    let options = ClientOptions { trust: Trust::AnyCertificate, ..ClientOptions::default() };
    let tls = ClientTls::load(&options).unwrap();
    let mut handshake = ClientHandshake::new(&tls, "localhost").unwrap();
    let (mut input, mut output, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    loop {
        let (consumed, progress) = handshake.advance(&input, &mut output).unwrap();
        input.drain(..consumed);
        stream.write_all(&std::mem::take(&mut output)).unwrap();
        if let ClientProgress::Done(established) = progress {
            return (*established, input);
        }
        let bytes = stream.read(&mut chunk).unwrap();
        assert!(bytes > 0, "the server has hung up");
        input.extend_from_slice(&chunk[..bytes]);
    }
}
