use super::super::cue::{self, Column, Look, Place, Row, Run};
use super::super::text::reference;
use super::super::{ass, srt};
use super::*;

/// The text that a viewer sees, without tags.
fn shown(payload: &str) -> String {
    let (mut text, mut rest) = (String::new(), payload);
    while let Some(letter) = rest.chars().next() {
        let bytes = match (letter, reference(rest)) {
            ('<', _) => rest.find('>').expect("a whole tag") + 1,
            (_, Some((shown, bytes))) => {
                text.push(shown);
                bytes
            }
            (letter, None) => {
                text.push(letter);
                letter.len_utf8()
            }
        };
        rest = &rest[bytes..];
    }
    text
}

fn read(text: &str) -> Document {
    assert!(Document::is_webvtt(text), "{text}");
    Document::read(text)
}

/// Text drawn from letters that mean something in one of the formats.
struct Drawn(u64);

impl Drawn {
    fn next(&mut self, below: u64) -> u64 {
        // xorshift64: seeds give the same text on every machine.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 40] = [
            "a",
            "Z",
            "7",
            " ",
            "\n",
            "\n\n",
            "\r\n",
            "\t",
            "<",
            ">",
            "&",
            ";",
            "-->",
            "--",
            "-",
            "{",
            "}",
            "\\",
            "\\N",
            "\\h",
            "\\p1",
            "\\i1",
            "<i>",
            "</i>",
            "<b",
            "<font color=red>",
            "<v Ann>",
            "<3",
            "&amp;",
            "&lt",
            "&#39;",
            "NOTE",
            "STYLE",
            "WEBVTT",
            "00:01.000",
            "1\n00:00:01,000 --> 00:00:02,000\n",
            "ä",
            "\u{1f600}",
            "\u{0}",
            "\u{2028}",
        ];
        (0..self.next(14)).map(|_| PARTS[self.next(PARTS.len() as u64) as usize]).collect()
    }

    fn look(&mut self) -> Look {
        let colours = [None, None, super::super::colour::Colour::of_html("red")];
        Look {
            is_italic: self.next(2) == 0,
            is_bold: self.next(3) == 0,
            is_underlined: self.next(4) == 0,
            colour: colours[self.next(3) as usize],
        }
    }
}

#[test]
fn any_text_comes_back_equal() {
    let mut drawn = Drawn(0x5eed);
    for draw in 0..5_000 {
        let runs = (0..3).map(|_| Run { text: drawn.text(), look: drawn.look() }).collect();
        let start_ms = drawn.next(10_000_000);
        let place = Place { row: Row::At(drawn.next(100) as u8), column: Column::Left(5) };
        let Some(cue) = cue::Cue::new(start_ms, start_ms + 1, place, runs) else { continue };
        let expected: String = cue.runs.iter().map(|run| run.text.as_str()).collect();
        let document = Document::of(vec![cue]);
        let again = read(&document.write());
        assert_eq!(again, document, "draw {draw}");
        assert_eq!(shown(&again.cues[0].payload), expected, "draw {draw}");
    }
}

#[test]
fn any_bytes_become_valid_webvtt() {
    let mut drawn = Drawn(0xf11e);
    for draw in 0..3_000 {
        let text = format!("{}1\n00:00:01,000 --> 00:00:02,000\n{}", drawn.text(), drawn.text());
        let event = format!("[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{text}");
        let webvtt = format!(
            "WEBVTT {}\n\n00:01.000 --> 00:02.000 {}\n{}",
            drawn.text(),
            drawn.text(),
            drawn.text()
        );
        for document in
            [Document::of(srt::cues(&text)), Document::of(ass::cues(&event)), read(&webvtt)]
        {
            let again = read(&document.write());
            assert_eq!((&again.cues, again.dropped), (&document.cues, 0), "draw {draw}: {text:?}");
        }
    }
}

