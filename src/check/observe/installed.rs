//! The facts of installed files, as if they were still in their wheels.

use std::io;

use super::{content, file_name, wheel::keep};
use crate::{
    check::facts::{CheckedPackage, MemberFacts, MemberKind, WheelFile},
    elf::ReadAt,
};

/// The facts of an installed file, from its headers. Its digest is not computed.
pub fn installed_member(path: String, mode: u32, file: &dyn ReadAt) -> io::Result<MemberFacts> {
    let content = content::examine(file, None, keep(&path))?;
    Ok(MemberFacts {
        path,
        kind: MemberKind::File,
        mode,
        content: Ok(content),
    })
}

/// An installed package. `file` is the name that its wheel has or would have.
pub fn installed_wheel(file: String, members: Vec<MemberFacts>) -> WheelFile {
    WheelFile {
        package: CheckedPackage {
            name: file_name(&file),
            size: 0,
            digest: None,
            file,
        },
        faults: Vec::new(),
        members,
        devel: None,
    }
}
