//! Registries that say little, and registries that lie.

use serde_json::{Value, json};

use super::{Workplace, none};
use crate::{
    install::registries::PypiServer,
    publish::{packages::wheel, tree},
};

fn one() -> Workplace {
    let workplace = Workplace::new("['3.12']", "['linux']", &["a"]);
    workplace
        .registry
        .wheel("a", "1.0", "py3-none-any", "", none());
    workplace
}

/// Code and the first lines of stderr, without what differs between runs.
fn said(workplace: &Workplace, arguments: &[&str]) -> String {
    let outcome = workplace.deps(arguments);
    let shown = workplace.shown(&outcome);
    let digest = regex::Regex::new("[0-9a-f]{64}").unwrap();
    format!(
        "# {}\n{}",
        arguments.join(" "),
        digest.replace_all(&shown, "SHA256")
    )
}

#[test]
fn what_a_registry_must_not_do_is_refused() {
    let huge = one();
    huge.registry
        .tell("a", json!({"padding": "x".repeat(64 << 20)}));
    let file = one();
    file.registry.redirect("/simple/a/", "file:///etc/passwd");
    let circle = one();
    circle.registry.redirect("/simple/a/", "/simple/a/");
    let archived = one();
    archived
        .registry
        .tell("a", json!({"project-status": {"status": "archived"}}));
    let quarantined = one();
    quarantined
        .registry
        .tell("a", json!({"project-status": {"status": "quarantined"}}));
    let replaced = one();
    replaced.deps(&["update"]).ok();
    let lock = replaced.lock();
    replaced.registry.say(
        "a-1.0-py3-none-any.whl",
        "hashes",
        json!({"sha256": "0".repeat(64)}),
    );
    let update = ["update"];
    let all = [&huge, &file, &circle, &archived, &quarantined, &replaced];
    insta::assert_snapshot!(all.map(|it| said(it, &update)).concat(), @"
    # update
    exit 2
    error: failed to read `REGISTRY/simple/a/`
      caused by: it has more than 67108864 bytes
    # update
    exit 2
    error: failed to read `REGISTRY/simple/a/`
      caused by: the store failed: `REGISTRY/simple/a/`
      caused by: the server answers 302 Found
    # update
    exit 2
    error: failed to read `REGISTRY/simple/a/`
      caused by: the store failed: `REGISTRY/simple/a/`
      caused by: too many redirects
    # update
    exit 0
    + a 1.0  (1 file, 702 B; deps.toml)
    0 files unchanged; 1 file, 702 B in all
    warning: the registry says that `a` is archived
    # update
    exit 1
    error: failed to read `REGISTRY/simple/a/`
      caused by: the registry has put `a` into quarantine
    # update
    exit 1
    error: `a-1.0-py3-none-any.whl` is not what was locked: its sha256 was SHA256, and is SHA256 now
    ");
    assert_eq!(replaced.lock(), lock);
}

/// The attestations of a file that a workflow of this repository published.
fn publisher(repository: &str) -> Vec<u8> {
    let publisher = json!({"kind": "GitHub", "repository": repository, "workflow": "r.yml"});
    let bundles = json!([{"publisher": publisher, "attestations": []}]);
    let all = json!({"version": 1, "attestation_bundles": bundles});
    all.to_string().into_bytes()
}

#[test]
fn concerns_are_reported_or_denied() {
    let workplace = one();
    let it = &workplace.registry;
    let mut told = String::new();
    let [first, second] = ["a-1.0-py3-none-any.whl", "a-1.1-py3-none-any.whl"];
    let of = |name: &str| json!(format!("../../files/{name}.provenance"));
    it.say(first, "provenance", of(first));
    it.put(&format!("{first}.provenance"), publisher("group/a"));
    told += &said(&workplace, &["update"]);
    assert!(
        workplace
            .lock()
            .contains("publisher = \"GitHub group/a r.yml\"\n")
    );
    workplace.deps(&["mirror", "--into", "base"]).ok();
    let stored = workplace.path(&format!("base/dist/{first}.provenance"));
    assert_eq!(fs_err::read(&stored).unwrap(), publisher("group/a"));
    // Another one publishes the next version, and the file that is locked.
    it.wheel(
        "a",
        "1.1",
        "py3-none-any",
        "",
        json!({"provenance": of(second)}),
    );
    it.put(&format!("{second}.provenance"), publisher("other/a"));
    it.put(&format!("{first}.provenance"), publisher("other/a"));
    told += &said(&workplace, &["update", "--deny", "publisher-change"]);
    told += &said(
        &workplace,
        &["mirror", "--into", "other", "--deny", "publisher-change"],
    );
    assert!(!workplace.path("other").exists());
    it.say(second, "provenance", Value::Null);
    told += &said(&workplace, &["update", "--dry-run"]);
    // It was yanked since.
    it.say(first, "yanked", json!("it is broken"));
    told += &said(
        &workplace,
        &["mirror", "--into", "third", "--deny", "yanked"],
    );
    assert!(!workplace.path("third").exists());
    // A version is too young, or of an age that the registry does not say.
    it.say(second, "yanked", json!("it is broken"));
    it.wheel(
        "a",
        "1.2",
        "py3-none-any",
        "",
        json!({"upload-time": Value::Null}),
    );
    it.wheel(
        "a",
        "1.3",
        "py3-none-any",
        "",
        json!({"upload-time": super::YOUNG}),
    );
    told += &said(&workplace, &["update", "--dry-run"]);
    told += &said(&workplace, &["update", "--deny", "age,publisher-change"]);
    insta::assert_snapshot!(told, @r#"
    # update
    exit 0
    + a 1.0  (1 file, 702 B; deps.toml)
    0 files unchanged; 1 file, 702 B in all
    # update --deny publisher-change
    exit 1
    error: 1 concern that `--deny` does not accept
      caused by: a 1.1 was published by GitHub other/a r.yml, and the lock names GitHub group/a r.yml

    hint: find out why; without `--deny publisher-change` it is only reported
    # mirror --into other --deny publisher-change
    exit 1
    error: 1 concern that `--deny` does not accept
      caused by: `a-1.0-py3-none-any.whl` was published by GitHub other/a r.yml, and the lock names GitHub group/a r.yml

    hint: find out why; without `--deny publisher-change` it is only reported
    # update --dry-run
    exit 0
    - a 1.0  (1 file, 702 B; deps.toml)
    + a 1.1  (1 file, 702 B; deps.toml)
    0 files unchanged; 1 file, 702 B in all
    warning: a 1.1 has no publisher, and the lock names GitHub group/a r.yml
    # mirror --into third --deny yanked
    exit 1
    warning: `a-1.0-py3-none-any.whl` was published by GitHub other/a r.yml, and the lock names GitHub group/a r.yml
    error: 1 concern that `--deny` does not accept
      caused by: `a-1.0-py3-none-any.whl` is locked, and was yanked since: "it is broken"

    hint: find out why; without `--deny yanked` it is only reported
    # update --dry-run
    exit 0
    - a 1.0  (1 file, 702 B; deps.toml)
    + a 1.2  (1 file, 702 B; deps.toml)
    0 files unchanged; 1 file, 702 B in all
    note: held back: a 1.3 is younger than 72 h
    warning: a 1.2 has no publisher, and the lock names GitHub group/a r.yml
    note: the registry does not say when these were uploaded: a
    # update --deny age,publisher-change
    exit 1
    error: 1 concern that `--deny` does not accept
      caused by: held back: a 1.3 is younger than 72 h

    hint: find out why; without `--deny age` it is only reported
    "#);
}

/// Files that the lock has no longer: yanked first, removed after the days of grace, and not the newest.
#[test]
fn old_files_leave_the_base_index_by_rule() {
    let workplace = one();
    let mirror = |more: &[&str]| workplace.deps(&[&["mirror", "--into", "base"], more].concat());
    for version in ["1.1", "1.2", "1.3"] {
        workplace.deps(&["update"]).ok();
        mirror(&[]).ok();
        workplace
            .registry
            .wheel("a", version, "py3-none-any", "", none());
    }
    let wheels = || -> Vec<String> {
        let paths = tree(&workplace.path("base/dist")).into_iter();
        let mut names: Vec<String> = paths.filter(|it| it.starts_with("a-")).collect();
        names.sort();
        names
    };
    // Files that are no packages stay.
    fs_err::write(workplace.path("base/dist/notes.txt"), "x").unwrap();
    let day = time::OffsetDateTime::now_utc().date().to_string();
    let dry = mirror(&["--dry-run"]).ok().replace(&day, "DAY");
    let dry = dry.replace(crate::support::place::text(&workplace.root), "HERE");
    let all = wheels();
    let now = mirror(&["--grace", "0", "--dry-run"]).ok();
    assert!(now.ends_with("1 file yanked, 1 removed\n"), "{now}");
    assert_eq!(wheels(), all);
    insta::assert_snapshot!(dry, @"
    to base
    same       702 B  dist/a-1.2-py3-none-any.whl
    yank              dist/a-1.0-py3-none-any.whl  (not in deps.lock since DAY)
    yank              dist/a-1.1-py3-none-any.whl  (not in deps.lock since DAY)
    0 new (0 B), 1 there already (702 B), 2 files yanked, 0 removed
    ");
    mirror(&["--grace", "0"]).ok();
    assert_eq!(
        wheels().iter().filter(|it| it.contains("1.0")).count(),
        0,
        "{:?}",
        wheels()
    );
    let page = fs_err::read_to_string(workplace.path("base/simple/a/index.html")).unwrap();
    assert!(
        !page.contains("a-1.0") && page.contains("a-1.1") && page.contains("a-1.2"),
        "{page}"
    );
    assert!(workplace.path("base/dist/notes.txt").exists());
    mirror(&["--grace", "0", "--keep", "0"]).ok();
    assert_eq!(wheels().len(), 2, "{:?}", wheels());
}

/// An index in HTML, without sizes, times and metadata.
#[test]
fn a_registry_of_html_is_enough() {
    let workplace = Workplace::new("['3.12']", "['linux']", &["a"]);
    let packages = workplace.path("packages");
    wheel(&packages, "a", "1.0", "Requires-Dist: b\n");
    wheel(&packages, "b", "2.0", "");
    let server = PypiServer::start(&packages);
    let at = ["--registry", &server.url];
    let update = ["update", "--allow", "b"];
    let updated = workplace.deps(&[&update[..], &at].concat());
    let denied = workplace.deps(&[&update[..], &at, &["--deny", "age"]].concat());
    let said = workplace.shown(&updated) + &workplace.shown(&denied);
    insta::assert_snapshot!(said, @"
    exit 0
    + a 1.0  (1 file, 719 B; deps.toml)
    + b 2.0  (1 file, 702 B; a 1.0)
    0 files unchanged; 2 files, 1.39 KiB in all
    note: the registry does not say when these were uploaded: a, b
    exit 1
    error: 1 concern that `--deny` does not accept
      caused by: the registry does not say when these were uploaded: a, b

    hint: find out why; without `--deny age` it is only reported
    ");
    workplace
        .deps(&[&["mirror", "--into", "base"][..], &at].concat())
        .ok();
    for name in ["a-1.0-py3-none-any.whl", "b-2.0-py3-none-any.whl"] {
        let [from, to] = [packages.join(name), workplace.path("base/dist").join(name)];
        assert_eq!(fs_err::read(from).unwrap(), fs_err::read(to).unwrap());
    }
}
