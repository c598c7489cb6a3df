//! The init module of a tied wheel, and the hook that calls it.

use super::{InitMode, Tie, VersionPin, plan::PlannedInit};
use crate::{
    error::Result,
    framework::{
        facts::{self, FoundInit},
        init_module::{self, InitCall, InitModule},
        policy::Frameworks,
        read::FrameworkWheel,
        refusal::RefusalKind,
    },
};

/// What a wheel has of an init module.
#[derive(Debug)]
pub(super) struct TiedModule {
    /// The init module and the hook, if there are any.
    found: Option<FoundInit>,
    /// The `__init__.py` that gets a hook: the path of the member and its source.
    package: Option<(String, String)>,
}

impl TiedModule {
    pub(super) fn read(wheel: &FrameworkWheel, policy: &Frameworks) -> Result<Self> {
        let found = facts::init(wheel, policy)?;
        let known = policy
            .of(&wheel.name.name)
            .and_then(|row| row.root.as_ref())
            .map(ToString::to_string);
        let mut roots = found
            .iter()
            .map(|it| it.root.clone())
            .chain(known)
            .chain(facts::roots(wheel));
        let package = roots.find_map(|root| {
            let path = wheel.member(&format!("{root}/__init__.py"))?;
            let source = wheel.text(path).transpose()?;
            Some(source.map(|source| (path.to_owned(), source)))
        });
        Ok(Self {
            package: package.transpose()?,
            found,
        })
    }

    fn has_hook(&self) -> bool {
        self.found.as_ref().is_some_and(|it| it.hook.is_some())
    }

    fn is_opaque(&self) -> bool {
        let found = self.found.as_ref();
        found.is_some_and(|it| it.module == Some(InitModule::Opaque))
    }
}

impl Tie<'_> {
    pub(super) fn init_module(&mut self) -> Result<()> {
        let has_hook = self.module.has_hook();
        match self.options.init {
            InitMode::None => return Ok(()),
            InitMode::Auto if !has_hook => {
                self.without_hook();
                return Ok(());
            }
            InitMode::Auto | InitMode::Add => {}
        }
        if self.module.is_opaque() {
            self.refuse(
                RefusalKind::OpaqueInit,
                format!(
                    "its `{}` is of no form that rocwheel knows",
                    init_module::FILE
                ),
                "remove the module, or pass `--init none` to leave it alone",
            );
            return Ok(());
        }
        let Some((package, source)) = self.module.package.clone() else {
            self.refuse(
                RefusalKind::NoHook,
                "it has no package with an `__init__.py` to hook into".to_owned(),
                "pass `--init none`, or `--framework` with a row that names its `root`",
            );
            return Ok(());
        };
        let pin = self.options.check_version.or(self.options.requires);
        let pin = pin.unwrap_or_else(|| VersionPin::usual(&self.rocm.version));
        let call = InitCall {
            preload: self.preload(),
            check_version: pin.pattern(&self.rocm.version),
            fail_on_version_mismatch: self.options.fail_on_version_mismatch,
        };
        let directory = package.strip_suffix("__init__.py").unwrap_or_default();
        let module = format!("{directory}{}", init_module::FILE);
        let plan = &mut self.plan;
        let text = call.render(plan.record.requirement.as_deref().unwrap_or("rocm"));
        plan.texts.insert(module.clone(), text);
        if !has_hook {
            plan.texts.insert(package, init_module::with_hook(&source)?);
        }
        plan.init = Some(PlannedInit {
            adds_hook: !has_hook,
            check_version: call.check_version,
        });
        plan.record.preload = call.preload;
        plan.record.init = Some(module);
        Ok(())
    }

    /// Without a hook there is no module. On Windows that is no tie at all.
    fn without_hook(&mut self) {
        if self.wheel.is_for_windows() {
            self.refuse(
                RefusalKind::NoHook,
                format!(
                    "no module imports `{}`, and Windows has no run paths",
                    init_module::FILE
                ),
                "pass `--init add`",
            );
            return;
        }
        let opened: Vec<&str> = self.needs.opened.iter().map(String::as_str).collect();
        if !opened.is_empty() {
            self.plan.warnings.push(format!(
                "it opens {} by name, and nothing loads them before: pass `--init add`",
                opened.join(", ")
            ));
        }
    }

    /// The libraries to load, in the order of the table of `rocm_sdk`.
    fn preload(&mut self) -> Vec<String> {
        if let Some(names) = &self.options.preload {
            for name in names {
                if self.rocm.of_short_name(name).is_none() {
                    self.refuse(
                        RefusalKind::UnknownPreload,
                        format!("the set has no library with the short name `{name}`"),
                        "leave it out of `--preload`",
                    );
                }
            }
            return names.clone();
        }
        let needed = self.needs.libraries.iter().chain(&self.needs.opened);
        let mut names = self.rocm.preload(needed.map(String::as_str));
        // What only policy asks for is left out if the set does not have it.
        let known = self.row.iter().flat_map(|row| &row.preload);
        let known = known.filter(|it| self.rocm.of_short_name(it).is_some());
        names.extend(known.cloned());
        self.rocm.in_order(&names.into_iter().collect())
    }
}
