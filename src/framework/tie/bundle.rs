//! [`RocmBundle`]: the ROCm packages whose files join a wheel, so that it needs no others. The files get the paths that they
//! have in `site-packages` otherwise, so that run paths, data files and `rocm_sdk` find what they look for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{Group, Tie};
use crate::{
    check::{
        self, SetFacts,
        facts::{CheckedPackage, MemberFacts, SdistFile, WheelFile},
        rule,
    },
    console::World,
    framework::{
        facts::JoiningFiles,
        read::{ElfMember, FrameworkWheel, host_files, installed_members},
        rocm::RocmLibraries,
    },
    index::{self, BundledRocm},
    place::{OfferedFile, ServedDigests, SetPlace},
    policy::catalog::{CATALOG, PackageKind},
    run::Platform,
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Error, Hint as _, No, Result, anyhow, bail, ensure, hinted},
    quantity::{many, size},
    relpath::{self, RelPath},
    target::{Target, TargetPattern, TargetTable},
};
use rocwheel_elf::ElfKind;
use rocwheel_wheel::{Archive, DistName, Headers, Metadata, Requirement, Source, WheelEdit};

/// The largest file that PyPI takes, unless a project is granted more.
const PYPI_LIMIT: u64 = 100 << 20;

/// What `--bundle` asks for.
#[derive(Clone, Copy, Debug)]
pub struct BundleRequest<'a> {
    pub set: &'a SetFacts,
    /// The targets whose device code joins the wheel.
    pub targets: Option<&'a TargetPattern>,
}

/// The ROCm packages whose files join a wheel.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RocmBundle {
    /// The project whose wheels they join. A group has wheels of one project for several Pythons.
    #[serde(skip)]
    pub(super) project: DistName,
    pub targets: Vec<Target>,
    pub packages: Vec<BundledPackage>,
    /// The Python package of the sdist, by the paths in `site-packages`.
    #[serde(skip)]
    modules: BTreeMap<RelPath, Vec<u8>>,
    /// What the packages require of other projects.
    #[serde(skip)]
    pub(super) requires: Vec<String>,
    /// The license expressions of the packages.
    #[serde(skip)]
    pub(super) licenses: BTreeSet<String>,
    /// What the packages say in `Requires-Python`: `>=3.10`.
    #[serde(skip)]
    pub(super) requires_python: BTreeSet<String>,
}

/// A package whose files join a wheel.
#[derive(Clone, Debug, Serialize)]
pub struct BundledPackage {
    pub file: String,
    pub size: u64,
    /// `None` for the sdist.
    #[serde(skip)]
    wheel: Option<Arc<WheelFile>>,
}

impl BundledPackage {
    fn new(package: &CheckedPackage, wheel: Option<&Arc<WheelFile>>) -> Self {
        Self { file: package.file.clone(), size: package.size, wheel: wheel.cloned() }
    }
}

impl fmt::Display for BundledPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.file, size(self.size))
    }
}

fn no(refusal: impl Into<String>, hint: impl Into<String>) -> Error {
    hinted(No(refusal.into()), hint.into())
}

