//! An HTTP/2 client that sends a few fixed frames (RFC 9113, RFC 7541).

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `:method` by its index in the static table, `:scheme http`, `:path` and `:authority` as literals.
fn head(method: u8, path: &str) -> Vec<u8> {
    let literal = |name: u8, text: &str| [&[name, text.len() as u8], text.as_bytes()].concat();
    [vec![0x80 | method, 0x86], literal(0x04, path), literal(0x01, "a")].concat()
}

pub(crate) fn get(path: &str) -> Vec<u8> {
    let flags = END_STREAM | END_HEADERS;
    let head = frame(HEADERS, flags, 1, &head(2, path));
    [PREFACE, &frame(SETTINGS, 0, 0, &[]), &head].concat()
}

/// Without a Content-Length.
pub(crate) fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, 1, &head(3, path));
    let body = frame(DATA, END_STREAM, 1, body);
    [PREFACE, &frame(SETTINGS, 0, 0, &[]), &head, &body].concat()
}

#[derive(Default)]
pub(crate) struct Said {
    pub(crate) streams_max: Option<u32>,
    pub(crate) status: u16,
}

/// Reads frames up to the first head.
pub(crate) async fn until_status(stream: &mut TcpStream) -> Said {
    let mut said = Said::default();
    loop {
        let mut head = [0; 9];
        let read = stream.read_exact(&mut head);
        timeout(PATIENCE, read).await.expect("an answer").unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.unwrap();
        match head[3] {
            SETTINGS => {
                for setting in payload.chunks_exact(6) {
                    let name = u16::from_be_bytes([setting[0], setting[1]]);
                    if name == MAX_CONCURRENT_STREAMS {
                        let value = [setting[2], setting[3], setting[4], setting[5]];
                        said.streams_max = Some(u32::from_be_bytes(value));
                    }
                }
            }
            HEADERS => {
                said.status = status(&payload);
                return said;
            }
            _ => {}
        }
    }
}

/// `:status` comes first: a literal whose name is in the static table (8 to 14), its value in three bytes or in Huffman code.
fn status(head: &[u8]) -> u16 {
    let (is_huffman, length) = (head[1] & 0x80 != 0, usize::from(head[1] & 0x7f));
    let value = &head[2..2 + length];
    if !is_huffman {
        return String::from_utf8_lossy(value).parse().unwrap();
    }
    // Digits 0 to 2 have the codes 00000 to 00010, and 3 to 9 011001 to 011111 (RFC 7541 appendix B).
    let bits: String = value.iter().map(|byte| format!("{byte:08b}")).collect();
    let (mut rest, mut digits) = (bits.as_str(), String::new());
    while digits.len() < 3 {
        let five = u8::from_str_radix(&rest[..5], 2).unwrap();
        let (digit, used) = match five {
            0..=2 => (five, 5),
            _ => (u8::from_str_radix(&rest[..6], 2).unwrap() - 0b01_1001 + 3, 6),
        };
        digits.push(char::from(b'0' + digit));
        rest = &rest[used..];
    }
    digits.parse().unwrap()
}
