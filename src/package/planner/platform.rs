//! Checks that the artifacts are for the platform of the request. Their names do not tell.

use crate::{
    artifact::{ArtifactTree, TreeContent, TreeFile},
    elf::{ElfKind, Machine},
    error::{Result, anyhow, hinted},
    run::Platform,
};

/// Fails if all programs and libraries of the artifacts are for the other platform. That happens if
/// `--platform` was given to `fetch`, and not to `build`.
pub(super) fn check(tree: &ArtifactTree, platform: Platform) -> Result<()> {
    let mut stranger = None;
    for artifact in &tree.artifacts {
        for file in &artifact.files {
            match made_for(file) {
                Some(found) if found == platform => return Ok(()),
                Some(found) => stranger = stranger.or(Some((found, artifact, file))),
                None => {}
            }
        }
    }
    let Some((found, artifact, file)) = stranger else {
        return Ok(());
    };
    Err(hinted(
        anyhow!(
            "the packages would be for {platform}, and the artifacts are for {found}: `{}` of `{}`",
            file.path,
            artifact.name
        ),
        format!("pass `--platform {found}`, or fetch the artifacts for {platform}"),
    ))
}

/// The platform of a host program or library; `None` for all other files, such as device code.
fn made_for(file: &TreeFile) -> Option<Platform> {
    let TreeContent::File(facts) = &file.content else {
        return None;
    };
    let name = file.path.file_name().to_ascii_lowercase();
    if [".dll", ".exe"].iter().any(|end| name.ends_with(end)) {
        return Some(Platform::Windows);
    }
    let elf = facts.elf.as_ref()?;
    let is_for_hosts = elf.machine == Machine::X86_64 && elf.kind != ElfKind::Other;
    is_for_hosts.then_some(Platform::Linux)
}

#[cfg(test)]
mod tests {
    use crate::{
        elf::Machine,
        error::render,
        package::planner::fixture::{Fixture, file, library, of_machine},
    };

    fn refused(fixture: &Fixture) -> String {
        render(&fixture.try_plan().unwrap_err())
    }

    #[test]
    fn artifacts_for_the_other_platform_are_refused() {
        let linux = Fixture::new()
            .artifact("core-hip_lib_generic")
            .file("lib/libamdhip64.so.7", library("libamdhip64.so.7"));
        insta::assert_snapshot!(refused(&linux.windows()), @"
        error: the packages would be for windows, and the artifacts are for linux: `lib/libamdhip64.so.7` of `core-hip_lib_generic`

        hint: pass `--platform linux`, or fetch the artifacts for windows
        ");
        let windows = Fixture::new()
            .artifact("core-hip_lib_generic")
            .file("bin/AMDHIP64_7.DLL", file());
        insta::assert_snapshot!(refused(&windows), @"
        error: the packages would be for linux, and the artifacts are for windows: `bin/AMDHIP64_7.DLL` of `core-hip_lib_generic`

        hint: pass `--platform windows`, or fetch the artifacts for linux
        ");
    }

    #[test]
    fn what_both_platforms_have_says_nothing_about_either() {
        let code = of_machine(library("libcode.so"), Machine::AmdGpu);
        let windows = Fixture::new()
            .artifact("blas_lib_generic")
            .file("bin/rocblas/library/kernels.hsaco", code)
            .file("include/rocblas.h", file());
        windows.windows().plan();
        // Python for Linux contains launchers for Windows, such as `t64.exe`.
        let linux = Fixture::new()
            .artifact("rocgdb_run_generic")
            .file("lib/python3/distlib/t64.exe", file())
            .file("lib/libgdb.so", library("libgdb.so"));
        linux.plan();
    }
}