impl Group<'_> {
    /// Chooses the packages that join the first wheel that is no device wheel: what the wheels of the group would
    /// require, with the device code of the targets.
    pub(super) fn choose_bundle(&self, request: BundleRequest<'_>) -> Result<RocmBundle> {
        let BundleRequest { set, .. } = request;
        let host = self
            .wheels
            .iter()
            .find(|wheel| self.host_of(wheel).is_none())
            .context("no wheel to bundle ROCm with")?;
        let ours = set.packages().filter(|package| package.is_ours());
        let families: BTreeSet<&str> = ours.filter_map(CheckedPackage::family).collect();
        if !families.is_empty() {
            let listed = families.iter().map(|family| format!("`{family}`")).join(", ");
            return Err(no(
                format!("the set has packages in the directories of families: {listed}"),
                "copy the packages of one family and those beside its directory into one directory, and pass that as `--set`",
            ));
        }
        let selector = set.selector().ok_or_else(|| {
            let name = &self.rocm.names.selector;
            no(
                format!("no sdist of `{name}` in the set, which has the Python that loads ROCm"),
                "pass the directory that `rocwheel build` wrote to, or an index of ROCm packages",
            )
        })?;
        let metadata = selector.metadata.as_ref().map_err(|why| anyhow!("{why}"))?;
        self.ensure_known_extras(metadata)?;
        let targets = self.bundled_targets(request.targets)?;
        let mut extras = BTreeSet::new();
        for wheel in self.wheels {
            let mut tie = Tie::new(self, wheel)?;
            tie.plan_binaries()?;
            extras.extend(tie.rocm_extras().into_iter().map(str::to_owned));
        }
        extras.extend(targets.iter().map(|target| format!("device-{target}")));
        let mut bundle = RocmBundle {
            project: host.name.name.clone(),
            targets,
            packages: vec![BundledPackage::new(&selector.package, None)],
            modules: modules(selector)?,
            requires: Vec::new(),
            licenses: BTreeSet::new(),
            requires_python: metadata.requires_python.iter().cloned().collect(),
        };
        let pkg_info = selector.contents.files.get("PKG-INFO");
        bundle.licenses.extend(license(pkg_info.and_then(|file| file.kept.as_deref())));
        let extras: Vec<&str> = extras.iter().map(String::as_str).collect();
        bundle.add_required(set, self.rocm, metadata, &extras)?;
        bundle.packages.sort_by(|one, other| one.file.cmp(&other.file));
        bundle.ensure_one_file_for_each_path()?;
        Ok(bundle)
    }

    /// Fails unless each extra of `--extras` joins packages.
    fn ensure_known_extras(&self, metadata: &Metadata) -> Result<()> {
        let is_device = |extra: &str| extra == "device" || extra.starts_with("device-");
        let offered = &metadata.provides_extra;
        for extra in &self.options.extras {
            if is_device(extra) {
                return Err(no(
                    format!("`--extras {extra}` names device code, which joins a wheel by target"),
                    "name the targets with `--target`, and leave the extra out",
                ));
            }
            if !offered.contains(extra) {
                let listed = offered.iter().filter(|it| !is_device(it)).join(",");
                return Err(no(
                    format!("`{}` of the set has no extra `{extra}`", self.rocm.names.selector),
                    format!("name extras that it has: `--extras {listed}`"),
                ));
            }
        }
        Ok(())
    }

    fn bundled_targets(&self, pattern: Option<&TargetPattern>) -> Result<Vec<Target>> {
        let offered = &self.rocm.targets;
        let listed = offered.iter().join(",");
        if offered.is_empty() {
            return match pattern {
                None => Ok(Vec::new()),
                Some(_) => Err(no(
                    "the set has no device packages: its libraries have their device code inside",
                    "leave `--target` out",
                )),
            };
        }
        let pattern = pattern.ok_or_else(|| {
            let hint = format!("name the targets that users have: `--target {listed}`");
            no("the device code of each target is a package of its own", hint)
        })?;
        let mut targets = BTreeSet::new();
        let mut missing = Vec::new();
        for (name, pattern) in pattern.names().zip(pattern.each()) {
            let named = TargetTable::builtin().select_with_newer(&[pattern])?;
            let packaged = named.iter().map(Target::packaged);
            let with_code = packaged.filter(|target| offered.contains(target)).collect_vec();
            if with_code.is_empty() {
                missing.push(format!("`{name}`"));
            }
            targets.extend(with_code);
        }
        if !missing.is_empty() {
            let refusal = format!("the set has no device code for {}", missing.join(", "));
            return Err(no(refusal, format!("name targets that it has: `--target {listed}`")));
        }
        Ok(targets.into_iter().collect())
    }

    /// The bundle, if it joins this wheel.
    pub(super) fn bundle_of(&self, wheel: &FrameworkWheel) -> Option<&RocmBundle> {
        self.bundle.as_ref().filter(|bundle| bundle.project == wheel.name.name)
    }

    /// What of the bundle decides on which hosts a wheel runs.
    pub(super) fn joining_files(&self, wheel: &FrameworkWheel) -> JoiningFiles<'_> {
        let all = self.bundle.iter().flat_map(RocmBundle::host_files);
        let is_library = |elf: &ElfMember<'_>| elf.facts.kind == ElfKind::SharedObject;
        JoiningFiles {
            libraries: all.filter(is_library).map(|elf| relpath::split(elf.path).1).collect(),
            files: self.bundle_of(wheel).into_iter().flat_map(RocmBundle::host_files).collect(),
        }
    }
}

