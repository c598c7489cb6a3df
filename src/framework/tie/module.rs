//! The init module of a tied wheel, and the hook that calls it.

use itertools::Itertools as _;

use super::{InitMode, Tie, VersionPin, plan::PlannedInit};
use crate::framework::{
    facts,
    init_module::{self, InitCall, InitModule},
    refusal::RefusalKind,
};
use rocwheel_base::error::Result;

impl Tie<'_> {
    pub(super) fn plan_init_module(&mut self) -> Result<()> {
        let wheel = self.wheel;
        let group = self.group;
        let init = facts::find_init(wheel, group.providers.policy)?;
        let has_hook = init.as_ref().is_some_and(|init| init.hook.is_some());
        match group.options.init {
            InitMode::None => return Ok(()),
            InitMode::Auto if !has_hook => {
                self.explain_missing_hook();
                return Ok(());
            }
            InitMode::Auto | InitMode::Add => {}
        }
        let old_module = init.as_ref().and_then(|init| init.module.clone());
        // The module may do more than load libraries, so it is not replaced.
        if old_module == Some(InitModule::Opaque) {
            let file = init_module::FILE;
            self.refuse(
                RefusalKind::OpaqueInit,
                format!("its `{file}` is of no form that rocwheel knows"),
                "remove the module, or pass `--init none` to leave it alone",
            );
            return Ok(());
        }
        let mut roots = init
            .map(|init| init.root)
            .into_iter()
            .chain(group.providers.policy.root_of(&wheel.name.name))
            .chain(facts::roots(wheel));
        let Some(init_file) = roots.find_map(|root| wheel.member(&format!("{root}/__init__.py")))
        else {
            self.refuse(
                RefusalKind::NoHook,
                "it has no package with an `__init__.py` to hook into".to_owned(),
                "pass `--init none`, or `--framework` with a row that names its `root`",
            );
            return Ok(());
        };
        let version = &group.rocm.version;
        let pin = group.options.requires.unwrap_or_else(|| VersionPin::usual(version));
        let call = InitCall {
            preload: self.libraries_to_preload(),
            check_version: pin.pattern(version),
            // The framework decides whether another version of ROCm is an error.
            fail_on_version_mismatch: matches!(
                old_module,
                Some(InitModule::Known(call)) if call.fail_on_version_mismatch
            ),
        };
        let directory = init_file.strip_suffix("__init__.py").unwrap_or_default();
        let module = format!("{directory}{}", init_module::FILE);
        let plan = &mut self.plan;
        // What brings `rocm_sdk`.
        let provider = match &group.bundle {
            Some(bundle) => {
                group.versions.get(&bundle.project).map(|it| format!("{}=={it}", bundle.project))
            }
            None => plan.record.requirement.clone(),
        };
        let code = call.render(provider.as_deref().unwrap_or("rocm"));
        plan.texts.insert(module.clone(), code.into());
        if !has_hook {
            let source = wheel.python(init_file)?.unwrap_or_default();
            let hooked = init_module::with_hook(&source.text)?;
            plan.texts.insert(init_file.to_owned(), source.encoding.encode(&hooked));
        }
        plan.init = Some(PlannedInit { adds_hook: !has_hook, check_version: call.check_version });
        plan.record.preload = call.preload;
        plan.record.init = Some(module);
        Ok(())
    }

    /// Says what follows if no hook imports a module, and none is written. On Windows the wheel is refused: nothing
    /// else could find the libraries.
    fn explain_missing_hook(&mut self) {
        if self.wheel.is_for_windows() {
            let file = init_module::FILE;
            self.refuse(
                RefusalKind::NoHook,
                format!("no module imports `{file}`, and Windows has no run paths"),
                "pass `--init add`",
            );
        } else if !self.needs.opened.is_empty() {
            let opened = self.needs.opened.iter().join(", ");
            self.warn(format!(
                "it opens {opened} by name, and nothing loads them before: pass `--init add`"
            ));
        }
    }

    /// The short names of the libraries to load, in the order of the table of `rocm_sdk`.
    fn libraries_to_preload(&self) -> Vec<String> {
        let rocm = self.group.rocm;
        let needed = self.needs.libraries.iter().chain(&self.needs.opened);
        let mut names = rocm.preload(needed.map(String::as_str));
        // A library that only policy asks for is left out if the set does not have it.
        let by_policy = self.row.iter().flat_map(|row| &row.preload);
        names.extend(by_policy.filter(|name| rocm.of_short_name(name).is_some()).cloned());
        rocm.in_order(&names.into_iter().collect())
    }
}
