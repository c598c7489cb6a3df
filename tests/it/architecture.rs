//! Few modules reach out of the process. `docs/architecture.md` says which: its table is the rule, and the
//! sources are compared with it in both directions.

use crate::support::prelude::*;

/// A row of the table by how it begins, and what it looks like in a source.
const WAYS: [(&str, &str); 8] = [
    ("touch the disk", r"\b(fs_err|std::fs|tokio::fs|tempfile)\b"),
    ("read a text file whole", r#"\bread_to_string\([\w"]"#),
    (
        "touch the network",
        r"\b(reqwest|aws_sdk_s3|aws_config|octocrab|hyper)\b|\bTcp(Stream|Listener)\b",
    ),
    ("print", r"\bio::(stdout|stderr)\b|(^|[^.:\w])(stdout|stderr)\(|\be?print(ln)?!\("),
    ("read the environment", r"\benv::(var|var_os|vars|vars_os|args|args_os|current_dir)\b"),
    ("start threads", r"\bthread::(spawn|scope|Builder)\b"),
    ("ask how many processors", r"\b(available_parallelism|IsTerminal)\b"),
    ("start or end a process", r"\bprocess::(\{[^}]*)?\b(Command|exit|abort)\b"),
];

#[test]
fn few_modules_reach_out_of_the_process_and_the_page_names_them() {
    let sources = sources();
    assert!(sources.len() > 200, "{} sources", sources.len());
    let page = fs_err::read_to_string("docs/architecture.md").unwrap();
    let mut wrong = Vec::new();
    for (row, way) in WAYS {
        let way = Regex::new(&format!("(?m){way}")).unwrap();
        let named = modules_of_row(&page, row);
        let is_in =
            |module: &str, place: &String| format!("{module}/").starts_with(&format!("{place}/"));
        let reach: Vec<&str> = sources
            .iter()
            .filter(|(_, code)| way.is_match(code))
            .map(|(module, _)| module.as_str())
            .collect();
        for module in reach.iter().filter(|module| !named.iter().any(|place| is_in(module, place)))
        {
            wrong.push(format!(
                "`{module}` may not {row}: take the value as an argument, or add it to the page"
            ));
        }
        for place in named.iter().filter(|place| !reach.iter().any(|module| is_in(module, place))) {
            wrong.push(format!("`{place}` does not {row} any more: take it off the page"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The code of each module as it ships, without comments and tests: `place/sync` is `src/place/sync.rs`, and
/// `store/s3/get` is `crates/store/src/s3/get.rs`.
fn sources() -> BTreeMap<String, String> {
    let comment = Regex::new(r"//[^\n]*").unwrap();
    // The last item of a file.
    let tests = Regex::new(r"#\[cfg\((all\()?test\b[^\n]*\n(#\[[^\n]*\n)*mod \w+ \{").unwrap();
    let mut sources = BTreeMap::new();
    for entry in ["src", "crates"].into_iter().flat_map(walkdir::WalkDir::new) {
        let path = entry.unwrap().into_path().into_os_string().into_string().unwrap();
        let is_for_tests = ["/tests", "/examples/", "crates/test-", "/captured.rs"];
        if !path.ends_with(".rs") || is_for_tests.iter().any(|part| path.contains(part)) {
            continue;
        }
        let module = path
            .trim_start_matches("crates/")
            .trim_start_matches("src/")
            .replace("/src/", "/")
            .replace("/mod.rs", "")
            .replace(".rs", "");
        let text = fs_err::read_to_string(&path).unwrap();
        let shipped = &text[..tests.find(&text).map_or(text.len(), |tests| tests.start())];
        sources.insert(module, comment.replace_all(shipped, "").into_owned());
    }
    sources
}

/// The modules that a row of the table names: `store` (`http` `s3`) are `store/http` and `store/s3`.
fn modules_of_row(page: &str, begin: &str) -> Vec<String> {
    let row =
        page.lines().find_map(|line| line.strip_prefix(&format!("| {begin}"))?.split_once(" | "));
    let (_, cell) = row.unwrap_or_else(|| panic!("the page has no row `{begin}`"));
    let entry = Regex::new(r"`([\w/]+)`(?: \(((?:`[\w/]+` ?)+)\))?").unwrap();
    let modules = entry.captures_iter(cell).flat_map(|entry| match entry.get(2) {
        None => vec![entry[1].to_owned()],
        Some(parts) => {
            let parts = parts.as_str().split_whitespace();
            parts.map(|part| format!("{}/{}", &entry[1], part.trim_matches('`'))).collect()
        }
    });
    modules.collect()
}
