//! Web servers on this machine, in the process of the tests, for as long as that lives.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use crate::publish::memory::MemoryStore;
use crate::support::prelude::*;

/// A request without a body.
pub(crate) struct Request {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    /// By their names in lower case.
    headers: BTreeMap<String, String>,
}

/// What goes over the wire.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// So many bytes of the body, and then no more.
    pub(crate) cut: Option<(usize, After)>,
}

/// What becomes of a connection after a part of an answer.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum After {
    Closed,
    /// Nothing comes, and nothing ends.
    Silent,
}

/// Answers requests on a port of this machine. Returns the port.
pub(crate) fn serve(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                while let Some(request) = Request::read(&mut reader) {
                    if answer(&request).write(&stream, &request).is_none() {
                        break;
                    }
                }
            });
        }
    });
    port
}

impl Request {
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut lines = reader.lines().map_while(Result::ok);
        let first = lines.next()?;
        let mut words = first.split(' ').map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        });
        Some(Self { method, path, headers: headers.collect() })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Answer {
    pub(crate) fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".into(), content_type.into())],
            body,
            cut: None,
        }
    }

    /// The part of it that a request asks for: `bytes=5-9` or `bytes=5-`.
    pub(crate) fn part(mut self, request: &Request) -> Self {
        let Some(range) = request.header("range").filter(|_| self.status == 200) else {
            return self;
        };
        let range = range.strip_prefix("bytes=").unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let (first, size) = (first.parse::<usize>().unwrap(), self.body.len());
        let end = last.parse().map_or(size, |last: usize| last + 1).min(size);
        let (status, body, of) = if first < size {
            let body = self.body[first..end].to_vec();
            (206, body, format!("bytes {first}-{}/{size}", end - 1))
        } else {
            (416, Vec::new(), format!("bytes */{size}"))
        };
        self.headers.push(("Content-Range".into(), of));
        Self { status, body, ..self }
    }

    /// How many bytes of the body are sent.
    fn sent(&self) -> usize {
        self.cut.map_or(self.body.len(), |(sent, _)| sent)
    }

    /// Nothing, where the connection is to end.
    fn write(&self, mut stream: &TcpStream, request: &Request) -> Option<()> {
        let (status, length) = (self.status, self.body.len());
        let mut head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\n");
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
        if request.method != "HEAD" {
            stream.write_all(&self.body[..self.sent()]).ok()?;
        }
        if let Some((_, After::Silent)) = self.cut {
            // Until the client has had enough.
            let _ = stream.read(&mut [0]);
        }
        self.cut.is_none().then_some(())
    }
}

/// What is served.
pub(crate) enum Site {
    /// As S3's REST endpoint: what has no such key is not there. A `+` is a space.
    Keys(MemoryStore),
    /// As `python -m http.server`: a directory is its `index.html`, types go by names, and a request for a part
    /// gets the whole file.
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

impl Server {
    pub(crate) fn start(site: Site) -> Self {
        let log = Arc::new(Log::default());
        let shared = Arc::clone(&log);
        let port = serve(move |request| {
            let count = {
                let mut paths = shared.paths.lock().unwrap();
                paths.push(request.path.clone());
                paths.len()
            };
            let answer = site.answer(request, count);
            if request.method == "GET" {
                shared.bytes.fetch_add(answer.sent(), Relaxed);
            }
            answer
        });
        Self { url: format!("http://127.0.0.1:{port}/"), log }
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
    fn answer(&self, request: &Request, count: usize) -> Answer {
        let manner = match self {
            Self::Mannered(_, manner) => *manner,
            _ => Manner::NoRanges,
        };
        if manner == Manner::Busy && count % 12 == 2 {
            return Answer::new(503, "text/plain", Vec::new());
        }
        let Some((kind, body)) = self.find(&request.path) else {
            return Answer::new(404, "text/plain", Vec::new());
        };
        let etag = format!("\"{}\"", body.len());
        let mut answer = Answer::new(200, &kind, body);
        answer.headers.push(("ETag".into(), etag));
        if manner != Manner::NoRanges {
            answer = answer.part(request);
        }
        if manner == Manner::Breaks && count % 12 == 6 {
            answer.cut = Some((answer.body.len() / 2, After::Closed));
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
            _ if path.ends_with('/') => "text/html",
            Some("json") => "application/json",
            _ => "application/octet-stream",
        };
        Some((kind.to_owned(), fs_err::read(file).ok()?))
    }
}

fn decode(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8().unwrap().into_owned()
}
