//! Metadata as it is written and read.

use proptest::prelude::*;

use super::*;
use crate::error::Error;

fn line(text: &str) -> HeaderLine {
    text.parse().unwrap()
}

fn lines(texts: &[&str]) -> Vec<HeaderLine> {
    texts.iter().map(|text| line(text)).collect()
}

fn core() -> Metadata {
    Metadata::new(
        "rocm-sdk-core".parse().unwrap(),
        "10.1.0a20260820".parse().unwrap(),
    )
}

#[test]
fn a_distribution_that_says_no_more_has_three_lines() {
    insta::assert_snapshot!(core(), @"
    Metadata-Version: 2.4
    Name: rocm-sdk-core
    Version: 10.1.0a20260820
    ");
}

#[test]
fn every_field_has_its_line_and_reads_back() {
    let metadata = Metadata {
        summary: Some(line("ROCm profiler applications")),
        author: Some(line("AMD")),
        author_email: Some(line("ROCm <rocm@example.com>")),
        license_expression: Some(line("MIT AND Apache-2.0 WITH LLVM-exception")),
        license_files: lines(&["LICENSE", "llvm/LICENSE.TXT"]),
        project_urls: lines(&["Source, https://example.com/rocm"]),
        classifiers: lines(&["Operating System :: POSIX :: Linux"]),
        requires_python: Some(line(">=3.10")),
        requires_dist: lines(&["rocm-sdk-libraries==10.1.0a20260820"]),
        provides_extra: Vec::new(),
        dynamic: lines(&["requires-dist"]),
        description_content_type: Some(line("text/markdown")),
        description: Some("# ROCm\n\nName: not a header\n".to_owned()),
        ..core()
    };
    insta::assert_snapshot!(metadata, @"
    Metadata-Version: 2.4
    Name: rocm-sdk-core
    Version: 10.1.0a20260820
    Summary: ROCm profiler applications
    Author: AMD
    Author-email: ROCm <rocm@example.com>
    License-Expression: MIT AND Apache-2.0 WITH LLVM-exception
    Project-URL: Source, https://example.com/rocm
    Classifier: Operating System :: POSIX :: Linux
    Requires-Python: >=3.10
    Description-Content-Type: text/markdown
    License-File: LICENSE
    License-File: llvm/LICENSE.TXT
    Requires-Dist: rocm-sdk-libraries==10.1.0a20260820
    Dynamic: requires-dist

    # ROCm

    Name: not a header
    ");
    assert_eq!(
        Metadata::parse(metadata.to_string().as_bytes()),
        Ok(metadata)
    );
}

#[test]
fn each_extra_is_followed_by_what_it_needs() {
    let metadata = Metadata {
        requires_dist: lines(&[
            "rocm-sdk-device-gfx1201==1; sys_platform == \"win32\" and extra == \"device_gfx1201\"",
            "rocm-sdk-core==1",
            "rocm-sdk-libraries==1; extra == 'libraries'",
            "tomli==2; extra == \"nobody\"",
            "rocm-sdk-devel==1; extra == \"devel\"",
        ]),
        provides_extra: ["libraries", "device-gfx1201", "devel", "empty"]
            .map(|name| name.parse().unwrap())
            .to_vec(),
        ..core()
    };
    insta::assert_snapshot!(metadata, @r#"
    Metadata-Version: 2.4
    Name: rocm-sdk-core
    Version: 10.1.0a20260820
    Requires-Dist: rocm-sdk-core==1
    Requires-Dist: tomli==2; extra == "nobody"
    Provides-Extra: libraries
    Requires-Dist: rocm-sdk-libraries==1; extra == 'libraries'
    Provides-Extra: device-gfx1201
    Requires-Dist: rocm-sdk-device-gfx1201==1; sys_platform == "win32" and extra == "device_gfx1201"
    Provides-Extra: devel
    Requires-Dist: rocm-sdk-devel==1; extra == "devel"
    Provides-Extra: empty
    "#);
    let again = Metadata::parse(metadata.to_string().as_bytes()).unwrap();
    assert_eq!(again.to_string(), metadata.to_string());
}

#[test]
fn what_other_tools_write_is_understood() {
    let text = "Metadata-Version: 2.1\r\nName: Foo.Bar\r\nVersion: 1.0-1\r\nSummary: two\r\n\
        \x20       lines\r\nHome-page: https://example.com\r\nLicense: \r\nKeywords:\r\n\
        requires-dist: a\r\nDescription: first\r\n        second\r\n       |\r\n       |  third\r\n\r\n";
    let metadata = Metadata::parse(text.as_bytes()).unwrap();
    insta::assert_snapshot!(metadata, @"
    Metadata-Version: 2.4
    Name: Foo.Bar
    Version: 1.0.post1
    Summary: two lines
    Requires-Dist: a

    first
    second

      third
    ");
}

#[test]
fn bytes_that_are_no_metadata_are_refused_in_words() {
    let whole = "Metadata-Version: 2.4\nName: a\nVersion: 1\n";
    let refused = [
        String::new(),
        "\n".to_owned() + whole,
        whole.replace("2.4", "3.0"),
        whole.replace("2.4", "2.x"),
        whole.replace("Name: a", "Name:"),
        whole.replace("Name: a", "Name: ../a"),
        whole.replace("Version: 1", "Version: one"),
        whole.replace("Version: 1", "Version 1"),
        format!("{whole}NAME: b\n"),
        format!("{whole}Summary: a\x1b[31m\n"),
        format!("{whole}Provides-Extra: a b\n"),
    ];
    let mut messages: Vec<String> = refused
        .iter()
        .map(|text| {
            format!(
                "{:#}",
                Error::from(Metadata::parse(text.as_bytes()).unwrap_err())
            )
        })
        .collect();
    messages.push(Metadata::parse(b"Name: \xFF").unwrap_err().to_string());
    insta::assert_snapshot!(messages.join("\n"), @r#"
    metadata without `Metadata-Version`
    metadata without `Metadata-Version`
    metadata of a version that is not known: 3.0
    metadata of a version that is not known: 2.x
    metadata without `Name`
    `Name` of metadata: a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "../a"
    `Version` of metadata: not a PEP 440 version: "one": expected version to start with a number, but no leading ASCII digits were found
    line 3 is no `Name: value`: "Version 1"
    metadata with a second `Name`
    `Summary` of metadata: a control character in a value: "a\u{1b}[31m"
    `Provides-Extra` of metadata: a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "a b"
    metadata that is not UTF-8
    "#);
}

proptest! {
    #[test]
    fn any_values_read_back(
        values in proptest::collection::vec("\\PC{1,12}", 0..6),
        description in "[\\PC\n]{1,20}",
    ) {
        let mut metadata = core();
        metadata.classifiers = values.iter().filter_map(|text| text.parse().ok()).collect();
        metadata.summary = metadata.classifiers.first().cloned();
        metadata.description = Some(description);
        prop_assert_eq!(Metadata::parse(metadata.to_string().as_bytes()), Ok(metadata));
    }

    #[test]
    fn any_bytes_are_metadata_or_an_error(text in "(Metadata-Version: 2.4\nName: a\nVersion: 1\n)?[\\PC\r\n:]{0,40}") {
        let _ = Metadata::parse(text.as_bytes());
    }
}
