//! [`Rule`]: the list of all rules, each with an id that never changes. `docs/checks.md` explains
//! them.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Not a defect: something that the check skips, or that another tool made.
    Note,
    /// It works for most users, or is a matter of policy.
    Warning,
    /// The set does not work for users who install it.
    Error,
}

/// A kind of defect of a package set.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// `RW202`. The first digit is the subject.
    pub id: &'static str,
    /// `missing-device-wheel`
    pub name: &'static str,
    pub severity: Severity,
    /// How to fix it.
    pub way_out: &'static str,
}

/// Declares a constant for each rule, and the list of all rules.
macro_rules! rules {
    ($($constant:ident = $severity:ident $id:literal $name:literal: $way_out:literal;)*) => {
        $(pub const $constant: &Rule = &Rule {
            id: $id,
            name: $name,
            severity: Severity::$severity,
            way_out: $way_out,
        };)*

        /// Every rule, sorted by id.
        pub const RULES: &[&Rule] = &[$($constant),*];
    };
}

rules! {
    UNREADABLE_PACKAGE = Error "RW101" "unreadable-package":
        "build or copy the file again";
    DAMAGED_MEMBER = Error "RW102" "damaged-member":
        "build or copy the wheel again";
    TRAILING_BYTES = Error "RW103" "trailing-bytes":
        "write the wheel again, with no bytes before or after the zip archive";
    INCONSISTENT_ZIP = Error "RW104" "inconsistent-zip":
        "write the wheel again: both lists must name the same members, each once";
    BAD_PATH = Error "RW105" "bad-path":
        "rename the file: paths in a wheel are relative, without `..` and without backslashes";
    NOT_A_FILE = Error "RW106" "not-a-file":
        "ship a copy or a launcher instead of the symlink";
    INVALID_RECORD = Error "RW107" "invalid-record":
        "write RECORD again: one row of path, hash and size for each member";
    RECORD_MISMATCH = Error "RW108" "record-mismatch":
        "build the wheel again: it was changed after its RECORD was written";
    UNRECORDED_MEMBER = Error "RW109" "unrecorded-member":
        "build the wheel again, so that RECORD lists every member";
    MISSING_MEMBER = Error "RW110" "missing-member":
        "build the wheel again, so that RECORD lists only its members";
    METADATA_DISAGREES = Error "RW111" "metadata-disagrees":
        "build the package again: installers use the file name, and refuse other metadata";
    WHEEL_DISAGREES = Error "RW112" "wheel-disagrees":
        "build the wheel again with the tag of its name and `Root-Is-Purelib: true`";
    CONFLICTING_PATH = Error "RW113" "conflicting-path":
        "remove the file from all packages but one";
    SHARED_PATH = Warning "RW114" "shared-path":
        "remove the file from all packages but one";
    CASE_CLASH = Warning "RW115" "case-clash":
        "rename one of the files";
    LONG_PATH = Error "RW116" "long-path":
        "shorten the path, or tell users to install into a shorter directory";
    BROKEN_PYTHON = Error "RW117" "broken-python":
        "build the package again: this Python file cannot be imported";
    BROKEN_IMPORT = Error "RW118" "broken-import":
        "ship the module with the function, or remove the reference to it";
    BROKEN_SDIST = Error "RW119" "broken-sdist":
        "build the sdist again: installers cannot build a wheel from this one";
    FOREIGN_FILE = Error "RW120" "foreign-file":
        "remove the file from the wheel";
    NOT_EXECUTABLE = Error "RW121" "not-executable":
        "pack the program with its execute bits";
    REQUIRES_PYTHON = Error "RW122" "requires-python":
        "write a `Requires-Python` such as `>=3.10`";

    UNRESOLVED_REQUIREMENT = Error "RW201" "unresolved-requirement":
        "build the missing package, or remove the requirement";
    MISSING_DEVICE_WHEEL = Error "RW202" "missing-device-wheel":
        "build the device package of the target, or build `rocm` without the target";
    UNADVERTISED_DEVICE_WHEEL = Error "RW203" "unadvertised-device-wheel":
        "name the target in `build --linux-amdgpu-families`, or remove its wheel";
    VERSIONS_DISAGREE = Error "RW204" "versions-disagree":
        "build all packages of a set at once, into an empty directory";
    MISSING_SELECTOR = Error "RW205" "missing-selector":
        "add the `rocm` sdist to the set";
    UNKNOWN_TARGET = Error "RW206" "unknown-target":
        "add the target to `src/target.toml`, or correct its name";
    DUPLICATE_PACKAGE = Error "RW207" "duplicate-package":
        "keep one of them";
    SELECTOR_DIFFERS = Error "RW208" "selector-differs":
        "build both sets from one commit with one list of targets";
    FOREIGN_REQUIREMENT = Warning "RW209" "foreign-requirement":
        "remove the requirement, or pass `--allow-requirements` if the base index has the project";
    FOREIGN_PACKAGE = Note "RW210" "foreign-package":
        "nothing to do: the project tests its own packages";
    LEGACY_PROMISE = Note "RW211" "legacy-promise":
        "nothing to do: install the libraries of the family, which contain its device code";
    LOOSE_REQUIREMENT = Error "RW212" "loose-requirement":
        "require our packages with `==` and the version of the set";
    UNKEPT_PROMISE = Error "RW213" "unkept-promise":
        "build with the artifact that has the file, or leave it out with `build --without`";

    FOREIGN_DEVICE_FILE = Error "RW301" "foreign-device-file":
        "move the file to the device package of its target";
    DEVEL_LINKS_DISAGREE = Error "RW302" "devel-links-disagree":
        "build the device package again, so that its `.devel_links` lists its files";
    UNCOVERED_LIBRARY = Warning "RW303" "uncovered-library":
        "build the library for the target, or document that it does not support it";
    REQUIRED_TARGET = Error "RW304" "required-target":
        "build the target, or remove it from `--require-targets`";
    EMPTY_DEVICE_WHEEL = Error "RW305" "empty-device-wheel":
        "find out why the build has no device code for the target";
    EMPTY_VARIANT = Warning "RW306" "empty-variant":
        "build the variant completely, or leave it out";
    DEVICE_FILE_IN_HOST_WHEEL = Warning "RW307" "device-file-in-host-wheel":
        "move the file to the device package of its target";
    BROKEN_KPACK_REFERENCE = Error "RW308" "broken-kpack-reference":
        "split the library again, and do not strip it afterwards";
    UNRESOLVED_KPACK = Error "RW309" "unresolved-kpack":
        "ship the archives at the path that the library names, relative to its own directory";
    MISSING_KERNELS = Error "RW310" "missing-kernels":
        "build the archive again from all libraries that use it, or give it another name";
    UNREADABLE_DEVICE_CODE = Error "RW311" "unreadable-device-code":
        "build the file again: it was truncated or changed";
    UNASKED_ARCHIVE = Warning "RW312" "unasked-archive":
        "name the archive as its libraries do, or leave it out";
    BEYOND_PROVIDER = Warning "RW313" "beyond-provider":
        "build both libraries for the same targets";
    ONLY_WITH_XNACK = Error "RW314" "only-with-xnack":
        "build the library for the target itself, for GPUs with XNACK off";
    LOST_DEVICE_CODE = Error "RW315" "lost-device-code":
        "use the generic artifact and the artifacts of all targets from one run of the split";

    MISSING_LIBRARY = Error "RW401" "missing-library":
        "ship the library, or add its directory to the run path of the file that needs it";
    LUCKY_LIBRARY = Warning "RW402" "lucky-library":
        "add the directory to the run path of the file itself";
    RUNPATH = Warning "RW403" "runpath":
        "build with rocwheel, which writes DT_RPATH";
    SONAME_WITHOUT_FILE = Error "RW404" "soname-without-file":
        "ship the library under its SONAME";
    TOO_NEW_A_HOST = Error "RW405" "too-new-a-host":
        "build on an older system, or raise `--glibc-max` and document it";
    BROKEN_ELF = Error "RW406" "broken-elf":
        "find the tool that damaged the file: strip and old patchelf versions do";
    DANGLING_LAUNCHER = Error "RW407" "dangling-launcher":
        "ship the executable that the launcher runs, or leave the launcher out";
    FOREIGN_MACHINE = Warning "RW408" "foreign-machine":
        "leave the file out: the wheel's platform is x86-64";
    UNEXAMINED_ELF = Warning "RW409" "unexamined-elf":
        "find out what fills its tables: no linker writes such an ELF file";

    UNREADABLE_DEVEL = Error "RW501" "unreadable-devel":
        "build the devel package again";
    DEVEL_MANIFEST_DISAGREES = Error "RW502" "devel-manifest-disagrees":
        "build the devel package again, so that its manifest matches its archive";
    DEVEL_ORDER = Error "RW503" "devel-order":
        "build the devel package again: a directory comes before its contents, all under one top directory";
    DANGLING_DEVEL_LINK = Error "RW504" "dangling-devel-link":
        "ship the target of the link in the package that it names, or remove the link";
    DANGLING_TREE_LINK = Warning "RW505" "dangling-tree-link":
        "remove the symlink from the artifact";
    NO_DEVEL_MANIFEST = Note "RW506" "no-devel-manifest":
        "nothing to do: build with rocwheel to have the unpacked tree verified";

    ABSOLUTE_RUN_PATH = Warning "RW601" "absolute-run-path":
        "build with relative run paths";
    OPEN_RUN_PATH = Error "RW602" "open-run-path":
        "remove the empty entry";
    SETUID_MEMBER = Error "RW603" "setuid-member":
        "remove the setuid and setgid bits";
    WORLD_WRITABLE = Error "RW604" "world-writable":
        "make the file writable only for its owner";
    DEBUG_LEFTOVER = Warning "RW605" "debug-leftover":
        "leave the file to the `dbg` artifacts";

    PROMISED_FILE_MISSING = Error "RW701" "promised-file-missing":
        "upload the file, or write the index again";
    BROKEN_PROMISE = Error "RW702" "broken-promise":
        "upload the files and the index of one set";
    WRONG_SIDECAR = Error "RW703" "wrong-sidecar":
        "write the index again";
    PAGES_DISAGREE = Error "RW704" "pages-disagree":
        "write the index again";
    UNLISTED_PACKAGE = Warning "RW705" "unlisted-package":
        "write the index again, or remove the file";
    UNREADABLE_PAGE = Error "RW706" "unreadable-page":
        "write the index again";

    PACKAGE_GONE = Error "RW801" "package-gone":
        "build the package, or compare with another baseline";
    TARGET_GONE = Error "RW802" "target-gone":
        "build the device package of the target, or compare with another baseline";
    FILES_GONE = Warning "RW803" "files-gone":
        "find the change that removed the files, or raise `--gone-max`";
    PACKAGE_GROWN = Warning "RW804" "package-grown":
        "find out what was added, or raise `--growth-max`";
    NEW_ARCHITECTURE = Warning "RW805" "new-architecture":
        "move the files to the device package of their target, or accept the finding";

    PLANNED_MISSING = Error "RW901" "planned-missing":
        "build again";
    UNPLANNED = Error "RW902" "unplanned":
        "build into an empty directory, and add nothing to packages afterwards";
    NOT_AS_PLANNED = Error "RW903" "not-as-planned":
        "build again from these artifacts, or compare with the plan of this set";
}

