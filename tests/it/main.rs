//! One integration binary, so that it links once. It needs Linux: it loads ELF files, sends signals, makes
//! symlinks and name spaces. On other systems the tests of the modules run, and the sample.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "the names are made by these tests"
)]

use rocwheel_test_servers::judges;

#[macro_use]
extern crate rocwheel_test_files;

mod support;

mod action;
mod all_pythons;
mod architecture;
mod build;
mod check;
mod cli;
mod deps;
mod diff;
mod docs;
mod doctor;
mod elf;
mod fetch;
mod framework;
mod github;
mod hints;
mod install;
mod kpack;
mod launcher;
mod list;
mod network;
mod odd;
mod pipeline;
mod promote;
mod publish;
mod pypi;
mod python;
mod s3;
mod store;
mod summary;
mod targets;
mod terminal;
mod upstream;
mod variants;
mod version;
