//! `diff`: a set differs from itself in nothing, and a changed one in what was changed.

use crate::support::prelude::*;
use crate::support::{noise, web::Manner};

/// The sample in another version.
fn other_version() -> std::path::PathBuf {
    published::once("sample-of-another-version", |root| {
        let mut pipeline = command();
        pipeline.args(["pipeline", "--sample", "--version", "0.99.1rc1"]);
        succeed(pipeline.args(["--output-dir", text(root)]));
    })
    .join("packages/dist")
}

fn diff(before: &Path, after: &Path, more: &[&str]) -> Outcome {
    let places = ["diff", text(before), text(after), "--no-progress"];
    rocwheel(&[&places[..], more].concat())
}

type Edit = fn(&mut Members);

/// A copy of the sample, in which some members are changed.
fn changed(changes: &[(&str, Edit)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    copy_files(&published::sample().dist(), place.path());
    for (name, edit) in changes {
        let name = format!("{name}-0.99.1.dev0-py3-none-linux_x86_64.whl");
        let path = place.path().join(name);
        let mut members = unzip(&fs_err::read(&path).unwrap());
        edit(&mut members);
        record(&mut members);
        fs_err::write(path, zipped(&members)).unwrap();
    }
    place
}

fn member<'a>(members: &'a mut Members, end: &str) -> &'a mut (String, u32, Vec<u8>) {
    members.iter_mut().find(|it| it.0.ends_with(end)).unwrap()
}

#[test]
fn a_set_does_not_differ_from_itself_nor_from_one_of_other_threads() {
    for set in sets() {
        let again = tempfile::tempdir().unwrap();
        let artifacts = set.artifacts();
        let (artifacts, out) = (text(&artifacts), text(again.path()));
        let mut build = command();
        build.args(["build", "--artifact-dir", artifacts, "--output-dir", out]);
        succeed(build.args(["--version", published::VERSION, "--jobs", "1"]));
        for after in [set.dist(), again.path().join("dist")] {
            let said = diff(&set.dist(), &after, &["--exit-code"]);
            assert!(said.ok().starts_with("nothing differs in "), "{}", set.name);
        }
    }
}

#[test]
fn two_versions_of_one_build_do_not_differ() {
    let (before, after) = (published::sample().dist(), other_version());
    let said = diff(&before, &after, &["--exit-code"]).ok();
    assert_has!(said, "the contents of 7 packages are the same: 0.99.1.dev0 in ");
}

