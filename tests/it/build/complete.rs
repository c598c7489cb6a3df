//! A set holds everything that its own Python finds by name, or it is not built.

use super::{build, place, place_of, refusal, succeed};
use crate::pipeline::{environment, passes_its_own_tests};
use crate::support::place::empty;
use crate::support::prelude::*;

/// The names of the sample's archives, without one.
fn without(place: &Path, archive: &Path, then: impl FnOnce()) {
    let away = place.join("away");
    fs_err::rename(archive, &away).unwrap();
    then();
    fs_err::rename(&away, archive).unwrap();
}

fn archives(place: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(place.join("in")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Of an archive, or of a directory.
fn artifact(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.split(".tar").next().unwrap().to_owned()
}

/// Nothing in a package names these: documents, tests, and device code, whose coverage `check` knows.
const UNNAMED: &str = "blas_doc_generic blas_lib_gfx1100 blas_lib_gfx942:xnack+ \
                       blas_test_generic rccl_lib_gfx1100 rccl_lib_gfx942";

/// Of them, what the plan does not list as absent: no package has tests, and nothing else in the sets says
/// that they have code of that kind.
const UNLISTED: [&str; 3] =
    ["blas_test_generic", "blas_lib_gfx942:xnack+", "blas_lib_gfx1010:xnack+"];

const ODD_UNNAMED: &str = "blas_doc_generic blas_lib_gfx1010:xnack+ \
                           blas_lib_gfx1012 blas_lib_gfx1100 blas_lib_gfx942:xnack+ \
                           blas_test_generic \
                           rccl_lib_gfx1010 rccl_lib_gfx1012 rccl_lib_gfx1100 rccl_lib_gfx942";

#[test]
#[ignore = "slow"]
fn a_set_without_an_artifact_that_its_python_needs_is_not_built() {
    let unnamed = [UNNAMED, ODD_UNNAMED];
    for (set, unnamed) in sets().into_iter().zip(unnamed).take(long::rounds(1, 2)) {
        let found = not_needed(set);
        assert_eq!(found, unnamed.split(' ').map(str::to_owned).collect());
    }
}

/// The artifacts without which a set is built.
fn not_needed(set: &TestSet) -> BTreeSet<String> {
    let place = empty(&format!("build/each-{}", set.name));
    copy_tree(&set.artifacts(), &place.join("in"));
    let mut unnamed = BTreeSet::new();
    for archive in archives(&place) {
        let artifact = artifact(&archive);
        let (name, _) = artifact.split_once('_').unwrap();
        without(&place, &archive, || {
            let mut plan = build(&place, "out");
            let output = plan.args(["--plan", "--format=json"]).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            if output.status.success() {
                unnamed.insert(artifact.clone());
                let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
                let lacking = plan["not-in-run"].as_array().unwrap();
                let is_listed = lacking.contains(&artifact.trim_end_matches("_generic").into());
                assert_eq!(is_listed, !UNLISTED.contains(&&*artifact), "{artifact}: {lacking:?}");
                if long::is_on() && set.name == sample().name {
                    let out = format!("without-{artifact}");
                    succeed(&mut build(&place, &out));
                    let dist = place.join(out).join("dist");
                    passes_where_it_is_installed(set.name, &dist, &set.requirement());
                }
            } else {
                let holder = match name {
                    // The sample keeps three libraries there that a run has in `blas`.
                    "hipkernelprovider" => "`blas_",
                    // It has the manifest of the whole run.
                    "base" => "base_",
                    _ => &format!("`{name}_"),
                };
                assert!(said.contains(holder), "{artifact}: {said}");
            }
        });
    }
    unnamed
}

/// An artifact of a new project ships nowhere. `check` says so, also of the directory alone, and `pipeline`.
#[test]
fn an_artifact_that_no_package_takes_is_found_by_each_check() {
    let place = empty("build/unshipped");
    let artifacts = place.join("in");
    copy_tree(&sample().artifacts(), &artifacts);
    let new = artifacts.join("rocnew_lib_generic");
    fs_err::create_dir_all(new.join("math-libs/rocNEW/stage/lib")).unwrap();
    fs_err::write(new.join("artifact_manifest.txt"), "math-libs/rocNEW/stage\n").unwrap();
    fs_err::write(new.join("math-libs/rocNEW/stage/lib/rocnew.txt"), "new").unwrap();
    succeed(&mut build(&place, "out"));
    let said =
        "warning RW216 unshipped-artifact: no package has the files of the artifact `rocnew_lib`";
    let out = place.join("out");
    let check = ["check", text(&out), "--fail-on", "warning"];
    let found = rocwheel(&check);
    assert_eq!(found.code, 1, "{}", found.stderr);
    assert_has!(found.stdout, said);
    // The pages do not change that.
    rocwheel(&["index", text(&out)]).ok();
    assert_has!(rocwheel(&check).stdout, said);
    let accepted = place.join("accept.toml");
    let list = "[[accept]]\nrule = \"RW216\"\nsays = \"`rocnew_lib`\"\n\
                reason = \"packaged next month\"\nuntil = 2099-01-01\n";
    fs_err::write(&accepted, list).unwrap();
    rocwheel(&[&check[..], &["--accept", text(&accepted)]].concat()).ok();
    let all = place.join("all");
    let line = ["pipeline", "--artifact-dir", text(&artifacts), "--output-dir", text(&all)];
    let said = rocwheel(&line);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_has!(format!("{}{}", said.stdout, said.stderr), "RW216", "rocnew_lib");
}

/// What `check` says of a set without findings.
fn checked(set: &Path) -> String {
    rocwheel(&["check", text(set), "--fail-on", "warning"]).ok()
}

/// `rocm-sdk test` passes once a set is installed.
fn passes_where_it_is_installed(name: &str, dist: &Path, requirement: &str) {
    let python = environment(&format!("complete-{name}"));
    let mut uv = Command::new(tool("uv"));
    uv.args(["pip", "install", "--quiet", "--no-cache", "--no-index"]);
    uv.arg("--find-links").arg(dist).arg("--python").arg(&python);
    succeed(uv.arg(requirement));
    passes_its_own_tests(&python);
}

#[test]
fn another_policy_is_what_packages_sdist_and_extras_follow() {
    let place = place("policy");
    let built_in = fs_err::read_to_string("src/policy/packages.toml").unwrap();
    let rows = ["name = \"rpp\"", "name = \"rocgdb\"", "name = \"roccoremerge\""];
    let is_kept = |line: &&str| {
        let taken = ["    \"rpp\",", "    \"rocgdb\","].contains(line);
        !taken && !rows.iter().any(|row| line.contains(row))
    };
    let kept: Vec<&str> = built_in.lines().filter(is_kept).collect();
    let mut policy = kept.join("\n");
    policy = policy.replace("license = \"MIT\"", "license = \"Apache-2.0\"");
    policy = policy.replace("dist = \"rocm-profiler\"", "dist = \"rocm-sdk-profiler\"");
    policy += r#"
[[package]]
name = "extra"
kind = "runtime"
dist = "rocm-sdk-extra"
python = "rocm_sdk_extra"
summary = "ROCm SDK: a seventh package"
platforms = ["linux"]
scope = "any"
rpath = ["lib"]
scripts = [{ name = "rocgdb", runs = "bin/rocgdb", artifact = "rocgdb_run" }]
libraries = [{ name = "rpp", linux = "librpp.so*", artifact = "rpp_lib" }]

[[package.take]]
components = ["lib", "run"]
artifacts = ["rocgdb", "rpp"]
"#;
    let file = place.join("policy.toml");
    fs_err::write(&file, policy).unwrap();
    succeed(build(&place, "out").env("ROCWHEEL_TEST_PACKAGES", &file));
    let dist = place.join("out/dist");
    let tag = "0.99.1.dev0-py3-none-linux_x86_64.whl";
    assert!(dist.join(format!("rocm_sdk_profiler-{tag}")).exists());
    let read = |wheel: &str, member: &str| {
        let wheel = fs_err::File::open(dist.join(wheel)).unwrap();
        let mut wheel = zip::ZipArchive::new(wheel).unwrap();
        std::io::read_to_string(wheel.by_name(member).unwrap()).unwrap()
    };
    let extra = format!("rocm_sdk_extra-{tag}");
    let scripts = read(&extra, "rocm_sdk_extra-0.99.1.dev0.dist-info/entry_points.txt");
    let expected = "[console_scripts]\nrocgdb = rocm_sdk_extra._cli:rocgdb\n";
    assert_eq!(scripts, expected);
    let calls = read(&extra, "rocm_sdk_extra/_cli.py");
    let last = "def rocgdb() -> NoReturn:\n    _run('bin/rocgdb')\n";
    assert!(calls.ends_with(last), "{calls}");
    let tables = read(&extra, "rocm_sdk_extra/_dist_info.json");
    assert_has!(tables, "\"shortname\": \"rpp\",\n      \"package_name\": \"extra\",\n");
    let sdist = fs_err::File::open(dist.join("rocm-0.99.1.dev0.tar.gz")).unwrap();
    let mut sdist = tar::Archive::new(flate2::read::GzDecoder::new(sdist));
    let mut entries = sdist.entries().unwrap().map(Result::unwrap);
    let is_info =
        |entry: &tar::Entry<'_, _>| entry.path().unwrap().ends_with("rocm-0.99.1.dev0/PKG-INFO");
    let info = std::io::read_to_string(entries.find(is_info).unwrap()).unwrap();
    for line in [
        "License-Expression: Apache-2.0",
        "Requires-Dist: rocm-sdk-profiler==0.99.1.dev0; sys_platform == \"linux\" and extra == \"profiler\"",
        "Provides-Extra: extra",
        "Requires-Dist: rocm-sdk-extra==0.99.1.dev0; sys_platform == \"linux\" and extra == \"extra\"",
    ] {
        assert_has!(info, &format!("{line}\n"));
    }
    let said = checked(&place.join("out"));
    assert!(said.ends_with("OK, no problems in 8 packages\n"), "{said}");
}

#[test]
fn what_is_left_out_on_purpose_is_in_no_table_and_no_extra() {
    let place = place("on-purpose");
    for archive in archives(&place) {
        if ["fft_lib_generic", "rpp_lib_generic"].contains(&&*artifact(&archive)) {
            fs_err::remove_file(archive).unwrap();
        }
    }
    let said = refusal(&mut build(&place, "out"), 2);
    insta::assert_snapshot!(said, @"
    error: `lib/libhipfft.so*` (library `hipfft`) is missing: artifact `fft_lib_generic` has it; `lib/librpp.so*` (library `rpp`) is missing: artifact `rpp_lib_generic` has it

    hint: add the artifacts, or leave out on purpose what this run does not build: `--without fft,rpp`
    ");
    // The library `hipfft` goes with `fft`, and may be named besides.
    let without = "fft,hipfft,rpp,profiler,rocgdb";
    succeed(build(&place, "out").args(["--without", without]));
    let set = fs_err::read_to_string(place.join("out/set.json")).unwrap();
    let set: Value = serde_json::from_str(&set).unwrap();
    let expected = json!(["fft", "hipfft", "profiler", "rocgdb", "rpp"]);
    assert_eq!(set["without"], expected);
    let plan = succeed(build(&place, "out").args(["--plan", "--without", without])).stdout;
    let plan = String::from_utf8(plan).unwrap();
    assert_lacks!(plan, "rocm_profiler");
    let names = ["hipfft", "rpp", "rocgdb", "profiler"];
    names_nothing_of(&place.join("out/dist"), &names);
    if long::is_on() {
        let requirement = "rocm[libraries,devel,device-gfx942,device-gfx1100]==0.99.1.dev0";
        passes_where_it_is_installed("on-purpose", &place.join("out/dist"), requirement);
    }
    let refused = ["qwerty", "core"].map(|name| {
        let said = refusal(build(&place, "out").args(["--without", name]), 2);
        let (_, why) = said.split_once("caused by: ").unwrap();
        why.to_owned()
    });
    insta::assert_snapshot!(refused.concat(), @"
    no package, artifact, library or command is called `qwerty`
    no set goes without package `core`
    ");
}

#[test]
fn code_for_gpus_with_xnack_on_does_not_stand_for_the_others() {
    for (set, target) in sets().into_iter().zip(["gfx942", "gfx1010"]) {
        let place = place_of(set, "xnack");
        let archives = archives(&place);
        let plain = format!("blas_lib_{target}");
        let plain = archives.iter().find(|it| artifact(it) == plain).unwrap();
        fs_err::remove_file(plain).unwrap();
        let said = refusal(&mut build(&place, "out"), 2);
        let told = format!(
            "not enough for packages: no `blas_lib_{target}`; \
             `blas_lib_{target}:xnack+` runs only where XNACK is on"
        );
        assert_has!(said, &told);
    }
}

/// No table, no entry point and no extra has these names.
fn names_nothing_of(dist: &Path, names: &[&str]) {
    let core = dist.join("rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl");
    let mut core = zip::ZipArchive::new(fs_err::File::open(core).unwrap()).unwrap();
    let mut read = |member: &str| std::io::read_to_string(core.by_name(member).unwrap()).unwrap();
    let module = read("rocm_sdk_core/_dist_info.py");
    let tables = read("rocm_sdk_core/_dist_info.json");
    let scripts = read("rocm_sdk_core-0.99.1.dev0.dist-info/entry_points.txt");
    let mut info = Command::new("tar");
    info.args(["-xOf", text(&dist.join("rocm-0.99.1.dev0.tar.gz"))]);
    let info = succeed(info.arg("rocm-0.99.1.dev0/PKG-INFO")).stdout;
    let info = String::from_utf8(info).unwrap();
    for name in names {
        let quoted = format!("\"{name}\"");
        let absent = format!("ABSENT_PACKAGES.append('{name}')\n");
        assert!(module.contains(&absent) || !tables.contains(&quoted), "{quoted} in {tables}");
        let script = format!("\n{name} = ");
        assert_lacks!(scripts, &script);
        let extra = format!("Provides-Extra: {name}\n");
        assert_lacks!(info, &extra, &format!("extra == \"{name}\""));
    }
    // With other names it finds what it looks for.
    assert!(tables.contains("\"rocblas\"") || tables.contains("\"hipblas\""), "{tables}");
    assert_has!(scripts, "\nhipcc = ");
    assert_has!(info, "Provides-Extra: libraries\n");
}
