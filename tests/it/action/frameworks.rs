//! The workflow that builds a framework, ties it and splits it.

use super::{
    installs::{DOWNLOAD, download},
    runner::Repository,
    workflows::{KEEP, PYTHON, keep, outcomes, python},
};
use crate::framework::guide::{followed, project};
use crate::support::prelude::*;

/// A checkout that leaves the repository as it is.
pub(super) const CHECKED_OUT: &str = "name: checkout\ndescription: checkout\ninputs:\n  persist-credentials: { description: keys }\n\
     runs:\n  using: composite\n  steps:\n    - shell: bash\n      run: 'true'\n";
pub(super) const CHECKOUT: &str = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1";

#[test]
#[ignore = "long"]
fn long_a_framework_is_built_tied_split_tested_and_released() {
    let serve = |set: &Path| Server::start(Site::Directory(set.to_owned())).url + "simple/";
    let index = serve(&sample().place());
    let inputs = json!({
        "rocm-index-url": index,
        "dependency-index-url": index,
        "final-index-url": serve(&followed().join("final")),
        "extras": "device-gfx942",
        "test-runner": "gpu",
        "artifact-name": "fw",
        "test-command": "python -c 'import fw; print(\"answer\", fw.answer())'",
        "package": "fw", "version": "1.0", "runner": "ubuntu-24.04", "rocm-version": "0.99.1.dev0",
        "build-command": "python -m pip wheel . --no-deps --wheel-dir dist",
    });
    let mut repository = Repository::new();
    let kept = repository.path().join("kept");
    repository.action(KEEP, &keep(&kept));
    repository.action(DOWNLOAD, &download(&kept));
    repository.action(PYTHON, &python());
    repository.action(CHECKOUT, CHECKED_OUT);
    project(&repository.path().join("tree"));
    let run = repository.call("frameworks.yml", &inputs).expect_success();
    assert_eq!(outcomes(&run).len(), 3, "{:?}", outcomes(&run));
    assert_has!(run.log(), "answer 15");
    insta::assert_snapshot!(tree(&kept.join("fw-release")).join("\n"), @"
    amd_fw_device-1.0+rocm0.99.1.tar.gz
    amd_fw_device_gfx1100-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    amd_fw_device_gfx942-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    fw-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    ");
}
