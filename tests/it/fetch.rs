//! `fetch` from a directory laid out like a bucket, as a user sees it.

mod bucket;
mod by_hand;
mod elsewhere;
mod find;
mod flat;
mod flipped;
mod found;
pub(crate) mod full;
mod hosted;
mod killed;
pub(crate) mod tree;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use crate::support::{
    program::ROCWHEEL,
    published::{self, TestSet, sets},
};
use fs_err as fs;
use rocwheel::{artifact::sample, digest::Sha256};
use tempfile::TempDir;

/// A bucket with a set, the sample if nothing is said, as run 7, and a directory to fetch to.
pub(crate) struct Fixture {
    directory: TempDir,
}

/// What the binary said, with the fixture's own paths as `BUCKET` and `OUT`.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::of(published::sample())
    }

    pub(crate) fn of(set: &TestSet) -> Self {
        let fixture = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(fixture.run()).unwrap();
        for (name, bytes) in set.archives() {
            let sidecar = format!("{}  {name}\n", Sha256::of(&bytes));
            fs::write(fixture.run().join(format!("{name}.sha256sum")), sidecar).unwrap();
            fs::write(fixture.run().join(name), bytes).unwrap();
        }
        fs::create_dir(fixture.run().join("logs")).unwrap();
        fs::write(
            fixture.run().join("logs/ccache_logs.tar.zst"),
            "no artifact",
        )
        .unwrap();
        fs::write(fixture.run().join("index.html"), "no artifact").unwrap();
        fixture
    }

    pub(crate) fn bucket(&self) -> PathBuf {
        self.directory.path().join("bucket")
    }

    fn run(&self) -> PathBuf {
        self.bucket().join("7-linux")
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    /// From the bucket, to where the arguments are still to say.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(ROCWHEEL);
        command
            .env_clear()
            .args(["fetch", "--platform", "linux", "--input-dir"])
            .arg(self.bucket());
        command
    }

    fn fetch(&self, arguments: &str) -> Said {
        let bucket = self.bucket();
        self.run_binary(&format!("--input-dir {} {arguments}", bucket.display()))
    }

    /// From wherever the arguments say.
    fn run_binary(&self, arguments: &str) -> Said {
        let output = Command::new(ROCWHEEL)
            .env_clear()
            .args(["fetch", "--platform", "linux"])
            .arg("--output-dir")
            .arg(self.out())
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        let text = |bytes| {
            String::from_utf8(bytes)
                .unwrap()
                .replace(self.bucket().to_str().unwrap(), "BUCKET")
                .replace(self.out().to_str().unwrap(), "OUT")
        };
        Said {
            code: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Names in the output directory; none before it is made.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.out()) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// The names of a set's artifacts, as directories.
fn stems(set: &TestSet) -> Vec<String> {
    let archives = set.archives().into_iter();
    let mut stems: Vec<String> = archives
        .map(|(name, _)| name.split_once(".tar.").unwrap().0.to_owned())
        .collect();
    stems.push(".rocwheel-fetch.json".to_owned());
    stems.sort();
    stems
}

fn verbs(stdout: &str) -> Vec<&str> {
    let mut verbs: Vec<&str> = stdout
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|word| *word != "run")
        .collect();
    verbs.pop();
    verbs.dedup();
    verbs
}

