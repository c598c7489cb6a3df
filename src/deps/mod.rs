//! The base index: the packages of others that ROCm packages, and packages built on them, need.
//!
//! The index of a run has ROCm packages only, and the base index has no ROCm package, so that it does
//! not matter in which order an installer reads the two. `wishes` reads which projects the base index has
//! (`deps.toml`). `update` has uv pick the files and write them into a lock, which is a `pylock.toml`
//! ([PEP 751](https://peps.python.org/pep-0751/)) that `lock` reads. `check` finds what sets need and the
//! lock does not have. `mirror` copies the locked files to a place.

mod check;
mod environment;
mod lock;
mod mirror;
mod update;
mod wishes;

pub use self::{
    check::{SetPackage, open_requirements, packages_of},
    lock::Lock,
    mirror::Mirror,
    update::update,
    wishes::Wishes,
};
