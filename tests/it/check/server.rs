//! A web server for a directory: with ranges, without, or one that breaks off.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// How the server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Ranges,
    /// As `python -m http.server`: the whole file, also if a part was asked for.
    NoRanges,
    /// Some answers end in their middle.
    Breaks,
    /// Some answers are errors that pass.
    Busy,
}

/// The file in a directory with what the key that ends in `/` has, if that is not its page.
pub(super) const UNDER_SLASH: &str = "under-slash";

pub(crate) struct Server {
    pub(crate) url: String,
    bytes: Arc<AtomicUsize>,
}

struct Desk {
    root: PathBuf,
    manner: Manner,
    answers: AtomicUsize,
    bytes: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start(root: &Path, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bytes = Arc::new(AtomicUsize::new(0));
        let desk = Arc::new(Desk {
            root: root.to_owned(),
            manner,
            answers: AtomicUsize::new(0),
            bytes: Arc::clone(&bytes),
        });
        thread::spawn(move || {
            for stream in listener.incoming() {
                let desk = Arc::clone(&desk);
                // A client that goes away is its own affair.
                thread::spawn(move || drop(desk.answer(&stream.unwrap())));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}/"),
            bytes,
        }
    }

    /// How many bytes of files were sent.
    pub(crate) fn sent(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Desk {
    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
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
        let mut stream = stream;
        let count = self.answers.fetch_add(1, Ordering::Relaxed);
        if self.manner == Manner::Busy && count % 12 == 1 {
            return write!(
                stream,
                "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        let mut file = self
            .root
            .join(path.trim_start_matches('/').replace("%2B", "+"));
        let mut found = fs_err::read(&file);
        let key = file.join(UNDER_SLASH);
        if path.ends_with('/') && key.exists() {
            found = fs_err::read(&key);
        } else if file.is_dir() {
            file.push("index.html");
            // Where there is no page, a list of the files.
            found = fs_err::read(&file).or_else(|_| Ok(b"<h1>Directory</h1>".to_vec()));
        }
        let Ok(bytes) = found else {
            return write!(
                stream,
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        };
        let range = range.filter(|_| self.manner != Manner::NoRanges);
        let (status, part, extra) = match range.as_deref().and_then(|it| it.split_once('-')) {
            None => ("200 OK", bytes.as_slice(), String::new()),
            Some((start, end)) => {
                let start: usize = start.parse().unwrap();
                let end = end.parse().map_or(bytes.len(), |end: usize| end + 1);
                let end = end.min(bytes.len());
                let of = format!(
                    "Content-Range: bytes {start}-{}/{}\r\n",
                    end - 1,
                    bytes.len()
                );
                ("206 Partial Content", &bytes[start..end], of)
            }
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"{}\"\r\n{extra}Connection: close\r\n\r\n",
            part.len(),
            bytes.len()
        )?;
        if method != "GET" {
            return Ok(());
        }
        let breaks = self.manner == Manner::Breaks && count % 12 == 5;
        let sent = if breaks {
            &part[..part.len() / 2]
        } else {
            part
        };
        self.bytes.fetch_add(sent.len(), Ordering::Relaxed);
        stream.write_all(sent)
    }
}
