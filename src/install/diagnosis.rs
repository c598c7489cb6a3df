//! What is wrong with an installed environment, and the command that mends it. The rules of `check` say
//! it where they can.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use itertools::Itertools as _;

use super::site_packages::{InstalledPackage, SitePackages};
use crate::{
    check::{CheckOptions, Finding, Rule, RuleSelection, SetFacts, judge},
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

impl Diagnosis {
    fn new(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            found: found.into(),
            fix: fix.into(),
        }
    }
}

/// What is wrong with an environment whose code should run on GPUs of these targets.
pub fn diagnose(site: &SitePackages, targets: &[Target]) -> Vec<Diagnosis> {
    let packages = || site.packages.iter();
    let mut found: Vec<Diagnosis> = packages().filter_map(placeholder).collect();
    found.extend(torch(site));
    for target in targets {
        found.extend(packages().filter_map(|it| device_gap(site, it, target)));
    }
    found.extend(packages().filter_map(damage));
    found.extend(of_rules(site));
    found.extend(lost_libraries(site));
    if let Some(devel) = site.devel.as_ref().filter(|it| !it.is_complete()) {
        let (there, wanted) = (devel.there, devel.wanted);
        found.push(Diagnosis::new(
            format!(
                "the development files are not complete: {} of {} files, {} of {} bytes",
                there.files, wanted.files, there.bytes, wanted.bytes
            ),
            format!("rm -r {} && rocm-sdk init", devel.directory.display()),
        ));
    }
    if site.sees_other_site {
        found.push(Diagnosis::new(
            "packages of another Python are imported as well (`include-system-site-packages = true`)",
            "remove the environment, and make it again without `--system-site-packages`",
        ));
    }
    found
}

