//! The `rocwheel` binary. All code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocwheel::commands::main()
}
