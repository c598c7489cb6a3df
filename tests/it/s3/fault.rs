//! A proxy in front of a server that breaks chosen answers.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
    time::Instant,
};

use socket2::SockRef;

use crate::support::prelude::*;

/// What happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The server never sees it; this status and code are the answer.
    Answer(u16, &'static str),
    /// The server never sees it; this status and body are the answer.
    Text(u16, &'static str),
    /// The connection is reset once so many bytes of the body came.
    Reset(usize),
    /// Of the answer's body only so many bytes come.
    Cut(usize),
    /// Of the answer's body only so many bytes come, and then the connection is torn down.
    Tear(usize),
    /// Of the answer's body only so many bytes come, and nothing more.
    Stall(usize),
    /// One bit of the answer's body is another.
    Flip,
    /// The answer is this status, and after how many seconds to come back.
    Busy(u16, &'static str),
    /// It is done, and the answer is lost.
    Lose,
    /// It is done at once, and the answer comes after this time.
    Late(Duration),
    /// It is done only after this time.
    Delayed(Duration),
    /// The answer is that the bucket is in another region.
    Elsewhere(&'static str),
}

struct Rule {
    method: &'static str,
    part: String,
    span: FaultSpan,
    fault: Fault,
}

/// How long a fault lasts.
pub(crate) enum FaultSpan {
    /// For so many requests.
    Times(usize),
    /// For so many requests to each target.
    Each(usize),
    /// For so long after the first request.
    For(Duration),
    /// The same, since the first request.
    Begun(Instant, Duration),
}

#[derive(Default)]
struct Script {
    rules: Vec<Rule>,
    /// How often each target was asked for by each method.
    counts: BTreeMap<String, usize>,
    /// The keys of conditional writes in progress, if a second one gets 409 as from Amazon.
    writing: Option<BTreeSet<String>>,
    /// Request line and the credential's scope of every request, in order.
    seen: Vec<String>,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    script: Arc<Mutex<Script>>,
}

impl Proxy {
    pub(crate) fn before(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(Mutex::new(Script::default()));
        let shared = Arc::clone(&script);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let script = Arc::clone(&shared);
                // A connection that breaks is what this is for.
                thread::spawn(move || serve(client, server, &script));
            }
        });
        Self { port, script }
    }

    /// Breaks the next `times` requests of a method whose target contains a text.
    pub(crate) fn breaks(&self, method: &'static str, part: &str, times: usize, fault: Fault) {
        self.breaks_while(method, part, FaultSpan::Times(times), fault);
    }

    /// Breaks requests of a method whose target contains a text, for a time.
    pub(crate) fn breaks_while(
        &self,
        method: &'static str,
        part: &str,
        span: FaultSpan,
        fault: Fault,
    ) {
        self.script.lock().unwrap().rules.push(Rule { method, part: part.to_owned(), span, fault });
    }

    /// Breaks nothing any more.
    pub(crate) fn mends(&self) {
        self.script.lock().unwrap().rules.clear();
    }

    /// Answers 409 to a conditional write while another one of the same key is in progress, as Amazon does.
    pub(crate) fn refuses_writes_at_once(&self) {
        self.script.lock().unwrap().writing = Some(BTreeSet::new());
    }

    /// The requests so far whose line, or the scope of whose credentials, contains a text.
    pub(crate) fn count(&self, text: &str) -> usize {
        let seen = &self.script.lock().unwrap().seen;
        seen.iter().filter(|line| line.contains(text)).count()
    }

    /// Waits until there was such a request.
    pub(crate) fn is_asked(&self, text: &str) {
        let begun = Instant::now();
        while self.count(text) == 0 {
            assert!(begun.elapsed() < Duration::from_mins(1));
            thread::yield_now();
        }
    }
}

impl Script {
    fn fault(&mut self, head: &Head) -> Option<Fault> {
        let scope = head.header("authorization").unwrap_or("unsigned");
        self.seen.push(format!("{} {scope}", head.line()));
        let (method, target) = head.line().split_once(' ')?;
        let target = target.split(" HTTP/").next().unwrap_or_default();
        let count = self.counts.entry(format!("{method} {target}")).or_default();
        *count += 1;
        let rule = self.rules.iter_mut().find_map(|rule| {
            let is_meant = rule.method == method && target.contains(&rule.part);
            (is_meant && rule.span.takes(*count)).then_some(rule)
        });
        Some(rule?.fault.clone())
    }
}

impl Script {
    /// Notes that a conditional write begins. `false` while another one of the same target is in progress.
    fn begins(&mut self, target: &str) -> bool {
        let writing = self.writing.as_mut();
        writing.is_none_or(|it| it.insert(target.to_owned()))
    }

