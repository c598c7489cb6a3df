//! Gives a program or library a run path, as `patchelf --force-rpath --set-rpath` does, and moves no byte that
//! was in the file:
//!
//! ```console
//! $ cargo run -p rocwheel-elf --example set_run_path -- '$ORIGIN/../lib' bin/tool
//! bin/tool: Slot, 4096 bytes longer
//! ```
#![expect(clippy::print_stdout, reason = "this is what the example says")]

use std::{env, io, path::Path};

use rocwheel_base::{
    atomic::AtomicFile,
    error::{Context as _, Result, bail},
    io::FileAt,
};
use rocwheel_elf::{PatchedReader, ReadAt as _, Strategy, plan_rpath};

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [run_path, files @ ..] = &arguments[..] else {
        bail!("usage: set_run_path RUN_PATH FILE…");
    };
    let run_path = run_path.parse()?;
    for file in files {
        let path = Path::new(file);
        let source = FileAt::open(path)?;
        let plan = plan_rpath(&source, &run_path).with_context(|| format!("plan `{file}`"))?;
        if let Strategy::Unchanged(reason) = plan.strategy {
            println!("{file}: unchanged, {reason}");
            continue;
        }
        let strategy = plan.strategy;
        let patched = PatchedReader::new(&source, plan);
        let growth = patched.len() - source.len();
        // The file is replaced only once it is whole, with the mode that it had.
        let mut edited = AtomicFile::beside(path)?;
        io::copy(&mut { patched }, edited.file())?;
        edited.file().set_permissions(fs_err::metadata(path)?.permissions())?;
        edited.replace(path)?;
        println!("{file}: {strategy}, {growth} bytes longer");
    }
    Ok(())
}
