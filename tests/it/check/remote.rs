//! Sets that are published: on a web server, in a bucket, in a directory laid out like one.

use aws_sdk_s3::primitives::ByteStream;

use super::{Outcome, Set, others::add_foreign, rocwheel, run};
use crate::support::prelude::*;
use crate::support::{
    published::VERSION,
    upstream_set::{of_families, split},
    web::{Manner, UNDER_SLASH},
};
use crate::{
    publish::tree,
    s3::server::{ID, SECRET, Server as S3},
};

/// Exit code, findings and talk of a check of some place.
fn checked(place: &str, more: &[&str]) -> (i32, String, String) {
    let said = run(&[&["check", place, "--no-progress"], more].concat());
    (said.code, said.stdout, said.stderr)
}

/// What is said of a set without findings.
fn clean(set: &TestSet) -> String {
    format!("     Checked {} packages: OK, no problems\n", set.packages())
}

const STRICT: &[&str] = &["--fail-on", "warning"];

#[test]
#[ignore = "slow"]
fn web_servers_of_every_kind_are_read() {
    for set in sets() {
        let count = if set.name == "sample" { 4 } else { long::rounds(1, 4) };
        let all = [Manner::Ranges, Manner::NoRanges, Manner::Breaks, Manner::Busy];
        for manner in all.into_iter().take(count) {
            let server = Server::of_directory(&set.place(), manner);
            let (code, stdout, stderr) = checked(&server.url, STRICT);
            assert_eq!((code, stderr), (0, clean(set)), "{manner:?}: {stdout}");
        }
    }
}

#[test]
#[ignore = "slow"]
fn every_address_of_a_set_leads_to_it() {
    for set in sets() {
        let server = Server::of_directory(&set.place(), Manner::Ranges);
        for page in ["simple/", "simple", "set.json", "dist/index.html"] {
            let (code, _, stderr) = checked(&format!("{}{page}", server.url), &[]);
            assert_eq!((code, stderr), (0, clean(set)), "{page}");
        }
    }
}

#[test]
#[ignore = "slow"]
fn a_set_that_is_read_from_afar_is_read_once() {
    for set in sets() {
        let place = set.place();
        let server = Server::of_directory(&place, Manner::Ranges);
        checked(&server.url, &[]);
        let sizes = fs_err::read_dir(place.join("dist")).unwrap();
        let sizes = sizes.map(|entry| entry.unwrap().metadata().unwrap().len());
        let whole = usize::try_from(sizes.sum::<u64>()).unwrap();
        let sent = server.sent();
        // Pages, and the end of each wheel a second time.
        assert!(sent < 2 * whole + (1 << 20), "{sent} of {whole}");
    }
}

#[test]
#[ignore = "slow"]
fn what_an_index_promises_and_does_not_keep_is_found() {
    let set = Set::new();
    set.index();
    set.remove("rocm_profiler");
    set.edit("rocm_sdk_device_gfx942", |members| {
        super::add(members, "_rocm_sdk_libraries/a_gfx942.co", "1");
    });
    let server = Server::of_directory(set.0.path(), Manner::Ranges);
    let (code, stdout, _) = checked(&server.url, &["--select", "RW701,RW702"]);
    assert_eq!(code, 1);
    for rule in ["RW701 promised-file-missing:", "RW702 broken-promise:"] {
        assert_eq!(stdout.matches(rule).count(), 1, "{stdout}");
    }
}

