//! What AMD's `rocm-bootstrap` says of targets, as frameworks ask it, compared with `target.toml`.

use rocwheel_base::target::{Target, TargetTable, generic};

use crate::support::prelude::*;

const PRINT: &str = r#"
import json
from rocm_bootstrap.package_metadata import package_owner
from rocm_bootstrap.targets import ALL_FAMILIES, ALL_SUB_FAMILIES, ALL_TARGETS
def group(bundle):
    return {"name": bundle.key.replace("_", "-"), "generic": bundle.llvm_generic,
            "members": [it.name for it in bundle.members]}
names = [it.name for it in ALL_TARGETS]
spelled = [name + suffix for name in names for suffix in ("", ":xnack+", ":sramecc-:xnack-")]
print(json.dumps({
    "targets": names,
    "families": [group(it) for it in ALL_FAMILIES],
    "sub_families": [group(it) for it in ALL_SUB_FAMILIES],
    "owners": {name: package_owner(name) for name in spelled},
}))
"#;

/// Each known difference, with its reason. A difference that goes away fails the test too.
const DIFFERENCES: &[(&str, &str)] = &[
    ("gfx902: only theirs", "LLVM has it, and TheRock builds no package for it"),
    ("gfx904: only theirs", "LLVM has it, and TheRock builds no package for it"),
    ("gfx909: only theirs", "LLVM has it, and TheRock builds no package for it"),
    ("gfx1013: only theirs", "LLVM has it, and TheRock builds no package for it"),
    ("gfx1250-strict: only theirs", "code in the package of `gfx1250`, and no package of its own"),
    ("gfx1251: only theirs", "LLVM has it, and TheRock builds no package for it"),
    ("gfx1170: only ours", "TheRock builds it since ROCm 7.14, and the judge is older"),
    ("gfx117x: only ours", "the sub-family of `gfx1170`"),
    ("gfx11-0: only ours", "the earlier name of `gfx110x`, which they take too"),
    ("gfx11-5: only ours", "the earlier name of `gfx115x`, which they take too"),
    ("gfx908 has gfx9-generic: only theirs", "their group has it, and LLVM's generic target not"),
    ("gfx90a has gfx9-generic: only theirs", "their group has it, and LLVM's generic target not"),
    ("gfx950 has gfx9-4-generic: only ours", "LLVM's generic target is for both sub-families"),
    ("gfx1250 has gfx12-5-generic: only ours", "a generic target of newer LLVM"),
];

struct Group {
    name: String,
    generic: Option<String>,
    members: Vec<String>,
}

fn groups(answer: &Value, key: &str) -> Vec<Group> {
    let read = |group: &Value| Group {
        name: group["name"].as_str().unwrap().to_owned(),
        generic: group["generic"].as_str().map(str::to_owned),
        members: strings(&group["members"]),
    };
    answer[key].as_array().unwrap().iter().map(read).collect()
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().unwrap().iter();
    items.map(|it| it.as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "long"]
fn long_targets_are_those_of_rocm_bootstrap_but_for_known_differences() {
    let output = succeed(Command::new(tool("python")).args(["-c", PRINT]));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let table = TargetTable::builtin();
    let theirs: BTreeSet<String> = strings(&answer["targets"]).into_iter().collect();
    let ours: BTreeSet<String> = table.known().map(Target::to_string).collect();
    let mut seen: BTreeSet<String> = only("theirs", theirs.difference(&ours));
    seen.extend(only("ours", ours.difference(&theirs)));

    let sub_families = groups(&answer, "sub_families");
    let families = groups(&answer, "families");
    let their_names: BTreeSet<String> =
        families.iter().chain(&sub_families).map(|group| group.name.clone()).collect();
    let toml: toml::Table =
        fs_err::read_to_string("crates/base/src/target.toml").unwrap().parse().unwrap();
    let our_names = toml["sub-families"].as_table().unwrap().keys().cloned().collect();
    seen.extend(only("theirs", their_names.difference(&our_names)));
    seen.extend(only("ours", our_names.difference(&their_names)));

    for group in families.iter().chain(&sub_families) {
        let members: BTreeSet<&String> =
            group.members.iter().filter(|name| ours.contains(*name)).collect();
        let ours_of_group: BTreeSet<String> =
            table.targets_named(&group.name).iter().map(Target::to_string).collect();
        let known_to_both: BTreeSet<&String> = ours_of_group.intersection(&theirs).collect();
        if known_to_both != members {
            seen.insert(format!("{}: {members:?}, ours {known_to_both:?}", group.name));
        }
    }
    let mut their_generics = BTreeSet::new();
    let mut our_generics = BTreeSet::new();
    for group in &sub_families {
        for member in &group.members {
            let family = families.iter().find(|family| family.members.contains(member)).unwrap();
            let expected = group.generic.as_ref().or(family.generic.as_ref());
            their_generics.extend(expected.map(|name| format!("{member} has {name}")));
            our_generics.extend(generic(member).map(|name| format!("{member} has {name}")));
        }
    }
    seen.extend(only("theirs", their_generics.difference(&our_generics)));
    seen.extend(only("ours", our_generics.difference(&their_generics)));
    for (name, owner) in answer["owners"].as_object().unwrap() {
        let packaged = name.parse::<Target>().unwrap().packaged().to_string();
        if packaged != *owner {
            seen.insert(format!("owner of {name}: {owner}, ours {packaged}"));
        }
    }
    let known: BTreeSet<String> =
        DIFFERENCES.iter().map(|(difference, _)| (*difference).to_owned()).collect();
    assert_eq!(seen, known);
}

fn only<'a>(whose: &str, names: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    names.map(|name| format!("{name}: only {whose}")).collect()
}
