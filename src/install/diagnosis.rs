//! What is wrong with an installed environment, and the command that mends it. The rules of `check` say
//! it where they can.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use itertools::Itertools as _;

use super::{
    origin::InstallOrigin,
    site_packages::{DEVICE, DevelFiles, InstalledPackage, SitePackages},
};
use crate::{
    check::{CheckOptions, Finding, Rule, RuleSelection, SetFacts, judge},
    console::{few, shell_word},
    index::is_ours,
    policy::DistNames,
    target::Target,
    wheel::{DistName, Requirement},
};

/// The rules of `check` that make sense for installed packages: versions that disagree, device code that
/// is not found or cannot be used, libraries that are not found, and run paths that lead elsewhere.
const RULES: [&str; 7] = ["RW204", "RW306", "RW308", "RW314", "RW401", "RW601", "RW602"];
/// The beginning of each directory with the files of a ROCm package: `_rocm_sdk_core`.
const PLATFORM: &str = "_rocm_";
/// More findings of one kind are counted.
const MOST: usize = 5;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub found: String,
    /// What to do: a command that mends it, or a sentence.
    pub fix: String,
}

impl Diagnosis {
    fn new(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { found: found.into(), fix: fix.into() }
    }
}

/// What is wrong with an environment whose code should run on GPUs of these targets.
pub fn diagnose(site: &SitePackages, targets: &[Target]) -> Vec<Diagnosis> {
    let packages = || site.packages.iter();
    let repair = Repair::new(site);
    let mut found: Vec<Diagnosis> = packages().filter_map(|it| stub(it, &repair)).collect();
    found.extend(torch(site));
    for target in targets {
        found.extend(packages().flat_map(|it| device_gaps(site, it, target, &repair)));
    }
    found.extend(packages().filter_map(|it| damage(it, &repair)));
    found.extend(of_rules(site, &repair));
    found.extend(lost_libraries(site));
    found.extend(development_files(site, &repair));
    if site.sees_other_site {
        found.push(Diagnosis::new(
            "packages of another Python are imported as well (`include-system-site-packages = true`)",
            "remove the environment, and make it again without `--system-site-packages`",
        ));
    }
    found
}

/// The packages that are not as they were installed, or are not what their name says. An installer leaves them
/// alone, because their version is right.
pub fn broken(site: &SitePackages) -> Vec<DistName> {
    let is_broken = |package: &&InstalledPackage| {
        let is_devel = package.name.normalized() == DistNames::built_in().devel;
        let needs_archive = |it: &DevelFiles| !it.is_complete() && !it.has_archive();
        let lacks_files = is_devel && site.devel.as_ref().is_some_and(needs_archive);
        is_stub(package)
            || !package.missing.is_empty()
            || !package.changed.is_empty()
            || lacks_files
    };
    site.packages.iter().filter(is_broken).map(|it| it.name.clone()).collect()
}

/// How packages get into this environment again. A package of ROCm comes from its own source only: on PyPI,
/// strangers have its name.
struct Repair<'a> {
    /// The environment, and where `install` took its packages from.
    origin: Option<(&'a Path, &'a InstallOrigin)>,
    /// The targets and extras of which packages are installed.
    targets: Vec<Target>,
    extras: Vec<String>,
}

impl<'a> Repair<'a> {
    fn new(site: &'a SitePackages) -> Self {
        let names = DistNames::built_in();
        let (mut targets, mut extras) = (Vec::new(), Vec::new());
        let selector = site.find(&names.selector);
        let requirements = selector.into_iter().flat_map(|it| &it.requires);
        for it in requirements.filter(|it| site.find(it.name.normalized()).is_some()) {
            match names.device_target(&it.name) {
                Some(target) if it.marker.needs_extra() => targets.push(target),
                // The extra of a device package that is for all targets names no package of its own.
                _ => extras.extend(it.marker.extras().into_iter().map(str::to_owned)),
            }
        }
        let version = selector.map(|it| &it.version);
        let origin = site.origin.as_ref();
        // Another program may have installed another version since.
        let origin =
            origin.filter(|(_, origin)| version.is_none() || origin.version.as_ref() == version);
        Self { origin: origin.map(|(root, origin)| (&**root, origin)), targets, extras }
    }

    /// The command that installs everything of ROCm again, with device code for one more target; or else a
    /// sentence about these packages.
    fn install(&self, packages: &str, target: Option<&Target>) -> String {
        let Some((environment, origin)) = self.origin else {
            return format!(
                "install {packages} from the index that this ROCm came from: on PyPI, packages of others have \
                 such names"
            );
        };
        let all = InstallOrigin {
            targets: self.targets.iter().chain(target).map(Target::to_string).collect(),
            extras: self.extras.clone(),
            ..origin.clone()
        };
        all.with_earlier(Some(origin.clone())).command(environment)
    }
}

/// A package with the name of one of ours, or of a device package, that has nothing of what such a package is.
/// Strangers have uploaded such stubs to PyPI.
fn stub(package: &InstalledPackage, repair: &Repair<'_>) -> Option<Diagnosis> {
    let (name, version) = (package.name.normalized(), &package.version);
    is_stub(package).then(|| {
        Diagnosis::new(
            format!("`{name}` {version} is a stub: it has nothing of what such a package is"),
            repair.install(&format!("`{name}`"), None),
        )
    })
}

