//! `doctor ENVIRONMENT`: environments that are broken by hand, each as in a report of a user.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::support::prelude::*;
use crate::support::published::VERSION;

const TORCH: &str = "2.9.0+rocm7.14.0";

/// A `site-packages` directory without a Python.
pub(crate) struct Site {
    place: TempDir,
}

type Edit = fn(&mut Members);

impl Site {
    /// The wheels of the sample, and a `rocm` that requires them.
    pub(crate) fn new() -> Self {
        Self::edited(&[])
    }

    /// The same, with some wheels changed before they were installed.
    fn edited(edits: &[(&str, Edit)]) -> Self {
        let site = Self { place: tempfile::tempdir().unwrap() };
        let files = contents(&sample().dist()).into_iter();
        for (name, bytes) in files.filter(|(name, _)| name.ends_with(".whl")) {
            let mut members = unzip(&bytes);
            for (_, edit) in edits.iter().filter(|(start, _)| name.starts_with(start)) {
                edit(&mut members);
                record(&mut members);
            }
            for (path, _, bytes) in members {
                site.write(&path, &bytes);
            }
        }
        let devices = ["gfx942", "gfx1100"].map(|target| {
            format!("rocm-sdk-device-{target}=={VERSION}; extra == \"device-{target}\"")
        });
        let requires: Vec<&str> = devices.iter().map(String::as_str).collect();
        site.install("rocm", VERSION, &requires, &[("rocm_sdk/__init__.py", b"")]);
        site
    }

