//! A set made by many machines, each of which fetches only what its part is made of.

use super::{files, refusal, succeed};
use crate::fetch::Fixture;
use crate::support::prelude::*;

/// As packages-spread.yml has them, and each package alone. The device wheels follow.
const PARTS: &str = "core,libraries,profiler,meta devel core libraries rocm-profiler rocm";

/// A run of its own, and a directory beside it.
struct Run {
    fixture: Fixture,
    place: PathBuf,
}

impl Run {
    fn new() -> Self {
        Self::of(published::sample())
    }

    fn of(set: &TestSet) -> Self {
        let fixture = Fixture::of(set);
        let place = fixture.bucket().with_file_name("parts");
        Self { fixture, place }
    }

    fn fetch(&self, only: &str) -> PathBuf {
        let artifacts = self.place.join("artifacts").join(only);
        let mut fetch = self.fixture.command();
        fetch.args(["--quiet", "--run-id", "7", "--output-dir"]);
        fetch.arg(&artifacts);
        if only != "whole" {
            fetch.args(["--only", only]);
        }
        succeed(&mut fetch);
        artifacts
    }

    /// A build to a directory of the run, with these flags.
    fn build(&self, artifacts: &Path, dest: &str, flags: &str) -> Command {
        let mut build = Command::new(ROCWHEEL);
        build.args(["--quiet", "build", "--artifact-dir"]);
        build.arg(artifacts).arg("--dest-dir");
        build.arg(self.place.join(dest)).args(flags.split_whitespace());
        build
    }

    fn refused(&self, artifacts: &Path, flags: &str) -> String {
        let said = refusal(&mut self.build(artifacts, "out", flags), 2);
        said.replace(artifacts.to_str().unwrap(), "HERE")
    }

    /// Removes the archives whose names begin like this.
    fn remove(&self, begin: &str) {
        let run = self.fixture.bucket().join("7-linux");
        for archive in files_of(&run) {
            if archive.starts_with(begin) {
                fs_err::remove_file(run.join(archive)).unwrap();
            }
        }
    }

    /// Whether the packages of one build are those of another, byte for byte. Returns how many.
    fn same(&self, part: &str, whole: &str) -> usize {
        let [part, whole] = [part, whole].map(|it| files(&self.place.join(it).join("dist")));
        for (name, bytes) in &part {
            assert!(whole[name] == *bytes, "{name}");
        }
        part.len()
    }
}

