//! Tests of ids, references, platforms and repositories.

mod origin;
mod places;

use std::fmt;

use super::*;

fn refusals<T>(texts: &[&str]) -> String
where
    T: FromStr<Err: fmt::Display> + fmt::Debug,
{
    let messages: Vec<String> =
        texts.iter().map(|text| text.parse::<T>().err().unwrap().to_string()).collect();
    messages.join("\n")
}

#[test]
fn a_run_id_is_digits_of_any_length_or_local() {
    let long = "9".repeat(80);
    for text in ["1", "21440027240", &long, "local"] {
        assert_eq!(text.parse::<RunId>().unwrap().to_string(), text);
    }
    assert!(RunId::local().is_local());
    assert_eq!("local".parse::<RunId>().unwrap(), RunId::local());
    let refused = ["", "0", "01", "-1", "1 ", "1/..", "Local", "１"];
    insta::assert_snapshot!(refusals::<RunId>(&refused), @r#"
    not a run id such as `21440027240`, nor `local`: ""
    not a run id such as `21440027240`, nor `local`: "0"
    not a run id such as `21440027240`, nor `local`: "01"
    not a run id such as `21440027240`, nor `local`: "-1"
    not a run id such as `21440027240`, nor `local`: "1 "
    not a run id such as `21440027240`, nor `local`: "1/.."
    not a run id such as `21440027240`, nor `local`: "Local"
    not a run id such as `21440027240`, nor `local`: "１"
    "#);
}

#[test]
fn a_platform_has_a_name_for_each_who_asks() {
    let names = Platform::ALL.map(|platform| {
        assert_eq!(platform.to_string().parse::<Platform>().unwrap(), platform);
        let (python, tag) = (platform.sys_platform(), platform.wheel_tag());
        format!("{platform} {python} {tag}")
    });
    assert_eq!(names, ["linux linux linux_x86_64", "windows win32 win_amd64"]);
    let refused = ["", "Linux", "darwin", "win32"];
    insta::assert_snapshot!(refusals::<Platform>(&refused), @r#"
    not a platform (linux, windows): ""
    not a platform (linux, windows): "Linux"
    not a platform (linux, windows): "darwin"
    not a platform (linux, windows): "win32"
    "#);
}

#[test]
fn a_repository_is_an_owner_and_a_name() {
    for text in ["ROCm/TheRock", "a/b", "user_corp/x.y-z_1", "ROCm/.github"] {
        assert_eq!(text.parse::<Repository>().unwrap().to_string(), text);
    }
    let same: [Repository; 2] = ["ROCm/TheRock", "rocm/therock"].map(|t| t.parse().unwrap());
    assert_eq!(same[0], same[1]);
    assert_ne!(same[0], "ROCm/rockrel".parse().unwrap());
    let long = [format!("{}/x", "a".repeat(40)), format!("x/{}", "a".repeat(101))];
    let refused = [
        "", "TheRock", "a/b/c", "/b", "a/", "a/..", "../b", "a.b/c", "a b/c", "a/b+", "a/.",
        &long[0], &long[1],
    ];
    insta::assert_snapshot!(refusals::<Repository>(&refused), @r#"
    not a repository such as `ROCm/TheRock`: ""
    not a repository such as `ROCm/TheRock`: "TheRock"
    not a repository such as `ROCm/TheRock`: "a/b/c"
    not a repository such as `ROCm/TheRock`: "/b"
    not a repository such as `ROCm/TheRock`: "a/"
    not a repository such as `ROCm/TheRock`: "a/.."
    not a repository such as `ROCm/TheRock`: "../b"
    not a repository such as `ROCm/TheRock`: "a.b/c"
    not a repository such as `ROCm/TheRock`: "a b/c"
    not a repository such as `ROCm/TheRock`: "a/b+"
    not a repository such as `ROCm/TheRock`: "a/."
    not a repository such as `ROCm/TheRock`: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/x"
    not a repository such as `ROCm/TheRock`: "x/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "#);
}

fn reference(text: &str) -> RunReference {
    text.parse().unwrap()
}

#[test]
fn an_id_tells_the_run_alone() {
    for text in ["21440027240", "local", " 21440027240\n"] {
        let reference = reference(text);
        assert_eq!(reference.id.as_str(), text.trim());
        assert_eq!((reference.repository, reference.server), (None, None));
    }
}

#[test]
fn each_page_of_a_run_tells_the_run_and_its_repository() {
    let page = "https://github.com/ROCm/TheRock/actions/runs/21440027240";
    let repository: Repository = "ROCm/TheRock".parse().unwrap();
    for tail in [
        "",
        "/",
        "/attempts/2",
        "/job/61234567890?pr=12#step:3:1",
        "#summary-61234567890",
        "?check_suite_focus=true",
    ] {
        let reference = reference(&format!("{page}{tail}"));
        assert_eq!(reference.id.as_str(), "21440027240", "{tail}");
        assert_eq!(reference.repository, Some(repository.clone()));
        assert_eq!(reference.server.as_deref(), Some("https://github.com"));
    }
    for text in [format!("\t{page}\r\n"), page.replace("https://", "")] {
        assert_eq!(reference(&text), reference(page), "{text}");
    }
    let elsewhere = reference("https://GitHub.example.org:8443/a/b/actions/runs/1");
    assert_eq!(elsewhere.server.as_deref(), Some("https://github.example.org:8443"));
}

#[test]
fn the_address_of_something_else_is_refused_in_words() {
    let refused = [
        "",
        "main",
        "https://github.com/ROCm/TheRock/pull/12",
        "https://github.com/ROCm/TheRock/actions/workflows/ci.yml",
        "https://github.com/ROCm/TheRock/runs/61234567890",
        "https://github.com/ROCm/TheRock/actions/runs/",
        "https://github.com/ROCm/TheRock/actions/runs/local",
        "https://github.com/ROCm/../actions/runs/1",
        "https://user:secret@github.com/a/b/actions/runs/1",
        "http://github.com/a/b/actions/runs/1",
        "https:///a/b/actions/runs/1",
        "a/b/actions/runs/1",
        "./a/b/actions/runs/1",
        "user:secret@github.com/a/b/actions/runs/1",
        "ftp://github.com/a/b/actions/runs/1",
        "21440027240 21440027241",
    ];
    for text in refused {
        assert!(text.parse::<RunReference>().is_err(), "{text}");
    }
    let error = "https://github.com/ROCm/TheRock/pull/12".parse::<RunReference>();
    insta::assert_snapshot!(error.unwrap_err(), @r#"not a run id, nor an address such as `https://github.com/ROCm/TheRock/actions/runs/21440027240`: "https://github.com/ROCm/TheRock/pull/12""#);
}
