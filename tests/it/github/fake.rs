//! A GitHub of our own on this machine: answers by path, with the faults that are asked for.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// One answer, as it goes over the wire.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// So many bytes of the body, and then the connection is closed.
    cut: Option<usize>,
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
}

#[derive(Clone)]
pub(crate) struct Fake {
    port: u16,
    state: Arc<Mutex<State>>,
}

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
        }
    }

    /// What GitHub says when it says no.
    pub(crate) fn refusal(status: u16, message: &str) -> Self {
        let body = serde_json::json!({"message": message, "documentation_url": "https://docs.github.com/rest"});
        Self {
            status,
            ..Self::json(&body)
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn cut_after(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }
}

impl Fake {
    /// Serves until the process ends.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Self {
            port: listener.local_addr().unwrap().port(),
            state: Arc::default(),
        };
        let serving = fake.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let fake = serving.clone();
                thread::spawn(move || fake.serve(&stream));
            }
        });
        fake
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The next reply for a path and its query.
    pub(crate) fn on(&self, path: &str, reply: Reply) {
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
            let reply = self.reply(asked);
            write(stream, &reply)?;
        }
    }

    fn reply(&self, asked: Asked) -> Reply {
        let mut state = self.state.lock().unwrap();
        let replies = state.replies.get_mut(&asked.path);
        let reply = match replies {
            Some(replies) if replies.len() > 1 => replies.remove(0),
            Some(replies) => replies[0].clone(),
            None => Reply::refusal(404, "Not Found"),
        };
        state.asked.push(asked);
        reply
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
    let sent = reply.cut.unwrap_or(reply.body.len());
    stream.write_all(&reply.body[..sent]).ok()?;
    reply.cut.is_none().then_some(())
}
