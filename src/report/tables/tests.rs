//! What is escaped, and how sets are compared.

use super::*;
use crate::set::tests as samples;

#[test]
fn a_hostile_name_stays_in_its_cell() {
    let hostile = "a|b`c</code>\n| x |\n```<script>[x](y)&amp;*_\u{202e}é.whl";
    insta::assert_snapshot!(code(hostile), @"<code>a&#124;b&#96;c&#60;&#47;code&#62;�&#124; x &#124;�&#96;&#96;&#96;&#60;script&#62;&#91;x&#93;&#40;y&#41;&#38;amp&#59;&#42;&#95;�é.whl</code>");
}

#[test]
fn what_a_message_marks_as_code_is_code() {
    insta::assert_snapshot!(message("`a|b` and ``, `<x>"), @"<code>a&#124;b</code> and , <code>&#60;x&#62;</code>");
    assert_eq!(plain(&"x".repeat(301)).len(), 300 + "…".len());
}

#[test]
fn packages_are_compared_whatever_their_version_is() {
    let mut earlier = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-old"]);
    for file in earlier.files.iter_mut().skip(1) {
        file.sha256 = crate::digest::Sha256::of(b"other");
        file.size = 1000;
    }
    let set = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-new"]);
    let before = by_identity(&earlier);
    let files = set.files.iter();
    let all = files.map(|file| change(file, before.get(&identity(file)).copied()));
    insta::assert_snapshot!(all.collect::<Vec<_>>().join("\n"), @"
    same bytes
    +1.18 MiB<br><sub>+123356.7 %</sub>
    **new**
    ");
    insta::assert_snapshot!(gone(&set, &before).concat(), @"| <del><code>rocm&#95;sdk&#95;old-7.13.0.dev0+ab.tar.gz</code></del> | 1000 B | **gone** |");
}

#[test]
fn packages_are_compared_in_whatever_layout_they_are() {
    let earlier = samples::document_of_families(&["gfx94X-dcgpu"]);
    let mut set = earlier.clone();
    for file in &mut set.files {
        file.path = file.below().to_owned();
    }
    let before = by_identity(&earlier);
    let files = set.files.iter();
    let all: Vec<String> = files
        .map(|file| change(file, before.get(&identity(file)).copied()))
        .collect();
    assert_eq!(all, ["same bytes"; 2]);
    assert!(gone(&set, &before).is_empty());
}
