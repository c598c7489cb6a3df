//! [`FrameworkFacts`]: what wheels need, bring and promise, without judgement. The answer of
//! `framework show`.

use std::{collections::BTreeMap, fmt};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    facts,
    init_module::{self, InitHook, InitModule},
    metadata::HeaderText,
    policy::Frameworks,
    providers::Providers,
    read::FrameworkWheel,
    run_path,
};
use crate::{
    check::facts::{DeviceCodeFacts, ElfFile, MemberFacts},
    console::{many, size},
    elf::{ElfFacts, ElfKind, Machine},
    error::Result,
    loader::{Dotted, is_loadable},
};

/// The facts of several wheels that are installed together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FrameworkFacts {
    schema: &'static str,
    /// The version of the set that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<String>,
    wheels: Vec<WheelSummary>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct WheelSummary {
    file: String,
    name: String,
    version: String,
    size: u64,
    tags: Vec<String>,
    root_is_purelib: bool,
    /// What the symbols of its binaries prove, and what keeps it from an older tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    proved_tag: Option<ProvedTagRow>,
    requires: Vec<String>,
    extras: Vec<String>,
    entry_points: Vec<String>,
    /// The packages that have binaries.
    roots: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    init: Option<InitRow>,
    damage: Vec<String>,
    members_without_digest: usize,
    /// The members that not everybody may read, or that everybody may write.
    members_with_odd_modes: usize,
    binaries: Vec<BinaryRow>,
    /// What the files for Windows import.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    windows_binaries: Vec<WindowsRow>,
    /// The number of code objects in files of their own, by target.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    code_objects: BTreeMap<String, usize>,
}