/// The files of the Python package in the sdist, by the paths in `site-packages`.
fn modules(selector: &SdistFile) -> Result<BTreeMap<RelPath, Vec<u8>>> {
    let directory = format!("src/{}/", CATALOG.only(PackageKind::Selector)?.python);
    let mut modules = BTreeMap::new();
    for (path, content) in &selector.contents.files {
        if !path.starts_with(&directory) {
            continue;
        }
        let bytes = match &content.kept {
            Some(bytes) => bytes.clone(),
            None if content.len == 0 => Vec::new(),
            None => bail!("`{path}` of `{}` is no text", selector.package.file),
        };
        let installed = path.strip_prefix("src/").unwrap_or(path);
        modules.insert(installed.parse()?, bytes);
    }
    ensure!(!modules.is_empty(), "no `{directory}` in `{}`", selector.package.file);
    Ok(modules)
}

/// The license expression in the metadata of a package.
fn license(metadata: Option<&[u8]>) -> Option<String> {
    let headers: Headers = str::from_utf8(metadata?).ok()?.parse().ok()?;
    headers.get("License-Expression").map(str::to_owned)
}

impl RocmBundle {
    /// Adds the packages that a package requires with extras, and what these require.
    fn add_required(
        &mut self,
        set: &SetFacts,
        rocm: &RocmLibraries,
        metadata: &Metadata,
        extras: &[&str],
    ) -> Result<()> {
        let platform = rocm.platform;
        let required = metadata.requirements().filter(|requirement| {
            requirement.marker.may_hold_with(platform.sys_platform(), extras)
        });
        for requirement in required {
            let name = &requirement.name;
            if !index::is_ours(name) {
                self.requires.push(without_extra_in_marker(&requirement)?);
                continue;
            }
            if name.normalized() == rocm.names.devel {
                return Err(no(
                    format!("`{name}` cannot join a wheel: its files are unpacked where they are"),
                    "leave `devel` out of `--extras`",
                ));
            }
            let wheel = set.wheels.iter().find(|wheel| is_wanted(wheel, &requirement, platform));
            let Some(wheel) = wheel else {
                return Err(no(
                    format!("the set has no wheel for {platform} of `{requirement}`"),
                    "run `rocwheel check` on the set, which says what it lacks",
                ));
            };
            if self.packages.iter().any(|package| package.file == wheel.package.file) {
                continue;
            }
            self.packages.push(BundledPackage::new(&wheel.package, Some(wheel)));
            self.licenses.extend(license(wheel.dist_info("METADATA").map(|(_, bytes)| bytes)));
            let of_wheel = wheel.metadata().context("a package without METADATA")?;
            self.requires_python.extend(of_wheel.requires_python.clone());
            self.add_required(set, rocm, &of_wheel, &[])?;
        }
        Ok(())
    }

    fn wheels(&self) -> impl Iterator<Item = &WheelFile> {
        self.packages.iter().filter_map(|package| package.wheel.as_deref())
    }

