//! Web servers of two kinds: one that knows exact keys only, and one that serves a directory.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::memory::MemoryStore;

/// What is served.
pub(crate) enum Site {
    /// As S3's REST endpoint: what has no such key is not there. A `+` is a space.
    Keys(MemoryStore),
    /// As `python -m http.server`: a directory is its `index.html`, types go by names.
    Directory(PathBuf),
    /// The same, but so many requests for wheels of a project get no answer.
    Flaky {
        root: PathBuf,
        project: &'static str,
        left: AtomicUsize,
    },
}

/// A server on this machine, for as long as the process lives.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(site: Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!(
            "http://127.0.0.1:{}/",
            listener.local_addr().unwrap().port()
        );
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (site, log) = (Arc::new(site), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (site, log) = (Arc::clone(&site), Arc::clone(&log));
                // A client that goes away is its own affair.
                thread::spawn(move || drop(answer(&site, &log, &stream.unwrap())));
            }
        });
        Self { url, requests }
    }

    /// The paths that were asked for, as they were asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(site: &Site, log: &Mutex<Vec<String>>, stream: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
    log.lock().unwrap().push(path.to_owned());
    if site.is_silent(path) {
        return Ok(());
    }
    let (status, kind, bytes) = match site.find(path) {
        Some((kind, bytes)) => ("200 OK", kind, bytes),
        None => (
            "404 Not Found",
            "text/plain".to_owned(),
            b"no such key".to_vec(),
        ),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )?;
    if method == "GET" {
        stream.write_all(&bytes)?;
    }
    stream.flush()
}

impl Site {
    /// Whether the connection is closed without an answer.
    fn is_silent(&self, path: &str) -> bool {
        let Self::Flaky { project, left, .. } = self else {
            return false;
        };
        let fewer = |left: usize| left.checked_sub(1);
        path.ends_with(".whl")
            && path.contains(project)
            && left.fetch_update(Relaxed, Relaxed, fewer).is_ok()
    }

    fn find(&self, path: &str) -> Option<(String, Vec<u8>)> {
        let path = path.trim_start_matches('/').split('?').next()?;
        match self {
            Self::Keys(store) => {
                let kept = store.find(&decode(&path.replace('+', " ")))?;
                Some((kept.content_type, kept.bytes))
            }
            Self::Directory(root) | Self::Flaky { root, .. } => {
                let mut path = root.join(decode(path));
                if path.is_dir() {
                    path.push("index.html");
                }
                let kind = match path.extension()?.to_str()? {
                    "html" => "text/html",
                    "json" => "application/json",
                    _ => "application/octet-stream",
                };
                Some((kind.to_owned(), fs_err::read(path).ok()?))
            }
        }
    }
}

fn decode(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            let digits = std::str::from_utf8(&digits).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}
