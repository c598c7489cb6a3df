//! The init module of a tied wheel, and the hook that calls it.

use super::{InitMode, Tie, VersionPin, plan::PlannedInit};
use crate::{
    error::Result,
    framework::{
        facts,
        init_module::{self, InitCall, InitModule},
        refusal::RefusalKind,
    },
};

impl Tie<'_> {
    pub(super) fn init_module(&mut self) -> Result<()> {
        let (wheel, group) = (self.wheel, self.group);
        let found = facts::init(wheel, group.providers.policy)?;
        let has_hook = found.as_ref().is_some_and(|it| it.hook.is_some());
        match group.options.init {
            InitMode::None => return Ok(()),
            InitMode::Auto if !has_hook => {
                self.without_hook();
                return Ok(());
            }
            InitMode::Auto | InitMode::Add => {}
        }
        let module = found.as_ref().and_then(|it| it.module.clone());
        if module == Some(InitModule::Opaque) {
            let file = init_module::FILE;
            self.refuse(
                RefusalKind::OpaqueInit,
                format!("its `{file}` is of no form that rocwheel knows"),
                "remove the module, or pass `--init none` to leave it alone",
            );
            return Ok(());
        }
        let mut roots = found
            .map(|it| it.root)
            .into_iter()
            .chain(group.providers.policy.root_of(&wheel.name.name))
            .chain(facts::roots(wheel));
        let Some(package) = roots.find_map(|root| wheel.member(&format!("{root}/__init__.py")))
        else {
            self.refuse(
                RefusalKind::NoHook,
                "it has no package with an `__init__.py` to hook into".to_owned(),
                "pass `--init none`, or `--framework` with a row that names its `root`",
            );
            return Ok(());
        };
        let version = &group.rocm.version;
        let pin = group.options.requires;
        let is_strict = |it: &InitModule| matches!(it, InitModule::Known(call) if call.fail_on_version_mismatch);
        let call = InitCall {
            preload: self.preload(),
            check_version: pin.unwrap_or_else(|| VersionPin::usual(version)).pattern(version),
            // What another version of ROCm means is the framework's to decide.
            fail_on_version_mismatch: module.as_ref().is_some_and(is_strict),
        };
        let directory = package.strip_suffix("__init__.py").unwrap_or_default();
        let module = format!("{directory}{}", init_module::FILE);
        let plan = &mut self.plan;
        let text = call.render(plan.record.requirement.as_deref().unwrap_or("rocm"));
        plan.texts.insert(module.clone(), text);
        if !has_hook {
            let source = wheel.text(package)?.unwrap_or_default();
            let hooked = init_module::with_hook(&source)?;
            plan.texts.insert(package.to_owned(), hooked);
        }
        plan.init = Some(PlannedInit { adds_hook: !has_hook, check_version: call.check_version });
        plan.record.preload = call.preload;
        plan.record.init = Some(module);
        Ok(())
    }

    /// Without a hook there is no module. On Windows that is no tie at all.
    fn without_hook(&mut self) {
        if self.wheel.is_for_windows() {
            let file = init_module::FILE;
            self.refuse(
                RefusalKind::NoHook,
                format!("no module imports `{file}`, and Windows has no run paths"),
                "pass `--init add`",
            );
        } else if !self.needs.opened.is_empty() {
            let opened = self.needs.opened.iter().map(String::as_str);
            let opened = opened.collect::<Vec<_>>().join(", ");
            self.warn(format!(
                "it opens {opened} by name, and nothing loads them before: pass `--init add`"
            ));
        }
    }

    /// The libraries to load, in the order of the table of `rocm_sdk`.
    fn preload(&self) -> Vec<String> {
        let rocm = self.group.rocm;
        let needed = self.needs.libraries.iter().chain(&self.needs.opened);
        let mut names = rocm.preload(needed.map(String::as_str));
        // What only policy asks for is left out if the set does not have it.
        let known = self.row.iter().flat_map(|row| &row.preload);
        names.extend(known.filter(|it| rocm.of_short_name(it).is_some()).cloned());
        rocm.in_order(&names.into_iter().collect())
    }
}
