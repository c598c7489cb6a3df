//! What is wrong with an installed environment, and the command that mends it. The rules of `check` say
//! it where they can.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use itertools::Itertools as _;

use super::site_packages::{InstalledPackage, SitePackages};
use crate::{
    check::{CheckOptions, Finding, RuleSelection, SetFacts, judge},
    console::few,
    set::is_ours,
    target::Target,
    version::Version,
    wheel::RequirementLine,
};

/// The rules of `check` that make sense for installed packages: versions that disagree, device code that
/// is not found or cannot be used, libraries that are not found, and run paths that lead elsewhere.
const RULES: [&str; 7] = [
    "RW204", "RW306", "RW308", "RW314", "RW401", "RW601", "RW602",
];
/// More findings of one kind are counted.
const MOST: usize = 5;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub found: String,
    /// What to do, mostly one command.
    pub fix: String,
}

/// What is wrong with an environment whose code should run on GPUs of these targets.
pub fn diagnose(site: &SitePackages, targets: &[Target]) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    found.extend(site.packages.iter().filter_map(placeholder));
    found.extend(torch(site));
    for target in targets {
        found.extend(
            site.packages
                .iter()
                .filter_map(|it| device_gap(site, it, target)),
        );
    }
    found.extend(site.packages.iter().filter_map(damage));
    found.extend(of_rules(site));
    found.extend(lost_libraries(site));
    if let Some(devel) = site.devel.filter(|it| !it.is_complete()) {
        found.push(Diagnosis {
            found: format!(
                "the development files are not complete: {} of {} files, {} of {} bytes",
                devel.files, devel.of_files, devel.bytes, devel.of_bytes
            ),
            fix: format!(
                "rm -r {} && rocm-sdk init",
                site.root.join("_rocm_sdk_devel").display()
            ),
        });
    }
    if site.sees_other_site {
        found.push(Diagnosis {
            found: "packages of another Python are imported as well \
                    (`include-system-site-packages = true`)"
                .to_owned(),
            fix: "make the environment anew, without `--system-site-packages`".to_owned(),
        });
    }
    found
}

/// A package without files. Such placeholders are on PyPI for the names of ROCm packages.
fn placeholder(package: &InstalledPackage) -> Option<Diagnosis> {
    let (name, version) = (package.name.normalized(), &package.version);
    let is_of_rocm = is_ours(&package.name) || name.contains("-device-gfx");
    (is_of_rocm && package.files.is_empty()).then(|| Diagnosis {
        found: format!("`{name}` {version} is empty: a placeholder"),
        fix: format!("pip uninstall {name}, and install it from a ROCm index (`--index-url`)"),
    })
}

/// torch without ROCm in an environment that has ROCm.
fn torch(site: &SitePackages) -> Option<Diagnosis> {
    let torch = site.find("torch")?;
    let has = |name: &str| torch.files.iter().any(|it| it.contains(name));
    let is_rocm = torch.version.to_string().contains("rocm") || has("libtorch_hip");
    if is_rocm || !site.packages.iter().any(|it| is_ours(&it.name)) {
        return None;
    }
    let kind = if has("libtorch_cuda") { "CUDA" } else { "CPUs" };
    Some(Diagnosis {
        found: format!(
            "torch {} is built for {kind}, and not for ROCm",
            torch.version
        ),
        fix: "pip install --force-reinstall torch, from a ROCm index (`--index-url`)".to_owned(),
    })
}

/// A package whose device code for a target is in a package that is not installed, or is of another
/// version. Such packages have an extra for each target: `device-gfx942`.
fn device_gap(
    site: &SitePackages,
    package: &InstalledPackage,
    target: &Target,
) -> Option<Diagnosis> {
    let lines = package
        .requires
        .iter()
        .filter_map(|it| RequirementLine::parse(it));
    let devices = lines.filter_map(|line| {
        let target = line.extra?.strip_prefix("device-gfx")?;
        Some((format!("gfx{target}"), line))
    });
    let devices: BTreeMap<String, RequirementLine<'_>> = devices.collect();
    let wanted = target.base().to_string();
    let (name, version) = (package.name.normalized(), &package.version);
    if devices.is_empty() {
        return None;
    }
    let Some(line) = devices.get(&wanted) else {
        let others = few(devices.keys().cloned());
        return Some(Diagnosis {
            found: format!("`{name}` {version} has no code for `{wanted}`, only for {others}"),
            fix: format!("install another build of `{name}`, which has `{wanted}`"),
        });
    };
    let device = line.name.normalized();
    let fix = format!("pip install \"{name}[device-{wanted}]=={version}\"");
    let Some(installed) = site.find(device) else {
        return Some(Diagnosis {
            found: format!(
                "`{name}` {version} has no code for `{wanted}`: `{device}` is not installed"
            ),
            fix,
        });
    };
    let pin = line.pin()?.parse::<Version>().ok()?;
    (pin != installed.version).then(|| Diagnosis {
        found: format!(
            "`{name}` {version} needs `{device}` {pin}, and {} is installed",
            installed.version
        ),
        fix,
    })
}

