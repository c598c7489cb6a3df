//! A web server on this machine, in the process of the tests, for as long as that lives.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring};

/// A request without a body.
pub struct Request {
    pub method: String,
    /// With its query.
    pub path: String,
    /// By their names in lower case.
    headers: BTreeMap<String, String>,
}

/// What goes over the wire.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// So many bytes of the body, and then no more.
    pub cut: Option<(usize, After)>,
}

/// What becomes of a connection after a part of an answer.
#[derive(Clone, Copy, PartialEq)]
pub enum After {
    Closed,
    /// Nothing comes, and nothing ends.
    Silent,
}

/// Answers requests on a port of this machine. Returns the port.
pub fn serve(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> u16 {
    accept(|stream| stream, answer)
}

/// As [`serve`], over TLS. Returns the port, and the certificate of its authority as PEM.
pub fn serve_tls(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> (u16, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let certificate = names.signed_by(&key, &issuer).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let config = Arc::new(config);
    let port = accept(
        move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            StreamOwned::new(connection, stream)
        },
        answer,
    );
    (port, root.pem())
}

/// Accepts connections, and answers what comes over the streams that `open` makes of them.
fn accept<S: Read + Write>(
    open: impl Fn(TcpStream) -> S + Send + Sync + 'static,
    answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let shared = Arc::new((open, answer));
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (open, answer) = &*shared;
                let mut stream = BufReader::new(open(connection));
                while let Some(request) = Request::read(&mut stream) {
                    if answer(&request).write(stream.get_mut(), &request).is_none() {
                        break;
                    }
                }
            });
        }
    });
    port
}

impl Request {
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut lines = reader.lines().map_while(Result::ok);
        let first = lines.next()?;
        let mut words = first.split(' ').map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        });
        Some(Self { method, path, headers: headers.collect() })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Answer {
    pub fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".into(), content_type.into())],
            body,
            cut: None,
        }
    }

    /// The part of it that a request asks for: `bytes=5-9` or `bytes=5-`.
    pub fn part(mut self, request: &Request) -> Self {
        let Some(range) = request.header("range").filter(|_| self.status == 200) else {
            return self;
        };
        let range = range.strip_prefix("bytes=").unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let (first, size) = (first.parse::<usize>().unwrap(), self.body.len());
        let end = last.parse().map_or(size, |last: usize| last + 1).min(size);
        let (status, body, of) = if first < size {
            let body = self.body[first..end].to_vec();
            (206, body, format!("bytes {first}-{}/{size}", end - 1))
        } else {
            (416, Vec::new(), format!("bytes */{size}"))
        };
        self.headers.push(("Content-Range".into(), of));
        Self { status, body, ..self }
    }

    /// How many bytes of the body are sent.
    pub fn sent(&self) -> usize {
        self.cut.map_or(self.body.len(), |(sent, _)| sent)
    }

    /// Nothing, where the connection is to end.
    fn write(&self, stream: &mut (impl Read + Write), request: &Request) -> Option<()> {
        let (status, length) = (self.status, self.body.len());
        let mut head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\n");
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
        stream.flush().ok()?;
        if request.method != "HEAD" {
            stream.write_all(&self.body[..self.sent()]).ok()?;
            stream.flush().ok()?;
        }
        if let Some((_, After::Silent)) = self.cut {
            // Until the client has had enough.
            let _ = stream.read(&mut [0]);
        }
        self.cut.is_none().then_some(())
    }
}
