//! Frameworks in a set that is promoted: they are tied to what it becomes.

use super::{built, copied, digests, fresh, promote};
use crate::framework::split;
use crate::support::{
    demo::{HOOK, libraries},
    prelude::*,
};

/// A framework whose version names ROCm, and one that needs it and whose version does not.
fn write_wheels(to: &Path) -> [PathBuf; 2] {
    let mut framework = DemoWheel::new();
    "1.0+rocm7.14.0rc1".clone_into(&mut framework.version);
    let mut plugin = DemoWheel::bare("plugin");
    "Requires-Dist: fw==1.0+rocm7.14.0rc1\n".clone_into(&mut plugin.headers);
    plugin.add("plugin/__init__.py", HOOK);
    let [_, (_, library)] = libraries();
    plugin.add("plugin/_P.so", library.build());
    [framework, plugin].map(|wheel| wheel.write(to))
}

/// Ties wheels to a set, into a directory.
fn tie(wheels: &[PathBuf], set: &Path, to: &Path, flags: &[&str]) {
    let mut tie = command();
    tie.args(["framework", "tie"]).args(wheels).args(flags);
    tie.arg("--set").arg(set).arg("--output-dir").arg(to);
    succeed(&mut tie);
}

/// Fails unless each package of the one directory is in the other.
fn assert_all_in(expected: &Path, promoted: &Path) {
    let promoted = digests(promoted);
    for wheel in digests(expected) {
        assert!(promoted.contains(&wheel), "{wheel:?}\n{promoted:#?}");
    }
}

/// What ties wheels to a release, as a promotion does it.
const AS_PROMOTED: [&str; 2] = ["--version-suffix", "set"];

#[test]
#[ignore = "slow"]
fn a_promoted_framework_is_the_one_that_is_tied_to_the_release() {
    let (candidate, release) = (built(sample(), "7.14.0rc1"), built(sample(), "7.14.0"));
    let place = fresh("frameworks");
    fs_err::create_dir_all(place.join("in")).unwrap();
    let wheels = write_wheels(&place.join("in"));
    let tested = copied(&candidate, "frameworks/set");
    tie(&wheels, &candidate, &tested, &[]);
    let plan = promote(&tested, "--to release --dry-run").ok();
    let (_, plan) = plan.split_once("\nfw-").unwrap();
    // There is a line for each extra.
    let lines = plan.lines().filter(|it| !it.contains("; extra == "));
    let plan = lines.collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(plan, @"
    1.0+rocm7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   fw-1.0+rocm7.14.0-py3-none-linux_x86_64.whl
      ties      2 of 2 binaries to ROCm 7.14.0
      + requires rocm[libraries]==7.14.* (libraries of 2 binaries)
      - requires rocm[libraries]==7.14.0rc1
      + extras  device, device-all, device-gfx1100, device-gfx942
      init      fw/_rocm_init.py for 7.14.*
      preload   amdhip64 hipblas

    plugin-1.0-py3-none-linux_x86_64.whl
      ties      1 of 1 binary to ROCm 7.14.0
      + requires fw==1.0+rocm7.14.0 (fw is in the group)
      + requires fw==1.0+rocm7.14.0 (libraries of fw, which is in the group)
      + requires rocm==7.14.* (libraries of 1 binary)
      - requires rocm==7.14.0rc1
      - requires fw==1.0+rocm7.14.0rc1
      + extras  device, device-all, device-gfx1100, device-gfx942
      init      plugin/_rocm_init.py for 7.14.*
      preload   amdhip64

    7 packages (2.42 MiB): 18 files edited, all others copied as they are
    ");
    let to = place.join("promoted");
    promote(&tested, &format!("--to release --into {}", text(&to))).ok();
    // What ties the framework to a release that was built, whether it was tied to the candidate or not.
    let tied = tested.join(wheels[0].file_name().unwrap());
    let [expected, untied] = ["expected", "untied"].map(|it| place.join(it));
    tie(&[tied], &release, &expected, &AS_PROMOTED);
    tie(&wheels[..1], &release, &untied, &AS_PROMOTED);
    assert_eq!(digests(&untied), digests(&expected));
    assert_all_in(&expected, &to.join("dist"));
    assert!(to.join("dist/plugin-1.0-py3-none-linux_x86_64.whl").exists());
    assert_eq!(digests(&to.join("dist")).len(), 9);
    rocwheel(&["check", text(&to)]).ok();
}

/// Its code is in packages of its own, and it is tied: before the promotion or after it.
#[test]
fn a_framework_that_was_split_is_promoted_with_its_device_packages() {
    let (candidate, release) = (built(sample(), "7.14.0rc1"), built(sample(), "7.14.0"));
    let place = fresh("frameworks-split");
    let path = |name: &str| place.join(name);
    fs_err::create_dir_all(path("fat")).unwrap();
    let mut wheel = split::wheel();
    "1.0+rocm7.14.0rc1".clone_into(&mut wheel.version);
    let fat = wheel.write(&path("fat"));
    split::split(&[fat], &path("parts"), &[]).ok();
    let parts = split::wheels_of(&path("parts"));
    let tested = copied(&candidate, "frameworks-split/set");
    tie(&parts, &candidate, &tested, &[]);
    let line = format!("--to release --no-check --into {}", text(&path("promoted")));
    promote(&tested, &line).ok();
    tie(&parts, &release, &path("expected"), &AS_PROMOTED);
    // With the sdist that selects one of the device wheels.
    assert_eq!(digests(&path("expected")).len(), parts.len() + 1);
    assert_all_in(&path("expected"), &path("promoted/dist"));
}
