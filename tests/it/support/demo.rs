//! A wheel of a framework that links the libraries of the sample, as builds of frameworks make it:
//! with run paths to the machine that built it, and with a hook for an init module.

use crate::support::prelude::*;

/// The hook as PyTorch has it.
pub(crate) const HOOK: &str = "\"\"\"A framework.\"\"\"\ntry:\n    from . import _rocm_init\nexcept ImportError:\n    \
                               pass\nelse:\n    _rocm_init.initialize()\n    del _rocm_init\n";

/// A wheel to be made.
#[derive(Clone, Debug)]
pub(crate) struct DemoWheel {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) platform: String,
    /// Further lines of METADATA.
    pub(crate) headers: String,
    pub(crate) members: Members,
}

/// The library that others link, and the extension of Python.
pub(crate) fn libraries() -> [(&'static str, SharedObject); 2] {
    [
        (
            "fw/lib/libfw.so",
            SharedObject::new("libfw.so")
                .needs("libhipblas.so.3")
                .needs("librocblas.so.5")
                .needs_version("libc.so.6", "GLIBC_2.17")
                .runpath("/builder/lib/python3.12/site-packages/_rocm_sdk_devel/lib"),
        ),
        (
            "fw/_C.so",
            SharedObject::new("_C.so")
                .without_soname()
                .needs("libfw.so")
                .needs("libamdhip64.so.7")
                .runpath("$ORIGIN/lib:/opt/rocm/lib:"),
        ),
    ]
}

impl DemoWheel {
    /// The wheel as a build makes it.
    pub(crate) fn new() -> Self {
        let mut this = Self::bare("fw");
        this.add("fw/__init__.py", HOOK);
        for (path, object) in libraries() {
            this.add(path, object.build());
        }
        this
    }

    /// A wheel without any file.
    pub(crate) fn bare(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: "1.0".to_owned(),
            platform: "linux_x86_64".to_owned(),
            headers: String::new(),
            members: Members::new(),
        }
    }

    pub(crate) fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.members.retain(|it| it.0 != path);
        self.members.push((path.to_owned(), 0o100_644, bytes.into()));
    }

    /// The bytes of the wheel.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Self { name, version, platform, headers, .. } = self;
        let mut members = self.members.clone();
        let info = format!("{name}-{version}.dist-info");
        let texts = [
            (
                "METADATA",
                format!(
                    "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{headers}\nA framework.\n"
                ),
            ),
            (
                "WHEEL",
                format!(
                    "Wheel-Version: 1.0\nGenerator: demo (1)\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
                ),
            ),
            ("RECORD", String::new()),
        ];
        members.extend(
            texts.map(|(file, text)| (format!("{info}/{file}"), 0o100_600, text.into_bytes())),
        );
        record(&mut members);
        zipped(&members)
    }

    /// Writes the wheel into a directory.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        let Self { name, version, platform, .. } = self;
        let path = directory.join(format!("{name}-{version}-py3-none-{platform}.whl"));
        fs_err::write(&path, self.bytes()).unwrap();
        path
    }
}
