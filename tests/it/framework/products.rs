//! Frameworks are published as packages of a product, and the summary says how to install them.

use super::{guide, split::names};
use crate::support::prelude::*;

/// The wheels of the guide, split and indexed.
fn published() -> std::path::PathBuf {
    guide::followed().join("published")
}

fn upload(packages: &Path, to: &Path, flags: &[&str]) -> Outcome {
    let places = [text(packages), "--output-dir", text(to)];
    rocwheel(&[&["upload"], &places[..], flags].concat())
}

#[test]
fn frameworks_are_packages_of_a_product() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("bucket");
    let refused = upload(&published(), &to, &["--product", "pytorch"]);
    assert_eq!(refused.code, 1);
    assert_has!(refused.stderr, "not of the product `pytorch`: `amd-fw-device`");
    let plan = upload(&published(), &to, &["--product", "fw", "--dry-run"]).ok();
    assert_has!(plan, "rocm/fw/whl-next/fw/fw-1.0+devrocm");
    assert!(!to.exists());
    upload(&published(), &to, &["--product", "fw"]).ok();
    let again = upload(&published(), &to, &["--product", "fw", "--format", "json"]).ok();
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["uploaded"], 0, "{again}");
    assert_eq!(again["command"], "upload");
    let product = to.join("rocm/fw/whl-next");
    insta::assert_snapshot!(names(&product).join("\n"), @r"
    amd-fw-device
    amd-fw-device-gfx1100
    amd-fw-device-gfx942
    fw
    index.html
    ");
    // The pages of the projects are for an installer.
    let target = place.path().join("site");
    let mut pip = std::process::Command::new(tool("pip"));
    pip.args(["install", "--no-index", "--quiet", "--no-deps", "--target"]);
    pip.arg(&target);
    for project in ["fw", "amd-fw-device-gfx942"] {
        let page = product.join(project);
        pip.arg("--find-links").arg(page).arg(project);
    }
    succeed(&mut pip);
    assert!(target.join("fw/.kpack").is_dir());
}

#[test]
fn a_wheel_and_its_split_form_do_not_meet() {
    let place = tempfile::tempdir().unwrap();
    let both = place.path().join("both");
    fs_err::create_dir(&both).unwrap();
    copy_files(&published(), &both);
    let fat = guide::only("tied");
    let name = fat.file_name().unwrap().to_str().unwrap();
    // As if it were for another Python.
    let name = name.replace("-py3-", "-py2.py3-");
    fs_err::copy(&fat, both.join(&name)).unwrap();
    for file in ["set.json", "SHA256SUMS", "index.html"] {
        let _ = fs_err::remove_file(both.join(file));
    }
    for flags in [
        ["--multi-target", "--no-summary", "--no-check"],
        ["--product=fw", "--dry-run", "--no-check"],
    ] {
        let refused = upload(&both, &place.path().join("to"), &flags);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        let expected = format!("`{name}` has its device code in it");
        assert_has!(refused.stderr, &expected);
    }
    assert!(!place.path().join("to").exists());
}

#[test]
fn the_summary_installs_a_framework_with_the_code_for_a_gpu() {
    let page = rocwheel(&["summary", text(&published())]).ok();
    let place = format!("file://{}", published().display());
    let page = page.replace(&place, "PLACE");
    let shown =
        page.lines().filter(|it| it.contains("install ") || it.starts_with("A line with two"));
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @"
    pip install --index-url PLACE/simple/ 'fw[device-gfx942]==1.0+devrocm0.99.1.dev0'
    uv pip install --default-index PLACE/simple/ 'fw[device-gfx942]==1.0+devrocm0.99.1.dev0'
    pip install --no-index --find-links PLACE/index.html 'fw[device-gfx942]==1.0+devrocm0.99.1.dev0'
    uv pip install --no-index --find-links PLACE/index.html 'fw[device-gfx942]==1.0+devrocm0.99.1.dev0'
    uv pip install --default-index https://pypi.org/simple/ --index PLACE/simple/ 'fw[device-gfx942]==1.0+devrocm0.99.1.dev0'
    pip install --index-url PLACE/simple/ 'fw[device-gfx1100]==1.0+devrocm0.99.1.dev0'
    uv pip install --default-index PLACE/simple/ 'fw[device-gfx1100]==1.0+devrocm0.99.1.dev0'
    pip install --no-index --find-links PLACE/index.html 'fw[device-gfx1100]==1.0+devrocm0.99.1.dev0'
    uv pip install --no-index --find-links PLACE/index.html 'fw[device-gfx1100]==1.0+devrocm0.99.1.dev0'
    uv pip install --default-index https://pypi.org/simple/ --index PLACE/simple/ 'fw[device-gfx1100]==1.0+devrocm0.99.1.dev0'
    A line with two indexes is for uv, which takes a package from the first index that has it. pip takes any build of a version that both have, and a stranger may have published one.
    ");
}

#[test]
fn the_summary_names_the_extra_of_a_wheel_that_is_not_split() {
    let place = tempfile::tempdir().unwrap();
    let tied = guide::only("tied");
    let packages = place.path().join("tied");
    fs_err::create_dir(&packages).unwrap();
    fs_err::copy(&tied, packages.join(tied.file_name().unwrap())).unwrap();
    let wanted = "'fw[device-gfx1100]==1.0+devrocm0.99.1.dev0'";
    // The second index does not read the metadata again.
    for _ in 0..2 {
        rocwheel(&["index", text(&packages)]).ok();
        let page = rocwheel(&["summary", text(&packages)]).ok();
        assert_has!(page, wanted);
    }
}

#[test]
fn place_names_the_bucket_of_a_product() {
    let place = |flags: &[&str]| rocwheel(&[&["place", "--offline"], flags].concat());
    let nightly = ["--product", "pytorch", "--release-type", "nightly"];
    insta::assert_snapshot!(place(&nightly).ok(), @"
    s3://therock-repo-amd-nightly-pytorch/v5/rocm/pytorch/whl-next/{project}/
    below:  s3://therock-repo-amd-nightly-pytorch/v5
    index:  https://nightly.repo.amd.com/rocm/whl-next/
    role:   arn:aws:iam::324352301041:role/therock-repo-nightly-pytorch
    ");
    let outputs = tempfile::NamedTempFile::new().unwrap();
    let mut command = command();
    command.args(["place", "--product=jax", "--release-type=prerelease"]);
    succeed(command.arg("--github-output").arg(outputs.path()));
    let outputs = fs_err::read_to_string(outputs.path()).unwrap();
    assert_has!(outputs, "s3://therock-repo-amd-rc-jax/v5");
    // The names of TheRock's `write_product_release_bucket_info.py`.
    for name in ["bucket", "iam_role", "aws_region", "package_index_url"] {
        assert_has!(outputs, &format!("{name}<<"));
    }
    let refused = [
        place(&["--product", "fw", "--release-type", "nightly"]),
        place(&["--product", "jax", "--release-type", "ci"]),
        place(&["--product", "jax"]),
    ];
    let shown = refused.map(|it| format!("exit {}: {}", it.code, it.stderr));
    insta::assert_snapshot!(shown.join("\n"), @"
    exit 2: error: no such product: `fw`

    hint: the products are core, pytorch, migraphx, onnxruntime, jax

    exit 2: error: no bucket takes packages of builds of the type `ci`

    hint: pass `--release-type nightly`, or another type whose builds are published

    exit 2: error: no release type, which decides the bucket

    hint: pass `--release-type nightly`, `prerelease`, `dev` or `dev-bkc`
    ");
}
