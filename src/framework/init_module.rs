//! The module `_rocm_init.py` of a framework, which loads the libraries of ROCm before any extension,
//! and the hook in `__init__.py` that calls it. Both are read without running Python.

use itertools::Itertools as _;
use serde::Serialize;

use super::python_statements::{Statement, Statements, is_docstring, plain_text};
use rocwheel_base::error::{Context as _, Result, ensure};

/// The file name of the module.
pub(super) const FILE: &str = "_rocm_init.py";
const MODULE: &str = "_rocm_init";
/// The first line of a module that rocwheel writes.
const MARK: &str = "# Written by rocwheel.\n";

/// What an init module does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "form")]
pub(super) enum InitModule {
    /// One function that calls `rocm_sdk.initialize_process` with literals. The builds of PyTorch and
    /// rocwheel write this form.
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
    pub(super) fn parse(source: &str) -> Self {
        let statements: Result<Vec<_>> = Statements::new(source).collect();
        match statements.ok().and_then(|statements| parse_module(&statements)) {
            Some(call) => Self::Known(call),
            None => Self::Opaque,
        }
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
        if let Some(version) = &self.check_version {
            arguments.push(format!("check_version=\"{version}\","));
        }
        if self.fail_on_version_mismatch {
            arguments.push("fail_on_version_mismatch=True,".to_owned());
        }
        let lines = arguments.iter().map(|line| format!("        {line}\n")).join("");
        format!(
            "{MARK}def initialize():\n    try:\n        import rocm_sdk\n    \
             except ImportError as error:\n        raise ImportError(\n            \
             \"This package needs ROCm: install '{requirement}' from a ROCm index, not from PyPI\"\n        \
             ) from error\n    rocm_sdk.initialize_process(\n{lines}    )\n"
        )
    }
}

