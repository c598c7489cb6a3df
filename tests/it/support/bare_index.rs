//! An index as AMD's: HTML without digests, also if JSON is accepted; files behind a redirect; an sdist `rocm`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::support::prelude::*;
use rocwheel_test_servers::http::{Answer, Request, serve};

/// The index on a server, and how often a large wheel was sent whole: there are two.
pub(crate) struct BareIndex {
    pub(crate) url: String,
    sent: Arc<AtomicUsize>,
    /// The files by their names.
    pub(crate) files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl BareIndex {
    pub(crate) fn start() -> Self {
        let names = tree(&sample().dist()).into_iter().filter(|name| !name.contains('/'));
        let read = |name: String| {
            let bytes = fs_err::read(sample().dist().join(&name)).unwrap();
            (name, bytes)
        };
        let files: BTreeMap<String, Vec<u8>> = names
            .filter(|name| name.ends_with(".whl") || name.ends_with(".gz"))
            .map(read)
            .collect();
        let files = Arc::new(Mutex::new(files));
        let sent = Arc::new(AtomicUsize::new(0));
        let (served, counted) = (Arc::clone(&files), Arc::clone(&sent));
        let port = serve(move |request| answer(request, &served.lock().unwrap(), &counted));
        Self { url: format!("http://127.0.0.1:{port}/rocm/whl-next/"), sent, files }
    }

    /// How often a large wheel was sent whole since the last call.
    pub(crate) fn take_sent(&self) -> usize {
        self.sent.swap(0, SeqCst)
    }
}

fn answer(request: &Request, files: &BTreeMap<String, Vec<u8>>, sent: &AtomicUsize) -> Answer {
    let path = request.path.split('?').next().unwrap();
    let missing = || Answer::new(404, "text/plain", b"no".to_vec());
    if let Some(project) = path.strip_prefix("/rocm/whl-next/") {
        let project = project.trim_end_matches('/');
        let project_of = |name: &str| name.split('-').next().unwrap().replace('_', "-");
        if let Some(bytes_of) = project.strip_prefix("files/") {
            let mut redirect = Answer::new(302, "text/plain", Vec::new());
            redirect.headers.push(("Location".into(), format!("/v5/{bytes_of}")));
            return redirect;
        }
        let names = files.keys().filter(|name| project_of(name) == project);
        let links = names.map(|name| format!("<a href=\"../files/{name}\">{name}</a><br/>\n"));
        let links = links.collect::<Vec<_>>().concat();
        if project.is_empty() {
            let projects: BTreeSet<String> = files.keys().map(|it| project_of(it)).collect();
            let links = projects.iter().map(|name| format!("<a href=\"{name}/\">{name}</a>\n"));
            return Answer::new(200, "text/html", links.collect::<String>().into_bytes());
        }
        if links.is_empty() {
            return missing();
        }
        return Answer::new(200, "text/html", format!("<!DOCTYPE html>\n{links}").into_bytes());
    }
    let Some(bytes) = path.strip_prefix("/v5/").and_then(|name| files.get(name)) else {
        return missing();
    };
    let mut whole = Answer::new(200, "application/octet-stream", bytes.clone());
    let etag = format!("\"{}-{}\"", bytes.len(), bytes[bytes.len() / 2]);
    whole.headers.push(("ETag".into(), etag));
    let part = whole.part(request);
    // The metadata of a small wheel is read together with the rest of it.
    let is_large = bytes.len() > 400_000;
    if request.method == "GET" && is_large && part.body.len() == bytes.len() {
        sent.fetch_add(1, SeqCst);
    }
    part
}