#[derive(Debug, Serialize)]
struct WindowsRow {
    path: String,
    imports: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

#[derive(Debug, Serialize)]
struct ProvedTagRow {
    policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<String>,
}

#[derive(Debug, Serialize)]
struct InitRow {
    root: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<InitModule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hook: Option<InitHook>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct BinaryRow {
    path: String,
    /// The machine that it is for, if that is another one than x86-64.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    depth: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    soname: Option<String>,
    needed: Vec<NeededRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_path_kind: Option<&'static str>,
    run_path: Vec<RunPathRow>,
    newest_symbols: BTreeMap<String, String>,
    device_code: Option<DeviceCodeRow>,
    /// Names of ROCm's libraries among its strings, which it may open at run time.
    opens: Vec<String>,
}

#[derive(Debug, Serialize)]
struct NeededRow {
    name: String,
    by: String,
}

#[derive(Debug, Serialize)]
struct RunPathRow {
    entry: String,
    leads: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct DeviceCodeRow {
    form: &'static str,
    targets: Vec<String>,
    code_objects: u64,
}

impl FrameworkFacts {
    pub fn of(
        wheels: &[FrameworkWheel],
        providers: &Providers<'_>,
        policy: &Frameworks,
    ) -> Result<Self> {
        let rows = wheels.iter().map(|wheel| summary(wheel, providers, policy));
        Ok(Self {
            schema: "rocwheel-framework-facts-v1",
            set: providers.rocm.map(|rocm| rocm.version.to_string()),
            wheels: rows.collect::<Result<_>>()?,
        })
    }
}

fn summary(
    wheel: &FrameworkWheel,
    providers: &Providers<'_>,
    policy: &Frameworks,
) -> Result<WheelSummary> {
    let metadata = HeaderText::parse(&wheel.metadata_text);
    let files = wheel
        .elf_files()
        .filter(|(_, _, elf)| is_loadable(&elf.facts) || is_foreign(&elf.facts));
    let binaries =
        files.map(|(path, member, elf)| binary(wheel, path, member, elf, providers, policy));
    let entry_points = wheel.text(&format!("{}/entry_points.txt", wheel.archive.dist_info))?;
    let proved = (!wheel.is_for_windows()).then(|| facts::proved_tag(wheel, providers));
    Ok(WheelSummary {
        file: wheel.name.to_string(),
        name: wheel.name.name.to_string(),
        version: wheel.name.version.to_string(),
        size: wheel.facts.size,
        tags: wheel.wheel.tags.iter().map(ToString::to_string).collect(),
        root_is_purelib: wheel.wheel.root_is_purelib,
        proved_tag: proved.map(|it| {
            let (file, needs) = it.because.unzip();
            ProvedTagRow {
                policy: it.policy,
                file,
                needs,
            }
        }),
        requires: wheel.metadata.requires_dist.clone(),
        extras: metadata
            .values("Provides-Extra")
            .map(str::to_owned)
            .collect(),
        entry_points: entry_points
            .iter()
            .flat_map(|it| it.lines())
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
            .collect(),
        roots: facts::roots(wheel).into_iter().collect(),
        init: facts::init(wheel, policy)?.map(|it| InitRow {
            root: it.root,
            module: it.module,
            hook: it.hook,
        }),
        damage: wheel.damage.clone(),
        members_without_digest: wheel.without_digest,
        members_with_odd_modes: wheel
            .facts
            .members
            .iter()
            .filter(|it| facts::has_odd_mode(it))
            .count(),
        binaries: binaries.collect(),
        windows_binaries: windows(wheel),
        code_objects: code_objects(wheel),
    })
}

/// Whether it is a program or library for another machine.
fn is_foreign(elf: &ElfFacts) -> bool {
    matches!(elf.machine, Machine::Other(_)) && elf.kind != ElfKind::Other
}

fn windows(wheel: &FrameworkWheel) -> Vec<WindowsRow> {
    let rows = wheel.imports().into_iter();
    let rows = rows.map(|(path, imports)| WindowsRow {
        path: path.to_owned(),
        unreadable: imports.err().map(str::to_owned),
        imports: imports.into_iter().flatten().cloned().collect(),
    });
    rows.collect()
}

fn code_objects(wheel: &FrameworkWheel) -> BTreeMap<String, usize> {
    let contents = wheel
        .installed()
        .filter_map(|it| it.1.content.as_ref().ok());
    let targets = contents.flat_map(|it| match &it.code {
        DeviceCodeFacts::Objects(targets) => targets.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    });
    targets.counts().into_iter().collect()
}

fn binary(
    wheel: &FrameworkWheel,
    path: &str,
    member: &MemberFacts,
    elf: &ElfFile,
    providers: &Providers<'_>,
    policy: &Frameworks,
) -> BinaryRow {
    let facts = &elf.facts;
    let needed = facts.needed.iter().map(|name| NeededRow {
        name: name.clone(),
        by: providers
            .of(&wheel.name.name, path, facts, name)
            .to_string(),
    });
    let run_path = run_path::entries(wheel, path, facts, providers);
    let run_path = run_path.into_iter().map(|(entry, leads)| RunPathRow {
        entry: entry.to_owned(),
        leads: leads.to_string(),
    });
    let kind = facts.runpath.as_ref().map(|_| "RUNPATH");
    BinaryRow {
        path: path.to_owned(),
        machine: is_foreign(facts).then(|| facts.machine.to_string()),
        depth: path.matches('/').count(),
        soname: facts.soname.clone(),
        needed: needed.collect(),
        run_path_kind: kind.or(facts.rpath.as_ref().map(|_| "RPATH")),
        run_path: run_path.collect(),
        newest_symbols: newest(facts),
        device_code: device_code(member),
        opens: facts::opened(wheel, &member.path, elf, policy)
            .map(str::to_owned)
            .collect(),
    }
}

/// The newest symbol version of each kind that a file needs.
fn newest(elf: &ElfFacts) -> BTreeMap<String, String> {
    let versions = elf.versions.iter().flat_map(|it| &it.versions);
    let numbers = versions.filter_map(|version| {
        let (kind, number) = version.rsplit_once('_')?;
        Some((kind.to_owned(), number.parse::<Dotted>().ok()?))
    });
    // Of several numbers of a kind the map keeps the last, which is the newest.
    let newest: BTreeMap<String, Dotted> = numbers.sorted().collect();
    newest
        .into_iter()
        .map(|(kind, number)| (kind, number.to_string()))
        .collect()
}

fn device_code(member: &MemberFacts) -> Option<DeviceCodeRow> {
    let code = &member.content.as_ref().ok()?.code;
    let row = |form, targets: Vec<String>, code_objects| {
        Some(DeviceCodeRow {
            form,
            targets,
            code_objects,
        })
    };
    match code {
        DeviceCodeFacts::Fat(code) => {
            let objects = code.values().map(|it| it.code_objects).sum();
            row(
                "fat",
                code.keys().map(ToString::to_string).collect(),
                objects,
            )
        }
        DeviceCodeFacts::Split(_) => row("split", Vec::new(), 0),
        DeviceCodeFacts::Damaged(_) | DeviceCodeFacts::Unreadable(_) => {
            row("damaged", Vec::new(), 0)
        }
        DeviceCodeFacts::None | DeviceCodeFacts::Objects(_) | DeviceCodeFacts::Archive(_) => None,
    }
}

impl fmt::Display for FrameworkFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, wheel) in self.wheels.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            wheel.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for WheelSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} ({})", self.name, self.version, size(self.size))?;
        let purelib = if self.root_is_purelib {
            "purelib"
        } else {
            "platlib"
        };
        writeln!(f, "  tags      {} ({purelib})", self.tags.join(" "))?;
        if let Some(tag) = &self.proved_tag {
            let because = match (&tag.file, &tag.needs) {
                (Some(file), Some(needs)) => format!(", since `{file}` needs {needs}"),
                _ => String::new(),
            };
            writeln!(f, "  proved    {}{because}", tag.policy)?;
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
            Some(init) => init.fmt(f)?,
        }
        for (count, what) in [
            (self.members_without_digest, "without a digest in RECORD"),
            (self.members_with_odd_modes, "with odd modes"),
        ] {
            if count > 0 {
                writeln!(f, "  members   {} {what}", many(count, "member"))?;
            }
        }
        for damage in &self.damage {
            writeln!(f, "  damaged   {damage}")?;
        }
        for (target, count) in &self.code_objects {
            writeln!(
                f,
                "  objects   {} for {target}",
                many(*count, "code object")
            )?;
        }
        for binary in &self.binaries {
            binary.fmt(f)?;
        }
        for binary in &self.windows_binaries {
            writeln!(f, "  {}", binary.path)?;
            match &binary.unreadable {
                None => writeln!(f, "    imports   {}", binary.imports.join(" "))?,
                Some(why) => writeln!(f, "    damaged   {why}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for InitRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = match &self.module {
            None => "no module".to_owned(),
            Some(InitModule::Opaque) => "a module of another form".to_owned(),
            Some(InitModule::Known(call)) => {
                let version = call.check_version.as_deref().unwrap_or("any version");
                format!(
                    "loads {} for {version}",
                    many(call.preload.len(), "library")
                )
            }
        };
        let hook = match &self.hook {
            None => "no module imports it".to_owned(),
            Some(hook) if hook.catches_absence() => "imported".to_owned(),
            Some(InitHook { catches: None }) => "imported, and required".to_owned(),
            Some(InitHook {
                catches: Some(caught),
            }) => format!("imported, and absent only under {}", caught.join(", ")),
        };
        writeln!(f, "  init      {}: {module}; {hook}", self.root)
    }
}

impl fmt::Display for BinaryRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.path)?;
        if let Some(machine) = &self.machine {
            writeln!(f, "    machine   {machine}")?;
        }
        let by = self
            .needed
            .iter()
            .map(|it| (it.by.as_str(), it.name.as_str()))
            .into_group_map();
        for (by, names) in by.iter().sorted().filter(|it| *it.0 != "host") {
            writeln!(f, "    needs     {} ({by})", names.join(" "))?;
        }
        let mut leads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for row in &self.run_path {
            leads.entry(&row.leads).or_default().push(&row.entry);
        }
        if let Some(kind) = self.run_path_kind {
            let bytes = self
                .run_path
                .iter()
                .map(|it| it.entry.len() + 1)
                .sum::<usize>()
                .saturating_sub(1);
            let counts = leads
                .iter()
                .map(|(leads, entries)| format!("{} {leads}", entries.len()));
            let counts = counts.collect::<Vec<_>>().join(", ");
            writeln!(
                f,
                "    {kind:<9} {} of {bytes} bytes: {counts}",
                many(self.run_path.len(), "entry")
            )?;
        }
        let symbols = self
            .newest_symbols
            .iter()
            .map(|(kind, number)| format!("{kind}_{number}"));
        let symbols = symbols.collect::<Vec<_>>();
        if !symbols.is_empty() {
            writeln!(f, "    symbols   {}", symbols.join(" "))?;
        }
        if let Some(code) = &self.device_code {
            let targets = if code.targets.is_empty() {
                String::new()
            } else {
                format!(
                    ": {} for {}",
                    many(
                        usize::try_from(code.code_objects).unwrap_or(usize::MAX),
                        "code object"
                    ),
                    code.targets.join(" ")
                )
            };
            writeln!(f, "    code      {}{targets}", code.form)?;
        }
        if !self.opens.is_empty() {
            writeln!(f, "    opens     {}", self.opens.join(" "))?;
        }
        Ok(())
    }
}
