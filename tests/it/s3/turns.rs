//! A bucket that upstream's programs and ours fill in turns.

use serde_json::Value;

use super::{
    server::Server,
    upload::{Desk, KEYS},
};
use crate::{
    publish::{install::pip_downloads, packages::wheel},
    support::{
        long,
        upstream::{Placement, UpstreamRun},
    },
};

/// SeaweedFS drops the pages of directories, so that only the find-links page can be used there.
#[test]
fn a_bucket_is_filled_in_turns() {
    let server = Server::shared();
    for layout in ["flat", "dist"].into_iter().take(long::rounds(1, 2)) {
        let desk = Desk::new();
        server.publish(&desk.bucket);
        let store = server.store(&desk.bucket);
        let run = UpstreamRun {
            bucket: &store,
            prefix: "42-linux",
            is_local: false,
        };
        let upstreams = |packages| {
            run.upload(packages, Placement::MultiArch);
            run.index();
        };
        let place = format!("s3://{}/42-linux/python", desk.bucket);
        let ours = || -> Value {
            let said = desk.signed(&["--layout", layout, "--format", "json"]).ok();
            run.index();
            serde_json::from_str(&said).unwrap()
        };
        let read = |arguments: &[&str]| desk.run(desk.command(&KEYS).args(arguments)).ok();
        upstreams(&desk.bench.root);
        ours();
        let torch = desk.bench.root.join("torch");
        wheel(&torch, "torch", "2.9", "");
        upstreams(&torch);
        upstreams(&desk.bench.root);
        let said = ours();
        let page = said["find-links-url"].as_str().unwrap();
        let page = page.replace("HOST", &format!("127.0.0.1:{}", desk.port));
        let page = page.replace("BUCKET", desk.bucket.as_str());
        pip_downloads(&desk.bench, &["--no-index", "--find-links", &page]);
        let files = said["set"]["files"].as_array().unwrap();
        assert!(files.iter().any(|it| it["project"] == "torch"), "{said}");
        let checked = desk.run(desk.command(&KEYS).args(["check", &place, "--select=RW7"]));
        let advice = format!("install with `--find-links {}`", said["find-links-url"]);
        assert!(
            checked.stdout.contains(&advice.replace('"', "")),
            "{}",
            checked.stdout
        );
        let plan = read(&["index", &place, "--no-check", "--dry-run"]);
        assert!(!plan.contains("remove"), "{plan}");
        let summary = read(&["summary", &place]);
        assert!(summary.contains("3 packages and 1 of others"), "{summary}");
    }
}