    fn ends(&mut self, target: &str) {
        if let Some(writing) = &mut self.writing {
            writing.remove(target);
        }
    }
}

impl FaultSpan {
    /// Whether it has one more request, which is the `count`-th for its target.
    fn takes(&mut self, count: usize) -> bool {
        match self {
            Self::Times(0) => false,
            Self::Times(times) => {
                *times -= 1;
                true
            }
            Self::Each(times) => count <= *times,
            Self::For(time) => {
                *self = Self::Begun(Instant::now(), *time);
                true
            }
            Self::Begun(at, time) => at.elapsed() < *time,
        }
    }
}

/// One request on one connection.
fn serve(mut client: TcpStream, server: u16, script: &Mutex<Script>) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(30)))?;
    let head = Head::read(&mut client)?;
    let fault = script.lock().unwrap().fault(&head);
    let written = head.conditional_write();
    let is_taken = written.is_some_and(|it| !script.lock().unwrap().begins(it));
    let fault =
        if is_taken { Some(Fault::Answer(409, "ConditionalRequestConflict")) } else { fault };
    let length = head.header("content-length");
    let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
    if let Some(Fault::Reset(after)) = fault {
        // Bytes that are never read make the system reset the connection.
        io::copy(&mut (&mut client).take(after.min(length) as u64), &mut io::sink())?;
        return Ok(());
    }
    let mut body = vec![0; length];
    if head.header("expect").is_some() {
        client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    client.read_exact(&mut body)?;
    if let Some(Fault::Delayed(time)) = fault {
        thread::sleep(time);
    }
    let mut answer = match fault {
        Some(Fault::Answer(status, code)) => {
            let text = format!("<Error><Code>{code}</Code><Message>as told</Message></Error>");
            told(status, "", &text)
        }
        Some(Fault::Text(status, text)) => told(status, "", text),
        Some(Fault::Busy(status, after)) => told(status, &format!("Retry-After: {after}\r\n"), ""),
        Some(Fault::Elsewhere(region)) => {
            told(301, &format!("x-amz-bucket-region: {region}\r\n"), "")
        }
        _ => head.forward(server, &body)?,
    };
    if let Some(target) = written.filter(|_| !is_taken) {
        script.lock().unwrap().ends(target);
    }
    let body = find(&answer, b"\r\n\r\n").unwrap_or(0) + 4;
    let cut = |after: usize| answer.get(..body + after).unwrap_or(&answer);
    match fault {
        Some(Fault::Lose) => Ok(()),
        Some(Fault::Late(time)) => {
            thread::sleep(time);
            client.write_all(&answer)
        }
        Some(Fault::Cut(after)) => client.write_all(cut(after)),
        Some(Fault::Tear(after)) => {
            client.write_all(cut(after))?;
            SockRef::from(&client).set_linger(Some(Duration::ZERO))
        }
        Some(Fault::Stall(after)) => {
            client.write_all(cut(after))?;
            // Until the other side has enough of it.
            io::copy(&mut client, &mut io::sink()).map(drop)
        }
        Some(Fault::Flip) => {
            let middle = body + (answer.len() - body) / 2;
            answer[middle] ^= 1;
            client.write_all(&answer)
        }
        _ => client.write_all(&answer),
    }
}

/// An answer that no server gives.
fn told(status: u16, header: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    let head = format!("HTTP/1.1 {status} Told\r\n{header}Content-Length: {length}\r\n");
    format!("{head}Connection: close\r\n\r\n{text}").into_bytes()
}

/// A request without its body.
struct Head(String);

impl Head {
    fn read(client: &mut TcpStream) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte)?;
            bytes.push(byte[0]);
        }
        Ok(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn line(&self) -> &str {
        self.0.lines().next().unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.0.lines().filter_map(|line| line.split_once(": "));
        let mut found = headers.filter(|(header, _)| header.eq_ignore_ascii_case(name));
        Some(found.next()?.1)
    }

    /// The target, if the request writes an object under a condition.
    fn conditional_write(&self) -> Option<&str> {
        self.header("if-none-match").or(self.header("if-match"))?;
        let (method, target) = self.line().split_once(' ')?;
        ["PUT", "POST"].contains(&method).then_some(target)
    }

    /// The server's whole answer, which says that the connection ends with it.
    fn forward(&self, server: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
        let head = self.0.trim_end();
        let lines = head.lines().filter(|line| {
            let name = line.split(':').next().unwrap_or_default();
            !["connection", "expect"].contains(&name.to_ascii_lowercase().as_str())
        });
        let lines: Vec<&str> = lines.collect();
        stream.write_all(lines.join("\r\n").as_bytes())?;
        stream.write_all(b"\r\nConnection: close\r\n\r\n")?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
