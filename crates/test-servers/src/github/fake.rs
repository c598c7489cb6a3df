//! A GitHub of our own on this machine: answers by path, with the faults that are asked for, and
//! otherwise as GitHub's description of its API has it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

use super::judge;
use crate::http::{After, Answer, Request, serve};

/// One answer, and how it is given.
#[derive(Clone)]
pub struct Reply {
    answer: Answer,
    /// Whether a request for a part gets that part.
    has_parts: bool,
    /// Whether it is judged: by the description of GitHub's API, or not, because it is known to differ
    /// from that or meant to.
    is_judged: bool,
}

/// What was asked: the path with its query, and the token.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub path: String,
    pub token: Option<String>,
    pub range: Option<String>,
}

#[derive(Default)]
struct State {
    /// Of several replies each is given once, and the last one for good.
    replies: BTreeMap<String, Vec<Reply>>,
    asked: Vec<Asked>,
    /// Questions that GitHub does not understand.
    wrong: Vec<String>,
}

#[derive(Clone)]
pub struct Fake {
    port: u16,
    state: Arc<Mutex<State>>,
    kind: Kind,
    /// What stands before every path of the API: nothing, or `/api/v3`.
    prefix: &'static str,
    /// Of the test, and not of the server.
    _verdict: Arc<Verdict>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// What is asked of it and what it says is judged by GitHub's description of its API.
    GitHub,
    /// Somebody else.
    Other,
}

/// Fails the test in which something wrong was asked.
struct Verdict(Arc<Mutex<State>>);

impl Reply {
    pub fn json(body: &Value) -> Self {
        let kind = "application/json; charset=utf-8";
        Self::bytes(kind, body.to_string().as_bytes())
    }

    pub fn bytes(content_type: &str, body: &[u8]) -> Self {
        Self {
            answer: Answer::new(200, content_type, body.to_vec()),
            has_parts: false,
            is_judged: true,
        }
    }

    /// Where something is.
    pub fn redirect(status: u16, to: &str) -> Self {
        let mut reply = Self::bytes("", b"").status(status);
        reply.answer.headers.clear();
        reply.header("Location", to)
    }

    /// What GitHub says when it says no.
    pub fn refusal(status: u16, message: &str) -> Self {
        let body = json!({"message": message, "documentation_url": "https://docs.github.com/rest"});
        Self::json(&body).status(status)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.answer.headers.push((name.into(), value.into()));
        self
    }

    pub fn status(mut self, status: u16) -> Self {
        self.answer.status = status;
        self
    }

    /// In place of what was said under that name.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.answer.headers.retain(|(other, _)| other != name);
        self.header(name, value)
    }

    /// A request for a part gets that part.
    pub fn in_parts(mut self) -> Self {
        self.has_parts = true;
        self
    }

    /// Not judged: the description does not say so, or this is meant to be wrong.
    pub fn untold(mut self) -> Self {
        self.is_judged = false;
        self
    }

    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.answer.cut = Some((bytes, After::Closed));
        self
    }

    pub fn silent_after(mut self, bytes: usize) -> Self {
        self.answer.cut = Some((bytes, After::Silent));
        self
    }
}

impl Fake {
    /// Serves until the process ends.
    pub fn start() -> Self {
        Self::serving(Kind::GitHub, "")
    }

    /// As an installation of one's own has it: beside the API, there are pages on the same server.
    pub fn enterprise() -> Self {
        Self::serving(Kind::GitHub, "/api/v3")
    }

    /// A server that is not GitHub's API.
    pub fn elsewhere() -> Self {
        Self::serving(Kind::Other, "")
    }

    fn serving(kind: Kind, prefix: &'static str) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        Self {
            port: serve(move |request| answer(&shared, kind, prefix, request)),
            _verdict: Arc::new(Verdict(Arc::clone(&state))),
            state,
            kind,
            prefix,
        }
    }

    /// Of the API.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.prefix)
    }

    /// The next reply for a path and its query.
    pub fn on(&self, path: &str, reply: Reply) {
        if self.kind == Kind::GitHub && reply.is_judged {
            let Answer { status, headers, .. } = &reply.answer;
            let body = str::from_utf8(&reply.answer.body).unwrap();
            let told = json!({"path": path, "status": status, "headers": headers, "body": body});
            let wrong = judge::wrong(&told);
            let is_true = wrong.is_empty();
            assert!(is_true, "not what GitHub says to `{path}`: {wrong:#?}");
        }
        let mut state = self.state.lock().unwrap();
        let replies = state.replies.entry(path.to_owned()).or_default();
        replies.push(reply);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    pub fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.path).collect()
    }
}

fn answer(state: &Mutex<State>, kind: Kind, prefix: &str, request: &Request) -> Answer {
    let Some(path) = request.path.strip_prefix(prefix) else {
        let text = format!("`{}` is not of the API", request.path);
        state.lock().unwrap().wrong.push(text);
        return Reply::refusal(404, "Not Found").answer;
    };
    let is_judged = {
        let state = state.lock().unwrap();
        let replies = state.replies.get(path);
        kind == Kind::GitHub && replies.is_none_or(|replies| replies[0].is_judged)
    };
    let wrong = is_judged.then(|| judge::wrong(&json!({"path": path})));
    let mut state = state.lock().unwrap();
    state.wrong.extend(wrong.into_iter().flatten());
    let header = |name| request.header(name).map(str::to_owned);
    state.asked.push(Asked {
        path: path.to_owned(),
        token: header("authorization"),
        range: header("range"),
    });
    let reply = match state.replies.get_mut(path) {
        Some(replies) if replies.len() > 1 => replies.remove(0),
        Some(replies) => replies[0].clone(),
        None => Reply::refusal(404, "Not Found"),
    };
    if reply.has_parts { reply.answer.part(request) } else { reply.answer }
}

impl Drop for Verdict {
    fn drop(&mut self) {
        if !thread::panicking() {
            let wrong = self.0.lock().unwrap().wrong.clone();
            assert!(wrong.is_empty(), "GitHub was asked wrongly: {wrong:#?}");
        }
    }
}
