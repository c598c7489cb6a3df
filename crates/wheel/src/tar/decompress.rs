//! Decompresses [zstd](https://www.rfc-editor.org/rfc/rfc8878) and
//! [xz](https://tukaani.org/xz/xz-file-format.txt) streams that may be truncated, damaged, or in
//! another format than the name says.

use std::{
    io::{self, BufRead, BufReader, Chain, Cursor, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use xz2::{bufread::XzDecoder, stream};
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::tar::{ArchiveFormat, read_some};

/// Allows windows up to 128 MiB, the default limit of the `zstd` tool. `--ultra -22` stays within
/// it.
const ZSTD_WINDOW_LOG: u32 = 27;
/// The memory limit for xz; `xz -9` needs 65 MiB.
const XZ_MEMORY: u64 = 512 << 20;

/// A reader of the decompressed bytes of all frames (zstd) or streams (xz), up to the end of the
/// source.
pub struct Decompressor<R: Read> {
    decoder: Decoder<R>,
    /// Whether the source failed, to tell its I/O errors from errors of the decoder.
    source_failed: Arc<AtomicBool>,
    /// Whether a byte was read.
    begun: bool,
    ended: bool,
    /// Whether every frame or stream so far has a checksum.
    all_have_checksums: bool,
}

enum Decoder<R: Read> {
    /// Decodes one frame after the other. The zstd crate can decode all frames as one stream, but
    /// then does not tell which frames had a checksum.
    Zstd {
        /// The open frame; `None` before the first frame and after the last.
        frame: Option<ZstdDecoder<'static, FrameSource<R>>>,
        /// The source between two frames; `None` while a frame is open.
        rest: Option<BufReader<SourceErrors<R>>>,
    },
    Xz(XzDecoder<BufReader<SourceErrors<R>>>),
}

/// The first bytes of a frame, which were already read to inspect them, chained with the rest.
type FrameSource<R> = Chain<Cursor<Vec<u8>>, BufReader<SourceErrors<R>>>;

/// Remembers whether the source failed.
struct SourceErrors<R> {
    inner: R,
    failed: Arc<AtomicBool>,
}

/// Length of a zstd frame's magic number and frame header descriptor.
const FRAME_HEAD: u64 = 5;

impl<R: Read> Decompressor<R> {
    /// Reads `source` from its current position. Fails if the decoder cannot be made.
    pub fn new(format: ArchiveFormat, source: R) -> io::Result<Self> {
        let source_failed = Arc::default();
        let source = SourceErrors { inner: source, failed: Arc::clone(&source_failed) };
        let decoder = match format {
            ArchiveFormat::TarZst => Decoder::Zstd {
                frame: None,
                rest: Some(BufReader::with_capacity(
                    ZstdDecoder::<&[u8]>::recommended_output_size(),
                    source,
                )),
            },
            ArchiveFormat::TarXz => {
                let flags = stream::CONCATENATED | stream::TELL_NO_CHECK;
                let stream = stream::Stream::new_stream_decoder(XZ_MEMORY, flags)?;
                Decoder::Xz(XzDecoder::new_stream(BufReader::new(source), stream))
            }
        };
        Ok(Self { decoder, source_failed, begun: false, ended: false, all_have_checksums: true })
    }

    /// Whether all data so far was protected by checksums. They are optional in both formats:
    /// `xz --check=none` writes none, and neither do most zstd libraries by default. Each zstd
    /// frame and each xz stream has its own setting.
    pub fn has_checksum(&self) -> bool {
        self.begun && self.all_have_checksums
    }

    /// Turns an error of the decoder into an error that says what is wrong with the data, and leaves I/O
    /// errors of the source unchanged. The kind of an error does not tell the two apart: both may be the
    /// end of the file.
    fn explain(&self, error: io::Error) -> io::Error {
        if self.source_failed.load(Relaxed) {
            return error;
        }
        let message = match &self.decoder {
            Decoder::Zstd { .. } => explain_zstd(&error, self.begun),
            Decoder::Xz(_) => explain_xz(&error),
        };
        io::Error::new(io::ErrorKind::InvalidData, message)
    }

    fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &mut self.decoder {
                Decoder::Xz(decoder) => {
                    return read_xz(decoder, &mut self.all_have_checksums, buf);
                }
                Decoder::Zstd { frame, .. } => frame.as_mut().map_or(Ok(0), |it| it.read(buf))?,
            };
            // 0 bytes are the end of a frame. A frame may be empty, so the next frame is tried until one
            // has bytes.
            if read > 0 || !self.open_next_frame()? {
                return Ok(read);
            }
        }
    }

    /// Opens the next zstd frame; false at the end. An empty source is an error (truncated), not an
    /// empty archive.
    ///
    /// The decoder of a frame owns the source, and gives it back with the bytes behind the frame when the
    /// frame is finished. The head of the next frame is read from there, to see whether the frame has a
    /// checksum, and is put in front of the source again for its decoder. If the head cannot be read, the
    /// source stays here, and the caller gets the error.
    fn open_next_frame(&mut self) -> io::Result<bool> {
        let Decoder::Zstd { frame, rest } = &mut self.decoder else {
            return Ok(false);
        };
        let is_first = frame.is_none();
        if let Some(frame) = frame.take() {
            *rest = Some(frame.finish().into_inner().1);
        }
        let Some(mut source) = rest.take() else {
            return Ok(false);
        };
        let mut head = Vec::new();
        let head_len = source.by_ref().take(FRAME_HEAD).read_to_end(&mut head);
        if head_len.is_err() || (head.is_empty() && !is_first) {
            *rest = Some(source);
            return head_len.map(|_| false);
        }
        // RFC 8878, section 3.1.1: the frame header descriptor follows the magic number, and its
        // bit 2 is the content checksum flag. Skippable frames have other magic numbers, and no
        // content that needs a checksum.
        let is_skippable = matches!(head.as_slice(), [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
        let has_checksum = head.get(4).is_some_and(|descriptor| descriptor & 4 != 0);
        self.all_have_checksums &= is_skippable || has_checksum;
        let frame_source = Cursor::new(head).chain(source);
        let mut next_frame = ZstdDecoder::with_buffer(frame_source)?.single_frame();
        next_frame.window_log_max(ZSTD_WINDOW_LOG)?;
        *frame = Some(next_frame);
        Ok(true)
    }
}

impl<R: Read> Read for Decompressor<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.ended || buf.is_empty() {
            return Ok(0);
        }
        let read = self.read_some(buf).map_err(|error| self.explain(error))?;
        self.begun |= read > 0;
        self.ended = read == 0;
        Ok(read)
    }
}

