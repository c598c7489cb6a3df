//! `index` of a bucket, by the binary.

use super::{
    server::Server,
    upload::{Desk, KEYS},
};
use crate::publish::packages::wheel;
use crate::support::prelude::*;

fn index(desk: &Desk, variables: &[(&str, &str)], more: &str) -> Outcome {
    let line = format!("index --no-check s3://BUCKET/42-linux/python {more}");
    desk.outcome(&mut desk.command(variables, &line))
}

fn keys(desk: &Desk) -> BTreeSet<String> {
    desk.there().into_iter().map(|(key, _)| key).collect()
}

#[test]
#[ignore = "slow"]
fn an_index_of_a_bucket_follows_its_packages() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    desk.upload("").done();
    let uploaded = keys(&desk);
    // A job that comes later adds its own, as those of other packages do.
    let path = wheel(&desk.bench.root.join("dist"), "torch", "2.9", "");
    let bytes = fs_err::read(path).unwrap();
    desk.put("42-linux/python/dist/torch-2.9-py3-none-any.whl", &bytes);
    let dry = "--dry-run --no-sign-request";
    let plan = index(&desk, &[], dry);
    assert_eq!(plan.stderr, "");
    let plan = plan.ok();
    // The size of pages follows from the name of the server.
    let totals = plan.lines().last().unwrap();
    // A wheel that this machine has uploaded is not read for its sidecar, unless it was written within the last second.
    assert_has!(totals, "3 new (", ", 14 to replace (");
    let made = index(&desk, &KEYS, "");
    insta::assert_snapshot!(made.stderr, @"
    warning: this server drops the pages of directories, such as `42-linux/python/`: install with `--find-links` and the address of the `index.html` beside the packages
         Indexed 4 files, 1 of them of others, 3.92 KiB, of 4 projects
    ");
    insta::assert_snapshot!(made.ok(), @"http://HOST/BUCKET/42-linux/python/simple/");
    let there = keys(&desk);
    let new = there.difference(&uploaded);
    // This server makes a file of a directory's page.
    let new = new.filter(|key| !key.ends_with("torch/torch"));
    assert_eq!(new.count(), 3, "{there:?}");
    let again = index(&desk, &[], &format!("{dry} --format json"));
    let again: Value = serde_json::from_str(&again.ok()).unwrap();
    let actions = again["actions"].as_array().unwrap().iter();
    let left = actions.filter(|action| action["action"] != "same");
    // This server drops those that end in `/`.
    let left = left.filter(|action| !action["path"].as_str().unwrap().ends_with('/'));
    assert_eq!(left.count(), 0, "{again}");
}
