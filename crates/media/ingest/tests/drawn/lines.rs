//! Lines of subtitles with what breaks converters, in each format, and what a viewer reads.

/// A line in each format, and its text.
pub(crate) struct Line {
    pub(crate) subrip: &'static str,
    pub(crate) ass: &'static str,
    pub(crate) webvtt: &'static str,
    /// White space counts as one space.
    pub(crate) text: &'static str,
}

const fn plain(text: &'static str) -> Line {
    Line { subrip: text, ass: text, webvtt: text, text }
}

pub(crate) const LINES: [Line; 12] = [
    plain("Hello there"),
    plain("Gr\u{fc}\u{df}e \u{1f3ac} \u{6f22}\u{5b57} \u{5e2}\u{5d1}\u{5e8}\u{5d9}\u{5ea}"),
    plain("42"),
    plain("NOTE this is no note"),
    Line {
        subrip: "Q&A: I <3 you",
        ass: "Q&A: I <3 you",
        webvtt: "Q&amp;A: I &lt;3 you",
        text: "Q&A: I <3 you",
    },
    Line {
        subrip: "if a < b && c > d",
        ass: "if a < b && c > d",
        webvtt: "if a &lt; b &amp;&amp; c &gt; d",
        text: "if a < b && c > d",
    },
    Line {
        subrip: "arrow --> here &amp; there &lt;3",
        ass: "arrow --> here & there <3",
        webvtt: "arrow --&gt; here &amp; there &lt;3",
        text: "arrow --> here & there <3",
    },
    Line {
        subrip: "<i>Over</i> & out",
        ass: "{\\i1}Over{\\i0} & out",
        webvtt: "<i>Over</i> &amp; out",
        text: "Over & out",
    },
    Line {
        subrip: "first\nsecond",
        ass: "first\\N\\Nsecond",
        webvtt: "first\nsecond",
        text: "first second",
    },
    Line {
        subrip: "{\\an8}At the top",
        ass: "{\\an8\\pos(10,10)}At the top",
        webvtt: "<v Ann>At the top",
        text: "At the top",
    },
    Line {
        subrip: "<font color=\"#ff0000\">Red</font> alert",
        ass: "{\\c&H0000FF&}Red{\\c&HFFFFFF&} alert",
        webvtt: "<c.red>Red</c> alert",
        text: "Red alert",
    },
    Line {
        subrip: "- Who?\n- Me & <b>you</b>",
        ass: "- Who?\\N- Me & {\\b1}you{\\b0}",
        webvtt: "- Who?\n- Me &amp; <b>you</b>",
        text: "- Who? - Me & you",
    },
];

/// `text` with each run of white space as one space.
pub(crate) fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
