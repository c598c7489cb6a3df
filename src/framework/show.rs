//! [`FrameworkFacts`]: what wheels need, bring and promise, without judgement. The answer of
//! `framework show`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    facts::{self, FoundInit},
    init_module::{self, InitModule},
    providers::Providers,
    read::{ElfMember, FrameworkWheel},
    run_path,
    tags::ProvenTag,
};
use crate::check::facts::DeviceCodeFacts;
use rocwheel_base::{
    error::Result,
    quantity::{many, size},
};
use rocwheel_elf::{
    ElfFacts, ElfKind, Machine,
    loader::{Dotted, is_loadable},
};

/// The facts of several wheels that are installed together, as a document and as text.
#[derive(Debug, Serialize)]
pub struct FrameworkFacts {
    /// The version of the set that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<String>,
    wheels: Vec<ShownWheel>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownWheel {
    file: String,
    name: String,
    version: String,
    size: u64,
    tags: Vec<String>,
    root_is_purelib: bool,
    /// `None` for a wheel without binaries for Linux on x86-64.
    #[serde(skip_serializing_if = "Option::is_none")]
    proved_tag: Option<ProvenTag>,
    requires: Vec<String>,
    extras: Vec<String>,
    roots: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    init: Option<FoundInit>,
    /// The ROCm packages that it has in it. Their files are not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bundles: Vec<String>,
    damage: Vec<String>,
    members_without_digest: usize,
    binaries: Vec<ShownBinary>,
    /// The number of files for each target that are device code and nothing else.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    device_files: BTreeMap<String, usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    windows_binaries: Vec<ShownWindowsBinary>,
}

/// An ELF file that is loaded, or is for another machine.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownBinary {
    path: String,
    /// If it is for another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    soname: Option<String>,
    needed: Vec<ShownNeed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_path_kind: Option<&'static str>,
    run_path: Vec<ShownRunPath>,
    newest_symbols: BTreeMap<String, String>,
    opens: Vec<String>,
    device_code: Option<ShownCode>,
    #[serde(skip)]
    run_path_bytes: usize,
}

/// A library that a binary needs, and what provides it.
#[derive(Debug, Serialize)]
struct ShownNeed {
    name: String,
    by: String,
}