fn spoil(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_whole_run_is_fetched_once_and_then_kept() {
    sets().into_iter().for_each(is_fetched_once_and_then_kept);
}

fn is_fetched_once_and_then_kept(set: &TestSet) {
    let fixture = Fixture::of(set);
    let first = fixture.fetch("--run-id 7");
    assert_eq!(
        (first.code, verbs(&first.stdout)),
        (0, vec!["fetch"]),
        "{}",
        first.stderr
    );
    assert_eq!(fixture.names(), stems(set));
    let second = fixture.fetch("--run-id 7");
    assert_eq!((second.code, verbs(&second.stdout)), (0, vec!["keep"]));
    assert!(!second.stderr.contains("Fetched"), "{}", second.stderr);

    fs::remove_file(fixture.out().join("base_lib_generic/artifact_manifest.txt")).unwrap();
    let third = fixture.fetch("--run-id 7");
    assert!(third.stdout.contains("renew"), "{}", third.stdout);
    assert_eq!(
        third.stderr.matches("Fetched").count(),
        1,
        "{}",
        third.stderr
    );
    assert!(
        fixture
            .out()
            .join("base_lib_generic/artifact_manifest.txt")
            .exists()
    );
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let fixture = Fixture::new();
    let said = fixture.fetch("--run-id 7 --dry-run --amdgpu-targets gfx1100 blas");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(fixture.names().is_empty());
    let sizes = regex::Regex::new(r"[0-9.]+ [KM]iB").unwrap();
    let shown = sizes.replace_all(&said.stdout, "SIZE").into_owned() + &said.stderr;
    insta::assert_snapshot!(shown, @"
    fetch       272 B blas_dev_generic.tar.xz
    fetch       177 B blas_doc_generic.tar.zst
    fetch  SIZE blas_lib_generic.tar.zst
    fetch  SIZE blas_lib_gfx1100.tar.zst
    fetch       364 B blas_test_generic.tar.xz
    fetch   SIZE host-blas_lib_generic.tar.zst
    6 archives of SIZE from BUCKET/7-linux to OUT
          Listed 37 artifacts in BUCKET/7-linux
    note: left out, and part of the packages: `amd-llvm_lib_generic`, `amd-llvm_run_generic`, `base_lib_generic`, `base_run_generic`, `core-amdsmi_lib_generic`, `core-hip_dev_generic`, and 22 more
    ");
}

#[test]
fn a_script_gets_json() {
    let fixture = Fixture::new();
    let said = fixture.fetch("--run-id 7 --format json --dry-run base_lib");
    let plan: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(plan["schema"], "rocwheel-fetch-v1");
    let archive = &plan["archives"][0];
    let name = archive["name"].as_str().unwrap();
    let bytes = fs::read(fixture.run().join(name)).unwrap();
    assert_eq!(archive["sha256"], Sha256::of(&bytes).to_string());
    assert_eq!(archive["size"], bytes.len());
    assert_eq!(archive["state"], "new");
    assert_eq!(archive["path"], "base_lib_generic");
}

#[test]
fn archives_are_kept_when_they_are_not_to_be_unpacked() {
    let fixture = Fixture::new();
    let said = fixture.fetch("--run-id 7 --no-extract");
    assert_eq!(said.code, 0, "{}", said.stderr);
    for archive in sample::archives().unwrap() {
        let path = fixture.out().join(archive.file_name);
        assert_eq!(fs::read(path).unwrap(), archive.bytes);
    }
    assert_eq!(
        verbs(&fixture.fetch("--run-id 7 --no-extract").stdout),
        ["keep"]
    );
}

#[test]
fn each_failure_is_reported_and_the_others_are_fetched() {
    let fixture = Fixture::new();
    spoil(&fixture.run().join("blas_lib_gfx942.tar.zst"));
    fs::write(fixture.run().join("blas_lib_generic.tar.zst.sha256sum"), "").unwrap();
    let said = fixture.fetch("--run-id 7");
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(
        fixture.names().is_empty(),
        "an unusable digest is found before anything is fetched"
    );
    insta::assert_snapshot!(said.stderr, @"
          Listed 37 artifacts in BUCKET/7-linux
    error: failed to read `blas_lib_generic.tar.zst.sha256sum`
      caused by: an empty file where a SHA-256 was expected
    ");

    fs::remove_file(fixture.run().join("blas_lib_generic.tar.zst.sha256sum")).unwrap();
    let said = fixture.fetch("--run-id 7");
    assert_eq!(said.code, 1);
    let mut expected = stems(published::sample());
    expected.retain(|name| name != "blas_lib_gfx942");
    assert_eq!(fixture.names(), expected);
    let error = said.stderr.split("error: ").nth(1).unwrap();
    insta::assert_snapshot!(error, @"
    1 of 37 archives not fetched
      failed to fetch `blas_lib_gfx942.tar.zst`: failed to unpack `blas_lib_gfx942.tar.zst`: the zstd data is damaged: Restored data doesn't match checksum

    hint: run it again: what is whole is kept

    hint: download the archive again; if that does not help, rebuild it in its run
    ");
}

#[test]
fn a_directory_of_archives_alone_will_do() {
    let fixture = Fixture::new();
    fs::rename(fixture.run(), fixture.directory.path().join("flat")).unwrap();
    fs::remove_dir(fixture.bucket()).unwrap();
    fs::rename(fixture.directory.path().join("flat"), fixture.bucket()).unwrap();
    let said = fixture.fetch("");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(fixture.names(), stems(published::sample()));
}

#[test]
fn what_is_not_there_is_an_answer() {
    let fixture = Fixture::new();
    let said = fixture.fetch("--run-id 8");
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.stderr, @"
    error: no artifacts for linux in BUCKET/8-linux

    hint: check `--input-dir`, `--run-id` and `--platform`
    ");
    let said = fixture.run_binary("--input-dir nowhere --run-id 8");
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr, @"
    error: not a directory: `nowhere`

    hint: check `--input-dir`
    ");
    let said = fixture.fetch("--run-id 7 --amdgpu-targets gfx950");
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.stderr, @"
          Listed 37 artifacts in BUCKET/7-linux
    error: no artifact of the run matches target `gfx950`

    hint: it has 37 artifacts: amd-llvm, base, blas, core-amdsmi, core-hip, core-kpack, core-runtime, fft, hipdnn, hipfile, hipify, hipkernelprovider, host-blas, miopen, prim, rand, rccl, rocdecode, rocgdb, rocjpeg, rocprofiler-compute, rocprofiler-sdk, rocprofiler-systems, rpp, sysdeps (lib, run, dev, doc, test) for generic, gfx1100, gfx942, gfx942:xnack+
    ");
    fs::remove_file(fixture.run().join("base_lib_generic.tar.zst")).unwrap();
    let said = fixture.fetch("--run-id 7");
    assert_eq!((said.code, fixture.names().len()), (1, 0));
    let said = fixture.fetch("--run-id 7 --allow-incomplete");
    assert_eq!(said.code, 0, "{}", said.stderr);
}

#[test]
fn the_prefix_of_a_repository_of_its_own_is_looked_in_first() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.bucket().join("ROCm-rocm-libraries")).unwrap();
    let shared = fixture.bucket().join("ROCm-rocm-libraries/7-linux");
    fs::rename(fixture.run(), shared).unwrap();
    let said = fixture.fetch("--run-id https://github.com/ROCm/rocm-libraries/actions/runs/7");
    assert_eq!(said.code, 0, "{}", said.stderr);
}

#[test]
fn artifacts_of_another_run_are_reported() {
    let fixture = Fixture::new();
    let ways = [("", "blas_dev_generic"), ("--flatten", "blas_dev_generic")];
    for (way, other) in ways {
        assert_eq!(fixture.fetch(&format!("--run-id 7 {way} {other}")).code, 0);
        let alone = fixture.fetch(&format!("--run-id 7 {way} blas_doc {other}"));
        assert!(!alone.stderr.contains("warning"), "{}", alone.stderr);
        fs::rename(fixture.run(), fixture.bucket().join("8-linux")).unwrap();
        let said = fixture.fetch(&format!("--run-id 8 {way} blas_doc"));
        assert_eq!(said.code, 0, "{}", said.stderr);
        insta::allow_duplicates! {
            insta::assert_snapshot!(said.stderr.split_once("warning: ").unwrap().1, @"`OUT` also has 1 artifact from `BUCKET/7-linux`: `blas_dev_generic`; remove what does not belong together, or choose another `--output-dir`");
        }
        fs::rename(fixture.bucket().join("8-linux"), fixture.run()).unwrap();
        fs::remove_dir_all(fixture.out()).unwrap();
    }
}

#[test]
fn the_next_fetch_deletes_what_a_killed_one_left() {
    let fixture = Fixture::new();
    let out = fixture.out();
    fs::create_dir_all(out.join("base_lib_generic.part/lib")).unwrap();
    fs::create_dir_all(out.join("base_run_generic.old")).unwrap();
    let part = fs::File::create(out.join(".rocwheel-abc.part")).unwrap();
    let yesterday = SystemTime::now() - Duration::from_hours(25);
    part.into_parts().0.set_modified(yesterday).unwrap();
    let looked = fixture.fetch("--run-id 7 --dry-run blas_dev");
    assert_eq!((looked.code, fixture.names().len()), (0, 3));
    let said = fixture.fetch("--run-id 7 blas_dev");
    assert_eq!(said.code, 0, "{}", said.stderr);
    // The other may be somebody's own.
    let left = [
        ".rocwheel-fetch.json",
        "base_run_generic.old",
        "blas_dev_generic",
    ];
    assert_eq!(fixture.names(), left);
}

#[test]
fn a_file_is_no_directory_to_fetch_to() {
    let fixture = Fixture::new();
    fs::write(fixture.out(), "mine").unwrap();
    let mut said = String::new();
    for arguments in ["--dry-run", "", "--flatten"] {
        let refused = fixture.fetch(&format!("--run-id 7 {arguments} blas_dev"));
        assert_eq!(refused.code, 2);
        said += refused.stderr.split_once("error: ").unwrap().1;
    }
    insta::assert_snapshot!(said, @"
    not a directory: `OUT`

    hint: choose another `--output-dir`
    no directory to write to: `OUT`
      caused by: failed to create directory `OUT`: File exists (os error 17)

    hint: choose another `--output-dir`
    no directory to write to: `OUT`
      caused by: failed to create directory `OUT`: File exists (os error 17)

    hint: choose another `--output-dir`
    ");
    assert_eq!(fs::read(fixture.out()).unwrap(), b"mine");
}
