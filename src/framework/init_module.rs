//! The module `_rocm_init.py` of a framework, which loads the libraries of ROCm before any extension,
//! and the hook in `__init__.py` that calls it. Both are read without running Python.

use itertools::Itertools as _;
use ruff_python_ast::{ExceptHandler, Expr, ModModule, Stmt};
use serde::Serialize;

use crate::{
    error::{Context as _, Result, ensure},
    package::python_source,
};

/// The file name of the module.
pub(super) const FILE: &str = "_rocm_init.py";
const MODULE: &str = "_rocm_init";
/// The first line of a module that rocwheel writes.
const MARK: &str = "# Written by rocwheel.\n";

/// What an init module does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "form")]
pub(super) enum InitModule {
    /// One function that calls `rocm_sdk.initialize_process` with literals: the form of PyTorch's
    /// builds, and that of rocwheel.
    Known(InitCall),
    /// Anything else.
    Opaque,
}

/// The arguments of `rocm_sdk.initialize_process`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct InitCall {
    /// Libraries by the short names of `rocm_sdk`, in the order in which they are loaded.
    pub preload: Vec<String>,
    /// The version of ROCm that must be installed; `*` stands for anything.
    pub check_version: Option<String>,
    /// Whether another version is an error, and not a warning.
    pub fail_on_version_mismatch: bool,
}

/// The statements of an `__init__.py` that import the init module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct InitHook {
    /// Whether the framework can be imported without the module.
    pub catches_absence: bool,
}

impl InitModule {
    pub(super) fn parse(source: &str) -> Result<Self> {
        let call = python_source::parse(source, |parsed| {
            parsed.errors().is_empty().then(|| call(parsed.syntax())).flatten()
        })?;
        Ok(call.map_or(Self::Opaque, Self::Known))
    }
}

impl InitCall {
    /// The text of a module. `requirement` is what a user should install if ROCm is missing.
    pub(super) fn render(&self, requirement: &str) -> String {
        let mut arguments = Vec::new();
        if !self.preload.is_empty() {
            arguments.push("preload_shortnames=[".to_owned());
            arguments.extend(self.preload.iter().map(|name| format!("    \"{name}\",")));
            arguments.push("],".to_owned());
        }
        let version = self.check_version.as_ref();
        arguments.extend(version.map(|version| format!("check_version=\"{version}\",")));
        if self.fail_on_version_mismatch {
            arguments.push("fail_on_version_mismatch=True,".to_owned());
        }
        let arguments = arguments.into_iter();
        let arguments = arguments.map(|line| format!("        {line}\n")).join("");
        format!(
            "{MARK}def initialize():\n    try:\n        import rocm_sdk\n    \
             except ImportError as error:\n        raise ImportError(\n            \
             \"This package needs ROCm: install '{requirement}' from a ROCm index, not from PyPI\"\n        \
             ) from error\n    rocm_sdk.initialize_process(\n{arguments}    )\n"
        )
    }
}

/// The call in a module of a known form: a function `initialize` without parameters that imports
/// `rocm_sdk` and calls it, and nothing else.
fn call(module: &ModModule) -> Option<InitCall> {
    let [Stmt::FunctionDef(function)] = &module.body[..] else {
        return None;
    };
    let takes_nothing = function.parameters.iter().next().is_none();
    if function.name.as_str() != "initialize" || !takes_nothing {
        return None;
    }
    let is_import = |it: &Stmt| match it {
        Stmt::Import(it) => it.names.iter().all(|it| it.name.as_str() == "rocm_sdk"),
        Stmt::Try(it) => it.body.iter().all(|it| matches!(it, Stmt::Import(_))),
        Stmt::Expr(it) => matches!(*it.value, Expr::StringLiteral(_)),
        _ => false,
    };
    let (statement, before) = function.body.split_last()?;
    let Stmt::Expr(expression) = statement else {
        return None;
    };
    let Expr::Call(call) = &*expression.value else {
        return None;
    };
    let Expr::Attribute(called) = &*call.func else {
        return None;
    };
    let is_ours = matches!(&*called.value, Expr::Name(it) if it.id.as_str() == "rocm_sdk")
        && called.attr.as_str() == "initialize_process";
    if !is_ours || !before.iter().all(is_import) || !call.arguments.args.is_empty() {
        return None;
    }
    let mut found = InitCall::default();
    for keyword in &call.arguments.keywords {
        match (keyword.arg.as_ref()?.as_str(), &keyword.value) {
            ("preload_shortnames", Expr::List(list)) => {
                let names = list.elts.iter().map(|it| match it {
                    Expr::StringLiteral(text) => Some(text.value.to_str().to_owned()),
                    _ => None,
                });
                found.preload = names.collect::<Option<_>>()?;
            }
            ("check_version", Expr::StringLiteral(text)) => {
                found.check_version = Some(text.value.to_str().to_owned());
            }
            ("fail_on_version_mismatch", Expr::BooleanLiteral(it)) => {
                found.fail_on_version_mismatch = it.value;
            }
            _ => return None,
        }
    }
    Some(found)
}