    fn empty() -> Self {
        Self { place: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.place.path()
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let place = self.root().join(path);
        fs_err::create_dir_all(place.parent().unwrap()).unwrap();
        fs_err::write(place, bytes).unwrap();
    }

    /// Installs a wheel that was built by others.
    pub(crate) fn unpack(&self, wheel: &Path) {
        let members = unzip(&fs_err::read(wheel).unwrap()).into_iter();
        for (path, _, bytes) in members.filter(|(path, ..)| !path.ends_with('/')) {
            self.write(&path, &bytes);
        }
    }

    fn remove(&self, path: &str) {
        fs_err::remove_file(self.root().join(path)).unwrap();
    }

    /// The path of the only file whose path ends so.
    fn path(&self, end: &str) -> String {
        let mut files = tree(self.root()).into_iter();
        files.find(|path| path.ends_with(end)).unwrap()
    }

    fn install(&self, name: &str, version: &str, requires: &[&str], files: &[(&str, &[u8])]) {
        let info = format!("{}-{version}.dist-info", name.replace('-', "_"));
        let mut metadata = format!("Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n");
        for line in requires {
            writeln!(metadata, "Requires-Dist: {line}").unwrap();
        }
        let mut rows = format!("{info}/METADATA,,\n{info}/RECORD,,\n");
        for (path, bytes) in files {
            writeln!(rows, "{path},,{}", bytes.len()).unwrap();
            self.write(path, bytes);
        }
        self.write(&format!("{info}/METADATA"), metadata.as_bytes());
        self.write(&format!("{info}/RECORD"), rows.as_bytes());
    }

    /// torch, which has its code for the GPU in another package.
    fn install_torch(&self) {
        let device = format!("amd-torch-device-gfx942=={TORCH}; extra == \"device-gfx942\"");
        let files: &[(&str, &[u8])] = &[("torch/lib/libtorch_hip.so", b"")];
        self.install("torch", TORCH, &[&device], files);
    }

    /// What is wrong, with what to do.
    fn says(&self, targets: &str) -> String {
        self.says_with(targets, &[])
    }

    /// The same, in a process with these variables.
    fn says_with(&self, targets: &str, variables: &[(&str, &str)]) -> String {
        let root = text(self.root());
        let sandbox = Sandbox::new();
        let mut command =
            sandbox.command(&format!("doctor {root} --target {targets} --format=json"));
        let said = sandbox.outcome(command.envs(variables.iter().copied()));
        let report: Value = serde_json::from_str(&said.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap().iter();
        let problems = checks.filter(|it| it["status"] == "problem");
        let lines = problems.map(|it| {
            let field = |name: &str| it[name].as_str().unwrap().to_owned();
            format!("{}\n  {}", field("found"), field("way-out"))
        });
        let lines: Vec<String> = lines.collect();
        assert_eq!(said.code == 0, lines.is_empty(), "{}", said.stderr);
        lines.join("\n").replace(root, "SITE")
    }
}

#[test]
fn nothing_is_wrong_with_a_healthy_environment() {
    let site = Site::new();
    assert_eq!(site.says("gfx942,gfx1100"), "");
    site.install_torch();
    let files: &[(&str, &[u8])] = &[("torch/lib/gfx942.kpack", b"x")];
    site.install("amd-torch-device-gfx942", TORCH, &[], files);
    assert_eq!(site.says("gfx942"), "");
    // What Python has compiled, and scripts outside of the packages.
    site.install("other", "1.0", &[], &[("other.py", b"")]);
    let record = "other.py,,0\n__pycache__/other.cpython-313.pyc,,\nother-1.0.dist-info/RECORD,,\n";
    site.write("other-1.0.dist-info/RECORD", record.as_bytes());
    assert_eq!(site.says("gfx942"), "");
}

/// <https://github.com/ROCm/TheRock/issues/7839> and <https://github.com/astral-sh/uv/issues/21683>
#[test]
fn packages_without_code_for_the_gpu() {
    let site = Site::new();
    site.install_torch();
    insta::assert_snapshot!(site.says("gfx942") + "\n" + &site.says("gfx1201"), @"
    `torch` 2.9.0+rocm7.14.0 has no code for `gfx942`: `amd-torch-device-gfx942` is not installed
      install `amd-torch-device-gfx942` from the index that its framework came from: on PyPI, packages of others have such names
    `rocm` 0.99.1.dev0 has no code for `gfx1201`, only for gfx942, gfx1100
      install another build of `rocm`, which has `gfx1201`
    `torch` 2.9.0+rocm7.14.0 has no code for `gfx1201`, only for gfx942
      install another build of `torch`, which has `gfx1201`
    ");
}

/// <https://github.com/ROCm/TheRock/issues/7183>
#[test]
fn packages_of_two_versions() {
    let site = Site::new();
    let path = site.path("rocm_profiler-0.99.1.dev0.dist-info/METADATA");
    let metadata = fs_err::read_to_string(site.root().join(&path)).unwrap();
    let metadata = metadata.replace(&format!("Version: {VERSION}"), "Version: 0.99.2.dev0");
    site.write(&path, metadata.as_bytes());
    let said = site.says("gfx942");
    let found = "version 0.99.2.dev0, but most of the set has 0.99.1.dev0 (RW204)";
    assert_has!(said, found, "install all packages of ROCm in one version from the index");
}

#[test]
fn torch_of_pypi_over_rocm() {
    let site = Site::new();
    let files: &[(&str, &[u8])] = &[("torch/lib/libtorch_cuda.so", b"")];
    site.install("torch", "2.9.0", &[], files);
    insta::assert_snapshot!(site.says("gfx942"), @"
    torch 2.9.0 is built for CUDA, and not for ROCm
      install a torch that is built for ROCm, from the index of its packages: PyPI has the other one
    ");
}

/// `actions/upload-artifact` leaves out hidden directories.
#[test]
fn archives_that_were_lost_on_the_way() {
    let site = Site::new();
    let archive = site.path("blas_lib_gfx942.kpack");
    site.remove(&archive);
    insta::assert_snapshot!(site.says("gfx1100"), @"
    `rocm-sdk-device-gfx942` 0.99.1.dev0: 1 file is missing: `_rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack`
      install `rocm-sdk-device-gfx942` again from the index that this ROCm came from: on PyPI, packages of others have such names
    ");
}

/// <https://github.com/ROCm/TheRock/issues/7081>
#[test]
fn an_archive_that_shadows_the_right_one() {
    let site = Site::edited(&[("rocm_sdk_device_gfx942", |members| {
        let mut paths = members.iter().map(|it| &it.0);
        let plain = paths.find(|it| it.ends_with("blas_lib_gfx942.kpack"));
        let path = plain.unwrap().replace("gfx942.kpack", "gfx942-xnack+.kpack");
        members.push((path, 0o100_644, b"KPAK".to_vec()));
    })]);
    let said = site.says("gfx942");
    assert_has!(said, "4 bytes, where the plain variant has");
    assert_has!(said, "no install of the same packages mends this");
}

/// <https://github.com/ROCm/TheRock/issues/7807>
#[test]
fn development_files_that_are_not_complete() {
    let site = Site::new();
    site.write("_rocm_sdk_devel/include/hip.h", b"only this one");
    let said = site.says("gfx942");
    assert_has!(said, "the development files are not complete: 1 of ");
    assert_has!(said, "\n  rocm-sdk init");
    // `rocm-sdk init` removes the archive and leaves its row in RECORD.
    site.remove(&site.path("rocm_sdk_devel/_devel.tar"));
    let said = site.says("gfx942");
    assert!(!said.contains("_devel.tar"), "{said}");
    assert_has!(said, "install `rocm-sdk-devel` again from the index that this ROCm came from");
}

/// <https://github.com/ROCm/AMDMIGraphX/pull/5235>
#[test]
fn libraries_that_look_where_they_were_built() {
    let site = Site::new();
    let core = site.path("_rocm_sdk_core/lib/libamdhip64.so.7");
    let name = core.rsplit('/').next().unwrap();
    let library = |soname, path| SharedObject::new(soname).needs(name).runpath(path).build();
    let lost = library("libmigraphx.so", "/home/build/lib");
    let path = "/home/build/lib:$ORIGIN/../_rocm_sdk_core/lib";
    let good = library("libgood.so", path);
    let files: [(&str, &[u8]); 2] =
        [("migraphx/libmigraphx.so", &lost), ("migraphx/libgood.so", &good)];
    site.install("migraphx-libs", "2.18.0+rocm10.1.0", &[], &files);
    insta::assert_snapshot!(site.says("gfx942"), @"
    `migraphx-libs` 2.18.0+rocm10.1.0: `migraphx/libmigraphx.so` looks for `libamdhip64.so.7` in `/home/build/lib`
      tie the wheel of `migraphx-libs` to this ROCm with `rocwheel framework tie`, and install that
    ");
}

#[test]
fn a_placeholder_and_files_that_were_changed() {
    let site = Site::new();
    site.install("amd-torch-device-gfx942", "0.99.1", &[], &[]);
    let path = site.path("rocm_sdk_core/_dist_info.py");
    site.write(&path, b"changed");
    insta::assert_snapshot!(site.says("gfx942"), @"
    `amd-torch-device-gfx942` 0.99.1 is a stub: it has nothing of what such a package is
      install `amd-torch-device-gfx942` from the index that its framework came from: on PyPI, packages of others have such names
    `rocm-sdk-core` 0.99.1.dev0: 1 file is changed: `rocm_sdk_core/_dist_info.py`
      install `rocm-sdk-core` again from the index that this ROCm came from: on PyPI, packages of others have such names
    ");
}

/// AMD's torch has two lines for one extra: the target, and its family.
#[test]
fn each_package_of_an_extra_is_asked_for() {
    let site = Site::new();
    let lines = ["gfx1100", "gfx110x"]
        .map(|name| format!("amd-torch-device-{name} == {TORCH}; extra == \"device-gfx1100\""));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    site.install("torch", TORCH, &lines, &[("torch/lib/libtorch_hip.so", b"")]);
    let device = |name: &str, version: &str| {
        let file = format!("torch/.kpack/torch_{name}.kpack");
        site.install(name, version, &[], &[(&file, b"x")]);
    };
    device("amd-torch-device-gfx110x", TORCH);
    assert_has!(site.says("gfx1100"), "`amd-torch-device-gfx1100` is not installed");
    device("amd-torch-device-gfx1100", "2.8.0+rocm7.14.0");
    let wrong =
        "needs `amd-torch-device-gfx1100` 2.9.0+rocm7.14.0, and 2.8.0+rocm7.14.0 is installed";
    assert_has!(site.says("gfx1100"), wrong);
}

/// What strangers have uploaded to PyPI: modules without anything.
#[test]
fn stubs_are_found_by_what_they_lack() {
    let site = Site::new();
    for (name, file) in [
        ("rocm-profiler", "rocm_profiler/__init__.py"),
        ("rocm-sdk-libraries-gfx110x-dgpu", "dummy_pkg/__init__.py"),
        ("rocm-sdk-device-gfx1100", "rocm_sdk_device_gfx1100/__init__.py"),
        ("amd-torch-device-gfx1100", "amd_torch_device_gfx1100/__init__.py"),
    ] {
        let info = format!("{}-{VERSION}.dist-info", name.replace('-', "_"));
        let _ = fs_err::remove_dir_all(site.root().join(info));
        site.install(name, VERSION, &[], &[(file, b"")]);
        let said = site.says("gfx942");
        assert_has!(said, &format!("`{name}` {VERSION} is a stub"));
    }
}

/// A company adds its authority to certifi, a distribution leaves out programs of pip: that is nobody's business here.
#[test]
fn files_of_others_are_not_judged() {
    let site = Site::new();
    site.install("certifi", "2026.5.20", &[], &[("certifi/cacert.pem", b"of PyPI")]);
    site.write("certifi/cacert.pem", b"of the company");
    site.install("pip", "26.3", &[], &[("../scripts/pip", b"")]);
    site.remove("../scripts/pip");
    // Odd files, which pip and uv leave alone too.
    site.write("odd-1.dist-info/METADATA", b"Name: odd\nVersion: 1\nSummary: \xe9\n");
    site.write("odd-1.dist-info/RECORD", b"odd.py,,\n\xff,,\n");
    site.write("file-1.dist-info", b"no directory");
    let pipe = site.root().join("pipe-1.dist-info");
    fs_err::create_dir(&pipe).unwrap();
    succeed(Command::new("mkfifo").arg(pipe.join("METADATA")));
    assert_eq!(site.says("gfx942"), "");
}

/// A virtual environment around the site that sees the packages of `base`, a Python of its own.
fn with_base(site: &Site, base: &Path) -> TempDir {
    let environment = tempfile::tempdir().unwrap();
    let home = base.join("bin");
    fs_err::create_dir_all(&home).unwrap();
    fs_err::create_dir_all(environment.path().join("bin")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", environment.path().join("bin/python")).unwrap();
    let config = format!("home = {}\ninclude-system-site-packages = true\n", home.display());
    fs_err::write(environment.path().join("pyvenv.cfg"), config).unwrap();
    let lib = environment.path().join("lib/python3.13");
    fs_err::create_dir_all(&lib).unwrap();
    std::os::unix::fs::symlink(site.root(), lib.join("site-packages")).unwrap();
    environment
}

/// The containers of ROCm are used like that. It is no problem in itself.
#[test]
fn the_packages_of_the_python_below_are_seen() {
    let site = Site::new();
    let base = Site::empty();
    let dist_packages = "lib/python3.13/site-packages";
    let environment = with_base(&site, base.root());
    let says = || {
        let said = rocwheel(&["doctor", text(environment.path()), "--target", "gfx942"]);
        said.stdout.replace(text(site.root()), "SITE").replace(text(base.root()), "BASE")
    };
    assert_has!(says(), "nothing is wrong with");
    // Of two packages of a name Python imports that of the environment.
    let below = Site { place: tempfile::tempdir().unwrap() };
    below.install("certifi", "1", &[], &[]);
    below.install("torch", "2.9.0", &[], &[("torch/lib/libtorch_cuda.so", b"")]);
    fs_err::create_dir_all(base.root().join("lib/python3.13")).unwrap();
    copy_tree(below.root(), &base.root().join(dist_packages));
    assert_has!(says(), "torch 2.9.0 is built for CUDA");
    site.install_torch();
    let device: &[(&str, &[u8])] = &[("torch/lib/gfx942.kpack", b"x")];
    site.install("amd-torch-device-gfx942", TORCH, &[], device);
    assert_has!(says(), "nothing is wrong with");
    let table: &[(&str, &[u8])] = &[("rocm_sdk_other/_dist_info.py", b"")];
    below.install("rocm-sdk-other", VERSION, &[], table);
    fs_err::remove_dir_all(base.root().join(dist_packages)).unwrap();
    copy_tree(below.root(), &base.root().join(dist_packages));
    assert_has!(says(), "packages of ROCm are in 2 directories: ");
}

/// Environments that other programs made, and in which nothing is wrong.
#[test]
fn healthy_environments_are_silent() {
    let site = Site::new();
    let root = text(site.root()).to_owned();
    let python_path = |value: &str| site.says_with("gfx942", &[("PYTHONPATH", value)]);
    // The same directory twice.
    assert_eq!(python_path(&format!("{root}:{root}/:{root}")), "");
    // Packages that distributions, setuptools and editable installs name in their own ways.
    let lines = ["numpy>=2", "PyJWT", "xmltodict", "editable"];
    site.install("fw", "1", &[&lines[..], &["rocm"]].concat(), &[]);
    site.write(
        "numpy-2.1.dist-info/METADATA",
        b"Metadata-Version: 2.1\nName: numpy\nVersion: 2.1\n",
    );
    site.write("PyJWT-2.6.0.egg-info/PKG-INFO", b"Name: PyJWT\nVersion: 2.6.0\n");
    site.write("xmltodict-0.13.0.egg-info", b"Name: xmltodict\nVersion: 0.13.0\n");
    let other = Site::empty();
    other.install("editable", "1", &[], &[]);
    site.write(
        "editable.pth",
        format!("# a comment\nimport os\n{}\n", text(other.root())).as_bytes(),
    );
    assert_eq!(site.says("gfx942"), "");
    // What pip has put aside, programs in a directory of their own, and a library of this environment.
    site.write("~ocm_sdk_core-0.99.1.dev0.dist-info/METADATA", b"");
    let record = site.root().join(format!("rocm_profiler-{VERSION}.dist-info/RECORD"));
    let rows = fs_err::read_to_string(&record).unwrap() + "../../../bin/rocprof,sha256=x,12\n";
    fs_err::write(&record, rows).unwrap();
    let built =
        |path: &str| SharedObject::new("_c.so").needs("libamdhip64.so.7").runpath(path).build();
    let own = built(&format!("{root}/_rocm_sdk_devel/lib"));
    let origin = built("/opt/rocm/lib:${ORIGIN}/../_rocm_sdk_core/lib");
    site.install("ext", "1", &[], &[("ext/_c.so", &own), ("ext/_d.so", &origin)]);
    site.install("torch", "2.13.0a0+gitabc123", &[], &[("__editable__.torch.pth", b"")]);
    assert_eq!(site.says("gfx942"), "");
}

/// As `pip install --user` and `--prefix` make them: programs run a Python that is elsewhere, on purpose.
#[test]
fn programs_of_a_prefix_run_the_python_that_installed_them() {
    let site = Site::new();
    let prefix = tempfile::tempdir().unwrap();
    let lib = prefix.path().join("lib/python3.11");
    fs_err::create_dir_all(&lib).unwrap();
    std::os::unix::fs::symlink(site.root(), lib.join("site-packages")).unwrap();
    fs_err::create_dir(prefix.path().join("bin")).unwrap();
    let program = prefix.path().join("bin/rocm-sdk");
    fs_err::write(&program, "#!/usr/bin/python3\n").unwrap();
    let says = || {
        let said = rocwheel(&["doctor", text(prefix.path()), "--target", "gfx942"]);
        said.stdout
    };
    assert_has!(says(), "nothing is wrong with");
    // In a virtual environment they do not, and a file that would block is not read.
    let venv = "home = /usr/bin\nversion = 3.11.2\n";
    fs_err::write(prefix.path().join("pyvenv.cfg"), venv).unwrap();
    std::os::unix::fs::symlink("/bin/sh", prefix.path().join("bin/python")).unwrap();
    assert_has!(says(), "it was moved or copied");
    fs_err::remove_file(&program).unwrap();
    succeed(Command::new("mkfifo").arg(&program));
    assert_has!(says(), "nothing is wrong with");
}

/// A removal that ended early, in each of its forms.
#[test]
fn packages_that_were_removed_in_part() {
    let library = "rocm_sdk_libraries-0.99.1.dev0.dist-info";
    // Without RECORD, without METADATA, without `.dist-info`, without files.
    let site = Site::new();
    site.remove(&format!("{library}/RECORD"));
    insta::assert_snapshot!(site.says("gfx942"), @"
    `rocm-sdk-libraries` was removed in part: `SITE/rocm_sdk_libraries-0.99.1.dev0.dist-info` has no RECORD
      remove the directory `SITE/rocm_sdk_libraries-0.99.1.dev0.dist-info`, and then: install `rocm-sdk-libraries` from the index that this ROCm came from: on PyPI, packages of others have such names
    ");
    let site = Site::new();
    site.remove(&format!("{library}/METADATA"));
    assert_has!(site.says("gfx942"), "`rocm-sdk-libraries` was removed in part: `SITE/");
    let site = Site::new();
    fs_err::remove_dir_all(site.root().join(library)).unwrap();
    insta::assert_snapshot!(site.says("gfx942"), @"
    `rocm-sdk-devel` 0.99.1.dev0, `rocm-sdk-device-gfx1100` 0.99.1.dev0, `rocm-sdk-device-gfx942` 0.99.1.dev0 need `rocm-sdk-libraries`==0.99.1.dev0, which is not installed: only files of it are there
      install `rocm-sdk-libraries==0.99.1.dev0` from the index that this ROCm came from: on PyPI, packages of others have such names
    ");
    let site = Site::new();
    fs_err::remove_dir_all(site.root().join("_rocm_sdk_libraries")).unwrap();
    insta::assert_snapshot!(site.says("gfx942"), @"
    `rocm-sdk-device-gfx1100` 0.99.1.dev0: 6 files are missing: `_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack`, `_rocm_sdk_libraries/.kpack/rccl_lib_gfx1100.kpack`, `_rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx1100.hsaco`, `_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx1100.co`, `_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx1100.dat`, `_rocm_sdk_libraries/.devel_links/gfx1100.json`; `rocm-sdk-device-gfx942` 0.99.1.dev0: 10 files are missing: `_rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack`, `_rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack+.kpack`, `_rocm_sdk_libraries/.kpack/rccl_lib_gfx942.kpack`, `_rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx942-xnack+.hsaco`, `_rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx942.hsaco`, `_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942-xnack+.co`, and 4 more; `rocm-sdk-libraries` 0.99.1.dev0: 15 files are missing: `_rocm_sdk_libraries/__init__.py`, `_rocm_sdk_libraries/lib/libMIOpen.so.1`, `_rocm_sdk_libraries/lib/libhipblas.so.3`, `_rocm_sdk_libraries/lib/libhipblaslt.so.1`, `_rocm_sdk_libraries/lib/libhipdnn_backend.so.0`, `_rocm_sdk_libraries/lib/libhipfft.so.0`, and 9 more
      install `rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries` again from the index that this ROCm came from: on PyPI, packages of others have such names
    ");
    // Two at once.
    let site = Site::new();
    let info = site.root().join(library);
    copy_tree(&info, &site.root().join("rocm_sdk_libraries-0.99.0.dist-info"));
    assert_has!(site.says("gfx942"), "`rocm-sdk-libraries` is there 2 times, as ");
}

/// Python packages that a framework requires, and the extras that it asks for.
#[test]
fn requirements_that_are_not_met() {
    let site = Site::new();
    let lines =
        ["rocm[extra]", "numpy>=2; python_version>='3'", "other<2", "win; sys_platform=='win32'"];
    site.install("fw", "1", &lines, &[]);
    site.install("numpy", "2.1", &[], &[]);
    site.install("other", "2.0", &[], &[]);
    let devices = ["gfx942", "gfx1100"]
        .map(|target| format!("rocm-sdk-device-{target}=={VERSION}; extra == \"device-{target}\""));
    let mut requires: Vec<&str> = devices.iter().map(String::as_str).collect();
    requires.push("rocm-sdk-extra==1; extra == 'extra'");
    requires.push("rocm-sdk-unasked==1; extra == 'unasked'");
    site.install("rocm", VERSION, &requires, &[("rocm_sdk/__init__.py", b"")]);
    insta::assert_snapshot!(site.says("gfx942"), @"
    `rocm` 0.99.1.dev0 needs `rocm-sdk-extra`==1, which is not installed
      install `rocm-sdk-extra==1` from the index that this ROCm came from: on PyPI, packages of others have such names
    `fw` 1 needs `other`<2, and 2.0 is installed
      install `other<2` from where this environment takes its packages
    ");
}

/// What an older version, or somebody, has left in the directories of packages.
#[test]
fn files_that_no_package_has() {
    let site = Site::new();
    site.write("_rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack-.kpack", b"KPAK");
    site.write("_rocm_sdk_libraries/share/notes.txt", b"of the user");
    insta::assert_snapshot!(site.says("gfx942"), @"
    1 file is of no installed package: `_rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack-.kpack`, and the loader or the runtime may find them
      remove what no package has from `SITE/_rocm_sdk_libraries`
    ");
}

#[test]
fn development_files_of_another_version() {
    let site = Site::new();
    site.write("_rocm_sdk_devel/.info/version", b"0.98.0-12");
    for number in 0..40 {
        site.write(&format!("_rocm_sdk_devel/include/{number}.h"), &[b'x'; 4000]);
    }
    assert_has!(
        site.says("gfx942"),
        "the development files are of ROCm 0.98.0, and `rocm-sdk-devel` is 0.99.1.dev0\n  rocm-sdk init"
    );
    fs_err::remove_dir_all(site.root().join("rocm_sdk_devel-0.99.1.dev0.dist-info")).unwrap();
    assert_has!(
        site.says("gfx942"),
        "has development files, and `rocm-sdk-devel` is not installed"
    );
}

/// A library of the host is no matter of packages.
#[test]
fn libraries_that_the_host_lacks() {
    let library = |needs| SharedObject::new("librocnew.so.1").needs(needs).build();
    let site = Site::new();
    let files = |needs| vec![("_rocm_sdk_core/lib/librocnew.so.1", library(needs))];
    for (needs, is_there) in [("libnosuch.so.1", false), ("libstdc++.so.6", true)] {
        let files = files(needs);
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(path, bytes)| (*path, &bytes[..])).collect();
        site.install("rocm-sdk-new", VERSION, &[], &files);
        let said = site.says("gfx942");
        assert_eq!(said.is_empty(), is_there, "{said}");
        if !is_there {
            insta::assert_snapshot!(said, @"
            this machine does not have `libnosuch.so.1`, which `_rocm_sdk_core/lib/librocnew.so.1` loads
              install the package of this machine's system that has `libnosuch.so.1`
            ");
        }
    }
}

#[test]
fn variables_that_lead_to_another_rocm() {
    let site = Site::new();
    let other = Site::empty();
    other.write("lib/libamdhip64.so.7", b"");
    other.write(".info/version", b"6.4.1-83");
    let says = |name: &str, value: &str| {
        let said = site.says_with("gfx942", &[(name, value)]);
        said.replace(text(other.root()), "OTHER")
    };
    let root = text(other.root());
    let all = [
        says("LD_LIBRARY_PATH", &format!("/nowhere:{root}/lib")),
        says("ROCM_PATH", root),
        says("HIP_PATH", &format!("{root}/gone")),
        says("HSA_OVERRIDE_GFX_VERSION", "11.0.0"),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    `LD_LIBRARY_PATH` has `OTHER/lib`, from where programs may load `libamdhip64.so.7` instead of the libraries of this environment
      remove `OTHER/lib` from `LD_LIBRARY_PATH`
    `ROCM_PATH` names `OTHER` with ROCm 6.4.1, and this environment has 0.99.1
      unset `ROCM_PATH`
    `HIP_PATH` names `OTHER/gone`, which is not there
      unset `HIP_PATH`
    `HSA_OVERRIDE_GFX_VERSION=11.0.0` makes each GPU act as `gfx1100`, and the code for `gfx942` is not used
      unset `HSA_OVERRIDE_GFX_VERSION`
    ");
    // These change nothing.
    for (name, value) in [
        ("LD_LIBRARY_PATH", "/nowhere".to_owned()),
        ("LD_LIBRARY_PATH", format!("{}/_rocm_sdk_core/lib", text(site.root()))),
        ("ROCM_PATH", format!("{}/_rocm_sdk_core", text(site.root()))),
        ("HSA_OVERRIDE_GFX_VERSION", "9.4.2".to_owned()),
        ("ROCR_VISIBLE_DEVICES", "5".to_owned()),
    ] {
        assert_eq!(says(name, &value), "", "{name}={value}");
    }
    // Of a GPU that no build is for, users name a relative.
    assert_has!(site.says("gfx1103"), "no code for `gfx1103`");
    let relative = |value| site.says_with("gfx1103", &[("HSA_OVERRIDE_GFX_VERSION", value)]);
    assert_eq!(relative("11.0.0"), "");
    assert_has!(relative("11.0.2"), "no code for `gfx1102`");
    assert_has!(relative("10.3.0"), "makes each GPU act as `gfx1030`");
    let stranger = site.says_with("gfx950", &[("HSA_OVERRIDE_GFX_VERSION", "9.4.2")]);
    assert_has!(stranger, "makes each GPU act as `gfx942`");
}

#[test]
fn a_python_that_is_gone() {
    let site = Site::new();
    let base = Site::empty();
    let environment = with_base(&site, base.root());
    fs_err::remove_dir_all(base.root().join("bin")).unwrap();
    let said = rocwheel(&["doctor", text(environment.path()), "--target", "gfx942"]).stdout;
    assert_has!(said, "/bin/python` does not run: the Python of the environment is gone");
}

/// Made by programs of Windows, and by hand.
#[test]
fn records_with_backslashes_and_second_names_are_healthy() {
    let site = Site::new();
    let record = site.path("rocm_sdk_core-0.99.1.dev0.dist-info/RECORD");
    let rows = fs_err::read_to_string(site.root().join(&record)).unwrap();
    site.write(&record, rows.replace('/', "\\").as_bytes());
    assert_eq!(site.says("gfx942"), "");
    let library = site.root().join(site.path("libhipblas.so.3"));
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, library.with_file_name(name)).unwrap();
    };
    link("libhipblas.so.3".as_ref(), "libhipblas.so");
    link("/nowhere/libgone.so".as_ref(), "libgone.so");
    assert_eq!(site.says("gfx942"), "");
    let other = Site::empty();
    other.write("libother.so", b"of another ROCm");
    link(&other.root().join("libother.so"), "libother.so");
    let stray = "1 file is of no installed package: `_rocm_sdk_libraries/lib/libother.so`";
    assert_has!(site.says("gfx942"), stray);
}

/// TheRock's `rocm-sdk init` adds rows as text.
#[test]
fn a_row_of_record_without_quotes_around_a_path_with_commas() {
    let site = Site::new();
    let file = "_rocm_sdk_odd/a, b,.txt";
    site.install("rocm-sdk-odd", VERSION, &[], &[(file, b"x")]);
    assert_eq!(site.says("gfx942"), "");
    site.write(file, b"changed");
    assert_has!(site.says("gfx942"), &format!("1 file is changed: `{file}`"));
    site.remove(file);
    assert_has!(site.says("gfx942"), &format!("1 file is missing: `{file}`"));
}

/// `onnxruntime` and `onnxruntime-rocm` have modules of the same name.
#[test]
fn a_package_that_was_installed_over_another() {
    let site = Site::new();
    let needs = format!("rocm=={VERSION}");
    let files = |bytes| [("onnxruntime/__init__.py", bytes), ("onnxruntime/capi.so", bytes)];
    site.install("onnxruntime-rocm", "1.22", &[&needs], &files(b"of ROCm".as_slice()));
    site.install("onnxruntime", "1.23", &[], &files(b"of processors".as_slice()));
    insta::assert_snapshot!(site.says("gfx942"), @"
    `onnxruntime` 1.23 has replaced files of `onnxruntime-rocm` 1.22: 2 files are changed: `onnxruntime/__init__.py`, `onnxruntime/capi.so`
      uninstall `onnxruntime`, and then: install `onnxruntime-rocm` 1.22 from where this environment takes its packages
    ");
}

/// Packages of PyPI without a requirement on ROCm. The RECORD of `onnxruntime-rocm` has no hashes.
#[test]
fn a_framework_without_requirements_under_another_package() {
    let path = "onnxruntime/capi/onnxruntime_pybind11_state.so";
    let row = |bytes: &[u8], with_size: bool| {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::of(bytes).bytes());
        let size = if with_size { bytes.len().to_string() } else { String::new() };
        format!("{path},sha256={digest},{size}")
    };
    let rocm: &[u8] = b"for ROCm";
    let other: &[u8] = b"for CPUs";
    let says = |rows: [String; 2], installed: &[u8]| {
        let site = Site::new();
        for (name, row) in ["onnxruntime-rocm", "onnxruntime"].iter().zip(rows) {
            site.install(name, "1.22", &[], &[]);
            let record = site.path(&format!("{}-1.22.dist-info/RECORD", name.replace('-', "_")));
            site.write(&record, format!("{row}\n{record},,\n").as_bytes());
        }
        site.write(path, installed);
        site.says("gfx942")
    };
    let overwritten = format!(
        "`onnxruntime` 1.22 has replaced files of `onnxruntime-rocm` 1.22: 1 file is changed: `{path}`\n  \
         uninstall `onnxruntime`, and then: install `onnxruntime-rocm` 1.22 from where this environment takes its packages"
    );
    // The files have one size, or RECORD has no sizes.
    assert_eq!(says([row(rocm, true), row(other, true)], other), overwritten);
    assert_eq!(says([row(rocm, false), row(other, false)], other), overwritten);
    let larger = b"for other CPUs";
    assert_eq!(says([format!("{path},,{}", rocm.len()), row(larger, true)], larger), overwritten);
    // The package for ROCm came last; the file is in both packages; or somebody has built it again.
    assert_eq!(says([row(rocm, true), row(other, true)], rocm), "");
    assert_eq!(says([row(rocm, true), row(rocm, false)], rocm), "");
    assert_eq!(says([row(rocm, true), row(other, true)], b"for me"), "");
}

/// Packages that have a directory in common, and triton for ROCm over the other one.
#[test]
fn files_that_packages_share_are_healthy() {
    let site = Site::new();
    let shared = |bytes| [("jax_plugins/__init__.py", bytes), ("tests/helper.py", bytes)];
    site.install("jax-rocm10-plugin", "0.12", &[], &shared(b"# of ROCm".as_slice()));
    site.install("jax-other-plugin", "0.12", &[], &shared(b"# of others".as_slice()));
    site.install("triton", "3.5", &[], &[("triton/runtime.py", b"# of others")]);
    site.install("pytorch-triton-rocm", "3.5", &[], &[("triton/runtime.py", b"# of ROCm")]);
    assert_eq!(site.says("gfx942"), "");
}

/// Python reads `pyvenv.cfg` as UTF-8, comments included, before anything else.
#[test]
fn settings_that_python_cannot_read() {
    let site = Site::new();
    let base = Site::empty();
    let environment = with_base(&site, base.root());
    let settings = environment.path().join("pyvenv.cfg");
    let mut bytes = fs_err::read(&settings).unwrap();
    bytes.extend(b"# caf\xe9\n");
    fs_err::write(&settings, bytes).unwrap();
    let said = rocwheel(&["doctor", text(environment.path()), "--target", "gfx942"]);
    assert_eq!(said.code, 1);
    let fact = format!(
        "the Python of the environment does not run: failed to read `{}`: not UTF-8",
        settings.display()
    );
    assert_has!(said.stdout, &fact);
}

/// Of 300 damaged packages of ROCm, and 300 of others that need ROCm, people see a screen. A document has all of them.
#[test]
fn a_screen_has_the_first_of_many() {
    let site = Site::new();
    let needs = format!("rocm=={VERSION}");
    for number in 0..300 {
        for (name, requires) in [("rocm-sdk-odd", vec![]), ("fw", vec![&*needs])] {
            let name = format!("{name}{number}");
            let file = format!("{}/_dist_info.py", name.replace('-', "_"));
            site.install(&name, VERSION, &requires, &[(&file, b"x")]);
            site.write(&file, b"changed");
        }
    }
    let root = text(site.root());
    let says =
        |more: &[&str]| rocwheel(&[&["doctor", root, "--target", "gfx942"], more].concat()).stdout;
    let screen = says(&[]);
    assert!(screen.lines().count() <= 25 && screen.len() < 5000, "{screen}");
    assert_has!(
        screen,
        "; and 290 more: `-v` shows them",
        "and 291 more problems: `-v` shows them"
    );
    for all in [says(&["-v"]), says(&["--format", "json"])] {
        assert_eq!(all.matches("1 file is changed").count(), 600);
        assert_lacks!(all, "`-v` shows them");
    }
}

#[test]
fn names_move_no_cursor_and_reverse_no_text() {
    let site = Site::new();
    let path = "_rocm_sdk_core/lib/a\u{202e}b\n\u{1b}[2J.so";
    site.install("rocm-sdk-odd", VERSION, &[], &[]);
    site.write("rocm_sdk_odd-0.99.1.dev0.dist-info/RECORD", format!("\"{path}\",,1\n").as_bytes());
    let said = rocwheel(&["doctor", text(site.root()), "--target", "gfx942"]).stdout;
    assert_has!(said, r"`_rocm_sdk_core/lib/a\u{202e}b\n\u{1b}[2J.so`");
    assert!(said.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{said:?}");
}

#[test]
fn a_directory_that_does_not_exist_is_named() {
    let said = Sandbox::new().run("doctor nothere").refused(2);
    insta::assert_snapshot!(said, @"
    error: no such directory: `nothere`

    hint: pass a virtual environment, a conda prefix, or a `site-packages` directory
    ");
}

#[test]
fn a_directory_without_packages_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let said = rocwheel(&["doctor", text(place.path())]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr.replace(text(place.path()), "PLACE"), @"
    error: no packages are installed in `PLACE`

    hint: pass a virtual environment, a conda prefix, or a `site-packages` directory
    ");
}
