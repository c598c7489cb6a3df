//! Web servers on this machine, in the process of the tests, for as long as that lives.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rocwheel_test_servers::http::{After, Answer, Request, serve};

use crate::support::memory::MemoryStore;
use crate::support::prelude::*;

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
