//! The colours of a picture: how its source stores them, and the filters that convert them to one of two targets: 8-bit BT.709, or, for a source
//! of high dynamic range, 10-bit BT.2100 with the source's curve. Both have limited range.
//!
//! A source that states its colours is read as stated. What it leaves out is assumed the way players do:
//!
//! - Matrix: RGB needs none. BT.601 for a codec whose specification knows no other one. Otherwise BT.709 for a picture at least 1280 pixels wide
//!   or more than 576 high, else BT.601. This is mpv's rule (`mp_csp_guess_colorspace`, from its mp_image code); Chromium and VLC decide by
//!   height alone, at 720 and 576 lines.
//! - Primaries and transfer: BT.709. Screens of ordinary range differ too little to convert between their curves, so no SDR curve is
//!   converted to another, except linear light.
//! - With a transfer of high dynamic range (PQ, HLG): the primaries and the matrix of BT.2020 (ITU-R BT.2100 has no others).
//!
//! Names are those that ffprobe prints and ffmpeg's filters take.

use crate::mp4::VideoRange;

/// How the colours of a picture are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Colours {
    pixels: Pixels,
    is_full_range: bool,
    primaries: &'static str,
    transfer: &'static str,
    matrix: &'static str,
    /// A tag that is read as another because ffmpeg's filters can't convert it.
    unsupported: Option<&'static str>,
    /// Whether primaries and matrix are both stated, by the picture itself.
    is_stated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pixels {
    Yuv,
    Rgb,
    Grey,
}

/// The properties of a stream, as ffprobe prints them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ColourTags<'a> {
    pub(crate) codec: Option<&'a str>,
    pub(crate) pixels: Option<&'a str>,
    pub(crate) range: Option<&'a str>,
    pub(crate) primaries: Option<&'a str>,
    pub(crate) transfer: Option<&'a str>,
    pub(crate) matrix: Option<&'a str>,
    /// Whether some of them are stated only by the container, so that a copy would lose them.
    pub(crate) is_of_container: bool,
}

