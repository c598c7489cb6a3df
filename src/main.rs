//! The `rocwheel` binary. All code is in the library.

use std::process::ExitCode;

/// The one of musl makes threads wait for each other.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    rocwheel::commands::main()
}
