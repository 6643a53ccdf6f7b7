//! Segments as lines of text and as bytes. Written independently of the crate's own headers, so that one checks the other.
//!
//! `S. 0:0(0) ack 1 win 16384 <mss 1460,sackOK,wscale 0>`: flags, first and last sequence number with the payload's
//! length, and what else must be there. Flags: `S` SYN, `F` FIN, `R` RST, `P` PSH, `U` URG, `E` ECE, `W` CWR, `.` ACK.
//! Numbers count from each side's SYN, which is 0. `ce` and `ect0` after it are the IP header's ECN field.

/// A line of text, or a sent segment. Fields that a line does not mention are not compared, except for SACK blocks.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) bytes: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) window: Option<u16>,
    pub(crate) mss: Option<u16>,
    pub(crate) sack_permitted: bool,
    pub(crate) scale: Option<u8>,
    pub(crate) stamps: Option<(u32, u32)>,
    pub(crate) sacks: Vec<(u32, u32)>,
    pub(crate) ecn: Option<u8>,
    /// Set if the line mentions options.
    pub(crate) with_options: bool,
}

const LETTERS: [(char, u8); 8] =
    [('S', 2), ('F', 1), ('R', 4), ('P', 8), ('U', 0x20), ('E', 0x40), ('W', 0x80), ('.', 0x10)];

pub(crate) fn parse(line: &str) -> Segment {
    let mut segment = Segment::default();
    let (line, options) = match line.split_once('<') {
        Some((before, rest)) => {
            let (options, after) = rest.split_once('>').expect("options end with >");
            (format!("{before}{after}"), Some(options.to_string()))
        }
        None => (line.to_string(), None),
    };
    let mut words = line.split_whitespace();
    for letter in words.next().expect("flags").chars() {
        let (_, bit) = LETTERS.iter().find(|(known, _)| *known == letter).expect("a known flag");
        segment.flags |= bit;
    }
    (segment.seq, segment.bytes) = parse_range(words.next().expect("a range"));
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        match word {
            "ack" => segment.ack = Some(number()),
            "win" => segment.window = Some(number() as u16),
            "ect0" => segment.ecn = Some(2),
            "ce" => segment.ecn = Some(3),
            "not-ect" => segment.ecn = Some(0),
            other => panic!("what is {other:?}?"),
        }
    }
    segment.with_options = options.is_some();
    for option in
        options.iter().flat_map(|options| options.split(',')).filter(|option| !option.is_empty())
    {
        parse_option(option.trim(), &mut segment);
    }
    segment
}

/// `1:1461(1460)`, checked.
fn parse_range(text: &str) -> (u32, u32) {
    let (first, rest) = text.split_once(':').expect("first:last(bytes)");
    let (last, bytes) = rest.trim_end_matches(')').split_once('(').expect("first:last(bytes)");
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let (first, last, bytes) = (number(first), number(last), number(bytes));
    assert_eq!(last - first, bytes, "in {text}");
    (first, bytes)
}

fn parse_option(text: &str, segment: &mut Segment) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u32>().expect("a number");
    match words[0] {
        "mss" => segment.mss = Some(number(1) as u16),
        "sackOK" => segment.sack_permitted = true,
        "wscale" => segment.scale = Some(number(1) as u8),
        "TS" => segment.stamps = Some((number(2), number(4))),
        "sack" => {
            for block in &words[1..] {
                let (left, right) = block.split_once(':').expect("left:right");
                segment.sacks.push((left.parse().unwrap(), right.parse().unwrap()));
            }
        }
        other => panic!("what option is {other:?}?"),
    }
}

/// Where the sequence numbers of the two sides begin.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Base {
    pub(crate) ours: u32,
    pub(crate) peers: u32,
    pub(crate) our_stamp: u32,
}

