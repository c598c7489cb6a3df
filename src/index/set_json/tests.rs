//! What `set.json` says, and which texts are not one.

use super::*;
use crate::index::{Remembered, SetStamp, tests as samples};
use rocwheel_base::{digest::Sha256, error::render};

fn sample() -> SetJson {
    let identity = Identity {
        repository: "ROCm/TheRock".parse().ok(),
        run_id: "21440027240".parse().ok(),
        run_attempt: "2".parse().ok(),
        platform: Some(Platform::Linux),
        commit: Some("89553ce3746eda74ade42557470d25e37c91b6f0".parse().unwrap()),
        version: None,
        targets: vec!["gfx1100".parse().unwrap(), "gfx94X-dcgpu".parse().unwrap()],
        promoted_from: None,
        foreign_code: None,
        without: Vec::new(),
        unshipped: Vec::new(),
        not_in_run: Vec::new(),
    };
    SetJson::new(identity, samples::files()).unwrap()
}

#[test]
fn a_set_says_what_it_is_and_what_it_holds() {
    insta::assert_snapshot!(sample().pretty(), @r#"
    {
      "schema": 1,
      "repository": "ROCm/TheRock",
      "run-id": "21440027240",
      "run-attempt": 2,
      "platform": "linux",
      "commit": "89553ce3746eda74ade42557470d25e37c91b6f0",
      "version": "7.13.0.dev0+ab",
      "targets": [
        "gfx1100",
        "gfx94X-dcgpu"
      ],
      "files": [
        {
          "path": "dist/rocm-7.13.0.dev0+ab.tar.gz",
          "project": "rocm",
          "version": "7.13.0.dev0+ab",
          "size": 1234567,
          "sha256": "4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24"
        },
        {
          "path": "dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
          "project": "rocm-sdk-core",
          "version": "7.9.0",
          "size": 12,
          "sha256": "cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808",
          "yanked": "broken \"launcher\" & more"
        },
        {
          "path": "dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl",
          "project": "rocm-sdk-core",
          "version": "7.13.0.dev0+ab",
          "size": 1234567,
          "sha256": "e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb"
        }
      ]
    }
    "#);
}

#[test]
fn a_set_reads_back_and_an_unknown_identity_is_left_out() {
    let mut set = sample();
    let stamp = SetStamp { size: 7, etag: Some("\"".into()) };
    set.files[0].yanked = Some("broken".into());
    set.files[0].remembered = Some(Box::new(Remembered {
        file: stamp.clone(),
        sidecar: Some(stamp),
        sidecar_sha256: Some(Sha256::of(b"")),
        requires_python: Some(">=3".into()),
    }));
    for file in &mut set.files {
        (file.upload_time, file.metadata, file.requires_python) = (None, None, None);
    }
    assert_eq!(SetJson::parse(&set.pretty()).unwrap(), set);
    assert_eq!(set.files[0].name(), "rocm-7.13.0.dev0+ab.tar.gz");
    let anonymous = SetJson::new(Identity::default(), Vec::new()).unwrap();
    assert_eq!(SetJson::parse(&anonymous.pretty()).unwrap(), anonymous);
}

#[test]
fn device_wheels_say_for_which_targets_a_set_is() {
    let names = ["rocm-sdk-device-gfx1100", "rocm-sdk-device-gfx942", "rocm-sdk-core"];
    let files = names.map(|name| samples::file(&format!("{name}-1.whl"), name, "1"));
    let set = SetJson::new(Identity::default(), files.to_vec()).unwrap();
    assert_eq!(set.device_targets(), ["gfx942".parse().unwrap(), "gfx1100".parse().unwrap()]);
    assert_eq!(set.identity.targets.len(), 2);
    assert!(set.has("rocm-sdk-core") && !set.has("rocm"));
}

#[test]
fn a_set_is_in_the_order_of_projects_then_versions() {
    let set = samples::set();
    let files = set.files.iter();
    let names = files.map(|file| format!("{} {}", file.project.normalized(), file.version));
    let expected = ["rocm 7.13.0.dev0+ab", "rocm-sdk-core 7.9.0", "rocm-sdk-core 7.13.0.dev0+ab"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn a_name_twice_is_refused() {
    let file = samples::file("a-1.tar.gz", "a", "1");
    let refused = SetJson::new(Identity::default(), vec![file.clone(), file]).unwrap_err();
    insta::assert_snapshot!(refused, @"two files of one name in a package set: `a-1.tar.gz`");
}

#[test]
fn another_schema_and_other_texts_are_refused_in_words() {
    let file = |path: &str, sha256: &str| {
        format!(
            r#"{{"schema":1,"files":[{{"path":"{path}","project":"a","version":"1","size":1,"sha256":"{sha256}"}}]}}"#
        )
    };
    let sha256 = Sha256::of(b"").to_string();
    let texts = [
        String::new(),
        "{}".into(),
        r#"{"schema":2,"files":7}"#.into(),
        r#"{"schema":1,"files":7}"#.into(),
        r#"{"schema":1,"version":"x y","files":[]}"#.into(),
        r#"{"schema":1,"targets":["`"],"files":[]}"#.into(),
        file("../a.whl", &sha256),
        file("dist/../../a.whl", &sha256),
        file("dist/\\n", &sha256),
        file("dist/a.whl", "abc"),
    ];
    let messages: Vec<String> =
        texts.iter().map(|text| render(&SetJson::parse(text).unwrap_err())).collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    error: failed to read the `schema` of a set
      caused by: EOF while parsing a value at line 1 column 0

    error: failed to read the `schema` of a set
      caused by: missing field `schema` at line 1 column 2

    error: a set of another schema than 1: 2

    hint: use the version of rocwheel that wrote it, or a later one

    error: failed to read a set
      caused by: invalid type: integer `7`, expected a sequence at line 1 column 21

    error: failed to read a set
      caused by: not a PEP 440 version: "x y" at line 1 column 27

    error: failed to read a set
      caused by: a family with other characters than letters, digits and `-`: "`" at line 1 column 27

    error: failed to read a file of a set: "../a.whl"
      caused by: a key with `.` or `..`: "../a.whl"

    error: failed to read a file of a set: "dist/../../a.whl"
      caused by: a key with `.` or `..`: "dist/../../a.whl"

    error: failed to read a file of a set: "dist/\n"
      caused by: a key with a control character: "dist/\n"

    error: failed to read a set
      caused by: not a SHA-256 of 64 lower-case hexadecimal digits: "abc" at line 1 column 94
    "#);
    assert!(SetJson::parse(&file("dist/a.whl", &sha256)).is_ok());
}
