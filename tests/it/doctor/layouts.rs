//! `doctor ENVIRONMENT`: environments as each program lays them out, of which none is a problem in itself.

use super::environment::Site;
use crate::support::{
    prelude::*,
    pythons::{write_conda, write_debian},
};

/// Makes an environment in a directory, and returns where its packages are.
type Layout = fn(&Path) -> PathBuf;

const LAYOUTS: [(&str, Layout); 6] = [
    ("venv", |place| made(place, tool("python"), "-m venv --without-pip")),
    ("uv", |place| made(place, tool("uv"), "venv --quiet --offline --no-config")),
    ("conda", write_conda),
    ("venv on the packages of conda", |place| {
        let base = place.with_file_name("base");
        let site = write_conda(&base);
        made(place, base.join("bin/python"), "-m venv --without-pip --system-site-packages");
        site
    }),
    ("Debian", write_debian),
    ("venv on the packages of Debian", |place| {
        let base = place.with_file_name("usr");
        let site = write_debian(&base);
        made(place, base.join("bin/python"), "-m venv --without-pip --system-site-packages");
        site
    }),
];

fn made(place: &Path, program: PathBuf, line: &str) -> PathBuf {
    succeed(Command::new(program).args(line.split(' ')).arg(place));
    let pythons = fs_err::read_dir(place.join("lib")).unwrap();
    let python = pythons.map(|it| it.unwrap().path()).next().unwrap();
    python.join("site-packages")
}

#[test]
fn an_environment_of_each_layout_is_healthy_until_a_file_is_lost() {
    let rocm = Site::new();
    for (layout, write) in LAYOUTS {
        let t = Sandbox::new();
        let site = write(&t.path("environment"));
        copy_tree(&rocm.root().join("."), &site);
        // What it needs may be a package of the distribution below.
        let info = site.join("fw-1.dist-info");
        fs_err::create_dir(&info).unwrap();
        let needs = if layout.ends_with("Debian") { "six" } else { "rocm" };
        let metadata = format!(
            "Metadata-Version: 2.1\nName: fw\nVersion: 1\nRequires-Dist: rocm\nRequires-Dist: {needs}\n"
        );
        fs_err::write(info.join("METADATA"), metadata).unwrap();
        fs_err::write(info.join("RECORD"), "fw-1.dist-info/METADATA,,\n").unwrap();
        let doctor = "doctor environment --target gfx942";
        let said = t.run(doctor);
        assert_eq!(said.code, 0, "{layout}: {}", said.all());
        assert_has!(said.stdout, "nothing is wrong with");
        fs_err::remove_file(site.join("_rocm_sdk_core/lib/libamdhip64.so.7")).unwrap();
        let said = t.run(doctor);
        assert_eq!(said.code, 1, "{layout}: {}", said.all());
        let problem = "1 file is missing: `_rocm_sdk_core/lib/libamdhip64.so.7`";
        assert_eq!(said.stdout.matches("problem").count(), 1, "{layout}: {}", said.all());
        assert_has!(said.stdout, problem);
    }
}
