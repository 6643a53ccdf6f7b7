//! The containers, and what each can carry: a film is drawn only from combinations that people have.

/// A container and its contents, by ffmpeg's names.
#[derive(Debug)]
pub(crate) struct Container {
    /// The extension of its files.
    pub(crate) extension: &'static str,
    /// ffmpeg's muxer, with its options.
    pub(crate) muxer: &'static str,
    pub(crate) pictures: &'static [&'static str],
    pub(crate) sounds: &'static [&'static str],
    pub(crate) texts: &'static [&'static str],
    pub(crate) sounds_max: usize,
    /// Whether its streams may begin at other times than 0, and each at its own.
    pub(crate) has_starts: bool,
    /// Whether pieces of it can be joined, and a piece cut out of it, byte by byte.
    pub(crate) is_joinable: bool,
    /// Whether a copy of a part keeps what comes before its first frame out of sight with an edit list.
    pub(crate) has_edit_lists: bool,
    pub(crate) has_reordering: bool,
    pub(crate) has_variable_rate: bool,
    pub(crate) has_languages: bool,
    pub(crate) has_roles: bool,
}

const ISO: Container = Container {
    extension: "mp4",
    muxer: "mp4",
    pictures: &["h264", "h264", "h264", "hevc", "mpeg4", "av1"],
    sounds: &["aac", "aac", "aac", "ac3", "eac3", "mp3", "opus", "flac"],
    texts: &["mov_text"],
    sounds_max: 4,
    has_starts: true,
    is_joinable: false,
    has_edit_lists: true,
    has_reordering: true,
    has_variable_rate: true,
    has_languages: true,
    has_roles: true,
};

const STREAM: Container = Container {
    extension: "ts",
    muxer: "mpegts",
    pictures: &["h264", "h264", "hevc", "mpeg2video"],
    sounds: &["aac", "aac", "mp2", "ac3", "eac3", "mp3"],
    texts: &[],
    sounds_max: 4,
    has_starts: true,
    is_joinable: true,
    has_edit_lists: false,
    has_reordering: true,
    has_variable_rate: true,
    has_languages: true,
    has_roles: true,
};

const OLD: Container = Container {
    extension: "avi",
    muxer: "avi",
    pictures: &["mpeg4", "mjpeg", "h264", "msmpeg4"],
    sounds: &["mp3", "pcm_s16le", "ac3", "mp2"],
    texts: &[],
    sounds_max: 2,
    has_starts: false,
    is_joinable: false,
    has_edit_lists: false,
    has_reordering: false,
    has_variable_rate: false,
    has_languages: false,
    has_roles: false,
};

/// Those that people have most come several times.
pub(crate) const CONTAINERS: [&Container; 16] = [
    &ISO,
    &ISO,
    &Container {
        extension: "mov",
        muxer: "mov",
        pictures: &["h264", "h264", "hevc", "prores", "mjpeg"],
        sounds: &["aac", "pcm_s16le", "alac"],
        has_roles: false,
        ..ISO
    },
    &MATROSKA,
    &MATROSKA,
    &MATROSKA,
    &Container {
        extension: "webm",
        muxer: "webm",
        pictures: &["vp8", "vp9"],
        sounds: &["opus", "vorbis"],
        texts: &["webvtt"],
        ..MATROSKA
    },
    &STREAM,
    &STREAM,
    &STREAM,
    &Container {
        extension: "m2ts",
        muxer: "mpegts -mpegts_m2ts_mode 1",
        pictures: &["h264", "mpeg2video"],
        sounds: &["ac3", "eac3", "pcm_bluray"],
        is_joinable: false,
        ..STREAM
    },
    &Container {
        extension: "vob",
        muxer: "vob",
        pictures: &["mpeg2video"],
        sounds: &["mp2", "ac3"],
        is_joinable: false,
        has_variable_rate: false,
        has_languages: false,
        has_roles: false,
        ..STREAM
    },
    &OLD,
    &Container {
        extension: "flv",
        muxer: "flv",
        pictures: &["h264", "flv"],
        sounds: &["aac", "mp3"],
        sounds_max: 1,
        has_starts: true,
        has_reordering: true,
        has_variable_rate: true,
        ..OLD
    },
    &Container {
        extension: "wmv",
        muxer: "asf",
        pictures: &["wmv2", "msmpeg4"],
        sounds: &["wmav2"],
        ..OLD
    },
    &Container {
        extension: "ogg",
        muxer: "ogg",
        pictures: &["theora"],
        sounds: &["vorbis", "opus", "flac"],
        ..OLD
    },
];

