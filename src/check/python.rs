//! [`PythonModules`]: the Python files of a package or an sdist, and which names their lines bind.
//! The files are not parsed: their builders test that they can be.

use std::collections::BTreeMap;

/// The Python files by their paths, with their bytes if the bytes were kept.
pub(super) type PythonModules<'a> = BTreeMap<&'a str, Option<&'a [u8]>>;

/// Why the entry point `a.b:c` cannot be resolved below the directory `top`. `None` if it can be resolved, or
/// if that is unknown because the bytes of the module were not kept.
pub(super) fn unresolved(modules: &PythonModules<'_>, top: &str, call: &str) -> Option<String> {
    let (module, function) = match call.split_once(':') {
        Some((module, function)) => (module.trim(), function),
        None => (call.trim(), ""),
    };
    let stem = format!("{top}{}", module.replace('.', "/"));
    let mut files = [format!("{stem}.py"), format!("{stem}/__init__.py")].into_iter();
    let Some(source) = files.find_map(|file| modules.get(file.as_str())) else {
        return Some(format!("there is no module `{module}`"));
    };
    // Attributes or extras may follow the object: `main.run`, `main [extra]`.
    let object = function.split(['[', '.']).next().unwrap_or_default().trim();
    let is_missing = !object.is_empty() && source.is_some_and(|source| !may_bind(source, object));
    is_missing.then(|| format!("`{module}` has no `{object}`"))
}

/// Whether a line may bind a name: the line defines, imports, assigns or lists the name, at any depth. A line
/// of a string or a call may look like such a line, so a missing name may be overlooked. A name that exists is
/// reported only if no line spells it, such as a name that `globals()` binds.
fn may_bind(source: &[u8], name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let has_name = |code: &str| code.split(|c| !is_part(c)).any(|word| word == name);
    String::from_utf8_lossy(source).lines().map(str::trim).any(|line| {
        let mut keywords = ["def ", "async def ", "class "].into_iter();
        if let Some(definition) = keywords.find_map(|keyword| line.strip_prefix(keyword)) {
            let defined = definition.trim_start().split(|c| !is_part(c)).next().unwrap_or_default();
            // With `__getattr__` a module has every name.
            return defined == name || defined == "__getattr__";
        }
        let mut words = line.split(|c| !is_part(c));
        // `import a`, `with a as b:`, `for a in b:`
        let has_keyword = words.any(|word| matches!(word, "import" | "as" | "for"));
        // A line may have several assignments: `a = b = 1`, `a = 1; b = 2`.
        let assigned = line.rsplit_once('=').map_or("", |(assigned, _)| assigned);
        // A list of imported names may have several lines, and several names on each.
        let (code, _comment) = line.split_once('#').unwrap_or((line, ""));
        // A parenthesis that opens after a name is a call: `main()`.
        let listed = code.trim_start_matches('(').trim_end_matches([')', ',', '\\', ' ']);
        let is_list = listed.chars().all(|c| is_part(c) || c == ',' || c.is_whitespace());
        (is_list && has_name(listed))
            || has_name(assigned)
            || (has_keyword && (has_name(line) || line.ends_with('*')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_followed() {
        let modules = PythonModules::from([
            ("a/__init__.py", Some(&b"__version__: str = '1'\nfrom .c import (\n    f,\n    g as h,\n)\n"[..])),
            (
                "a/c.py",
                Some(
                    b"try:\n    import os.path, re\nexcept ImportError:\n    pass\n\
                      def f(): ...\nasync  def k(): ...\nclass C(B): pass\nx, y = 1, 2\nf2(1)\nf3()\nprint('z')\n",
                ),
            ),
            ("a/e.py", Some(b"from .c import *\n")),
            ("a/g.py", Some(b"def __getattr__(name): ...\n")),
            ("a/far.py", None),
            (
                "a/listed.py",
                Some(
                    &b"from .c import (\n    main, other,\n    run,  # noqa: F401 (used by scripts)\n    go as start  # a\n)\n\
                      from .c import \\\n    last\nwith f() as opened: pass\nfor step in f(): pass\none = two = 1; three = 3\n"[..],
                ),
            ),
        ]);
        for call in [
            "a:__version__",
            "a:f",
            "a:h",
            "a.c:f",
            "a.c:C",
            "a.c:C.run",
            "a.c:re",
            "a.c:os",
            "a.c:y",
            "a.c",
            "a.c:f [extra]",
            "a.e:any",
            "a.g:any",
            "a.far:any",
            "a.listed:main",
            "a.listed:other",
            "a.listed:run",
            "a.listed:start",
            "a.listed:last",
            "a.listed:opened",
            "a.listed:step",
            "a.listed:two",
            "a.listed:three",
        ] {
            assert_eq!(unresolved(&modules, "", call), None, "{call}");
        }
        let calls = ["a.c:g", "a.c:f2", "a.c:f3", "a.c:z", "a.d:f", "a.d", "b:f"];
        let why = calls.map(|call| unresolved(&modules, "", call).unwrap_or_default());
        insta::assert_snapshot!(why.join("\n"), @"
        `a.c` has no `g`
        `a.c` has no `f2`
        `a.c` has no `f3`
        `a.c` has no `z`
        there is no module `a.d`
        there is no module `a.d`
        there is no module `b`
        ");
    }
}
