//! Reads WebVTT as browsers do (W3C WebVTT, section 6).

/// A cue, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) text: String,
}

/// The cues of a file.
pub(crate) fn cues(text: &str) -> Result<Vec<Shown>, String> {
    let text = text.replace("\r\n", "\n");
    let rest = text.strip_prefix('\u{feff}').unwrap_or(&text).strip_prefix("WEBVTT");
    let rest = rest.ok_or("it does not begin with WEBVTT")?;
    if !rest.starts_with(['\n', ' ', '\t']) {
        return Err("no line end after WEBVTT".into());
    }
    let mut all = Vec::new();
    for block in rest.split("\n\n") {
        let mut lines = block.trim_matches('\n').lines();
        let Some(timing) = lines.by_ref().take(2).find(|line| line.contains("-->")) else {
            continue;
        };
        let (from, to) = timing.split_once("-->").unwrap_or_default();
        let to = to.split_whitespace().next().unwrap_or_default();
        let (start, end) = (seconds(from.trim()), seconds(to));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(format!("no times: {timing}"));
        };
        let payload: Vec<_> = lines.collect();
        if let Some(line) = payload.iter().find(|line| line.contains("-->")) {
            return Err(format!("an arrow inside a cue: {line}"));
        }
        all.push(Shown { start, end, text: shown(&payload.join("\n")) });
    }
    Ok(all)
}

/// Blocks that are neither cues nor notes nor definitions: what an empty line inside a cue leaves.
pub(crate) fn stray(text: &str) -> Vec<String> {
    let is_known = |block: &str| {
        ["WEBVTT", "NOTE", "STYLE", "REGION"].iter().any(|word| block.starts_with(word))
            || block.lines().take(2).any(|line| line.contains("-->"))
    };
    let text = text.replace("\r\n", "\n");
    let blocks = text.split("\n\n").map(|block| block.trim_matches(['\n', '\u{feff}']));
    blocks
        .filter(|block| !block.is_empty() && !is_known(block))
        .map(|block| format!("stray block {block:?}"))
        .collect()
}

fn seconds(clock: &str) -> Option<f64> {
    let mut all = 0.0;
    for part in clock.split(':') {
        all = all * 60.0 + part.parse::<f64>().ok()?;
    }
    Some(all)
}

/// Without tags, which begin with `<` and last to `>` or to the end, and with entities read once.
fn shown(payload: &str) -> String {
    let mut text = String::new();
    let mut rest = payload;
    while let Some(from) = rest.find(['<', '&']) {
        text.push_str(&rest[..from]);
        rest = &rest[from..];
        if rest.starts_with('<') {
            rest = rest.find('>').map_or("", |to| &rest[to + 1..]);
            continue;
        }
        let entities = [
            ("&amp;", "&"),
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&nbsp;", "\u{a0}"),
            ("&lrm;", "\u{200e}"),
            ("&rlm;", "\u{200f}"),
            ("&quot;", "\""),
            ("&#39;", "'"),
        ];
        let found =
            entities.iter().find(|(entity, _)| rest.starts_with(entity)).unwrap_or(&("&", "&"));
        text.push_str(found.1);
        rest = &rest[found.0.len()..];
    }
    text + rest
}

#[test]
fn cues_are_read_as_browsers_read_them() {
    let text = "WEBVTT\n\nSTYLE\n::cue { color: red }\n\n1\n00:01.000 --> 00:02.500 line:1\n<v Ann>I &lt;3 <i>you</i> &amp;\n\nlost\n";
    let wanted = Shown { start: 1.0, end: 2.5, text: "I <3 you &".into() };
    assert_eq!(cues(text).expect("cues"), [wanted]);
    assert_eq!(stray(text).len(), 1);
    assert_eq!(shown("I <3 you"), "I ");
    assert!(cues("00:01.000 --> 00:02.000\nno head").is_err());
    assert!(cues("WEBVTT\n\n00:01.000 --> 00:02.000\na --> b").is_err());
}
