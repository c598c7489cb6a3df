//! An installation of one's own, whose API is `https://HOST/api/v3`.

use rocwheel_test_servers::github::{
    fake::{Fake, Reply},
    hosted::Hosted,
    run,
};

use crate::support::prelude::*;

const RUNS: &str = "/repos/amd/rocm/actions/workflows/ci.yml/runs";

/// The sample as an upload of run 7, as an answer of the API of `amd/rocm`.
fn hosted() -> Hosted {
    let mut hosted = Hosted::of(Fake::enterprise());
    let mut archives = sample().archives().into_iter();
    let archive = archives.find(|(name, _)| name.starts_with("base_lib_generic."));
    let (name, bytes) = archive.unwrap();
    hosted.repository = "amd/rocm";
    hosted.upload(5, &name, "application/zstd", &bytes);
    hosted
}

#[test]
fn a_run_is_searched_page_by_page_and_fetched_by_the_token_of_the_installation() {
    let hosted = hosted();
    hosted.ready();
    let of_a_fork = run(8, "2026-01-02T00:00:00Z", "completed", Some("success"));
    let mut own = run(7, "2026-01-01T00:00:00Z", "completed", Some("success"));
    own["head_repository"]["full_name"] = json!("amd/rocm");
    for (number, run) in [(1, of_a_fork), (2, own)] {
        let page = json!({"total_count": 2, "workflow_runs": [run]});
        let route = format!("{RUNS}?branch=main&per_page=20&page={number}");
        hosted.api.on(&route, Reply::json(&page));
    }
    let t = Sandbox::new().with("GITHUB_API_URL", hosted.api.url()).with("GITHUB_TOKEN", "hush");
    let said = t.run(
        "fetch --platform linux --source github --repository amd/rocm --workflow ci.yml \
         --output-dir out -vv --branch main base_lib",
    );
    assert_lacks!(said.done().all(), "hush", "sig=");
    t.read("out/base_lib_generic/artifact_manifest.txt");
    let asked = hosted.api.asked();
    let bearer = Some("Bearer hush".to_owned());
    assert!(asked.iter().all(|it| it.token == bearer), "{asked:#?}");
    let kept = hosted.keeper.asked();
    assert!(!kept.is_empty());
    assert!(kept.iter().all(|it| it.token.is_none()), "{kept:#?}");
}
