//! Renders the generated files of packages: their Python code, and METADATA, WHEEL and the other
//! texts of `.dist-info` ([PEP 427](https://peps.python.org/pep-0427/)). Reads and writes no files.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    error::{Context as _, Result},
    package::{
        catalog::{Catalog, PackageKind, PackageSpec},
        claims::Claim,
        devel_manifest, device,
        dist_info::{self, DeviceCodeForm, DistInfo},
        naming::{DistributionMode, PublicationName, platform_package},
        plan::{
            Label, MemberSource, Members, SdistPlan, SdkTreePacking, WheelMemberPlan, WheelPlan,
        },
        sdk_tree::SdkTree,
        selector, templates,
    },
    run::Platform,
    target::{PlatformView, Scope},
    wheel::{self, DistName, EntryPoint, Metadata, SdistFilename, Tag, WheelFilename},
};

/// What is the same in all packages of a set.
pub(super) struct Describer<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) release: &'a PublicationName,
    pub(super) mode: DistributionMode,
    pub(super) platform: Platform,
    pub(super) tag: Tag,
    pub(super) view: PlatformView,
    /// The names of the packages that this set does not have.
    pub(super) absent: Vec<String>,
}

/// The family of a selector or devel package, in sets that have one of each per family.
#[derive(Clone, Copy, Default)]
pub(super) struct Share<'a> {
    pub(super) family: Option<&'a Scope>,
    /// The subdirectory of `dist/` if the set has several families. The selector then knows only
    /// its own family.
    pub(super) directory: Option<&'a str>,
}

/// The contents of a devel package.
pub(super) struct Devel {
    pub(super) tree: SdkTree,
    pub(super) packing: SdkTreePacking,
    /// The distribution names of the packages that the tree links to.
    pub(super) requires: Vec<String>,
}

