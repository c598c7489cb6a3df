//! Lists the code objects of a `.kpack` archive, a bundle, or a binary with its device code inside:
//!
//! ```console
//! $ cargo run -p rocwheel-kpack --example list_kpack -- blas_lib_gfx942.kpack
//! blas_lib_gfx942.kpack: archive
//!   gfx942  lib/librocblas.so.5  bundle 0  45056 bytes
//! ```
#![expect(clippy::print_stdout, reason = "this is what the example says")]

use std::{env, path::Path};

use rocwheel_base::{error::Result, io::FileAt};
use rocwheel_kpack::contents::each;

fn main() -> Result<()> {
    for file in env::args().skip(1) {
        let mut lines = Vec::new();
        // No code object is read here, so none is too large.
        let kind = each(&FileAt::open(Path::new(&file))?, u64::MAX, |code, _read| {
            let name =
                if code.name.is_empty() { String::new() } else { format!("  {}", code.name) };
            lines.push(format!(
                "  {}{name}  bundle {}  {} bytes",
                code.target, code.bundle, code.size
            ));
            Ok(())
        })?;
        match kind {
            Some(kind) => println!("{file}: {kind}"),
            None => println!("{file}: no device code"),
        }
        for line in lines {
            println!("{line}");
        }
    }
    Ok(())
}