fn files_of(directory: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
#[ignore = "slow"]
fn what_a_part_fetches_is_enough_for_the_very_bytes_that_the_whole_has() {
    for set in sets() {
        let run = Run::of(set);
        let whole = files(&set.dist());
        let mut made = std::collections::BTreeSet::new();
        // What the host packages of the odd set are made of differs by no name.
        let is_short = set.name != "sample" && !long::is_on();
        let host = PARTS.split(' ').take(if is_short { 1 } else { 6 });
        let parts = host.map(str::to_owned);
        let devices = set.targets.iter().enumerate().map(|(number, target)| {
            let project = ["", "rocm-sdk-"][number % 2];
            format!("{project}device-{target}")
        });
        for part in parts.chain(devices) {
            let artifacts = run.fetch(&part);
            is_what_the_part_is_made_of(set, &part, &files_of(&artifacts));
            let flags = format!("--only {part} --targets {}", set.targets.join(","));
            succeed(&mut run.build(&artifacts, &part, &flags));
            for (name, bytes) in files(&run.place.join(&part).join("dist")) {
                assert!(whole[&name] == bytes, "{part}: {name}");
                made.insert(name);
            }
        }
        let mut expected: std::collections::BTreeSet<String> = whole.into_keys().collect();
        expected.retain(|name| !is_short || !name.starts_with("rocm_sdk_devel"));
        assert_eq!(made, expected);
    }
}

fn is_what_the_part_is_made_of(set: &TestSet, part: &str, fetched: &[String]) {
    let has = |text: &str| fetched.iter().any(|name| name.contains(text));
    for target in set.targets {
        let is_its_own = part.ends_with(target);
        assert_eq!(has(target), is_its_own, "{part}: {fetched:?}");
    }
    let is_host = !part.contains("gfx");
    assert_eq!(has("amd-llvm"), is_host, "{part}: {fetched:?}");
    let is_devel = part == "devel" || has("core-hip_dev_generic");
    assert_eq!(has("_dev_generic"), is_devel);
    assert!(!has("_test_"), "{part}: {fetched:?}");
}

#[test]
fn the_targets_of_both_platforms_are_printed_and_nothing_is_fetched() {
    let run = Run::new();
    let promised =
        "--linux-amdgpu-families gfx942;gfx1100 --windows-amdgpu-families gfx1201".to_owned();
    let all = run.fetch("whole");
    succeed(&mut run.build(&all, "whole", &promised));
    let part = promised + " --only meta --targets gfx942,gfx1100";
    succeed(&mut run.build(&run.fetch("meta"), "meta", &part));
    assert_eq!(run.same("meta", "whole"), 1);
}

#[test]
fn what_a_run_has_nothing_for_is_left_out_of_a_part_as_it_is_of_the_whole() {
    let run = Run::new();
    run.remove("rocprofiler-systems");
    run.remove("rocprofiler-compute");
    let all = run.fetch("whole");
    insta::assert_snapshot!(run.refused(&all, ""), @"
    error: package `profiler` (`rocprofiler-compute`, `rocprofiler-systems`) is missing

    hint: add the artifacts, or leave out on purpose what this run does not build: `--without profiler`
    ");
    succeed(&mut run.build(&all, "whole", "--without profiler"));
    let artifacts = run.fetch("core,profiler,meta");
    let flags = "--targets gfx942,gfx1100 --without profiler --only";
    let part = format!("{flags} core,profiler,meta");
    succeed(&mut run.build(&artifacts, "part", &part));
    assert_eq!(run.same("part", "whole"), 2);
    let refused = run.refused(&artifacts, &format!("{flags} profiler"));
    insta::assert_snapshot!(refused, @"error: none of these packages is in this set: `rocm-profiler`");
}

#[test]
#[ignore = "slow"]
fn artifacts_that_are_not_those_of_the_part_are_refused() {
    let run = Run::new();
    let device = run.fetch("device-gfx942");
    let refused = |artifacts: &Path, flags: &[&str]| {
        let said = flags.iter().map(|flags| run.refused(artifacts, flags));
        said.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(refused(&device, &[
        "--targets gfx942,gfx1100 --only device",
        "--targets gfx1100 --only meta",
        "--targets gfx942 --only device-gfx1100",
        "--targets gfx942,gfx_1 --only device-gfx942",
        "--targets generic --only device-gfx942",
        "--targets gfx942,gfx1100 --only core",
    ]), @r#"
    error: the artifacts in `HERE` come from `fetch --only device-gfx942`, which is not enough for `rocm-sdk-device-gfx1100`

    hint: fetch with the `--only` of this build

    error: the artifacts in `HERE` come from `fetch --only device-gfx942`
      caused by: no package `device-gfx942` in this set, which has `core`, `devel`, `device`, `device-gfx1100`, `libraries`, `meta`, `profiler`, `rocm`, `rocm-profiler`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx1100`, `rocm-sdk-libraries`

    hint: pass all targets of the run as `--target`

    error: no package `device-gfx1100` in this set, which has `core`, `devel`, `device`, `device-gfx942`, `libraries`, `meta`, `profiler`, `rocm`, `rocm-profiler`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries`

    error: unknown GPU target or family: `gfx_1`

    hint: `rocwheel targets all --emit table` lists targets and families

    error: unknown GPU target or family: `generic`

    hint: `rocwheel targets all --emit table` lists targets and families

    error: the artifacts in `HERE` come from `fetch --only device-gfx942`, which is not enough for `rocm-sdk-core`

    hint: fetch with the `--only` of this build
    "#);
    // As if they had been put there by hand.
    fs_err::remove_file(device.join(".rocwheel-fetch.json")).unwrap();
    insta::assert_snapshot!(refused(&device, &[
        "--targets gfx942,gfx1100 --only device",
        "--targets gfx1100 --only meta",
    ]), @"
    error: no device code for `gfx1100`: found `gfx942`

    hint: fetch what the package is made of, with the `--only` of this build

    error: device code for `gfx942`, which is not among the targets of the set: `gfx1100`

    hint: pass all targets of the run as `--target`
    ");
    // Without the targets, the package would not know of them.
    let host = run.fetch("core");
    insta::assert_snapshot!(refused(&host, &[
        "--targets gfx942,gfx1100 --only meta,devel",
        "",
        "--only core",
    ]), @"
    error: the artifacts in `HERE` come from `fetch --only core`, which is not enough for `rocm-sdk-devel`

    hint: fetch with the `--only` of this build

    error: the artifacts in `HERE` come from `fetch --only core`, which does not show all targets

    hint: build with `--only`, and all targets of the run as `--target`; or fetch all of it

    error: the artifacts in `HERE` come from `fetch --only core`, which does not show all targets

    hint: build with `--only`, and all targets of the run as `--target`; or fetch all of it
    ");
    let mut pipeline = Command::new(ROCWHEEL);
    pipeline.args(["--quiet", "pipeline", "--artifact-dir"]).arg(&host);
    pipeline.arg("--output-dir").arg(run.place.join("out"));
    let refused = refusal(&mut pipeline, 2);
    assert_has!(refused, "fetch --only core");
    assert!(!run.place.join("out/dist").exists());
    let meta = "--targets gfx942,gfx1100 --only meta";
    succeed(&mut run.build(&host, "out", meta));
}

#[test]
fn what_a_part_is_called_and_what_it_needs_are_looked_up_before_anything_is_fetched() {
    let run = Run::new();
    let refused = |arguments: &[&str]| {
        let mut fetch = run.fixture.command();
        fetch.args(["--quiet", "--run-id", "7", "--output-dir"]).arg(&run.place);
        refusal(fetch.args(arguments), 1)
    };
    insta::assert_snapshot!(refused(&["--only", "device-gfx950"]), @"error: no package `device-gfx950` in this set, which has `core`, `devel`, `device`, `device-gfx1100`, `device-gfx942`, `libraries`, `meta`, `profiler`, `rocm`, `rocm-profiler`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries`");
    insta::assert_snapshot!(refused(&["--only", "device-gfx1100", "--amdgpu-targets", "gfx942"]), @"error: no package `device-gfx1100` in this set, which has `core`, `devel`, `device`, `device-gfx942`, `libraries`, `meta`, `profiler`, `rocm`, `rocm-profiler`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries`");
    run.remove("base_lib_generic");
    insta::assert_snapshot!(refused(&["--only", "device-gfx942"]), @"
    error: not enough for packages: no `base_lib_generic`, which says what was built

    hint: pass `--allow-incomplete` to fetch anyway
    ");
    assert!(!run.place.exists());
}
