//! A mirror has what the lock says, whole, or it has nothing of it.

use serde_json::json;

use super::{Workplace, digest_of, none, tempting};
use crate::publish::tree;

pub(crate) fn locked() -> Workplace {
    let workplace = tempting();
    workplace
        .deps(&["update", "--allow", "helper", "--allow", "winonly"])
        .ok();
    workplace.registry.requests();
    workplace
}

#[test]
fn a_mirror_has_the_locked_files_and_their_pages() {
    let workplace = locked();
    let (it, base) = (&workplace.registry, workplace.path("base"));
    let dry = workplace
        .deps(&["mirror", "--into", "base", "--dry-run"])
        .ok();
    assert!(
        !base.exists() && dry.contains("7 new (") && dry.contains("0 files yanked, 0 removed"),
        "{dry}"
    );
    it.requests();
    it.break_off("numbers-1.0-py3-none-any.whl");
    // The metadata beside a wheel is that of the wheel, and not what the registry has there.
    let sidecar = "pure_package-10.0.post1-py2.py3-none-any.whl.metadata";
    it.put(
        sidecar,
        b"Metadata-Version: 2.1\nName: other\nVersion: 1\n".to_vec(),
    );
    let first = workplace.deps(&["mirror", "--into", "base"]);
    assert!(
        first.stderr.contains("Indexed 7 files, "),
        "{}",
        first.stderr
    );
    assert!(first.ok().ends_with("/base/simple/\n"));
    let of_file = |name: &str| {
        it.requests()
            .iter()
            .filter(|path| path.ends_with(name))
            .count()
    };
    assert_eq!(
        of_file("numbers-1.0-py3-none-any.whl"),
        2,
        "the download was resumed"
    );
    for name in workplace.locked() {
        let digest = digest_of(&base.join("dist").join(&name));
        assert!(workplace.lock().contains(&digest.to_string()), "{name}");
    }
    let page = fs_err::read_to_string(base.join("simple/numbers/index.html")).unwrap();
    assert!(page.contains("numbers-1.0-py3-none-any.whl"), "{page}");
    assert!(
        page.contains("data-requires-python=\"&gt;=3.12\""),
        "{page}"
    );
    let sidecar = fs_err::read_to_string(base.join("dist").join(sidecar)).unwrap();
    assert!(sidecar.contains("Name: pure-package"), "{sidecar}");
    // Nothing is sent again, and nothing is written.
    let state = || -> Vec<_> {
        let paths = tree(&base).into_iter();
        paths
            .map(|path| (digest_of(&base.join(&path)), path))
            .collect()
    };
    let before = state();
    let again = workplace
        .deps(&["mirror", "--into", "base", "--format", "json"])
        .ok();
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    // `set.json` says when files were read, and is written again if that was just now.
    assert!(again["changed"].as_u64().unwrap() <= 1, "{again}");
    assert_eq!(state(), before);
    let asked = it.requests();
    assert!(
        asked.iter().all(|path| path.starts_with("/simple/")),
        "{asked:?}"
    );
}

