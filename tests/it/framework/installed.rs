//! The framework of the guide, installed by pip and uv, and imported by Python.

use super::{
    Place,
    guide::{ANSWER, followed, only},
    members,
};
use crate::support::prelude::*;
use crate::support::{demo::HOOK, published::VERSION};

/// Imports the framework. Prints what its libraries return, and how many libraries of ROCm are loaded:
/// each of them once.
const IMPORT: &str = "
import pathlib, fw
maps = pathlib.Path('/proc/self/maps').read_text().splitlines()
paths = {line.split(maxsplit=5)[5] for line in maps if '_rocm_sdk_' in line}
names = {path.rsplit('/', 1)[1] for path in paths}
assert len(names) == len(paths), paths
print(fw.answer(), 'by', len(names), 'libraries')
";

/// The wheel as it was built, and how it is tied.
const WAYS: [(&str, Option<&[&str]>); 3] = [
    ("as it was built", None),
    ("run path", Some(&[])),
    ("with preloading", Some(&["--init", "add"])),
];

/// A virtual environment, and what fills it.
struct Venv {
    root: TempDir,
    installer: &'static str,
}

impl Venv {
    fn new(installer: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut uv = Command::new(tool("uv"));
        uv.args(["venv", "--quiet", "--clear", "--python", "python3"]);
        succeed(uv.arg(root.path()));
        Self { root, installer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn python(&self) -> PathBuf {
        self.path("bin/python")
    }

    /// Installs from these directories, and from nowhere else, as on a machine with this GPU.
    fn install(&self, arguments: &[&str], from: &[&Path], family: Option<&str>) {
        let mut command = Command::new(tool(self.installer));
        let command = match self.installer {
            "pip" => command.arg("--python").arg(self.python()).arg("install"),
            _ => command.args(["pip", "install", "--python"]).arg(self.python()),
        };
        command.args(["--quiet", "--no-index", "--cache-dir"]);
        command.arg(self.path("cache")).args(arguments);
        for from in from {
            command.arg("--find-links").arg(from);
        }
        for variable in ["ROCM_SDK_TARGET_FAMILY", "PIP_INDEX_URL", "UV_INDEX_URL"] {
            command.env_remove(variable);
        }
        succeed(command.envs(family.map(|it| ("ROCM_SDK_TARGET_FAMILY", it))));
    }

    /// Installs one wheel in place of another version of it.
    fn replace(&self, wheel: &Path) {
        let again = match self.installer {
            "pip" => "--force-reinstall",
            _ => "--reinstall",
        };
        self.install(&["--no-deps", again, text(wheel)], &[], None);
    }

    /// The installed packages that have device code.
    fn device_packages(&self) -> Vec<String> {
        let mut lib = fs_err::read_dir(self.path("lib")).unwrap();
        let site = lib.next().unwrap().unwrap().path().join("site-packages");
        let names = fs_err::read_dir(site).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names
            .filter(|it| it.contains("_device_") && it.ends_with(".dist-info"))
            .map(|it| it.split('-').next().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }
}

/// What an import came to, in one line.
fn imported(python: &Path, variables: &[(&str, &Path)]) -> String {
    let mut python = Command::new(python);
    python.args(["-c", IMPORT]).env_clear();
    let output = python.envs(variables.iter().copied()).output().unwrap();
    let said = Outcome::of(output);
    let error = said.stderr.lines().last().unwrap_or_default();
    let code = said.code;
    let said = if code == 0 { said.stdout.trim_end() } else { error };
    format!("exit {code}: {said}")
}

/// Ties a wheel to the sample.
fn tied(wheel: &Path, flags: &[&str]) -> (Place, PathBuf) {
    let place = Place::new();
    place.tie(&[wheel.to_owned()], &sample().dist(), flags).ok();
    let tied = place.only();
    (place, tied)
}

#[test]
#[ignore = "slow"]
fn a_run_path_serves_one_site_and_preloading_serves_two() {
    let fat = only("dist");
    for installer in ["uv", "pip"] {
        if installer == "pip" && !long::is_on() {
            continue;
        }
        let venv = Venv::new(installer);
        let rocm = sample().place().join("dist");
        venv.install(&["rocm[libraries]"], &[&rocm], None);
        let ways = WAYS.into_iter().enumerate().map(|(number, (way, flags))| {
            let tied = flags.map(|flags| tied(&fat, flags));
            let wheel = tied.as_ref().map_or(&fat, |it| &it.1);
            let other = venv.path(&format!("other-{number}"));
            let target = ["--no-deps", "--target", text(&other), text(wheel)];
            venv.install(&target, &[], None);
            venv.replace(wheel);
            let one = imported(&venv.python(), &[]);
            let two = imported(&venv.python(), &[("PYTHONPATH", &other)]);
            format!("{way}\n  one site:  {one}\n  two sites: {two}")
        });
        let ways: Vec<String> = ways.collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(ways.join("\n"), @"
            as it was built
              one site:  exit 1: OSError: libamdhip64.so.7: cannot open shared object file: No such file or directory
              two sites: exit 1: OSError: libamdhip64.so.7: cannot open shared object file: No such file or directory
            run path
              one site:  exit 0: 15 by 10 libraries
              two sites: exit 1: OSError: libamdhip64.so.7: cannot open shared object file: No such file or directory
            with preloading
              one site:  exit 0: 15 by 10 libraries
              two sites: exit 0: 15 by 10 libraries
            ");
        }
    }
}

/// Installed without any package of ROCm: the files of ROCm are in the wheel. A second framework uses them too.
#[test]
#[ignore = "slow"]
fn a_wheel_with_rocm_in_it_needs_no_package_of_rocm() {
    let place = Place::new();
    let mut more = DemoWheel::bare("more");
    let object = SharedObject::new("_more.so").needs("libhipfft.so.0").needs("libamdhip64.so.7");
    more.add("more/_more.so", object.build());
    let module =
        "import ctypes, pathlib\nctypes.CDLL(str(pathlib.Path(__file__).with_name('_more.so')))\n";
    more.add("more/__init__.py", module);
    let wheels = [only("dist"), place.write(&more)];
    let flags = ["--bundle", "--target", "gfx942,gfx1100", "--init", "add"];
    place.tie(&wheels, &sample().dist(), &flags).ok();
    for installer in ["uv", "pip"] {
        if installer == "pip" && !long::is_on() {
            continue;
        }
        let venv = Venv::new(installer);
        venv.install(&["more"], &[&place.tied()], None);
        let said = imported(&venv.python(), &[]);
        assert!(said.starts_with(&format!("exit 0: {ANSWER} ")), "{said}");
        let python = |code: &str| {
            let mut python = Command::new(venv.python());
            String::from_utf8(succeed(python.args(["-c", code]).env_clear()).stdout).unwrap()
        };
        assert_has!(python("import more, rocm_sdk; print(rocm_sdk.__version__)"), VERSION);
        let listed =
            "import importlib.metadata as it; print(sorted(x.name for x in it.distributions()))";
        assert_lacks!(python(listed), "rocm");
        assert_has!(python(listed), "'fw'", "'more'");
    }
}

#[test]
#[ignore = "slow"]
fn the_device_extra_brings_the_code_of_one_gpu() {
    let (rocm, guide) = (sample().place().join("dist"), followed());
    let both = ["amd_fw_device_gfx1100", "rocm_sdk_device_gfx1100"];
    for (installer, place, expected) in [
        ("pip", "tied", &both[1..]),
        ("uv", "published", &both),
        ("uv", "tied", &both[1..]),
        ("pip", "published", &both),
    ] {
        if installer == "pip" && !long::is_on() {
            continue;
        }
        let venv = Venv::new(installer);
        let from = [rocm.as_path(), &guide.join(place)];
        venv.install(&["fw[device]"], &from, Some("gfx1100"));
        assert_eq!(venv.device_packages(), expected, "{installer}");
        let said = imported(&venv.python(), &[]);
        assert!(said.starts_with(&format!("exit 0: {ANSWER} ")), "{said}");
    }
}

/// The wheel with the init module that builds of PyTorch have: the same list for every set.
fn with_the_list_of_pytorch(wheel: &Path) -> Members {
    const LIST: &str = "amd_comgr amd_smi amdhip64 hiprtc hipblas hipfft hiprand hipsparse hipsparselt hipsolver hipblaslt \
                        miopen hipdnn rocm_sysdeps_liblzma rocm-openblas rocm_smi64 rocprofiler-sdk \
                        rocprofiler-sdk-roctx roctracer64 roctx64 rccl hipfile";
    let names = LIST.split_whitespace().map(|it| format!("'{it}'"));
    let names: Vec<String> = names.collect();
    let module = format!(
        "def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(\n        \
         preload_shortnames=[{}],\n        check_version='{VERSION}')\n",
        names.join(", ")
    );
    let mut members = members(wheel);
    for (path, _, bytes) in &mut members {
        if path == "fw/__init__.py" {
            *bytes = [HOOK.as_bytes(), bytes].concat();
        }
    }
    let module = module.into_bytes();
    members.insert(0, ("fw/_rocm_init.py".to_owned(), 0o100_644, module));
    record(&mut members);
    members
}

#[test]
#[ignore = "long"]
fn long_a_set_without_one_library_does_not_stop_a_tied_wheel() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs_err::create_dir(at("artifacts")).unwrap();
    for (name, bytes) in sample().archives() {
        if !name.starts_with("hipfile") {
            fs_err::write(at("artifacts").join(name), bytes).unwrap();
        }
    }
    let mut build = command();
    build.args(["build", "--without", "hipfile", "--artifact-dir"]);
    build.arg(at("artifacts"));
    succeed(build.arg("--dest-dir").arg(at("set")));
    let set = at("set/dist");
    let upstream = at(only("dist").file_name().unwrap().to_str().unwrap());
    let bytes = zipped(&with_the_list_of_pytorch(&only("dist")));
    fs_err::write(&upstream, bytes).unwrap();
    let mut check = command();
    check.arg("check").arg(&set).arg("--with").arg(&upstream);
    let found = Outcome::of(check.output().unwrap()).stdout;
    assert_has!(found, "RWF05", "hipfile");

    let venv = Venv::new("uv");
    venv.install(&["rocm[libraries]"], &[&set], None);
    venv.replace(&upstream);
    let said = imported(&venv.python(), &[]);
    assert!(said.starts_with("exit 1"), "{said}");
    assert_has!(said, "hipfile");
    let tied = Place::new();
    tied.tie(&[upstream], &set, &[]).ok();
    venv.replace(&tied.only());
    let said = imported(&venv.python(), &[]);
    assert!(said.starts_with(&format!("exit 0: {ANSWER} ")), "{said}");
}

/// Makes an environment whose Python has `lib` for modules and `lib64` for extensions, as that of Fedora.
const TWO_LIBS: &str = "
import os, pathlib, shutil, sys, sysconfig
root = pathlib.Path(sys.argv[1])
version = f'python{sys.version_info[0]}.{sys.version_info[1]}'
for directory in ['base/bin', 'base/lib', 'base/lib64', 'venv/bin']:
    (root / directory).mkdir(parents=True)
shutil.copy2(os.path.realpath(sys.executable), root / 'base/bin/python3')
(root / 'venv/bin/python').symlink_to(root / 'base/bin/python3')
(root / 'venv/pyvenv.cfg').write_text(f'home = {root}/base/bin\\n')
for lib in ['lib', 'lib64']:
    (root / 'base' / lib / version).symlink_to(sysconfig.get_path('stdlib'))
    (root / 'venv' / lib / version / 'site-packages').mkdir(parents=True)
";

#[test]
#[ignore = "long"]
fn long_a_tied_wheel_works_where_lib_and_lib64_are_two() {
    let place = tempfile::tempdir().unwrap();
    let mut python = Command::new("python3");
    succeed(python.args(["-c", TWO_LIBS]).arg(place.path()));
    let python = place.path().join("venv/bin/python");
    let judges = tool("python");
    let mut packages = fs_err::read_dir(judges.parent().unwrap().join("../lib")).unwrap();
    let lib = packages.next().unwrap().unwrap().path();
    let packages = lib.join("site-packages");
    let install = |arguments: &[&str]| {
        let mut pip = Command::new(&python);
        let flags = "-m pip install --isolated --no-index --no-cache-dir --quiet --disable-pip-version-check --force-reinstall";
        pip.args(flags.split(' ')).args(arguments);
        pip.env("PYTHONPLATLIBDIR", "lib64");
        succeed(pip.env("PYTHONPATH", &packages));
    };
    let rocm = sample().place().join("dist");
    install(&["--find-links", text(&rocm), "rocm[libraries]"]);
    let dist = only("dist");
    let mut shown = Vec::new();
    for (way, flags) in WAYS {
        let Some(flags) = flags else { continue };
        let (tied, wheel) = tied(&dist, flags);
        let moved = tied.0.path(wheel.file_name().unwrap());
        fs_err::write(&moved, zipped(&for_platlib(&wheel))).unwrap();
        for (wheel, lib) in [(wheel, "lib"), (moved, "lib64")] {
            install(&["--no-deps", text(&wheel)]);
            let version = packages.parent().unwrap().file_name().unwrap();
            let site = place.path().join("venv").join(lib).join(version);
            assert!(site.join("site-packages/fw").exists(), "{lib}");
            let said = imported(&python, &[("PYTHONPLATLIBDIR", "lib64".as_ref())]);
            shown.push(format!("{way}, in {lib}: {said}"));
        }
    }
    insta::assert_snapshot!(shown.join("\n"), @"
    run path, in lib: exit 0: 15 by 10 libraries
    run path, in lib64: exit 1: OSError: libamdhip64.so.7: cannot open shared object file: No such file or directory
    with preloading, in lib: exit 0: 15 by 10 libraries
    with preloading, in lib64: exit 0: 15 by 10 libraries
    ");
}

/// The wheel as builds of frameworks have it: beside extensions, and not beside modules.
fn for_platlib(wheel: &Path) -> Members {
    let mut members = members(wheel);
    let file = members.iter_mut().find(|it| it.0.ends_with("/WHEEL"));
    let file = &mut file.unwrap().2;
    let text = String::from_utf8(std::mem::take(file)).unwrap();
    let text = text.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false");
    *file = text.into_bytes();
    record(&mut members);
    members
}
