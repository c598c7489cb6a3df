//! Decides what of a set a wheel needs to have in it, and how the wheel changes.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use itertools::Itertools as _;
use serde_json::json;

use super::{DIRECTORY, FuseOptions, SetMembers, members::SetMember, plan::FusePlan};
use crate::{
    console::size,
    elf::ElfFacts,
    error::{Context as _, Result},
    framework::{
        facts, init_module,
        policy::Frameworks,
        providers::{LibraryProvider, Providers},
        read::{FrameworkWheel, installed_path},
        refusal::{RefusalKind, WheelRefusal},
        rocm::RocmLibraries,
        tie::{self, TieInput, TieOptions, TiePlan, TieRecord, VersionPin},
    },
    relpath::RelPath,
};

/// The file in `.dist-info` that says what is embedded.
const RECORD: &str = "rocm_fuse.json";

const TWO_COPIES: &str = "with the ROCm packages or another fused wheel in one process there are two \
                          copies of HIP, of which the first one loaded serves both";

/// A plan for wheels of which the first gets ROCm, or everything that is in the way.
pub fn decide(
    (wheels, inputs): (&[FrameworkWheel], &[TieInput]),
    (rocm, members): (&RocmLibraries, &SetMembers),
    policy: &Frameworks,
    (options, how): (&FuseOptions, &TieOptions),
) -> Result<Result<FusePlan, Vec<WheelRefusal>>> {
    let first = wheels.first().context("no wheel")?;
    if let Some(wheel) = wheels.iter().find(|it| it.is_for_windows()) {
        return Ok(Err(vec![WheelRefusal {
            file: wheel.name.to_string(),
            ..WheelRefusal::new(
                RefusalKind::ForWindows,
                "which files of ROCm a wheel for Windows needs is not known".to_owned(),
                "tie it to the ROCm packages with `rocwheel framework tie`",
            )
        }]));
    }
    let Some(root) = inputs.first().and_then(root) else {
        return Ok(Err(vec![WheelRefusal {
            file: first.name.to_string(),
            ..WheelRefusal::new(
                RefusalKind::NoHook,
                "it has no package with an `__init__.py` that could hold ROCm".to_owned(),
                "pass `--framework` with a row that names its `root`",
            )
        }]));
    };
    let directory = format!("{root}/{DIRECTORY}");
    let fused = rocm.below(&directory);
    let mut providers = Providers::new(wheels, Some(&fused), policy, &how.host);
    let needs = Needs::of(wheels, &providers, rocm, policy, options.with_compiler);
    let closure = needs.closure(rocm, members, policy);
    let mut refusals = closure.refusals((first, &fused), &providers);
    let bytes = closure.files.iter().filter_map(|path| members.get(path));
    let bytes = bytes.map(SetMember::packed).sum::<u64>();
    let whole = bytes.saturating_add(first.facts.size);
    if whole > options.max_size {
        refusals.push(WheelRefusal {
            file: first.name.to_string(),
            ..WheelRefusal::new(
                RefusalKind::TooLarge,
                format!("it would have some {}", size(whole)),
                "name fewer `--targets`, or pass `--max-size`",
            )
        });
    }
    providers.embedded = closure.elf_files(rocm, &fused);
    let how = TieOptions {
        requires: Some(VersionPin::None),
        device_extras: false,
        preload: Some(Vec::new()),
        check_version: Some(VersionPin::None),
        ..how.clone()
    };
    let plans = tie::decide((wheels, inputs), &providers, &fused, policy, &how)?;
    let plans = match plans {
        Ok(plans) => plans,
        Err(more) => return Ok(Err([refusals, more].concat())),
    };
    refusals.extend(not_of_group(first, &plans));
    if !refusals.is_empty() {
        return Ok(Err(refusals));
    }
    let mut plan = FusePlan {
        files: closure.files.len(),
        bytes,
        has_compiler: needs.has_compiler,
        targets: options.targets.iter().map(ToString::to_string).collect(),
        embedded: closure.embedded((&directory, first), &plans, members),
        libraries: closure.libraries,
        wheels: plans,
        warnings: vec![TWO_COPIES.to_owned()],
        directory,
    };
    for (wheel, tied) in wheels.iter().zip(&mut plan.wheels) {
        let preload = needs.start.keys().map(|name| path_of(rocm, name));
        let preload: Vec<String> = preload.sorted().collect();
        change_texts(wheel, tied, (&root, &preload))?;
    }
    plan.record(first, rocm)?;
    Ok(Ok(plan))
}

