//! A GitHub of our own on this machine: answers by path, with the faults that are asked for, and
//! otherwise as GitHub's description of its API has it.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::json;

use super::judge;

/// One answer, as it goes over the wire.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// So many bytes of the body, and then no more.
    cut: Option<(usize, After)>,
    parts: Parts,
    truth: Truth,
}

/// What becomes of a connection after a part of an answer.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Closed,
    /// Nothing comes, and nothing ends.
    Silent,
}

/// What becomes of a question for a part of the body.
#[derive(Clone, PartialEq)]
enum Parts {
    Given,
    Ignored,
}

#[derive(Clone, PartialEq)]
enum Truth {
    Told,
    /// Known to differ from the description, or meant to.
    Untold,
}

/// What was asked: the path with its query, and the token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) token: Option<String>,
    pub(crate) range: Option<String>,
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
pub(crate) struct Fake {
    port: u16,
    state: Arc<Mutex<State>>,
    kind: Kind,
    /// What stands before every path of the API: nothing, or `/api/v3`.
    prefix: &'static str,
    /// Of the test, and not of the server.
    _verdict: Option<Arc<Verdict>>,
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
    pub(crate) fn json(body: &serde_json::Value) -> Self {
        Self::bytes(
            "application/json; charset=utf-8",
            body.to_string().as_bytes(),
        )
    }

    pub(crate) fn bytes(content_type: &str, body: &[u8]) -> Self {
        Self {
            status: 200,
            headers: vec![("Content-Type".into(), content_type.into())],
            body: body.to_vec(),
            cut: None,
            parts: Parts::Ignored,
            truth: Truth::Told,
        }
    }

    /// Where something is.
    pub(crate) fn redirect(status: u16, to: &str) -> Self {
        let reply = Self {
            status,
            headers: Vec::new(),
            ..Self::bytes("", b"")
        };
        reply.header("Location", to)
    }

    /// What GitHub says when it says no.
    pub(crate) fn refusal(status: u16, message: &str) -> Self {
        let body = json!({"message": message, "documentation_url": "https://docs.github.com/rest"});
        Self {
            status,
            ..Self::json(&body)
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// In place of what was said under that name.
    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self.header(name, value)
    }

    /// A request for a part gets that part.
    pub(crate) fn in_parts(mut self) -> Self {
        self.parts = Parts::Given;
        self
    }

    /// Not judged: the description does not say so, or this is meant to be wrong.
    pub(crate) fn untold(mut self) -> Self {
        self.truth = Truth::Untold;
        self
    }

    /// The part that was asked for: `bytes=5-9`.
    fn part(mut self, range: Option<&str>) -> Self {
        let Some(range) = range.filter(|_| self.parts == Parts::Given && self.status == 200) else {
            return self;
        };
        let (first, last) = range
            .strip_prefix("bytes=")
            .unwrap()
            .split_once('-')
            .unwrap();
        let (first, size) = (first.parse::<usize>().unwrap(), self.body.len());
        let end = last
            .parse()
            .map_or(size, |last: usize| (last + 1).min(size));
        if first >= size {
            self.status = 416;
            self.body.clear();
            return self.header("Content-Range", &format!("bytes */{size}"));
        }
        self.status = 206;
        self.body = self.body[first..end].to_vec();
        self.header(
            "Content-Range",
            &format!("bytes {first}-{}/{size}", end - 1),
        )
    }

    pub(crate) fn cut_after(mut self, bytes: usize) -> Self {
        self.cut = Some((bytes, After::Closed));
        self
    }

    pub(crate) fn silent_after(mut self, bytes: usize) -> Self {
        self.cut = Some((bytes, After::Silent));
        self
    }
}

impl Fake {
    /// Serves until the process ends.
    pub(crate) fn start() -> Self {
        Self::serving(Kind::GitHub, "")
    }

    /// As an installation of one's own has it: beside the API, there are pages on the same server.
    pub(crate) fn enterprise() -> Self {
        Self::serving(Kind::GitHub, "/api/v3")
    }