#[test]
fn a_valid_file_stays_as_it_is() {
    let text = "WEBVTT\n\nSTYLE\n::cue(.y){color:yellow}\n\nREGION\nid:r\nwidth:40%\n\n\
        one\n00:01.000 --> 00:02.000 line:10% position:20%,line-left align:start region:r size:50.5% vertical:rl\n\
        <v.loud Ann>Up <c.y><i>here</i></c> &amp; &lt;3 &eacute;\n<00:01.500>then</v>\n\n\
        00:02.000 --> 100:00:00.000\n<ruby>漢<rt>kan</rt></ruby><lang en>a</lang>\n";
    let document = read(text);
    assert_eq!(document.write(), text);
    assert_eq!(document.dropped, 0);
}

#[test]
fn what_is_invalid_is_mended_or_dropped_and_counted() {
    let document = read(
        "WEBVTT - a comment\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00.000\n\nNOTE a --> b\nc\n\n\
         00:05.000 --> 00:06.000 align:middle line:101% line:-2 future:1\nI <3 you & me <font color=\"red\">red</font> </i>a > b\n\n\
         00:00:03,000 --> 00:00:04,000\na comma\n\n00:03.000 --> 00:03.000\nno length\n\n00:01.000 --> 00:02.000\n<i>first\n\nmore text\n\n\
         STYLE\n::cue{color:red}\n\n00:07.000 --> 00:08.000\nan arrow --> here\n",
    );
    assert_eq!(document.dropped, 4);
    let cues: Vec<_> = document
        .cues
        .iter()
        .map(|cue| (cue.start_ms, cue.settings.as_str(), cue.payload.as_str()))
        .collect();
    assert_eq!(
        cues,
        [
            (1000, "", "<i>first"),
            (5000, "line:-2", "I &lt;3 you &amp; me red a &gt; b"),
            (7000, "", "an arrow --&gt; here"),
        ]
    );
    assert!(document.head.is_empty());
}

/// A style with a line of control characters became a style and a stray block, and a cue with such an identifier a comment.
#[test]
fn blocks_and_identifiers_stay_what_they_are() {
    let cue = "00:01.000 --> 00:02.000\na\n";
    let text = format!(
        "WEBVTT\n\nSTYLE\n\u{1}\n::cue(.y){{color:yellow}}\n\nSTYLE\nx--\u{1}>y\n\n NOTE b\n{cue}"
    );
    let document = read(&text);
    assert_eq!(document.write(), format!("WEBVTT\n\nSTYLE\n::cue(.y){{color:yellow}}\n\n{cue}"));
    assert_eq!(document.dropped, 1);
    let of_packet = Cue::new(0, 1, "NOTE", "", "a").expect("a cue");
    assert_eq!(of_packet.id, "");
}

#[test]
fn only_a_first_line_of_webvtt_is_webvtt() {
    for (text, expected) in [
        ("WEBVTT", true),
        ("WEBVTT\n", true),
        ("WEBVTT FILE", true),
        ("WEBVTTX", false),
        ("", false),
    ] {
        assert_eq!(Document::is_webvtt(text), expected, "{text}");
    }
    assert_eq!(read("WEBVTT\n00:01.000 --> 00:02.000\na").cues.len(), 1);
}

#[test]
fn looks_and_places_are_written_as_all_browsers_read_them() {
    let cue = |text: &str| Document::of(vec![srt::cue(0, 1500, text).unwrap()]).write();
    assert_eq!(
        cue(r"{\an8}<i>Hello</i> <font color=#ffff00><b>you</b></font> & me"),
        "WEBVTT\n\n00:00.000 --> 00:01.500 line:0\n<i>Hello</i> <c.yellow><b>you</b></c> &amp; me\n"
    );
    assert!(cue(r"{\an1}a").contains(".500 position:5% align:start\n"));
    assert!(cue(r"{\an6}a").contains(".500 line:47% position:95% align:end\n"));
}

#[test]
fn long_runs_of_what_opens_markup_take_linear_time() {
    // Quadratic time would be hours.
    for opener in ["{", "{\\", "<", "<a", "<i", "&", "&a", "\\"] {
        let text = opener.repeat(1 << 20);
        assert!(srt::cue(0, 1, &text).is_some_and(|cue| !cue.runs.is_empty()), "{opener}");
        assert!(!payload::valid(&text).is_empty(), "{opener}");
        let event = format!("[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{text}");
        assert_eq!(ass::cues(&event).len(), 1, "{opener}");
    }
}
