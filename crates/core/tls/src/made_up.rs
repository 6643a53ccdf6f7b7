//! The ends of a connection whose keys no handshake agreed on. Only for measuring many connections: these keys are not secret. Each number gives a
//! connection of its own, with keys that are expanded for it alone, so its memory is real.

use crate::handshake::{Established, SessionInfo};
use crate::open::Opener;
use crate::seal::Sealer;
use crate::secrets::{Keys, Suite, TlsVersion, TrafficSecret};

const SUITE: Suite = Suite::Aes128Gcm;

/// The two directions of a connection.
#[derive(Clone, Copy)]
enum End {
    Server = 1,
    Client = 2,
}

fn keys(number: u64, end: End) -> Keys {
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&number.to_be_bytes());
    secret[8] = end as u8;
    let secret = TrafficSecret::new(&secret).expect("32 bytes, as SHA-256 has");
    Keys::of_secret(SUITE, secret)
}

/// The server's end of connection `number`.
pub fn server_end(number: u64) -> Established {
    let info = SessionInfo {
        version: TlsVersion::Tls13,
        suite: SUITE,
        group: None,
        server_name: None,
        resumed: false,
        is_proof: false,
        viewer: number,
    };
    let sealer = Sealer::new(keys(number, End::Server), 0);
    Established { sealer, opener: Opener::new(keys(number, End::Client), 0), info }
}

/// The sealer for the client of connection `number`, from its record `sequence` on.
pub fn client_sealer(number: u64, sequence: u64) -> Sealer {
    Sealer::new(keys(number, End::Client), sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Content, Opened};

    #[test]
    fn a_client_without_memory_is_understood_by_its_server_and_by_no_other() {
        let (mut seven, mut eight) = (server_end(7), server_end(8));
        for sequence in 0..3 {
            let mut record = [0; 64];
            let bytes = client_sealer(7, sequence).seal(b"request", &mut record).unwrap();
            let mut copy = record;
            assert!(eight.opener.open(&mut copy[..bytes]).is_err());
            let opened = seven.opener.open(&mut record[..bytes]).unwrap();
            let Opened::Record { content: Content::Data(range), .. } = opened else { panic!() };
            assert_eq!(&record[range], b"request");
        }
        let mut out = [[0; 64]; 2];
        seven.sealer.seal(b"response", &mut out[0]).unwrap();
        eight.sealer.seal(b"response", &mut out[1]).unwrap();
        assert_ne!(out[0], out[1]);
    }
}
