//! The workflow that keeps the base index: a pull request with a new lock, and the mirror of a lock.

use super::{
    frameworks::{CHECKED_OUT, CHECKOUT},
    runner::{git, read},
    spread::{ROLE, text},
    workflows::{CREDENTIALS, Stage, dispatched, published, role},
};
use crate::deps::Workplace;
use crate::support::prelude::*;

const BUCKET: &str = "therock-ci-artifacts";
const PREFIX: &str = "python-deps/";
const BRANCH: &str = "base-dependency-index";

/// A stage with a lock in its repository, and a checkout that leaves it there.
fn stage(files: &[(&str, &str)]) -> Stage {
    let mut stage = Stage::new(BUCKET, PREFIX, &dispatched());
    stage.repository.action(CHECKOUT, CHECKED_OUT);
    stage.repository.action(CREDENTIALS, &role(ROLE));
    for (name, text) in files {
        stage.repository.file(name, text);
    }
    stage
}

/// A list of one project, with a lock of it, and a newer version that is not in the lock.
fn locked() -> (Workplace, String, String) {
    let workplace = Workplace::new("['3.12']", "['linux']", &["filelock"]);
    let add = |version| {
        workplace.registry.wheel("filelock", version, "py3-none-any", "", json!({}));
    };
    add("3.0");
    workplace.deps(&["update"]).ok();
    add("3.1");
    let wishes = fs_err::read_to_string(workplace.path("deps.toml")).unwrap();
    let lock = workplace.lock();
    (workplace, wishes, lock)
}

#[test]
#[ignore = "long"]
fn long_the_locked_files_are_mirrored() {
    let (workplace, wishes, lock) = locked();
    let inputs = json!({"task": "mirror", "registry": workplace.registry.url, "address": "s3://therock-ci-artifacts/python-deps"});
    let stage = stage(&[("deps.toml", &wishes), ("deps.lock", &lock)]);
    let run = || stage.repository.call("dependencies.yml", &inputs).expect_success();
    run();
    let page = text(BUCKET, "python-deps/simple/filelock/index.html");
    assert_has!(page, "filelock-3.0-py3-none-any.whl#sha256=");
    let before = published(BUCKET, PREFIX);
    workplace.registry.requests();
    run();
    assert_eq!(published(BUCKET, PREFIX), before);
    assert_eq!(workplace.registry.requests(), [""; 0]);
}

#[test]
fn the_uv_of_the_workflows_is_the_one_of_the_tests() {
    let pinned = read("tests/requirements.txt");
    let pinned = pinned.lines().find(|line| line.starts_with("uv==")).unwrap();
    assert_has!(
        read(".github/workflows/dependencies.yml"),
        format!("{pinned} --hash=sha256:").as_str()
    );
    assert_has!(read(".github/workflows/frameworks.yml"), format!("install {pinned}\n").as_str());
}

#[test]
#[ignore = "long"]
fn long_a_new_lock_is_proposed_in_a_pull_request() {
    let (workplace, wishes, lock) = locked();
    let inputs = json!({"task": "update", "registry": workplace.registry.url});
    let mut stage = stage(&[("deps.toml", &wishes), ("deps.lock", &lock)]);
    let tree = stage.repository.path().join("tree");
    let origin = workplace.path("origin.git");
    let path = origin.to_str().unwrap();
    for line in [&["init", "--quiet"][..], &["init", "--quiet", "--bare", path]] {
        git(&tree, line);
    }
    git(&tree, &["remote", "add", "origin", path]);
    // It has no pull request, and writes down the one that is made.
    let tools = workplace.path("tools");
    fs_err::create_dir(&tools).unwrap();
    let made = workplace.path("made.txt");
    let script = format!(
        "#!/bin/bash\n[ \"$1 $2\" = 'pr view' ] && exit 1\n\
         [ \"$1 $2\" = 'pr create' ] && cat \"${{@: -1}}\" >'{}'\nexit 0\n",
        made.display()
    );
    // Its Python makes an environment with a pip that installs nothing, and with uv.
    let uv = tool("uv").display().to_string();
    let python = format!(
        "#!/bin/sh\nmkdir -p \"$3/bin\" && printf '#!/bin/sh\\n' >\"$3/bin/pip\" && chmod +x \"$3/bin/pip\" && ln -s '{uv}' \"$3/bin/uv\"\n"
    );
    for (name, script) in [("gh", &*script), ("python3", &*python)] {
        write_program(&tools.join(name), script);
    }
    stage.repository.tools(&tools);
    stage.repository.call("dependencies.yml", &inputs).expect_success();
    let body = fs_err::read_to_string(&made).unwrap();
    assert_has!(body, "+ filelock 3.1", "- filelock 3.0");
    let mut show = Command::new("git");
    show.arg("--git-dir").arg(&origin).args(["show", &format!("{BRANCH}:deps.lock")]);
    let pushed = String::from_utf8(succeed(&mut show).stdout).unwrap();
    assert_has!(pushed, "filelock-3.1-py3-none-any.whl");
    assert!(body.starts_with("```diff\n"), "{body}");
    let mut published = published(BUCKET, PREFIX).into_iter();
    assert_eq!(published.find(|path| path.starts_with("simple/")), None);
}
