//! A wheel with ROCm in it, and wheels that are installed beside it.

use std::slice::from_ref;

use super::{Place, assert_loads, members, set, split, text, unpack, windows};
use crate::support::{
    demo::HOOK,
    prelude::{text as text_at, *},
    published::VERSION,
};

/// A framework that needs the libraries of another one, and ROCm.
fn neighbour(name: &str) -> DemoWheel {
    let mut wheel = DemoWheel::bare(name);
    let more = SharedObject::new("_more.so").needs("libfw.so").needs("libhipfft.so.0");
    wheel.add(&format!("{name}/_more.so"), more.build());
    wheel.add(&format!("{name}/__init__.py"), "");
    wheel.headers = format!("Requires-Dist: rocm=={VERSION}\n");
    wheel
}

/// A framework that uses ROCm by itself.
fn other() -> DemoWheel {
    let mut wheel = DemoWheel::bare("other");
    let object = SharedObject::new("_other.so").needs("libamdhip64.so.7");
    wheel.add("other/_other.so", object.build());
    wheel
}

/// Writes a framework with a license, and its neighbours.
fn group(place: &Place) -> [PathBuf; 3] {
    let mut fw = DemoWheel::new();
    "License-Expression: MIT\nLicense-File: LICENSE\n".clone_into(&mut fw.headers);
    [place.write(&fw), place.write(&neighbour("fw_more")), place.write(&other())]
}

/// The packages whose files join a wheel for a target.
fn packages(targets: &[&str]) -> Vec<PathBuf> {
    let devices = targets.iter().map(|target| format!("rocm_sdk_device_{target}"));
    let names = ["rocm_sdk_core", "rocm_sdk_libraries"].map(str::to_owned);
    let platform = "py3-none-linux_x86_64";
    let wheel = |name| set().join(format!("{name}-{VERSION}-{platform}.whl"));
    names.into_iter().chain(devices).map(wheel).collect()
}

/// The wheel of a project that was tied.
fn tied(place: &Place, name: &str) -> PathBuf {
    let mut paths = fs_err::read_dir(place.tied()).unwrap().map(|it| it.unwrap().path());
    let is_named = |it: &PathBuf| it.file_name().unwrap().to_str().unwrap().starts_with(name);
    paths.find(is_named).unwrap()
}

