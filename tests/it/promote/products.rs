//! Release places: a directory for each project, among other versions.

use std::path::{Path, PathBuf};

use super::{built, built_of, fresh, promote, walkdir};
use crate::{
    publish::judge,
    support::{
        place::{copy_files, text},
        program::Outcome,
        published::{odd, sample},
    },
};

fn publish(set: &Path, to: &Path, line: &str) -> Outcome {
    promote(set, &format!("--into {} --layout product {line}", text(to)))
}

/// The paths below a directory, sorted.
fn paths(directory: &Path) -> Vec<String> {
    let paths = walkdir(directory).into_iter();
    let below = |it: PathBuf| text(it.strip_prefix(directory).unwrap()).to_owned();
    let mut paths: Vec<String> = paths.map(below).collect();
    paths.sort();
    paths
}

#[test]
#[ignore = "slow"]
fn versions_are_published_side_by_side() {
    let to = fresh("products");
    let candidate = built(sample(), "7.14.0rc1");
    publish(&candidate, &to, "--to same").ok();
    let first = paths(&to);
    publish(&candidate, &to, "--to release --no-check").ok();
    let core = to.join("rocm/core/whl-next");
    let page = fs_err::read_to_string(core.join("rocm-sdk-core/index.html")).unwrap();
    for version in ["7.14.0rc1", "7.14.0"] {
        let name = format!("rocm_sdk_core-{version}-py3-none-linux_x86_64.whl");
        let line = page
            .lines()
            .find(|it| it.contains(&format!("href=\"{name}#sha256=")));
        let line = line.unwrap();
        assert!(
            line.contains("data-requires-python") && line.contains("data-core-metadata"),
            "{line}"
        );
        assert!(core.join("rocm-sdk-core").join(name).exists());
    }
    let root = fs_err::read_to_string(core.join("index.html")).unwrap();
    assert!(root.contains("href=\"rocm-sdk-device-gfx942/\""), "{root}");
    insta::assert_snapshot!(first.join("\n"), @"
    promotions/7.14.0rc1-linux.json
    rocm/core/whl-next/index.html
    rocm/core/whl-next/rocm-profiler/index.html
    rocm/core/whl-next/rocm-profiler/rocm_profiler-7.14.0rc1-py3-none-linux_x86_64.whl
    rocm/core/whl-next/rocm-profiler/rocm_profiler-7.14.0rc1-py3-none-linux_x86_64.whl.metadata
    rocm/core/whl-next/rocm-sdk-core/index.html
    rocm/core/whl-next/rocm-sdk-core/rocm_sdk_core-7.14.0rc1-py3-none-linux_x86_64.whl
    rocm/core/whl-next/rocm-sdk-core/rocm_sdk_core-7.14.0rc1-py3-none-linux_x86_64.whl.metadata
    rocm/core/whl-next/rocm-sdk-devel/index.html
    rocm/core/whl-next/rocm-sdk-devel/rocm_sdk_devel-7.14.0rc1-py3-none-linux_x86_64.whl
    rocm/core/whl-next/rocm-sdk-devel/rocm_sdk_devel-7.14.0rc1-py3-none-linux_x86_64.whl.metadata
    rocm/core/whl-next/rocm-sdk-device-gfx1100/index.html
    rocm/core/whl-next/rocm-sdk-device-gfx1100/rocm_sdk_device_gfx1100-7.14.0rc1-py3-none-linux_x86_64.whl
    rocm/core/whl-next/rocm-sdk-device-gfx1100/rocm_sdk_device_gfx1100-7.14.0rc1-py3-none-linux_x86_64.whl.metadata
    rocm/core/whl-next/rocm-sdk-device-gfx942/index.html
    rocm/core/whl-next/rocm-sdk-device-gfx942/rocm_sdk_device_gfx942-7.14.0rc1-py3-none-linux_x86_64.whl
    rocm/core/whl-next/rocm-sdk-device-gfx942/rocm_sdk_device_gfx942-7.14.0rc1-py3-none-linux_x86_64.whl.metadata
    rocm/core/whl-next/rocm-sdk-libraries/index.html
    rocm/core/whl-next/rocm-sdk-libraries/rocm_sdk_libraries-7.14.0rc1-py3-none-linux_x86_64.whl
    rocm/core/whl-next/rocm-sdk-libraries/rocm_sdk_libraries-7.14.0rc1-py3-none-linux_x86_64.whl.metadata
    rocm/core/whl-next/rocm/index.html
    rocm/core/whl-next/rocm/rocm-7.14.0rc1.tar.gz
    ");
    // Again: nothing is written.
    let again = publish(&candidate, &to, "--to release --no-check --format json");
    let again: serde_json::Value = serde_json::from_str(&again.ok()).unwrap();
    assert_eq!(again["uploaded"], 0, "{again}");
    // The pages are links for an installer.
    let target = fresh("products-installed");
    let links = [
        "rocm-sdk-core",
        "rocm-sdk-libraries",
        "rocm-sdk-device-gfx942",
    ];
    let links = links.map(|it| text(&core.join(it)).to_owned());
    let links = links.iter().flat_map(|it| ["--find-links", it.as_str()]);
    let mut arguments = vec!["install", "--no-index", "--quiet", "--no-deps", "--target"];
    arguments.push(text(&target));
    arguments.extend(links);
    arguments.push("rocm-sdk-device-gfx942==7.14.0");
    judge("pip", &arguments).ok();
    assert!(
        target
            .join("rocm_sdk_device_gfx942-7.14.0.dist-info")
            .exists()
    );
}

/// The sdist of another set of the same version: nothing is changed.
#[test]
fn another_package_under_a_published_name_is_refused() {
    let to = fresh("products-refused");
    publish(&built(sample(), "7.14.0"), &to, "--to same --no-check").ok();
    let before = paths(&to);
    let outcome = publish(&built(odd(), "7.14.0"), &to, "--to same --no-check");
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("rocm-7.14.0.tar.gz"),
        "{}",
        outcome.stderr
    );
    // `promote` has no such flag.
    let hint = "hint: publish under another version: a file of this place is never replaced";
    assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
    assert!(
        !outcome.stderr.contains("--overwrite"),
        "{}",
        outcome.stderr
    );
    assert_eq!(paths(&to), before);
    let outcome = publish(&built(odd(), "7.14.0"), &to, "--to same --product x");
    assert!(
        outcome
            .stderr
            .contains("the products are core, pytorch, migraphx, onnxruntime, jax"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_dry_run_names_every_key() {
    let (candidate, place) = (built(sample(), "7.14.0rc1"), Path::new("s3://bucket/v5"));
    let line = "--to release --dry-run --targets gfx942 --no-check";
    let plan = publish(&candidate, place, line).ok();
    let (_, keys) = plan.split_once("published as\n").unwrap();
    insta::assert_snapshot!(keys, @"
      rocm/core/whl-next/rocm-profiler/rocm_profiler-7.14.0-py3-none-linux_x86_64.whl
      rocm/core/whl-next/rocm-profiler/rocm_profiler-7.14.0-py3-none-linux_x86_64.whl.metadata
      rocm/core/whl-next/rocm-sdk-core/rocm_sdk_core-7.14.0-py3-none-linux_x86_64.whl
      rocm/core/whl-next/rocm-sdk-core/rocm_sdk_core-7.14.0-py3-none-linux_x86_64.whl.metadata
      rocm/core/whl-next/rocm-sdk-devel/rocm_sdk_devel-7.14.0-py3-none-linux_x86_64.whl
      rocm/core/whl-next/rocm-sdk-devel/rocm_sdk_devel-7.14.0-py3-none-linux_x86_64.whl.metadata
      rocm/core/whl-next/rocm-sdk-device-gfx942/rocm_sdk_device_gfx942-7.14.0-py3-none-linux_x86_64.whl
      rocm/core/whl-next/rocm-sdk-device-gfx942/rocm_sdk_device_gfx942-7.14.0-py3-none-linux_x86_64.whl.metadata
      rocm/core/whl-next/rocm-sdk-libraries/rocm_sdk_libraries-7.14.0-py3-none-linux_x86_64.whl
      rocm/core/whl-next/rocm-sdk-libraries/rocm_sdk_libraries-7.14.0-py3-none-linux_x86_64.whl.metadata
      rocm/core/whl-next/rocm/rocm-7.14.0.tar.gz
      rocm/core/whl-next/index.html
      rocm/core/whl-next/rocm-profiler/index.html
      rocm/core/whl-next/rocm-sdk-core/index.html
      rocm/core/whl-next/rocm-sdk-devel/index.html
      rocm/core/whl-next/rocm-sdk-device-gfx942/index.html
      rocm/core/whl-next/rocm-sdk-libraries/index.html
      rocm/core/whl-next/rocm/index.html

    6 packages (2.25 MiB): 16 files edited, all others copied as they are
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
        let line = "--to release --dry-run --no-check --layout product";
        let refused = promote(&set, line);
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
        publish(set, &to, "--to same --no-check").ok();
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