/// Whether a package lacks what our builder, and TheRock's scripts, put into each package of that name.
fn is_stub(package: &InstalledPackage) -> bool {
    let name = package.name.normalized();
    let own = format!("{}/", package.name.filename_form());
    let mut files = package.files.iter().chain(&package.missing);
    if name == DistNames::built_in().selector {
        return !files.any(|it| it == "rocm_sdk/__init__.py");
    }
    if is_ours(&package.name) {
        let tables = format!("{own}_dist_info.py");
        return !files.any(|it| it.starts_with(PLATFORM) || *it == tables);
    }
    // A device package of a framework has files beside those of the framework.
    let is_payload = |it: &String| !it.starts_with(&own) && !it.contains(".dist-info/");
    name.contains(DEVICE) && !files.any(is_payload)
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
        "install a torch that is built for ROCm, from the index of its packages: PyPI has the other one",
    ))
}

/// The packages with device code for a target that a package names, and that are not installed, or in another
/// version. Such packages are behind an extra for each target, `device-gfx942`, which may need several: AMD's
/// torch has one package for the target itself, and one for its family.
fn device_gaps(
    site: &SitePackages,
    package: &InstalledPackage,
    target: &Target,
    repair: &Repair<'_>,
) -> Vec<Diagnosis> {
    let wanted = target.base().to_string();
    let (name, version) = (package.name.normalized(), &package.version);
    let lines = package.requires.iter().flat_map(|line| {
        let targets = line.marker.extras().into_iter().filter_map(|it| it.strip_prefix("device-"));
        targets.filter(|it| it.starts_with("gfx")).map(move |target| (target, line))
    });
    let (lines, others): (Vec<_>, Vec<_>) = lines.partition(|(target, _)| *target == wanted);
    if lines.is_empty() && !others.is_empty() {
        let others = few(others.into_iter().map(|it| it.0.to_owned()).unique());
        return vec![Diagnosis::new(
            format!("`{name}` {version} has no code for `{wanted}`, only for {others}"),
            format!("install another build of `{name}`, which has `{wanted}`"),
        )];
    }
    let gap = |line: &Requirement| {
        let device = line.name.normalized();
        let fix = || repair.install(&format!("`{device}`"), Some(&target.base()));
        let Some(installed) = site.find(device).map(|it| &it.version) else {
            let found = format!(
                "`{name}` {version} has no code for `{wanted}`: `{device}` is not installed"
            );
            return Some(Diagnosis::new(found, fix()));
        };
        let is_refused = line.allows(installed) == Some(false);
        let needs = line.pin().map_or_else(|| line.specifier().to_owned(), |it| it.to_string());
        let found =
            format!("`{name}` {version} needs `{device}` {needs}, and {installed} is installed");
        is_refused.then(|| Diagnosis::new(found, fix()))
    };
    lines.iter().filter_map(|(_, line)| gap(line)).collect()
}

/// Files that RECORD has and the environment has not, or with another size.
fn damage(package: &InstalledPackage, repair: &Repair<'_>) -> Option<Diagnosis> {
    let (name, version) = (package.name.normalized(), &package.version);
    let lists = [(&package.missing, "missing"), (&package.changed, "changed")];
    let mut lists = lists.iter().filter(|(files, _)| !files.is_empty()).map(|(files, what)| {
        let count = files.len();
        let names = few(files.iter().map(|it| format!("`{it}`")));
        let noun = if count == 1 { "file is" } else { "files are" };
        format!("{count} {noun} {what}: {names}")
    });
    let damage = lists.join("; ");
    let fix = if is_ours(&package.name) {
        repair.install(&format!("`{name}` {version}"), None)
    } else {
        format!("install `{name}` {version} again, from where it came")
    };
    (!damage.is_empty()).then(|| Diagnosis::new(format!("`{name}` {version}: {damage}"), fix))
}

/// The development files, if they are not complete. `rocm-sdk init` unpacks the archive that an install brings.
fn development_files(site: &SitePackages, repair: &Repair<'_>) -> Option<Diagnosis> {
    let devel = site.devel.as_ref().filter(|it| !it.is_complete())?;
    let (there, wanted) = (devel.there, devel.wanted);
    let found = format!(
        "the development files are not complete: {} of {} files, {} of {} bytes",
        there.files, wanted.files, there.bytes, wanted.bytes
    );
    let init = match repair.origin {
        Some((environment, _)) => {
            let program = if cfg!(windows) { "Scripts/rocm-sdk" } else { "bin/rocm-sdk" };
            format!("{} init", shell_word(&environment.join(program).to_string_lossy()))
        }
        None => "rocm-sdk init".to_owned(),
    };
    let name = &DistNames::built_in().devel;
    Some(match (devel.has_archive(), repair.origin) {
        (true, _) => Diagnosis::new(found, init),
        (false, Some(_)) => {
            Diagnosis::new(found, format!("{} && {init}", repair.install(name, None)))
        }
        (false, None) => {
            let install = repair.install(&format!("`{name}` again"), None);
            Diagnosis::new(found, format!("{install}; then `{init}` unpacks them"))
        }
    })
}

/// What the rules of `check` say about the ROCm packages.
fn of_rules(site: &SitePackages, repair: &Repair<'_>) -> Vec<Diagnosis> {
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
    let is_broken = !broken(site).is_empty();
    by_rule.map(|(rule, findings)| of_rule(rule, &findings, is_broken, repair)).collect()
}

fn of_rule(rule: &Rule, findings: &[&Finding], is_broken: bool, repair: &Repair<'_>) -> Diagnosis {
    // Files that are as they were installed are the same after the next install.
    let fix = if is_broken || rule.id == "RW204" {
        repair.install("all packages of ROCm in one version", None)
    } else {
        "no install of the same packages mends this: it is in their files, or in what this machine lacks".to_owned()
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
                let own = run_path.split(':').filter_map(|it| it.strip_prefix("$ORIGIN"));
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
                format!("tie the wheel of `{name}` to this ROCm with `rocwheel framework tie`, and install that"),
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
