//! A wheel with ROCm in it and packages that bring ROCm too: in a set, at a place and in an environment.

use std::slice::from_ref;

use super::{Place, members, set};
use crate::support::{
    prelude::{text as text_at, *},
    published::VERSION,
};

const FLAGS: [&str; 3] = ["--bundle", "--target", "gfx942"];

/// A wheel with ROCm in it, alone in `DIRECTORY` of a place.
fn bundled(place: &Place, wheel: &DemoWheel, directory: &str) -> PathBuf {
    let tied = Place::new();
    tied.tie(&[tied.write(wheel)], &set(), &FLAGS).ok();
    let path = tied.only();
    fs_err::create_dir_all(place.0.path(directory)).unwrap();
    let copy = place.0.path(directory).join(path.file_name().unwrap());
    fs_err::copy(&path, &copy).unwrap();
    copy
}

fn other() -> DemoWheel {
    let mut wheel = DemoWheel::bare("other");
    let object = SharedObject::new("_other.so").needs("libamdhip64.so.7");
    wheel.add("other/_other.so", object.build());
    wheel
}

#[test]
fn a_wheel_that_only_says_that_it_has_rocm_in_it_may_not_have_files_of_rocm() {
    let place = Place::new();
    let tie_record = r#"{"schema": "rocwheel-tie-v1", "bundles": ["rocm-1.0.tar.gz"]}"#;
    let mut wheel = DemoWheel::bare("evil");
    wheel.add("rocm_sdk/__init__.py", "");
    wheel.add("evil-1.0.dist-info/rocm_tie.json", tie_record);
    fs_err::create_dir(place.0.path("alone")).unwrap();
    wheel.write(&place.0.path("alone"));
    let said = place.0.run("check alone");
    assert_eq!(said.code, 1);
    assert_has!(said.stdout, "RW113", "rocm_sdk/__init__.py");
    // A file that is not the file that `tie` wrote proves the same.
    let fw = bundled(&place, &DemoWheel::new(), "changed");
    let mut changed = members(&fw);
    changed.iter_mut().find(|it| it.0 == "rocm_sdk/__init__.py").unwrap().2 = b"mine".to_vec();
    record(&mut changed);
    fs_err::write(&fw, zipped(&changed)).unwrap();
    let said = place.0.run("check changed");
    assert_eq!(said.code, 1);
    assert_has!(said.stdout, "RW113");
}

#[test]
fn one_project_of_a_set_and_of_a_place_brings_rocm() {
    let place = Place::new();
    let fw = bundled(&place, &DemoWheel::new(), "alone");
    place.0.run("check alone").ok();
    bundled(&place, &other(), "two");
    fs_err::copy(&fw, place.0.path("two").join(fw.file_name().unwrap())).unwrap();
    let said = place.0.run("check two");
    assert_eq!(said.code, 1);
    assert_eq!(said.stdout.matches("RW113 conflicting-path:").count(), 2, "{}", said.stdout);
    assert_has!(said.stdout, "it has ROCm in it, and so has `fw-1.0-");
    assert_eq!(place.0.run("index two").code, 1);
    // Beside packages of ROCm, one finding says it.
    fs_err::create_dir(place.0.path("mixed")).unwrap();
    copy_files(&set(), &place.0.path("mixed"));
    fs_err::copy(&fw, place.0.path("mixed").join(fw.file_name().unwrap())).unwrap();
    let said = place.0.run("check mixed");
    assert_eq!(said.code, 1);
    assert_eq!(said.stdout.matches("RW113 conflicting-path:").count(), 1, "{}", said.stdout);
    // At a place, which has packages of ROCm already.
    let upload = |set: &str| {
        let flags = "--run-id=42 --bucket=mine --platform=linux --multi-target --output-dir out";
        place.0.run(&format!("upload {set} --no-check {flags}"))
    };
    fs_err::remove_file(place.0.path("mixed").join(fw.file_name().unwrap())).unwrap();
    upload("mixed").ok();
    let said = upload("alone");
    assert_eq!(said.code, 1, "{}", said.all());
    assert_has!(said.stderr, "`fw-1.0-", "has ROCm in it, and", "at a place without");
    assert!(!place.0.read("out/42-linux/python/set.json").contains("fw-1.0"));
}

#[test]
fn a_wheel_that_requires_rocm_does_not_go_with_a_wheel_that_has_it() {
    let place = Place::new();
    let fw = bundled(&place, &DemoWheel::new(), "alone");
    let mut more = other();
    let object = SharedObject::new("_more.so").needs("libfw.so").needs("libamdhip64.so.7");
    more.add("other/_more.so", object.build());
    place.tie(&[place.write(&more)], &set(), &["--host-provides", "libfw.so"]).ok();
    let mut check = command();
    check.arg("check").arg(set()).arg("--with").args([&fw, &place.only()]);
    let said = Outcome::of(check.output().unwrap());
    assert_eq!(said.code, 1);
    assert_has!(said.stdout, "RW113", &format!("it requires `rocm=={VERSION}`"));
    assert_lacks!(said.stdout, "RWF09");
}

#[test]
fn an_environment_has_one_rocm() {
    let place = Place::new();
    let fw = bundled(&place, &DemoWheel::new(), "alone");
    let venv = place.0.path("venv");
    succeed(Command::new(tool("uv")).args(["venv", "--quiet", "--python", "python3"]).arg(&venv));
    let install = |arguments: &[&str]| {
        let mut uv = Command::new(tool("uv"));
        uv.args(["pip", "install", "--quiet", "--no-index", "--python"]);
        succeed(uv.arg(venv.join("bin/python")).args(arguments));
    };
    install(&[text_at(&fw)]);
    // No command that `rocm_sdk` prints writes over its files.
    for arguments in [&["init"][..], &["path", "--root"], &["test"]] {
        let mut python = Command::new(venv.join("bin/python"));
        let output = python.args(["-m", "rocm_sdk"]).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_has!(said, "pip in another environment", "belong to fw");
        assert_lacks!(said, "pip install", "rocwheel install");
    }
    place.0.run("doctor venv --target gfx942").ok();
    let mut refused = place.0.command("install --target gfx942 --venv venv --extras libraries");
    let refused = Outcome::of(refused.arg(sample().place()).output().unwrap());
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert_has!(refused.stderr, "`fw` 1.0 in `", "has ROCm in it", "pip uninstall");
    // Another program does it all the same.
    install(&["--find-links", text_at(&set()), "rocm[libraries]"]);
    let said = place.0.run("doctor venv --target gfx942");
    assert_eq!(said.code, 1);
    assert_has!(said.stdout, "`fw` 1.0 has ROCm in it, and `rocm`", "uninstall `fw`");
    assert_eq!(said.stdout.matches("problem").count(), 1, "{}", said.stdout);
}

#[test]
fn a_tied_wheel_without_rocm_in_it_has_no_record_of_a_bundle() {
    let place = Place::new();
    let fw = place.write(&DemoWheel::new());
    place.tie(from_ref(&fw), &set(), &[]).ok();
    let record = members(&place.only()).into_iter().find(|it| it.0.ends_with("rocm_tie.json"));
    let record = String::from_utf8(record.unwrap().2).unwrap();
    assert_lacks!(record, "bundles", "bundled-files");
}
