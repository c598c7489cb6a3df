//! [`installed_place`]: where an installer puts a member of a wheel.

/// Where a member is once it is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstalledPlace<'a> {
    /// This path in `site-packages`.
    Packages(&'a str),
    /// This name among the commands of the environment.
    Scripts(&'a str),
    /// In another directory of the environment, such as the directory of headers.
    Elsewhere,
}

/// Where an installer puts a member: the files in `x-1.data` go to the places that its directories name.
pub fn installed_place(member: &str) -> InstalledPlace<'_> {
    let data = member.split_once('/');
    let Some((_, rest)) = data.filter(|(top, _)| top.strip_suffix(".data").is_some()) else {
        return InstalledPlace::Packages(member);
    };
    match rest.split_once('/') {
        Some(("purelib" | "platlib", path)) => InstalledPlace::Packages(path),
        Some(("scripts", name)) => InstalledPlace::Scripts(name),
        // The root of the environment, where the others lie too.
        Some(("data", path)) => {
            let path_in = |directory| path.split_once(directory).map(|(_, rest)| rest);
            let script = path.strip_prefix("bin/").or(path.strip_prefix("Scripts/"));
            match (path_in("/site-packages/"), script) {
                (Some(path), _) => InstalledPlace::Packages(path),
                (None, Some(name)) => InstalledPlace::Scripts(name),
                (None, None) => InstalledPlace::Elsewhere,
            }
        }
        _ => InstalledPlace::Elsewhere,
    }
}

/// The path of a member in `site-packages`. `None` for files that go elsewhere, such as scripts.
pub fn installed_path(member: &str) -> Option<&str> {
    match installed_place(member) {
        InstalledPlace::Packages(path) => Some(path),
        InstalledPlace::Scripts(_) | InstalledPlace::Elsewhere => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_directories_lead_to_other_places() {
        use InstalledPlace::{Elsewhere, Packages, Scripts};
        for (member, place) in [
            ("x/a.py", Packages("x/a.py")),
            ("x.pth", Packages("x.pth")),
            ("x-1.data/purelib/x/a.py", Packages("x/a.py")),
            ("x-1.data/platlib/a.so", Packages("a.so")),
            ("x-1.data/scripts/hipcc", Scripts("hipcc")),
            ("x-1.data/data/bin/hipcc", Scripts("hipcc")),
            ("x-1.data/data/lib/python3.12/site-packages/y/a.py", Packages("y/a.py")),
            ("x-1.data/data/share/man/x.1", Elsewhere),
            ("x-1.data/headers/x.h", Elsewhere),
        ] {
            assert_eq!(installed_place(member), place, "{member}");
        }
    }
}