#[test]
fn each_change_is_a_line() {
    let before = changed(&[]);
    let after = changed(&[
        ("rocm_sdk_core", |members| {
            members.retain(|it| !it.0.ends_with("bin/hipconfig"));
            member(members, "bin/rocm-smi").1 = 0o100_644;
            let moved = &mut member(members, "share/hip/version").0;
            *moved = moved.replace("share/hip/", "share/hip/moved/");
        }),
        ("rocm_sdk_device_gfx942", |members| {
            members.retain(|it| !it.0.ends_with("blas_lib_gfx942.kpack"));
            member(members, "TensileLibrary_gfx942.dat").2 = vec![b'x'; 5000];
        }),
        ("rocm_profiler", |members| {
            let text = &mut member(members, "METADATA").2;
            let more = String::from_utf8(text.clone()).unwrap();
            *text = more.replacen('\n', "\nRequires-Dist: numpy>=2\n", 1).into();
            let library = member(members, "librocprof-sys.so.1");
            library.0 = library.0.replace(".so.1", ".so.2");
            library.2.push(0);
        }),
    ]);
    let shown = |more: &[&str]| {
        let said = diff(before.path(), after.path(), more).ok();
        let places = [(&before, "BEFORE"), (&after, "AFTER")];
        places.into_iter().fold(said, |said, (place, name)| said.replace(text(place.path()), name))
    };
    insta::assert_snapshot!(shown(&[]), @"
    before: BEFORE: 0.99.1.dev0
    after:  AFTER: 0.99.1.dev0

    Packages: 2.42 MiB in 7 before, 2.32 MiB in 7 after: −99.30 KiB, −4.0 %
      changed   −97.02 KiB  rocm-sdk-device-gfx942: 197.08 KiB, −33.0 %
      changed    −2.37 KiB  rocm-sdk-core: 1.37 MiB, −0.2 %
      changed        +93 B  rocm-profiler: 20.11 KiB, +0.5 %

    Files: 4 gone, 2 new, 2 changed
      gone      −96.55 KiB  rocm-sdk-device-gfx942: _rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack
      gone       −1.74 KiB  rocm-profiler: _rocm_profiler/lib/librocprof-sys.so.1
      gone          −183 B  rocm-sdk-core: _rocm_sdk_core/bin/hipconfig
      gone           −20 B  rocm-sdk-core: _rocm_sdk_core/share/hip/version
      new        +1.74 KiB  rocm-profiler: _rocm_profiler/lib/librocprof-sys.so.2
      new            +20 B  rocm-sdk-core: _rocm_sdk_core/share/hip/moved/version
      changed    +4.87 KiB  rocm-sdk-device-gfx942: _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942.dat
      changed         ±0 B  rocm-sdk-core: _rocm_sdk_core/bin/rocm-smi (mode 755 → 644)

    Metadata
      new     rocm-profiler: Requires-Dist: numpy>=2
    ");
    assert_eq!(diff(before.path(), after.path(), &["--exit-code"]).code, 1);
}

/// The tag decides where a wheel can be installed, and no byte of the wheel need differ.
#[test]
fn a_wheel_with_another_tag_is_a_change_in_every_version() {
    let rename = |directory: &Path, version: &str| {
        let name = |tag: &str| format!("rocm_sdk_core-{version}-py3-none-{tag}.whl");
        let renamed = directory.join(name("manylinux_2_28_x86_64"));
        fs_err::rename(directory.join(name("linux_x86_64")), renamed).unwrap();
    };
    let (before, after, other) = (changed(&[]), changed(&[]), tempfile::tempdir().unwrap());
    rename(after.path(), "0.99.1.dev0");
    copy_files(&other_version(), other.path());
    rename(other.path(), "0.99.1rc1");
    for (after, version) in [(&after, "0.99.1.dev0"), (&other, "0.99.1rc1")] {
        let said = diff(before.path(), after.path(), &["--exit-code"]);
        assert_eq!(said.code, 1, "{}", said.stdout);
        assert_has!(
            said.stdout,
            "changed",
            "rocm-sdk-core",
            "renamed from `rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl` to ",
            &format!("`rocm_sdk_core-{version}-py3-none-manylinux_2_28_x86_64.whl`")
        );
        let json = diff(before.path(), after.path(), &["--format", "json"]).ok();
        assert_has!(json, "\"renamed-from\"");
    }
}

/// Texts of two versions are compared line by line.
#[test]
fn a_last_line_that_is_gone_is_a_change() {
    let before = changed(&[("rocm_profiler", |members| {
        member(members, "top_level.txt").2.extend(b"zz\n");
    })]);
    let said = diff(before.path(), &other_version(), &["--exit-code"]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    assert_has!(said.stdout, "changed", "top_level.txt");
}

/// The job summary has the engine of `diff`.
#[test]
fn a_summary_shows_what_changed_since_the_baseline() {
    let after = changed(&[
        ("rocm_sdk_core", |members| {
            members.retain(|it| !it.0.ends_with("bin/hipconfig"));
            member(members, "share/hip/version").2.push(b'\n');
        }),
        ("rocm_sdk_device_gfx942", |members| {
            members.retain(|it| !it.0.ends_with("blas_lib_gfx942.kpack"));
        }),
    ]);
    let (before, at) = (published::sample().dist(), text(after.path()));
    succeed(command().args(["index", "--no-check", at]));
    let summary = |more: &[&str]| {
        let summary = ["summary", at, "--baseline", text(&before), "--no-progress"];
        rocwheel(&[&summary[..], more].concat()).ok()
    };
    let page = summary(&[]);
    let section = page.split("### What changed since ").nth(1).unwrap();
    insta::assert_snapshot!("summary-changes", section);
    let json = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let said = json(summary(&["--format", "json"]));
    let different = json(diff(&before, after.path(), &["--format", "json"]).ok());
    assert_eq!(said["changes"]["files"], different["files"]);
    assert_eq!(said["changes"]["packages"], different["packages"]);
}

#[test]
#[ignore = "slow"]
fn of_sets_elsewhere_only_the_ends_are_read() {
    fn large(members: &mut Members, len: usize) {
        let name = "_rocm_sdk_libraries/lib/liblarge.so.1".to_owned();
        members.insert(0, (name, 0o100_755, noise(1, len)));
    }
    let edits: [Edit; 2] = [|it| large(it, 24 << 20), |it| large(it, (24 << 20) + 1)];
    let [before, after] = edits.map(|edit| changed(&[("rocm_sdk_libraries", edit)]));
    for place in [&before, &after] {
        succeed(command().args(["index", "--no-check", text(place.path())]));
    }
    let servers = [&before, &after].map(|it| Server::of_directory(it.path(), Manner::Ranges));
    let places = ["diff", &servers[0].url, &servers[1].url, "--no-progress"];
    let said = rocwheel(&places).ok();
    let line =
        "  changed         +1 B  rocm-sdk-libraries: _rocm_sdk_libraries/lib/liblarge.so.1\n";
    assert_has!(said, line);
    for server in &servers {
        assert!(server.sent() < 4 << 20, "{}", server.sent());
    }
}

#[test]
#[ignore = "slow"]
fn a_version_is_chosen_on_an_index() {
    let place = tempfile::tempdir().unwrap();
    copy_files(&published::sample().dist(), place.path());
    copy_files(&other_version(), place.path());
    let names = fs_err::read_dir(place.path()).unwrap();
    let links = names.map(|entry| {
        let name = entry.unwrap().file_name();
        format!("<a href=\"{0}\">{0}</a>", name.to_str().unwrap())
    });
    let links: String = links.collect();
    fs_err::write(place.path().join("links.html"), links).unwrap();
    let server = Server::of_directory(place.path(), Manner::Ranges);
    let index = format!("{}links.html", server.url);
    let version = |version: &str| format!("{index}@{version}");
    let (before, after) = (version("0.99.1.dev0"), version("0.99.1rc1"));
    let said = rocwheel(&["diff", &before, &after, "--no-progress"]).ok();
    assert_has!(said, "the contents of 7 packages are the same: 0.99.1.dev0 in `http");
    assert_has!(said, ", 0.99.1rc1 in `http");
    let said = rocwheel(&["diff", &before, &index, "--format=json"]).ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["before"]["versions"][0], "0.99.1.dev0");
    // The newest.
    assert_eq!(said["after"]["versions"][0], "0.99.1rc1");
    let wrong = rocwheel(&["diff", &version("9.0.0"), &after, "--no-progress"]);
    assert_eq!(wrong.code, 2);
    assert_has!(wrong.stderr, "has no packages of version 9.0.0");
}
