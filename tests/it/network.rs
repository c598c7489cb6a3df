//! The three clients (of GitHub, of S3 and of web servers) over TLS and behind a proxy.

use rocwheel_test_servers::http::{Answer, Request, serve, serve_tls};

use crate::support::prelude::*;

/// Answers GitHub's API, a bucket and an index.
fn answer(request: &Request) -> Answer {
    if request.path.contains("list-type=2") {
        let nothing = br#"<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"#;
        return Answer::new(200, "application/xml", nothing.to_vec());
    }
    match request.path.as_str() {
        "/" => Answer::new(200, "application/json", b"{}".to_vec()),
        "/index/" => Answer::new(200, "text/html", b"<!DOCTYPE html>".to_vec()),
        _ => Answer::new(404, "text/plain", Vec::new()),
    }
}

/// A sandbox whose servers are all at `address`.
fn sandbox(address: &str) -> Sandbox {
    Sandbox::new()
        .with("GITHUB_API_URL", address)
        .with("AWS_ENDPOINT_URL", address)
        .with("AWS_ACCESS_KEY_ID", "id")
        .with("AWS_SECRET_ACCESS_KEY", "secret")
        .with("AWS_EC2_METADATA_DISABLED", "true")
        .shows(address, "SERVER")
}

/// What it says of GitHub and of a bucket.
fn doctor(t: &Sandbox) -> String {
    let said = t.run("doctor --bucket bucket").all();
    said.split_inclusive('\n').filter(|line| !line.contains(" disk ")).collect()
}

#[test]
#[ignore = "slow"]
fn every_client_trusts_the_certificates_of_the_machine_and_no_other() {
    let (port, authority) = serve_tls(answer);
    let t = sandbox(&format!("https://127.0.0.1:{port}"));
    let trusted = t.write("authority.pem", authority);
    let list = format!("list https://127.0.0.1:{port}/index/");
    insta::assert_snapshot!(doctor(&t), @"
    exit 1
    problem  token        none for SERVER: GitHub cannot be reached: `/`: invalid peer certificate: UnknownIssuer
                          check the network, the proxy (`HTTPS_PROXY`), the certificates (`SSL_CERT_FILE`) and `GITHUB_API_URL`, and try again
    ok       credentials  key …
    problem  bucket       the store does not answer: `s3://bucket/rocwheel-doctor-linux/`: invalid peer certificate: UnknownIssuer
                          check the address, the network, the proxy (`HTTPS_PROXY`) and the certificates (`SSL_CERT_FILE`), and try again
    error: 2 problems
    ");
    insta::assert_snapshot!(t.run(&list).all(), @"
    exit 2
    error: failed to read `index/set.json` of `SERVER`
      caused by: the store does not answer: `SERVER/index/set.json`
      caused by: invalid peer certificate: UnknownIssuer

    hint: check the address, the network, the proxy (`HTTPS_PROXY`) and the certificates (`SSL_CERT_FILE`), and try again
    ");
    let t = t.with("SSL_CERT_FILE", trusted);
    insta::assert_snapshot!(doctor(&t), @"
    exit 0
    note     token        none for SERVER; public repositories need none
                          set `GITHUB_TOKEN` or `GH_TOKEN`, or run `gh auth login`, to ask more often, and for private repositories
    ok       credentials  key …
    ok       bucket       s3://bucket can be read
    ");
    insta::assert_snapshot!(t.run(&list).all(), @"
    exit 1
    error: no packages at `SERVER/index/`

    hint: pass the address of an index, or of a set
    ");
}

#[test]
#[ignore = "slow"]
fn every_client_asks_the_proxy_of_the_environment() {
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let shared = Arc::clone(&asked);
    let proxy = serve(move |request| {
        shared.lock().unwrap().insert(format!("{} {}", request.method, request.path));
        Answer::new(403, "text/plain", Vec::new())
    });
    let t = Sandbox::new()
        .with("HTTPS_PROXY", format!("http://127.0.0.1:{proxy}"))
        .with("AWS_ACCESS_KEY_ID", "id")
        .with("AWS_SECRET_ACCESS_KEY", "secret");
    t.run("doctor --bucket bucket");
    t.run("list https://wheels.example/index/");
    insta::assert_debug_snapshot!(asked.lock().unwrap(), @r#"
    {
        "CONNECT api.github.com:443",
        "CONNECT bucket.s3.us-east-1.amazonaws.com:443",
        "CONNECT wheels.example:443",
    }
    "#);
}
