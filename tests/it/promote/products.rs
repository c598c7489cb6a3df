//! Release places: a directory for each project, among other versions.

use super::{built, built_of, copied, fresh, promote};
use crate::{
    build::windows_artifacts,
    publish::{judge, packages::wheel},
    support::{place::empty, prelude::*, program::command, published::odd},
};

fn publish(set: &Path, to: &Path, line: &str) -> Outcome {
    promote(set, &format!("--into {} --layout product {line}", text(to)))
}

#[test]
#[ignore = "slow"]
fn versions_are_published_side_by_side() {
    let to = fresh("products");
    let candidate = built(sample(), "7.14.0rc1");
    let bucket = Path::new("s3://bucket/v5");
    let plan = publish(&candidate, bucket, "--to same --dry-run --no-check").ok();
    publish(&candidate, &to, "--to same").ok();
    let first = tree(&to);
    // A dry run names every file but the record.
    let (_, keys) = plan.split_once("published as\n").unwrap();
    let keys = keys.lines().map_while(|line| line.strip_prefix("  "));
    let mut keys: Vec<&str> = keys.chain(["promotions/7.14.0rc1-linux.json"]).collect();
    keys.sort_unstable();
    assert_eq!(keys, first);
    let is_shown = |it: &&String| it.contains("gfx942") || !it.contains("/rocm-");
    let shown: Vec<&str> = first.iter().filter(is_shown).map(String::as_str).collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    promotions/7.14.0rc1-linux.json
    rocm/core/whl-next/index.html
    rocm/core/whl-next/rocm-sdk-device-gfx942/index.html
    rocm/core/whl-next/rocm-sdk-device-gfx942/rocm_sdk_device_gfx942-7.14.0rc1-py3-none-linux_x86_64.whl
    rocm/core/whl-next/rocm-sdk-device-gfx942/rocm_sdk_device_gfx942-7.14.0rc1-py3-none-linux_x86_64.whl.metadata
    rocm/core/whl-next/rocm/index.html
    ");
    publish(&candidate, &to, "--to release --no-check").ok();
    let core = to.join("rocm/core/whl-next");
    let page = fs_err::read_to_string(core.join("rocm-sdk-core/index.html")).unwrap();
    for version in ["7.14.0rc1", "7.14.0"] {
        let name = format!("rocm_sdk_core-{version}-py3-none-linux_x86_64.whl");
        let href = format!("href=\"{name}#sha256=");
        let line = page.lines().find(|it| it.contains(&href)).unwrap();
        assert_has!(line, "data-requires-python", "data-core-metadata");
        assert!(core.join("rocm-sdk-core").join(name).exists());
    }
    let root = fs_err::read_to_string(core.join("index.html")).unwrap();
    assert_has!(root, "href=\"rocm-sdk-device-gfx942/\"");
    // Again: nothing is written.
    let again = publish(&candidate, &to, "--to release --no-check --format json");
    let again: Value = serde_json::from_str(&again.ok()).unwrap();
    assert_eq!(again["uploaded"], 0, "{again}");
    // The pages are links for an installer.
    let target = empty("promote/products-installed");
    let mut arguments = vec!["install", "--no-index", "--quiet", "--no-deps", "--target"];
    arguments.push(text(&target));
    let device = core.join("rocm-sdk-device-gfx942");
    arguments.extend(["--find-links", text(&device), "rocm-sdk-device-gfx942==7.14.0"]);
    judge("pip", &arguments).ok();
    let installed = target.join("rocm_sdk_device_gfx942-7.14.0.dist-info");
    assert!(installed.exists());
}

/// The sdist of another set of the same version: nothing is changed.
#[test]
fn another_package_under_a_published_name_is_refused() {
    let to = fresh("products-refused");
    publish(&built(sample(), "7.14.0"), &to, "--to same --no-check").ok();
    let before = tree(&to);
    let another = built(odd(), "7.14.0");
    let said = publish(&another, &to, "--to same --no-check").refused(1);
    // `promote` has no such flag.
    let hint = "hint: publish under another version: a file of this place is never replaced";
    assert_has!(said, "rocm-7.14.0.tar.gz", hint);
    assert_lacks!(said, "--overwrite");
    assert_eq!(tree(&to), before);
    let said = publish(&another, &to, "--to same --product x").stderr;
    assert_has!(said, "the products are core, pytorch, migraphx, onnxruntime, jax");
}