/// The bytes of a peer's segment.
pub(crate) fn to_bytes(
    segment: &Segment,
    base: &Base,
    peer_port: u16,
    port: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut options = Vec::new();
    if let Some(mss) = segment.mss {
        options.extend([2, 4]);
        options.extend(mss.to_be_bytes());
    }
    if segment.sack_permitted {
        options.extend([1, 1, 4, 2]);
    }
    if let Some(scale) = segment.scale {
        options.extend([1, 3, 3, scale]);
    }
    if let Some((value, echo)) = segment.stamps {
        options.extend([1, 1, 8, 10]);
        options.extend(value.to_be_bytes());
        let echo = if segment.flags & 0x10 == 0 { 0 } else { base.our_stamp.wrapping_add(echo) };
        options.extend(echo.to_be_bytes());
    }
    if !segment.sacks.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * segment.sacks.len() as u8]);
        for (left, right) in &segment.sacks {
            options.extend(base.ours.wrapping_add(*left).to_be_bytes());
            options.extend(base.ours.wrapping_add(*right).to_be_bytes());
        }
    }
    let mut bytes = Vec::new();
    bytes.extend(peer_port.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.extend(base.peers.wrapping_add(segment.seq).to_be_bytes());
    let ack = segment.ack.map_or(0, |ack| base.ours.wrapping_add(ack));
    bytes.extend(ack.to_be_bytes());
    bytes.push(((20 + options.len()) / 4 * 16) as u8);
    bytes.push(segment.flags);
    bytes.extend(segment.window.unwrap_or(0).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    bytes.extend(payload);
    bytes
}

/// A header of ours, and the length of its payload.
pub(crate) fn from_header(header: &[u8], bytes: u32, ecn: u8, base: &Base) -> Segment {
    let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
    assert_eq!(usize::from(header[12] >> 4) * 4, header.len(), "the data offset");
    let mut segment = Segment {
        flags: header[13],
        seq: word(4).wrapping_sub(base.ours),
        bytes,
        window: Some(u16::from_be_bytes([header[14], header[15]])),
        ecn: Some(ecn),
        ..Segment::default()
    };
    if header[13] & 0x10 != 0 {
        segment.ack = Some(word(8).wrapping_sub(base.peers));
    }
    let mut at = 20;
    while at < header.len() {
        let length = match header[at] {
            0 => break,
            1 => 1,
            _ => usize::from(header[at + 1]),
        };
        match header[at] {
            2 => segment.mss = Some(u16::from_be_bytes([header[at + 2], header[at + 3]])),
            3 => segment.scale = Some(header[at + 2]),
            4 => segment.sack_permitted = true,
            5 => {
                for block in (at + 2..at + length).step_by(8) {
                    let edge = |at| word(at).wrapping_sub(base.peers);
                    segment.sacks.push((edge(block), edge(block + 4)));
                }
            }
            8 => segment.stamps = Some((word(at + 2).wrapping_sub(base.our_stamp), word(at + 6))),
            _ => {}
        }
        at += length;
    }
    segment
}

impl std::fmt::Display for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (letter, bit) in LETTERS {
            if self.flags & bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        write!(f, " {}:{}({})", self.seq, self.seq.wrapping_add(self.bytes), self.bytes)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        let mut options = Vec::new();
        options.extend(self.mss.map(|mss| format!("mss {mss}")));
        options.extend(self.sack_permitted.then(|| "sackOK".to_string()));
        options.extend(self.scale.map(|scale| format!("wscale {scale}")));
        options.extend(self.stamps.map(|(value, echo)| format!("TS val {value} ecr {echo}")));
        if !self.sacks.is_empty() {
            let blocks: Vec<_> =
                self.sacks.iter().map(|(left, right)| format!("{left}:{right}")).collect();
            options.push(format!("sack {}", blocks.join(" ")));
        }
        if !options.is_empty() {
            write!(f, " <{}>", options.join(","))?;
        }
        match self.ecn {
            Some(2) => write!(f, " ect0"),
            Some(3) => write!(f, " ce"),
            _ => Ok(()),
        }
    }
}

impl Segment {
    /// Whether `sent` matches this line.
    pub(crate) fn describes(&self, sent: &Segment) -> bool {
        let same = |wanted: bool| wanted || !self.with_options;
        self.flags == sent.flags
            && (self.seq, self.bytes) == (sent.seq, sent.bytes)
            && (self.ack.is_none() || self.ack == sent.ack)
            && (self.window.is_none() || self.window == sent.window)
            && (self.ecn.is_none() || self.ecn == sent.ecn)
            && self.sacks == sent.sacks
            && same(
                self.mss == sent.mss
                    && self.sack_permitted == sent.sack_permitted
                    && self.scale == sent.scale
                    && self.stamps == sent.stamps,
            )
    }
}