    /// The files of the wheels, by the paths in `site-packages`. The metadata of a package stay behind: its files are
    /// files of another one now.
    fn files(&self) -> impl Iterator<Item = (&str, &MemberFacts)> {
        self.wheels().flat_map(installed_members).filter(|(path, _)| dist_info_rest(path).is_none())
    }

    fn host_files(&self) -> impl Iterator<Item = ElfMember<'_>> {
        self.wheels().flat_map(host_files)
    }

    fn ensure_one_file_for_each_path(&self) -> Result<()> {
        let mut digests = BTreeMap::new();
        for (path, member) in self.files() {
            let sha256 = member.content.as_ref().ok().and_then(|content| content.sha256);
            let earlier = digests.insert(path, sha256);
            ensure!(
                earlier.is_none_or(|earlier| earlier == sha256),
                "two packages of the set have another `{path}`"
            );
        }
        Ok(())
    }

    /// Why a wheel cannot be installed beside the files, if so: it has files where they go. This is the rule of `check`
    /// for a wheel beside ROCm packages.
    pub(super) fn conflict(&self, wheel: &FrameworkWheel) -> Option<String> {
        let defects = check::defects_beside_ours(&wheel.facts, &|_, _| false);
        let mut conflicts = defects.iter().filter(|it| it.rule == rule::CONFLICTING_PATH);
        if let Some(conflict) = conflicts.next() {
            let path = conflict.member.as_deref().unwrap_or_default();
            return Some(format!("it has `{path}`, and {}", conflict.text()));
        }
        if self.project != wheel.name.name {
            return None;
        }
        let licenses: BTreeSet<String> =
            self.license_files().iter().map(|path| path.to_lowercase()).collect();
        let mut members = wheel.facts.members.iter().map(|member| member.path.as_str());
        let is_license = |path: &&str| {
            let license = dist_info_rest(path).and_then(|rest| rest.strip_prefix("licenses/"));
            license.is_some_and(|license| licenses.contains(&license.to_lowercase()))
        };
        let path = members.find(is_license)?;
        Some(format!("it has `{path}`, and a license of ROCm's packages goes there"))
    }

    /// How many bytes the files have.
    pub fn unpacked_size(&self) -> u64 {
        let contents = self.files().filter_map(|(_, member)| member.content.as_ref().ok());
        contents.map(|content| content.len).sum()
    }

    /// About how large the wheel will be: nothing is packed again.
    fn packed_size(&self, wheel: &FrameworkWheel) -> u64 {
        let packages = self.packages.iter().map(|package| package.size);
        wheel.facts.package.size + packages.sum::<u64>()
    }

    /// What to know about a wheel that is larger than PyPI takes.
    pub(super) fn note_for_pypi(&self, wheel: &FrameworkWheel) -> Option<String> {
        note_of_size(self.packed_size(wheel))
    }

    /// The paths in the metadata of a wheel, below `licenses`, of the license files of the packages.
    pub(super) fn license_files(&self) -> BTreeSet<String> {
        let members = self.wheels().flat_map(|wheel| {
            let name = wheel.package.filename().map(|identity| identity.name.to_string());
            let members = wheel.members.iter().map(|member| member.path.as_str());
            members.filter_map(move |path| license_file(name.as_deref()?, path))
        });
        members.collect()
    }

    /// Brings the packages onto this disk: those of a server into a directory. Returns their paths by file name.
    pub fn obtain(
        &self,
        place: &SetPlace,
        platform: Platform,
        directory: &Path,
        world: &World,
    ) -> Result<BTreeMap<String, PathBuf>> {
        let mut offered = place
            .offered_to_us(Some(platform))?
            .with_context(|| format!("no packages in `{place}`"))?;
        for wheel in self.wheels() {
            if let Some(identity) = wheel.package.filename() {
                place.offer_project(&mut offered, identity.name.normalized())?;
            }
        }
        let mut files: Vec<OfferedFile> = Vec::new();
        for BundledPackage { file, .. } in self.packages.iter().filter(|it| it.wheel.is_some()) {
            let offer = offered.files.iter().find(|offer| offer.name == *file);
            files
                .push(offer.with_context(|| format!("no `{file}` in `{place}` any more"))?.clone());
        }
        let mut memory = ServedDigests::open(None);
        let paths = place.obtain(&mut files, &mut memory, directory, world)?;
        Ok(files.into_iter().map(|file| file.name).zip(paths).collect())
    }

    /// Adds the files to a wheel whose metadata are in a directory. The files are copied as they are compressed.
    pub(super) fn add_to(
        &self,
        edit: &mut WheelEdit,
        dist_info: &str,
        paths: &BTreeMap<String, PathBuf>,
    ) -> Result<()> {
        let dist_info: RelPath = dist_info.parse()?;
        // Two packages may have the same file, with the same bytes.
        let mut earlier: BTreeSet<&str> = BTreeSet::new();
        for package in &self.packages {
            let Some(wheel) = &package.wheel else {
                continue;
            };
            let path = paths.get(&package.file).context("a package that was not obtained")?;
            add_package(edit, wheel, &dist_info, path, &earlier)
                .with_context(|| format!("failed to read `{}`", path.display()))
                .hint("the set has changed meanwhile: run the command again")?;
            earlier.extend(wheel.members.iter().map(|member| member.path.as_str()));
        }
        for (path, bytes) in &self.modules {
            edit.add(path.clone(), false, Source::Bytes(bytes.as_slice().into()));
        }
        Ok(())
    }

    /// The digests of the files that join, by the paths in `site-packages`.
    fn digests(&self) -> BTreeMap<&str, Option<Sha256>> {
        let digest = |member: &MemberFacts| member.content.as_ref().ok().and_then(|it| it.sha256);
        let files = self.files().map(|(path, member)| (path, digest(member)));
        let modules =
            self.modules.iter().map(|(path, bytes)| (path.as_str(), Some(Sha256::of(bytes))));
        files.chain(modules).collect()
    }

    /// What `rocm_tie.json` says of the files.
    pub(super) fn digest(&self) -> Result<Sha256> {
        let digest = BundledRocm::digest_of(self.digests());
        digest.context("a file of the set whose digest is not known")
    }

    /// Fails unless a written wheel has each file as the set has it, and no other file where ROCm packages have theirs.
    pub(super) fn verify(&self, wheel: &FrameworkWheel) -> Result<()> {
        let written: BTreeMap<&str, &MemberFacts> = wheel.installed().collect();
        let digest = |member: &MemberFacts| member.content.as_ref().ok().and_then(|it| it.sha256);
        let joined = self.digests();
        for (path, wanted) in &joined {
            let in_wheel = written.get(path).with_context(|| format!("no `{path}`"))?;
            let is_same = wanted.is_some() && digest(in_wheel) == *wanted;
            ensure!(is_same, "`{path}` is not the file of the set");
        }
        for license in self.license_files() {
            let path = format!("{}/licenses/{license}", wheel.archive.dist_info);
            let mut members = wheel.facts.members.iter();
            ensure!(members.any(|member| member.path == path), "no `{path}`");
        }
        ensure!(!wheel.bundles.is_empty(), "its files are not those of `rocm_tie.json`");
        let defects =
            check::defects_beside_ours(&wheel.facts, &|path, _| joined.contains_key(path));
        if let Some(defect) = defects.iter().find(|it| it.rule == rule::CONFLICTING_PATH) {
            bail!("`{}`: {}", defect.member.as_deref().unwrap_or_default(), defect.text());
        }
        let ours = wheel.requirements().find(|requirement| index::is_ours(&requirement.name));
        match ours {
            Some(requirement) => bail!("it still requires `{requirement}`"),
            None => Ok(()),
        }
    }
}

