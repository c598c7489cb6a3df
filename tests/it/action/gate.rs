//! The workflow that checks packages which others have built and published.

use super::{
    frameworks::{CHECKED_OUT, CHECKOUT},
    runner::Repository,
    workflows::pull_request_of_a_fork,
};
use crate::support::{prelude::*, published::VERSION, upstream_set::split, web::Manner};

/// Stands for GitHub's program: says what it was called with. There is a comment of the mark, if somebody wrote one.
const GH: &str = r#"#!/bin/sh
# The runner asks it for a token.
[ "$1" = api ] || exit 0
printf '%s\n' "$3 $4 $6" >>LOG
case "$*" in *--paginate*) [ ! -e LOG.comment ] || echo "77 $(head -n 1 rocwheel-comment.md)" ;; *) touch LOG.comment ;; esac
"#;

#[test]
#[ignore = "slow"]
fn the_findings_are_in_the_summary_and_in_one_comment() {
    let mut repository = Repository::new();
    let place = repository.path().to_owned();
    let packages = place.join("packages");
    copy_tree(&split(VERSION).join("dist"), &packages);
    let names = tree(&packages).into_iter().map(|it| format!("<a href=\"{it}\">{it}</a>"));
    fs_err::write(packages.join("index.html"), names.collect::<String>()).unwrap();
    let server = Server::of_directory(&packages, Manner::Ranges);
    let (event, log) = (place.join("event.json"), place.join("gh.log"));
    fs_err::write(&event, pull_request_of_a_fork().to_string()).unwrap();
    let tools = place.join("tools");
    fs_err::create_dir(&tools).unwrap();
    write_program(&tools.join("gh"), GH.replace("LOG", text(&log)));
    repository.tools(&tools).argument("--eventpath", text(&event));
    repository.action(CHECKOUT, CHECKED_OUT);
    let inputs = json!({"set": format!("{}index.html", server.url), "comment": true});
    for _ in 0..2 {
        let run = repository.call("check-published.yml", &inputs).expect_success();
        let [page] = &run.summaries()[..] else { panic!("{:?}", run.summaries()) };
        assert_has!(page, "## Check of <code>http", "<b>RW126</b>");
    }
    let calls = fs_err::read_to_string(log).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    let place = ["POST", "PATCH"].map(|method| {
        let of_method = calls.iter().filter(|it| it.starts_with(method));
        of_method.map(|it| it.split_once("/issues/").unwrap().1).collect::<Vec<_>>()
    });
    let body = "body=@rocwheel-comment.md";
    let expected = [vec![format!("7/comments {body}")], vec![format!("comments/77 {body}")]];
    assert_eq!(place, expected, "{calls:?}");
    // What fails is in the summary too.
    let mut strict = inputs;
    strict["fail-on"] = json!("warning");
    let run = repository.call("check-published.yml", &strict);
    assert!(!run.succeeded, "{}", run.log());
    assert_eq!(run.summaries().len(), 1);
}