/// The hook in the source of an `__init__.py`. `None` if nothing there imports the module.
pub(super) fn hook(source: &str) -> Result<Option<InitHook>> {
    if !source.contains(MODULE) {
        return Ok(None);
    }
    python_source::parse(source, |parsed| find(&parsed.syntax().body, false))
}

fn find(body: &[Stmt], catches_absence: bool) -> Option<InitHook> {
    let end = format!(".{MODULE}");
    let hook = || InitHook { catches_absence };
    body.iter().find_map(|statement| match statement {
        Stmt::ImportFrom(it) => {
            let module = it.module.as_deref().unwrap_or_default();
            let is_module = module == MODULE || module.ends_with(&end);
            let mut names = it.names.iter();
            (is_module || names.any(|it| it.name.as_str() == MODULE)).then(hook)
        }
        Stmt::Import(it) => {
            let mut names = it.names.iter();
            names.any(|it| it.name.as_str().ends_with(&end)).then(hook)
        }
        Stmt::Try(it) => {
            let is_caught = it.handlers.iter().any(catches_import_error);
            find(&it.body, is_caught).or_else(|| find(&it.orelse, catches_absence))
        }
        Stmt::If(it) => {
            let mut clauses = it.elif_else_clauses.iter();
            find(&it.body, catches_absence)
                .or_else(|| clauses.find_map(|it| find(&it.body, catches_absence)))
        }
        _ => None,
    })
}

/// Whether a handler catches that a module is absent: `from . import x` raises `ImportError` itself and not
/// its subclass `ModuleNotFoundError`. A handler without a type catches everything.
fn catches_import_error(handler: &ExceptHandler) -> bool {
    let ExceptHandler::ExceptHandler(handler) = handler;
    let is_enough = |it: &Expr| {
        let enough = ["ImportError", "Exception", "BaseException"];
        matches!(it, Expr::Name(it) if enough.contains(&it.id.as_str()))
    };
    match handler.type_.as_deref() {
        None => true,
        Some(Expr::Tuple(it)) => it.elts.iter().any(is_enough),
        Some(one) => is_enough(one),
    }
}

const HOOK: [&str; 7] = [
    "try:",
    "    from . import _rocm_init",
    "except ImportError:",
    "    pass",
    "else:",
    "    _rocm_init.initialize()",
    "    del _rocm_init",
];

