//! [`FrameworkFacts`]: what wheels need, bring and promise, without judgement. The answer of
//! `framework show`.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use itertools::Itertools as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    facts::{self, FoundInit},
    init_module::{self, InitModule},
    providers::Providers,
    read::{ElfMember, FrameworkWheel},
    run_path,
};
use crate::{
    check::facts::DeviceCodeFacts,
    console::{many, size},
    elf::{ElfFacts, ElfKind, Machine},
    error::Result,
    loader::{Dotted, is_loadable},
};

/// The facts of several wheels that are installed together, as a document and as text.
#[derive(Debug, Serialize)]
pub struct FrameworkFacts {
    /// The version of the set that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<String>,
    wheels: Vec<Value>,
    #[serde(skip)]
    text: String,
}

impl FrameworkFacts {
    pub fn of(wheels: &[FrameworkWheel], providers: &Providers<'_>) -> Result<Self> {
        let mut this = Self {
            set: providers.rocm.map(|rocm| rocm.version.to_string()),
            wheels: Vec::new(),
            text: String::new(),
        };
        for wheel in wheels {
            if !this.wheels.is_empty() {
                this.text.push('\n');
            }
            let facts = wheel_facts(wheel, providers, &mut this.text)?;
            this.wheels.push(facts);
        }
        Ok(this)
    }
}

impl fmt::Display for FrameworkFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The document of one wheel. Writes its text.
fn wheel_facts(
    wheel: &FrameworkWheel,
    providers: &Providers<'_>,
    text: &mut String,
) -> Result<Value> {
    let (name, version) = (&wheel.name.name, &wheel.name.version);
    let (requires, extras) = (&wheel.metadata.requires_dist, &wheel.metadata.provides_extra);
    let tags: Vec<String> = wheel.wheel.tags.iter().map(ToString::to_string).collect();
    let is_purelib = wheel.wheel.root_is_purelib;
    let proved = (!wheel.is_for_windows()).then(|| facts::proved_tag(wheel, providers));
    let init = facts::init(wheel, providers.policy)?;

    writeln!(text, "{name} {version} ({})", size(wheel.facts.size))?;
    let lib = if is_purelib { "purelib" } else { "platlib" };
    writeln!(text, "  tags      {} ({lib})", tags.join(" "))?;
    if let Some(tag) = &proved {
        writeln!(text, "  proved    {}{}", tag.policy, tag.reason(", since "))?;
    }
    if requires.is_empty() {
        writeln!(text, "  requires  nothing")?;
    }
    for line in requires {
        writeln!(text, "  requires  {line}")?;
    }
    if !extras.is_empty() {
        writeln!(text, "  extras    {}", extras.join(", "))?;
    }
    match &init {
        None => writeln!(text, "  init      no `{}`, and no hook", init_module::FILE)?,
        Some(init) => writeln!(text, "  init      {}", init_text(init))?,
    }
    if wheel.without_digest > 0 {
        let members = many(wheel.without_digest, "member");
        writeln!(text, "  members   {members} without a digest in RECORD")?;
    }
    for damage in &wheel.damage {
        writeln!(text, "  damaged   {damage}")?;
    }
    let mut binaries = Vec::new();
    for elf in wheel.elf_files().filter(|it| is_loadable(it.facts) || is_foreign(it.facts)) {
        binaries.push(binary_facts(wheel, elf, providers, text)?);
    }
    let mut windows_binaries = Vec::new();
    for (path, imports) in wheel.imports() {
        match imports {
            Ok(names) => writeln!(text, "  {path}\n    imports   {}", names.iter().join(" "))?,
            Err(why) => writeln!(text, "  {path}\n    damaged   {why}")?,
        }
        let names: Vec<&String> = imports.into_iter().flatten().collect();
        windows_binaries.push(without_nulls(json!({
            "path": path,
            "imports": names,
            "unreadable": imports.err(),
        })));
    }
    Ok(without_nulls(json!({
        "file": wheel.name.to_string(),
        "name": name.to_string(),
        "version": version.to_string(),
        "size": wheel.facts.size,
        "tags": tags,
        "root-is-purelib": is_purelib,
        "proved-tag": proved.map(|it| {
            let (file, needs) = it.because.unzip();
            without_nulls(json!({"policy": it.policy, "file": file, "needs": needs}))
        }),
        "requires": requires,
        "extras": extras,
        "roots": facts::roots(wheel),
        "init": init,
        "damage": wheel.damage,
        "members-without-digest": wheel.without_digest,
        "binaries": binaries,
        "windows-binaries": (!windows_binaries.is_empty()).then_some(windows_binaries),
    })))
}

