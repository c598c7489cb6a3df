//! Python that does not run, and what comes along with it.

use super::{Damage, edits::*, found};
use crate::check::member;

const WHEELS: &[Damage] = &[
    ("_dist_info.py does not parse", |set| {
        bytes(set, CORE, "core/_dist_info.py", |it| it.extend(b"def ("));
    }),
    ("_dist_info.py is gone", |set| {
        drop_member(set, CORE, "core/_dist_info.py")
    }),
    ("_dist_info.py is of another version", |set| {
        bytes(set, LIBRARIES, "/_dist_info.py", |it| {
            it.extend(b"__version__ = '7'\n")
        });
    }),
    ("_cli.py is gone", |set| {
        drop_member(set, CORE, "core/_cli.py")
    }),
    ("a function is gone", |set| {
        swap(set, CORE, "core/_cli.py", "def hipcc()", "def hip_cc()");
    }),
    ("an entry point is another", |set| {
        let call = "rocm_profiler._cli:rocprof_compute";
        swap(
            set,
            PROFILER,
            "/entry_points.txt",
            call,
            "rocm_profiler.cli:rocprof_compute",
        );
    }),
    ("the entry points are gone", |set| {
        drop_member(set, CORE, "/entry_points.txt")
    }),
    ("core is no package", |set| {
        drop_member(set, CORE, "rocm_sdk_core/__init__.py")
    }),
    ("devel is no package", |set| {
        drop_member(set, DEVEL, "rocm_sdk_devel/__init__.py")
    }),
    ("the files of core are no package", |set| {
        drop_member(set, CORE, "_rocm_sdk_core/__init__.py");
    }),
    ("the files of the profiler are no package", |set| {
        drop_member(set, PROFILER, "_rocm_profiler/__init__.py");
    }),
    ("a .pth comes along", |set| {
        extra(set, CORE, "rocm.pth", b"import os\n")
    }),
    ("sitecustomize comes along", |set| {
        extra(set, CORE, "sitecustomize.py", b"import os\n");
    }),
    ("torch comes along", |set| {
        extra(set, CORE, "torch/__init__.py", b"")
    }),
    ("a data directory comes along", |set| {
        extra(set, CORE, "rocm_sdk_core-0.0.1.dev0.data/purelib/a.py", b"");
    }),
];

const SDISTS: &[Damage] = &[
    ("the sdist is cut off", |set| {
        set.bytes("rocm-0", |it| it.truncate(2000))
    }),
    ("its backend does not parse", |set| {
        source(set, "rocm_build.py", "import", "def (")
    }),
    ("its pyproject.toml is empty", |set| {
        unpacked(set, |it| {
            let file = it.iter_mut().find(|it| it.0.ends_with("pyproject.toml"));
            file.unwrap().1.clear();
        });
    }),
    ("its backend is not there", |set| {
        source(set, "pyproject.toml", "\"rocm_build\"", "\"rocm_maker\"");
    }),
    ("its backend is setuptools", |set| {
        let own = "requires = []\nbuild-backend = \"rocm_build\"\nbackend-path = [\".\"]";
        let other = "requires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"";
        source(set, "pyproject.toml", own, other);
    }),
    ("its backend builds nothing", |set| {
        source(set, "rocm_build.py", "def build_wheel", "def build_wheels");
    }),
    ("its package is not there", |set| {
        drop_source(set, "src/rocm_sdk/")
    }),
    ("a module is not there", |set| {
        drop_source(set, "rocm_sdk/_links.py")
    }),
    ("its PKG-INFO is gone", |set| {
        unpacked(set, |it| it.retain(|it| !it.0.ends_with("dev0/PKG-INFO")));
    }),
    ("its PKG-INFO differ", |set| {
        source(
            set,
            "egg-info/PKG-INFO",
            "Name: rocm",
            "Name: rocm\nKeywords: x",
        );
    }),
    ("its command calls nothing", |set| {
        source(set, "rocm_sdk/__main__.py", "def main", "def mine");
    }),
    ("its command is another", |set| {
        all_sources(set, "entry_points.txt", "rocm-sdk = ", "rocm = ");
    }),
    ("it is of another version", |set| {
        let version = "__version__ = '0.0.1.dev0'";
        source(set, "rocm_sdk/_dist_info.py", version, "__version__ = '7'");
    }),
];

pub(super) const UNSEEN: &[Damage] = &[
    ("a text of the sdist is another", |set| {
        source(set, "rocm_sdk/_lock.py", "\"\"\"", "\"\"\" ");
    }),
    ("a comment in _cli.py is another", |set| {
        swap(
            set,
            CORE,
            "core/_cli.py",
            "Console scripts",
            "console scripts",
        );
    }),
];

#[test]
fn python_of_wheels() {
    insta::assert_snapshot!(found(WHEELS), @"");
}

#[test]
fn python_of_the_sdist() {
    insta::assert_snapshot!(found(SDISTS), @"");
}

/// Nothing runs an empty module, though it may have execute bits.
#[test]
fn an_empty_module_is_no_program() {
    let set = crate::check::Set::new();
    extra(&set, CORE, "_rocm_sdk_core/bin/__init__.py", b"");
    set.edit(CORE, |it| member(it, "bin/__init__.py").1 = 0o100_755);
    assert_eq!(set.found(&[]), "exit 0\n");
}
