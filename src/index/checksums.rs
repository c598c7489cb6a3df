//! `SHA256SUMS`, in the form that `sha256sum --check` reads.

use std::fmt::Write as _;

use crate::index::{IndexPage, Layout, PackageSet, PageKind, Rank};

/// Lists every file and sidecar by its path relative to the page, so that `sha256sum --check` works
/// in that directory.
pub(super) fn page(set: &PackageSet, layout: Layout) -> IndexPage {
    let mut body = String::new();
    for file in set.files() {
        let _ = writeln!(body, "{}  {}", file.sha256, file.path(layout));
        if let Some(sidecar) = &file.metadata {
            let _ = writeln!(body, "{}  {}", sidecar.sha256, file.sidecar_path(layout));
        }
    }
    IndexPage {
        path: "SHA256SUMS".into(),
        kind: PageKind::Text,
        rank: Rank::Root,
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::set::samples;

    #[test]
    fn sums_name_files_and_sidecars_by_their_path() {
        insta::assert_snapshot!(page(&samples::set(), Layout::Dist).body, @r"
        4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24  dist/rocm-7.13.0.dev0+ab.tar.gz
        cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808  dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl
        e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb  dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl
        9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae  dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl.metadata
        ");
    }
}