/// Files that RECORD has and the environment has not, or with another size.
fn damage(package: &InstalledPackage) -> Option<Diagnosis> {
    let (name, version) = (package.name.normalized(), &package.version);
    let lists = [(&package.missing, "missing"), (&package.changed, "changed")];
    let lists = lists.iter().filter(|(files, _)| !files.is_empty());
    let mut lists = lists.map(|(files, what)| {
        let noun = if files.len() == 1 {
            "file is"
        } else {
            "files are"
        };
        let names = few(files.iter().map(|it| format!("`{it}`")));
        format!("{} {noun} {what}: {names}", files.len())
    });
    let damage = lists.join("; ");
    (!damage.is_empty()).then(|| Diagnosis {
        found: format!("`{name}` {version}: {damage}"),
        fix: reinstall(package),
    })
}

fn reinstall(package: &InstalledPackage) -> String {
    let (name, version) = (package.name.normalized(), &package.version);
    format!("pip install --force-reinstall --no-deps {name}=={version}")
}

/// What the rules of `check` say about the ROCm packages.
fn of_rules(site: &SitePackages) -> Vec<Diagnosis> {
    let ours: Vec<&InstalledPackage> = site
        .packages
        .iter()
        .filter(|it| is_ours(&it.name))
        .collect();
    let set = SetFacts {
        wheels: ours.iter().map(|it| Arc::clone(&it.wheel)).collect(),
        ..SetFacts::default()
    };
    let options = CheckOptions {
        selection: RuleSelection {
            select: RULES.iter().filter_map(|it| it.parse().ok()).collect(),
            ..RuleSelection::default()
        },
        ..CheckOptions::default()
    };
    let (report, _) = judge(&set, &options, Vec::new());
    let by_rule = report.by_rule().into_iter();
    by_rule
        .map(|(rule, findings)| {
            let newest = ours.iter().map(|it| &it.version).max();
            let of = |finding: &Finding| {
                let file = finding.file.as_deref()?;
                ours.iter().find(|it| it.wheel.file == file).copied()
            };
            let packages = findings.iter().filter_map(|it| of(it));
            let packages = packages.unique_by(|it| it.name.normalized());
            let fix = match newest {
                Some(newest) if rule.id == "RW204" => {
                    let names = ours.iter().map(|it| it.name.normalized());
                    let pins = names.map(|name| format!("{name}=={newest}"));
                    format!("pip install {}", pins.format(" "))
                }
                _ => packages.map(reinstall).join(" && "),
            };
            let count = findings.len().saturating_sub(MOST);
            let more = if count == 0 {
                String::new()
            } else {
                format!("; and {count} more")
            };
            let mut shown = findings.iter().take(MOST).map(|finding| {
                let place = finding.member.as_ref().or(finding.file.as_ref());
                let place = place.map_or(String::new(), |it| format!("`{it}`: "));
                format!("{place}{}", finding.fact)
            });
            let findings = shown.join("; ");
            Diagnosis {
                found: format!("{findings}{more} ({})", rule.id),
                fix,
            }
        })
        .collect()
}

/// Libraries of others with run paths of the machine that built them, which do not find a library that
/// a ROCm package has.
fn lost_libraries(site: &SitePackages) -> Vec<Diagnosis> {
    let (ours, others): (Vec<_>, Vec<_>) = site.packages.iter().partition(|it| is_ours(&it.name));
    let provided: BTreeSet<&str> = ours
        .iter()
        .flat_map(|it| &it.files)
        .map(String::as_str)
        .collect();
    let is_there = |name: &str| {
        provided
            .iter()
            .any(|it| it.rsplit('/').next() == Some(name))
    };
    let mut found = Vec::new();
    for package in others {
        let mut lost = Vec::new();
        for member in &package.wheel.members {
            let elf = member.content.as_ref().ok().and_then(|it| it.elf());
            let Some((elf, run_path)) = elf.and_then(|it| Some((it, it.facts.run_path()?))) else {
                continue;
            };
            let directory = member.path.rsplit_once('/').map_or("", |(it, _)| it);
            let entries: Vec<&str> = run_path.split(':').collect();
            let Some(absolute) = entries.iter().find(|it| it.starts_with('/')) else {
                continue;
            };
            let leads_to = |name: &str| {
                entries.iter().any(|entry| {
                    let inside = entry.strip_prefix("$ORIGIN");
                    let place = inside.map(|it| normal(&format!("{directory}{it}/{name}")));
                    place.is_some_and(|it| provided.contains(it.as_str()))
                })
            };
            let needed = elf.facts.needed.iter();
            let needed = needed.filter(|it| is_there(it) && !leads_to(it));
            lost.extend(
                needed.map(|it| format!("`{}` looks for `{it}` in `{absolute}`", member.path)),
            );
        }
        if !lost.is_empty() {
            let (name, version) = (package.name.normalized(), &package.version);
            found.push(Diagnosis {
                found: format!("`{name}` {version}: {}", few(lost.into_iter())),
                fix: format!("rocwheel framework tie, for the wheel of `{name}`, and install that"),
            });
        }
    }
    found
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
