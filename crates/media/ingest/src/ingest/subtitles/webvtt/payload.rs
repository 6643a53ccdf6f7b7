//! The text of a cue: tags, timestamps and character references (WebVTT section 4.2.2). Valid text stays as it is. A `<` or `&` that begins
//! none of them is text and is escaped; tags that WebVTT does not have are removed, as players do.

/// Tags of WebVTT. Of these, `lang` and `v` have an annotation.
const TAGS: [&str; 8] = ["c", "i", "b", "u", "ruby", "rt", "v", "lang"];

/// The longest reference: HTML's longest name has 32 letters.
const REFERENCE_BYTES_MAX: usize = 34;

/// The valid form of a payload, without empty lines.
pub(super) fn valid(text: &str) -> String {
    let text = text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n");
    let (mut valid, mut open) = (String::with_capacity(text.len()), Vec::new());
    let mut rest = text.as_str();
    while let Some(letter) = rest.chars().next() {
        let bytes = match (letter, markup(rest)) {
            ('<', Some(inside)) => {
                if is_kept(inside, &mut open) {
                    valid.extend(["<", inside, ">"]);
                }
                inside.len() + 2
            }
            ('<', None) => {
                valid.push_str("&lt;");
                1
            }
            ('&', _) => {
                valid.push_str(if is_reference(rest) { "&" } else { "&amp;" });
                1
            }
            ('>', _) => {
                valid.push_str("&gt;");
                1
            }
            (letter, _) => {
                let is_shown = !letter.is_control() || ['\n', '\t'].contains(&letter);
                valid.extend(Some(letter).filter(|_| is_shown));
                letter.len_utf8()
            }
        };
        rest = rest.get(bytes..).unwrap_or("");
    }
    // Without tags that players do not know, a line may be empty.
    valid.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n")
}

/// The text between angle brackets at the beginning of `text`, if it looks like a tag or a timestamp.
fn markup(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('<')?;
    let end = rest.find(['<', '>', '\n'])?;
    let inside = rest.get(..end).filter(|_| rest.as_bytes()[end] == b'>')?;
    let name = inside.strip_prefix('/').unwrap_or(inside);
    let begins = name.chars().next().is_some_and(|letter| letter.is_ascii_alphabetic());
    let is_markup = begins || is_timestamp(inside) || ["", "/"].contains(&inside);
    is_markup.then_some(inside)
}

/// Whether players use a tag. `open` has the tags that are open, outermost first.
fn is_kept<'t>(inside: &'t str, open: &mut Vec<&'t str>) -> bool {
    if inside.contains("--") {
        return false;
    }
    if let Some(name) = inside.strip_prefix('/') {
        let closes = open.last() == Some(&name);
        if closes {
            open.pop();
        }
        return closes;
    }
    let end = inside.find(['.', ' ', '\t']).unwrap_or(inside.len());
    let name = &inside[..end];
    let is_tag = TAGS.contains(&name);
    if is_tag {
        open.push(name);
    }
    is_tag || is_timestamp(inside)
}

fn is_timestamp(text: &str) -> bool {
    super::read::time_ms(text).is_some()
}

/// Whether `text` begins with a character reference of HTML. Which names exist is the player's matter.
fn is_reference(text: &str) -> bool {
    let name = text.bytes().skip(1).take(REFERENCE_BYTES_MAX);
    let letters = name
        .clone()
        .enumerate()
        .take_while(|&(at, byte)| byte.is_ascii_alphanumeric() || at == 0 && byte == b'#');
    let count = letters.count();
    let is_number = text.as_bytes().get(1) == Some(&b'#');
    count > usize::from(is_number) && name.clone().nth(count) == Some(b';')
}
