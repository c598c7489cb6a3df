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
    error::Result,
    package::{
        plan::{
            BuildOrigin, MemberSource, Members, PackageForm, PackagePlan, SdkTree, SdkTreePacking,
        },
        planner::Same,
        request::Request,
        runtime::{Claim, origin},
    },
    policy::{
        catalog::{PackageKind, PackageSpec},
        devel_manifest,
        dist_info::DistInfo,
        selector,
        subset::Label,
        templates,
    },
    relpath::RelPath,
    target::Scope,
    version::Version,
    wheel::{self, PackageFilename, pack::DEVEL_LINKS},
};

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
        let has = |file: &str| claim.members.contains(file);
        let scripts = claim.spec.scripts(self.request.options.platform, has)?;
        let (mut members, mut requires) = (Members::default(), Vec::new());
        if claim.spec.kind == PackageKind::Device {
            let (path, links) = device_links(&claim, &self.request.version)?;
            members.insert(path, links)?;
            let overlaid = self.info.catalog.overlaid()?;
            requires.push(overlaid.dist_name(self.info.mode, None));
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
        let is_for_one = spec.dist_template(self.info.mode).is_for_one_scope();
        let import = match scope.filter(|_| is_for_one) {
            Some(scope) => format!("{}_{}", spec.python, scope.to_string().replace('-', "_")),
            None => spec.python.clone(),
        };
        for (name, text) in templates::files(&self.info, spec, scope)? {
            let text = MemberSource::Text(text);
            members.insert(format!("{import}/{name}").parse()?, text)?;
        }
        Ok(())
    }

    fn finish(
        &self,
        spec: &PackageSpec,
        label: Label,
        mut members: Members,
        scripts: &[String],
        requires: &[String],
    ) -> Result<PackagePlan> {
        let (version, options) = (&self.request.version, self.request.options);
        let (tag, compression) = (&options.tag, options.settings.compression);
        let filename = PackageFilename::new(label.dist.parse()?, version, Some(tag));
        let in_directory = |name: &str| format!("{}/{name}", filename.dist_info()).parse();
        let licenses = self.licenses(&members)?;
        let mut texts = vec![
            ("METADATA", self.metadata(spec, &label, &members, requires, licenses.keys())),
            ("WHEEL", wheel::wheel_text(tag, compression)),
            ("top_level.txt", wheel::top_level_text(members.paths())),
        ];
        if !scripts.is_empty() {
            let text = format!("[console_scripts]\n{}\n", scripts.join("\n"));
            texts.push(("entry_points.txt", text));
        }
        texts.sort_unstable();
        for (path, origin) in licenses {
            let member = MemberSource::File(origin, None);
            members.insert(in_directory(&format!("licenses/{path}"))?, member)?;
        }
        let texts = texts.into_iter();
        let texts = texts.map(|(name, text)| Ok((in_directory(name)?, text)));
        Ok(PackagePlan {
            label,
            file_name: filename.to_string(),
            form: PackageForm::Wheel(in_directory("RECORD")?),
            members,
            texts: texts.collect::<Result<_>>()?,
        })
    }

    /// The licence texts of the artifacts that a package has files of, by their paths in the install
    /// tree, each text once. Those of an artifact may be in its documentation, or in the generic one
    /// beside it. A build of one package from fewer artifacts has all of these, see
    /// [`Subset::needs`](super::Subset::needs).
    fn licenses(&self, members: &Members) -> Result<BTreeMap<&RelPath, BuildOrigin>> {
        let used = members.artifacts();
        // Generic artifacts that are like those, and their documentation.
        let beside: BTreeSet<(&str, Component)> = used
            .iter()
            .flat_map(|it| [it.component, Component::Doc].map(|component| (&*it.name, component)))
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
                for (other, of_other) in texts.values() {
                    is_known =
                        is_known || of_other.len == facts.len && (self.same)(other.file, file)?;
                }
                if !is_known {
                    texts.insert(&file.path, (Owned { artifact, file }, facts));
                }
            }
        }
        let texts = texts.into_iter().map(|(path, (owned, facts))| {
            let origin =
                BuildOrigin { executable: false, ..origin(&owned, &owned.file.source, facts) };
            (path, origin)
        });
        Ok(texts.collect())
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
        let (common, version) = (&self.info.catalog.metadata, &self.request.version);
        let artifacts = members.artifacts();
        let license = self.info.catalog.license(artifacts.iter().map(|it| &*it.name));
        let files = license_files.map(|path| format!("License-File: {path}\n"));
        let urls = common.urls.iter();
        let urls = urls.map(|(label, url)| format!("Project-URL: {label}, {url}\n"));
        let requires = requires.iter();
        let requires = requires.map(|other| format!("Requires-Dist: {other}=={version}\n"));
        format!(
            "Metadata-Version: 2.4\n\
             Name: {}\n\
             Version: {version}\n\
             Summary: {}\n\
             License-Expression: {license}\n\
             {}\
             {}\
             Requires-Python: {}\n\
             {}",
            label.dist,
            spec.summary(label.scope.as_ref()),
            files.collect::<String>(),
            urls.collect::<String>(),
            common.requires_python,
            requires.collect::<String>(),
        )
    }
}

/// `.devel_links/gfx942.json`: the symlinks that the devel tree needs for the files of this
/// package.
///
/// The text of a symlink is relative to its directory, so it begins with one `../` for each
/// component of the symlink's path. Names of libraries that the wheel leaves out are symlinks to
/// the name that it ships.
fn device_links(claim: &Claim<'_>, version: &Version) -> Result<(RelPath, MemberSource)> {
    let shipped = claim.members.paths().map(|path| (path, path));
    let mut all: Vec<(&RelPath, &RelPath)> = shipped.chain(&claim.aliases).collect();
    all.sort_unstable();
    let links: Vec<_> = all
        .into_iter()
        .map(|(path, file)| {
            let up = "../".repeat(path.depth());
            json!({ "relpath": path.as_str(), "target": format!("{up}{}/{file}", claim.directory) })
        })
        .collect();
    let document = json!({ "version": version.to_string(), "links": links });
    let text = serde_json::to_string_pretty(&document)?;
    let target = claim.scope.iter().map(Scope::base).join("");
    let path = format!("{}/{DEVEL_LINKS}/{target}.json", claim.directory).parse()?;
    Ok((path, MemberSource::Text(escaped(&text))))
}

/// Escapes non-ASCII characters of JSON. Its readers have always been given plain ASCII.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && c != '\x7f' {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}
