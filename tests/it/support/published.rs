//! The packages and pages that `pipeline` makes, once for all tests.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
    time::UNIX_EPOCH,
};

use super::{
    odd,
    place::{TEMPORARY, text},
    program::{ROCWHEEL, command, succeed},
};

/// A directory that `pipeline` wrote. Tests only read it: what they change, they copy first.
pub(crate) struct Published {
    root: PathBuf,
}

impl Published {
    /// The value of `--output-dir`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The packages as `build` leaves them.
    pub(crate) fn dist(&self) -> PathBuf {
        self.root.join("packages/dist")
    }

    /// The packages with their pages, as `upload` leaves them.
    pub(crate) fn place(&self) -> PathBuf {
        self.root.join("local-linux/python")
    }

    /// The job summary.
    pub(crate) fn summary(&self) -> String {
        fs_err::read_to_string(self.root.join("page.md")).unwrap()
    }
}

/// The sample, published once for all tests.
pub(crate) fn sample() -> &'static Published {
    static SAMPLE: OnceLock<Published> = OnceLock::new();
    SAMPLE.get_or_init(|| Published {
        root: once("sample", |root| publish(root, &["--sample"])),
    })
}

/// The odd set, published once for all tests.
pub(crate) fn odd() -> &'static Published {
    static ODD: OnceLock<Published> = OnceLock::new();
    ODD.get_or_init(|| Published {
        root: once("odd", |root| {
            let input = root.join("input");
            odd::write_archives(&input);
            publish(root, &["--artifact-dir", text(&input)]);
        }),
    })
}

/// Runs `pipeline` with its results, and the summary, in a directory.
pub(crate) fn publish(root: &Path, source: &[&str]) {
    let mut pipeline = command();
    pipeline.arg("pipeline").args(source);
    pipeline.args(["--summary", text(&root.join("page.md"))]);
    succeed(pipeline.args(["--output-dir", text(root)]));
}

/// Makes a directory below `target/`, unless it has been made with this very build of the binary:
/// a runner may start a process for each test, and all of them shall share it.
pub(crate) fn once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let place = Path::new(TEMPORARY).join("published");
    fs_err::create_dir_all(&place).unwrap();
    let lock = fs_err::File::create(place.join(format!("{name}.lock"))).unwrap();
    lock.file().lock().unwrap();
    let root = place.join(name);
    let stamp = root.join("made-by");
    let wanted = binary();
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

/// What tells one build of the binary from another.
fn binary() -> String {
    let binary = fs_err::metadata(ROCWHEEL).unwrap();
    let written = binary.modified().unwrap().duration_since(UNIX_EPOCH);
    format!("{} bytes, {:?}", binary.len(), written.unwrap())
}
