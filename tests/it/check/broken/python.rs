//! Python that does not run, and what comes along with it.

use super::{Damage, edits::*, found};
use crate::check::member;

#[rustfmt::skip]
const WHEELS: &[Damage] = &[
    ("_dist_info.py is no text", |set| bytes(set, CORE, "core/_dist_info.py", |it| it.push(0xff))),
    ("_dist_info.py is gone", |set| drop_member(set, CORE, "core/_dist_info.py")),
    ("_dist_info.py is of another version", |set| {
        bytes(set, LIBRARIES, "/_dist_info.py", |it| {
            it.extend(b"__version__ = '7'\n");
        });
    }),
    ("_cli.py is gone", |set| drop_member(set, CORE, "core/_cli.py")),
    ("a function is gone", |set| swap(set, CORE, "core/_cli.py", "def hipcc()", "def hip_cc()")),
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
    ("the entry points are gone", |set| drop_member(set, CORE, "/entry_points.txt")),
    ("core is no package", |set| drop_member(set, CORE, "rocm_sdk_core/__init__.py")),
    ("devel is no package", |set| drop_member(set, DEVEL, "rocm_sdk_devel/__init__.py")),
    ("the files of core are no package", |set| drop_member(set, CORE, "_rocm_sdk_core/__init__.py")),
    ("the files of the profiler are no package", |set| {
        drop_member(set, PROFILER, "_rocm_profiler/__init__.py");
    }),
    ("a .pth comes along", |set| extra(set, CORE, "rocm.pth", b"import os\n")),
    ("sitecustomize comes along", |set| extra(set, CORE, "sitecustomize.py", b"import os\n")),
    ("torch comes along", |set| extra(set, CORE, "torch/__init__.py", b"")),
    ("a data directory comes along", |set| extra(set, CORE, "rocm_sdk_core-0.99.1.dev0.data/purelib/a.py", b"")),
];

#[rustfmt::skip]
const SDISTS: &[Damage] = &[
    ("the sdist is cut off", |set| set.bytes("rocm-0", |it| it.truncate(2000))),
    ("its pyproject.toml is empty", |set| {
        unpacked(set, |it| {
            let file = it.iter_mut().find(|it| it.0.ends_with("pyproject.toml"));
            file.unwrap().1.clear();
        });
    }),
    ("its backend is not there", |set| source(set, "pyproject.toml", "\"rocm_build\"", "\"rocm_maker\"")),
    ("its backend is setuptools", |set| {
        let own = "requires = []\nbuild-backend = \"rocm_build\"\nbackend-path = [\".\"]";
        let other = "requires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"";
        source(set, "pyproject.toml", own, other);
    }),
    ("its backend builds nothing", |set| source(set, "rocm_build.py", "def build_wheel", "def build_wheels")),
    ("its package is not there", |set| drop_source(set, "src/rocm_sdk/")),
    ("a module is not there", |set| drop_source(set, "rocm_sdk/_links.py")),
    ("its PKG-INFO is gone", |set| unpacked(set, |it| it.retain(|it| !it.0.ends_with("dev0/PKG-INFO")))),
    ("its PKG-INFO differ", |set| source(set, "egg-info/PKG-INFO", "Name: rocm", "Name: rocm\nKeywords: x")),
    ("its command calls nothing", |set| source(set, "rocm_sdk/__main__.py", "def main", "def mine")),
    ("its command is another", |set| all_sources(set, "entry_points.txt", "rocm-sdk = ", "rocm = ")),
    ("it is of another version", |set| {
        let version = "__version__ = '0.99.1.dev0'";
        source(set, "rocm_sdk/_dist_info.py", version, "__version__ = '7'");
    }),
];

#[rustfmt::skip]
pub(super) const UNSEEN: &[Damage] = &[
    ("a text of the sdist is another", |set| source(set, "rocm_sdk/_lock.py", "\"\"\"", "\"\"\" ")),
    ("a comment in _cli.py is another", |set| {
        swap(set, CORE, "core/_cli.py", "Console scripts", "console scripts");
    }),
];

