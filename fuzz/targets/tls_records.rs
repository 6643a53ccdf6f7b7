//! Records on an established connection: forged ones, and those of a client that has the keys and sends anything with them.
//!
//! If the first byte is 0, the rest is forged bytes on the wire, and no record of them may open. Otherwise it chooses a version and cipher, and the
//! following bytes are actions of the client ([`Talk::act`]). The server must treat each record as `model` says, however the wire was cut. It must
//! not open a record that was damaged, repeated, sent after a gap, or encrypted with old keys.

#![no_main]

use std::cell::RefCell;
use std::slice::Iter;

use fullbore_fuzz::choices::{Choices, Derived};
use fullbore_fuzz::client::CIPHERS;
use fullbore_fuzz::model::{Expected, Model};
use fullbore_fuzz::records::{self, ALERT, DATA, HANDSHAKE, Record, Writer};
use libfuzzer_sys::fuzz_target;
use tls::{Content, OPENED_BYTES_MAX, OpenRecordError, Opened, Opener};

/// More bytes on the wire show nothing new.
const WIRE_BYTES_MAX: usize = 96 * 1024;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    match choices.byte() {
        0 => forge(choices.rest()),
        which => Talk::new(usize::from(which - 1) % CIPHERS).run(choices, Derived::of(bytes)),
    }
});

thread_local! {
    /// One connection of each kind, shared by all forgeries, because a refused record changes nothing.
    static FORGED: RefCell<Vec<Opener>> =
        RefCell::new((0..CIPHERS).map(|index| records::connect(index).1.opener).collect());
}

fn forge(wire: &[u8]) {
    FORGED.with_borrow_mut(|openers| {
        for opener in openers {
            let in_place = opener.open(&mut wire.to_vec());
            for opened in [in_place, opener.open_to(wire, &mut [0; OPENED_BYTES_MAX])] {
                match opened {
                    Ok(Opened::Partial { needed_bytes }) => assert_eq!(needed_bytes, needed(wire)),
                    Ok(Opened::Record { .. }) => panic!("a forged record was opened"),
                    Err(_) => {}
                }
            }
        }
    });
}

/// Bytes of the record at the front of `wire` that are needed to open it.
fn needed(wire: &[u8]) -> usize {
    wire.first_chunk()
        .map_or(5, |[_, _, _, high, low]| 5 + usize::from(u16::from_be_bytes([*high, *low])))
}

/// Makes the client's records, and notes what the server must do with each.
struct Talk {
    writer: Writer,
    opener: Opener,
    model: Model,
    wire: Vec<u8>,
    /// One for each record on the wire, in order.
    expected: Vec<Expected>,
    last_record: Vec<u8>,
    over: bool,
}

impl Talk {
    fn new(index: usize) -> Self {
        let (writer, established) = records::connect(index);
        let model = Model::new(established.info.version);
        let (wire, expected, last_record) = (Vec::new(), Vec::new(), Vec::new());
        Self { writer, opener: established.opener, model, wire, expected, last_record, over: false }
    }

    fn run(mut self, mut choices: Choices<'_>, mut derived: Derived) {
        while !choices.is_empty() && !self.over && self.wire.len() < WIRE_BYTES_MAX {
            self.act(&mut choices);
        }
        let (mut held, mut expected) = (Vec::new(), self.expected.iter());
        for piece in derived.pieces(&self.wire) {
            held.extend_from_slice(piece);
            if receive(&mut self.opener, &mut held, &mut expected) == Connection::Over {
                return;
            }
        }
        assert!(
            matches!(expected.as_slice(), [] | [Expected::Damaged]),
            "never opened: {expected:?}"
        );
    }

    fn act(&mut self, choices: &mut Choices<'_>) {
        match choices.byte() % 17 {
            0 => self.say(DATA, choices.some(256), 0),
            1 => {
                let size =
                    choices.one_of(&[16_383, 16_384, 16_385, 16_386, 16_400, 16_640, 18_000]);
                self.say(DATA, &vec![choices.byte(); size], 0)
            }
            2 => {
                let padding_bytes = choices.one_of(&[1, 200, 16_380, 16_383, 16_384]);
                let size = usize::from(choices.byte());
                self.say(DATA, &vec![choices.byte(); size], padding_bytes)
            }
            3 => self.say(DATA, b"", usize::from(choices.byte())),
            4 => (0..choices.byte() % 80).for_each(|_| self.say(DATA, b"", 0)),
            5 => self.say(HANDSHAKE, &[24, 0, 0, 1, choices.byte() % 3], 0),
            6 => (0..choices.byte() % 80).for_each(|_| self.say(HANDSHAKE, &[24, 0, 0, 1, 0], 0)),
            7 => self.keep_old_keys(),
            8 => self.say(ALERT, &[choices.byte(), choices.byte()], 0),
            9 => self.say(ALERT, choices.some(4), 0),
            10 => self.say(HANDSHAKE, choices.some(16), 0),
            11 => self.say(choices.byte(), choices.some(8), 0),
            12 => self.damage(choices),
            13 => self.lie(self.last_record.clone()),
            14 => self.leave_out(1 + u64::from(choices.byte())),
            15 => self.break_off(choices),
            _ => self.update_in_pieces(choices),
        }
    }

