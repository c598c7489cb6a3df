//! Plans packages from the files that they take: adds the generated ones, which are their Python
//! code, and METADATA, WHEEL and the other texts of `.dist-info` ([PEP
//! 427](https://peps.python.org/pep-0427/)). Reads and writes no files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
};

use itertools::Itertools as _;
use serde_json::json;

use crate::{
    artifact::{ArtifactTree, Component, FileFacts, Owned, TreeContent},
    package::{
        plan::{
            BuildOrigin, MemberSource, Members, PackageForm, PackagePlan, SdkTree, SdkTreePacking,
        },
        planner::Same,
        request::Request,
        runtime::Claim,
    },
    policy::{
        catalog::{PackageKind, PackageSpec},
        devel_manifest,
        dist_info::DistInfo,
        selector,
        subset::Label,
        templates,
    },
};
use rocwheel_base::{error::Result, relpath::RelPath, target::Scope, version::Version};
use rocwheel_wheel::{PackageFilename, pack::DEVEL_LINKS};

/// What is the same in all packages of a set.
pub(super) struct Describer<'a> {
    pub(super) info: DistInfo<'a>,
    pub(super) request: &'a Request<'a>,
    pub(super) tree: &'a ArtifactTree,
    pub(super) same: Same<'a>,
    /// Whether the set has several families. Each then has a selector and a devel package in a
    /// directory of its own, and its selector knows only this family.
    pub(super) has_directories: bool,
}

/// The contents of a devel package.
pub(super) struct Devel {
    pub(super) family: Option<Scope>,
    pub(super) tree: SdkTree,
    /// The distribution names of the packages that the tree links to.
    pub(super) requires: Vec<String>,
}

