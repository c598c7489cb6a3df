//! What else a promotion does: a build as proof, yanks at the source, the pins of frameworks.

use super::{assert_same, built, built_of, fresh};
use crate::{
    publish::judge,
    support::{
        long,
        place::{copy_files, text},
        program::{Outcome, rocwheel},
        published::{odd, sample, sets},
    },
};

const COMMIT: &str = "7.14.0.dev0+8027b7a1047feb278027b7a1047feb278027b7a1";

/// Promotes without checks, by a build of the artifacts of a set.
fn by_build(set: &std::path::Path, artifacts: &std::path::Path, name: &str, goal: &str) -> Outcome {
    let to = fresh(name);
    let arguments = [
        "promote",
        text(set),
        "--to",
        goal,
        "--into",
        text(&to),
        "--no-check",
    ];
    let build = ["--by", "build", "--artifact-dir", text(artifacts)];
    rocwheel(&[&arguments[..], &build].concat())
}

/// Also the only way from a version that is bound to a commit, or to a base of components.
#[test]
fn a_build_proves_what_was_promoted() {
    for (set, from) in sets()
        .into_iter()
        .zip([COMMIT, "7.14.0a20260811+bkc.20260813"])
    {
        let tested = built(set, from);
        let name = format!("by-build-{}", set.name);
        by_build(&tested, &set.artifacts(), &name, "rc1").ok();
        let to = std::path::Path::new(crate::support::place::TEMPORARY)
            .join("promote")
            .join(name);
        assert_same(&to, &built(set, "7.14.0rc1"));
    }
    let refused = [
        by_build(
            &built(sample(), COMMIT),
            &sample().artifacts(),
            "by-build-final",
            "release",
        ),
        by_build(
            &built(sample(), "7.14.0rc1"),
            &odd().artifacts(),
            "by-build-other",
            "release",
        ),
    ];
    let said = refused.map(|it| {
        assert_eq!(it.code, 1, "{}", it.stderr);
        let error = it
            .stderr
            .split("error: ")
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        format!("{error}\n")
    });
    insta::assert_snapshot!(said.concat(), @"
    7.14.0.dev0+8027b7a1047feb278027b7a1047feb278027b7a1 cannot become `release`: it becomes a release candidate first

    hint: promote it with `--to rc1`, test that, and release it

    9 packages differ from a build of the artifacts
      `rocm-7.14.0.tar.gz`: the build makes other bytes
      `rocm_profiler-7.14.0-py3-none-linux_x86_64.whl`: the build makes other bytes
      `rocm_sdk_core-7.14.0-py3-none-linux_x86_64.whl`: the build makes other bytes
      `rocm_sdk_devel-7.14.0-py3-none-linux_x86_64.whl`: the build makes other bytes
      `rocm_sdk_device_gfx1010-7.14.0-py3-none-linux_x86_64.whl`: only the build has it
      `rocm_sdk_device_gfx1012-7.14.0-py3-none-linux_x86_64.whl`: only the build has it
      `rocm_sdk_device_gfx1100-7.14.0-py3-none-linux_x86_64.whl`: the build makes other bytes
      `rocm_sdk_device_gfx942-7.14.0-py3-none-linux_x86_64.whl`: the build makes other bytes
      `rocm_sdk_libraries-7.14.0-py3-none-linux_x86_64.whl`: the build makes other bytes

    hint: pass the flags that the set was built with; `rocwheel diff` compares it with what `rocwheel build` makes
    ");
    assert!(!fresh("by-build-other").exists());
}

/// What a flag of a build would change is refused, not ignored.
#[test]
fn flags_of_a_build_are_for_a_build() {
    let tested = built(sample(), "7.14.0rc1");
    let to = fresh("flags-of-a-build");
    let artifacts = sample().artifacts();
    let by_build = ["--by", "build", "--artifact-dir", text(&artifacts)];
    let refused = [
        vec!["--without", "profiler"],
        vec!["--on-collision", "refuse"],
        [&by_build[..], &["--reuse", text(&tested)]].concat(),
    ];
    let said = refused.map(|flags| {
        let promote = [
            "promote",
            text(&tested),
            "--to",
            "release",
            "--into",
            text(&to),
        ];
        let outcome = rocwheel(&[&promote[..], &flags].concat());
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        outcome.stderr
    });
    insta::assert_snapshot!(said.concat(), @"
    error: `--without` without `--by build`

    hint: no package is built; leave the flag out, or add `--by build`
    error: `--on-collision` without `--by build`

    hint: no package is built; leave the flag out, or add `--by build`
    error: `--by build` and `--reuse`: the build is a proof, so it packs everything
    ");
    assert!(!to.exists());
}

#[test]
fn what_was_tested_is_yanked_once_it_is_released() {
    let source = fresh("yank-source");
    fs_err::create_dir_all(source.join("dist")).unwrap();
    copy_files(
        &built(sample(), "7.14.0rc1").join("dist"),
        &source.join("dist"),
    );
    let to = fresh("yank-release");
    let arguments = [
        "promote",
        text(&source),
        "--to",
        "release",
        "--into",
        text(&to),
    ];
    let yank = ["--yank-source", "released as 7.14.0", "--no-check"];
    let promote = |more: &[&str]| rocwheel(&[&arguments[..], &yank, more].concat());
    // There is no index in which it could be yanked.
    let refused = promote(&[]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        !to.exists()
            && refused
                .stderr
                .contains("failed to find the index to yank in")
    );
    rocwheel(&["index", "--no-check", text(&source)]).ok();
    let plan = promote(&["--dry-run"]).ok();
    let (_, yanked) = plan.split_once("yanked at the source\n").unwrap();
    assert_eq!(yanked.matches("7.14.0rc1").count(), 7, "{yanked}");
    let page = |root: &std::path::Path| {
        let page = root.join("simple/rocm-sdk-core/index.html");
        fs_err::read_to_string(page).unwrap()
    };
    assert!(!page(&source).contains("data-yanked"));
    promote(&[]).ok();
    assert!(
        page(&source).contains("data-yanked=\"released as 7.14.0\""),
        "{}",
        page(&source)
    );
    assert!(!page(&to).contains("data-yanked"));
    // Again: it stays so, and an installer takes it by its very version only.
    promote(&[]).ok();
    if long::is_on() {
        let index = format!("file://{}/simple/", text(&source));
        let installed = |wanted: &str| {
            let target = tempfile::tempdir().unwrap();
            let pip = [
                "install",
                "--quiet",
                "--no-deps",
                "--pre",
                "--target",
                text(target.path()),
            ];
            judge(
                "pip",
                &[&pip[..], &["--index-url", &index, wanted]].concat(),
            )
            .code
        };
        assert_ne!(installed("rocm-sdk-core"), 0);
        assert_eq!(installed("rocm-sdk-core==7.14.0rc1"), 0);
    }
    let same = [
        "promote",
        text(&source),
        "--to",
        "same",
        "--into",
        text(&to),
    ];
    let refused = rocwheel(&[&same[..], &yank].concat());
    assert!(
        refused.stderr.contains("nothing replaces the packages"),
        "{}",
        refused.stderr
    );
}

/// Half a set, no set, and files of others.
#[test]
fn what_is_no_whole_set_is_refused() {
    let empty = fresh("no-set");
    fs_err::create_dir_all(&empty).unwrap();
    let others = fresh("others-only");
    fs_err::create_dir_all(&others).unwrap();
    crate::publish::packages::wheel(&others, "rocmfoo", "7.14.0rc1", "");
    let half = fresh("half-set");
    fs_err::create_dir_all(&half).unwrap();
    copy_files(&built(sample(), "7.14.0rc1").join("dist"), &half);
    fs_err::remove_file(half.join("rocm-7.14.0rc1.tar.gz")).unwrap();
    let said = [empty, others, half].map(|from| {
        let to = fresh("nothing");
        let arguments = [
            "promote",
            text(&from),
            "--to",
            "release",
            "--into",
            text(&to),
        ];
        let outcome = rocwheel(&arguments);
        assert_ne!(outcome.code, 0, "{}", outcome.stdout);
        assert!(!to.exists());
        let error = outcome.stderr.split("error: ").nth(1).unwrap_or_default();
        let error = error.replace(text(&from), "SET");
        format!(
            "exit {}\n{}\n",
            outcome.code,
            error.lines().next().unwrap_or_default()
        )
    });
    insta::assert_snapshot!(said.concat(), @"
    exit 2
    no wheel or sdist in `SET`
    exit 2
    no ROCm packages in the set
    exit 1
    check: 1 error in the package set
    ");
}

/// Names that only begin like those of a product have none.
#[test]
fn projects_are_of_a_product_by_their_whole_names() {
    for name in ["rocmfoo", "torchfoo", "jaxfoo"] {
        let set = fresh(&format!("product-{name}"));
        fs_err::create_dir_all(set.join("dist")).unwrap();
        copy_files(
            &built(sample(), "7.14.0rc1").join("dist"),
            &set.join("dist"),
        );
        crate::publish::packages::wheel(&set.join("dist"), name, "1.0", "");
        let arguments = [
            "promote",
            text(&set),
            "--to",
            "release",
            "--dry-run",
            "--no-check",
        ];
        let refused = rocwheel(&[&arguments[..], &["--layout", "product"]].concat());
        assert_eq!(refused.code, 1, "{}", refused.stdout);
        let said = format!("projects of no product: `{name}`");
        assert!(refused.stderr.contains(&said), "{}", refused.stderr);
    }
}

/// Two platforms that offer the same are published side by side; `products` has one that is refused.
#[test]
fn linux_and_windows_share_one_sdist() {
    let (artifacts, mut flags) = crate::build::windows_artifacts("promote-shared");
    "gfx942,gfx1100".clone_into(&mut flags[3]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let windows = built_of("shared-windows", &artifacts, "7.14.0", &flags);
    let linux = built_of("shared-linux", &sample().artifacts(), "7.14.0", &flags[2..]);
    let to = fresh("shared");
    for set in [&linux, &windows] {
        let arguments = ["promote", text(set), "--to", "same", "--into", text(&to)];
        rocwheel(&[&arguments[..], &["--layout", "product", "--no-check"]].concat()).ok();
    }
    let page = |project: &str| {
        let page = to
            .join("rocm/core/whl-next")
            .join(project)
            .join("index.html");
        let page = fs_err::read_to_string(page).unwrap();
        let files = page.matches("#sha256=").count();
        (
            files,
            page.contains("win_amd64"),
            page.contains("linux_x86_64"),
        )
    };
    assert_eq!(page("rocm-sdk-core"), (2, true, true));
    assert_eq!(page("rocm"), (1, false, false));
}
