//! A registry of these tests: pages in JSON as PyPI has them, with files that are broken on purpose.

use rocwheel_test_servers::http::{After, Answer, Request, serve};

use crate::{publish::packages::wheel, support::prelude::*};

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
    place: TempDir,
}

impl FakeRegistry {
    pub(crate) fn start() -> Self {
        let state = Arc::new(Mutex::new(RegistryState::default()));
        let shared = Arc::clone(&state);
        let port = serve(move |request| shared.lock().unwrap().answer(request));
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
        let name = format!("{}-{version}-{tag}.whl", project.replace('-', "_"));
        self.file(project, &name, &fs_err::read(made).unwrap(), more);
        let text =
            format!("Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{metadata}");
        self.put(&format!("{name}.metadata"), text);
    }

    /// Adds a wheel for every Python that needs nothing.
    pub(crate) fn plain(&self, project: &str, version: &str) {
        self.wheel(project, version, "py3-none-any", "", json!({}));
    }

    /// Adds a file of any bytes.
    pub(crate) fn file(&self, project: &str, name: &str, bytes: &[u8], more: Value) {
        let mut facts = json!({
            "filename": name,
            "url": format!("../../files/{name}"),
            "hashes": {"sha256": Sha256::of(bytes).to_string()},
            "size": bytes.len(),
            "upload-time": "2026-01-02T03:04:05.000006Z",
            "yanked": false,
        });
        let Value::Object(more) = more else {
            panic!("facts have names: {more}");
        };
        facts.as_object_mut().unwrap().extend(more);
        self.put(name, bytes);
        let pages = &mut self.state.lock().unwrap().pages;
        pages.entry(project.to_owned()).or_default().push(facts);
    }

    /// Replaces the bytes of a file, and nothing on its page.
    pub(crate) fn put(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state.lock().unwrap();
        state.files.insert(format!("/files/{name}"), bytes.into());
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

impl RegistryState {
    fn answer(&mut self, request: &Request) -> Answer {
        let path = request.path.as_str();
        self.requests.push(path.to_owned());
        let project = path.strip_prefix("/simple/");
        let project = project.and_then(|it| it.strip_suffix('/'));
        let page = project.and_then(|name| Some((name, self.pages.get(name)?)));
        let json = "application/vnd.pypi.simple.v1+json";
        let accepts = |kind| request.header("accept").is_some_and(|it| it.contains(kind));
        let (kind, bytes) = match (page, self.files.get(path)) {
            (Some((name, files)), _) if accepts(json) => {
                let page = json!({"name": name, "files": files, "meta": {"api-version": "1.1"}});
                (json, page.to_string().into_bytes())
            }
            (Some(_), _) => ("text/html", b"<!DOCTYPE html>".to_vec()),
            (None, Some(bytes)) => ("application/zip", bytes.clone()),
            (None, None) => return Answer::new(404, "text/plain", Vec::new()),
        };
        let etag = format!("\"{}\"", Sha256::of(&bytes));
        let mut answer = Answer::new(200, kind, bytes);
        answer.headers.push(("ETag".into(), etag));
        let mut answer = answer.part(request);
        if request.method == "GET" && self.broken.remove(path) {
            answer.cut = Some((answer.body.len() / 2, After::Closed));
        }
        answer
    }
}
