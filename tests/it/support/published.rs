//! The sets of packages that tests do something with. Each is built and published once.
//!
//! A test that takes a set as a set (to build, check, upload or install it) loops over `sets`. A
//! test of the sample alone damages a file of it by name, or shows texts and figures of it.

use std::{sync::OnceLock, time::UNIX_EPOCH};

use rocwheel_test_sets::{odd, sample as built_in};

use super::place::TEMPORARY;
use crate::support::prelude::*;

/// The version of every set.
pub(crate) const VERSION: &str = "0.99.1.dev0";

/// Artifacts, and the packages and pages that `pipeline` makes of them. Tests only read those: what
/// they change, they copy first.
pub(crate) struct TestSet {
    pub(crate) name: &'static str,
    /// What it has device wheels for.
    pub(crate) targets: &'static [&'static str],
    root: OnceLock<PathBuf>,
}

static SAMPLE: TestSet =
    TestSet { name: "sample", targets: &["gfx1100", "gfx942"], root: OnceLock::new() };

static ODD: TestSet = TestSet { name: "odd", targets: &odd::TARGETS, root: OnceLock::new() };

/// Every set.
pub(crate) fn sets() -> [&'static TestSet; 2] {
    [&SAMPLE, &ODD]
}

/// The sets of a test that has a like, such as pip and uv, or a directory and a server: at a desk
/// they take turns.
pub(crate) fn sets_in_turn(number: usize) -> Vec<&'static TestSet> {
    let sets = sets().into_iter().enumerate();
    let sets = sets.filter(|(index, _)| long::is_on() || index % 2 == number % 2);
    sets.map(|(_, set)| set).collect()
}

/// The sample, as it is built in.
pub(crate) fn sample() -> &'static TestSet {
    &SAMPLE
}

/// The set that is legal and unlike the sample.
pub(crate) fn odd() -> &'static TestSet {
    &ODD
}

/// Splits the artifacts of a directory into another one.
fn split(fat: &Path, split: &Path) {
    let mut program = command();
    program.arg("split").arg("--artifact-dir").arg(fat);
    succeed(program.arg("--output-dir").arg(split));
}

impl TestSet {
    /// The archives of the artifacts, by file name.
    pub(crate) fn archives(&self) -> Vec<(String, Vec<u8>)> {
        if self.name == SAMPLE.name {
            return built_in::archives();
        }
        let place = once("odd-archives", |place| odd::write_archives(place, &split));
        let paths = fs_err::read_dir(place).unwrap();
        let paths = paths.map(|entry| entry.unwrap().path());
        let mut archives: Vec<_> = paths
            .filter(|path| path.to_str().unwrap().contains(".tar."))
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                (name.to_owned(), fs_err::read(&path).unwrap())
            })
            .collect();
        archives.sort();
        archives
    }

    /// Writes the archives into a directory, which is made if it does not exist.
    pub(crate) fn write_archives(&self, directory: &Path) {
        fs_err::create_dir_all(directory).unwrap();
        for (name, bytes) in self.archives() {
            fs_err::write(directory.join(name), bytes).unwrap();
        }
    }

    /// The value of `--output-dir`.
    pub(crate) fn root(&self) -> &Path {
        self.root.get_or_init(|| {
            once(self.name, |root| {
                if self.name == SAMPLE.name {
                    publish(root, &["--sample"]);
                } else {
                    let input = root.join("input");
                    self.write_archives(&input);
                    publish(root, &["--artifact-dir", text(&input)]);
                }
            })
        })
    }

    /// The arguments by which `pipeline` takes its artifacts.
    pub(crate) fn source(&self) -> Vec<String> {
        if self.name == SAMPLE.name {
            return vec!["--sample".to_owned()];
        }
        let input = self.root().join("input");
        vec!["--artifact-dir".to_owned(), text(&input).to_owned()]
    }

    /// The artifacts as `pipeline` unpacked them.
    pub(crate) fn artifacts(&self) -> PathBuf {
        self.root().join("artifacts")
    }

    /// The packages as `build` leaves them.
    pub(crate) fn dist(&self) -> PathBuf {
        self.root().join("packages/dist")
    }

    /// The packages with their pages, as `upload` leaves them.
    pub(crate) fn place(&self) -> PathBuf {
        self.root().join("local-linux/python")
    }

    /// What `pipeline` printed.
    pub(crate) fn last_lines(&self) -> String {
        fs_err::read_to_string(self.root().join("said.txt")).unwrap()
    }

    /// The job summary.
    pub(crate) fn summary(&self) -> String {
        fs_err::read_to_string(self.root().join("page.md")).unwrap()
    }

    /// How many packages it has: one for each target, and five for every GPU.
    pub(crate) fn packages(&self) -> usize {
        5 + self.targets.len()
    }

    /// What the install line names: `'rocm[libraries,devel,device-gfx942]==0.99.1.dev0'`.
    pub(crate) fn install_line(&self, target: &str) -> String {
        assert!(self.targets.contains(&target));
        format!("'rocm[libraries,devel,device-{target}]=={VERSION}'")
    }

    /// Everything, for every target: `rocm[libraries,devel,profiler,device-gfx942]==0.99.1.dev0`.
    pub(crate) fn requirement(&self) -> String {
        let devices = self.targets.iter().map(|target| format!(",device-{target}"));
        let devices: String = devices.collect();
        format!("rocm[libraries,devel,profiler{devices}]=={VERSION}")
    }
}

/// Runs `pipeline` with its results, and the summary, in a directory.
pub(crate) fn publish(root: &Path, source: &[&str]) {
    let mut pipeline = command();
    pipeline.arg("pipeline").args(source);
    pipeline.args(["--summary", text(&root.join("page.md"))]);
    let said = succeed(pipeline.args(["--output-dir", text(root)])).stdout;
    fs_err::write(root.join("said.txt"), said).unwrap();
}

/// Makes a directory below `target/`, unless it has been made with this very build of the binary
/// and of these tests: a runner may start a process for each test, and all of them shall share it.
pub(crate) fn once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let place = Path::new(TEMPORARY).join("published");
    fs_err::create_dir_all(&place).unwrap();
    let lock = fs_err::File::create(place.join(format!("{name}.lock"))).unwrap();
    lock.file().lock().unwrap();
    let root = place.join(name);
    let stamp = root.join("made-by");
    let wanted = [Path::new(ROCWHEEL), &std::env::current_exe().unwrap()].map(built);
    let wanted = wanted.join("\n");
    if fs_err::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return root;
    }
    if root.exists() {
        fs_err::remove_dir_all(&root).unwrap();
    }
    fs_err::create_dir_all(&root).unwrap();
    make(&root);
    fs_err::write(stamp, wanted).unwrap();
    root
}

/// What tells one build of a program from another.
fn built(program: &Path) -> String {
    let file = fs_err::metadata(program).unwrap();
    let written = file.modified().unwrap().duration_since(UNIX_EPOCH);
    format!("{} bytes, {:?}", file.len(), written.unwrap())
}
