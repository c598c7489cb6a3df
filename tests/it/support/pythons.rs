//! Pythons on disk as distributions lay them out, made of the Python that runs the judges.

use crate::support::prelude::*;

/// Lays out a Python in a prefix, as conda does, and returns its directory of packages.
pub(crate) fn write_conda(prefix: &Path) -> PathBuf {
    let site = write_python(prefix);
    let meta = prefix.join("conda-meta");
    fs_err::create_dir(&meta).unwrap();
    fs_err::write(meta.join("history"), "==> 2026-11-01 10:00:00 <==\n").unwrap();
    fs_err::write(meta.join("python-3.13.0-h1_0.json"), "{\"name\": \"python\"}").unwrap();
    // What conda has installed has no RECORD of a wheel's form: the digests are of another kind or missing.
    let info = site.join("certifi-2026.1.1.dist-info");
    fs_err::create_dir_all(&info).unwrap();
    let metadata = "Metadata-Version: 2.1\nName: certifi\nVersion: 2026.1.1\n";
    let record = "certifi/__init__.py,,\ncertifi-2026.1.1.dist-info/METADATA,,\n";
    for (name, text) in [("METADATA", metadata), ("RECORD", record), ("INSTALLER", "conda\n")] {
        fs_err::write(info.join(name), text).unwrap();
    }
    site
}

/// Lays out `/usr` of Debian: one directory of packages for all Pythons, and one for what an administrator installs,
/// which is returned.
pub(crate) fn write_debian(usr: &Path) -> PathBuf {
    let lib = write_python(usr).parent().unwrap().to_owned();
    let python = lib.file_name().unwrap();
    fs_err::remove_dir(lib.join("site-packages")).unwrap();
    write_marker(&lib);
    let packages = usr.join("lib/python3/dist-packages");
    fs_err::create_dir_all(packages.join("PyJWT-2.6.0.egg-info")).unwrap();
    fs_err::write(packages.join("PyJWT-2.6.0.egg-info/PKG-INFO"), "Name: PyJWT\nVersion: 2.6.0\n")
        .unwrap();
    fs_err::write(packages.join("six-1.16.0.egg-info"), "Name: six\nVersion: 1.16.0\n").unwrap();
    let local = usr.join("local/lib").join(python).join("dist-packages");
    fs_err::create_dir_all(&local).unwrap();
    local
}

/// Says to installers that the system manages the packages beside this standard library (PEP 668).
pub(crate) fn write_marker(library: &Path) {
    let text = "[externally-managed]\nError=install packages with apt\n";
    fs_err::write(library.join("EXTERNALLY-MANAGED"), text).unwrap();
}

/// A Python with a standard library of links and no packages.
fn write_python(prefix: &Path) -> PathBuf {
    let script = "import sys, sysconfig\n\
        print(sys._base_executable, sysconfig.get_path('stdlib'), sys.base_prefix, sep='\\n')";
    let said = succeed(Command::new(tool("python")).args(["-c", script])).stdout;
    let said = String::from_utf8(said).unwrap();
    let [program, library, base] =
        said.lines().map(PathBuf::from).collect::<Vec<_>>().try_into().unwrap();
    let name = library.file_name().unwrap().to_str().unwrap();
    let (bin, lib) = (prefix.join("bin"), prefix.join("lib").join(name));
    for directory in [&bin, &lib] {
        fs_err::create_dir_all(directory).unwrap();
    }
    fs_err::copy(fs_err::canonicalize(program).unwrap(), bin.join(name)).unwrap();
    for link in ["python", "python3"] {
        std::os::unix::fs::symlink(name, bin.join(link)).unwrap();
    }
    link_all(&library, &lib, |it| !it.ends_with("-packages") && it != "EXTERNALLY-MANAGED");
    link_all(&base.join("lib"), &prefix.join("lib"), |it| it.starts_with("libpython"));
    let site = lib.join("site-packages");
    fs_err::create_dir(&site).unwrap();
    site
}

fn link_all(from: &Path, to: &Path, is_wanted: fn(&str) -> bool) {
    for entry in fs_err::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if is_wanted(&name) {
            std::os::unix::fs::symlink(entry.path(), to.join(name)).unwrap();
        }
    }
}