impl FusePlan {
    /// Adds the file that says what is embedded.
    fn record(&mut self, first: &FrameworkWheel, rocm: &RocmLibraries) -> Result<()> {
        let record = json!({
            "schema": "rocwheel-fuse-v1",
            "rocm": rocm.version.to_string(),
            "targets": self.targets,
            "libraries": self.libraries.keys().collect_vec(),
        });
        let plan = self.wheels.first_mut().context("no wheel")?;
        let path = format!("{}/{RECORD}", plan.dist_info(first));
        let text = serde_json::to_string_pretty(&record)? + "\n";
        plan.texts.insert(path, text);
        Ok(())
    }
}

/// The package that gets ROCm: that of the hook, or of the first binary.
fn root(input: &TieInput) -> Option<String> {
    let (path, _) = input.package.as_ref()?;
    let installed = installed_path(path)?;
    Some(installed.strip_suffix("/__init__.py")?.to_owned())
}

fn path_of(rocm: &RocmLibraries, library: &str) -> String {
    let directory = rocm.library(library).map(|it| rocm.directory(it.directory));
    format!("{}/{library}", directory.unwrap_or_default())
}

/// The other wheels have no ROCm of their own: they have to require the first one.
fn not_of_group(first: &FrameworkWheel, plans: &[TiePlan]) -> Vec<WheelRefusal> {
    let pin = format!("{}==", first.name.name);
    let others = plans.iter().skip(1);
    let others = others
        .filter(|plan| plan.tied > 0 && !plan.requires.iter().any(|it| it.line.starts_with(&pin)));
    let refusals = others.map(|plan| WheelRefusal {
        file: plan.file.clone(),
        ..WheelRefusal::new(
            RefusalKind::NotOfGroup,
            format!(
                "it needs ROCm, and does not need `{}`, which gets it",
                first.name.name
            ),
            "name the wheel that others are built on first, and fuse the others alone",
        )
    });
    refusals.collect()
}

/// Replaces the init module by one that loads libraries by their paths, and the record of the tie.
fn change_texts(
    wheel: &FrameworkWheel,
    plan: &mut TiePlan,
    (root, preload): (&str, &[String]),
) -> Result<()> {
    let record = format!("{}/{}", plan.dist_info(wheel), TieRecord::FILE);
    plan.texts.remove(&record);
    if let Some(init) = &mut plan.init {
        init.preload = preload.to_vec();
        init.check_version = None;
        let installed = installed_path(&init.module);
        let module: RelPath = installed
            .context("a module outside of `site-packages`")?
            .parse()?;
        let up = "../".repeat(module.depth().saturating_sub(1));
        let text = init_module::render_fused(&format!("{up}{root}/{DIRECTORY}"), preload);
        plan.texts.insert(init.module.clone(), text);
    }
    Ok(())
}

/// Whether a file has the device code of split libraries.
fn is_archive(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it == "kpack")
}

/// Whether a file of a set is the text of a license.
fn is_license(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_uppercase();
    let named = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];
    named.iter().any(|it| name.starts_with(it))
}

/// The libraries of the set that wheels need themselves, each with who needs it.
struct Needs {
    start: BTreeMap<String, String>,
    has_compiler: bool,
}

/// What is embedded.
struct Closure {
    libraries: BTreeMap<String, String>,
    /// The installed paths of all files, also of libraries.
    files: BTreeSet<String>,
}

impl Needs {
    fn of(
        wheels: &[FrameworkWheel],
        providers: &Providers<'_>,
        rocm: &RocmLibraries,
        policy: &Frameworks,
        with_compiler: Option<bool>,
    ) -> Self {
        let mut start = BTreeMap::new();
        let mut add = |library: &str, who: &str| {
            start
                .entry(library.to_owned())
                .or_insert_with(|| who.to_owned());
        };
        for wheel in wheels {
            for (path, member, elf) in wheel.elf_files() {
                for name in &elf.facts.needed {
                    let by = providers.of(&wheel.name.name, path, &elf.facts, name);
                    if matches!(by, LibraryProvider::Rocm(_)) {
                        add(name, path);
                    }
                }
                for opened in facts::opened(wheel, &member.path, elf, policy) {
                    let file = opened.rsplit('/').next().unwrap_or(opened);
                    if let Some(library) = rocm.of_other_version(file) {
                        add(library, path);
                    }
                }
            }
            let row = policy.of(&wheel.name.name);
            for name in row.iter().flat_map(|row| &row.preload) {
                if let Some(library) = rocm.of_short_name(name) {
                    add(library, "policy");
                }
            }
        }
        let compiles = start.keys().any(|it| it.starts_with("libhiprtc."));
        Self {
            start,
            has_compiler: with_compiler.unwrap_or(compiles),
        }
    }