/// A document without the fields that are not known.
fn without_nulls(document: Value) -> Value {
    match document {
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null());
            Value::Object(fields)
        }
        other => other,
    }
}

/// Whether it is a program or library for another machine.
fn is_foreign(elf: &ElfFacts) -> bool {
    matches!(elf.machine, Machine::Other(_)) && elf.kind != ElfKind::Other
}

fn init_text(init: &FoundInit) -> String {
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

/// The document of one binary. Writes its text.
fn binary_facts(
    wheel: &FrameworkWheel,
    elf: ElfMember<'_>,
    providers: &Providers<'_>,
    text: &mut String,
) -> Result<Value> {
    let (path, facts) = (elf.path, elf.facts);
    let machine = is_foreign(facts).then(|| facts.machine.to_string());
    let needs: Vec<(&str, String)> =
        providers.needs(wheel, elf).map(|(name, by)| (name, by.to_string())).collect();
    let kind = match (&facts.runpath, &facts.rpath) {
        (Some(_), _) => Some("RUNPATH"),
        (None, Some(_)) => Some("RPATH"),
        (None, None) => None,
    };
    let entries = run_path::entries(wheel, elf, providers);
    let symbols = newest(facts);
    let opens: Vec<&str> = facts::opened(wheel, elf, providers.policy).collect();
    let code = device_code(elf);

    writeln!(text, "  {path}")?;
    if let Some(machine) = &machine {
        writeln!(text, "    machine   {machine}")?;
    }
    let by = needs.iter().map(|(name, by)| (by.as_str(), *name));
    for (by, names) in by.into_group_map().iter().sorted() {
        if *by != "host" {
            writeln!(text, "    needs     {} ({by})", names.join(" "))?;
        }
    }
    if let Some(kind) = kind {
        let bytes = facts.run_path().map_or(0, str::len);
        let leads = entries.iter().map(|(_, leads)| leads.to_string()).counts();
        let leads = leads.iter().sorted();
        let leads = leads.map(|(leads, count)| format!("{count} {leads}"));
        let leads = leads.collect_vec().join(", ");
        let count = many(entries.len(), "entry");
        writeln!(text, "    {kind:<9} {count} of {bytes} bytes: {leads}")?;
    }
    if !symbols.is_empty() {
        let symbols = symbols.iter().map(|(kind, number)| format!("{kind}_{number}"));
        writeln!(text, "    symbols   {}", symbols.collect_vec().join(" "))?;
    }
    if let Some((form, targets, objects)) = &code {
        let for_targets = if targets.is_empty() {
            String::new()
        } else {
            let objects = usize::try_from(*objects).unwrap_or(usize::MAX);
            let objects = many(objects, "code object");
            format!(": {objects} for {}", targets.join(" "))
        };
        writeln!(text, "    code      {form}{for_targets}")?;
    }
    if !opens.is_empty() {
        writeln!(text, "    opens     {}", opens.join(" "))?;
    }
    let code = code.map(|(form, targets, objects)| {
        json!({"form": form, "targets": targets, "code-objects": objects})
    });
    let needed = needs.iter().map(|(name, by)| json!({"name": name, "by": by}));
    let run_path =
        entries.iter().map(|(entry, leads)| json!({"entry": entry, "leads": leads.to_string()}));
    let mut document = without_nulls(json!({
        "path": path,
        "machine": machine,
        "soname": facts.soname,
        "needed": needed.collect_vec(),
        "run-path-kind": kind,
        "run-path": run_path.collect_vec(),
        "newest-symbols": symbols,
        "opens": opens,
    }));
    document["device-code"] = code.unwrap_or(Value::Null);
    Ok(document)
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
    newest.into_iter().map(|(kind, number)| (kind, number.to_string())).collect()
}

/// The form of the device code of a binary, its targets, and the number of code objects.
fn device_code(elf: ElfMember<'_>) -> Option<(&'static str, Vec<String>, u64)> {
    match &elf.member.content.as_ref().ok()?.code {
        DeviceCodeFacts::Fat(code) => {
            let objects = code.values().map(|it| it.code_objects).sum();
            let targets = code.keys().map(ToString::to_string).collect();
            Some(("fat", targets, objects))
        }
        DeviceCodeFacts::Split(_) => Some(("split", Vec::new(), 0)),
        DeviceCodeFacts::Damaged(_) | DeviceCodeFacts::Unreadable(_) => {
            Some(("damaged", Vec::new(), 0))
        }
        DeviceCodeFacts::None | DeviceCodeFacts::Objects(_) | DeviceCodeFacts::Archive(_) => None,
    }
}
