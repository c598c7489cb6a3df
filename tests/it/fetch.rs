//! `fetch` from a directory laid out like a bucket, as a user sees it.

mod bucket;
mod by_hand;
mod elsewhere;
mod find;
mod flat;
mod flipped;
pub(crate) mod full;
mod hosted;
mod killed;
mod therock_tools;
pub(crate) mod tree;

use insta::assert_snapshot;

use crate::support::prelude::*;

/// A set, the sample if nothing is said, as run 7 of `bucket` in a sandbox, whose `out` is fetched to.
pub(crate) struct Fixture {
    t: Sandbox,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::of(sample())
    }

    pub(crate) fn of(set: &TestSet) -> Self {
        Self::with(set.archives())
    }

    fn with(archives: Vec<(String, Vec<u8>)>) -> Self {
        let t = Sandbox::new();
        for (name, bytes) in archives {
            let sidecar = format!("{}  {name}\n", Sha256::of(&bytes));
            t.write(&format!("bucket/7-linux/{name}.sha256sum"), sidecar);
            t.write(&format!("bucket/7-linux/{name}"), bytes);
        }
        for name in ["logs/ccache_logs.tar.zst", "index.html"] {
            t.write(&format!("bucket/7-linux/{name}"), "no artifact");
        }
        Self { t }
    }

    pub(crate) fn bucket(&self) -> PathBuf {
        self.t.path("bucket")
    }

    fn run(&self) -> PathBuf {
        self.t.path("bucket/7-linux")
    }

    fn out(&self) -> PathBuf {
        self.t.path("out")
    }

    /// From the bucket, to where the arguments are still to say.
    pub(crate) fn command(&self) -> Command {
        self.t.command("fetch --platform linux --input-dir bucket")
    }

    fn fetch(&self, arguments: &str) -> Outcome {
        self.run_binary(&format!("--input-dir bucket {arguments}"))
    }

    /// From wherever the arguments say.
    fn run_binary(&self, arguments: &str) -> Outcome {
        self.t.run(&format!("fetch --platform linux --output-dir out {arguments}"))
    }

    /// Removes a file of the run.
    fn lose(&self, name: &str) {
        fs_err::remove_file(self.run().join(name)).unwrap();
    }

    /// Names in the output directory; none before it is made.
    fn names(&self) -> Vec<String> {
        let entries = fs_err::read_dir(self.out()).into_iter().flatten();
        let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// The names of a set's artifacts, as directories.
fn stems(set: &TestSet) -> Vec<String> {
    let archives = set.archives().into_iter();
    let stems = archives.map(|(name, _)| name.split_once(".tar.").unwrap().0.to_owned());
    let stems: BTreeSet<String> = stems.chain([".rocwheel-fetch.json".to_owned()]).collect();
    stems.into_iter().collect()
}

fn verbs(stdout: &str) -> Vec<&str> {
    let words = stdout.lines().filter_map(|line| line.split(' ').next());
    let mut verbs: Vec<&str> = words.filter(|word| *word != "run").collect();
    verbs.pop();
    verbs.dedup();
    verbs
}

/// How many archives were fetched.
fn count(said: &Outcome) -> usize {
    said.stderr.matches("Fetched").count()
}

/// The exit code, and the error with its causes and hints, in one line.
fn refusal(said: &Outcome) -> String {
    assert_ne!(said.code, 0, "{}", said.stdout);
    let error = said.stderr.split_once("error: ").unwrap().1;
    let lines: Vec<&str> = error.lines().map(str::trim).collect();
    let lines = lines.join(" | ").replace(" |  | ", " | ");
    format!("{}: {lines}\n", said.code)
}

#[test]
fn a_whole_run_is_fetched_once_and_then_kept() {
    sets().into_iter().for_each(is_fetched_once_and_then_kept);
}

fn is_fetched_once_and_then_kept(set: &TestSet) {
    let fixture = Fixture::of(set);
    let first = fixture.fetch("--run-id 7").done();
    assert_eq!(verbs(&first.stdout), ["fetch"]);
    assert_eq!(fixture.names(), stems(set));
    let second = fixture.fetch("--run-id 7").done();
    assert_eq!((verbs(&second.stdout), count(&second)), (vec!["keep"], 0));
    let lost = fixture.out().join("base_lib_generic/artifact_manifest.txt");
    fs_err::remove_file(&lost).unwrap();
    let third = fixture.fetch("--run-id 7").done();
    assert_eq!(count(third.says("renew")), 1);
    assert!(lost.exists());
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let fixture = Fixture::new();
    let wanted = "--run-id 7 --dry-run --amdgpu-targets gfx1100 blas";
    let said = fixture.fetch(wanted).done();
    assert!(fixture.names().is_empty());
    let sizes = Regex::new(r"[0-9.]+ [KM]iB").unwrap();
    let shown = sizes.replace_all(&said.stdout, "SIZE").into_owned() + &said.stderr;
    assert_snapshot!(shown, @"
    fetch       272 B blas_dev_generic.tar.xz
    fetch       177 B blas_doc_generic.tar.zst
    fetch  SIZE blas_lib_generic.tar.zst
    fetch  SIZE blas_lib_gfx1100.tar.zst
    fetch       364 B blas_test_generic.tar.xz
    fetch   SIZE host-blas_lib_generic.tar.zst
    6 archives of SIZE from bucket/7-linux to out
          Listed 37 artifacts in bucket/7-linux
    ");
}

#[test]
fn a_script_gets_json() {
    let fixture = Fixture::new();
    let said = fixture.fetch("--run-id 7 --format json --dry-run base_lib");
    let plan: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(plan["schema"], "rocwheel-fetch-v1");
    let archive = &plan["archives"][0];
    let name = archive["name"].as_str().unwrap();
    let bytes = fs_err::read(fixture.run().join(name)).unwrap();
    assert_eq!(archive["sha256"], Sha256::of(&bytes).to_string());
    assert_eq!(archive["size"], bytes.len());
    assert_eq!(archive["state"], "new");
    assert_eq!(archive["path"], "base_lib_generic");
}

#[test]
fn archives_are_kept_when_they_are_not_to_be_unpacked() {
    let fixture = Fixture::new();
    fixture.fetch("--run-id 7 --no-extract").done();
    for (name, bytes) in sample().archives() {
        assert_eq!(fs_err::read(fixture.out().join(name)).unwrap(), bytes);
    }
    let again = fixture.fetch("--run-id 7 --no-extract");
    assert_eq!(verbs(&again.stdout), ["keep"]);
}

#[test]
fn each_failure_is_reported_and_the_others_are_fetched() {
    let fixture = Fixture::new();
    let archive = fixture.run().join("blas_lib_gfx942.tar.zst");
    let mut bytes = fs_err::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs_err::write(archive, bytes).unwrap();
    let sidecar = "blas_lib_generic.tar.zst.sha256sum";
    fixture.t.write(&format!("bucket/7-linux/{sidecar}"), "");
    // It is found before anything is fetched.
    let mut said = refusal(&fixture.fetch("--run-id 7"));
    assert!(fixture.names().is_empty());
    fixture.lose(sidecar);
    said += &refusal(&fixture.fetch("--run-id 7"));
    let mut expected = stems(sample());
    expected.retain(|name| name != "blas_lib_gfx942");
    assert_eq!(fixture.names(), expected);
    assert_snapshot!(said, @"
    2: failed to read `blas_lib_generic.tar.zst.sha256sum` | caused by: an empty file where a SHA-256 was expected
    1: 1 of 37 archives not fetched | failed to fetch `blas_lib_gfx942.tar.zst`: failed to unpack `blas_lib_gfx942.tar.zst`: failed to unpack `math-libs/BLAS/rocBLAS/stage/lib/rocblas/library/TensileLibrary_gfx942.co`: the zstd data is damaged: Restored data doesn't match checksum | hint: run it again: what is whole is kept | hint: download the archive again; if that does not help, rebuild it in its run
    ");
}

#[test]
fn what_cannot_be_fetched_is_refused_in_words() {
    let fixture = Fixture::new();
    let said = [
        "--input-dir nowhere --run-id 8",
        "--input-dir bucket --run-id 8",
        "--input-dir bucket --run-id 7 --amdgpu-targets gfx950 rccl",
        "--input-dir bucket --run-id 7 --flatten --no-extract",
        "--input-dir bucket --run-id 7 --latest",
        "--input-dir bucket --latest --max-commits 0",
        "--input-dir bucket --run-id 7 --source github",
    ];
    let said = said.map(|line| refusal(&fixture.run_binary(line)));
    assert_snapshot!(said.concat(), @"
    2: not a directory: `nowhere` | hint: check `--input-dir`
    1: no artifacts for linux in bucket/8-linux | hint: check `--input-dir`, `--run-id` and `--platform`
    1: no artifact of the run matches target `gfx950` | hint: it has 37 artifacts: amd-llvm, base, blas, core-amdsmi, core-hip, core-kpack, core-runtime, fft, hipdnn, hipfile, hipify, hipkernelprovider, host-blas, miopen, prim, rand, rccl, rocdecode, rocgdb, rocjpeg, rocprofiler-compute, rocprofiler-sdk, rocprofiler-systems, rpp, sysdeps (lib, run, dev, doc, test) for generic, gfx1100, gfx942, gfx942:xnack+
    2: the argument '--flatten' cannot be used with '--no-extract' | Usage: rocwheel fetch --platform <PLATFORM> --output-dir <DIR> --input-dir <DIR> --run-id <RUN> --flatten [PATTERN]... | For more information, try '--help'.
    2: `--run-id` cannot be used with `--latest`
    2: invalid value '0' for '--max-commits <N>': 0 is not in 1..=500 | For more information, try '--help'.
    2: `--source github` cannot be used with `--input-dir`
    ");
    fixture.lose("base_lib_generic.tar.zst");
    let lacking = fixture.fetch("--run-id 7");
    assert_eq!((lacking.code, fixture.names().len()), (1, 0));
    fixture.fetch("--run-id 7 --allow-incomplete").done();
    let mut said = String::new();
    fs_err::remove_dir_all(fixture.out()).unwrap();
    fs_err::write(fixture.out(), "mine").unwrap();
    for way in ["--dry-run", "", "--flatten"] {
        said += &refusal(&fixture.fetch(&format!("--run-id 7 {way} blas_dev")));
    }
    assert_snapshot!(said, @"
    2: not a directory: `out` | hint: choose another `--output-dir`
    2: no directory to write to: `out` | caused by: failed to create directory `out`: File exists (os error 17) | hint: choose another `--output-dir`
    2: no directory to write to: `out` | caused by: failed to create directory `out`: File exists (os error 17) | hint: choose another `--output-dir`
    ");
    assert_eq!(fs_err::read(fixture.out()).unwrap(), b"mine");
}

#[test]
fn a_directory_of_archives_alone_will_do() {
    let fixture = Fixture::new();
    fixture.run_binary("--input-dir bucket/7-linux").done();
    assert_eq!(fixture.names(), stems(sample()));
}

#[test]
fn the_prefix_of_a_repository_of_its_own_is_looked_in_first() {
    let fixture = Fixture::new();
    fs_err::create_dir(fixture.bucket().join("ROCm-rocm-libraries")).unwrap();
    let shared = fixture.bucket().join("ROCm-rocm-libraries/7-linux");
    fs_err::rename(fixture.run(), shared).unwrap();
    fixture.fetch("--run-id https://github.com/ROCm/rocm-libraries/actions/runs/7").done();
}

#[test]
fn artifacts_of_another_run_are_reported() {
    let fixture = Fixture::new();
    fixture.fetch("--run-id 7 blas_dev_generic").done();
    let alone = fixture.fetch("--run-id 7 blas_doc blas_dev_generic");
    assert_lacks!(alone.stderr, "warning");
    fs_err::rename(fixture.run(), fixture.bucket().join("8-linux")).unwrap();
    let said = fixture.fetch("--run-id 8 blas_doc").done();
    said.says("warning: `out` also has 1 artifact from `bucket/7-linux`: `blas_dev_generic`; remove what does not belong together, or choose another `--output-dir`");
}

#[test]
fn the_next_fetch_deletes_what_a_killed_one_left() {
    let fixture = Fixture::new();
    let out = fixture.out();
    fs_err::create_dir_all(out.join("base_lib_generic.part/lib")).unwrap();
    fs_err::create_dir_all(out.join("base_run_generic.old")).unwrap();
    let boot = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let part = format!("out/.rocwheel-{}-abc.part", &boot[..8]);
    fixture.t.write(&part, "");
    let looked = fixture.fetch("--run-id 7 --dry-run blas_dev");
    assert_eq!((looked.code, fixture.names().len()), (0, 3));
    fixture.fetch("--run-id 7 blas_dev").done();
    // The other may be somebody's own.
    let left = ".rocwheel-fetch.json base_run_generic.old blas_dev_generic";
    assert_eq!(fixture.names().join(" "), left);
}
