//! A set without the kpack split for several families: built, judged, published and judged again.

use super::upload::{Desk, UPLOAD};
use crate::python::legacy;
use crate::support::prelude::*;

const FAMILIES: [(&str, &str); 2] = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
const ROCM: &str = "rocm-0.99.1.dev0.tar.gz";

/// What later steps read of one output.
fn output<'a>(text: &'a str, name: &str) -> &'a str {
    let start = format!("{name}<<");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&start));
    lines.nth(1).unwrap()
}

#[test]
#[ignore = "slow"]
fn every_family_is_as_its_pages_promise_wherever_it_lies() {
    let desk = Desk::new();
    let path = |name: &str| desk.bench.root.join(name);
    fs_err::create_dir(path("artifacts")).unwrap();
    legacy::write_run(&path("artifacts"), &FAMILIES);
    desk.run("build --artifact-dir artifacts --dest-dir packages").done();
    // The sample has code for one target of each family, which is worth a warning.
    let check = |more: &str| desk.run(&format!("check --ignore RW303,RW316 {more}"));
    let is_sound = |place: &str| {
        let found = check(place).ok();
        let verdict = found.lines().next();
        assert_eq!(verdict, Some("OK, no problems, 3 findings skipped in 8 packages"), "{found}");
    };
    is_sound("packages");
    desk.run("index --no-check packages").done();
    is_sound("packages");

    let upload = format!("{UPLOAD} packages --github-output outputs");
    let wrong = desk.run(&upload.replace("linux", "windows"));
    assert_eq!(wrong.code, 2);
    wrong.says("a set that was built for linux is to be uploaded for windows");
    let said = desk.run(&upload).ok();
    let base = "http://HOST/BUCKET/42-linux/python/";
    let expected = ["", "gfx110X-all/", "gfx94X-dcgpu/"].map(|it| format!("{base}{it}simple/"));
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    let outputs = fs_err::read_to_string(path("outputs")).unwrap();
    let indexes: Value = serde_json::from_str(output(&outputs, "family-index-urls")).unwrap();
    let real = format!("http://127.0.0.1:{}/{}/42-linux/python", desk.port, desk.bucket);
    let of_family = format!("{real}/gfx94X-dcgpu/simple/");
    assert_eq!(indexes["gfx94X-dcgpu"], of_family);
    assert_eq!(output(&outputs, "package_find_links_url"), real + "/dist");
    assert_eq!(output(&outputs, "kpack_split"), "false");
    is_sound("s3://BUCKET/42-linux/python");

    // One family's own file is another's no more: the finding names whose it is.
    let own = path(&format!("packages/dist/gfx94X-dcgpu/{ROCM}"));
    let mut bytes = fs_err::read(&own).unwrap();
    bytes.extend(b"\n\n");
    fs_err::write(own, bytes).unwrap();
    let broken = check("packages --format json");
    assert_eq!(broken.code, 1);
    let answer: Value = serde_json::from_str(&broken.stdout).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        assert_eq!(finding["id"], "RW702", "{finding}");
        assert_eq!(finding["file"], format!("gfx94X-dcgpu/{ROCM}"), "{finding}");
    }
}
