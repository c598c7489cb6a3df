//! An index as AMD's: HTML without digests, whatever is accepted; files behind a redirect; an sdist `rocm`.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use super::{assert_installed, sandbox};
use crate::support::prelude::*;
use crate::support::web::{Answer, Request, serve};

/// The index on a server, and how often a large wheel was sent whole: there are two.
pub(super) struct BareIndex {
    pub(super) url: String,
    sent: Arc<AtomicUsize>,
    /// The files by their names.
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl BareIndex {
    pub(super) fn start() -> Self {
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
    pub(super) fn take_sent(&self) -> usize {
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
        return match (project, links.is_empty()) {
            ("" | "index.html", _) | (_, true) => missing(),
            _ => Answer::new(200, "text/html", format!("<!DOCTYPE html>\n{links}").into_bytes()),
        };
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

#[test]
#[ignore = "slow"]
fn each_wheel_of_an_index_without_digests_is_read_once_and_pinned() {
    for installer in ["uv", "pip"] {
        let index = BareIndex::start();
        let t = sandbox();
        let t = t.shows(index.url.clone(), "INDEX/");
        let cache = t.path("cache");
        let t = t.with("XDG_CACHE_HOME", cache.clone()).with("UV_CACHE_DIR", cache.join("uv"));
        let line = format!("install {} --target gfx942 --installer {installer}", index.url);
        let dry = t.run(&format!("{line} --dry-run")).done();
        assert_lacks!(dry.stderr, "first use");
        assert_eq!(index.take_sent(), 0);

        let first = t.run(&line).done();
        assert_has!(first.stderr, "does not say the SHA-256 of 5 files", "trust on first use");
        assert_installed(&t.path(".venv"), &["gfx942"]);
        assert_eq!(index.take_sent(), 2, "{installer}: {}", first.stderr);
        let entries = fs_err::read_dir(t.path("")).unwrap().count();
        assert_eq!(entries, 2, "what was kept for the install is gone");

        let pins = t.run(&format!("{line} --emit requirements")).done();
        assert_lacks!(pins.stderr, "first use");
        assert_eq!(pins.stdout.matches("--hash=sha256:").count(), 5);
        let lock = t.run(&format!("{line} --emit pylock")).done();
        assert_eq!(lock.stdout.matches("sha256 = ").count(), 5);
        assert_eq!(index.take_sent(), 0, "the digests are remembered");
        t.run(&format!("{line} --venv second")).ok();
        assert_installed(&t.path("second"), &["gfx942"]);
    }
}

#[test]
fn a_file_that_is_another_one_now_is_said() {
    let index = BareIndex::start();
    let t = sandbox();
    let t = t.shows(index.url.clone(), "INDEX/");
    let cache = t.path("cache");
    let t = t.with("XDG_CACHE_HOME", cache);
    let line = format!("install {} --target none --extras none --emit pylock", index.url);
    let first = t.run(&line).done();
    assert_eq!(index.take_sent(), 1);
    assert_eq!(t.run(&line).done().stdout, first.stdout);
    assert_eq!(index.take_sent(), 0);
    let name = "rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl";
    // In the middle of a library, so that the metadata can still be read.
    let mut files = index.files.lock().unwrap();
    let bytes = files.get_mut(name).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    drop(files);
    let second = t.run(&line).done();
    assert_has!(
        second.stderr,
        "rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl` is another file"
    );
    assert_ne!(second.stdout, first.stdout);
}
