//! A stand-in for a live origin: over HTTP it behaves as a packager of low-latency HLS does (draft-pantos-hls-rfc8216bis); its media are drawn bytes.
//!
//! It holds a blocking reload (`_HLS_msn`, `_HLS_part`) until its playlist has that part, and a request for the part that its playlist announces
//! (`EXT-X-PRELOAD-HINT`) until that is made. A segment that is being made is sent in chunks, a part at a time, without a length.

use fullbore_tests::bytes;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// The parts of a segment.
pub(crate) const PARTS: u64 = 4;

/// The length of a part.
const PART_BYTES: usize = 2000;

#[derive(Default)]
struct State {
    /// The parts that are made, of all segments.
    parts: u64,
    /// Header lines of all answers, each with its line end. `{parts}` becomes the number of parts.
    lines: String,
    /// The targets of all requests.
    seen: Vec<String>,
}

/// A running packager. It ends with the test.
#[derive(Clone)]
pub(crate) struct Packager {
    pub(crate) address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

/// The bytes of a part.
pub(crate) fn part(number: u64) -> Vec<u8> {
    bytes(PART_BYTES, number)
}

/// The bytes of a segment.
pub(crate) fn segment(number: u64) -> Vec<u8> {
    (number * PARTS..(number + 1) * PARTS).flat_map(part).collect()
}

impl Packager {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let packager = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let serving = packager.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let packager = serving.clone();
                // A client that leaves ends its connection's thread.
                std::thread::spawn(move || drop(packager.serve(stream)));
            }
        });
        packager
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, answers have these header lines.
    pub(crate) fn say(&self, lines: &str) {
        self.state.0.lock().unwrap().lines = lines.into();
    }

    /// Makes more parts.
    pub(crate) fn make(&self, parts: u64) {
        self.state.0.lock().unwrap().parts += parts;
        self.state.1.notify_all();
    }

    /// The requests for a target.
    pub(crate) fn count(&self, target: &str) -> usize {
        let state = self.state.0.lock().unwrap();
        state.seen.iter().filter(|seen| *seen == target).count()
    }

    /// Waits until there are more than `number` parts. Returns how many, and the header lines.
    fn wait_for(&self, number: u64) -> (u64, String) {
        let state = self.state.0.lock().unwrap();
        let state = self.state.1.wait_while(state, |state| state.parts <= number).unwrap();
        (state.parts, state.lines.replace("{parts}", &state.parts.to_string()))
    }

    fn parts(&self) -> u64 {
        self.state.0.lock().unwrap().parts
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head)? == 0 {
                    return Ok(());
                }
            }
            let target = head.split(' ').nth(1).unwrap().to_owned();
            if head.starts_with("GET ") {
                self.state.0.lock().unwrap().seen.push(target.clone());
            }
            self.answer(&mut stream, &target)?;
        }
    }

    fn answer(&self, stream: &mut TcpStream, target: &str) -> std::io::Result<()> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let number = |text: &str| text.strip_suffix(".m4s").and_then(|text| text.parse().ok());
        let named = |kind: &str| path.strip_prefix(kind).and_then(number);
        if path == "/live.m3u8" {
            let (made, lines) = self.wait_for(reloaded(query).unwrap_or(0));
            return whole(stream, &lines, playlist(made).as_bytes());
        }
        if let Some(number) = named("/part").filter(|number| *number <= self.parts()) {
            let (_, lines) = self.wait_for(number);
            return whole(stream, &lines, &part(number));
        }
        if let Some(number) = named("/segment").filter(|number| number * PARTS <= self.parts()) {
            return self.send_segment(stream, number);
        }
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    }

    fn send_segment(&self, stream: &mut TcpStream, number: u64) -> std::io::Result<()> {
        let (made, lines) = self.wait_for(number * PARTS);
        if made >= (number + 1) * PARTS {
            return whole(stream, &lines, &segment(number));
        }
        write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{lines}\r\n")?;
        for one in number * PARTS..(number + 1) * PARTS {
            self.wait_for(one);
            write!(stream, "{PART_BYTES:x}\r\n")?;
            stream.write_all(&part(one))?;
            stream.write_all(b"\r\n")?;
        }
        stream.write_all(b"0\r\n\r\n")
    }
}

/// The part that a blocking reload waits for.
fn reloaded(query: &str) -> Option<u64> {
    let parameter = |wanted: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == wanted).find_map(|(_, value)| value.parse::<u64>().ok())
    };
    let segment = parameter("_HLS_msn")?;
    Some(segment * PARTS + parameter("_HLS_part").unwrap_or(PARTS - 1))
}

fn playlist(made: u64) -> String {
    let control = "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.0";
    let mut list = format!("#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:2\n{control}\n");
    list += "#EXT-X-PART-INF:PART-TARGET=0.5\n#EXT-X-MEDIA-SEQUENCE:0\n";
    for number in 0..made {
        list += &format!("#EXT-X-PART:DURATION=0.5,URI=\"part{number}.m4s\"\n");
        if (number + 1) % PARTS == 0 {
            list += &format!("#EXTINF:2.0,\nsegment{}.m4s\n", number / PARTS);
        }
    }
    list + &format!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"part{made}.m4s\"\n")
}

fn whole(stream: &mut TcpStream, lines: &str, body: &[u8]) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{lines}\r\n", body.len())?;
    stream.write_all(body)
}