    /// The libraries with all that they need and open, and their data.
    fn closure(&self, rocm: &RocmLibraries, members: &SetMembers, policy: &Frameworks) -> Closure {
        let mut libraries: BTreeMap<String, String> = BTreeMap::new();
        let mut files = BTreeSet::new();
        let mut left: VecDeque<(String, String)> = self.start.clone().into_iter().collect();
        while let Some((library, who)) = left.pop_front() {
            let Some(found) = rocm.library(&library) else {
                continue;
            };
            if libraries.contains_key(&library) {
                continue;
            }
            libraries.insert(library.clone(), who);
            files.insert(path_of(rocm, &library));
            let needed = found
                .elf
                .needed
                .iter()
                .map(|it| (it.clone(), library.clone()));
            left.extend(needed);
            for data in policy.data_of(&library, self.has_compiler) {
                for path in members.files.keys().filter(|path| data.matches(path)) {
                    files.insert(path.clone());
                    let name = path.rsplit('/').next().unwrap_or(path);
                    if rocm.library(name).is_some() {
                        left.push_back((name.to_owned(), format!("{library} opens it")));
                    }
                }
            }
        }
        let unused = policy.data_of_others(&libraries.keys().map(String::as_str).collect_vec());
        let devices = members.files.iter().filter(|(path, member)| {
            let is_data = path.contains(".dist-info/") || path.contains("/.devel_links/");
            let is_used = !is_archive(path) && !unused.iter().any(|it| it.matches(path));
            member.is_for_device && !is_data && is_used
        });
        files.extend(devices.map(|(path, _)| path.clone()));
        let archives = members.files.keys().filter(|path| is_archive(path));
        let archives = archives.filter(|path| rocm.is_archive_of(path, &files));
        let archives: Vec<String> = archives.cloned().collect();
        files.extend(archives);
        Closure { libraries, files }
    }
}

impl Closure {
    /// What the embedded libraries need and nothing provides.
    fn refusals(
        &self,
        (first, fused): (&FrameworkWheel, &RocmLibraries),
        providers: &Providers<'_>,
    ) -> Vec<WheelRefusal> {
        let mut refusals = Vec::new();
        for library in self.libraries.keys() {
            let Some(found) = fused.library(library) else {
                continue;
            };
            let path = path_of(fused, library);
            for name in &found.elf.needed {
                let is_missing = matches!(
                    providers.of(&first.name.name, &path, &found.elf, name),
                    LibraryProvider::OtherRocm(_)
                        | LibraryProvider::Unknown
                        | LibraryProvider::Vendor(_)
                );
                if is_missing {
                    refusals.push(WheelRefusal {
                        file: first.name.to_string(),
                        ..WheelRefusal::new(
                            RefusalKind::UnknownLibrary,
                            format!(
                                "`{library}` of the set needs `{name}`, which nothing provides"
                            ),
                            "build the set with it, or pass `--host-provides`",
                        )
                    });
                }
            }
        }
        refusals
    }

    /// The paths of the embedded files in the wheel, with those in the set.
    fn embedded(
        &self,
        (directory, first): (&str, &FrameworkWheel),
        plans: &[TiePlan],
        members: &SetMembers,
    ) -> BTreeMap<String, String> {
        let files = self.files.iter();
        let files = files.map(|path| (format!("{directory}/{path}"), path.clone()));
        let dist_info = plans.first().map(|plan| plan.dist_info(first));
        let dist_info = dist_info.unwrap_or_default();
        let licenses = members.files.keys().filter(|path| is_license(path));
        let licenses = licenses.map(|path| (format!("{dist_info}/licenses/{path}"), path.clone()));
        files.chain(licenses).collect()
    }

    /// The embedded libraries, by their paths in the wheel.
    fn elf_files<'a>(
        &self,
        rocm: &'a RocmLibraries,
        fused: &RocmLibraries,
    ) -> Vec<(String, &'a ElfFacts)> {
        let libraries = self.libraries.keys();
        let elf =
            libraries.filter_map(|name| Some((path_of(fused, name), &rocm.library(name)?.elf)));
        elf.collect()
    }
}