impl Describer<'_> {
    /// Plans the wheel of a runtime or device package.
    pub(super) fn wheel(&self, claim: Claim<'_>) -> Result<PackagePlan> {
        let label = Label::of(claim.spec, self.info.mode, claim.scope.as_ref());
        let ships = |file: &str| claim.members.contains(file);
        let scripts = claim.spec.scripts(self.request.options.platform, ships)?;
        let mut members = Members::default();
        let mut requires = Vec::new();
        // The files of a device package are laid over the files of the libraries.
        if claim.spec.kind == PackageKind::Device {
            members.insert(links_path(&claim)?, plan_links(&claim, &self.request.version)?)?;
            let libraries = self.info.catalog.overlaid()?;
            requires.push(libraries.dist_name(self.info.mode, None));
        }
        self.add_python(claim.spec, claim.scope.as_ref(), &mut members)?;
        for (path, member) in claim.members {
            members.insert(format!("{}/{path}", claim.directory).parse()?, member)?;
        }
        self.finish(claim.spec, label, members, &scripts, &requires)
    }

    /// Plans the wheel of the devel package.
    pub(super) fn devel(&self, devel: Devel) -> Result<PackagePlan> {
        let spec = self.info.catalog.only(PackageKind::Devel)?;
        let mut members = Members::default();
        self.add_python(spec, devel.family.as_ref(), &mut members)?;
        let tree = Arc::new(devel.tree);
        let packing = self.request.options.devel_packing;
        let extension = match packing {
            SdkTreePacking::Tar => "tar",
            SdkTreePacking::TarXz => "tar.xz",
        };
        let archive = format!("{}/_devel.{extension}", spec.python).parse()?;
        let packed = MemberSource::Sdk(Arc::clone(&tree), packing);
        members.insert(archive, packed)?;
        let manifest = MemberSource::SdkManifest(tree);
        members.insert(devel_manifest::PATH.parse()?, manifest)?;
        let scripts = spec.scripts(self.request.options.platform, |_| false)?;
        let label = self.label(spec, devel.family.as_ref());
        self.finish(spec, label, members, &scripts, &devel.requires)
    }

    /// Plans the `rocm` sdist.
    pub(super) fn selector(&self, family: Option<&Scope>) -> Result<PackagePlan> {
        let spec = self.info.catalog.only(PackageKind::Selector)?;
        let info = DistInfo {
            only: family.filter(|_| self.has_directories).cloned(),
            ..self.info.clone()
        };
        let label = self.label(spec, family);
        let name = PackageFilename::new(label.dist.parse()?, &self.request.version, None);
        Ok(PackagePlan {
            label,
            file_name: name.to_string(),
            form: PackageForm::Sdist(name.top().parse()?),
            members: Members::default(),
            texts: selector::files(&info)?,
        })
    }

    fn label(&self, spec: &PackageSpec, family: Option<&Scope>) -> Label {
        let directory = family.filter(|_| self.has_directories);
        Label {
            directory: directory.map(Scope::to_string),
            ..Label::of(spec, self.info.mode, family)
        }
    }

    /// Adds the Python files of a package.
    fn add_python(
        &self,
        spec: &PackageSpec,
        scope: Option<&Scope>,
        members: &mut Members,
    ) -> Result<()> {
        let is_for_one_scope = spec.dist_template(self.info.mode).is_for_one_scope();
        let import_name = match scope {
            Some(scope) if is_for_one_scope => {
                format!("{}_{}", spec.python, scope.to_string().replace('-', "_"))
            }
            _ => spec.python.clone(),
        };
        for (name, content) in templates::files(&self.info, spec, scope)? {
            let path = format!("{import_name}/{name}").parse()?;
            members.insert(path, MemberSource::Text(content))?;
        }
        Ok(())
    }

    /// Adds `.dist-info` to the members of a wheel.
    fn finish(
        &self,
        spec: &PackageSpec,
        label: Label,
        mut members: Members,
        scripts: &[String],
        requires: &[String],
    ) -> Result<PackagePlan> {
        let version = &self.request.version;
        let options = self.request.options;
        let tag = &options.tag;
        let compression = options.settings.compression;
        let filename = PackageFilename::new(label.dist.parse()?, version, Some(tag));
        let in_dist_info = |name: &str| format!("{}/{name}", filename.dist_info()).parse();
        let licenses = self.licenses(&members)?;
        let mut texts = vec![
            ("METADATA", self.metadata(spec, &label, &members, requires, licenses.keys())),
            ("WHEEL", rocwheel_wheel::wheel_text(tag, compression)),
            ("top_level.txt", rocwheel_wheel::top_level_text(members.paths())),
        ];
        if !scripts.is_empty() {
            let entry_points = format!("[console_scripts]\n{}\n", scripts.join("\n"));
            texts.push(("entry_points.txt", entry_points));
        }
        texts.sort_unstable();
        for (path, origin) in licenses {
            let member = MemberSource::File(origin, None);
            members.insert(in_dist_info(&format!("licenses/{path}"))?, member)?;
        }
        Ok(PackagePlan {
            label,
            file_name: filename.to_string(),
            form: PackageForm::Wheel(in_dist_info("RECORD")?),
            members,
            texts: texts
                .into_iter()
                .map(|(name, content)| Ok((in_dist_info(name)?, content)))
                .collect::<Result<_>>()?,
        })
    }

    /// The licence texts of the artifacts that a package has files of, by their paths in the install
    /// tree, each text once. The texts of an artifact may also be in its documentation, or in the generic
    /// artifact of the same name. A build of one package from fewer artifacts has all of these, see
    /// [`Subset::needs`](crate::policy::Subset::needs).
    fn licenses(&self, members: &Members) -> Result<BTreeMap<&RelPath, BuildOrigin>> {
        let used = members.artifacts();
        // The generic artifacts of the same names, and their documentation.
        let beside: BTreeSet<(&str, Component)> = used
            .iter()
            .flat_map(|artifact| {
                [artifact.component, Component::Doc].map(|component| (&*artifact.name, component))
            })
            .collect();
        let patterns = &self.info.catalog.metadata.license_files;
        let mut texts: BTreeMap<&RelPath, (Owned<'_>, &FileFacts)> = BTreeMap::new();
        for artifact in &self.tree.artifacts {
            let name = &artifact.name;
            let is_beside =
                name.scope == Scope::Generic && beside.contains(&(&*name.name, name.component));
            if !is_beside && !used.contains(name) {
                continue;
            }
            for file in &artifact.files {
                let TreeContent::File(facts) = &file.content else {
                    continue;
                };
                let path = file.path.as_str();
                if facts.len == 0 || !patterns.iter().any(|it| it.matches(path)) {
                    continue;
                }
                let mut is_known = texts.contains_key(&file.path);
                for (other, other_facts) in texts.values() {
                    // Files of different lengths are not read to compare them.
                    is_known =
                        is_known || other_facts.len == facts.len && (self.same)(other.file, file)?;
                }
                if !is_known {
                    texts.insert(&file.path, (Owned { artifact, file }, facts));
                }
            }
        }
        let origins = texts.into_iter().map(|(path, (owned, facts))| {
            let origin = BuildOrigin::of(&owned, &owned.file.source, facts);
            (path, BuildOrigin { executable: false, ..origin })
        });
        Ok(origins.collect())
    }

    /// METADATA ([core
    /// metadata](https://packaging.python.org/en/latest/specifications/core-metadata/)).
    fn metadata<'p>(
        &self,
        spec: &PackageSpec,
        label: &Label,
        members: &Members,
        requires: &[String],
        license_files: impl Iterator<Item = &'p &'p RelPath>,
    ) -> String {
        let common = &self.info.catalog.metadata;
        let version = &self.request.version;
        let artifacts = members.artifacts();
        let license = self.info.catalog.license(artifacts.iter().map(|it| &*it.name));
        let license_lines = license_files.map(|path| format!("License-File: {path}\n")).join("");
        let url_lines = common
            .urls
            .iter()
            .map(|(label, url)| format!("Project-URL: {label}, {url}\n"))
            .join("");
        let requirement_lines =
            requires.iter().map(|dist| format!("Requires-Dist: {dist}=={version}\n")).join("");
        format!(
            "Metadata-Version: 2.4\n\
             Name: {}\n\
             Version: {version}\n\
             Summary: {}\n\
             License-Expression: {license}\n\
             {license_lines}\
             {url_lines}\
             Requires-Python: {}\n\
             Description-Content-Type: text/markdown\n\
             {requirement_lines}\n\
             {}",
            label.dist,
            spec.summary(label.scope.as_ref()),
            common.requires_python,
            templates::description(spec, &label.dist, label.scope.as_ref()),
        )
    }
}