    /// A server that is not GitHub's API.
    pub(crate) fn elsewhere() -> Self {
        Self::serving(Kind::Other, "")
    }

    fn serving(kind: Kind, prefix: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = Arc::default();
        let fake = Self {
            port: listener.local_addr().unwrap().port(),
            _verdict: Some(Arc::new(Verdict(Arc::clone(&state)))),
            state,
            kind,
            prefix,
        };
        let serving = Self {
            _verdict: None,
            ..fake.clone()
        };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let fake = serving.clone();
                thread::spawn(move || fake.serve(&stream));
            }
        });
        fake
    }

    /// Of the API.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.prefix)
    }

    /// The next reply for a path and its query.
    pub(crate) fn on(&self, path: &str, reply: Reply) {
        if self.kind == Kind::GitHub && reply.truth == Truth::Told {
            let wrong = judge::wrong(&json!({"path": path, "status": reply.status,
                "headers": reply.headers, "body": String::from_utf8(reply.body.clone()).unwrap()}));
            assert!(
                wrong.is_empty(),
                "not what GitHub says to `{path}`: {wrong:#?}"
            );
        }
        let mut state = self.state.lock().unwrap();
        state
            .replies
            .entry(path.to_owned())
            .or_default()
            .push(reply);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.path).collect()
    }

    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let asked = read(&mut reader)?;
            let reply = if let Some(path) = asked.path.strip_prefix(self.prefix) {
                let path = path.to_owned();
                self.reply(Asked { path, ..asked })
            } else {
                let text = format!("`{}` is not of the API", asked.path);
                self.state.lock().unwrap().wrong.push(text);
                Reply::refusal(404, "Not Found")
            };
            write(stream, &reply)?;
        }
    }

    fn reply(&self, asked: Asked) -> Reply {
        let is_told = |state: &State| {
            let replies = state.replies.get(&asked.path);
            replies.is_none_or(|replies| replies[0].truth == Truth::Told)
        };
        if self.kind == Kind::GitHub && is_told(&self.state.lock().unwrap()) {
            let wrong = judge::wrong(&json!({"path": asked.path}));
            self.state.lock().unwrap().wrong.extend(wrong);
        }
        let range = asked.range.clone();
        let mut state = self.state.lock().unwrap();
        let replies = state.replies.get_mut(&asked.path);
        let reply = match replies {
            Some(replies) if replies.len() > 1 => replies.remove(0),
            Some(replies) => replies[0].clone(),
            None => Reply::refusal(404, "Not Found"),
        };
        state.asked.push(asked);
        reply.part(range.as_deref())
    }
}

impl Drop for Verdict {
    fn drop(&mut self) {
        if !thread::panicking() {
            let wrong = self.0.lock().unwrap().wrong.clone();
            assert!(wrong.is_empty(), "GitHub was asked wrongly: {wrong:#?}");
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|count| *count > 0)?;
    let mut asked = Asked {
        path: line.split(' ').nth(1)?.to_owned(),
        token: None,
        range: None,
    };
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|count| *count > 0)?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            return Some(asked);
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => asked.token = Some(value.to_owned()),
            "range" => asked.range = Some(value.to_owned()),
            _ => {}
        }
    }
}

/// Nothing, where the connection is to end.
fn write(mut stream: &TcpStream, reply: &Reply) -> Option<()> {
    let mut head = format!(
        "HTTP/1.1 {} Said\r\nContent-Length: {}\r\n",
        reply.status,
        reply.body.len()
    );
    for (name, value) in &reply.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
    let sent = reply.cut.map_or(reply.body.len(), |(sent, _)| sent);
    stream.write_all(&reply.body[..sent]).ok()?;
    if let Some((_, After::Silent)) = reply.cut {
        // Until the client has had enough.
        let _ = stream.read(&mut [0]);
    }
    reply.cut.is_none().then_some(())
}