#[test]
#[ignore = "slow"]
fn python_of_wheels() {
    insta::assert_snapshot!(found(WHEELS), @"
    _dist_info.py is no text
      error   RW213 unkept-promise: its `_dist_info.py` is missing, or is not UTF-8
    _dist_info.py is gone
      error   RW213 unkept-promise: its `_dist_info.py` is missing, or is not UTF-8
    _dist_info.py is of another version
      error   RW214 other-build: its `_dist_info.py` has `__version__ = '7'`, which others lack
      error   RW111 metadata-disagrees: `rocm_sdk_libraries/_dist_info.py`: its version is 7, but the metadata says 0.99.1.dev0
    _cli.py is gone
      error   RW213 unkept-promise: `rocm_sdk_core-0.99.1.dev0.dist-info/entry_points.txt`: there is no module `rocm_sdk_core._cli`, which `amd-smi` and 24 more call
    a function is gone
      error   RW213 unkept-promise: `rocm_sdk_core-0.99.1.dev0.dist-info/entry_points.txt`: `rocm_sdk_core._cli` has no `hipcc`, which `hipcc` calls
    an entry point is another
      error   RW213 unkept-promise: `rocm_profiler-0.99.1.dev0.dist-info/entry_points.txt`: there is no module `rocm_profiler.cli`, which `rocprof-compute` calls
    the entry points are gone
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amd-smi`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdclang++`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdclang-cl`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdclang-cpp`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdclang`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdflang`
      … and 4 more
    core is no package
      error   RW213 unkept-promise: its Python needs `_rocm_sdk_core/__init__.py`, which is missing
      error   RW213 unkept-promise: its Python needs `rocm_sdk_core/__init__.py`, which is missing
    devel is no package
      error   RW213 unkept-promise: its Python needs `rocm_sdk_devel/__init__.py`, which is missing
    the files of core are no package
      error   RW213 unkept-promise: its Python needs `_rocm_sdk_core/__init__.py`, which is missing
    the files of the profiler are no package
      error   RW213 unkept-promise: its Python needs `_rocm_profiler/__init__.py`, which is missing
    a .pth comes along
      error   RW120 foreign-file: `rocm.pth`: Python runs it whenever it starts
    sitecustomize comes along
      error   RW120 foreign-file: `sitecustomize.py`: Python runs it whenever it starts
    torch comes along
      error   RW120 foreign-file: `torch/__init__.py`: it is installed as `torch`, which is not a directory of ours
    a data directory comes along
      error   RW120 foreign-file: `rocm_sdk_core-0.99.1.dev0.data/purelib/a.py`: it is installed as `rocm_sdk_core-0.99.1.dev0.data`, which is not a directory of ours
    ");
}

#[test]
#[ignore = "slow"]
fn python_of_the_sdist() {
    insta::assert_snapshot!(found(SDISTS), @"
    the sdist is cut off
      error   RW101 unreadable-package: incomplete deflate stream
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx1100`
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx942`
    its pyproject.toml is empty
      error   RW119 broken-sdist: `pyproject.toml`: no `[build-system]`: installers look for setuptools in the index
    its backend is not there
      error   RW119 broken-sdist: `pyproject.toml`: there is no module `rocm_maker`
    its backend is setuptools
      error   RW119 broken-sdist: `pyproject.toml`: its build backend is `setuptools.build_meta`, which is not in the sdist
    its backend builds nothing
      error   RW119 broken-sdist: `pyproject.toml`: `rocm_build` has no `build_wheel`
    its package is not there
      error   RW119 broken-sdist: `src/rocm_sdk/__init__.py`: listed in `src/rocm.egg-info/SOURCES.txt`, and not in the sdist
      error   RW119 broken-sdist: `src/rocm_sdk/__main__.py`: listed in `src/rocm.egg-info/SOURCES.txt`, and not in the sdist
      error   RW119 broken-sdist: `src/rocm_sdk/_archive.py`: listed in `src/rocm.egg-info/SOURCES.txt`, and not in the sdist
      error   RW119 broken-sdist: `src/rocm_sdk/_devel.py`: listed in `src/rocm.egg-info/SOURCES.txt`, and not in the sdist
      error   RW119 broken-sdist: `src/rocm_sdk/_device_links.py`: listed in `src/rocm.egg-info/SOURCES.txt`, and not in the sdist
      error   RW119 broken-sdist: `src/rocm_sdk/_dist_info.json`: listed in `src/rocm.egg-info/SOURCES.txt`, and not in the sdist
      … and 4 more
    a module is not there
      error   RW119 broken-sdist: `src/rocm_sdk/_links.py`: listed in `src/rocm.egg-info/SOURCES.txt`, and not in the sdist
    its PKG-INFO is gone
      error   RW101 unreadable-package: no `rocm-0.99.1.dev0/PKG-INFO`
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx1100`
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx942`
    its PKG-INFO differ
      error   RW111 metadata-disagrees: the copies of PKG-INFO differ
    its command calls nothing
      error   RW119 broken-sdist: `src/rocm.egg-info/entry_points.txt`: `rocm_sdk.__main__` has no `main`, which `rocm-sdk` calls
    its command is another
      error   RW119 broken-sdist: no `*.egg-info/entry_points.txt` has its command `rocm-sdk`
    it is of another version
      error   RW214 other-build: its `_dist_info.py` lacks `__version__ = '0.99.1.dev0'`, which others have
      error   RW111 metadata-disagrees: `src/rocm_sdk/_dist_info.py`: its version is 7, but the metadata says 0.99.1.dev0
    ");
}

/// Nothing runs an empty module, though it may have execute bits.
#[test]
fn an_empty_module_is_no_program() {
    let set = crate::check::Set::new();
    extra(&set, CORE, "_rocm_sdk_core/bin/__init__.py", b"");
    set.edit(CORE, |it| member(it, "bin/__init__.py").1 = 0o100_755);
    assert_eq!(set.found(&[]), "exit 0\n");
}
