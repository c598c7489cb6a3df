//! Tests of what is decided before an installer is started.

use itertools::Itertools as _;

use super::{
    installed_package::{InfoDirectory, ReadDepth},
    installer::source_arguments,
    requirements::Requirements,
    select::with_device_code,
};
use crate::place::PackageSource;
use rocwheel_base::{error::render, target::Target, version::Version};
use rocwheel_wheel::{Metadata, PackageFilename};

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

#[test]
fn a_framework_belongs_to_the_version_of_rocm_that_it_names() {
    let tied = |framework: &str, rocm: &str| version(framework).is_for_rocm(&version(rocm));
    assert!(tied("2.10.0+rocm7.13.0rc1", "7.13.0rc1"));
    assert!(tied("2.9.0+devrocm7.10.0.dev0-efed3c", "7.10.0.dev0+efed3c9a"));
    assert!(!tied("2.10.0+rocm7.13.0rc12", "7.13.0rc1"));
    assert!(!tied("2.10.0+rocm7.13.0rc1", "7.13.0rc12"));
    assert!(!tied("2.12.0+rocm7.15.0a20260728", "10.1.0a20260811"));
    assert!(!tied("2.12.0", "7.13.0"));

    let wheel = "torch-2.14.0+git5e015018.rocm10.2.asan.36142888996-cp312-cp312-linux_x86_64.whl";
    let asan = wheel.parse::<PackageFilename>().unwrap().version.to_string();
    assert!(tied(&asan, "10.2.0+asan.36142888996"));
    assert!(tied("2.14.0+rocm10.1.0rc3.asan", "10.1.0rc3+asan.5"));
    for other in ["10.2.0", "10.2.0+asan", "10.2.0+asan.361428889967", "10.1.0+asan.36142888996"] {
        assert!(!tied(&asan, other), "{other}");
    }
    assert!(!tied("2.14.0+rocm10.2.0", "10.2.0+asan.36142888996"));
}

#[test]
fn a_framework_is_asked_for_its_device_code() {
    let text = "Metadata-Version: 2.4\nName: torch\nVersion: 2.10\n\
                Provides-Extra: device-gfx942\nProvides-Extra: device-gfx110x\nProvides-Extra: device-gfx12-0\n";
    let metadata = Metadata::parse(text.as_bytes()).unwrap();
    let asked = |what: &str, targets: &[&str]| {
        let targets: Vec<Target> = targets.iter().map(|it| it.parse().unwrap()).collect();
        with_device_code(&what.parse().unwrap(), &metadata, &targets)
    };
    let lines = [
        asked("torch", &["gfx942"]),
        asked("torch>=2.9", &["gfx1100", "gfx1101", "gfx1201"]),
        asked("torch[x]", &["gfx942"]),
        asked("torch", &["gfx950"]),
        asked("torch", &[]),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r"
    torch[device-gfx942]
    torch[device-gfx110x,device-gfx12-0]>=2.9
    torch[x]
    torch
    torch
    ");
}

#[test]
fn an_installer_looks_only_at_the_given_places() {
    let index = PackageSource::Index("https://a/simple/".into());
    let found = PackageSource::Links("file:///a%20b/".into());
    let each = [
        source_arguments(std::slice::from_ref(&index), None),
        source_arguments(&[index], Some("https://deps/")),
        source_arguments(std::slice::from_ref(&found), None),
        source_arguments(&[found], Some("https://deps/")),
    ];
    insta::assert_snapshot!(each.iter().map(|it| it.join(" ")).join("\n"), @r"
    --index-url https://a/simple/
    --index-url https://deps/ --extra-index-url https://a/simple/
    --no-index --find-links file:///a%20b/
    --index-url https://deps/ --find-links file:///a%20b/
    ");
}

#[test]
fn requirements_are_read_as_they_are_written() {
    let digest = "0".repeat(64);
    let text =
        format!("# x\nb[x]==1 \\\n    --hash=sha256:{digest}\nA.c==2.0 --hash=sha256:{digest}\n");
    let parsed = Requirements::parse(&text).unwrap();
    assert_eq!(Requirements::parse(&parsed.to_string()).unwrap(), parsed);
    let found =
        Requirements { sources: vec!["--index-url".to_owned(), "https://a/".to_owned()], ..parsed };
    insta::assert_snapshot!(found.to_string().replace(&digest, "0"), @r"
    --index-url https://a/
    a-c==2.0 \
        --hash=sha256:0
    b[x]==1 \
        --hash=sha256:0
    ");
    let refused = ["", "a>=1", "a==1 --hash=sha256:0"];
    let refused = refused.map(|it| render(&Requirements::parse(it).unwrap_err()));
    insta::assert_snapshot!(refused.concat(), @r#"
    error: no package in it
    error: expected `project==version --hash=sha256:…`: "a>=1"
    error: not a SHA-256 of 64 lower-case hexadecimal digits: "0"
    "#);
    // Both digests are needed: one package without them lets an installer choose.
    let mut partly = found.clone();
    partly.packages[0].digests.clear();
    assert!(found.has_digests() && !partly.has_digests());
    assert!(!partly.to_string().contains("--hash"));
}

#[test]
fn another_file_than_the_promised_one_is_refused() {
    let (promised, other) = ("1".repeat(64), "2".repeat(64));
    let of = |digest: &str| Requirements::parse(&format!("a==1 --hash=sha256:{digest}")).unwrap();
    of(&promised).compare_with_source(&of(&promised).packages).unwrap();
    // A digest that the installer does not tell is the promised one.
    let mut silent = Requirements::parse("a==1").unwrap();
    assert!(silent.clone().compare_with_source(&[]).is_err());
    silent.compare_with_source(&of(&promised).packages).unwrap();
    assert_eq!(silent, of(&promised));
    // Of a package of others, nothing is promised.
    of(&other).compare_with_source(&[]).unwrap();
    let refused = of(&other).compare_with_source(&of(&promised).packages);
    let refused = render(&refused.unwrap_err());
    assert!(refused.contains("this is not the file that was built"), "{refused}");
}

/// An install compares the sizes of what it has installed, and `doctor` also reads what is in it.
#[test]
fn headers_are_read_only_for_the_rules_that_judge_them() {
    let site = tempfile::tempdir().unwrap();
    let info = site.path().join("rocm_sdk_core-7.13.0.dist-info");
    fs_err::create_dir(&info).unwrap();
    fs_err::write(
        info.join("METADATA"),
        "Metadata-Version: 2.4\nName: rocm-sdk-core\nVersion: 7.13.0\n",
    )
    .unwrap();
    fs_err::write(info.join("RECORD"), "liba.so,,4\nlibb.so,,4\nlibc.so,,4\n").unwrap();
    fs_err::write(site.path().join("liba.so"), "same").unwrap();
    fs_err::write(site.path().join("libb.so"), "longer").unwrap();
    let read = |depth| match InfoDirectory::read(site.path(), &info, depth) {
        InfoDirectory::Package(package) => {
            let members = package.wheel.members.iter().map(|member| member.path.clone());
            (members.collect_vec(), package.changed, package.missing)
        }
        other => panic!("{other:?}"),
    };
    let (changed, missing) = (vec!["libb.so".to_owned()], vec!["libc.so".to_owned()]);
    assert_eq!(read(ReadDepth::Sizes), (vec![], changed.clone(), missing.clone()));
    let members = vec!["liba.so".to_owned(), "libb.so".to_owned()];
    assert_eq!(read(ReadDepth::Headers), (members, changed, missing));
}
