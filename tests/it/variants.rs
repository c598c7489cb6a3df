//! Variant wheels in a set: named, listed, described in the index, judged, and installed by no command.

mod index;
mod judges;
mod others;
mod removed;

use crate::support::{prelude::*, published::VERSION};

/// What a variant wheel is made of.
pub(crate) struct VariantWheel {
    pub(crate) label: String,
    /// `variant.json`.
    pub(crate) document: Value,
    /// Further lines of METADATA.
    pub(crate) headers: String,
}

impl VariantWheel {
    /// A wheel of `rocm` for one target, as AMD's provider knows it.
    pub(crate) fn of(target: &str) -> Self {
        let document = json!({
            "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
            "default-priorities": {"namespace": ["amd"]},
            "providers": {"amd": {
                "plugin-api": "rocm_bootstrap.variant_provider:AMDVariantPlugin",
                "requires": ["rocm-bootstrap>=0.3.0"],
            }},
            "variants": {target: {"amd": {"gfx_arch": [target]}}},
        });
        let headers = "Dynamic: Requires-Dist\n".to_owned();
        Self { label: target.to_owned(), document, headers }
    }

    /// The wheel without properties.
    pub(crate) fn null() -> Self {
        let mut wheel = Self::of("gfx942");
        "null".clone_into(&mut wheel.label);
        wheel.document["variants"] = json!({"null": {}});
        wheel
    }

    pub(crate) fn name(&self) -> String {
        format!("rocm-{VERSION}-py3-none-any-{}.whl", self.label)
    }

    /// Writes it, and returns its path.
    pub(crate) fn write(&self, dist: &Path) -> PathBuf {
        let info = format!("rocm-{VERSION}.dist-info");
        let headers = &self.headers;
        let texts = [
            (
                "METADATA",
                format!(
                    "Metadata-Version: 2.2\nName: rocm\nVersion: {VERSION}\nLicense: MIT\n{headers}"
                ),
            ),
            (
                "WHEEL",
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
                    .to_owned(),
            ),
            ("variant.json", self.document.to_string()),
            ("RECORD", String::new()),
        ];
        let of_info = texts.into_iter().filter(|(_, text)| text != "null");
        let mut members: Members =
            vec![("rocm_sdk/selected.py".to_owned(), 0o100_644, b"x = 1\n".to_vec())];
        members.extend(
            of_info.map(|(name, text)| (format!("{info}/{name}"), 0o100_644, text.into_bytes())),
        );
        record(&mut members);
        let path = dist.join(self.name());
        fs_err::create_dir_all(dist).unwrap();
        fs_err::write(&path, zipped(&members)).unwrap();
        path
    }
}

/// The sample with variant wheels of `rocm`, in `set`.
pub(crate) fn set_with(wheels: &[VariantWheel]) -> Sandbox {
    let t = Sandbox::new();
    fs_err::create_dir_all(t.path("set/dist")).unwrap();
    copy_files(&sample().dist(), &t.path("set/dist"));
    for wheel in wheels {
        wheel.write(&t.path("set/dist"));
    }
    t
}