#[test]
fn other_bytes_than_the_locked_ones_never_get_a_name() {
    let workplace = locked();
    let it = &workplace.registry;
    let name = "helper-1.5-py3-none-any.whl";
    let mirror = || {
        let outcome = workplace.deps(&["mirror", "--into", "base"]);
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(!workplace.path("base/dist").join(name).exists());
        assert!(!workplace.path("base/simple").exists());
        let error = outcome.stderr.split("error: ").nth(1).unwrap().to_owned();
        workplace.shown(&crate::support::program::Outcome {
            stderr: error,
            ..outcome
        })
    };
    let bytes = |len: usize| vec![b'x'; len];
    let lock = workplace.lock();
    let size = lock
        .split(name)
        .nth(1)
        .unwrap()
        .split("size = ")
        .nth(1)
        .unwrap();
    let size: usize = size.lines().next().unwrap().parse().unwrap();
    it.put(name, bytes(size));
    let other = mirror();
    it.put(name, bytes(size + 1));
    let longer = mirror();
    it.put(name, bytes(size - 1));
    let shorter = mirror();
    it.say(name, "hashes", json!({"sha256": "0".repeat(64)}));
    it.requests();
    let replaced = mirror();
    let asked = it.requests();
    assert!(
        asked.iter().all(|path| path.starts_with("/simple/")),
        "{asked:?}"
    );
    it.say(name, "filename", json!("helper-1.6-py3-none-any.whl"));
    let removed = mirror();
    let said = [other, longer, shorter, replaced, removed].concat();
    let said = regex::Regex::new("[1-9a-f][0-9a-f]{63}")
        .unwrap()
        .replace_all(&said, "SHA256")
        .into_owned();
    let said = regex::Regex::new("[0-9]+ bytes")
        .unwrap()
        .replace_all(&said, "N bytes")
        .into_owned();
    let said = regex::Regex::new("and not [0-9]+")
        .unwrap()
        .replace_all(&said, "and not N")
        .into_owned();
    insta::assert_snapshot!(said, @r"
    exit 1
    failed to download `helper-1.5-py3-none-any.whl`
      caused by: `helper-1.5-py3-none-any.whl` is not what was locked: its bytes have the sha256 SHA256, and not SHA256
    exit 1
    failed to download `helper-1.5-py3-none-any.whl`
      caused by: `helper-1.5-py3-none-any.whl` is not what was locked: it has more than N bytes
    exit 1
    failed to download `helper-1.5-py3-none-any.whl`
      caused by: `helper-1.5-py3-none-any.whl` is not what was locked: it has N bytes, and not N
    exit 1
    `helper-1.5-py3-none-any.whl` is not what was locked: its sha256 was SHA256, and is 0000000000000000000000000000000000000000000000000000000000000000 now
    exit 1
    `helper-1.5-py3-none-any.whl` is not what was locked: the registry no longer has it
    ");
}

#[test]
fn a_file_of_the_place_is_never_replaced() {
    let workplace = locked();
    fs_err::create_dir_all(workplace.path("base/dist")).unwrap();
    let there = workplace.path("base/dist/helper-1.5-py3-none-any.whl");
    fs_err::write(&there, "another").unwrap();
    let refused = workplace.deps(&["mirror", "--into", "base"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("has other bytes than the lock says"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs_err::read_to_string(&there).unwrap(), "another");
    assert_eq!(
        tree(&workplace.path("base")),
        ["dist/helper-1.5-py3-none-any.whl"]
    );
}

#[test]
fn what_the_lock_lost_and_what_was_yanked_is_yanked_in_the_mirror() {
    let workplace = locked();
    workplace.deps(&["mirror", "--into", "base"]).ok();
    let it = &workplace.registry;
    it.wheel("helper", "1.6", "py3-none-any", "", none());
    workplace.deps(&["update"]).ok();
    it.say(
        "pin-1.0-py3-none-any.whl",
        "yanked",
        json!("it is <broken>"),
    );
    let mirrored = workplace.deps(&["mirror", "--into", "base"]);
    assert_eq!(mirrored.code, 0, "{}", mirrored.stderr);
    assert!(
        mirrored.stderr.contains("was yanked since"),
        "{}",
        mirrored.stderr
    );
    let page = |name: &str| {
        let page = workplace.path("base/simple").join(name).join("index.html");
        fs_err::read_to_string(page).unwrap()
    };
    let yanked = |name: &str| page(name).matches("data-yanked").count();
    assert_eq!(
        (yanked("helper"), yanked("pin"), yanked("numbers")),
        (1, 1, 0)
    );
    assert!(
        page("helper").contains("data-yanked=\"not in deps.lock since "),
        "{}",
        page("helper")
    );
    assert!(page("helper").contains("helper-1.6"));
    // It is offered again once it is locked again.
    it.say("pin-1.0-py3-none-any.whl", "yanked", json!(false));
    it.say("helper-1.6-py3-none-any.whl", "yanked", json!(true));
    workplace.deps(&["update"]).ok();
    workplace.deps(&["mirror", "--into", "base"]).ok();
    let page = page("helper");
    let (one, two) = page.split_once("helper-1.6").unwrap();
    assert!(
        !one.contains("data-yanked") && two.contains("data-yanked"),
        "{page}"
    );
}

/// A wheel of which a dependency was lost is not mirrored: an installer would fail later.
#[test]
fn a_lock_with_an_open_requirement_is_not_mirrored() {
    let workplace = locked();
    let lock = workplace.lock();
    let cut: Vec<&str> = lock
        .split("[[file]]")
        .filter(|it| !it.contains("\"helper\""))
        .collect();
    fs_err::write(workplace.path("deps.lock"), cut.join("[[file]]")).unwrap();
    let refused = workplace.deps(&["mirror", "--into", "base"]);
    insta::assert_snapshot!(workplace.shown(&refused), @r"
    exit 1
    error: 1 requirement without a version in the lock
      caused by: numbers 2.0 needs `helper>=1`, which is not in the lock (3.12-linux, 3.12-windows)

    hint: run `rocwheel deps update`
    ");
    assert!(!workplace.path("base").exists());
    workplace
        .deps(&["mirror", "--into", "base", "--allow-open"])
        .ok();
    assert!(workplace.path("base/simple/numbers").exists());
}