fn read_xz<R: BufRead>(
    decoder: &mut XzDecoder<R>,
    all_have_checksums: &mut bool,
    buf: &mut [u8],
) -> io::Result<usize> {
    loop {
        let before = decoder.total_out();
        let result = decoder.read(buf);
        let cause = result
            .as_ref()
            .err()
            .and_then(io::Error::get_ref)
            .and_then(|cause| cause.downcast_ref());
        if !matches!(cause, Some(stream::Error::NoCheck)) {
            return result;
        }
        // liblzma reports a stream without a checksum once, after its header, and can go on. The
        // end of the stream before may already be in the buffer.
        *all_have_checksums = false;
        let read = decoder.total_out().saturating_sub(before);
        if read > 0 {
            return Ok(usize::try_from(read).unwrap_or(buf.len()));
        }
    }
}

impl<R: Read> Read for SourceErrors<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // The decoders do not read again after an interruption.
        let result = read_some(&mut self.inner, buf);
        self.failed.fetch_or(result.is_err(), Relaxed);
        result
    }
}

/// The zstd crate reports errors only as text. Tests fail if an update changes these texts.
fn explain_zstd(error: &io::Error, begun: bool) -> String {
    match error.to_string().as_str() {
        _ if error.kind() == io::ErrorKind::UnexpectedEof => "the zstd data is cut off".to_owned(),
        "Unknown frame descriptor" if begun => {
            "something follows the end of the zstd data".to_owned()
        }
        "Unknown frame descriptor" => "this is not zstd data".to_owned(),
        "Frame requires too much memory for decoding" => {
            let most = 1 << (ZSTD_WINDOW_LOG - 20);
            format!("the zstd data needs more memory than {most} MiB to read")
        }
        reason => format!("the zstd data is damaged: {reason}"),
    }
}