#[test]
fn the_files_of_rocm_join_the_first_wheel_and_the_others_require_it() {
    let place = Place::new();
    let wheels = group(&place);
    let flags = ["--bundle", "--target", "gfx942"];
    let planned = place.tie(&wheels, &set(), &[&flags[..], &["--dry-run"]].concat()).ok();
    assert!(!place.tied().exists());
    place.tie(&wheels, &set(), &flags).ok();
    let fw = tied(&place, "fw-");
    let plan: Vec<&str> = planned.lines().filter(|it| !it.contains("run path")).collect();
    let texts =
        ["fw-", "fw_more-", "other-"].map(|it| text(&members(&tied(&place, it)), "/METADATA"));
    let shown = format!("{}\n----\n{}", plan.join("\n"), texts.join("----\n"));
    insta::assert_snapshot!(shown, @"
    fw-1.0-py3-none-linux_x86_64.whl
      ties      2 of 2 binaries to ROCm 0.99.1.dev0
      init      fw/_rocm_init.py for 0.99.1.dev0
      preload   amdhip64 hipblas
      bundles   125 files of ROCm for gfx942
      + package rocm-0.99.1.dev0.tar.gz (35.68 KiB)
      + package rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl (1.37 MiB)
      + package rocm_sdk_device_gfx942-0.99.1.dev0-py3-none-linux_x86_64.whl (294.10 KiB)
      + package rocm_sdk_libraries-0.99.1.dev0-py3-none-linux_x86_64.whl (545.16 KiB)
      + python   >=3.10 (ROCm needs it)

    fw_more-1.0-py3-none-linux_x86_64.whl
      ties      1 of 1 binary to ROCm 0.99.1.dev0
      + requires fw==1.0 (fw has ROCm in it)
      - requires rocm==0.99.1.dev0

    other-1.0-py3-none-linux_x86_64.whl
      ties      1 of 1 binary to ROCm 0.99.1.dev0
      + requires fw==1.0 (fw has ROCm in it)
    ----
    Metadata-Version: 2.1
    Name: fw
    Version: 1.0
    License-Expression: (MIT) AND (Apache-2.0 WITH LLVM-exception AND BSD-3-Clause AND GPL-3.0-or-later AND LicenseRef-ROCm-sysdeps AND MIT AND NCSA) AND (BSD-2-Clause AND BSD-3-Clause AND MIT)
    License-File: LICENSE
    License-File: rocm-sdk-core/lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt
    License-File: rocm-sdk-device-gfx942/share/doc/rocblas/LICENSE.md
    License-File: rocm-sdk-libraries/share/doc/rocblas/LICENSE.md
    Requires-Python: >=3.10

    A framework.
    ----
    Metadata-Version: 2.1
    Name: fw_more
    Version: 1.0
    Requires-Dist: fw==1.0

    A framework.
    ----
    Metadata-Version: 2.1
    Name: other
    Version: 1.0
    Requires-Dist: fw==1.0

    A framework.
    ");

    let members_of_fw = members(&fw);
    let mut bundled = 0;
    for package in packages(&["gfx942"]) {
        for (path, mode, bytes) in members(&package) {
            if let Some((_, rest)) = path.split_once(".dist-info/") {
                let license = rest.strip_prefix("licenses/");
                let Some(license) = license else { continue };
                let file = package.file_name().unwrap().to_str().unwrap();
                let project = file.split('-').next().unwrap().replace('_', "-");
                let place = format!("{project}/{license}");
                assert_has!(texts[0], &format!("License-File: {place}\n"));
                let place = format!("fw-1.0.dist-info/licenses/{place}");
                let joined = members_of_fw.iter().find(|it| it.0 == place);
                assert!(joined.is_some_and(|it| it.2 == bytes), "{place}");
                continue;
            }
            let joined = members_of_fw.iter().find(|it| it.0 == path).unwrap();
            assert!(joined.2 == bytes && joined.1 & 0o777 == mode & 0o777, "{path}");
            bundled += 1;
        }
    }
    assert!(bundled > 80, "{bundled}");
    assert!(members_of_fw.iter().all(|it| !it.0.contains("gfx1100")));
    assert_has!(text(&members_of_fw, "rocm_sdk/_dist_info.py"), VERSION);
    assert_has!(text(&members_of_fw, "fw/_rocm_init.py"), "install 'fw==1.0'");

    // All libraries are found without any package of ROCm.
    let site = place.0.path("site");
    unpack(["fw-", "fw_more-", "other-"].map(|it| tied(&place, it)), &site);
    for file in ["fw/lib/libfw.so", "fw_more/_more.so", "other/_other.so"] {
        assert_loads(&site.join(file));
    }
    assert_loads(&site.join("_rocm_sdk_libraries/lib/librocblas.so.5"));

    // The same once more, for any number of threads.
    let again = Place::new();
    again.tie(&group(&again), &set(), &[&flags[..], &["--jobs", "1"]].concat()).ok();
    for name in ["fw-", "fw_more-", "other-"] {
        let [one, two] = [&place, &again].map(|it| fs_err::read(tied(it, name)).unwrap());
        assert!(one == two, "{name}");
    }
    // A wheel beside it is tied again without a change.
    let later = Place::new();
    later.tie(&[wheels[0].clone(), tied(&place, "fw_more-")], &set(), &flags).ok();
    let [one, two] = [&place, &later].map(|it| fs_err::read(tied(it, "fw_more-")).unwrap());
    assert!(one == two);
}

/// The compressed bytes of each member are those of the package.
#[test]
fn members_are_not_packed_again() {
    let place = Place::new();
    let wheel = place.write(&DemoWheel::new());
    let flags = ["--bundle", "--target", "gfx942", "--compression", "store"];
    place.tie(&[wheel], &set(), &flags).ok();
    let packed = |wheel: &Path| -> BTreeMap<String, Vec<u8>> {
        let bytes = fs_err::read(wheel).unwrap();
        let archive = rocwheel_wheel::Archive::read(Cursor::new(&bytes)).unwrap();
        let members = archive.members.into_iter().map(|(path, member)| {
            let [start, end] =
                [member.bytes.start, member.bytes.end].map(|it| usize::try_from(it).unwrap());
            (path.to_string(), bytes[start..end].to_vec())
        });
        members.collect()
    };
    let joined = packed(&place.only());
    for package in packages(&["gfx942"]) {
        for (path, bytes) in packed(&package) {
            assert!(path.contains(".dist-info/") || joined[&path] == bytes, "{path}");
        }
    }
}

#[test]
fn two_targets_join_a_wheel_and_a_check_compares_it_with_the_set() {
    let place = Place::new();
    let wheels = group(&place);
    place.tie(&wheels, &set(), &["--bundle", "--target", "gfx942,gfx1100"]).ok();
    let fw = tied(&place, "fw-");
    let members_of_fw = members(&fw);
    for target in ["gfx942", "gfx1100"] {
        let file = format!("_rocm_sdk_libraries/.kpack/blas_lib_{target}.kpack");
        assert!(members_of_fw.iter().any(|it| it.0 == file), "{target}");
    }
    let others = [tied(&place, "fw_more-"), tied(&place, "other-")];
    let check = |wheels: &[&Path]| {
        let mut check = command();
        check.arg("check").arg(set()).arg("--with").args(wheels);
        Outcome::of(check.output().unwrap())
    };
    let said = check(&[&fw, &others[0], &others[1]]);
    assert_eq!(said.code, 0, "{}", said.stdout);
    assert_lacks!(said.stdout, "RWF", "RW113");
    let shown = rocwheel(&["framework", "show", text_at(&fw), "--set", text_at(&set())]).stdout;
    assert_has!(
        shown,
        &format!("bundles   rocm_sdk_core-{VERSION}-py3-none-linux_x86_64.whl"),
        "fw/_C.so"
    );
    assert_lacks!(shown, "  _rocm_sdk_core/lib/libamdhip64.so.7\n");

    // A file that is not the file of the set is a conflict, and so are two wheels with ROCm in them.
    let mut changed = members_of_fw;
    let library = changed.iter_mut().find(|it| it.0.ends_with("TensileLibrary.dat"));
    library.unwrap().2 = b"another".to_vec();
    record(&mut changed);
    let another = place.0.path(fw.file_name().unwrap());
    fs_err::write(&another, zipped(&changed)).unwrap();
    let said = check(&[&another]);
    assert_eq!(said.code, 1);
    // Its files are not those that `tie` wrote, so that each of them is judged.
    assert_has!(said.stdout, "RW113", "_rocm_sdk_core/__init__.py");
    let second = Place::new();
    second.tie(&[second.write(&other())], &set(), &["--bundle", "--target", "gfx942"]).ok();
    let said = check(&[&fw, &second.only()]);
    assert_has!(said.stdout, "RW113", "it has ROCm in it, and so has `other-1.0-");

    // It can be published where no packages of ROCm are.
    let alone = place.0.path("alone");
    fs_err::create_dir(&alone).unwrap();
    fs_err::copy(&fw, alone.join(fw.file_name().unwrap())).unwrap();
    assert_eq!(rocwheel(&["index", text_at(&alone)]).code, 0);
    for package in packages(&[]) {
        fs_err::copy(&package, alone.join(package.file_name().unwrap())).unwrap();
    }
    let said = rocwheel(&["check", text_at(&alone)]);
    assert_has!(said.stdout, "RW113");
}

#[test]
fn what_cannot_be_bundled_is_refused_with_advice() {
    let place = Place::new();
    let fw = place.write(&DemoWheel::new());
    place.tie(from_ref(&fw), &set(), &["--bundle", "--target", "gfx942"]).ok();
    let bundle = place.only();
    let refused = |wheels: &[PathBuf], set: &Path, flags: &[&str]| {
        let place = Place::new();
        let said = place.tie(wheels, set, flags);
        assert!(!place.tied().exists(), "something was written");
        format!("exit {}: {}", said.code, said.stderr.replace(text_at(set), "SET"))
    };
    let set = set();
    let without_sdist = place.0.path("set");
    fs_err::create_dir(&without_sdist).unwrap();
    for package in packages(&["gfx942"]) {
        fs_err::copy(&package, without_sdist.join(package.file_name().unwrap())).unwrap();
    }
    let mut mixed = DemoWheel::new();
    mixed.add("rocm_sdk/__init__.py", "");
    let mixed_place = Place::new();
    let mixed = mixed_place.write(&mixed);
    let more = place.write(&other());
    let target = ["--bundle", "--target", "gfx942"];
    let shown = [
        refused(&[bundle.clone(), more], &set, &target),
        refused(from_ref(&bundle), &set, &[]),
        refused(from_ref(&fw), &set, &["--bundle"]),
        refused(from_ref(&fw), &set, &["--bundle", "--target", "gfx942,gfx90a"]),
        refused(from_ref(&fw), &set, &[&target[..], &["--extras", "devel"]].concat()),
        refused(from_ref(&fw), &without_sdist, &target),
        refused(from_ref(&mixed), &set, &target),
    ];
    insta::assert_snapshot!(shown.join("\n"), @"
    exit 1: error: 1 wheel cannot be tied
      `fw-1.0-py3-none-linux_x86_64.whl`: it has 4 packages of ROCm in it already (bundled)

    hint: name the wheel that it was made from

    exit 1: error: 1 wheel cannot be tied
      `fw-1.0-py3-none-linux_x86_64.whl`: it has 4 packages of ROCm in it already (bundled)

    hint: name the wheel that it was made from

    exit 1: error: the device code of each target is a package of its own

    hint: name the targets that users have: `--target gfx1100,gfx942`

    exit 1: error: the set has no device code for `gfx90a`

    hint: name targets that it has: `--target gfx1100,gfx942`

    exit 1: error: `rocm-sdk-devel` cannot join a wheel: its files are unpacked where they are

    hint: leave `devel` out of `--extras`

    exit 1: error: no sdist of `rocm` in the set, which has the Python that loads ROCm

    hint: pass the directory that `rocwheel build` wrote to, or an index of ROCm packages

    exit 1: error: 1 wheel cannot be tied
      `fw-1.0-py3-none-linux_x86_64.whl`: it has `rocm_sdk/__init__.py`, and `rocm_sdk` is a directory of ROCm's packages (grafted)

    hint: build the wheel without files of ROCm
    ");
}

#[test]
fn a_wheel_for_windows_gets_the_libraries_for_windows() {
    let place = Place::new();
    let set = windows::set_of(&place, VERSION);
    let sdist = format!("rocm-{VERSION}.tar.gz");
    fs_err::copy(super::set().join(&sdist), set.join(&sdist)).unwrap();
    let mut fw =
        windows::wheel("fw", &[windows::EXTENSION, ("fw/lib/fw.dll", &["hiprtc0702.dll"])]);
    fw.add("fw/__init__.py", HOOK);
    let mut more = windows::wheel("more", &[("more/_more.pyd", &["amdhip64_7.dll"])]);
    more.add("more/__init__.py", HOOK);
    let wheels = [place.write(&fw), place.write(&more)];
    let said = place.tie(&wheels, &set, &["--bundle"]).ok();
    assert_has!(said, "preload   amdhip64 hiprtc hipblas\n", "+ requires fw==1.0 (");
    let fw = members(&tied(&place, "fw-"));
    for path in [
        "_rocm_sdk_core/bin/amdhip64_7.dll",
        "_rocm_sdk_libraries/bin/rocblas.dll",
        "rocm_sdk/__init__.py",
    ] {
        assert!(fw.iter().any(|it| it.0 == path), "{path}");
    }
    assert_lacks!(text(&fw, "/METADATA"), "rocm");
    // Python alone would promise to run everywhere.
    let mut pure = DemoWheel::bare("pure");
    "any".clone_into(&mut pure.platform);
    pure.add("pure/__init__.py", HOOK);
    let place = Place::new();
    let pure = place.write(&pure);
    place.tie(&[pure], &set, &["--bundle", "--extras", "libraries"]).ok();
    assert!(place.only().ends_with("pure-1.0-py3-none-win_amd64.whl"));
}

/// A framework that was split: its device wheels follow it, and do not ask for packages of ROCm either.
#[test]
fn device_wheels_follow_a_host_wheel_with_rocm_in_it() {
    let place = Place::new();
    let parts = place.0.path("parts");
    place.tie(&[place.write(&split::wheel())], &set(), &[]).ok();
    split::split(&split::wheels_of(&place.tied()), &parts, &["--set", text_at(&set())]).ok();
    let (mine, others): (Vec<PathBuf>, Vec<PathBuf>) =
        split::wheels_of(&parts).into_iter().partition(|it| !text_at(it).contains("gfx1100"));
    let all = [mine.clone(), others].concat();
    let flags = ["--bundle", "--target", "gfx942"];
    let refused = Place::new().tie(&all, &set(), &flags);
    assert_eq!(refused.code, 1);
    assert_has!(
        refused.stderr,
        "the bundle has no device code for gfx1100",
        "name its target, too"
    );
    let again = Place::new();
    again.tie(&mine, &set(), &flags).ok();
    for wheel in split::wheels_of(&again.tied()) {
        assert_lacks!(text(&members(&wheel), "/METADATA"), "rocm");
    }
}

/// A set at an address is fetched for as long as the wheels are written.
#[test]
fn packages_of_a_server_join_a_wheel() {
    let place = Place::new();
    let fw = place.write(&DemoWheel::new());
    let from_disk = place.tie(from_ref(&fw), &set(), &["--bundle", "--target", "gfx942"]);
    from_disk.ok();
    let server = Server::start(Site::Directory(sample().place()));
    let other = Place::new();
    let address = PathBuf::from(&server.url);
    other.tie(&[fw], &address, &["--bundle", "--target", "gfx942"]).ok();
    let [one, two] = [&place, &other].map(|it| fs_err::read(it.only()).unwrap());
    assert!(one == two);
}
