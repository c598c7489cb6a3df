//! The targets of a release on Linux and on Windows.

use std::collections::BTreeSet;

use crate::target::{Scope, Target};

/// The targets that the `rocm` package offers. It is the same on every platform, so it lists the
/// targets of both. The lists are sorted and have no duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformView {
    /// What a user on Linux can select.
    pub linux: Vec<Scope>,
    /// What a user on Windows can select.
    pub windows: Vec<Scope>,
    /// What a user of either system can select.
    pub available: Vec<Scope>,
    /// The target for users who select none and whose GPU is unknown.
    pub default: Option<Scope>,
}

impl PlatformView {
    /// The view of a release, from its targets on each platform.
    ///
    /// Without either list, the targets on disk are used, and platforms are not distinguished.
    pub fn new(
        linux: Option<&[Target]>,
        windows: Option<&[Target]>,
        on_disk: impl IntoIterator<Item = Scope>,
    ) -> Self {
        let is_listed = linux.is_some() || windows.is_some();
        let linux = scopes(linux);
        let windows = scopes(windows);
        let available: BTreeSet<Scope> = if is_listed {
            linux.union(&windows).cloned().collect()
        } else {
            on_disk.into_iter().filter(|scope| *scope != Scope::Generic).collect()
        };
        let default = linux.intersection(&windows).next();
        Self {
            default: default.or(available.first()).cloned(),
            available: available.into_iter().collect(),
            linux: linux.iter().cloned().collect(),
            windows: windows.iter().cloned().collect(),
        }
    }

    /// The `sys_platform` marker of a scope that only one platform has. `None` if both have it, or
    /// if platforms are not distinguished. Features are ignored.
    pub fn marker(&self, scope: &Scope) -> Option<&'static str> {
        if self.linux.is_empty() || self.windows.is_empty() {
            return None;
        }
        let packaged = scope.packaged();
        let is_in = |list: &[Scope]| list.iter().any(|scope| scope.packaged() == packaged);
        match (is_in(&self.linux), is_in(&self.windows)) {
            (true, false) => Some("linux"),
            (false, true) => Some("win32"),
            (true, true) | (false, false) => None,
        }
    }
}

fn scopes(targets: Option<&[Target]>) -> BTreeSet<Scope> {
    targets.unwrap_or_default().iter().cloned().map(Scope::Target).collect()
}

/// The expected targets that were not found, without features and sorted.
///
/// Only `gfx942:xnack+` is enough for `gfx942`, because both are in one package. Pass the scopes of
/// artifacts with device code, and not all scopes on disk: a test artifact does not make a target
/// complete.
pub fn missing<'a>(
    expected: &[Target],
    discovered: impl IntoIterator<Item = &'a Scope>,
) -> Vec<Target> {
    let with_code: BTreeSet<Scope> = discovered.into_iter().map(Scope::packaged).collect();
    let wanted: BTreeSet<Target> = expected.iter().map(Target::packaged).collect();
    wanted
        .into_iter()
        .filter(|target| !with_code.contains(&Scope::Target(target.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Option<Vec<Target>> {
        (text != "-").then(|| text.split_whitespace().map(|t| t.parse().unwrap()).collect())
    }

    fn scopes(text: &str) -> Vec<Scope> {
        text.split_whitespace().map(|t| t.parse().unwrap()).collect()
    }

    fn text(scopes: &[Scope]) -> String {
        let texts: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
        texts.join(" ")
    }

    fn view(linux: &str, windows: &str, on_disk: &str) -> PlatformView {
        PlatformView::new(targets(linux).as_deref(), targets(windows).as_deref(), scopes(on_disk))
    }

    #[test]
    fn the_default_is_the_first_that_both_platforms_have_or_else_the_first_of_all() {
        let table = [
            (
                "gfx942 gfx950 gfx1100",
                "gfx1100 gfx1102",
                "gfx1100 gfx1102 gfx942 gfx950",
                "gfx1100",
            ),
            ("gfx900 gfx942", "gfx942", "gfx900 gfx942", "gfx942"),
            ("gfx942", "gfx1100", "gfx1100 gfx942", "gfx1100"),
            ("gfx950 gfx942", "-", "gfx942 gfx950", "gfx942"),
            ("-", "gfx1200 gfx1100", "gfx1100 gfx1200", "gfx1100"),
        ];
        for (linux, windows, available, default) in table {
            let view = view(linux, windows, "gfx90a");
            assert_eq!(text(&view.available), available);
            assert_eq!(view.default.unwrap().as_str(), default);
        }
    }

    #[test]
    fn each_platform_lists_its_own_targets_sorted_and_once() {
        let view = view("gfx950 gfx942:xnack+ gfx942 gfx950", "-", "");
        assert_eq!(text(&view.linux), "gfx942 gfx942:xnack+ gfx950");
        assert_eq!(text(&view.windows), "");
    }

    #[test]
    fn a_platform_without_targets_is_not_a_missing_list() {
        assert_eq!(
            view("", "-", "gfx942"),
            PlatformView::default(),
            "the disk must not count once a list is given"
        );
    }

    #[test]
    fn without_lists_the_disk_decides_and_no_platform_is_told_apart() {
        let view = view("-", "-", "gfx950 gfx94X-dcgpu generic gfx950");
        assert_eq!(text(&view.available), "gfx94X-dcgpu gfx950");
        assert_eq!(view.default.unwrap().as_str(), "gfx94X-dcgpu");
        assert!(view.linux.is_empty() && view.windows.is_empty());
        assert_eq!(PlatformView::new(None, None, scopes("generic")), PlatformView::default());
    }

    #[test]
    fn a_marker_names_the_only_platform_that_has_a_target() {
        let both = view("gfx942:xnack+ gfx1100", "gfx1100 gfx1102", "");
        let linux_only = view("gfx942", "-", "");
        let marker = |view: &PlatformView, scope: &str| view.marker(&scope.parse().unwrap());
        assert_eq!(marker(&both, "gfx942"), Some("linux"));
        assert_eq!(marker(&both, "gfx942:xnack-"), Some("linux"));
        assert_eq!(marker(&both, "gfx1102"), Some("win32"));
        assert_eq!(marker(&both, "gfx1100"), None);
        assert_eq!(marker(&both, "gfx950"), None);
        assert_eq!(marker(&linux_only, "gfx942"), None);
    }

    #[test]
    fn a_target_is_missing_unless_some_variant_of_it_was_found() {
        let missing = |expected: &str, discovered: &str| {
            let targets = missing(&targets(expected).unwrap(), &scopes(discovered));
            targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(missing("gfx942 gfx950", "gfx942 generic"), "gfx950");
        assert_eq!(missing("gfx942", "gfx942:xnack+"), "");
        assert_eq!(missing("gfx942:xnack+", "gfx942"), "");
        assert_eq!(missing("gfx950 gfx942:xnack- gfx942", ""), "gfx942 gfx950");
        assert_eq!(missing("gfx942", "gfx94X-dcgpu generic"), "gfx942");
        assert_eq!(missing("", "gfx942"), "");
    }
}