fn explain_xz(error: &io::Error) -> String {
    match error.get_ref().and_then(|cause| cause.downcast_ref()) {
        _ if error.kind() == io::ErrorKind::UnexpectedEof => "the xz data is cut off".to_owned(),
        Some(stream::Error::Format) => "this is not xz data".to_owned(),
        Some(stream::Error::MemLimit) => {
            let most = XZ_MEMORY >> 20;
            format!("the xz data needs more memory than {most} MiB to read")
        }
        _ => format!("the xz data is damaged: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use rocwheel_test_files::tars::compress;

    const TEXT: &[u8] = b"the tar inside, long enough to be worth it, it, it, it, it, it, it, it";

    fn compressed(format: ArchiveFormat) -> Vec<u8> {
        let mut out = Vec::new();
        compress(format.extension(), TEXT, &mut out).unwrap();
        out
    }

    fn read(format: ArchiveFormat, source: impl Read) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        Decompressor::new(format, source)
            .and_then(|mut decompressor| decompressor.read_to_end(&mut out))
            .map(|_| out)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn several_frames_or_streams_are_one_text() {
        for format in ArchiveFormat::ALL {
            let twice = [compressed(format), compressed(format)].concat();
            assert_eq!(read(format, twice.as_slice()).unwrap(), TEXT.repeat(2));
        }
    }

    #[test]
    fn each_frame_has_a_checksum_or_none_has() {
        let plain = zstd::encode_all(TEXT, 3).unwrap();
        let sound = compressed(ArchiveFormat::TarZst);
        let skipped = b"\x5a\x2a\x4d\x18\x03\0\0\0abc".to_vec();
        let has_checksum = |frames: &[&Vec<u8>]| {
            let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.iter().copied()).collect();
            let mut decompressor =
                Decompressor::new(ArchiveFormat::TarZst, bytes.as_slice()).unwrap();
            let len = io::copy(&mut decompressor, &mut io::sink()).unwrap();
            (len / TEXT.len() as u64, decompressor.has_checksum())
        };
        assert_eq!(has_checksum(&[&sound, &sound]), (2, true));
        assert_eq!(has_checksum(&[&skipped, &sound, &skipped]), (1, true));
        assert_eq!(has_checksum(&[&sound, &plain]), (2, false));
        assert_eq!(has_checksum(&[&plain, &sound]), (2, false));
    }

    #[test]
    fn each_xz_stream_has_a_checksum_or_none_has() {
        let with = |check| {
            let encoder = stream::Stream::new_easy_encoder(1, check).unwrap();
            let mut encoder = xz2::bufread::XzEncoder::new_stream(TEXT, encoder);
            let mut bytes = Vec::new();
            encoder.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let (plain, sound) = (with(stream::Check::None), with(stream::Check::Crc64));
        for (streams, all) in [
            (vec![&sound, &sound], true),
            (vec![&plain], false),
            (vec![&plain, &sound], false),
            (vec![&sound, &plain], false),
            (vec![&sound, &plain, &plain, &sound], false),
        ] {
            let bytes: Vec<u8> = streams.iter().copied().flatten().copied().collect();
            for at_once in [1, 7, 64, 4096] {
                let mut decompressor =
                    Decompressor::new(ArchiveFormat::TarXz, bytes.as_slice()).unwrap();
                let (mut text, mut buf) = (Vec::new(), vec![0; at_once]);
                loop {
                    match decompressor.read(&mut buf).unwrap() {
                        0 => break,
                        read => text.extend_from_slice(&buf[..read]),
                    }
                }
                assert_eq!(text, TEXT.repeat(streams.len()));
                assert_eq!(decompressor.has_checksum(), all, "{streams:?}");
            }
        }
    }

    #[test]
    fn a_reader_at_its_end_stays_there() {
        for format in ArchiveFormat::ALL {
            let bytes = compressed(format);
            let mut decompressor = Decompressor::new(format, bytes.as_slice()).unwrap();
            io::copy(&mut decompressor, &mut io::sink()).unwrap();
            assert_eq!(decompressor.read(&mut [0; 9]).unwrap(), 0);
        }
    }

    #[test]
    fn data_cut_off_anywhere_is_an_error() {
        for format in ArchiveFormat::ALL {
            let bytes = compressed(format);
            for len in 0..bytes.len() {
                let error = read(format, &bytes[..len]).unwrap_err();
                assert!(error.ends_with("is cut off"), "{format:?} {len}: {error}");
            }
        }
        insta::assert_snapshot!(read(ArchiveFormat::TarZst, io::empty()).unwrap_err(), @"the zstd data is cut off");
        insta::assert_snapshot!(read(ArchiveFormat::TarXz, io::empty()).unwrap_err(), @"the xz data is cut off");
    }

    #[test]
    fn data_that_is_something_else_is_refused() {
        let page = b"<html><body>404 Not Found</body></html>".as_slice();
        insta::assert_snapshot!(read(ArchiveFormat::TarZst, page).unwrap_err(), @"this is not zstd data");
        insta::assert_snapshot!(read(ArchiveFormat::TarXz, page).unwrap_err(), @"this is not xz data");
        let xz = compressed(ArchiveFormat::TarXz);
        insta::assert_snapshot!(read(ArchiveFormat::TarZst, xz.as_slice()).unwrap_err(), @"this is not zstd data");
    }

    #[test]
    fn garbage_after_the_end_is_refused() {
        let with_tail = |format| [compressed(format), b"and then some".to_vec()].concat();
        let error = |format| read(format, with_tail(format).as_slice()).unwrap_err();
        insta::assert_snapshot!(error(ArchiveFormat::TarZst), @"something follows the end of the zstd data");
        insta::assert_snapshot!(error(ArchiveFormat::TarXz), @"the xz data is damaged: lzma data error");
    }

    #[test]
    fn a_flipped_bit_is_found_by_the_checksum() {
        for format in ArchiveFormat::ALL {
            let mut bytes = compressed(format);
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            read(format, bytes.as_slice()).unwrap_err();
        }
        let mut zst = compressed(ArchiveFormat::TarZst);
        let last = zst.len() - 1;
        zst[last] ^= 1;
        insta::assert_snapshot!(read(ArchiveFormat::TarZst, zst.as_slice()).unwrap_err(), @"the zstd data is damaged: Restored data doesn't match checksum");
        let mut xz = compressed(ArchiveFormat::TarXz);
        xz[40] ^= 1;
        insta::assert_snapshot!(read(ArchiveFormat::TarXz, xz.as_slice()).unwrap_err(), @"the xz data is damaged: lzma data error");
    }

    #[test]
    fn a_window_of_128_mib_is_read_and_a_larger_one_refused() {
        let with_window = |log| {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(log).unwrap();
            encoder.write_all(TEXT).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(read(ArchiveFormat::TarZst, with_window(27).as_slice()).unwrap(), TEXT);
        insta::assert_snapshot!(read(ArchiveFormat::TarZst, with_window(28).as_slice()).unwrap_err(), @"the zstd data needs more memory than 128 MiB to read");
    }

    #[test]
    fn an_xz_dictionary_beyond_the_limit_is_refused() {
        let mut bytes = compressed(ArchiveFormat::TarXz);
        // The block header, 12 bytes in: its length, flags, LZMA2, one property; then its checksum.
        assert_eq!(bytes[12..16], [2, 0, 0x21, 1]);
        bytes[16] = 40;
        let checksum = crc32fast::hash(&bytes[12..20]);
        bytes[20..24].copy_from_slice(&checksum.to_le_bytes());
        insta::assert_snapshot!(read(ArchiveFormat::TarXz, bytes.as_slice()).unwrap_err(), @"the xz data needs more memory than 512 MiB to read");
    }

    #[test]
    fn an_interrupted_read_is_repeated() {
        struct Interrupted<'a>(&'a [u8], bool);
        impl Read for Interrupted<'_> {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.1 = !self.1;
                if self.1 {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let most = buf.len().min(7);
                self.0.read(&mut buf[..most])
            }
        }
        for format in ArchiveFormat::ALL {
            let bytes = compressed(format);
            assert_eq!(read(format, Interrupted(&bytes, false)).unwrap(), TEXT);
        }
    }

    #[test]
    fn an_error_of_the_source_is_passed_on() {
        struct Broken<'a>(&'a [u8]);
        impl Read for Broken<'_> {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                match self.0.read(buf) {
                    Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed")),
                    other => other,
                }
            }
        }
        for format in ArchiveFormat::ALL {
            let bytes = compressed(format);
            let error = read(format, Broken(&bytes[..bytes.len() - 3])).unwrap_err();
            assert_eq!(error, "connection closed");
        }
    }
}