/// Adds the files of one package, whose wheel is at a path.
fn add_package(
    edit: &mut WheelEdit,
    package: &WheelFile,
    dist_info: &RelPath,
    path: &Path,
    earlier: &BTreeSet<&str>,
) -> Result<()> {
    let name = &package.package.filename().context("a package without a name")?.name;
    let digests: BTreeMap<&str, Sha256> = package
        .contents()
        .filter_map(|(member, content)| Some((member.path.as_str(), content.sha256?)))
        .collect();
    let new_path =
        |archive: &Archive, path: &RelPath| match license_file(name.normalized(), path.as_str()) {
            Some(license) => Ok(Some(format!("{dist_info}/licenses/{license}").parse()?)),
            None if dist_info_rest(path.as_str()).is_some() => Ok(None),
            None if earlier.contains(path.as_str()) => Ok(None),
            None => archive.renamed(path, dist_info).map(Some),
        };
    edit.join(path, new_path, |path| digests.get(path.as_str()).copied())
}

/// What follows the directory of the metadata in a path, if the path is in one.
fn dist_info_rest(path: &str) -> Option<&str> {
    let (top, rest) = path.split_once('/')?;
    top.ends_with(".dist-info").then_some(rest)
}

/// The path below `licenses` that a license file of a package gets in another wheel.
fn license_file(package: &str, path: &str) -> Option<String> {
    let license = dist_info_rest(path)?.strip_prefix("licenses/")?;
    Some(format!("{package}/{license}"))
}