#[test]
fn an_index_of_many_versions_is_checked_for_the_newest() {
    let set = Set::new();
    let old = set.package("rocm_profiler");
    let name = old.file_name().unwrap().to_str().unwrap();
    let older = set.0.path().join(name.replace("0.99.1", "0.0.0"));
    let page = |name: &str| format!("<a href=\"{name}\">x</a>");
    let mut links = String::new();
    for entry in fs_err::read_dir(set.0.path()).unwrap() {
        links += &page(entry.unwrap().file_name().to_str().unwrap());
    }
    links += &page(older.file_name().unwrap().to_str().unwrap());
    links += &page("numpy-2.0-cp312-cp312-linux_x86_64.whl");
    fs_err::write(set.0.path().join("links.html"), links).unwrap();
    let server = Server::of_directory(set.0.path(), Manner::Ranges);
    let (code, stdout, stderr) = checked(&format!("{}links.html", server.url), &[]);
    assert_eq!(code, 0, "{stdout}");
    insta::assert_snapshot!(stderr, @"
    note: the index has several versions, and 0.99.1.dev0 is the newest: the others are ignored
         Checked 7 packages and 1 of others: OK, no problems
    ");
}

#[test]
#[ignore = "slow"]
fn a_baseline_is_read_by_the_ends_of_its_wheels() {
    let place = published::sample().place();
    let server = Server::of_directory(&place, Manner::Ranges);
    let set = Set::new();
    set.remove("rocm_profiler");
    let found = set.found(&["--select", "RW8", "--baseline", &server.url]);
    insta::assert_snapshot!(found, @"
    exit 1
    the set
      error   RW801 package-gone: the baseline has `rocm-profiler`
    ");
}

#[test]
#[ignore = "slow"]
fn a_place_that_cannot_be_read_is_no_finding() {
    let empty = tempfile::tempdir().unwrap();
    let server = Server::of_directory(empty.path(), Manner::Ranges);
    let nobody = "http://127.0.0.1:1/simple/";
    let places = [&*server.url, "ftp://h/x", "s3://a", "https://h/?a", nobody];
    let shown = places.map(|place| run(&["check", place, "--no-progress"]).all());
    let shown = shown.concat().replace(&server.url, "[server]/");
    insta::assert_snapshot!(shown, @r#"
    exit 2
    error: no index and no link to a package: `[server]/`

    hint: pass what holds `simple/`, `set.json` or `dist/`, or the address of a page with links
    exit 2
    error: invalid value 'ftp://h/x' for '[SET]': not the address of a server such as `http://127.0.0.1:8333`, without a user or a query

    For more information, try '--help'.
    exit 2
    error: invalid value 's3://a' for '[SET]': not a location such as `s3://bucket/key`: "s3://a"

    For more information, try '--help'.
    exit 2
    error: invalid value 'https://h/?a' for '[SET]': an address with a query or a fragment: "https://h/?a"

    For more information, try '--help'.
    exit 2
    error: failed to read `set.json` of `http://127.0.0.1:1`
      caused by: the store does not answer: `http://127.0.0.1:1/set.json`
      caused by: Connection refused (os error 111)

    hint: check the address, the network, the proxy (`HTTPS_PROXY`) and the certificates (`SSL_CERT_FILE`), and try again
    "#);
}

/// `rocwheel` with keys for the server.
pub(super) fn keyed(arguments: &[&str], endpoint: &str) -> Outcome {
    let mut command = rocwheel();
    command.env("AWS_ENDPOINT_URL", endpoint).env("AWS_ACCESS_KEY_ID", ID);
    command.env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    Outcome::of(command.args(arguments).output().unwrap())
}

/// Puts every file of a directory into a new bucket, which it returns. Pages have a key that ends
/// in `/` too, whose contents this server drops.
pub(super) fn stored(server: &S3, place: &Path) -> String {
    let bucket = server.bucket().to_string();
    for key in tree(place) {
        let names = ["index.html", "index.json"];
        let directory = names.iter().find_map(|name| key.strip_suffix(name));
        for to in [Some(&*key), directory].into_iter().flatten() {
            let put = server.client.put_object().bucket(&bucket);
            let body = ByteStream::from(fs_err::read(place.join(&key)).unwrap());
            let put = put.key(format!("1-linux/python/{to}")).body(body);
            server.runtime.block_on(put.send()).unwrap();
        }
    }
    bucket
}

/// Pages of PEP 691, as another index has them: each page of ours, in JSON.
fn write_json_pages(place: &Path) {
    let link =
        Regex::new(r##"<a [^>]*href="([^"#]+)#sha256=([0-9a-f]{64})"[^>]*>([^<]*)</a>"##).unwrap();
    let mut projects = Vec::new();
    for entry in fs_err::read_dir(place.join("simple")).unwrap() {
        let directory = entry.unwrap();
        let page = directory.path().join("index.html");
        let Ok(html) = fs_err::read_to_string(&page) else { continue };
        let files = link
            .captures_iter(&html)
            .map(|it| json!({"filename": &it[3], "url": &it[1], "hashes": {"sha256": &it[2]}}));
        let files: Vec<Value> = files.collect();
        assert!(!files.is_empty(), "{html}");
        let name = directory.file_name().into_string().unwrap();
        let meta = json!({"api-version": "1.1"});
        let json = json!({"meta": meta, "name": name, "files": files});
        fs_err::write(page, json.to_string()).unwrap();
        projects.push(json!({"name": name}));
    }
    let root = json!({"meta": {"api-version": "1.1"}, "projects": projects});
    fs_err::write(place.join("simple/index.html"), root.to_string()).unwrap();
    for page in ["set.json", "SHA256SUMS", "index.html"] {
        fs_err::remove_file(place.join(page)).unwrap();
    }
}

#[test]
fn an_index_in_json_is_read() {
    let set = Set::new();
    set.index();
    write_json_pages(set.0.path());
    let server = Server::of_directory(set.0.path(), Manner::Ranges);
    let address = format!("{}simple/", server.url);
    let (code, stdout, stderr) = checked(&address, STRICT);
    assert_eq!(
        (code, stdout.as_str()),
        (0, "OK, no problems in 7 packages\nread 2.42 MiB of 2.42 MiB\n"),
        "{stderr}"
    );
    let project_page = set.0.path().join("simple/rocm-sdk-core/index.html");
    let page = fs_err::read_to_string(&project_page).unwrap();
    let digest = page.split("\"sha256\":\"").nth(1).unwrap()[..64].to_owned();
    fs_err::write(&project_page, page.replace(&digest, &"0".repeat(64))).unwrap();
    let (code, stdout, _) = checked(&address, &[]);
    assert_eq!(code, 1);
    assert_has!(stdout, "RW702 broken-promise");
}

/// The same findings wherever a set is published: in a directory, on a web server, in a bucket.
fn found_everywhere(place: &Path) -> String {
    let web = Server::of_directory(place, Manner::Ranges);
    let server = S3::shared();
    let bucket = stored(server, place);
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let places = [text(place).to_owned(), web.url.clone(), format!("s3://{bucket}/1-linux/python")];
    let found = places.map(|place| {
        let said = keyed(&["check", "--no-progress", &place], &endpoint);
        let findings = said.stdout.split("\n\n").next().unwrap();
        // How much was read is said of a published place alone.
        let findings = findings.split("read ").next().unwrap();
        format!("exit {}\n{findings}", said.code)
    });
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
    found[0].clone()
}

#[test]
#[ignore = "slow"]
fn dead_pages_are_found_wherever_they_are_published() {
    let dead = |pages: &[&str], text: &str| {
        let set = Set::new();
        set.index();
        for page in pages {
            fs_err::write(set.0.path().join(page), text).unwrap();
        }
        found_everywhere(set.0.path())
    };
    let nothing = "<html><body></body></html>";
    insta::assert_snapshot!(dead(&["index.html", "simple/index.html"], nothing), @"
    exit 1
    index.html
      error   RW704 pages-disagree: it lists no package
    simple/
      error   RW704 pages-disagree: it lists no package
    ");
    let gone = Set::new();
    gone.index();
    fs_err::remove_dir_all(gone.0.path().join("simple")).unwrap();
    fs_err::remove_file(gone.0.path().join("index.html")).unwrap();
    insta::assert_snapshot!(found_everywhere(gone.0.path()), @"
    exit 1
    index.html
      error   RW706 unreadable-page: `set.json` is there, and this page is not
    simple/
      error   RW706 unreadable-page: `set.json` is there, and this page is not
    ");
}

#[test]
#[ignore = "slow"]
fn a_page_whose_two_keys_differ_is_found() {
    let set = Set::new();
    set.index();
    let place = set.0.path();
    // The key of the top directory of a server is empty, so the set lies below it.
    let server = Server::of_directory(place.parent().unwrap(), Manner::Ranges);
    let name = place.file_name().unwrap().to_str().unwrap();
    let url = format!("{}{name}/", server.url);
    let findings = || {
        let (code, stdout, _) = checked(&url, &[]);
        let findings = stdout.split_once("\n\n").map_or("", |it| it.0);
        format!("exit {code}\n{findings}")
    };
    let pages = "|simple/|simple/rocm-sdk-core/";
    for directory in pages.split('|') {
        let key = place.join(directory).join(UNDER_SLASH);
        fs_err::write(&key, "").unwrap();
        let found = findings();
        let shown = format!("{directory}\n  error   RW704 pages-disagree: it is empty");
        assert!(found.contains(&shown), "{directory}: {found}");
        fs_err::remove_file(key).unwrap();
    }
    // The page of the file is dead, and that of the key is not.
    let file = place.join("simple/index.html");
    fs_err::copy(&file, file.with_file_name(UNDER_SLASH)).unwrap();
    fs_err::write(&file, "<html></html>").unwrap();
    insta::assert_snapshot!(findings(), @"
    exit 1
    simple/
      error   RW704 pages-disagree: it differs from the file of the page
    ");
}

#[test]
#[ignore = "slow"]
fn a_server_that_keeps_nothing_under_keys_of_directories_has_no_finding() {
    let set = Set::new();
    set.index();
    let mut directories = vec![set.0.path().to_owned()];
    while let Some(directory) = directories.pop() {
        fs_err::write(directory.join(UNDER_SLASH), "").unwrap();
        let entries = fs_err::read_dir(directory).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        directories.extend(paths.filter(|path| path.is_dir()));
    }
    let server = Server::of_directory(set.0.path(), Manner::Ranges);
    let (code, stdout, _) = checked(&server.url, STRICT);
    assert_eq!(code, 0, "{stdout}");
}

#[test]
#[ignore = "slow"]
fn packages_of_others_at_a_published_place_are_not_judged_as_ours() {
    let set = Set::new();
    add_foreign(&set, "torch");
    set.index();
    insta::assert_snapshot!(found_everywhere(set.0.path()), @"
    exit 0
    OK, no problems in 7 packages and 1 of others
    ");
    // In a directory they are read, as `index` would; elsewhere they may be many and large.
    let torch = set.package("torch");
    fs_err::write(torch, "no wheel").unwrap();
    let server = Server::of_directory(set.0.path(), Manner::Ranges);
    let (code, stdout, _) = checked(&server.url, &[]);
    assert!(code == 0, "{stdout}");
    let found = set.found(&[]);
    assert!(found.starts_with("exit 1") && found.contains("RW124"), "{found}");
}

#[test]
#[ignore = "slow"]
fn a_bucket_is_read_as_it_was_uploaded() {
    for set in sets() {
        is_read_as_it_was_uploaded(set);
    }
}

fn is_read_as_it_was_uploaded(set: &TestSet) {
    let server = S3::shared();
    let place = set.place();
    let bucket = stored(server, &place);
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let address = format!("s3://{bucket}/1-linux/python");
    let check = || {
        let line = ["check", "--no-progress", "--fail-on", "warning", &address];
        keyed(&line, &endpoint)
    };
    let said = check();
    assert_eq!((said.code, said.stderr), (0, clean(set)), "{}", said.stdout);
    let put = server.client.put_object().bucket(&bucket);
    let put = put.key("1-linux/python/dist/rocm_profiler-1-py3-none-any.whl");
    let body = ByteStream::from_static(b"x");
    server.runtime.block_on(put.body(body).send()).unwrap();
    let said = check();
    assert_eq!(said.code, 1);
    assert_has!(said.stdout, "RW705 unlisted-package: no page of the set leads to it");

    // `index` checks the files, and does not trust the pages of an earlier one.
    for (name, code) in [("rocm_profiler-1", 0), ("rocm_sdk_device_gfx942", 1)] {
        let listed = server.client.list_objects_v2().bucket(&bucket);
        let listed = listed.prefix(format!("1-linux/python/dist/{name}"));
        let listed = server.runtime.block_on(listed.send()).unwrap();
        for object in listed.contents() {
            let delete = server.client.delete_object().bucket(&bucket);
            let delete = delete.key(object.key().unwrap());
            server.runtime.block_on(delete.send()).unwrap();
        }
        let said = keyed(&["index", &address], &endpoint);
        assert_eq!(said.code, code, "{}", said.stderr);
        assert_eq!(said.stderr.contains("RW202"), code == 1, "{}", said.stderr);
    }
}

/// Writes the pages of upstream's uploader: one of the set, or one of each family, which has the common packages too.
fn write_links(directory: &Path) {
    let paths = fs_err::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (families, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.partition(|path| path.is_dir());
    let links_of = |files: &[PathBuf], above: &str| {
        let names = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
        let links = names.map(|name| format!("<a href=\"{above}{name}\">{name}</a><br>\n"));
        links.collect::<String>()
    };
    if families.is_empty() {
        fs_err::write(directory.join("index.html"), links_of(&files, "")).unwrap();
    }
    for family in families {
        let own = fs_err::read_dir(&family).unwrap().map(|entry| entry.unwrap().path());
        let links = links_of(&own.collect::<Vec<_>>(), "") + &links_of(&files, "../");
        fs_err::write(family.join("index.html"), links).unwrap();
    }
}

/// Accepts what is wrong with a published set today. Returns the rules of the list.
fn accepted_rules(place: &[&str], endpoint: &str) -> BTreeSet<String> {
    let t = Sandbox::new();
    let list = t.path("known.toml");
    let check = |more: &[&str]| {
        let line = [&["check", "--no-progress"], place, more].concat();
        let said = keyed(&line, endpoint);
        assert_eq!(said.code, 0, "{place:?}: {}{}", said.stdout, said.stderr);
        said.stdout
    };
    check(&["--write-accept", text(&list)]);
    let said = check(&["--accept", text(&list), "--fail-on", "warning"]);
    assert_has!(said, "OK, no problems, ");
    let rule = Regex::new(r#"(?m)^rule = "(RW\d+)""#).unwrap();
    rule.captures_iter(&t.read("known.toml")).map(|it| it[1].to_owned()).collect()
}

/// What is wrong with it is what `docs/differences.md` says of upstream's packages, and nothing else.
fn is_checked_where_it_is(packages: &Path, below: &str, expected: &[&str]) {
    let t = Sandbox::new();
    let place = t.path("published");
    let directory = place.join(below);
    fs_err::create_dir_all(&place).unwrap();
    copy_tree(&packages.join("."), &directory);
    let sizes = tree(&place).into_iter().map(|it| fs_err::metadata(place.join(it)).unwrap().len());
    let whole = usize::try_from(sizes.sum::<u64>()).unwrap();
    write_links(&directory);
    let server = S3::shared();
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
    let bucket = stored(server, &place);
    let run = "--run-id 1 --platform linux --release-type nightly --bucket";
    let run: Vec<&str> = run.split(' ').chain([&*bucket]).collect();
    assert_eq!(accepted_rules(&run, &endpoint), expected, "{below:?} of the bucket");

    let web = Server::of_directory(&place, Manner::Ranges);
    let pages = tree(&place).into_iter().filter(|it| it.ends_with("index.html"));
    for page in pages {
        let rules = accepted_rules(&[&format!("{}{page}", web.url)], &endpoint);
        assert!(rules.is_subset(&expected), "{page}: {rules:?}");
    }
    // Each check reads each package once, the ends of the wheels a second time, and the pages.
    let checks = 2 * tree(&place).iter().filter(|it| it.ends_with("index.html")).count();
    let sent = web.sent();
    assert!(sent < checks * (whole + whole / 20), "{sent} of {whole} in {checks} checks");
}

#[test]
#[ignore = "slow"]
fn what_upstream_has_published_is_checked_where_it_is() {
    let sets = [
        (split(VERSION), ["RW114", "RW123", "RW126"]),
        (of_families(), ["RW123", "RW126", "RW316"]),
    ];
    for (root, expected) in sets {
        for below in ["", "dist"] {
            is_checked_where_it_is(&root.join("dist"), below, &expected);
        }
    }
}

#[test]
fn a_set_and_a_run_are_not_checked_together() {
    let said = run(&["check", "set", "--run-id", "1"]);
    assert_eq!(said.code, 2);
    assert_has!(said.stderr, "`set` and a run: name one of them");
    let said = run(&["check", "--run-id", "1", "--release-type", "nightly", "--offline"]);
    assert_eq!(said.code, 2);
    assert_has!(said.stderr, "is not possible with `--offline`");
}
