//! Viewers without TLS, good and bad: each function is one connection from its first packet to its last.

use crate::films::{self, LARGE_BYTES, SMALL_BYTES};
use crate::viewer::{connect, expect, expect_response, gone, read_head, request, reset};
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One after another, all the plain viewers of a thread.
pub(crate) struct PlainViewers {
    server: SocketAddr,
    count: u32,
}

impl PlainViewers {
    /// Viewers of `server`.
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self { server, count: 0 }
    }

    /// Connection number `number`: all kinds in turn.
    pub(crate) fn visit(&mut self, number: u64) -> io::Result<()> {
        match number % 8 {
            0 => self.pipelined(),
            1 | 2 => self.range(number),
            3 => self.whole(),
            4 => reset(self.amid_response()?),
            5 => self.amid_response().map(drop),
            6 => self.bad_request(),
            _ => self.connect()?.write_all(b"GET /"),
        }
    }

    /// A viewer who takes all of the large file, and rests now and then.
    pub(crate) fn slow(&mut self) -> io::Result<()> {
        const REST: Duration = Duration::from_millis(400);
        let mut stream = self.ask(films::LARGE, "")?;
        let (status, length) = read_head(&mut stream)?;
        expect(status == 200 && length == LARGE_BYTES, "a large response")?;
        let mut chunk = vec![0; 3 << 20];
        let mut offset = 0;
        while offset < LARGE_BYTES {
            std::thread::sleep(REST);
            let part = chunk.len().min((LARGE_BYTES - offset) as usize);
            stream.read_exact(&mut chunk[..part])?;
            expect(films::is_part(offset, &chunk[..part]), "the file's bytes")?;
            offset += part as u64;
        }
        Ok(())
    }

    fn whole(&mut self) -> io::Result<()> {
        expect_response(&mut BufReader::new(self.ask(films::LARGE, "")?), 200, 0..LARGE_BYTES)
    }

    fn range(&mut self, number: u64) -> io::Result<()> {
        let start = number.wrapping_mul(104_729) % (LARGE_BYTES - 1_000_000);
        let end = start + 800_001;
        let field = format!("Range: bytes={start}-{}\r\n", end - 1);
        expect_response(&mut BufReader::new(self.ask(films::LARGE, &field)?), 206, start..end)
    }

    fn pipelined(&mut self) -> io::Result<()> {
        const COUNT: usize = 5;
        let mut stream = self.connect()?;
        stream.write_all(&request(films::SMALL, "").repeat(COUNT))?;
        let mut reader = BufReader::new(stream);
        (0..COUNT).try_for_each(|_| expect_response(&mut reader, 200, 0..SMALL_BYTES))
    }

    fn amid_response(&mut self) -> io::Result<TcpStream> {
        let mut stream = self.ask(films::LARGE, "")?;
        let (status, _) = read_head(&mut stream)?;
        expect(status == 200, "a large response")?;
        let mut beginning = [0; 10_000];
        stream.read_exact(&mut beginning)?;
        expect(films::is_part(0, &beginning), "the file's bytes")?;
        Ok(stream)
    }

    fn bad_request(&mut self) -> io::Result<()> {
        let mut stream = self.connect()?;
        stream.write_all(b"GET\r\n\r\n")?;
        let (status, _) = read_head(&mut BufReader::new(&mut stream))?;
        expect(status == 400, "400 for a bad request")?;
        stream.read_to_end(&mut Vec::new()).map(drop).or_else(gone)
    }

    fn ask(&mut self, path: &str, fields: &str) -> io::Result<TcpStream> {
        let mut stream = self.connect()?;
        stream.write_all(&request(path, fields))?;
        Ok(stream)
    }

    fn connect(&mut self) -> io::Result<TcpStream> {
        self.count = self.count.wrapping_add(1);
        connect(self.server, self.count)
    }
}