/// Whether an installer would take a wheel for a requirement. No released installer takes a variant wheel of AMD's GPUs.
fn is_wanted(wheel: &WheelFile, requirement: &Requirement, platform: Platform) -> bool {
    let Some(identity) = wheel.package.filename() else {
        return false;
    };
    let is_for_platform = identity.tag.as_ref().is_some_and(|tag| {
        tag.platform().split('.').any(|platform_tag| match platform {
            _ if platform_tag == "any" => true,
            Platform::Linux => platform_tag.contains("linux") && platform_tag.ends_with("_x86_64"),
            Platform::Windows => platform_tag == "win_amd64",
        })
    });
    is_for_platform
        && identity.label.is_none()
        && identity.name == requirement.name
        && requirement.allows(&identity.version) != Some(false)
}

/// A requirement of another project as a package without extras has it.
fn without_extra_in_marker(requirement: &Requirement) -> Result<String> {
    let marker = &requirement.marker;
    if !marker.needs_extra() {
        return Ok(requirement.to_string());
    }
    let text = marker.to_string();
    // What else a marker says would be lost with it.
    let is_plain = !text.contains(" and ") && text.split(" or ").all(|it| it.starts_with("extra"));
    ensure!(
        is_plain && requirement.extras.is_empty(),
        No(format!(
            "`{requirement}`, which a ROCm package requires, cannot be taken over by a wheel"
        ))
    );
    Ok(format!("{}{}", requirement.name, requirement.specifier()))
}

/// What to know about a wheel of this size.
fn note_of_size(bytes: u64) -> Option<String> {
    (bytes > PYPI_LIMIT).then(|| {
        format!(
            "it will have about {}, and PyPI takes files of {}, unless a project is granted more",
            size(bytes),
            size(PYPI_LIMIT)
        )
    })
}

impl fmt::Display for RocmBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = many(self.files().count() + self.modules.len(), "file");
        let targets = self.targets.iter().join(", ");
        let target = if targets.is_empty() { "the targets of the set" } else { &targets };
        writeln!(f, "  bundles   {files} of ROCm for {target}")?;
        for package in &self.packages {
            writeln!(f, "  + package {package}")?;
        }
        for specifiers in &self.requires_python {
            writeln!(f, "  + python   {specifiers} (ROCm needs it)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_that_is_larger_than_pypi_takes_has_a_note() {
        assert_eq!(note_of_size(PYPI_LIMIT), None);
        insta::assert_snapshot!(note_of_size(3 << 30).unwrap(), @"it will have about 3.00 GiB, and PyPI takes files of 100.00 MiB, unless a project is granted more");
    }
}
