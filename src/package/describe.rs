//! Plans packages from the files that they take: adds the generated ones, which are their Python
//! code, and METADATA, WHEEL and the other texts of `.dist-info` ([PEP
//! 427](https://peps.python.org/pep-0427/)). Reads and writes no files.

use std::sync::Arc;

use crate::{
    error::Result,
    package::{
        catalog::{PackageKind, PackageSpec},
        devel, devel_manifest,
        dist_info::{self, DistInfo},
        naming::PublicationName,
        plan::{
            Label, MemberSource, Members, PackageContent, PackagePlan, SdkTreePacking,
            WheelMemberPlan,
        },
        runtime::Claim,
        sdk_tree::SdkTree,
        selector, templates,
    },
    run::Platform,
    target::Scope,
    wheel::{self, SdistFilename, Tag, WheelFilename},
};

/// What is the same in all packages of a set.
pub(super) struct Describer<'a> {
    pub(super) info: DistInfo<'a>,
    pub(super) release: &'a PublicationName,
    pub(super) platform: Platform,
    pub(super) tag: &'a Tag,
    /// Whether the set has several families. Each then has a selector and a devel package in a
    /// directory of its own, and its selector knows only this family.
    pub(super) has_directories: bool,
}

/// The contents of a devel package.
pub(super) struct Devel {
    pub(super) family: Option<Scope>,
    pub(super) tree: SdkTree,
    pub(super) packing: SdkTreePacking,
    /// The distribution names of the packages that the tree links to.
    pub(super) requires: Vec<String>,
}

impl Describer<'_> {
    /// Plans the wheel of a runtime or device package.
    pub(super) fn wheel(&self, claim: Claim<'_>) -> Result<PackagePlan> {
        let label = Label::of(claim.spec, self.info.mode, claim.scope.as_ref());
        let has = |file: &str| claim.members.contains_key(file);
        let scripts = claim.spec.scripts(self.platform, has)?;
        let (mut members, mut requires) = (Members::default(), Vec::new());
        let below = |path| format!("{}/{path}", claim.directory).parse();
        if claim.spec.kind == PackageKind::Device {
            let (path, links) = devel::device_links(&claim, &self.release.version)?;
            members.insert(below(&path)?, links)?;
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
        let extension = match devel.packing {
            SdkTreePacking::Tar => "tar",
            SdkTreePacking::TarXz => "tar.xz",
        };
        let archive = format!("{}/_devel.{extension}", spec.python).parse()?;
        let packed = MemberSource::Sdk(Arc::clone(&tree), devel.packing);
        members.insert(archive, WheelMemberPlan::regular(packed))?;
        let manifest = WheelMemberPlan::regular(MemberSource::SdkManifest(tree));
        members.insert(devel_manifest::PATH.parse()?, manifest)?;
        let scripts = spec.scripts(self.platform, |_| false)?;
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
        let name = SdistFilename::new(&label.dist.parse()?, &self.release.version);
        Ok(PackagePlan {
            label,
            file_name: name.to_string(),
            content: PackageContent::Sdist {
                top: name.top().parse()?,
                files: selector::files(&info)?,
            },
        })
    }

    fn label(&self, spec: &PackageSpec, family: Option<&Scope>) -> Label {
        let directory = family.filter(|_| self.has_directories);
        Label {
            directory: directory.map(Scope::to_string),
            ..Label::of(spec, self.info.mode, family)
        }
    }

    /// Adds the Python module of a package, if it has one.
    fn add_python(
        &self,
        spec: &PackageSpec,
        scope: Option<&Scope>,
        members: &mut Members,
    ) -> Result<()> {
        let mut files = templates::pure_package(spec);
        if files.is_empty() {
            return Ok(());
        }
        let dist_info = dist_info::render(&self.info, &spec.name, scope);
        files.push(("_dist_info.py", dist_info));
        let is_for_one = spec.dist_template(self.info.mode).is_for_one_scope();
        let import = match scope.filter(|_| is_for_one) {
            Some(scope) => format!("{}_{}", spec.python, scope.to_string().replace('-', "_")),
            None => spec.python.clone(),
        };
        for (name, text) in files {
            let text = WheelMemberPlan::regular(MemberSource::Text(text));
            members.insert(format!("{import}/{name}").parse()?, text)?;
        }
        Ok(())
    }

    fn finish(
        &self,
        spec: &PackageSpec,
        label: Label,
        members: Members,
        scripts: &[String],
        requires: &[String],
    ) -> Result<PackagePlan> {
        let filename = WheelFilename::new(&label.dist.parse()?, &self.release.version, self.tag);
        let mut texts = vec![
            ("METADATA", self.metadata(spec, &label, requires)),
            ("WHEEL", wheel::wheel_text(self.tag)),
            ("top_level.txt", wheel::top_level_text(members.keys())),
        ];
        if !scripts.is_empty() {
            let text = format!("[console_scripts]\n{}\n", scripts.join("\n"));
            texts.push(("entry_points.txt", text));
        }
        texts.sort_unstable();
        let in_directory = |name: &str| format!("{}/{name}", filename.dist_info()).parse();
        let texts = texts.into_iter();
        let texts = texts.map(|(name, text)| Ok((in_directory(name)?, text)));
        Ok(PackagePlan {
            label,
            content: PackageContent::Wheel {
                members,
                dist_info: texts.collect::<Result<_>>()?,
                record: in_directory("RECORD")?,
            },
            file_name: filename.to_string(),
        })
    }

    /// METADATA ([core
    /// metadata](https://packaging.python.org/en/latest/specifications/core-metadata/)).
    fn metadata(&self, spec: &PackageSpec, label: &Label, requires: &[String]) -> String {
        let (common, version) = (&self.info.catalog.metadata, &self.release.version);
        let urls = common.urls.iter();
        let urls = urls.map(|(label, url)| format!("Project-URL: {label}, {url}\n"));
        let requires = requires.iter();
        let requires = requires.map(|other| format!("Requires-Dist: {other}=={version}\n"));
        format!(
            "Metadata-Version: 2.4\n\
             Name: {}\n\
             Version: {version}\n\
             Summary: {}\n\
             License-Expression: {}\n\
             {}\
             Requires-Python: {}\n\
             {}",
            label.dist,
            spec.summary(label.scope.as_ref()),
            common.license,
            urls.collect::<String>(),
            common.requires_python,
            requires.collect::<String>(),
        )
    }
}
