//! The workflow that compares with the packages of a run: the newest one, in a bucket, with wheels as TheRock's
//! uploader leaves them.

use super::workflows::{PYTHON, Stage, dispatched, outcomes, python};
use crate::s3::server::Server;
use crate::support::prelude::*;
use crate::support::upstream::{Placement, UpstreamRun};
use rocwheel_test_servers::github::{
    fake::{Fake, Reply},
    page_of_runs, repository, run,
};

#[test]
#[ignore = "long"]
fn long_the_newest_run_is_built_and_compared_with_its_own_packages() {
    let runs = json!([{"platform": "linux", "family": "gfx94X-dcgpu"}]);
    let mut stage = Stage::new("therock-ci-artifacts", "1-linux/", &dispatched());
    let fake = Fake::start();
    let newest = run(1, "2026-01-02T00:00:00Z", "completed", Some("success"));
    fake.on("/repos/ROCm/TheRock", Reply::json(&repository("main")));
    fake.on("/repos/ROCm/TheRock/actions/runs/1", Reply::json(&newest));
    let search = "/repos/ROCm/TheRock/actions/workflows/multi_arch_ci.yml/runs";
    let search = format!("{search}?branch=main&per_page=20&page=1");
    fake.on(&search, page_of_runs(&[newest]));
    stage.repository.variable("GITHUB_API_URL", &fake.url());
    stage.repository.action(PYTHON, &python());
    // Their wheel of the core packages has no license, and a file that ours lacks.
    let theirs = stage.repository.path().join("theirs");
    fs_err::create_dir(&theirs).unwrap();
    for (name, mut bytes) in contents(&sample().dist()) {
        if name.starts_with("rocm_sdk_core") {
            let mut members = unzip(&bytes);
            let more = "_rocm_sdk_core/share/more.txt".to_owned();
            members.insert(0, (more, 0o100_644, b"more\n".to_vec()));
            let is_it = |it: &&mut (String, u32, Vec<u8>)| it.0.ends_with(".dist-info/METADATA");
            let text = &mut members.iter_mut().find(is_it).unwrap().2;
            let lines = String::from_utf8(text.clone()).unwrap();
            let lines = lines.split_inclusive('\n');
            let lines = lines.filter(|it| !it.starts_with("License"));
            *text = lines.collect::<String>().into_bytes();
            record(&mut members);
            bytes = zipped(&members);
        }
        fs_err::write(theirs.join(name), bytes).unwrap();
    }
    let bucket = "therock-ci-artifacts".parse().unwrap();
    let store = Server::shared().store(&bucket);
    let upstream = UpstreamRun { bucket: &store, prefix: "1-linux", is_local: false };
    upstream.upload(&theirs, Placement::MultiArch);
    upstream.index();
    let inputs = json!({"runs": runs.to_string()});
    let run = stage.repository.call("real-run.yml", &inputs).expect_success();
    assert_eq!(outcomes(&run).len(), 1, "{:?}", outcomes(&run));
    let page = run.summaries().concat();
    assert_has!(page, "| installed and tested | success | success |");
    let (open, folded) = page.split_once("<details>").unwrap();
    assert!(open.contains("rocm-sdk-core: _rocm_sdk_core/share/more.txt"), "{page}");
    assert!(!open.contains("License-Expression"), "{page}");
    assert!(!open.contains("gfx1100"), "{page}");
    assert!(folded.contains("rocm-sdk-core: License-Expression"), "{page}");
}