/// A tag's name, and its code point (ITU-T H.273).
type Tag = (&'static str, u8);
/// Primaries that the filter `colorspace` can convert.
const PRIMARIES: [Tag; 11] = [
    ("bt709", 1),
    ("bt470m", 4),
    ("bt470bg", 5),
    ("smpte170m", 6),
    ("smpte240m", 7),
    ("film", 8),
    ("bt2020", 9),
    ("smpte428", 10),
    ("smpte431", 11),
    ("smpte432", 12),
    ("ebu3213", 22),
];
/// Matrices that it can convert.
const MATRICES: [Tag; 7] = [
    ("bt709", 1),
    ("fcc", 4),
    ("bt470bg", 5),
    ("smpte170m", 6),
    ("smpte240m", 7),
    ("ycgco", 8),
    ("bt2020nc", 9),
];
/// Matrices that zscale can convert, which is used for high dynamic range.
const HDR_MATRICES: [Tag; 8] = [
    ("bt709", 1),
    ("fcc", 4),
    ("bt470bg", 5),
    ("smpte170m", 6),
    ("ycgco", 8),
    ("bt2020nc", 9),
    ("chroma-derived-nc", 12),
    ("ictcp", 14),
];
/// Matrices of H.273 that are read as BT.2020's if they can't be converted.
const WIDE_MATRICES: [Tag; 5] = [
    ("bt2020c", 10),
    ("smpte2085", 11),
    ("chroma-derived-nc", 12),
    ("chroma-derived-c", 13),
    ("ictcp", 14),
];
/// Transfers of high dynamic range.
const HDR_TRANSFERS: [Tag; 2] = [(PQ, 16), (HLG, 18)];
const PQ: &str = "smpte2084";
const HLG: &str = "arib-std-b67";
const LINEAR: &str = "linear";
/// Curves of cameras and film scans, which no filter here converts.
const LOGARITHMIC: [Tag; 2] = [("log100", 9), ("log316", 10)];

/// Names of pixel formats without a matrix begin with one of these.
const RGB_FORMATS: [&str; 14] = [
    "rgb", "bgr", "gbr", "argb", "abgr", "0rgb", "0bgr", "x2rgb", "x2bgr", "pal8", "bayer", "mono",
    "xyz", "gbrap",
];
const GREY_FORMATS: [&str; 2] = ["gray", "ya"];

/// Codecs that only have the matrix of BT.601: Theora (its specification, section 4.2) and VP3, VP6 and VP8 (RFC 6386 section 9.2), JPEG (JFIF), WebP
/// (RFC 9649 section 2.5), and TIFF, where it is the default (TIFF 6.0 section 21).
const BT601_CODECS: [&str; 9] =
    ["theora", "vp3", "vp6", "vp6a", "vp6f", "vp8", "mjpeg", "webp", "tiff"];
/// Larger pictures without a matrix are read as BT.709.
const SD_WIDTH_MAX: u32 = 1279;
const SD_HEIGHT_MAX: u32 = 576;

/// The primaries and the matrix of BT.2100.
const WIDE_PRIMARIES: &str = "bt2020";
const WIDE_MATRIX: &str = "bt2020nc";

/// The tags of every picture that is encoded in standard range.
pub(crate) const TARGET_TAGS: &str =
    "-color_range tv -color_primaries bt709 -color_trc bt709 -colorspace bt709";

impl Colours {
    /// The colours of a picture of `width` by `height` stored pixels.
    pub(crate) fn new(tags: &ColourTags<'_>, width: u32, height: u32) -> Self {
        let name = tags.pixels.unwrap_or("yuv420p");
        let begins = |list: &[&str]| list.iter().any(|begin| name.starts_with(begin));
        let pixels = if begins(&RGB_FORMATS) {
            Pixels::Rgb
        } else if begins(&GREY_FORMATS) {
            Pixels::Grey
        } else {
            Pixels::Yuv
        };
        let transfer = tags.transfer.and_then(|one| known(&HDR_TRANSFERS, one));
        let is_hdr = transfer.is_some();
        let primaries = tags.primaries.and_then(|one| known(&PRIMARIES, one));
        let matrix = tags.matrix.filter(|_| pixels == Pixels::Yuv);
        let convertible: &[Tag] = if is_hdr { &HDR_MATRICES } else { &MATRICES };
        let unconvertible = matrix
            .and_then(|one| known(&WIDE_MATRICES, one))
            .filter(|one| known(convertible, one).is_none());
        let matrix = matrix.and_then(|one| known(convertible, one));
        let is_wide = is_hdr || primaries == Some("bt2020") || unconvertible.is_some();
        let is_bt601 = tags.codec.is_some_and(|codec| BT601_CODECS.contains(&codec));
        let is_large = !is_bt601 && (width > SD_WIDTH_MAX || height > SD_HEIGHT_MAX);
        let assumed_matrix = match (pixels, is_wide, is_large) {
            (Pixels::Yuv, true, _) => "bt2020nc",
            (Pixels::Yuv, false, false) => "smpte170m",
            _ => "bt709",
        };
        let assumed_primaries =
            if is_hdr || matrix == Some("bt2020nc") { "bt2020" } else { "bt709" };
        let curve = tags.transfer.and_then(|one| known(&LOGARITHMIC, one));
        let linear = tags.transfer.filter(|one| *one == LINEAR).map(|_| LINEAR);
        Self {
            pixels,
            is_full_range: name.starts_with("yuvj") || tags.range == Some("pc"),
            primaries: primaries.unwrap_or(assumed_primaries),
            transfer: transfer.or(linear).unwrap_or("bt709"),
            matrix: matrix.unwrap_or(assumed_matrix),
            unsupported: unconvertible.or(curve),
            is_stated: primaries.is_some() && matrix.is_some() && !tags.is_of_container,
        }
    }

    /// Those of every encoded picture.
    pub(crate) fn target() -> Self {
        let bt709 = Some("bt709");
        let tags = ColourTags {
            primaries: bt709,
            transfer: bt709,
            matrix: bt709,
            ..ColourTags::default()
        };
        Self::new(&tags, 0, 0)
    }

    /// Whether they have a higher dynamic range than ordinary screens (PQ or HLG).
    pub(crate) fn is_hdr(&self) -> bool {
        matches!(self.transfer, PQ | HLG)
    }

    /// Their dynamic range.
    pub(crate) fn range(&self) -> VideoRange {
        match self.transfer {
            PQ => VideoRange::Pq,
            HLG => VideoRange::Hlg,
            _ => VideoRange::Sdr,
        }
    }

    /// Whether a picture of high dynamic range has the primaries and the matrix of BT.2100, so that it needs only scaling.
    pub(crate) fn is_bt2100(&self) -> bool {
        self.primaries == WIDE_PRIMARIES
            && (self.pixels != Pixels::Yuv || self.matrix == WIDE_MATRIX)
    }

    /// A tag that ingest can't convert, so that colours may be wrong.
    pub(crate) fn unsupported(&self) -> Option<&'static str> {
        self.unsupported
    }

    /// The filter that labels every frame, before any other, so that the conversion doesn't depend on what single frames say. The matrix is
    /// one that ffmpeg's scaler knows, since newer versions refuse others: later filters get the real one as an option.
    pub(crate) fn labels(&self) -> String {
        let Self { primaries, transfer, .. } = self;
        let range = if self.is_full_range { "pc" } else { "tv" };
        let matrix = if self.is_hdr() { "bt2020nc" } else { "bt709" };
        let colours = format!("setparams=color_primaries={primaries}:color_trc={transfer}");
        match self.pixels {
            Pixels::Yuv => format!("{colours}:colorspace={matrix}:range={range}"),
            Pixels::Rgb | Pixels::Grey => colours,
        }
    }

    /// The filters that scale the picture to `size`, a width and a height as ffmpeg's scaler takes them, and convert it to 8-bit BT.709,
    /// after [`Colours::labels`].
    pub(crate) fn scale_to_bt709(&self, size: &str, has_zscale: bool) -> String {
        let scale = format!("scale={size}:flags=bicubic");
        if self.is_hdr() && has_zscale {
            // To linear light, where the brightest parts are compressed, and back to the range of BT.709 screens.
            let matrix = match self.pixels {
                Pixels::Yuv => format!("min={}:", self.matrix),
                Pixels::Rgb | Pixels::Grey => String::new(),
            };
            return format!(
                "{scale},zscale={matrix}t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,tonemap=tonemap=hable:desat=0,\
                 zscale=t=bt709:m=bt709:r=tv,format=yuv420p"
            );
        }
        let scale = match (self.pixels, self.is_full_range) {
            (Pixels::Yuv, false) => scale,
            (Pixels::Yuv, true) => format!("{scale}:in_range=pc:out_range=tv"),
            (Pixels::Rgb | Pixels::Grey, _) => {
                format!("{scale}:out_color_matrix=bt709:out_range=tv")
            }
        };
        match self.to_bt709() {
            Some(convert) => format!("{scale},{convert}"),
            None => format!("{scale},format=yuv420p"),
        }
    }

    /// The filters that scale a picture of high dynamic range and convert it to 10-bit BT.2100 with the same curve, after
    /// [`Colours::labels`]. Unless it [is in BT.2100](Colours::is_bt2100), they need zscale.
    pub(crate) fn scale_to_bt2100(&self, width: u32, height: u32) -> String {
        let scale = format!("scale={width}:{height}:flags=bicubic");
        let Self { primaries, transfer, matrix, .. } = self;
        if !self.is_bt2100() {
            let matrix = match self.pixels {
                Pixels::Yuv => format!("min={matrix}:"),
                Pixels::Rgb | Pixels::Grey => String::new(),
            };
            return format!(
                "{scale},zscale={matrix}pin={primaries}:tin={transfer}:p={WIDE_PRIMARIES}:t={transfer}:m={WIDE_MATRIX}:r=tv,\
                 format=yuv420p10le"
            );
        }
        let range = match (self.pixels, self.is_full_range) {
            (Pixels::Yuv, false) => "",
            (Pixels::Yuv, true) => ":in_range=pc:out_range=tv",
            (Pixels::Rgb | Pixels::Grey, _) => ":out_color_matrix=bt2020:out_range=tv",
        };
        format!("{scale}{range},format=yuv420p10le")
    }

    /// The tags of a picture after [`Colours::scale_to_bt2100`].
    pub(crate) fn bt2100_tags(&self) -> String {
        let transfer = self.transfer;
        format!(
            "-color_range tv -color_primaries {WIDE_PRIMARIES} -color_trc {transfer} -colorspace {WIDE_MATRIX}"
        )
    }

    /// The filter that converts a scaled picture of limited range, if it isn't in BT.709 already.
    fn to_bt709(&self) -> Option<String> {
        let matrix = if self.pixels == Pixels::Yuv { self.matrix } else { "bt709" };
        // This filter has no curves of high dynamic range. Without zscale, only the matrix of such a picture can be converted.
        let (primaries, transfer) = match self.transfer {
            PQ | HLG => ("bt709", "bt709"),
            transfer => (self.primaries, transfer),
        };
        let matrix = known(&MATRICES, matrix).unwrap_or("bt2020nc");
        if (matrix, primaries, transfer) == ("bt709", "bt709", "bt709") {
            return None;
        }
        // 10 bits, because rounding to 8 twice shows.
        Some(format!(
            "format=yuv420p10,colorspace=ispace={matrix}:iprimaries={primaries}:itrc={transfer}:irange=tv:\
             space=bt709:primaries=bt709:trc=bt709:range=tv:format=yuv420p"
        ))
    }

    /// Arguments that complete the tags of a copied picture of high dynamic range, in its file and in its stream. Its samples stay.
    pub(crate) fn completing(&self, codec: &str) -> Option<String> {
        let is_known = self.unsupported.is_none() && self.pixels == Pixels::Yuv;
        if !self.is_hdr() || self.is_stated || !is_known {
            return None;
        }
        let Self { primaries, transfer, matrix, .. } = self;
        let of_file =
            format!("-color_primaries {primaries} -color_trc {transfer} -colorspace {matrix}");
        let filter = match codec {
            "h264" => "h264_metadata=colour_primaries",
            "hevc" => "hevc_metadata=colour_primaries",
            "av1" => "av1_metadata=color_primaries",
            _ => return Some(of_file), // VP9's stream has no transfer, so its file states all three.
        };
        let primaries_code = code(&PRIMARIES, primaries)?;
        let transfer_code = code(&HDR_TRANSFERS, transfer)?;
        let matrix_code = code(&HDR_MATRICES, matrix)?;
        Some(format!(
            "-bsf:v {filter}={primaries_code}:transfer_characteristics={transfer_code}:matrix_coefficients={matrix_code} \
             {of_file}"
        ))
    }
}