/// The call in a module of a known form: a function `initialize` without parameters that imports
/// `rocm_sdk` and calls it, and nothing else.
fn parse_module(statements: &[Statement<'_>]) -> Option<InitCall> {
    let (function, body) = statements.split_first()?;
    let is_function = matches!(
        function.tokens[..],
        ["def", "initialize", "(", ")", ":"] | ["def", "initialize", "(", ")", "-", ">", _, ":"]
    );
    let indent = body.first()?.indent;
    let is_inside = |it: &Statement<'_>| !indent.is_empty() && it.indent.starts_with(indent);
    let (last, before) = body.split_last()?;
    let is_known_form = is_function
        && body.iter().all(is_inside)
        && last.indent == indent
        && only_imports(before, indent);
    if !is_known_form {
        return None;
    }
    let start = ["rocm_sdk", ".", "initialize_process", "("];
    let arguments = last.tokens.strip_prefix(&start[..])?.strip_suffix(&[")"][..])?;
    parse_arguments(arguments)
}

/// Whether the statements of a block are a docstring, imports of `rocm_sdk`, and `try` around such an import.
fn only_imports(statements: &[Statement<'_>], indent: &str) -> bool {
    // The part of a `try` that deeper statements belong to.
    let mut part = "";
    statements.iter().all(|statement| {
        let is_import = statement.tokens == ["import", "rocm_sdk"];
        if statement.indent != indent {
            return part == "except" || (part == "try" && is_import);
        }
        part = match statement.tokens[..] {
            ["try", ":"] => "try",
            ["except", .., ":"] => "except",
            _ => "",
        };
        let is_text = matches!(statement.tokens[..], [text] if is_docstring(text));
        is_import || is_text || !part.is_empty()
    })
}

/// The arguments of `rocm_sdk.initialize_process`, if each is a literal.
fn parse_arguments(tokens: &[&str]) -> Option<InitCall> {
    let mut call = InitCall::default();
    let mut rest = tokens;
    while let [name, "=", value, after @ ..] = rest {
        rest = after;
        match (*name, *value) {
            ("preload_shortnames", "[") => {
                let end = rest.iter().position(|it| *it == "]")?;
                call.preload = parse_strings(&rest[..end])?;
                rest = &rest[end + 1..];
            }
            ("check_version", string) => call.check_version = Some(plain_text(string)?.to_owned()),
            ("fail_on_version_mismatch", "True") => call.fail_on_version_mismatch = true,
            ("fail_on_version_mismatch", "False") => call.fail_on_version_mismatch = false,
            _ => return None,
        }
        match rest {
            [] => {}
            [",", after @ ..] => rest = after,
            _ => return None,
        }
    }
    rest.is_empty().then_some(call)
}

/// The strings of a list, without its brackets.
fn parse_strings(tokens: &[&str]) -> Option<Vec<String>> {
    let items = tokens.strip_suffix(&[","][..]).unwrap_or(tokens);
    if items.is_empty() {
        // Python refuses a list that has only a comma.
        return tokens.is_empty().then(Vec::new);
    }
    let strings = items.split(|token| *token == ",").map(|item| match item {
        [string] => plain_text(string).map(str::to_owned),
        _ => None,
    });
    strings.collect()
}

/// Finds the hook in the source of an `__init__.py`. `None` if no statement imports the module.
pub(super) fn find_hook(source: &str) -> Result<Option<InitHook>> {
    if !source.contains(MODULE) {
        return Ok(None);
    }
    let mut statements = Statements::new(source);
    // The blocks around a statement: the indentation of each, and its keyword.
    let mut blocks: Vec<(&str, &str)> = Vec::new();
    while let Some(statement) = statements.next().transpose()? {
        if !statement.is_continued {
            blocks.retain(|(indent, _)| indent.len() < statement.indent.len());
        }
        let (keyword, inside) = split_header(&statement.tokens);
        blocks.extend(keyword.map(|keyword| (statement.indent, keyword)));
        // What is in a function or a loop may never run.
        let runs = blocks.iter().all(|(_, it)| matches!(*it, "try" | "if" | "elif" | "else"));
        if !runs || !imports_module(inside) {
            continue;
        }
        let tries: Vec<&str> = blocks
            .iter()
            .filter(|(_, keyword)| *keyword == "try")
            .map(|(indent, _)| *indent)
            .collect();
        return Ok(Some(InitHook { catches_absence: catches_absence(statements, &tries)? }));
    }
    Ok(None)
}

/// The keyword of a compound statement, and the statement that follows it on its line, if any; or no keyword,
/// and the tokens of a simple statement.
fn split_header<'a, 'b>(tokens: &'b [&'a str]) -> (Option<&'a str>, &'b [&'a str]) {
    const KEYWORDS: [&str; 12] = [
        "async", "class", "def", "elif", "else", "except", "finally", "for", "if", "try", "while",
        "with",
    ];
    let keyword = tokens.first().copied().filter(|it| KEYWORDS.contains(it));
    let mut depth = 0_usize;
    let colon = tokens.iter().position(|token| {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        *token == ":" && depth == 0
    });
    match (keyword, colon) {
        (Some(_), Some(colon)) => (keyword, &tokens[colon + 1..]),
        _ => (None, tokens),
    }
}

/// Whether a statement imports the init module, or something of it.
fn imports_module(tokens: &[&str]) -> bool {
    let mut pairs = tokens.windows(2);
    match tokens.first() {
        Some(&"from") => pairs.any(|pair| pair[0] != "as" && pair[1] == MODULE),
        Some(&"import") => pairs.any(|pair| pair == [".", MODULE]),
        _ => false,
    }
}

/// Whether one of the `try` blocks with these indentations catches that a module is absent. The statements are
/// those behind the import.
fn catches_absence(mut statements: Statements<'_>, tries: &[&str]) -> Result<bool> {
    let mut open = tries.to_vec();
    while let Some(statement) = statements.next().transpose()? {
        let is_handler = statement.tokens.first() == Some(&"except");
        // A block ends before a statement that is not deeper, except for its own handlers.
        open.retain(|indent| {
            let deeper = statement.is_continued || statement.indent.len() > indent.len();
            deeper || (is_handler && statement.indent == *indent)
        });
        let Some(innermost) = open.last() else { break };
        if is_handler && statement.indent == *innermost && catches_import_error(&statement.tokens) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a handler catches that a module is absent: `from . import x` raises `ImportError` itself and not
/// its subclass `ModuleNotFoundError`. A handler without a type catches everything.
fn catches_import_error(handler: &[&str]) -> bool {
    if handler.get(1) == Some(&":") {
        return true;
    }
    let types = ["ImportError", "Exception", "BaseException"];
    let alias = handler.iter().position(|token| *token == "as").unwrap_or(handler.len());
    // `module.ImportError` is another type.
    handler[..alias].windows(2).any(|pair| pair[0] != "." && types.contains(&pair[1]))
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
    let has_lone_returns = source.replace("\r\n", "").contains('\r');
    ensure!(!has_lone_returns, "its lines end in a carriage return alone");
    let (head, rest) = source.split_at(end_of_head(source)?);
    let newline = if source.contains("\r\n") { "\r\n" } else { "\n" };
    // A source that ends with its head may lack the last line break.
    let is_line_open = !head.is_empty() && !head.ends_with(['\n', '\u{feff}']);
    let gap = if is_line_open { newline } else { "" };
    let hook = HOOK.join(newline);
    Ok(format!("{head}{gap}{hook}{newline}{rest}"))
}

/// The offset of the first statement that the hook has to come before.
fn end_of_head(source: &str) -> Result<usize> {
    let mut head = None;
    for (index, statement) in Statements::new(source).enumerate() {
        let statement = statement.context("its Python is not understood")?;
        let tokens = &statement.tokens;
        let is_string_or_bracket = |it: &&str| is_docstring(it) || matches!(*it, "(" | ")");
        let is_module_docstring = index == 0 && tokens.iter().all(is_string_or_bracket);
        if !is_module_docstring && !tokens.starts_with(&["from", "__future__", "import"]) {
            ensure!(
                !statement.is_continued,
                "a statement begins on the last line of its docstring"
            );
            break;
        }
        head = statement.end;
    }
    Ok(head.unwrap_or_else(|| end_of_comments(source)))
}

/// The offset at which the comments end at the beginning of a source. A comment in one of the first two lines may
/// name the encoding, and has to stay in them.
fn end_of_comments(source: &str) -> usize {
    let mut end = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut end_of_line = end;
    let mut has_only_comments = true;
    for (index, line) in source[end..].split_inclusive('\n').enumerate() {
        end_of_line += line.len();
        has_only_comments &= line.starts_with('#');
        let names_encoding =
            index < 2 && line.trim_start().starts_with('#') && line.contains("coding");
        if has_only_comments || names_encoding {
            end = end_of_line;
        }
    }
    end
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
        assert_eq!(InitModule::parse(&text), InitModule::Known(ours()));
        let nothing = InitCall::default();
        let text = nothing.render("rocm==7.14.0");
        assert_eq!(InitModule::parse(&text), InitModule::Known(nothing));
    }

    #[test]
    fn the_module_of_pytorch_is_understood_and_any_other_is_opaque() {
        let upstream = "\ndef initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(\n        \
                        preload_shortnames=['amd_comgr', 'amdhip64'],\n        check_version='7.14.0a20260812')\n";
        let InitModule::Known(call) = InitModule::parse(upstream) else {
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
            "def initialize():\n  try:\n    rocm_sdk.initialize_process()\n",
            "def initialize():\n  try:\n    import os\n  except ImportError:\n    pass\n  rocm_sdk.initialize_process()\n",
            "def initialize():\n  rocm_sdk.initialize_process(preload_shortnames=['a' 'b'])\n",
            "def initialize():\n  rocm_sdk.initialize_process(check_version='a', *b)\n",
            "def initialize():\n  rocm_sdk.initialize_process(check_version=f'{v}')\n",
            "def initialize():\n  rocm_sdk.initialize_process('a')\n",
            "def initialize():\n  rocm_sdk.initialize_process()\nx = 1\n",
            "def initialize():\n  rocm_sdk.initialize_process(); x = 1\n",
        ] {
            assert_eq!(InitModule::parse(other), InitModule::Opaque, "{other}");
        }
    }

    #[test]
    fn a_hook_says_what_it_catches() {
        let caught = |source: &str| find_hook(source).unwrap().map(|it| it.catches_absence);
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
        assert!(tried("(a.ImportError, ImportError) as error") && tried("Exception as e"));
        assert!(!tried("a.ImportError") && !tried("OSError as Exception"));
        for (source, catches) in [
            ("try: import os; from . import _rocm_init\nexcept ImportError: pass\n", Some(true)),
            (
                "try:\n  from . import _rocm_init\nexcept OSError:\n  pass\nexcept:\n  pass\n",
                Some(true),
            ),
            ("try:\n  pass\nexcept ImportError:\n  from . import _rocm_init\n", None),
            (
                "try:\n  pass\nexcept ImportError:\n  pass\nelse:\n  from . import _rocm_init\n",
                Some(false),
            ),
            (
                "try:\n  try:\n    from . import _rocm_init\n  finally:\n    pass\nexcept ImportError:\n  pass\n",
                Some(true),
            ),
            (
                "try:\n  from . import _rocm_init\nfinally:\n  pass\ntry:\n  a\nexcept ImportError:\n  pass\n",
                Some(false),
            ),
            ("def f():\n  from . import _rocm_init\n", None),
            ("if a:\n  pass\nelse: from . import _rocm_init\n", Some(false)),
            ("'''\nfrom . import _rocm_init\n'''\n", None),
            ("from . import (\n  a,\n  _rocm_init,\n)\n", Some(false)),
            ("from . import a as _rocm_init\n", None),
        ] {
            assert_eq!(caught(source), catches, "{source}");
        }
        assert!(find_hook("a = '\nfrom . import _rocm_init\n").is_err());
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
            assert!(find_hook(&text).unwrap().unwrap().catches_absence);
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
        for refused in ["import (\n", "'doc'; import os\n", "'doc\n", "# a\rimport os\r"] {
            assert!(with_hook(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_hook_leaves_the_encoding_where_python_looks_for_it() {
        for head in [
            "\u{feff}",
            "\u{feff}# one\n",
            "\n# -*- coding: utf-8 -*-\n",
            "  # coding=utf-8\n",
            "# one\n\u{20}# coding=utf-8\n",
            "r'doc' \\\n  'more'  # why\n",
            "('doc')\nfrom __future__ import (\n  a,\n  b)\n",
            "'doc'; from __future__ import a;\n",
        ] {
            let text = with_hook(&format!("{head}import os\n")).unwrap();
            assert!(text.starts_with(&format!("{head}try:\n")), "{text}");
        }
    }
}