const MATROSKA: Container = Container {
    extension: "mkv",
    muxer: "matroska",
    pictures: &["h264", "h264", "h264", "hevc", "mpeg2video", "mpeg4", "vp9", "ffv1", "h264rgb"],
    sounds: &["aac", "aac", "ac3", "eac3", "mp3", "opus", "vorbis", "flac", "pcm_s16le", "mp2"],
    texts: &["subrip", "subrip", "ass", "webvtt"],
    has_edit_lists: false,
    ..ISO
};

/// ffmpeg's words to encode pictures as `codec`: fast, and good enough to find flashes and colours.
pub(crate) fn picture_encoder(codec: &str) -> &'static str {
    match codec {
        "h264" => "-c:v:0 libx264 -preset ultrafast",
        "h264rgb" => "-c:v:0 libx264rgb -preset ultrafast -crf 12",
        "hevc" => "-c:v:0 libx265 -preset ultrafast",
        "av1" => "-c:v:0 libsvtav1 -preset 12",
        "vp8" => "-c:v:0 libvpx -deadline realtime -cpu-used 8 -b:v:0 500k",
        "vp9" => "-c:v:0 libvpx-vp9 -deadline realtime -cpu-used 8 -b:v:0 500k",
        "theora" => "-c:v:0 libtheora -q:v:0 8",
        "prores" => "-c:v:0 prores",
        "ffv1" => "-c:v:0 ffv1",
        "mjpeg" => "-c:v:0 mjpeg -q:v:0 3 -strict unofficial",
        "mpeg2video" => "-c:v:0 mpeg2video -q:v:0 3",
        "mpeg4" => "-c:v:0 mpeg4 -q:v:0 3",
        "msmpeg4" => "-c:v:0 msmpeg4 -q:v:0 3",
        "wmv2" => "-c:v:0 wmv2 -q:v:0 3",
        "flv" => "-c:v:0 flv -q:v:0 3",
        other => panic!("no encoder for {other}"),
    }
}

/// ffmpeg's encoder for sound in `codec`, the layouts that it takes, and the sample rates.
pub(crate) fn sound_encoder(
    codec: &str,
) -> (&'static str, &'static [&'static str], &'static [u32]) {
    const TWO: &[&str] = &["mono", "stereo", "stereo"];
    const SIX: &[&str] = &["mono", "stereo", "stereo", "5.1"];
    const ALL: &[&str] =
        &["mono", "stereo", "stereo", "2.1", "3.0", "quad", "5.0", "5.1", "6.1", "7.1"];
    const ANY_RATE: &[u32] = &[48_000, 48_000, 44_100, 22_050];
    const USUAL: &[u32] = &[48_000, 48_000, 44_100];
    const TELEVISION: &[u32] = &[48_000];
    match codec {
        "aac" => ("aac", &["mono", "stereo", "stereo", "3.0", "4.0", "5.0", "5.1"], ANY_RATE),
        "mp3" => ("libmp3lame", TWO, &[44_100]),
        "mp2" => ("mp2", TWO, USUAL),
        "ac3" => ("ac3", &["mono", "stereo", "2.1", "quad(side)", "5.1(side)"], USUAL),
        "eac3" => ("eac3", &["mono", "stereo", "5.1(side)"], USUAL),
        "opus" => ("libopus", SIX, TELEVISION),
        "vorbis" => ("libvorbis", SIX, USUAL),
        "flac" => ("flac", ALL, USUAL),
        "pcm_s16le" => ("pcm_s16le", TWO, ANY_RATE),
        "pcm_bluray" => ("pcm_bluray", &["stereo", "5.1"], TELEVISION),
        "alac" => ("alac", TWO, USUAL),
        "wmav2" => ("wmav2", TWO, USUAL),
        other => panic!("no encoder for {other}"),
    }
}