/// An entry of a run path, and where it leads.
#[derive(Debug, Serialize)]
struct ShownRunPath {
    entry: String,
    leads: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownCode {
    form: &'static str,
    targets: Vec<String>,
    code_objects: u64,
}

#[derive(Debug, Serialize)]
struct ShownWindowsBinary {
    path: String,
    imports: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

impl FrameworkFacts {
    pub fn of(wheels: &[FrameworkWheel], providers: &Providers<'_>) -> Result<Self> {
        Ok(Self {
            set: providers.rocm.map(|rocm| rocm.version.to_string()),
            wheels: wheels
                .iter()
                .map(|wheel| ShownWheel::of(wheel, providers))
                .collect::<Result<_>>()?,
        })
    }
}

impl ShownWheel {
    fn of(wheel: &FrameworkWheel, providers: &Providers<'_>) -> Result<Self> {
        let is_shown = |elf: &ElfMember<'_>| {
            (is_loadable(elf.facts) || is_foreign(elf.facts)) && !wheel.is_bundled(elf.path)
        };
        let binaries = wheel.elf_files().filter(is_shown);
        let imports = wheel.imports().into_iter().filter(|(path, _)| !wheel.is_bundled(path));
        let windows_binaries = imports.map(|(path, imports)| ShownWindowsBinary {
            path: path.to_owned(),
            imports: imports.into_iter().flatten().cloned().collect(),
            unreadable: imports.err().map(ToString::to_string),
        });
        Ok(Self {
            file: wheel.name.to_string(),
            name: wheel.name.name.to_string(),
            version: wheel.name.version.to_string(),
            size: wheel.facts.package.size,
            tags: wheel.wheel.tags.iter().map(ToString::to_string).collect(),
            root_is_purelib: wheel.wheel.root_is_purelib,
            proved_tag: facts::proved_tag(wheel, providers),
            requires: wheel.metadata.requires_dist.clone(),
            extras: wheel.metadata.provides_extra.clone(),
            roots: facts::roots(wheel),
            init: facts::find_init(wheel, providers.policy)?,
            bundles: wheel.bundles.clone(),
            damage: wheel.damage.clone(),
            members_without_digest: wheel.without_digest,
            binaries: binaries.map(|elf| ShownBinary::of(wheel, elf, providers)).collect(),
            device_files: facts::device_files(wheel),
            windows_binaries: windows_binaries.collect(),
        })
    }
}

impl ShownBinary {
    fn of(wheel: &FrameworkWheel, elf: ElfMember<'_>, providers: &Providers<'_>) -> Self {
        let facts = elf.facts;
        let policy = providers.policy;
        Self {
            path: elf.path.to_owned(),
            machine: is_foreign(facts).then(|| facts.machine.to_string()),
            soname: facts.soname.clone(),
            needed: providers
                .needs(wheel, elf)
                .map(|(name, by)| ShownNeed { name: name.to_owned(), by: by.to_string() })
                .collect(),
            run_path_kind: match (&facts.runpath, &facts.rpath) {
                (Some(_), _) => Some("RUNPATH"),
                (None, Some(_)) => Some("RPATH"),
                (None, None) => None,
            },
            run_path: run_path::entries(wheel, elf, providers)
                .into_iter()
                .map(|(entry, leads)| ShownRunPath {
                    entry: entry.to_owned(),
                    leads: leads.to_string(),
                })
                .collect(),
            newest_symbols: newest_symbols(facts),
            opens: facts::opened_rocm_libraries(wheel, elf, policy).map(str::to_owned).collect(),
            device_code: device_code(elf),
            run_path_bytes: facts.run_path().map_or(0, str::len),
        }
    }
}

impl fmt::Display for FrameworkFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, wheel) in self.wheels.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{wheel}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ShownWheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} ({})", self.name, self.version, size(self.size))?;
        let lib = if self.root_is_purelib { "purelib" } else { "platlib" };
        writeln!(f, "  tags      {} ({lib})", self.tags.join(" "))?;
        if let Some(tag) = &self.proved_tag {
            writeln!(f, "  proved    {}{}", tag.policy, tag.reason(", since "))?;
        }
        if self.requires.is_empty() {
            writeln!(f, "  requires  nothing")?;
        }
        for line in &self.requires {
            writeln!(f, "  requires  {line}")?;
        }
        if !self.extras.is_empty() {
            writeln!(f, "  extras    {}", self.extras.join(", "))?;
        }
        match &self.init {
            None => writeln!(f, "  init      no `{}`, and no hook", init_module::FILE)?,
            Some(init) => writeln!(f, "  init      {}", describe_init(init))?,
        }
        for package in &self.bundles {
            writeln!(f, "  bundles   {package}")?;
        }
        if self.members_without_digest > 0 {
            let members = many(self.members_without_digest, "member");
            writeln!(f, "  members   {members} without a digest in RECORD")?;
        }
        for damage in &self.damage {
            writeln!(f, "  damaged   {damage}")?;
        }
        for (target, count) in &self.device_files {
            writeln!(f, "  code      {} for {target}", many(*count, "file"))?;
        }
        for binary in &self.binaries {
            write!(f, "{binary}")?;
        }
        for ShownWindowsBinary { path, imports, unreadable } in &self.windows_binaries {
            match unreadable {
                None => writeln!(f, "  {path}\n    imports   {}", imports.join(" "))?,
                Some(why) => writeln!(f, "  {path}\n    damaged   {why}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for ShownBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.path)?;
        if let Some(machine) = &self.machine {
            writeln!(f, "    machine   {machine}")?;
        }
        let needs = self.needed.iter().map(|need| (need.by.as_str(), need.name.as_str()));
        for (by, names) in needs.into_group_map().iter().sorted() {
            // Every binary needs libraries of the host, so they say nothing about this one.
            if *by != "host" {
                writeln!(f, "    needs     {} ({by})", names.join(" "))?;
            }
        }
        if let Some(kind) = self.run_path_kind {
            let counts = self.run_path.iter().map(|entry| &entry.leads).counts();
            let leads = counts.iter().sorted().map(|(leads, count)| format!("{count} {leads}"));
            let entries = many(self.run_path.len(), "entry");
            let bytes = self.run_path_bytes;
            writeln!(f, "    {kind:<9} {entries} of {bytes} bytes: {}", leads.format(", "))?;
        }
        if !self.newest_symbols.is_empty() {
            let symbol = |(kind, number)| format!("{kind}_{number}");
            let symbols = self.newest_symbols.iter().map(symbol);
            writeln!(f, "    symbols   {}", symbols.format(" "))?;
        }
        if let Some(ShownCode { form, targets, code_objects }) = &self.device_code {
            write!(f, "    code      {form}")?;
            if !targets.is_empty() {
                let objects = usize::try_from(*code_objects).unwrap_or(usize::MAX);
                write!(f, ": {} for {}", many(objects, "code object"), targets.join(" "))?;
            }
            writeln!(f)?;
        }
        if !self.opens.is_empty() {
            writeln!(f, "    opens     {}", self.opens.join(" "))?;
        }
        Ok(())
    }
}

/// Whether a file is a program or library for another machine.
fn is_foreign(elf: &ElfFacts) -> bool {
    matches!(elf.machine, Machine::Other(_)) && elf.kind != ElfKind::Other
}

fn describe_init(init: &FoundInit) -> String {
    let module = match &init.module {
        None => "no module".to_owned(),
        Some(InitModule::Opaque) => "a module of another form".to_owned(),
        Some(InitModule::Known(call)) => {
            let version = call.check_version.as_deref().unwrap_or("any version");
            let libraries = many(call.preload.len(), "library");
            format!("loads {libraries} for {version}")
        }
    };
    let hook = match &init.hook {
        None => "no module imports it",
        Some(hook) if hook.catches_absence => "imported",
        Some(_) => "imported, and required",
    };
    format!("{}: {module}; {hook}", init.root)
}

/// The newest symbol version of each kind that a file needs.
fn newest_symbols(elf: &ElfFacts) -> BTreeMap<String, String> {
    let versions = elf.versions.iter().flat_map(|needs| &needs.versions);
    let numbers = versions.filter_map(|version| {
        let (kind, number) = version.rsplit_once('_')?;
        Some((kind.to_owned(), number.parse::<Dotted>().ok()?))
    });
    // The map keeps the last number of each kind, which is the newest.
    let newest: BTreeMap<String, Dotted> = numbers.sorted().collect();
    newest.into_iter().map(|(kind, number)| (kind, number.to_string())).collect()
}

/// The device code of a binary, if it has some or had.
fn device_code(elf: ElfMember<'_>) -> Option<ShownCode> {
    let without_objects = |form| Some(ShownCode { form, targets: Vec::new(), code_objects: 0 });
    match &elf.member.content.as_ref().ok()?.code {
        DeviceCodeFacts::Fat(code) => Some(ShownCode {
            form: "fat",
            targets: code.keys().map(ToString::to_string).collect(),
            code_objects: code.values().map(|it| it.code_objects).sum(),
        }),
        DeviceCodeFacts::Split(_) => without_objects("split"),
        DeviceCodeFacts::Damaged(_) | DeviceCodeFacts::Unreadable(_) => without_objects("damaged"),
        DeviceCodeFacts::None | DeviceCodeFacts::Objects(_) | DeviceCodeFacts::Archive(_) => None,
    }
}