/// A package without files. Such placeholders are on PyPI for the names of ROCm packages.
fn placeholder(package: &InstalledPackage) -> Option<Diagnosis> {
    let (name, version) = (package.name.normalized(), &package.version);
    let is_of_rocm = is_ours(&package.name) || name.contains("-device-gfx");
    (is_of_rocm && package.files.is_empty()).then(|| {
        Diagnosis::new(
            format!("`{name}` {version} is empty: a placeholder"),
            format!("pip uninstall {name}, and install it from a ROCm index (`--index-url`)"),
        )
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
    let (version, is_cuda) = (&torch.version, has("libtorch_cuda"));
    let kind = if is_cuda { "CUDA" } else { "CPUs" };
    Some(Diagnosis::new(
        format!("torch {version} is built for {kind}, and not for ROCm"),
        "pip install --force-reinstall torch, from a ROCm index (`--index-url`)",
    ))
}

/// A package whose device code for a target is in a package that is not installed, or is of another
/// version. Such packages have an extra for each target: `device-gfx942`.
fn device_gap(
    site: &SitePackages,
    package: &InstalledPackage,
    target: &Target,
) -> Option<Diagnosis> {
    let requires = package.requires.iter();
    let devices: BTreeMap<String, RequirementLine<'_>> = requires
        .filter_map(|it| {
            let line = RequirementLine::parse(it)?;
            let target = line.extra?.strip_prefix("device-gfx")?;
            Some((format!("gfx{target}"), line))
        })
        .collect();
    let wanted = target.base().to_string();
    let (name, version) = (package.name.normalized(), &package.version);
    if devices.is_empty() {
        return None;
    }
    let Some(line) = devices.get(&wanted) else {
        let others = few(devices.keys().cloned());
        return Some(Diagnosis::new(
            format!("`{name}` {version} has no code for `{wanted}`, only for {others}"),
            format!("install another build of `{name}`, which has `{wanted}`"),
        ));
    };
    let device = line.name.normalized();
    let fix = format!("pip install \"{name}[device-{wanted}]=={version}\"");
    let Some(installed) = site.find(device).map(|it| &it.version) else {
        let found =
            format!("`{name}` {version} has no code for `{wanted}`: `{device}` is not installed");
        return Some(Diagnosis::new(found, fix));
    };
    let pin = line.pin()?.parse::<Version>().ok()?;
    let found = format!("`{name}` {version} needs `{device}` {pin}, and {installed} is installed");
    (pin != *installed).then(|| Diagnosis::new(found, fix))
}

/// Files that RECORD has and the environment has not, or with another size.
fn damage(package: &InstalledPackage) -> Option<Diagnosis> {
    let (name, version) = (package.name.normalized(), &package.version);
    let lists = [(&package.missing, "missing"), (&package.changed, "changed")];
    let mut lists = lists
        .iter()
        .filter(|(files, _)| !files.is_empty())
        .map(|(files, what)| {
            let (count, names) = (files.len(), few(files.iter().map(|it| format!("`{it}`"))));
            let noun = if count == 1 { "file is" } else { "files are" };
            format!("{count} {noun} {what}: {names}")
        });
    let damage = lists.join("; ");
    (!damage.is_empty())
        .then(|| Diagnosis::new(format!("`{name}` {version}: {damage}"), reinstall(package)))
}

fn reinstall(package: &InstalledPackage) -> String {
    let (name, version) = (package.name.normalized(), &package.version);
    format!("pip install --force-reinstall --no-deps {name}=={version}")
}

/// What the rules of `check` say about the ROCm packages.
fn of_rules(site: &SitePackages) -> Vec<Diagnosis> {
    let ours = site.packages.iter().filter(|it| is_ours(&it.name));
    let ours: Vec<&InstalledPackage> = ours.collect();
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
        .map(|(rule, findings)| of_rule(rule, &findings, &ours))
        .collect()
}

fn of_rule(rule: &Rule, findings: &[&Finding], ours: &[&InstalledPackage]) -> Diagnosis {
    let newest = ours.iter().map(|it| &it.version).max();
    let fix = match newest {
        Some(newest) if rule.id == "RW204" => {
            let names = ours.iter().map(|it| it.name.normalized());
            let pins = names.map(|name| format!("{name}=={newest}"));
            format!("pip install {}", pins.format(" "))
        }
        _ => {
            let files = findings.iter().filter_map(|it| it.file.as_deref()).unique();
            let packages = files.filter_map(|file| ours.iter().find(|it| it.wheel.file == file));
            packages.map(|it| reinstall(it)).join(" && ")
        }
    };
    let shown = findings.iter().take(MOST).map(|finding| {
        let place = finding.member.as_ref().or(finding.file.as_ref());
        let place = place.map_or(String::new(), |it| format!("`{it}`: "));
        format!("{place}{}", finding.fact)
    });
    let count = findings.len().saturating_sub(MOST);
    let more = (count > 0).then(|| format!("and {count} more"));
    let findings = shown.chain(more).join("; ");
    Diagnosis::new(format!("{findings} ({})", rule.id), fix)
}

/// Libraries of others with run paths of the machine that built them, which do not find a library that
/// a ROCm package has.
fn lost_libraries(site: &SitePackages) -> Vec<Diagnosis> {
    let (ours, others): (Vec<_>, Vec<_>) = site.packages.iter().partition(|it| is_ours(&it.name));
    let provided = ours.iter().flat_map(|it| &it.files).map(String::as_str);
    let provided: BTreeSet<&str> = provided.collect();
    let names = provided.iter().filter_map(|it| it.rsplit('/').next());
    let names: BTreeSet<&str> = names.collect();
    let mut found = Vec::new();
    for package in others {
        let mut lost = Vec::new();
        for member in &package.wheel.members {
            let elf = member.content.as_ref().ok().and_then(|it| it.elf());
            let Some((elf, run_path)) = elf.and_then(|it| Some((it, it.facts.run_path()?))) else {
                continue;
            };
            let Some(absolute) = run_path.split(':').find(|it| it.starts_with('/')) else {
                continue;
            };
            let directory = member.path.rsplit_once('/').map_or("", |(it, _)| it);
            let is_reached = |name: &str| {
                let own = run_path
                    .split(':')
                    .filter_map(|it| it.strip_prefix("$ORIGIN"));
                let mut places = own.map(|it| normal(&format!("{directory}{it}/{name}")));
                places.any(|it| provided.contains(it.as_str()))
            };
            let needed = elf.facts.needed.iter().map(|it| &**it);
            let needed = needed.filter(|it| names.contains(it) && !is_reached(it));
            let line = |it| format!("`{}` looks for `{it}` in `{absolute}`", member.path);
            lost.extend(needed.map(line));
        }
        if !lost.is_empty() {
            let (name, version) = (package.name.normalized(), &package.version);
            found.push(Diagnosis::new(
                format!("`{name}` {version}: {}", few(lost.into_iter())),
                format!("rocwheel framework tie, for the wheel of `{name}`, and install that"),
            ));
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
