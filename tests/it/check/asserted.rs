//! Which findings the tests of `check` insist on: those in the snapshots of tests that are run.
//!
//! A test passes only if `check` reports what its snapshot shows, so a rule in one is a rule that
//! was reported. Comments, other texts and tests that are left out count for nothing.

use std::{collections::BTreeSet, path::Path};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use regex::Regex;
use rocwheel::check::RULES;

/// The findings in the snapshots of a file: `error RW101 unreadable-package`.
fn asserted(text: &str) -> BTreeSet<String> {
    let finding =
        Regex::new(r#"(?m)(?:^|")\s*(error|warning|note)\s+(RW[\dF]\d\d [a-z-]+): "#).unwrap();
    let stream: TokenStream = text.parse().unwrap();
    let mut found = BTreeSet::new();
    for body in tests(stream) {
        for snapshot in snapshots(body) {
            for one in finding.captures_iter(&snapshot) {
                found.insert(format!("{} {}", &one[1], &one[2]));
            }
        }
    }
    found
}

/// The bodies of the functions with `#[test]` and, but for what is said of them, no other attribute.
fn tests(stream: TokenStream) -> Vec<TokenStream> {
    let (mut bodies, mut attributes, mut is_function) = (Vec::new(), Vec::new(), false);
    for tree in stream {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                let attribute = group.stream().to_string();
                attributes.extend(Some(attribute).filter(|it| !it.starts_with("doc")));
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                if is_function && attributes == ["test"] {
                    bodies.push(group.stream());
                }
                attributes.clear();
                is_function = false;
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => attributes.clear(),
            TokenTree::Ident(ident) if ident == "fn" => is_function = true,
            _ => {}
        }
    }
    bodies
}

/// The texts behind the `@` of every `assert_snapshot!`.
fn snapshots(stream: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_snapshot = false;
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                found.extend(snapshot(&group).filter(|_| is_snapshot));
                found.extend(snapshots(group.stream()));
                is_snapshot = false;
            }
            TokenTree::Ident(ident) => is_snapshot = ident == "assert_snapshot",
            _ => {}
        }
    }
    found
}

fn snapshot(arguments: &Group) -> Option<String> {
    let trees: Vec<TokenTree> = arguments.stream().into_iter().collect();
    match trees.as_slice() {
        [.., TokenTree::Punct(at), TokenTree::Literal(text)] if at.as_char() == '@' => {
            Some(text.to_string())
        }
        _ => None,
    }
}

#[test]
fn every_rule_has_a_broken_set() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/check");
    let mut found = BTreeSet::new();
    let mut directories = vec![place];
    while let Some(directory) = directories.pop() {
        for entry in fs_err::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.extend(asserted(&fs_err::read_to_string(path).unwrap()));
            }
        }
    }
    let rules = RULES.iter().map(|rule| format!("{} {rule}", rule.severity));
    assert_eq!(found, rules.collect());
}

#[test]
fn only_what_a_test_insists_on_counts() {
    let text = r##"
        //! error   RW101 in-the-head: a
        const TEXT: &str = "error   RW102 in-a-constant: a";

        /// error   RW103 in-a-comment: a
        #[test]
        fn a() {
            // error   RW104 in-a-comment: a
            let text = "error   RW105 in-a-text: a";
            insta::assert_snapshot!(found("error   RW106 in-an-argument: a"), @"
            exit 1
            a.whl
              error   RW107 found: `a`
              warning RW108 found-too: `b`
            ");
            for _ in 0..1 {
                insta::assert_snapshot!(only("RW109", &x), @r#"error   RW109 alone: "a" b"#);
            }
            assert!(text.contains("error   RW110 in-an-assertion: a"), "{text}");
        }

        #[test]
        #[ignore]
        fn b() {
            insta::assert_snapshot!(found(), @"error   RW111 in-a-test-that-is-left-out: a");
        }

        #[cfg(any())]
        #[test]
        fn c() {
            insta::assert_snapshot!(found(), @"error   RW112 in-a-test-that-is-not-there: a");
        }

        fn d() {
            insta::assert_snapshot!(found(), @"error   RW113 in-a-function-that-is-no-test: a");
        }
    "##;
    let found: Vec<String> = asserted(text).into_iter().collect();
    assert_eq!(
        found,
        [
            "error RW107 found",
            "error RW109 alone",
            "warning RW108 found-too"
        ]
    );
}