    /// Sends a record as an honest client does.
    fn say(&mut self, content_type: u8, plaintext: &[u8], padding_bytes: usize) {
        if self.over {
            return;
        }
        let record = Record { content_type, plaintext: plaintext.to_vec(), padding_bytes };
        self.last_record = self.writer.seal(&record);
        self.wire.extend_from_slice(&self.last_record);
        let expected = self.model.expect(&record);
        if expected.updates_keys() {
            self.writer.update_keys();
        }
        self.over = expected.ends();
        self.expected.push(expected);
    }

    /// Sends a whole record that must not open.
    fn lie(&mut self, record: Vec<u8>) {
        if !record.is_empty() && !self.over {
            self.wire.extend(record);
            self.expected.push(Expected::Error(OpenRecordError::BadRecordMac));
            self.over = true;
        }
    }

    fn data(&mut self) -> Vec<u8> {
        self.writer.seal(&Record {
            content_type: DATA,
            plaintext: b"data".to_vec(),
            padding_bytes: 0,
        })
    }

    /// Announces new keys by a message in pieces. The bits of one byte choose the cuts, and another byte may damage the message.
    fn update_in_pieces(&mut self, choices: &mut Choices<'_>) {
        let (cuts, damage) = (choices.byte(), choices.byte());
        let mut message = [24, 0, 0, 1, damage % 3];
        if damage >= 0xc0 {
            message[usize::from(damage) % 4] = choices.byte();
        }
        let mut start = 0;
        for end in 1..=message.len() {
            if end == message.len() || cuts >> end & 1 == 1 {
                self.say(HANDSHAKE, &message[start..end], 0);
                start = end;
            }
        }
    }

    /// Announces new keys and then uses the old ones.
    fn keep_old_keys(&mut self) {
        self.writer.sequence += 1;
        let behind = self.data();
        self.writer.sequence -= 2;
        self.say(HANDSHAKE, &[24, 0, 0, 1, 0], 0);
        self.lie(behind);
    }

    fn leave_out(&mut self, count: u64) {
        self.writer.sequence += count;
        let record = self.data();
        self.lie(record);
    }

    /// Flips one bit of a record, perhaps in its header.
    fn damage(&mut self, choices: &mut Choices<'_>) {
        let mut record = self.data();
        let bit = choices.number() % (8 * record.len());
        record[bit / 8] ^= 1 << (bit % 8);
        self.wire.extend(record);
        self.expected.push(Expected::Damaged);
        self.over = true;
    }

    /// Sends only the front of a record.
    fn break_off(&mut self, choices: &mut Choices<'_>) {
        let record = self.data();
        self.wire.extend_from_slice(&record[..choices.number() % record.len()]);
        self.over = true;
    }
}

#[derive(PartialEq, Eq)]
enum Connection {
    Open,
    Over,
}

/// Opens all whole records in `held` and compares each with what is expected. The number of bytes decides whether it opens them in place.
fn receive(
    opener: &mut Opener,
    held: &mut Vec<u8>,
    expected: &mut Iter<'_, Expected>,
) -> Connection {
    loop {
        let before = held.clone();
        let mut into = [0; OPENED_BYTES_MAX];
        let is_apart = held.len() % 2 == 1;
        let opened = if is_apart { opener.open_to(held, &mut into) } else { opener.open(held) };
        match opened {
            Ok(Opened::Partial { needed_bytes }) => {
                assert_eq!(needed_bytes, needed(&before));
                assert!(needed_bytes > held.len(), "a whole record was left lying");
                return Connection::Open;
            }
            Ok(Opened::Record { consumed_bytes, content }) => {
                let wanted = expected.next().expect("no record was made up");
                assert_eq!(consumed_bytes, needed(&before));
                assert_eq!(
                    held[consumed_bytes..],
                    before[consumed_bytes..],
                    "what follows was touched"
                );
                let place = if is_apart { &into[..] } else { &held[..consumed_bytes] };
                check_content(&content, wanted, place);
                held.drain(..consumed_bytes);
            }
            Err(error) => {
                let wanted = expected.next().expect("no record was made up");
                check_error(error, wanted);
                return Connection::Over;
            }
        }
    }
}

fn check_content(content: &Content, wanted: &Expected, record: &[u8]) {
    match (wanted, content) {
        (Expected::Data(bytes), Content::Data(range)) => {
            assert!(record[range.clone()] == bytes[..])
        }
        (Expected::Content(wanted) | Expected::FloodOr(_, wanted), content) => {
            assert_eq!(content, wanted)
        }
        _ => panic!("{content:?} instead of {wanted:?}"),
    }
}

fn check_error(error: OpenRecordError, wanted: &Expected) {
    match wanted {
        Expected::Error(wanted) | Expected::FloodOr(wanted, _) => assert_eq!(error, *wanted),
        Expected::Damaged => {}
        _ => panic!("{error:?} instead of {wanted:?}"),
    }
}
