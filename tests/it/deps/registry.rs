//! A registry of these tests: pages in JSON as PyPI has them, with files that are broken on purpose.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use rocwheel::digest::Sha256;
use serde_json::{Value, json};

use crate::publish::packages::wheel;

/// What the registry has, and what it was asked for.
#[derive(Default)]
struct RegistryState {
    /// Pages by project.
    pages: BTreeMap<String, Vec<Value>>,
    /// Bytes by path.
    files: BTreeMap<String, Vec<u8>>,
    /// Files whose first answer breaks off.
    broken: BTreeSet<String>,
    requests: Vec<String>,
}

/// A registry on this machine, for as long as the process lives.
pub(crate) struct FakeRegistry {
    pub(crate) url: String,
    state: Arc<Mutex<RegistryState>>,
    place: tempfile::TempDir,
}

impl FakeRegistry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(RegistryState::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                thread::spawn(move || drop(answer(&state, &stream.unwrap())));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}/simple/"),
            state,
            place: tempfile::tempdir().unwrap(),
        }
    }

    /// Adds a wheel. `tag` is that of its name, `metadata` further lines of its METADATA, and `more`
    /// further facts on the page, which replace those that are right.
    pub(crate) fn wheel(
        &self,
        project: &str,
        version: &str,
        tag: &str,
        metadata: &str,
        more: Value,
    ) {
        let made = wheel(self.place.path(), project, version, metadata);
        let bytes = fs_err::read(made).unwrap();
        let stem = project.replace('-', "_");
        self.file(project, &format!("{stem}-{version}-{tag}.whl"), bytes, more);
        let name = format!("{stem}-{version}-{tag}.whl.metadata");
        let text =
            format!("Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{metadata}");
        self.put(&name, text.into_bytes());
    }

    /// Adds a file of any bytes.
    pub(crate) fn file(&self, project: &str, name: &str, bytes: Vec<u8>, more: Value) {
        let mut facts = json!({
            "filename": name,
            "url": format!("../../files/{name}"),
            "hashes": {"sha256": Sha256::of(&bytes).to_string()},
            "size": bytes.len(),
            "upload-time": "2026-01-02T03:04:05.000006Z",
            "yanked": false,
        });
        let Value::Object(more) = more else {
            panic!("facts have names: {more}");
        };
        facts.as_object_mut().unwrap().extend(more);
        let mut state = self.state.lock().unwrap();
        state
            .pages
            .entry(project.to_owned())
            .or_default()
            .push(facts);
        state.files.insert(format!("/files/{name}"), bytes);
    }

    /// Replaces the bytes of a file, and nothing on its page.
    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        state.files.insert(format!("/files/{name}"), bytes);
    }

    /// Has the next answer with this file break off in the middle.
    pub(crate) fn break_off(&self, name: &str) {
        let mut state = self.state.lock().unwrap();
        state.broken.insert(format!("/files/{name}"));
    }

    /// What was asked for since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

fn answer(state: &Mutex<RegistryState>, stream: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let (mut accept, mut range) = (String::new(), None);
    for line in lines {
        let line = line?.to_lowercase();
        if let Some(value) = line.strip_prefix("accept: ") {
            value.clone_into(&mut accept);
        }
        if let Some(value) = line.strip_prefix("range: bytes=") {
            range = value
                .split('-')
                .next()
                .and_then(|it| it.parse::<usize>().ok());
        }
        if line.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
    let (bytes, kind, is_broken) = {
        let mut state = state.lock().unwrap();
        state.requests.push(path.to_owned());
        let is_broken = method == "GET" && state.broken.remove(path);
        let project = path
            .strip_prefix("/simple/")
            .and_then(|it| it.strip_suffix('/'));
        let page = project.and_then(|name| Some((name, state.pages.get(name)?)));
        let json = "application/vnd.pypi.simple.v1+json";
        match page {
            Some((name, files)) if accept.contains(json) => {
                let page = json!({"name": name, "files": files, "meta": {"api-version": "1.1"}});
                (Some(page.to_string().into_bytes()), json, is_broken)
            }
            Some(_) => (Some(b"<!DOCTYPE html>".to_vec()), "text/html", is_broken),
            None => (state.files.get(path).cloned(), "application/zip", is_broken),
        }
    };
    let mut stream = stream;
    let Some(bytes) = bytes else {
        let head = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(head.as_bytes());
    };
    let start = range.unwrap_or(0).min(bytes.len());
    let status = match range {
        Some(_) => format!(
            "206 Partial Content\r\nContent-Range: bytes {start}-{}/{}",
            bytes.len() - 1,
            bytes.len()
        ),
        None => "200 OK".to_owned(),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nETag: \"{}\"\r\nConnection: close\r\n\r\n",
        bytes.len() - start,
        Sha256::of(&bytes),
    )?;
    if method == "GET" {
        let end = if is_broken {
            bytes.len() / 2
        } else {
            bytes.len()
        };
        stream.write_all(bytes.get(start..end).unwrap_or_default())?;
    }
    stream.flush()
}
