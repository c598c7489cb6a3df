//! `index` of a bucket, by the binary.

use super::{
    server::Server,
    upload::{Desk, KEYS},
};
use crate::{publish::packages::wheel, support::program::Outcome};

fn index(desk: &Desk, variables: &[(&str, &str)], more: &[&str]) -> Outcome {
    let place = format!("s3://{}/42-linux/python", desk.bucket);
    let mut command = desk.command(variables);
    desk.run(command.args(["index", "--no-check", &place]).args(more))
}

#[test]
#[ignore = "slow"]
fn an_index_of_a_bucket_follows_its_packages() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    desk.signed(&[]).ok();
    let uploaded: Vec<String> = desk.there().into_iter().map(|(key, _)| key).collect();
    // A job that comes later adds its own, as those of other packages do.
    let path = wheel(&desk.bench.root.join("dist"), "torch", "2.9", "");
    let bytes = fs_err::read(path).unwrap().leak();
    desk.put("42-linux/python/dist/torch-2.9-py3-none-any.whl", bytes);
    let dry = ["--dry-run", "--no-sign-request"];
    let plan = index(&desk, &[], &dry);
    assert_eq!(plan.stderr, "");
    let total = "5 new (8.69 KiB), 20 to replace (49.71 KiB), 3 there already (300 B)";
    assert!(plan.ok().ends_with(&format!("{total}\n")));
    let made = index(&desk, &KEYS, &[]);
    insta::assert_snapshot!(made.stderr, @"
    warning: this server drops the pages of directories, such as `42-linux/python/dist/`: install with `--find-links` and the address of the `index.html` beside the packages
         Indexed 4 files, 1 of them of others, 3.92 KiB, of 4 projects
    ");
    insta::assert_snapshot!(made.ok(), @"http://HOST/BUCKET/42-linux/python/simple/");
    let there: Vec<String> = desk.there().into_iter().map(|(key, _)| key).collect();
    let new: Vec<&String> = there.iter().filter(|key| !uploaded.contains(key)).collect();
    // This server makes a file of a directory's page.
    let new = new.iter().filter(|key| !key.ends_with("torch/torch"));
    assert_eq!(new.count(), 4, "{there:?}");
    let again = index(&desk, &[], &[&dry[..], &["--format", "json"]].concat());
    let again: serde_json::Value = serde_json::from_str(&again.ok()).unwrap();
    let actions = again["actions"].as_array().unwrap().iter();
    let left = actions.filter(|action| action["action"] != "same");
    // This server drops those that end in `/`.
    let left = left.filter(|action| !action["path"].as_str().unwrap().ends_with('/'));
    assert_eq!(left.count(), 0, "{again}");
}