impl Describer<'_> {
    /// Plans the wheel of a runtime or device package.
    pub(super) fn wheel(&self, claim: Claim) -> Result<WheelPlan> {
        let spec = self
            .catalog
            .get(&claim.package)
            .context("failed to find a claimed package in the catalog")?;
        let scope = claim.scope.clone();
        let scripts = spec.scripts(self.platform, |file| claim.members.has(file));
        let mut members = Members::default();
        if spec.kind == PackageKind::Device {
            let (path, member) = device::links(&claim, &self.release.version)?;
            members.insert(format!("{}/{path}", claim.directory).parse()?, member)?;
        }
        self.add_python(spec, scope.as_ref(), &mut members)?;
        for (path, member) in claim.members.into_entries() {
            members.insert(format!("{}/{path}", claim.directory).parse()?, member)?;
        }
        let requires = match spec.kind {
            PackageKind::Device => vec![self.catalog.overlaid()?.dist_name(self.mode, None)],
            _ => Vec::new(),
        };
        self.finish(spec, scope.as_ref(), members, &scripts, &requires)
    }

    /// Plans the wheel of the devel package.
    pub(super) fn devel(&self, devel: Devel, share: Share<'_>) -> Result<WheelPlan> {
        let spec = self.catalog.only(PackageKind::Devel)?;
        let mut members = Members::default();
        self.add_python(spec, share.family, &mut members)?;
        let tree = Arc::new(devel.tree);
        let archive = format!("{}/_devel.{}", spec.python, devel.packing.extension()).parse()?;
        let packed = MemberSource::Sdk(Arc::clone(&tree), devel.packing);
        members.insert(archive, regular(packed))?;
        members.insert(
            devel_manifest::PATH.parse()?,
            regular(MemberSource::SdkManifest(tree)),
        )?;
        let scripts = spec.scripts(self.platform, |_| false);
        let mut wheel = self.finish(spec, share.family, members, &scripts, &devel.requires)?;
        wheel.label.directory = share.directory.map(str::to_owned);
        Ok(wheel)
    }

    /// Plans the `rocm` sdist.
    pub(super) fn selector(&self, share: Share<'_>) -> Result<SdistPlan> {
        let spec = self.catalog.only(PackageKind::Selector)?;
        let texts = self.texts();
        let own = share.family.filter(|_| share.directory.is_some());
        let this = own.map(Scope::to_string);
        let mut info = texts.dist_info(self, spec, this.as_deref());
        if own.is_some() {
            info.form = DeviceCodeForm::Restricted;
        }
        let mut label = Label::of(spec, self.mode, share.family);
        label.directory = share.directory.map(str::to_owned);
        Ok(SdistPlan {
            filename: SdistFilename::new(&label.dist.parse()?, &self.release.version),
            files: selector::files(&info)?,
            label,
        })
    }

    /// Adds the Python module of a package, if it has one.
    fn add_python(
        &self,
        spec: &PackageSpec,
        scope: Option<&Scope>,
        members: &mut Members,
    ) -> Result<()> {
        let files = templates::pure_package(spec);
        if files.is_empty() {
            return Ok(());
        }
        let import = match scope.filter(|_| spec.dist_template(self.mode).is_for_one_scope()) {
            Some(scope) => format!("{}_{}", spec.python, scope.to_string().replace('-', "_")),
            None => spec.python.clone(),
        };
        let texts = self.texts();
        let this = scope.map(Scope::to_string);
        let info = dist_info::render(&texts.dist_info(self, spec, this.as_deref()));
        let mut add = |name: &str, text: String| {
            members.insert(
                format!("{import}/{name}").parse()?,
                regular(MemberSource::Text(text)),
            )
        };
        add("_dist_info.py", info)?;
        for (name, text) in files {
            add(name, text)?;
        }
        Ok(())
    }

    fn finish(
        &self,
        spec: &PackageSpec,
        scope: Option<&Scope>,
        members: Members,
        scripts: &BTreeMap<&str, String>,
        requires: &[String],
    ) -> Result<WheelPlan> {
        let label = Label::of(spec, self.mode, scope);
        let dist: DistName = label.dist.parse()?;
        let filename = WheelFilename::new(&dist, &self.release.version, &self.tag);
        let scripts: Vec<EntryPoint> = scripts
            .iter()
            .map(|(name, call)| format!("{name} = {call}").parse())
            .collect::<Result<_, _>>()?;
        let top_level = wheel::top_level_text(members.iter().map(|(path, _)| path));
        let metadata = self.metadata(spec, scope, dist, requires)?;
        let mut texts = vec![
            ("METADATA", metadata.to_string()),
            ("WHEEL", wheel::wheel_text(&self.tag)),
            ("top_level.txt", top_level),
        ];
        texts.extend(wheel::entry_points_text(&scripts).map(|text| ("entry_points.txt", text)));
        texts.sort_unstable();
        let directory = filename.dist_info();
        let dist_info = texts
            .into_iter()
            .map(|(name, text)| Ok((format!("{directory}/{name}").parse()?, text)))
            .collect::<Result<_>>()?;
        Ok(WheelPlan {
            label,
            filename,
            members,
            dist_info,
        })
    }

    fn metadata(
        &self,
        spec: &PackageSpec,
        scope: Option<&Scope>,
        dist: DistName,
        requires: &[String],
    ) -> Result<Metadata> {
        let common = &self.catalog.metadata;
        let version = &self.release.version;
        let urls = common
            .urls
            .iter()
            .map(|(label, url)| format!("{label}, {url}").parse());
        let requires = requires
            .iter()
            .map(|other| format!("{other}=={version}").parse());
        Ok(Metadata {
            summary: Some(spec.summary(scope).parse()?),
            license_expression: Some(common.license.parse()?),
            requires_python: Some(common.requires_python.parse()?),
            project_urls: urls.collect::<Result<_, _>>()?,
            requires_dist: requires.collect::<Result<_, _>>()?,
            ..Metadata::new(dist, version.clone())
        })
    }

    fn texts(&self) -> Texts {
        let all = |scopes: &[Scope]| scopes.iter().map(Scope::to_string).collect();
        let overlaid = self
            .catalog
            .overlaid()
            .map(|below| below.dist_name(self.mode, None));
        Texts {
            version: self.release.version.to_string(),
            nonce: self.release.suffix.to_string(),
            default: self.view.default.as_ref().map(Scope::to_string),
            available: all(&self.view.available),
            linux: all(&self.view.linux),
            windows: all(&self.view.windows),
            libraries: overlaid
                .map(|dist| platform_package(&dist, self.release))
                .ok(),
        }
    }
}

fn regular(source: MemberSource) -> WheelMemberPlan {
    WheelMemberPlan {
        mode: wheel::FileMode::Regular,
        source,
    }
}

/// The texts that a `DistInfo` borrows.
struct Texts {
    version: String,
    nonce: String,
    default: Option<String>,
    available: Vec<String>,
    linux: Vec<String>,
    windows: Vec<String>,
    libraries: Option<String>,
}

impl Texts {
    fn dist_info<'a>(
        &'a self,
        describer: &'a Describer<'_>,
        spec: &'a PackageSpec,
        this: Option<&'a str>,
    ) -> DistInfo<'a> {
        let form = match describer.mode {
            DistributionMode::Split => DeviceCodeForm::Split,
            DistributionMode::Legacy => DeviceCodeForm::Legacy,
        };
        DistInfo {
            catalog: describer.catalog,
            version: &self.version,
            nonce: &self.nonce,
            form,
            default: self.default.as_deref(),
            available: &self.available,
            linux: &self.linux,
            windows: &self.windows,
            absent: &describer.absent,
            this_target: this,
            this_package: &spec.name,
            libraries_py_package: self
                .libraries
                .as_deref()
                .filter(|_| spec.kind == PackageKind::Device),
        }
    }
}
