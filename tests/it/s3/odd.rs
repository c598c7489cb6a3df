//! The odd set in a bucket: uploaded, judged there, and described.

use super::upload::{Desk, KEYS};
use crate::support::{place::text, published};

#[test]
fn the_odd_set_is_in_a_bucket_what_it_was_in_a_directory() {
    let desk = Desk::new();
    let run = |arguments: &[&str]| desk.run(desk.command(&KEYS).args(arguments)).ok();
    let packages = published::odd().root().join("packages");
    let mut upload = vec!["upload", "--multi-target", "--platform", "linux"];
    upload.extend(["--run-id", "42", "--bucket", desk.bucket.as_str()]);
    upload.extend(["--packages-dir", text(&packages)]);
    run(&upload);
    let there = desk.there();
    // Nothing is sent or changed a second time.
    run(&upload);
    assert_eq!(desk.there(), there);
    let set = format!("s3://{}/42-linux/python", desk.bucket);
    let checked = run(&["check", &set, "--fail-on", "warning"]);
    assert!(
        checked.contains("nothing found in 7 packages\n"),
        "{checked}"
    );
    let summary = run(&["summary", &set]);
    let line = "pip install --index-url http://HOST/BUCKET/42-linux/python/simple/ \
                'rocm[libraries,devel,device-gfx1100]==0.0.1.dev0'";
    assert!(summary.contains(line), "{summary}");
}
