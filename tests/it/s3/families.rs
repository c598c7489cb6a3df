//! A set without the kpack split for several families: built, judged, published and judged again.

use fs_err as fs;
use serde_json::Value;

use super::upload::{Desk, KEYS};
use crate::python::legacy;

const FAMILIES: [(&str, &str); 2] = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
const ROCM: &str = "rocm-0.0.1.dev0.tar.gz";

/// What later steps read of one output.
fn output(text: &str, name: &str) -> String {
    let start = format!("{name}<<");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&start));
    lines.nth(1).unwrap().to_owned()
}

#[test]
#[ignore = "slow"]
fn every_family_is_as_its_pages_promise_wherever_it_lies() {
    let desk = Desk::new();
    let path = |name: &str| desk.bench.path(name);
    fs::create_dir(path("artifacts")).unwrap();
    legacy::write_run(path("artifacts").as_ref(), &FAMILIES);
    let run = |arguments: &[&str]| desk.run(desk.command(&KEYS).args(arguments));
    let (artifacts, packages) = (path("artifacts"), path("packages"));
    run(&[
        "build",
        "--artifact-dir",
        &artifacts,
        "--dest-dir",
        &packages,
    ])
    .ok();
    // The sample has code for one target of each family, which is worth a warning.
    let sound = |place: &str| {
        let found = run(&["check", place, "--ignore", "RW303,RW316"]).ok();
        assert_eq!(found, "OK, no problems, 3 findings skipped in 8 packages\n");
    };
    sound(&packages);
    run(&["index", "--no-check", &packages]).ok();
    sound(&packages);

    let outputs = path("outputs");
    let (bucket, group) = (
        desk.bucket.as_str(),
        ["--multi-target", "--platform", "linux"],
    );
    let to = [
        "--run-id",
        "42",
        "--bucket",
        bucket,
        "--github-output",
        &outputs,
    ];
    let upload = [&["upload", "--packages-dir", &packages][..], &group, &to].concat();
    let for_windows = ["--multi-target", "--platform", "windows"];
    let wrong = run(&[
        &["upload", "--packages-dir", &packages][..],
        &for_windows,
        &to,
    ]
    .concat());
    let why = "a set that was built for linux is to be uploaded for windows";
    assert!(wrong.stderr.contains(why), "{}", wrong.stderr);
    assert_eq!(wrong.code, 2);
    let said = run(&upload).ok();
    let base = "http://HOST/BUCKET/42-linux/python/";
    let expected = ["", "gfx110X-all/", "gfx94X-dcgpu/"].map(|it| format!("{base}{it}simple/"));
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    let outputs = fs::read_to_string(outputs).unwrap();
    let indexes: Value = serde_json::from_str(&output(&outputs, "family-index-urls")).unwrap();
    let real = format!("http://127.0.0.1:{}/{bucket}/42-linux/python", desk.port);
    assert_eq!(
        indexes["gfx94X-dcgpu"],
        format!("{real}/gfx94X-dcgpu/simple/")
    );
    assert_eq!(output(&outputs, "package_find_links_url"), real + "/dist");
    assert_eq!(output(&outputs, "kpack_split"), "false");

    let set = format!("s3://{bucket}/42-linux/python");
    sound(&set);

    // One family's own file is another's no more: the finding names whose it is.
    let own = format!("packages/dist/gfx94X-dcgpu/{ROCM}");
    let mut bytes = fs::read(path(&own)).unwrap();
    bytes.extend(b"\n\n");
    fs::write(path(&own), bytes).unwrap();
    let broken = run(&[
        "check",
        &packages,
        "--ignore",
        "RW303,RW316",
        "--format",
        "json",
    ]);
    assert_eq!(broken.code, 1);
    let answer: Value = serde_json::from_str(&broken.stdout).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        assert_eq!(finding["id"], "RW702", "{finding}");
        assert_eq!(finding["file"], format!("gfx94X-dcgpu/{ROCM}"), "{finding}");
    }
}