/// The source of an `__init__.py` with a hook: behind the docstring, the comments and the imports from
/// `__future__` at its beginning, before everything else.
pub(super) fn with_hook(source: &str) -> Result<String> {
    let end = python_source::parse(source, |parsed| {
        ensure!(parsed.errors().is_empty(), "its Python cannot be parsed");
        let body = parsed.syntax().body.iter().enumerate();
        let head = body.map_while(|(index, it)| match it {
            Stmt::Expr(it) if index == 0 && matches!(*it.value, Expr::StringLiteral(_)) => {
                Some(usize::from(it.range.end()))
            }
            Stmt::ImportFrom(it) if it.module.as_deref() == Some("__future__") => {
                Some(usize::from(it.range.end()))
            }
            _ => None,
        });
        Ok(head.last())
    })??;
    let at = match end {
        // The rest of the line of the last such statement.
        Some(end) => {
            let rest = source.get(end..).context("a statement beyond the end of its source")?;
            end + rest.find('\n').map_or(rest.len(), |it| it + 1)
        }
        None => source
            .split_inclusive('\n')
            .take_while(|line| line.starts_with('#'))
            .map(str::len)
            .sum(),
    };
    let (before, after) = source.split_at(at);
    let newline = if source.contains("\r\n") { "\r\n" } else { "\n" };
    let is_line_open = !before.is_empty() && !before.ends_with('\n');
    let gap = if is_line_open { newline } else { "" };
    let hook = HOOK.join(newline);
    Ok(format!("{before}{gap}{hook}{newline}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> InitCall {
        InitCall {
            preload: vec!["amdhip64".to_owned(), "hipblas".to_owned()],
            check_version: Some("7.14.*".to_owned()),
            fail_on_version_mismatch: true,
        }
    }

    #[test]
    fn a_module_reads_back() {
        let text = ours().render("rocm[libraries]==7.14.*");
        insta::assert_snapshot!(text, @r#"
        # Written by rocwheel.
        def initialize():
            try:
                import rocm_sdk
            except ImportError as error:
                raise ImportError(
                    "This package needs ROCm: install 'rocm[libraries]==7.14.*' from a ROCm index, not from PyPI"
                ) from error
            rocm_sdk.initialize_process(
                preload_shortnames=[
                    "amdhip64",
                    "hipblas",
                ],
                check_version="7.14.*",
                fail_on_version_mismatch=True,
            )
        "#);
        assert_eq!(InitModule::parse(&text).unwrap(), InitModule::Known(ours()));
        let nothing = InitCall::default();
        let text = nothing.render("rocm==7.14.0");
        assert_eq!(InitModule::parse(&text).unwrap(), InitModule::Known(nothing));
    }

    #[test]
    fn the_module_of_pytorch_is_understood_and_any_other_is_opaque() {
        let upstream = "\ndef initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(\n        \
                        preload_shortnames=['amd_comgr', 'amdhip64'],\n        check_version='7.14.0a20260812')\n";
        let InitModule::Known(call) = InitModule::parse(upstream).unwrap() else {
            panic!("opaque");
        };
        assert_eq!(call.preload, ["amd_comgr", "amdhip64"]);
        assert_eq!(call.check_version.as_deref(), Some("7.14.0a20260812"));
        for other in [
            "",
            "import os\ndef initialize(): pass\n",
            "def initialize():\n    import os\n    os.remove('/')\n",
            "def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(check_version=V)\n",
            "def initialize(x):\n    rocm_sdk.initialize_process()\n",
            "def broken(:\n",
        ] {
            assert_eq!(InitModule::parse(other).unwrap(), InitModule::Opaque, "{other}");
        }
    }

    #[test]
    fn a_hook_says_what_it_catches() {
        let caught = |source: &str| hook(source).unwrap().map(|it| it.catches_absence);
        assert_eq!(caught("import os\n"), None);
        assert_eq!(caught("# _rocm_init\n"), None);
        assert_eq!(caught("from . import _rocm_init\n"), Some(false));
        let tried = |error: &str| {
            caught(&format!(
                "if True:\n  try:\n    from . import _rocm_init\n  except {error}:\n    pass\n"
            ))
            .unwrap()
        };
        assert!(tried("ImportError") && tried("(OSError, ImportError)") && tried("Exception"));
        assert!(!tried("ModuleNotFoundError"));
        assert!(caught("import x._rocm_init\n").is_some());
        assert!(caught("from ._rocm_init import initialize\n").is_some());
    }

    #[test]
    fn a_hook_comes_before_every_import_but_those_from_the_future() {
        let sources = [
            "",
            "import os\n",
            "# -*- coding: utf-8 -*-\n# Licence\n\nimport os\n",
            "#!/usr/bin/env python\n\"\"\"Doc.\n\nMore.\n\"\"\"\nfrom __future__ import annotations  # why\nimport os\n",
            "'doc'",
            "'doc'\r\nimport os\r\n",
        ];
        let texts = sources.map(|source| {
            let text = with_hook(source).unwrap();
            assert!(hook(&text).unwrap().unwrap().catches_absence);
            text.replace('\r', "<CR>")
        });
        insta::assert_snapshot!(texts.join("--------\n"), @r#"
        try:
            from . import _rocm_init
        except ImportError:
            pass
        else:
            _rocm_init.initialize()
            del _rocm_init
        --------
        try:
            from . import _rocm_init
        except ImportError:
            pass
        else:
            _rocm_init.initialize()
            del _rocm_init
        import os
        --------
        # -*- coding: utf-8 -*-
        # Licence
        try:
            from . import _rocm_init
        except ImportError:
            pass
        else:
            _rocm_init.initialize()
            del _rocm_init

        import os
        --------
        #!/usr/bin/env python
        """Doc.

        More.
        """
        from __future__ import annotations  # why
        try:
            from . import _rocm_init
        except ImportError:
            pass
        else:
            _rocm_init.initialize()
            del _rocm_init
        import os
        --------
        'doc'
        try:
            from . import _rocm_init
        except ImportError:
            pass
        else:
            _rocm_init.initialize()
            del _rocm_init
        --------
        'doc'<CR>
        try:<CR>
            from . import _rocm_init<CR>
        except ImportError:<CR>
            pass<CR>
        else:<CR>
            _rocm_init.initialize()<CR>
            del _rocm_init<CR>
        import os<CR>
        "#);
        assert!(with_hook("import (\n").is_err());
    }
}