/// The path of [`plan_links`] in a device package: `_rocm_sdk_libraries/.devel_links/gfx942.json`.
fn links_path(claim: &Claim<'_>) -> Result<RelPath> {
    let target = claim.scope.iter().map(Scope::packaged).join("");
    Ok(format!("{}/{DEVEL_LINKS}/{target}.json", claim.directory).parse()?)
}

/// Lists the symlinks that the devel tree needs for the files of this device package.
///
/// The text of a symlink is relative to its directory, so it begins with one `../` for each
/// component of the symlink's path. Names of libraries that the wheel leaves out are symlinks to
/// the name that it ships.
fn plan_links(claim: &Claim<'_>, version: &Version) -> Result<MemberSource> {
    let shipped = claim.members.paths().map(|path| (path, path));
    let links: Vec<_> = shipped
        .chain(&claim.aliases)
        .sorted_unstable()
        .map(|(path, file)| {
            let up = "../".repeat(path.depth());
            json!({ "relpath": path.as_str(), "target": format!("{up}{}/{file}", claim.directory) })
        })
        .collect();
    let document = json!({ "version": version.to_string(), "links": links });
    let rendered = serde_json::to_string_pretty(&document)?;
    Ok(MemberSource::Text(escape_non_ascii(&rendered)))
}

/// Escapes non-ASCII characters of JSON. Its readers have always been given plain ASCII.
fn escape_non_ascii(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() && character != '\x7f' {
            escaped.push(character);
        } else {
            // JSON escapes a character beyond U+FFFF as two UTF-16 units.
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}
