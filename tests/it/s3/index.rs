//! `index` of a bucket, by the binary.

use super::{
    server::Server,
    upload::{Desk, KEYS},
};
use crate::{
    publish::{judge, packages::wheel, tree},
    support::program::Outcome,
};

fn index(desk: &Desk, variables: &[(&str, &str)], more: &[&str]) -> Outcome {
    let place = format!("s3://{}/42-linux/python", desk.bucket);
    let mut command = desk.command(variables);
    desk.run(command.args(["index", "--no-check", &place]).args(more))
}

#[test]
fn an_index_of_a_bucket_follows_its_packages() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    desk.signed(&[]).ok();
    let uploaded: Vec<String> = desk.there().into_iter().map(|(key, _)| key).collect();
    // A job that comes later adds its own, as those of other packages do.
    let path = wheel(&desk.bench.root.join("dist"), "torch", "2.9", "");
    let bytes = fs_err::read(path).unwrap().leak();
    desk.put("42-linux/python/dist/torch-2.9-py3-none-any.whl", bytes);
    let plan = index(&desk, &[], &["--dry-run", "--no-sign-request"]);
    assert_eq!(plan.stderr, "");
    insta::assert_snapshot!(plan.ok(), @"
    to s3://BUCKET/42-linux/python
    new           47 B  dist/torch-2.9-py3-none-any.whl.metadata
    replace      754 B  simple/_json/rocm-sdk-core/
    replace      754 B  simple/_json/rocm-sdk-core/index.json
    replace      744 B  simple/_json/rocm-sdk-device-gfx942/
    replace      744 B  simple/_json/rocm-sdk-device-gfx942/index.json
    replace      732 B  simple/_json/rocm-sdk-libraries/
    replace      732 B  simple/_json/rocm-sdk-libraries/index.json
    new          648 B  simple/_json/torch/
    new          648 B  simple/_json/torch/index.json
    replace   3.92 KiB  simple/rocm-sdk-core/
    replace   3.92 KiB  simple/rocm-sdk-core/index.html
    replace   3.90 KiB  simple/rocm-sdk-device-gfx942/
    replace   3.90 KiB  simple/rocm-sdk-device-gfx942/index.html
    replace   3.90 KiB  simple/rocm-sdk-libraries/
    replace   3.90 KiB  simple/rocm-sdk-libraries/index.html
    new       3.69 KiB  simple/torch/
    new       3.69 KiB  simple/torch/index.html
    replace   3.70 KiB  simple/index.html
    replace   3.70 KiB  simple/
    replace      243 B  simple/_json/index.json
    replace      243 B  simple/_json/
    replace   5.29 KiB  dist/index.html
    replace   5.29 KiB  dist/
    replace      980 B  SHA256SUMS
    replace   2.49 KiB  set.json
    5 new (8.69 KiB), 20 to replace (49.71 KiB), 3 there already (300 B)
    ");
    let made = index(&desk, &KEYS, &[]);
    insta::assert_snapshot!(made.stderr, @"
    warning: this server drops the pages of directories, such as `42-linux/python/dist/`: install with `--find-links http://HOST/BUCKET/42-linux/python/dist/index.html`
         Indexed 4 files, 1 of them of others, 3.92 KiB, of 4 projects
    ");
    insta::assert_snapshot!(made.ok(), @"http://HOST/BUCKET/42-linux/python/simple/");
    let there: Vec<String> = desk.there().into_iter().map(|(key, _)| key).collect();
    let new: Vec<&String> = there.iter().filter(|key| !uploaded.contains(key)).collect();
    // This server makes a file of a directory's page.
    let new = new.iter().filter(|key| !key.ends_with("torch/torch"));
    assert_eq!(new.count(), 4, "{there:?}");
    let again = index(
        &desk,
        &[],
        &["--dry-run", "--no-sign-request", "--format", "json"],
    );
    let again: serde_json::Value = serde_json::from_str(&again.ok()).unwrap();
    let actions = again["actions"].as_array().unwrap().iter();
    let left: Vec<&str> = actions
        .filter(|action| action["action"] != "same")
        .map(|action| action["path"].as_str().unwrap())
        // This server drops them.
        .filter(|path| !path.ends_with('/'))
        .collect();
    assert_eq!(left, [""; 0]);
    let base = format!(
        "http://127.0.0.1:{}/{}/42-linux/python",
        desk.port, desk.bucket
    );
    let (place, page) = (
        desk.bench.path("downloaded"),
        format!("{base}/dist/index.html"),
    );
    let download = [
        "download",
        "--isolated",
        "--no-cache-dir",
        "--quiet",
        "--dest",
        &place,
    ];
    let source = ["--no-index", "--find-links", &page, "torch"];
    judge("pip", &[&download[..], &source].concat()).ok();
    assert_eq!(tree(place.as_ref()), ["torch-2.9-py3-none-any.whl"]);
}

#[test]
fn an_index_that_may_not_be_written_is_an_error() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    let name = "rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl";
    let bytes = fs_err::read(desk.bench.path(&format!("dist/{name}"))).unwrap();
    desk.put(&format!("42-linux/python/dist/{name}"), bytes.leak());
    let refused = index(&desk, &[], &[]);
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(refused.stderr, @"
    error: access denied: `s3://BUCKET`
      caused by: nothing is written without credentials, unless `--no-sign-request` asks for it

    hint: no AWS credentials were found: set `AWS_PROFILE` or `AWS_ACCESS_KEY_ID`; the pull request of a fork mostly has none, and keeps its packages with `--output-dir`
    ");
    assert_eq!(desk.there().len(), 1);
    let nowhere = desk.run(
        desk.command(&KEYS)
            .args(["index", "--no-check", "s3://bucket"]),
    );
    insta::assert_snapshot!(nowhere.stderr, @r#"
    error: invalid value 's3://bucket' for '<DIR>': not a location such as `s3://bucket/key`: "s3://bucket"

    For more information, try '--help'.
    "#);
}
