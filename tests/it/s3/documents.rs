//! `set.json` of a bucket that cannot be read: no command takes that for a place without one.

use super::{
    fault::{Fault, Proxy},
    upload::{Desk, UPLOAD},
};

#[test]
fn only_a_missing_set_json_means_that_there_is_none() {
    let mut desk = Desk::new();
    desk.upload("").done();
    let before = desk.there();
    let proxy = Proxy::before(desk.port);
    desk.port = proxy.port;
    let place = "s3://BUCKET/42-linux/python";
    let commands = [
        format!("promote {place} --to same --no-check --into out"),
        format!("diff {place} {place}"),
        format!("summary {place} --baseline {place}"),
        format!("index {place} --no-check"),
        format!("{UPLOAD} . --no-check"),
    ];
    let faults = [
        ("HEAD", Fault::Answer(403, "AccessDenied")),
        // It is listed.
        ("HEAD", Fault::Answer(404, "NoSuchKey")),
        ("GET", Fault::Answer(404, "NoSuchKey")),
        ("GET", Fault::Text(200, "<html>Sign in</html>")),
    ];
    for (method, fault) in faults {
        let is_gone = matches!(fault, Fault::Answer(404, _));
        for command in &commands {
            // These do not list the place: to them it is missing.
            let is_unlisted = command.starts_with("promote") || command.starts_with("diff");
            if is_gone && method == "HEAD" && (is_unlisted || command.starts_with("summary")) {
                continue;
            }
            proxy.breaks(method, "python/set.json", usize::MAX, fault.clone());
            let refused = desk.run(command);
            proxy.mends();
            assert!([1, 2].contains(&refused.code), "{command}: {}", refused.all());
            assert_has!(refused.stderr, "set.json");
            assert!(!desk.bench.root.join("out").exists(), "{command}");
        }
    }
    assert_eq!(desk.there(), before);
    let promoted = desk.run(&commands[0]);
    promoted.done();
    let document = fs_err::read_to_string(desk.bench.root.join("out/set.json")).unwrap();
    assert_has!(document, r#""run-id": "42""#);
}
