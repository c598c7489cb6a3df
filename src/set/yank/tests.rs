//! Lists of yanks.

use super::*;
use crate::{error::render, set::tests as samples};

fn file(name: &str, project: &str, version: &str) -> SetFile {
    SetFile { yanked: Some("before".into()), ..samples::file(name, project, version) }
}

fn files() -> Vec<SetFile> {
    vec![
        file("rocm-1.0.tar.gz", "rocm", "1.0"),
        file("rocm_sdk_core-1.0-py3-none-any.whl", "rocm-sdk-core", "1.0"),
        file("rocm_sdk_core-1.0-py3-none-win_amd64.whl", "rocm-sdk-core", "1.0"),
        file("rocm_sdk_core-2.0-py3-none-any.whl", "rocm-sdk-core", "2.0"),
    ]
}

#[test]
fn a_list_names_files_and_releases_with_their_reasons() {
    let list = "\u{feff}# broken\n\nRocm.SDK_core==1.0.0\tlauncher  is broken \r\n\
                rocm_sdk_core-1.0-py3-none-win_amd64.whl   not <signed>\nrocm-1.0.tar.gz\n";
    let mut files = files();
    YankList::parse(list).unwrap().apply(&mut files).unwrap();
    let shown: Vec<String> =
        files.iter().map(|file| format!("{}: {:?}", file.name(), file.yanked)).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    rocm-1.0.tar.gz: Some("")
    rocm_sdk_core-1.0-py3-none-any.whl: Some("launcher  is broken")
    rocm_sdk_core-1.0-py3-none-win_amd64.whl: Some("not <signed>")
    rocm_sdk_core-2.0-py3-none-any.whl: None
    "#);
}

#[test]
fn an_empty_list_takes_every_yank_back() {
    let mut files = files();
    YankList::default().apply(&mut files).unwrap();
    assert!(files.iter().all(|file| file.yanked.is_none()));
}

#[test]
fn what_cannot_be_yanked_is_an_error_in_words() {
    let lists = [
        "rocm-1.1.tar.gz\nrocm==2 gone\nrocm==1.0 there",
        "rocm\n",
        "\nrocm==x",
        "a b==1",
        "rocm==1.0 a\u{7}b",
        "rocm==1.0 a\nROCM==1.0.0 b",
    ];
    let said = lists.map(|list| {
        let answer = YankList::parse(list).and_then(|list| list.apply(&mut files()));
        render(&answer.unwrap_err())
    });
    insta::assert_snapshot!(said.concat(), @r#"
    error: not in the set, so not to be yanked: `rocm-1.1.tar.gz`, `rocm==2`
    error: line 1
      caused by: neither the name of a file nor `project==version`: `rocm`
    error: line 2
      caused by: not a PEP 440 version: "x"
      caused by: expected version to start with a number, but no leading ASCII digits were found
    error: line 1
      caused by: neither the name of a file nor `project==version`: `a`
    error: line 1
      caused by: a control character in the reason: "a\u{7}b"
    error: line 2
      caused by: `ROCM==1.0.0` is there twice
    "#);
}