impl Rule {
    /// Whether the rule needs the whole set.
    ///
    /// A part is what one of several jobs builds and uploads. Packages that it requires, targets of
    /// its links and libraries for its code may be in other parts, so that a part may break these
    /// rules although the set is correct.
    pub fn needs_whole_set(&self) -> bool {
        const OF_THE_WHOLE: [&Rule; 16] = [
            UNRESOLVED_REQUIREMENT,
            MISSING_DEVICE_WHEEL,
            UNADVERTISED_DEVICE_WHEEL,
            MISSING_SELECTOR,
            DEVEL_LINKS_DISAGREE,
            UNCOVERED_LIBRARY,
            REQUIRED_TARGET,
            UNRESOLVED_KPACK,
            MISSING_KERNELS,
            UNASKED_ARCHIVE,
            BEYOND_PROVIDER,
            MISSING_LIBRARY,
            LUCKY_LIBRARY,
            SONAME_WITHOUT_FILE,
            DANGLING_LAUNCHER,
            DANGLING_DEVEL_LINK,
        ];
        OF_THE_WHOLE.contains(&self)
    }

    /// The digit of the subject: `7` is for published pages.
    pub fn subject(&self) -> char {
        self.id.chars().nth(2).unwrap_or_default()
    }

    /// Whether the rule is about published pages.
    pub fn is_about_pages(&self) -> bool {
        self.id.starts_with("RW7")
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.name)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_ascend_and_names_are_unique() {
        assert!(RULES.windows(2).all(|pair| pair[0].id < pair[1].id));
        let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
    }

    #[test]
    fn a_way_out_is_a_fragment() {
        for rule in RULES {
            assert!(!rule.way_out.ends_with('.'), "{rule}");
            assert!(rule.way_out.starts_with(char::is_lowercase), "{rule}");
        }
    }

    #[test]
    fn every_rule_is_explained_with_its_way_out_and_no_other_is() {
        let page = include_str!("../../docs/checks.md");
        let explained: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("### "))
            .collect();
        let rules: Vec<String> = RULES
            .iter()
            .map(|rule| format!("{rule} ({})", rule.severity))
            .collect();
        assert_eq!(explained, rules);
        for rule in RULES {
            let way_out = format!("\nFix: {}.\n", rule.way_out);
            assert!(page.contains(&way_out), "{rule} lacks: {way_out}");
        }
    }
}