/// The tag of this name in `list`.
fn known(list: &[Tag], name: &str) -> Option<&'static str> {
    list.iter().map(|(known, _)| *known).find(|known| *known == name)
}

/// The code point of the tag of this name in `list`.
fn code(list: &[Tag], name: &str) -> Option<u8> {
    list.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yuv(transfer: &'static str, primaries: &'static str, matrix: &'static str) -> Colours {
        let [transfer, primaries, matrix] = [transfer, primaries, matrix].map(Some);
        let tags = ColourTags { transfer, primaries, matrix, ..ColourTags::default() };
        Colours::new(&tags, 640, 360)
    }

    #[test]
    fn a_picture_in_bt709_is_only_scaled() {
        let scaled = Colours::target().scale_to_bt709("64:36", true);
        assert_eq!(scaled, "scale=64:36:flags=bicubic,format=yuv420p");
    }

    #[test]
    fn a_large_picture_without_a_matrix_is_bt709_unless_its_codec_knows_only_bt601() {
        for (codec, matrix) in [
            ("h264", "bt709"),
            ("theora", "smpte170m"),
            ("vp8", "smpte170m"),
            ("webp", "smpte170m"),
            ("tiff", "smpte170m"),
        ] {
            let tags = ColourTags { codec: Some(codec), ..ColourTags::default() };
            assert_eq!(Colours::new(&tags, 1280, 720).matrix, matrix, "{codec}");
        }
    }

    #[test]
    fn without_zscale_only_the_matrix_of_high_dynamic_range_is_converted() {
        let colours = yuv(PQ, "unknown", "unknown");
        let scaled = colours.scale_to_bt709("64:36", false);
        assert!(
            scaled.contains("colorspace=ispace=bt2020nc:iprimaries=bt709:itrc=bt709"),
            "{scaled}"
        );
        assert!(colours.is_hdr() && !scaled.contains("zscale"), "{scaled}");
        assert!(colours.scale_to_bt709("64:36", true).contains("zscale=min=bt2020nc:t=linear"));
    }

    #[test]
    fn a_picture_in_bt2100_keeps_its_curve_and_is_only_scaled() {
        let colours = yuv(HLG, "unknown", "unknown");
        assert_eq!(colours.scale_to_bt2100(64, 36), "scale=64:36:flags=bicubic,format=yuv420p10le");
        assert!(colours.is_bt2100() && colours.bt2100_tags().contains("-color_trc arib-std-b67 "));
        let phone = yuv(PQ, "smpte432", "bt2020nc");
        assert!(!phone.is_bt2100());
        let scaled = phone.scale_to_bt2100(64, 36);
        assert!(
            scaled.contains(
                "zscale=min=bt2020nc:pin=smpte432:tin=smpte2084:p=bt2020:t=smpte2084:m=bt2020nc:r=tv"
            ),
            "{scaled}"
        );
        assert!(!yuv(PQ, "bt2020", "ictcp").is_bt2100());
    }

    #[test]
    fn tags_that_cannot_be_converted_are_named() {
        assert_eq!(yuv("bt709", "bt2020", "ictcp").unsupported(), Some("ictcp"));
        assert_eq!(yuv(PQ, "bt2020", "ictcp").unsupported(), None);
        assert_eq!(yuv(PQ, "bt2020", "bt2020c").unsupported(), Some("bt2020c"));
        assert_eq!(yuv("log100", "unknown", "reserved").unsupported(), Some("log100"));
        assert_eq!(yuv("reserved", "reserved", "reserved").unsupported(), None);
    }

    #[test]
    fn only_missing_tags_of_high_dynamic_range_are_completed() {
        let completed = yuv(HLG, "unknown", "bt2020nc").completing("hevc").unwrap();
        assert!(completed.starts_with(
            "-bsf:v hevc_metadata=colour_primaries=9:transfer_characteristics=18:matrix_coefficients=9 "
        ));
        assert_eq!(yuv(HLG, "bt2020", "bt2020nc").completing("hevc"), None);
        assert_eq!(yuv(PQ, "unknown", "bt2020c").completing("hevc"), None);
        assert_eq!(yuv("unknown", "unknown", "unknown").completing("h264"), None);
    }
}
