//! What a package says of itself: its Python part, and the texts of its `dist-info`.
//! Decides; reads nothing, writes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    error::{Context as _, Result},
    package::{
        catalog::{Catalog, Kind, PackageSpec},
        claims::Claim,
        device,
        dist_info::{self, DistInfo, Form},
        naming::{Mode, Release, platform_package},
        plan::{Member, Members, SdistPlan, Source, WheelPlan},
        sdk_manifest,
        sdk_tree::SdkTree,
        selector, templates,
    },
    relpath::RelPath,
    run::Platform,
    target::{PlatformView, Scope},
    wheel::{self, DistName, Metadata, SdistFilename, Tag, WheelFilename},
};

/// What all packages of a set say alike.
pub(super) struct Describer<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) release: &'a Release,
    pub(super) mode: Mode,
    pub(super) platform: Platform,
    pub(super) tag: Tag,
    pub(super) view: PlatformView,
    /// Packages that this set goes without, by name.
    pub(super) absent: Vec<String>,
    /// The one family that the `rocm` package knows of, where each family has its own.
    pub(super) restricted: Option<Scope>,
    /// The subdirectory of `dist/` that a package goes to.
    pub(super) directory: Option<String>,
}

impl Describer<'_> {
    /// The wheel of a package whose files are claimed.
    pub(super) fn wheel(&self, claim: Claim) -> Result<WheelPlan> {
        let spec = self.catalog.get(&claim.package).context("find a claimed package in the catalog")?;
        let scope = claim.scope.clone();
        let scripts = spec.scripts(self.platform, |file| claim.members.contains(file));
        let mut members = Members::default();
        if spec.kind == Kind::Device {
            let (path, member) = device::links(&claim, &self.release.version)?;
            members.insert(format!("{}/{path}", claim.directory).parse()?, member)?;
        }
        let mut top_level = BTreeSet::from([claim.directory.clone()]);
        top_level.extend(self.add_python(spec, scope.as_ref(), &mut members)?);
        for (path, member) in claim.members.into_iter() {
            members.insert(format!("{}/{path}", claim.directory).parse()?, member)?;
        }
        self.finish(spec, scope.as_ref(), members, &top_level, &scripts)
    }

    /// The wheel that packs the SDK tree.
    pub(super) fn devel(&self, tree: SdkTree) -> Result<WheelPlan> {
        let spec = self.catalog.only(Kind::Devel)?;
        let mut members = Members::default();
        let top_level: BTreeSet<String> =
            self.add_python(spec, self.restricted.as_ref(), &mut members)?.into_iter().collect();
        let tree = Arc::new(tree);
        for (name, source) in [
            ("_devel.tar", Source::Sdk(Arc::clone(&tree))),
            (sdk_manifest::FILE_NAME, Source::SdkManifest(tree)),
        ] {
            let member = Member { mode: wheel::Mode::Regular, source };
            members.insert(format!("{}/{name}", spec.python).parse()?, member)?;
        }
        let scripts = spec.scripts(self.platform, |_| false);
        self.finish(spec, self.restricted.as_ref(), members, &top_level, &scripts)
    }

    /// The sdist that selects the others.
    pub(super) fn selector(&self) -> Result<SdistPlan> {
        let spec = self.catalog.only(Kind::Selector)?;
        let name: DistName = spec.dist_name(self.mode, None).parse()?;
        let texts = self.texts();
        Ok(SdistPlan {
            filename: SdistFilename::new(&name, &self.release.version),
            files: selector::files(&texts.dist_info(self, spec, texts.restricted.as_deref()))?,
            directory: self.directory.clone(),
        })
    }

    /// Adds the Python part of a package; gives its import name, if it has one.
    fn add_python(
        &self,
        spec: &PackageSpec,
        scope: Option<&Scope>,
        members: &mut Members,
    ) -> Result<Option<String>> {
        let files = templates::pure_package(&spec.name);
        if files.is_empty() {
            return Ok(None);
        }
        let import = match scope.filter(|_| spec.dist_template(self.mode).is_for_one_scope()) {
            Some(scope) => format!("{}_{}", spec.python, scope.to_string().replace('-', "_")),
            None => spec.python.clone(),
        };
        let texts = self.texts();
        let this = scope.map(Scope::to_string);
        let info = dist_info::render(&texts.dist_info(self, spec, this.as_deref()));
        let mut add = |name: &str, text: String| {
            let member = Member { mode: wheel::Mode::Regular, source: Source::Text(text) };
            members.insert(format!("{import}/{name}").parse()?, member)
        };
        add("_dist_info.py", info)?;
        for (name, text) in files {
            add(name, (*text).to_owned())?;
        }
        Ok(Some(import))
    }

    fn finish(
        &self,
        spec: &PackageSpec,
        scope: Option<&Scope>,
        members: Members,
        top_level: &BTreeSet<String>,
        scripts: &BTreeMap<String, String>,
    ) -> Result<WheelPlan> {
        let dist = spec.dist_name(self.mode, scope);
        let filename = WheelFilename::new(&dist.parse()?, &self.release.version, &self.tag);
        let at = |name: &str| -> Result<RelPath> { Ok(format!("{}/{name}", filename.dist_info()).parse()?) };
        let mut texts = vec![
            (at("METADATA")?, self.metadata(spec, scope, &dist)?),
            (at("WHEEL")?, wheel::wheel_text(&self.tag)),
            (at("top_level.txt")?, top_level.iter().map(|name| format!("{name}\n")).collect()),
        ];
        if !scripts.is_empty() {
            texts.push((at("entry_points.txt")?, wheel::entry_points(scripts)));
        }
        texts.sort();
        Ok(WheelPlan { filename, members, dist_info: texts, directory: self.directory.clone() })
    }

    fn metadata(&self, spec: &PackageSpec, scope: Option<&Scope>, dist: &str) -> Result<String> {
        let common = &self.catalog.metadata;
        let mut metadata = Metadata::new(dist, &self.release.version);
        metadata.summary = Some(spec.summary(scope));
        metadata.license = Some(common.license.clone());
        metadata.requires_python = Some(common.requires_python.clone());
        metadata.project_urls = common.urls.clone().into_iter().collect();
        if spec.kind == Kind::Device {
            let below = self.catalog.overlaid()?.dist_name(self.mode, None);
            metadata.requires_dist = vec![format!("{below}=={}", self.release.version)];
        }
        metadata.render()
    }

    fn texts(&self) -> Texts {
        let all = |scopes: &[Scope]| scopes.iter().map(Scope::to_string).collect();
        let overlaid = self.catalog.overlaid().map(|below| below.dist_name(self.mode, None));
        Texts {
            version: self.release.version.to_string(),
            nonce: self.release.suffix.to_string(),
            default: self.view.default.as_ref().map(Scope::to_string),
            available: all(&self.view.available),
            linux: all(&self.view.linux),
            windows: all(&self.view.windows),
            restricted: self.restricted.as_ref().map(Scope::to_string),
            libraries: overlaid.map(|dist| platform_package(&dist, self.release)).ok(),
        }
    }
}

/// The words of a `_dist_info.py`, owned.
struct Texts {
    version: String,
    nonce: String,
    default: Option<String>,
    available: Vec<String>,
    linux: Vec<String>,
    windows: Vec<String>,
    restricted: Option<String>,
    libraries: Option<String>,
}

impl Texts {
    fn dist_info<'a>(
        &'a self,
        describer: &'a Describer<'_>,
        spec: &'a PackageSpec,
        this: Option<&'a str>,
    ) -> DistInfo<'a> {
        let form = match (describer.mode, &describer.restricted) {
            (Mode::Split, _) => Form::Split,
            (Mode::Legacy, None) => Form::Legacy,
            (Mode::Legacy, Some(_)) => Form::Restricted,
        };
        DistInfo {
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
            libraries_py_package: self.libraries.as_deref().filter(|_| spec.kind == Kind::Device),
        }
    }
}