/// Names that only begin like those of a product have none.
#[test]
fn projects_are_of_a_product_by_their_whole_names() {
    let candidate = built(sample(), "7.14.0rc1");
    for name in ["rocmfoo", "torchfoo", "jaxfoo"] {
        let set = copied(&candidate, &format!("product-{name}"));
        wheel(&set, name, "1.0", "");
        let line = "--to release --dry-run --no-check --layout product";
        let said = promote(&set, line).refused(1);
        assert_has!(said, &format!("projects of no product: `{name}`"));
    }
}

#[test]
fn a_page_says_the_digest_of_a_file_that_was_replaced() {
    let to = fresh("replaced");
    publish(&built(sample(), "7.14.0rc1"), &to, "--to same --no-check").ok();
    let core = to.join("rocm/core/whl-next/rocm-sdk-core");
    let page = || fs_err::read_to_string(core.join("index.html")).unwrap();
    let before = page();
    let mut files = fs_err::read_dir(&core).unwrap().map(|it| it.unwrap().path());
    let wheel = files.find(|it| it.extension().is_some_and(|it| it == "whl")).unwrap();
    // Of the same length, and with the old modification time, as some tools leave it.
    let time = fs_err::metadata(&wheel).unwrap().modified().unwrap();
    let mut bytes = fs_err::read(&wheel).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs_err::remove_file(&wheel).unwrap();
    fs_err::write(&wheel, &bytes).unwrap();
    let file = fs_err::File::options().write(true).open(&wheel).unwrap();
    file.set_modified(time).unwrap();
    let mut index = command();
    index.arg("index").arg(&to).args(["--layout", "product", "--no-check"]);
    let said = Outcome::of(index.output().unwrap());
    assert_has!(said.stderr, "has other bytes than its page said");
    said.ok();
    let sha256 = Sha256::of(&bytes).to_string();
    assert!(!before.contains(&sha256) && page().contains(&sha256));
}

/// Two platforms that offer the same are published side by side; `products` has one that is refused.
#[test]
fn linux_and_windows_share_one_sdist() {
    let (artifacts, mut flags) = windows_artifacts("promote-shared");
    "gfx942,gfx1100".clone_into(&mut flags[3]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let windows = built_of("shared-windows", &artifacts, "7.14.0", &flags);
    let linux = built_of("shared-linux", &sample().artifacts(), "7.14.0", &flags[2..]);
    let to = fresh("shared");
    for set in [&linux, &windows] {
        publish(set, &to, "--to same --no-check").ok();
    }
    let files = |project: &str| {
        let page = format!("rocm/core/whl-next/{project}/index.html");
        let page = fs_err::read_to_string(to.join(page)).unwrap();
        ["#sha256=", "win_amd64", "linux_x86_64"].map(|it| page.matches(it).count())
    };
    let [core, of_windows, of_linux] = files("rocm-sdk-core");
    assert!(core == 2 && of_windows > 0 && of_linux > 0);
    assert_eq!(files("rocm"), [1, 0, 0]);
}

#[test]
fn a_product_inside_another_one_is_indexed_once() {
    let place = fresh("products-nested");
    for project in ["a/alpha", "a/b/beta", "a/zeta"] {
        let directory = place.join("rocm").join(project);
        fs_err::create_dir_all(&directory).unwrap();
        wheel(&directory, project.rsplit('/').next().unwrap(), "1.0", "");
    }
    let mut index = command();
    index.arg("index").arg(&place).args(["--layout", "product", "--no-check"]);
    let said = Outcome::of(index.output().unwrap()).ok();
    insta::assert_snapshot!(said.replace(text(&place), "PLACE"), @"
    file://PLACE/rocm/a/
    file://PLACE/rocm/a/b/
    ");
}
