//! Web servers on this machine, in the process of the tests, for as long as that lives.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use crate::publish::memory::MemoryStore;

/// What is served.
pub(crate) enum Site {
    /// As S3's REST endpoint: what has no such key is not there. A `+` is a space.
    Keys(MemoryStore),
    /// As `python -m http.server`: a directory is its `index.html`, types go by names, and whoever asks for a
    /// part gets the whole file.
    Directory(PathBuf),
    /// A directory with another manner.
    Mannered(PathBuf, Manner),
}

/// How a directory is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Ranges,
    NoRanges,
    /// Some answers end in their middle.
    Breaks,
    /// Some answers are errors that pass.
    Busy,
}

/// The file in a directory with what the key that ends in `/` has, if that is not its page.
pub(crate) const UNDER_SLASH: &str = "under-slash";

pub(crate) struct Server {
    pub(crate) url: String,
    log: Arc<Log>,
}

/// What was asked for, and how much was sent.
#[derive(Default)]
struct Log {
    paths: Mutex<Vec<String>>,
    bytes: AtomicUsize,
}

/// What goes over the wire.
struct Answer {
    status: &'static str,
    headers: String,
    body: Vec<u8>,
    /// So many bytes of the body, and then the connection ends.
    sent: usize,
}

impl Server {
    pub(crate) fn start(site: Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(Log::default());
        let (site, shared) = (Arc::new(site), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (site, log) = (Arc::clone(&site), Arc::clone(&shared));
                // A client that goes away is its own affair.
                thread::spawn(move || drop(site.serve(&log, &stream.unwrap())));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}/"),
            log,
        }
    }

    pub(crate) fn of_directory(root: &Path, manner: Manner) -> Self {
        Self::start(Site::Mannered(root.to_owned(), manner))
    }

    /// The paths that were asked for, as they were asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.log.paths.lock().unwrap().clone()
    }

    /// How many bytes of files were sent.
    pub(crate) fn sent(&self) -> usize {
        self.log.bytes.load(Relaxed)
    }
}

impl Site {
    fn serve(&self, log: &Log, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
        let mut range = None;
        for line in lines {
            let line = line?.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("range: bytes=") {
                range = Some(value.to_owned());
            }
            if line.is_empty() {
                break;
            }
        }
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
        let count = {
            let mut paths = log.paths.lock().unwrap();
            paths.push(path.to_owned());
            paths.len()
        };
        let answer = self.answer(path, range.as_deref(), count);
        write!(
            stream,
            "HTTP/1.1 {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n",
            answer.status,
            answer.body.len(),
            answer.headers,
        )?;
        if method == "GET" {
            log.bytes.fetch_add(answer.sent, Relaxed);
            stream.write_all(&answer.body[..answer.sent])?;
        }
        stream.flush()
    }

    fn answer(&self, path: &str, range: Option<&str>, count: usize) -> Answer {
        let empty = |status| Answer {
            status,
            headers: String::new(),
            body: Vec::new(),
            sent: 0,
        };
        let manner = match self {
            Self::Mannered(_, manner) => *manner,
            _ => Manner::NoRanges,
        };
        if manner == Manner::Busy && count % 12 == 2 {
            return empty("503 Busy");
        }
        let Some((kind, body)) = self.find(path) else {
            return empty("404 Not Found");
        };
        let size = body.len();
        let mut answer = Answer {
            status: "200 OK",
            headers: format!("Content-Type: {kind}\r\nETag: \"{size}\"\r\n"),
            sent: size,
            body,
        };
        if let Some(range) = range.filter(|_| manner != Manner::NoRanges) {
            let Range { start, end } = part(range, size);
            answer.status = "206 Partial Content";
            let of = format!("Content-Range: bytes {start}-{}/{size}\r\n", end - 1);
            answer.headers.push_str(&of);
            answer.body = answer.body[start..end].to_vec();
            answer.sent = end - start;
        }
        if manner == Manner::Breaks && count % 12 == 6 {
            answer.sent /= 2;
        }
        answer
    }

    fn find(&self, path: &str) -> Option<(String, Vec<u8>)> {
        let path = path.trim_start_matches('/').split('?').next()?;
        let (root, is_mannered) = match self {
            Self::Keys(store) => {
                let kept = store.find(&decode(&path.replace('+', " ")))?;
                return Some((kept.content_type, kept.bytes));
            }
            Self::Directory(root) => (root, false),
            Self::Mannered(root, _) => (root, true),
        };
        let mut file = root.join(decode(path));
        let key = file.join(UNDER_SLASH);
        if path.ends_with('/') && key.exists() {
            file = key;
        } else if file.is_dir() {
            file.push("index.html");
            if is_mannered && !file.exists() {
                // A list of the files.
                return Some(("text/html".to_owned(), b"<h1>Directory</h1>".to_vec()));
            }
        }
        let kind = match file.extension().and_then(|it| it.to_str()) {
            Some("html") => "text/html",
            Some("json") => "application/json",
            _ => "application/octet-stream",
        };
        Some((kind.to_owned(), fs_err::read(file).ok()?))
    }
}

/// The part of a file of that size that `5-9` or `5-` asks for.
fn part(range: &str, size: usize) -> Range<usize> {
    let (start, last) = range.split_once('-').unwrap();
    let end = last.parse().map_or(size, |last: usize| last + 1);
    start.parse().unwrap()..end.min(size)
}

fn decode(path: &str) -> String {
    percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .unwrap()
        .into_owned()
}
